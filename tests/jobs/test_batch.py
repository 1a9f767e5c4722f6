"""The contract of a nightly job: what is written, what is refused, and what is left alone."""

import gzip
import io
from pathlib import Path

import pandas as pd
import pytest

from foretell.data.errors import ForetellError, OptionError, TableError
from foretell.data.series.options import Columns
from foretell.data.tables.reading import CsvFormat
from foretell.jobs.tables.batch import run_job
from foretell.jobs.tables.forecast_job import ForecastJob

GOOD = "".join(
    f"{i},2024-01-{day:02d},{value}\n"
    for i, value in (("007", 5), ("b", 9))
    for day in range(1, 11)
)
BAD = "word,2024-01-01,1\nword,2024-01-02,three\nblank,2024-01-01,\n"
HEADER = "unique_id,ds,y\n"


@pytest.fixture
def run(tmp_path, stand_in):
    """Write a table, run a job on it, and return the folder and the result."""

    def run_one(rows=GOOD, *, output="out.csv", model=None, **options):
        (tmp_path / "in.csv").write_text(HEADER + rows)
        values = {
            "data": str(tmp_path / "in.csv"),
            "columns": Columns(),
            "csv": CsvFormat(),
            "horizon": 2,
            "output": output and tmp_path / output,
        }
        job = ForecastJob(**(values | options))
        return run_job(job, (model or stand_in()).door)

    return run_one


def files(folder: Path):
    return sorted(path.name for path in folder.iterdir())


def test_all_good_writes_the_whole_answer(run, tmp_path):
    result = run()
    assert (result.num_answered, result.refused.count, result.where) == (2, 0, "StandIn")
    assert (tmp_path / "out.csv").read_text() == (
        "unique_id,ds,forecast,q0.1,q0.5,q0.9\n"
        "007,2024-01-11,5.0,5.0,5.0,5.0\n"
        "007,2024-01-12,5.0,5.0,5.0,5.0\n"
        "b,2024-01-11,9.0,9.0,9.0,9.0\n"
        "b,2024-01-12,9.0,9.0,9.0,9.0\n"
    )
    assert files(tmp_path) == ["in.csv", "out.csv"]


@pytest.mark.parametrize("output", ["out.csv", "out.csv.gz", "out.parquet"])
def test_every_format_holds_the_same_table(run, tmp_path, output):
    run(output=output)
    target = tmp_path / output
    if output.endswith("parquet"):
        table = pd.read_parquet(target)
        assert str(table["ds"].dtype).startswith("datetime64")
    else:
        text = (
            gzip.decompress(target.read_bytes()) if output.endswith("gz") else target.read_bytes()
        )
        table = pd.read_csv(io.BytesIO(text), dtype={"unique_id": str}, parse_dates=["ds"])
    assert table["unique_id"].tolist() == ["007", "007", "b", "b"]
    assert table["ds"].dt.day.tolist() == [11, 12, 11, 12]
    assert table["forecast"].tolist() == [5, 5, 9, 9]


def test_bad_series_go_to_the_side_file_and_the_others_are_answered_as_if_alone(run, tmp_path):
    run()
    alone = (tmp_path / "out.csv").read_bytes()
    result = run(BAD + GOOD, overwrite=True)
    assert (tmp_path / "out.csv").read_bytes() == alone
    assert [names for _, names, _ in result.refused.by_reason()] == [["word"], ["blank"]]
    refused = pd.read_csv(tmp_path / "out.csv.refused.csv")
    assert refused["unique_id"].tolist() == ["word", "blank"]
    assert refused["position"].tolist() == [0, 1]
    assert "three" in refused["reason"][0]


def test_a_later_success_removes_the_stale_side_file(run, tmp_path):
    """Refusals of yesterday beside the answers of today would be believed."""
    run(BAD + GOOD)
    run(overwrite=True)
    assert files(tmp_path) == ["in.csv", "out.csv"]


def test_all_refused_leaves_old_answers_and_tells_the_reasons(run, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    result = run(BAD, overwrite=True)
    assert result.num_answered == 0
    assert (tmp_path / "out.csv").read_text() == "old"
    assert len(pd.read_csv(tmp_path / "out.csv.refused.csv")) == 2


def test_an_existing_output_is_not_touched_without_overwrite(run, tmp_path, stand_in):
    (tmp_path / "out.csv").write_text("old")
    model = stand_in()
    with pytest.raises(ForetellError, match=r"out\.csv exists; give --overwrite"):
        run(model=model)
    assert (tmp_path / "out.csv").read_text() == "old"
    assert model.asked == []


def test_a_failing_run_leaves_the_old_bytes(run, tmp_path, stand_in):
    def fail(context, horizon):
        raise ForetellError("the server went away")

    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(ForetellError, match="went away"):
        run(overwrite=True, model=stand_in(fail))
    assert files(tmp_path) == ["in.csv", "out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old"


def test_without_output_csv_goes_to_stdout_and_nothing_else(run, tmp_path, capsys):
    run(BAD + GOOD, output=None)
    out = capsys.readouterr().out
    assert out.startswith("unique_id,ds,forecast")
    assert len(out.splitlines()) == 5
    assert files(tmp_path) == ["in.csv"]


def test_a_closed_stdout_is_refused_before_the_model_is_asked(run, stand_in, monkeypatch):
    """Writing to it does nothing, so the job would end well without an answer anywhere."""
    model = stand_in()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        with pytest.raises(ForetellError, match="output is closed"):
            run(output=None, model=model)
    assert model.asked == []


def test_known_future_reaches_the_model(run, tmp_path, stand_in):
    days = range(1, 6)
    rows = "".join(f"a,2024-01-{day:02d},{day},0\n" for day in days)
    (tmp_path / "future.csv").write_text("ds,unique_id,promo\n2024-01-07,a,3\n2024-01-06,a,2\n")
    model = stand_in(future_covariates=("promo",))
    data = tmp_path / "promo.csv"
    data.write_text("unique_id,ds,y,promo\n" + rows)
    run(data=str(data), future=str(tmp_path / "future.csv"), model=model)
    _, future, _ = model.asked[0]
    assert sorted(future.covariates[:, 0].tolist()) == [2, 3]


def test_draws_what_it_forecast(run, tmp_path):
    run(plot=tmp_path / "out.png", level=(80.0, 95.0))
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"data": "nowhere.csv"}, TableError, "nowhere.csv"),
        ({"data": "-", "future": "-"}, OptionError, "standard input is read once"),
        ({"quantiles": (0.5, 1.5)}, OptionError, r"1\.5 is not inside \(0, 1\)"),
        ({"quantiles": (0.5,), "level": (80.0,)}, OptionError, "both quantiles and level"),
        ({"output": "out.xls"}, OptionError, "must end in"),
        ({"plot": Path("out.bmp")}, OptionError, "must end in"),
    ],
)
def test_refusals_before_anything_is_written(run, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        run(**options)
    assert files(tmp_path) == ["in.csv"]
