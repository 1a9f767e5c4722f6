"""`foretell serve` as a process of its own: start, answer, refusals to start, stop."""

import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

SERVE = [sys.executable, "-m", "foretell.cli.main", "serve"]
ROWS = "unique_id,ds,y\n" + "".join(f"a,2024-01-{day:02d},{day}\n" for day in range(1, 20))


@pytest.fixture(scope="module")
def server(bundle_path):
    process = subprocess.Popen(
        [*SERVE, str(bundle_path.parents[1]), "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if "listening on " in line:
            break
    yield line.split("listening on ")[1].strip()
    process.send_signal(signal.SIGTERM)
    process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0


def test_a_server_answers_what_this_process_answers(foretell, server, bundle_path, tmp_path):
    (tmp_path / "in.csv").write_text(ROWS)
    call = ["forecast", "in.csv", "--horizon", 5]
    there = foretell(*call, "--server", server, "--model", "tiny", "--output", "there.csv")
    assert there.code == 0
    assert f"tiny version 1 at {server}" in there.err
    here = foretell(*call, "--model", bundle_path, "--output", "here.csv")
    assert here.code == 0
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    unnamed = foretell(*call, "--server", server)
    assert unnamed.out == (tmp_path / "here.csv").read_text()


def test_refused_series_come_back_over_the_wire(foretell, server, tmp_path):
    (tmp_path / "in.csv").write_text(ROWS + "b,2024-01-01,1\nb,2024-01-01,2\n")
    ended = foretell("forecast", "in.csv", "--horizon", 2, "--server", server, "--output", "o.csv")
    assert ended.code == 3
    assert pd.read_csv("o.csv.refused.csv")["unique_id"].tolist() == ["b"]
    assert len(pd.read_csv("o.csv")) == 2


def test_an_unknown_model_is_answered_with_those_there_are(foretell, server, tmp_path):
    (tmp_path / "in.csv").write_text(ROWS)
    ended = foretell("forecast", "in.csv", "--horizon", 2, "--server", server, "--model", "nope")
    assert ended.code == 1
    assert "nope" in ended.err
    assert "tiny" in ended.err


@pytest.mark.parametrize(
    ("listen", "code"), [("taken", 1), ("127.0.0.1:99999", 2), ("127.0.0.1", 2), ("", 2)]
)
def test_an_address_that_cannot_be_had_is_named(foretell, server, bundle_path, listen, code):
    listen = server if listen == "taken" else listen
    start = time.monotonic()
    done = subprocess.run(
        [*SERVE, str(bundle_path), "--listen", listen],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert time.monotonic() - start < 60
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    assert (listen.rpartition(":")[2] or "HOST:PORT") in done.stderr


def test_nothing_to_serve_is_refused(foretell, tmp_path):
    ended = foretell("serve", tmp_path / "nowhere")
    assert ended.code == 1
    assert "nowhere" in ended.err


def test_workers_are_forked_by_the_command_itself(foretell, bundle_path, tmp_path):
    """A process with threads can't be forked safely, so the command must not have begun any."""
    (tmp_path / "in.csv").write_text(ROWS)
    serve = [*SERVE, str(bundle_path.parents[1]), "--listen", "127.0.0.1:0", "--workers", "2"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as process:
        lines = iter(process.stderr)
        log = ""
        while " with 2 workers" not in log:
            log += next(lines)  # which ends where the server has
        address = log.split("listening on ")[1].split()[0]
        assert foretell("forecast", "in.csv", "--horizon", 5, "--server", address).code == 0
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait() == 0
