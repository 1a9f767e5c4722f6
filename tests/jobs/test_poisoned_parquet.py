"""A Parquet file that is damaged in its midst, through the whole job: nothing looks done.

Head and end of the file are whole, so what is wrong is found only where the damage is read.
"""

import os
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from foretell.cli.main import run
from foretell.jobs.journals.journal import Journal

SERIES, STEPS, GROUP_ROWS = 60, 40, 200
WRITERS = {
    "packed": {"compression": "snappy", "use_dictionary": False},
    "with sums": {"compression": "none", "write_page_checksum": True, "use_dictionary": False},
}


def write(path, **options):
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i:02d}" for i in range(SERIES)], STEPS),
            "ds": np.tile(pd.date_range("2024-01-01", periods=STEPS), SERIES),
            "y": rng.normal(size=SERIES * STEPS),
        }
    )
    table.to_parquet(path, index=False, row_group_size=GROUP_ROWS, **options)


def poison(path, column, at=0.5):
    """Damage the page of a column in a row group, that in the middle."""
    metadata = pq.ParquetFile(path).metadata
    group = metadata.row_group(int(metadata.num_row_groups * at))
    (place,) = (
        place
        for place in range(metadata.num_columns)
        if metadata.schema.column(place).name == column
    )
    found = group.column(place)
    content = bytearray(path.read_bytes())
    middle = found.data_page_offset + found.total_compressed_size // 2
    for byte in range(middle, middle + 16):
        content[byte] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture
def forecast(bundle_path, monkeypatch, tmp_path, capfd):
    """By the command, in chunks of a row group; what a library would print counts too."""
    monkeypatch.chdir(tmp_path)

    def call(source, *options):
        command = ["forecast", source, "--model", str(bundle_path), "--horizon", "3"]
        command += ["--output", "out.csv", "--chunk-rows", str(GROUP_ROWS), *options]
        code = run(command)
        return code, capfd.readouterr().err

    return call


@pytest.mark.parametrize("place", ["file", "folder"])
@pytest.mark.parametrize(
    ("writer", "column"), [("packed", "unique_id"), ("with sums", "y"), ("with sums", "ds")]
)
def test_a_damaged_page_ends_the_job_before_it_begins(forecast, tmp_path, writer, column, place):
    path = tmp_path / "in.parquet"
    if place == "folder":
        (tmp_path / "in").mkdir()
        path = tmp_path / "in" / "b.parquet"
        write(tmp_path / "in" / "a.parquet")
    write(path, **WRITERS[writer])
    poison(path, column)
    before = sorted(os.listdir())
    for options in ((), ("--resume",), ("--dry-run",)):
        code, told = forecast("in" if place == "folder" else "in.parquet", *options)
        assert code == 1
        assert told.startswith(
            f"error: {'in' if place == 'folder' else 'in.parquet'} can't be read: "
        )
        assert "Traceback" not in told
        assert told.count("\n") == 1
    assert sorted(os.listdir()) == before


def test_damage_that_comes_while_the_job_works_costs_nothing_that_is_done(
    forecast, tmp_path, monkeypatch
):
    """Once the file is whole again the job goes on, to the same bytes."""
    path, keep = tmp_path / "in.parquet", Journal.add
    write(path, **WRITERS["packed"])
    whole, then = path.read_bytes(), path.stat()
    assert forecast("in.parquet")[0] == 0
    expected = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()

    def keep_and_poison(journal, *arguments, **options):
        keep(journal, *arguments, **options)
        if journal.parts == 1:
            poison(path, "unique_id", at=0.99)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", keep_and_poison)
        code, told = forecast("in.parquet")
    assert code == 1
    assert re.match(r"error: .*in\.parquet has changed since the job began", told), told
    assert "series done and kept; go on with --resume." in told
    assert sorted(os.listdir()) == [".out.csv.foretell-job", "in.parquet"]
    path.write_bytes(whole)
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert forecast("in.parquet", "--resume")[0] == 0
    assert (tmp_path / "out.csv").read_bytes() == expected
