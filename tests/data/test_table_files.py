"""Inputs of a plan: anything that `read_table` reads, and clear words for files that go wrong."""

import gzip
import io
import multiprocessing
import os
import pickle
import runpy
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foretell.data.errors import TableError
from foretell.data.series.options import Columns
from foretell.data.series.rows import read_rows
from foretell.data.tables import chunk_files, csv_blocks, seen_files
from foretell.data.tables.plan import TablePlan, plan_table
from foretell.data.tables.reading import CsvFormat, read_table

oracle = runpy.run_path(str(Path(__file__).with_name("table_oracle.py")))
HEADER = "unique_id,ds,y\n"


def lines(series: int, steps: int = 4) -> list[str]:
    return [
        f"s{one},2024-01-{step + 1:02},{one + step}\n"
        for one in range(series)
        for step in range(steps)
    ]


def plan_of(path: Path | str, work: Path, most_rows: int = 8, **more: object) -> TablePlan:
    return plan_table(
        path, csv=CsvFormat(), columns=Columns(), work=work, most_rows=most_rows, **more
    )


def table_of(plan: TablePlan) -> pd.DataFrame:
    chunks = [plan.read(ref.number) for ref in plan.chunks]
    assert [chunk.first_series for chunk in chunks] == [ref.first_series for ref in plan.chunks]
    assert [len(chunk.table) for chunk in chunks] == [ref.num_rows for ref in plan.chunks]
    return pd.concat([oracle["plain"](chunk.table) for chunk in chunks], ignore_index=True)


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("kind", ["csv", "gzip", "pipe", "stdin", "link", "parquet", "folder"])
def test_any_input_is_cut_into_the_same_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_sorted: bool
) -> None:
    rows = lines(6)
    if not is_sorted:
        rows = rows[::2] + rows[1::2]
    content = "".join([HEADER, *rows]).encode()
    path = tmp_path / "table.csv"
    path.write_bytes(gzip.compress(content) if kind == "gzip" else content)
    expected = read_table(path)
    order = np.argsort(pd.factorize(expected["unique_id"])[0], kind="stable")
    expected = expected.iloc[order].reset_index(drop=True)
    writer = None
    if kind == "pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(content,))
        writer.start()
    elif kind == "stdin":
        path = Path("-")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    elif kind == "link":
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    elif kind in {"parquet", "folder"}:
        path = tmp_path / kind
        whole = pa.Table.from_pandas(read_table(tmp_path / "table.csv"))
        if kind == "parquet":
            pq.write_table(whole, path, row_group_size=5)
        else:
            path.mkdir()
            for number in range(4):
                pq.write_table(whole.slice(6 * number, 6), path / f"{number}.parquet")
    plan = plan_of(path, tmp_path / "work")
    if writer is not None:
        writer.join()
    pd.testing.assert_frame_equal(table_of(plan), expected)
    assert plan.is_partitioned is not is_sorted
    assert (plan.partition_bytes > 0) is not is_sorted
    assert [ref.num_series for ref in plan.chunks] == [2, 2, 2]
    is_copied = kind in {"gzip", "pipe", "stdin"}
    assert (tmp_path / "work").exists() == (is_copied or not is_sorted), "nothing else is copied"


def read_in_another_process(pickled: bytes) -> list[int]:
    plan: TablePlan = pickle.loads(pickled)
    os.chdir("/")
    return [len(plan.read(ref.number).table) for ref in reversed(plan.chunks)]


def test_a_plan_is_small_and_reads_in_any_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.csv").write_text(HEADER + "".join(lines(200)))
    monkeypatch.chdir(tmp_path)
    plan = plan_of("table.csv", Path("work"))
    pickled = pickle.dumps(plan)
    assert len(pickled) < 20_000
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(read_in_another_process, (pickled,)) == [8] * 100


def test_one_series_larger_than_a_chunk_is_a_chunk_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(
        HEADER + "".join([*lines(1), *[f"giant,{n},1\n" for n in range(50)], "z,1,1\n"])
    )
    plan = plan_of(path, tmp_path / "work")
    assert [(ref.num_series, ref.num_rows) for ref in plan.chunks] == [(1, 4), (1, 50), (1, 1)]


def test_folders_named_by_a_key_give_ids_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    """Spark writes `_temporary`, macOS `._part.parquet`, and a killed job a hidden partial file."""
    for name in ("unique_id=007", "unique_id=7", "_temporary", ".trash"):
        (tmp_path / "data" / name).mkdir(parents=True)
        table = pa.table({"ds": ["2024-01-01", "2024-01-02"], "y": [1.0, 2.0]})
        pq.write_table(table, tmp_path / "data" / name / "part.parquet")
    (tmp_path / "data" / "unique_id=7" / "._part.parquet").write_bytes(b"resource fork")
    (tmp_path / "data" / "_SUCCESS").touch()
    plan = plan_of(tmp_path / "data", tmp_path / "work", most_rows=2)
    assert table_of(plan)["unique_id"].tolist() == ["007", "007", "7", "7"]
    assert read_table(tmp_path / "data")["unique_id"].tolist() == ["007", "007", "7", "7"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n \n",
        b"unique_id,ds,y\n",
        b"unique_id,ds,y",
        b"unique_id,ds,y\n\n\r\n",
        b"unique_id,ds,y,y\na,1,1,1\n",
        b"unique_id,ds\na,1\n",
        b"id,ds,y\n1,1,1\n",
        b"\x00\x01 junk",
        b"PK\x03\x04 sheet",
        b"PAR1 not really",
        b"\xff\xfe" + HEADER.encode("utf-16-le"),
        b"unique_id,ds,y,note\na,1,1,K\xf6ln\n",
        b'unique_id,ds,y\na,1,"2',
        b'unique_id,ds,y\n"a,1,2\n"b,1,2\n',
        b"unique_id,ds,y\n,1,1\n\xc2\xa0,1,1\na,1,1\n",
        b"\xef\xbb\xbf\r\n\r\nunique_id,ds,y\r\na,1,1\r\n\r\nb,1,1",
        b"unique_id,ds,y\na,1,1\r\r\nb,1,1\rc,1,1",
        gzip.compress(HEADER.encode() + b"a,1,1\n" * 9999)[:-20],
        gzip.compress(b"", mtime=0),
    ],
)
def test_what_is_no_table_is_refused_in_the_same_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    oracle["assert_same"](path, CsvFormat(), Columns(), tmp_path / "work", 1)


@pytest.mark.parametrize("name", ["none.csv", "empty"])
def test_inputs_that_are_not_there_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    oracle["assert_same"](tmp_path / name, CsvFormat(), Columns(), tmp_path / "work", 1)


def test_a_missing_column_is_told_before_the_file_is_read(tmp_path: Path) -> None:
    """A hundred gigabytes later is late."""
    path = tmp_path / "table.csv"
    path.write_text("unique_id,ds,z\nbroken row\n")
    with pytest.raises(TableError, match="no column 'y'; it has 'unique_id', 'ds', 'z'"):
        plan_of(path, tmp_path / "work")


def test_a_row_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    """Both in a table that is read in spans and in one that had to be sorted."""
    rows = lines(40)
    rows[101] = rows[101].replace(",2024-01-02,", ",soon,")
    for order in (rows, rows[::2] + rows[1::2]):
        path = tmp_path / "table.csv"
        path.write_text(HEADER + "".join(order))
        plan = plan_of(path, tmp_path / "work")
        refusals = [
            (plan.chunks[ref.number].first_series + refusal.position, refusal.reason)
            for ref in plan.chunks
            for refusal in read_rows(plan.read(ref.number).table, Columns()).refusals
        ]
        (refusal,) = read_rows(read_table(path), Columns()).refusals
        assert refusals == [(refusal.position, refusal.reason)]
        assert f"in row {order.index(rows[101]) + 1}," in refusal.reason


def change(path: Path, kind: str) -> None:
    if kind == "grown":
        with path.open("ab") as file:
            file.write(b"s0,2025-01-01,1\n")
    elif kind == "replaced":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(0, 1))
    elif kind == "replaced, and as old":  # as `cp -p` and `rsync -t` do
        other, was = path.with_name("other.bin"), path.stat()
        other.write_bytes(path.read_bytes())
        change(other, "replaced")
        os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
        other.replace(path)
    else:
        path.unlink()


@pytest.mark.parametrize("name", ["table.csv", "table.parquet", "folder"])
@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("grown", "has changed since the job began"),
        ("replaced", "has changed since the job began"),
        ("replaced, and as old", "has changed since the job began"),
        ("gone", "was there when the job began, and is gone"),
    ],
)
def test_an_input_that_changes_is_refused_and_never_other_numbers(
    tmp_path: Path, name: str, kind: str, match: str
) -> None:
    path = file = tmp_path / name
    table = tmp_path / "source.csv"
    table.write_text(HEADER + "".join(lines(9)))
    if name == "table.csv":
        path.write_bytes(table.read_bytes())
    else:
        if name == "folder":
            path.mkdir()
            file = path / "0.parquet"
        read_table(table).to_parquet(file, row_group_size=5)
    plan = plan_of(path, tmp_path / "work")
    plan.read(1)
    change(file, kind)
    with pytest.raises(TableError, match=match):
        plan.read(1)


@pytest.mark.parametrize(
    ("ids", "stamps", "told"),
    [
        (["007"], [3], "1.parquet has 'unique_id' as .*string"),
        ([7], [pd.Timestamp("2024-01-01")], "1.parquet has 'ds' as timestamp"),
    ],
)
def test_files_of_other_types_are_no_one_table(
    tmp_path: Path, ids: list[object], stamps: list[object], told: str
) -> None:
    """Arrow would read all as the first file: 007 as 7, and another series' rows with it."""
    path = tmp_path / "folder"
    path.mkdir()
    first = pd.DataFrame({"unique_id": [7], "ds": [2], "y": [1.0]})
    first.to_parquet(path / "0.parquet")
    first.assign(y=[1]).astype({"unique_id": "int32"}).to_parquet(path / "0a.parquet")
    assert len(read_table(path)) == 2  # numbers are numbers
    first.assign(z=["x"]).to_parquet(path / "0b.parquet")
    first.assign(z=[1]).to_parquet(path / "0c.parquet")
    plan_of(path, tmp_path / "work")  # nobody reads z
    pd.DataFrame({"unique_id": ids, "ds": stamps, "y": [1.0]}).to_parquet(path / "1.parquet")
    for read in (read_table, lambda path: plan_of(path, tmp_path / "work")):
        with pytest.raises(TableError, match=told):
            read(path)


def test_a_copy_with_another_time_of_change_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines of a cluster may see copies; each is read once to tell, not for every chunk."""
    hashed: list[Path] = []
    sha256 = seen_files._sha256
    monkeypatch.setattr(seen_files, "_sha256", lambda path: hashed.append(path) or sha256(path))
    path = tmp_path / "table.csv"
    path.write_text(HEADER + "".join(lines(9)))
    plan = plan_of(path, tmp_path / "work")
    os.utime(path, ns=(0, 1))
    assert len(table_of(plan)) == 36
    assert hashed == [path]


@pytest.mark.parametrize("what", ["changed", "gone", "spoilt"])
def test_sorted_rows_that_go_wrong_are_told(tmp_path: Path, what: str) -> None:
    path = tmp_path / "table.csv"
    rows = lines(9)
    path.write_text(HEADER + "".join(rows[::2] + rows[1::2]))
    plan = plan_of(path, tmp_path / "work")
    (file,) = (tmp_path / "work").iterdir()
    content = file.read_bytes()
    if what == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-9] if what == "changed" else b"\xff" * len(content))
    with pytest.raises(TableError, match="start the job anew"):
        plan.read(1)


def test_rows_of_many_sorted_files_come_in_order_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 100)
    monkeypatch.setattr(chunk_files, "RUN_BYTES", 300)
    random = np.random.default_rng(0)
    rows = [lines(9, 20)[place] for place in random.permutation(180)]
    path = tmp_path / "table.csv"
    path.write_text(HEADER + "".join(rows))
    told: list[str] = []
    plan = plan_of(path, tmp_path / "work", most_rows=40, tell=told.append)
    assert len(list((tmp_path / "work").iterdir())) > 5
    for ref in plan.chunks:
        table = plan.read(ref.number).table
        for _, series in table.groupby("unique_id"):
            assert series.index.is_monotonic_increasing
    assert "don't follow each other" in told[0]
    assert f"{plan.partition_bytes / 1e6:,.1f} MB" in told[1]


def test_row_groups_larger_than_memory_are_cut_first(tmp_path: Path) -> None:
    """A part of a row group is read by decoding all that stands before it."""
    path = tmp_path / "table.parquet"
    table = pa.table({"unique_id": [f"s{n // 4}" for n in range(200)], "ds": list(range(4)) * 50})
    pq.write_table(table.append_column("y", pa.array([1.0] * 200)), path)
    told: list[str] = []
    plan = plan_of(path, tmp_path / "work", most_rows=8, tell=told.append)
    assert plan.is_partitioned
    assert "row groups of up to 200 rows" in told[0]
    assert len(table_of(plan)) == 200


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("damage", ["cut", "page", "other"])
def test_a_poisoned_parquet_file_is_refused_before_any_work(
    tmp_path: Path, is_folder: bool, damage: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    table = pd.DataFrame({"unique_id": list("aabb"), "ds": [1, 2, 1, 2], "y": [0.5, 1.5, 2.5, 3.5]})
    for name in ("0.parquet", "1.parquet"):
        table.to_parquet(folder / name, compression=None)
    file = folder / "1.parquet"
    content = bytearray(file.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "page":
        content[4:40] = b"\xff" * 36
    else:
        content = bytearray(b"no table at all, and no CSV either\n")
    file.write_bytes(content)
    path = folder if is_folder else file
    with pytest.raises(TableError) as caught:
        plan_of(path, tmp_path / "work")
    assert str(path) in str(caught.value)


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress((HEADER + "".join(lines(9))).encode()))
    (tmp_path / "work").write_text("a file stands there")
    with pytest.raises(
        TableError, match=r"work can't hold a copy .*name an output on another disk"
    ):
        plan_of(path, tmp_path / "work")


def test_a_fingerprint_is_of_all_bytes_and_of_nothing_else(tmp_path: Path) -> None:
    def fingerprint(rows: list[str], future: list[str], name: str = "table.csv") -> str:
        for file, content in ((name, rows), ("future.csv", future)):
            text = (HEADER + "".join(content)).encode()
            (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith("gz") else text)
        return plan_of(
            tmp_path / name, tmp_path / "work", future=tmp_path / "future.csv"
        ).fingerprint

    first = fingerprint(lines(3), lines(2))
    assert fingerprint(lines(3), lines(2)) == first
    assert fingerprint(lines(3), lines(2), "copy.csv.gz") == first, "the same table in gzip"
    others = {fingerprint(lines(2), lines(3)), fingerprint(lines(3)[:-1], lines(2))}
    assert len(others | {first}) == 3
