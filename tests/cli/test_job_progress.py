"""How far a job is: seen on a terminal, told in a log, and never among the data."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from foretell.cli import job_progress
from foretell.jobs.summary import JobProgress

FORETELL = [sys.executable, "-m", "foretell.cli.main"]
SLOW = Path(__file__).parents[1] / "jobs" / "slow_translate.py"
ROWS = "unique_id,ds,y\n" + "".join(f"a,2024-01-{day:02d},{day}\n" for day in range(1, 20))


def progress(done, total=None, rate=1950.4, left_s=None):
    return JobProgress(done=done, total=total, rate=rate, left_s=left_s)


@pytest.mark.parametrize(
    ("left_s", "told"),
    [
        (None, "1,950 lines/s"),
        (0.4, "1,950 lines/s, 0 s left"),
        (89, "1,950 lines/s, 89 s left"),
        (100, "1,950 lines/s, 2 min left"),
        (7200, "1,950 lines/s, 2.0 h left"),
    ],
)
def test_rate_and_time_left(left_s, told):
    assert job_progress.facts(progress(1, left_s=left_s), "lines") == told


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    """Not one a chunk: a night's log would be nothing else."""
    now = [0.0]
    monkeypatch.setattr(job_progress.time, "monotonic", lambda: now[0])
    with job_progress.job_progress("lines") as show:
        for second in range(25):
            now[0] = float(second)
            show(progress(second, total=30, left_s=30.0 - second))
    assert capsys.readouterr().err.splitlines() == [
        "10 of 30 lines done (1,950 lines/s, 20 s left)",
        "20 of 30 lines done (1,950 lines/s, 10 s left)",
    ]


def test_a_table_that_is_read_before_the_job_begins_is_told_in_megabytes(monkeypatch, capsys):
    """The first series may be an hour away."""
    monkeypatch.setattr(job_progress, "SECONDS_BETWEEN_LINES", 0.0)
    with job_progress.job_progress("series") as show:
        reading = {"rate": 310.0, "left_s": None, "reading": "standard input copied"}
        show(JobProgress(done=900, total=None, **reading))
        reading = {"rate": 310.0, "left_s": 9.7, "reading": "in.csv read"}
        show(JobProgress(done=1200, total=4200, **reading))
        show(progress(5, total=10, left_s=9.7))
    assert capsys.readouterr().err.splitlines() == [
        "900 MB of standard input copied (310 MB/s)",
        "1,200 of 4,200 MB of in.csv read (310 MB/s, 10 s left)",
        "5 of 10 series done (1,950 series/s, 10 s left)",
    ]


@pytest.fixture
def on_a_terminal(tmp_path):
    """Runs a command whose messages go to a terminal; returns its output and what was seen."""

    def run(*command):
        terminal, ours = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=ours, env=environment
        )
        os.close(ours)
        with process, open(terminal, "rb", closefd=True) as screen:
            seen = io.BytesIO()
            try:
                while block := screen.read1(1 << 16):
                    seen.write(block)
            except OSError:  # so ends a terminal
                pass
            return process.stdout.read().decode(), seen.getvalue().decode()

    return run


def test_data_on_standard_output_stay_there_while_a_bar_is_shown(
    on_a_terminal, bundle_path, tmp_path
):
    """`foretell forecast ... > out.csv` at a desk: the numbers belong into the file."""
    (tmp_path / "in.csv").write_text(ROWS)
    model = ["--model", str(bundle_path), "--horizon", "3"]
    data, seen = on_a_terminal(*FORETELL, "forecast", "in.csv", *model)
    assert [line.split(",")[0] for line in data.splitlines()] == ["unique_id", *"aaa"]
    assert "unique_id" not in seen


READING_IS_LONG = """
from foretell.cli.main import main
from foretell.jobs.tables import reading_meter
reading_meter._SHORT_S = 0.0
main()
"""


def test_a_bar_is_seen_while_a_table_is_read(on_a_terminal, bundle_path, tmp_path):
    (tmp_path / "in.csv").write_text(ROWS)
    arguments = ["in.csv", "--model", str(bundle_path), "--horizon", "3", "--dry-run"]
    command = [sys.executable, "-c", READING_IS_LONG, "forecast", *arguments]
    _, seen = on_a_terminal(*command, "--output", "out.csv")
    assert "MB of in.csv read" in seen
    assert "MB/s" in seen
    assert "would forecast 1 series (19 rows)" in seen


def test_a_bar_is_seen_and_the_lines_are_in_the_file(on_a_terminal, tmp_path):
    (tmp_path / "in.txt").write_text("one two\n" * 50)
    command = [sys.executable, str(SLOW), "50", "translate", "in.txt", "--model", "m"]
    _, seen = on_a_terminal(*command, "--chunk-lines", "10", "--output", "out.txt")
    assert (tmp_path / "out.txt").read_text() == "two one\n" * 50
    assert "50/50" in seen
    assert "lines/s" in seen
    assert "50 lines translated by Backwards" in seen
