"""A server with TLS, certificates of clients and tokens, from the command line to the forecast."""

import os
import re
import subprocess
import sys

import pandas as pd

FORETELL = [sys.executable, "-m", "foretell.cli.main"]


def run(*arguments, **variables):
    return subprocess.run(
        [*FORETELL, *map(str, arguments)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_ask_a_secured_server(bundle_path, make_authority, tmp_path):
    authority = make_authority(tmp_path)
    server, mine = authority.sign("server"), authority.sign("mine")
    tokens, sales = tmp_path / "tokens.txt", tmp_path / "sales.csv"
    days = pd.date_range("2024-01-01", periods=90)
    pd.DataFrame({"unique_id": "a", "ds": days, "y": range(90)}).to_csv(sales, index=False)
    made = run("token", "nightly", "--tokens", tokens)
    assert (made.returncode, len(made.stdout)) == (0, 44)
    serve = [*FORETELL, "serve", bundle_path, "--listen", "localhost:0", "--metrics", "none"]
    serve += ["--tls-cert", server.cert, "--tls-key", server.key]
    serve += ["--tls-client-ca", authority.cert, "--tokens", tokens]
    serve += ["--workers", "2", "--model-control", "poll", "--drain-delay-s", "0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr if "listening on " in line)
            port = re.search(r":(\d+)\s", line.split("listening on ")[1])[1]
            ask = ["forecast", sales, "--server", f"localhost:{port}", "--horizon", 3]
            shown = {
                "FORETELL_CA": str(authority.cert),
                "FORETELL_CERT": str(mine.cert),
                "FORETELL_KEY": str(mine.key),
            }
            good = run(*ask, **shown, FORETELL_TOKEN=made.stdout.strip())
            assert good.returncode == 0, good.stderr
            assert len(good.stdout.splitlines()) == 4
            refused = run(*ask, **shown)
            assert refused.returncode == 1
            assert "UNAUTHENTICATED" in refused.stderr
            assert "FORETELL_TOKEN" in refused.stderr, "who types commands has no token="
            in_clear = run(*ask)
            assert in_clear.returncode == 1
            assert "FORETELL_CA" in in_clear.stderr
        finally:
            process.terminate()
            process.stderr.read()  # until the workers have ended too
        assert process.wait() == 0


def test_a_server_without_its_tokens_or_certificates_does_not_start(bundle_path, tmp_path):
    (tmp_path / "empty").touch()
    for arguments, problem in [
        (["--tokens", tmp_path / "empty"], "holds no token"),
        (["--tls-cert", tmp_path / "empty", "--tls-key", tmp_path / "empty"], "no certificate"),
    ]:
        ended = run("serve", bundle_path, "--listen", "127.0.0.1:0", *arguments)
        assert ended.returncode == 1
        assert problem in ended.stderr
    ended = run("serve", bundle_path, "--tls-cert", tmp_path / "empty")
    assert ended.returncode == 2
    assert "--tls-cert is given without --tls-key; TLS needs both." in ended.stderr
