"""A table that is forecast in chunks gives what the table in one piece gives, byte for byte.

The oracle is the slow way: the whole table in memory, one question, pandas' own writers.
"""

import io
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.errors import ForetellError, OptionError, TableError, TableWarning
from foretell.data.series.answers import forecast_table
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.data.tables.reading import CsvFormat, read_table
from foretell.jobs.tables import batch
from foretell.jobs.tables import work as table_work
from foretell.jobs.tables.batch import Listeners, preview_job, run_job
from foretell.jobs.tables.forecast_job import ForecastJob

HORIZON = 2


def by_hand(data, model, *, future=None, horizon=HORIZON):
    """Forecast a table in one piece: what is to be written, the refused series, the warnings."""
    columns = Columns(future_covariates=model.manifest.forecaster.future_covariates)
    rows = read_rows(read_table(data, columns=columns), columns)
    ahead = None
    if future is not None:
        ahead = read_future_rows(read_table(future, columns=columns), columns)
    answer = model.forecast_rows(rows, ahead, ForecastOptions(horizon=horizon))
    refused = [(one.position, str(one.unique_id), one.reason) for one in answer.refusals]
    return forecast_table(answer), refused, answer.warnings


def csv_of(table):
    return table.to_csv(index=False, lineterminator="\n", chunksize=len(table) + 1).encode()


def refused_of(output):
    side = output.with_name(f"{output.name}.refused.csv")
    if not side.exists():
        return []
    table = pd.read_csv(side, dtype={"unique_id": str}, keep_default_na=False)
    return [*table.itertuples(index=False, name=None)]


@pytest.fixture
def run(tmp_path, stand_in):
    """Run a job of small chunks over `in.csv`; return its result."""

    def run_one(*, model=None, door=None, preview=False, progress=lambda _: None, **options):
        values = {
            "data": str(tmp_path / "in.csv"),
            "columns": Columns(),
            "csv": CsvFormat(),
            "horizon": HORIZON,
            "output": tmp_path / "out.csv",
            "chunk_rows": 7,
        }
        job = ForecastJob(**(values | options))
        call = preview_job if preview else run_job
        return call(job, door or (model or stand_in()).door, Listeners(progress=progress))

    return run_one


def rows_of(unique_id, *, start="2024-01-06", freq="D", values=(1.0, 2.0, 3.0, 4.0)):
    stamps = pd.date_range(start, periods=len(values), freq=freq)
    return pd.DataFrame({"unique_id": unique_id, "ds": stamps.astype(str), "y": values})


def write(table, path):
    table.to_csv(path, index=False)


SERIES = st.tuples(
    st.sampled_from(["D", "h", "MS"]),
    st.sampled_from([(1, 2, 3, 4), (5,) * 9, ("", "", ""), (1, "three", 2), (7, "", 8, 9)]),
)


@settings(max_examples=12)
@given(
    series=st.lists(SERIES, min_size=1, max_size=8),
    chunk_rows=st.integers(1, 30),
    seed=st.none() | st.integers(0, 5),
    form=st.sampled_from([".csv", ".parquet"]),
)
def test_any_table_in_any_chunks(tmp_path_factory, stand_in, series, chunk_rows, seed, form):
    """Of all kinds of series, bad ones among them, in order or not."""
    folder = tmp_path_factory.mktemp("job")
    table = pd.concat(
        rows_of(f"{i:03d}", freq=freq, values=values) for i, (freq, values) in enumerate(series)
    )
    if seed is not None:
        table = table.sample(frac=1, random_state=seed)
    write(table, folder / "in.csv")
    expected, refused, _ = by_hand(folder / "in.csv", stand_in())
    job = ForecastJob(
        data=str(folder / "in.csv"),
        columns=Columns(),
        csv=CsvFormat(),
        horizon=HORIZON,
        output=folder / f"out{form}",
        chunk_rows=chunk_rows,
    )
    result = run_job(job, stand_in().door)
    assert refused_of(job.output) == refused
    assert (result.num_answered, result.refused.count) == (len(expected) / HORIZON, len(refused))
    if expected.empty:
        assert not job.output.exists()
    elif form == ".csv":
        assert job.output.read_bytes() == csv_of(expected)
    else:
        whole = io.BytesIO()
        expected.to_parquet(whole, index=False)
        assert job.output.read_bytes() == whole.getvalue()


def test_no_more_than_a_chunk_is_asked_for_at_a_time(run, tmp_path, stand_in):
    write(pd.concat(rows_of(f"s{i}") for i in range(20)), tmp_path / "in.csv")
    model = stand_in()
    run(model=model, chunk_rows=13)
    sizes = [len(rows.target) for rows, _, _ in model.asked]
    assert sorted(sizes) == [8] + [12] * 6, "threads ask in any order"


def test_long_answers_bound_a_chunk_as_long_histories_do(run, tmp_path, stand_in, monkeypatch):
    """A year ahead of a million products of one row each would be a terabyte at once."""
    monkeypatch.setattr(table_work, "_MOST_NUMBERS", 3 * 40 * 5)
    write(pd.concat(rows_of(f"s{i}") for i in range(10)), tmp_path / "in.csv")
    model = stand_in()
    run(model=model, chunk_rows=1000, horizon=40)
    assert sorted(len(rows.ids) for rows, _, _ in model.asked) == [1, 3, 3, 3]
    expected, _, _ = by_hand(tmp_path / "in.csv", stand_in(), horizon=40)
    assert (tmp_path / "out.csv").read_bytes() == csv_of(expected)


@pytest.mark.parametrize("kind", ["integer", "category"])
def test_parquet_types_survive_chunks(run, tmp_path, stand_in, kind):
    table = pd.concat([rows_of(i) for i in (30, 4, 7)])
    table["ds"] = pd.to_datetime(table["ds"])
    if kind == "category":
        order = pd.CategoricalDtype(["7", "unused", "4", "30"])
        table["unique_id"] = table["unique_id"].astype(str).astype(order)
    table.to_parquet(tmp_path / "in.parquet", index=False)
    output = tmp_path / "out.parquet"
    run(data=str(tmp_path / "in.parquet"), output=output)
    expected, _, _ = by_hand(tmp_path / "in.parquet", stand_in())
    pd.testing.assert_frame_equal(
        pd.read_parquet(output), expected, check_categorical=False, check_exact=True
    )


def with_future(tmp_path, *, late=False):
    table = pd.concat(rows_of(f"s{i}").assign(promo=i) for i in range(6))
    write(table, tmp_path / "in.csv")
    ahead = [rows_of(f"s{i}", start="2024-01-10", values=(0, 0)) for i in (5, 4, 1, 0)]
    if late:
        ahead += [rows_of(f"s{i}", start="2024-02-01", values=(0,)) for i in (0, 5)]
    ahead.append(rows_of("stranger", values=(0,)))
    future = pd.concat(ahead).drop(columns="y").assign(promo=1.5)
    write(future, tmp_path / "future.csv")


def test_known_future_rows_find_their_chunk(run, tmp_path, stand_in):
    """Series without any are refused as in one piece, those of chunks without any, too."""
    with_future(tmp_path)
    future = tmp_path / "future.csv"
    model = stand_in(future_covariates=("promo",))
    expected, refused, told = by_hand(tmp_path / "in.csv", model, future=future)
    assert [name for _, name, _ in refused] == ["s2", "s3"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(model=model, future=str(future), chunk_rows=4)
    assert (tmp_path / "out.csv").read_bytes() == csv_of(expected)
    assert refused_of(tmp_path / "out.csv") == refused
    assert [str(one.message) for one in caught] == [*told]


def test_what_is_not_used_is_told_in_the_end_and_not_for_every_chunk(run, tmp_path, stand_in):
    with_future(tmp_path, late=True)
    model = stand_in()
    with pytest.warns(TableWarning) as caught:
        run(model=model, future=str(tmp_path / "future.csv"), chunk_rows=4)
    assert [str(one.message) for one in caught] == [
        "the model uses no known-future covariates; the future table is not used."
    ]
    with pytest.warns(TableWarning) as caught:
        run(
            model=stand_in(future_covariates=("promo",)),
            future=str(tmp_path / "future.csv"),
            chunk_rows=4,
            overwrite=True,
        )
    told = [str(one.message) for one in caught]
    assert len(told) == 3, "the stranger, and the late row of two chunks"
    assert "outside the horizon" in told[1]


class GoneError(ForetellError):
    """Ends a job in its midst."""


@contextmanager
def failing_after(model, num_chunks):
    """A door that fails once so many chunks were answered."""

    def ask(rows, future, options):
        if len(model.asked) >= num_chunks:
            raise GoneError("gone")
        return model.forecast_rows(rows, future, options)

    with model.door() as door:
        yield replace(door, forecast_rows=ask, in_flight=1, fingerprint="sha256:m")


@contextmanager
def same_model(model):
    with model.door() as door:
        yield replace(door, fingerprint="sha256:m")


@pytest.fixture
def half(run, tmp_path, stand_in):
    """Leave a job of which three of ten chunks are done; series s1 and s8 are refused."""
    series = [
        rows_of(f"s{i}", values=("", "")) if i in (1, 8) else rows_of(f"s{i}") for i in range(10)
    ]
    write(pd.concat(series), tmp_path / "in.csv")

    def leave(**options):
        with pytest.raises(GoneError) as error:
            run(door=lambda: failing_after(stand_in(), 3), chunk_rows=4, **options)
        assert error.value.__notes__ == ["3 series done and kept; go on with --resume."]
        assert not (tmp_path / "out.csv").exists()

    return leave


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_resumed_job_does_the_rest_and_writes_the_same_bytes(run, half, tmp_path, stand_in, name):
    output = tmp_path / name
    half(output=output)
    model, told = stand_in(), []
    result = run(
        door=lambda: same_model(model),
        output=output,
        resume=True,
        chunk_rows=4,
        progress=told.append,
    )
    asked = [name for rows, _, _ in model.asked for name in rows.ids]
    assert sorted(asked) == ["s3", "s4", "s5", "s6", "s7", "s8", "s9"]
    assert (result.num_answered, result.refused.count) == (8, 2)
    assert (told[-1].done, told[-1].total, result.summary.num_items) == (10, 10, 7)
    written, refused = output.read_bytes(), refused_of(output)
    run(output=output, overwrite=True, chunk_rows=4)
    assert written == output.read_bytes()
    assert refused == refused_of(output)
    assert [place for place, _, _ in refused] == [1, 8]


def test_a_complete_job_is_left_as_it_is(run, half, tmp_path, stand_in):
    """So the same command can be given again and again, by a scheduler for instance."""
    half()
    run(door=lambda: same_model(stand_in()), resume=True, chunk_rows=4)
    written = (tmp_path / "out.csv").stat()
    model = stand_in()
    result = run(door=lambda: same_model(model), resume=True, chunk_rows=4)
    assert (result.num_answered, result.refused.count, result.summary) == (8, 2, None)
    assert model.asked == []
    assert (tmp_path / "out.csv").stat() == written


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"horizon": 3}, "horizon: 2 then, 3 now"),
        ({"freq": "D"}, "freq: None then, D now"),
        ({"level": (80.0,)}, "quantile_levels"),
        ({"chunk_rows": 5}, "chunk_rows: 4 then, 5 now"),
        ({"csv": CsvFormat(separator=",")}, "separator: None then, , now"),
    ],
)
def test_another_job_does_not_go_on_with_the_parts(run, half, stand_in, change, told):
    """Half of the output would be of another question."""
    half()
    options = {"resume": True, "chunk_rows": 4}
    with pytest.raises(ForetellError, match=told):
        run(door=lambda: same_model(stand_in()), **(options | change))


def test_another_input_or_model_does_not_go_on_with_the_parts(run, half, tmp_path, stand_in):
    half()
    with pytest.raises(ForetellError, match="the model was another"):
        run(model=stand_in(), resume=True, chunk_rows=4)
    with (tmp_path / "in.csv").open("a") as file:
        file.write("new,2024-01-01,1\n")
    with pytest.raises(ForetellError, match="the input was another"):
        run(door=lambda: same_model(stand_in()), resume=True, chunk_rows=4)


def test_half_a_job_is_neither_forgotten_nor_gone_on_with_unasked(run, half, tmp_path, stand_in):
    half()
    with pytest.raises(ForetellError, match=r"3 series done; go on with it \(resume\), or start"):
        run(chunk_rows=4)
    model = stand_in()
    run(model=model, chunk_rows=4, overwrite=True)
    assert ["s0"] in [panel.ids.tolist() for panel, *_ in model.asked]  # in whatever order


def test_the_picture_is_that_of_the_first_series_whoever_answered_them(
    run, half, tmp_path, stand_in, monkeypatch
):
    drawn = []
    monkeypatch.setattr(batch, "draw", lambda pictures, _: drawn.append(pictures))
    half()
    plot = tmp_path / "out.png"
    run(door=lambda: same_model(stand_in()), resume=True, chunk_rows=4, plot=plot)
    run(overwrite=True, chunk_rows=1000, plot=plot)
    for pictures in drawn:
        assert [one.title for one in pictures] == ["s0", "s2", "s3", "s4", "s5", "s6"]
    for resumed, unbroken in zip(*drawn, strict=True):
        np.testing.assert_array_equal(resumed.past, unbroken.past)
        np.testing.assert_array_equal(resumed.forecast, unbroken.forecast)


def test_a_dry_run_tells_and_writes_nothing(run, half, tmp_path, stand_in):
    half()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    model = stand_in()
    found = run(door=lambda: same_model(model), resume=True, chunk_rows=4, preview=True)
    assert (found.num_series, found.num_rows, found.num_chunks) == (10, 36, 10)
    assert (found.num_done, found.is_complete, found.sorted_bytes) == (3, False, None)
    assert model.asked == []
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ForetellError, match="was begun otherwise"):
        run(resume=True, chunk_rows=3, preview=True)


def test_a_dry_run_tells_what_sorting_costs(run, tmp_path):
    table = pd.concat(rows_of(f"s{i}") for i in range(10)).sample(frac=1, random_state=1)
    write(table, tmp_path / "in.csv")
    found = run(preview=True)
    assert found.sorted_bytes > 0
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_standard_output_cannot_be_resumed(run, tmp_path):
    write(rows_of("a"), tmp_path / "in.csv")
    with pytest.raises(OptionError, match="--resume needs an output file"):
        run(output=None, resume=True)


def test_standard_output_gets_all_or_nothing(run, tmp_path, stand_in, capsys):
    """Whoever reads a pipe can't tell half an answer from a whole one."""
    write(pd.concat(rows_of(f"s{i}") for i in range(6)), tmp_path / "in.csv")
    with pytest.raises(GoneError):
        run(door=lambda: failing_after(stand_in(), 3), output=None, chunk_rows=4)
    assert capsys.readouterr().out == ""
    run(output=None, chunk_rows=4)
    expected, _, _ = by_hand(tmp_path / "in.csv", stand_in())
    assert capsys.readouterr().out.encode() == csv_of(expected)


def test_input_that_vanishes_in_mid_run_leaves_nothing_that_looks_complete(run, tmp_path, stand_in):
    write(pd.concat(rows_of(f"s{i}") for i in range(10)), tmp_path / "in.csv")
    model = stand_in()

    def remove(progress):
        (tmp_path / "in.csv").unlink(missing_ok=True)

    with pytest.raises(TableError, match=r"in\.csv"):
        run(model=model, chunk_rows=4, progress=remove)
    assert not (tmp_path / "out.csv").exists()
    assert 0 < len(model.asked) < 10
