"""Where the room ends while the parts are joined: everything is computed, and none of it is lost.

A limit of the system on the size of a file stands for a full disk: it takes the same way, needs no
rights, and leaves room for each part.
"""

import resource
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from foretell.data.series.options import Columns
from foretell.data.tables.reading import CsvFormat
from foretell.jobs.lines import output as line_output
from foretell.jobs.lines.translate import TranslateJob, run_translate_job
from foretell.jobs.tables.batch import run_job
from foretell.jobs.tables.forecast_job import ForecastJob

MOST_BYTES = 1 << 14
rng = np.random.default_rng(7)  # what gzip can't pack


@contextmanager
def small_disk():
    """No file of this process can be larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def noise(context, horizon):
    """Numbers that hang on the context, and that Parquet can't pack."""
    return np.random.default_rng(int(1e9 * abs(context[-1]))).normal(size=horizon)


class Lines:
    """A text, whose lines are turned round."""

    unit = "400 lines"

    def __init__(self, folder, request):
        self.model = request.getfixturevalue("backwards")()
        text = "".join(f"{rng.bytes(50).hex()} {i}\n" for i in range(400))
        (folder / "in.txt").write_text(text)
        self.source = str(folder / "in.txt")

    def run(self, output, **options):
        job = TranslateJob(source=self.source, output=output, chunk_lines=40, **options)
        run_translate_job(job, self.model.door)


class Table:
    """Series, each with a forecast of its own."""

    unit = "100 series"

    def __init__(self, folder, request):
        self.model = request.getfixturevalue("stand_in")(noise)
        days = pd.date_range("2024-01-01", periods=4)
        table = pd.DataFrame(
            {
                "unique_id": np.repeat([rng.bytes(20).hex() for _ in range(100)], 4),
                "ds": np.tile(days, 100),
                "y": rng.normal(size=400),
            }
        )
        table.to_csv(folder / "in.txt", index=False)
        self.source = str(folder / "in.txt")

    def run(self, output, **options):
        job = ForecastJob(
            data=self.source,
            columns=Columns(),
            csv=CsvFormat(),
            horizon=20,
            freq="D",
            output=output,
            chunk_rows=16,
            **options,
        )
        run_job(job, self.model.door)


@pytest.mark.parametrize(
    ("make", "name", "old"),
    [
        (Lines, "out.txt", b"yesterday's"),
        (Lines, "out.txt.gz", None),
        (Table, "out.csv", None),
        (Table, "out.csv.gz", b"yesterday's"),
        (Table, "out.parquet", b"yesterday's"),
    ],
)
def test_the_join_fails_with_the_name_and_goes_on_without_computing(
    tmp_path, request, monkeypatch, make, name, old
):
    monkeypatch.setattr(line_output, "_SECONDS_OF_A_PART", 0.0)
    work, output = make(tmp_path, request), tmp_path / name
    work.run(tmp_path / f"whole-{name}")
    expected = (tmp_path / f"whole-{name}").read_bytes()
    (tmp_path / f"whole-{name}").unlink()
    assert len(expected) > MOST_BYTES
    if old is not None:
        output.write_bytes(old)
    with small_disk(), pytest.raises(OSError, match="File too large") as error:
        work.run(output, overwrite=old is not None)
    assert error.value.filename == str(output)
    assert error.value.__notes__ == [f"{work.unit} done and kept; go on with --resume."]
    assert (output.read_bytes() if output.exists() else None) == old
    left = {f".{name}.foretell-job", "in.txt"} | ({name} if old is not None else set())
    assert {path.name for path in tmp_path.iterdir()} == left
    work.model.asked.clear()
    work.run(output, resume=True)
    assert work.model.asked == []
    assert output.read_bytes() == expected
