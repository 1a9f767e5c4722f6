"""One table through every door: values equal to the last bit, stamps and ids equal."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from foretell.client import Client

COLUMNS = ["forecast", "q0.1", "q0.5", "q0.9"]


def mixed() -> pd.DataFrame:
    """Series of several steps, lengths and scales, with gaps and blanks, in no order."""
    rng = np.random.default_rng(5)
    frames = []
    for number, (freq, steps) in enumerate(
        [("h", 100), ("D", 3), ("ME", 30), ("W-WED", 51), ("15min", 48), ("D", 7), ("h", 2)]
    ):
        y = np.cumsum(rng.normal(size=steps)) * 10.0 ** (3 * number - 9)
        ds = pd.date_range("2023-03-25", periods=steps, freq=freq)
        frame = pd.DataFrame({"unique_id": f"s-{number}", "ds": ds, "y": y})
        frame.loc[frame.index % 11 == 5, "y"] = np.nan
        frames.append(frame[frame.index % 13 != 7])
    return pd.concat(frames).sample(frac=1, random_state=1).reset_index(drop=True)


def zoned() -> pd.DataFrame:
    ds = pd.date_range("2024-03-29", periods=72, freq="h", tz="Europe/Berlin")
    return pd.DataFrame({"unique_id": 17, "ds": ds, "y": np.sin(np.arange(72.0))})


def integers() -> pd.DataFrame:
    steps = pd.DataFrame({"unique_id": "a", "ds": np.arange(0, 200, 5), "y": np.arange(40.0) ** 2})
    return pd.concat([steps, steps.assign(unique_id="b", ds=steps["ds"] * 2)], ignore_index=True)


def with_covariates(steps: int = 30, horizon: int = 9) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(6)
    days = pd.date_range("2024-01-01", periods=steps + horizon)
    table = pd.concat(
        [
            pd.DataFrame(
                {
                    "unique_id": f"s{number}",
                    "ds": days,
                    "y": rng.normal(size=len(days)),
                    "promo": rng.random(len(days)),
                    "visits": rng.normal(size=len(days)),
                    "size": float(number),
                }
            )
            for number in range(4)
        ]
    )
    ahead = table.groupby("unique_id").cumcount() >= steps
    return table[~ahead], table.loc[ahead, ["unique_id", "ds", "promo"]].sample(frac=1)


@pytest.fixture
def assert_all_doors_agree(library, client, command, remote_command):
    def check(*question, **options):
        right = library(*question, **options)
        values = right.table.iloc[:, 2:].to_numpy()
        assert np.isfinite(values).all()
        for door in (client, command, remote_command):
            found = door(*question, **options)
            pd.testing.assert_frame_equal(found.table, right.table, check_exact=True)
            assert found.table.iloc[:, 2:].to_numpy().tobytes() == values.tobytes()
            assert found.refusals == right.refusals
            assert found.warnings == right.warnings
        return right

    return check


@pytest.mark.parametrize("horizon", [1, 30])
def test_a_table_of_all_sorts(assert_all_doors_agree, horizon):
    right = assert_all_doors_agree(mixed(), horizon)
    assert len(right.table) == 7 * horizon
    assert right.table.columns.tolist()[2:] == COLUMNS


def test_levels_in_another_order(assert_all_doors_agree):
    assert_all_doors_agree(mixed(), 5, quantiles=[0.9, 0.07, 0.5])
    assert_all_doors_agree(mixed(), 5, level=[80.0, 50.0])


def test_zones(assert_all_doors_agree):
    right = assert_all_doors_agree(zoned(), 30)
    assert str(right.table["ds"].dt.tz) == "Europe/Berlin"
    assert_all_doors_agree(zoned(), 30, time_zone="Asia/Tokyo")


def test_integer_steps(assert_all_doors_agree):
    assert_all_doors_agree(integers(), 3)


def test_covariates(assert_all_doors_agree):
    table, future = with_covariates()
    assert_all_doors_agree(table, 9, model="covariates", future=future)


def test_other_names_of_columns(assert_all_doors_agree):
    table = mixed().rename(columns={"unique_id": "item", "ds": "when", "y": "units"})
    names = {"id_col": "item", "time_col": "when", "target_col": "units"}
    right = assert_all_doors_agree(table, 2, **names)
    assert right.table.columns.tolist()[:2] == ["item", "when"]


def test_refusals_and_warnings_word_by_word(assert_all_doors_agree):
    table, future = with_covariates()
    table["y"] = table["y"].mask(table["unique_id"] == "s1")
    future = pd.concat([future[future["unique_id"] != "s2"], future.tail(1).assign(unique_id="z")])
    right = assert_all_doors_agree(table, 9, model="covariates", future=future)
    assert set(right.refusals) == {"s1", "s2"}
    assert len(right.warnings) == 1


def test_a_table_beyond_grpcs_own_limit(library, client, remote_command):
    """HD01: what is over 4 MiB goes in pieces by itself, and comes back in the order it went."""
    rng = np.random.default_rng(8)
    steps, count = 150, 2400
    table = pd.DataFrame(
        {
            "unique_id": np.repeat([f"series number {i}" for i in range(count)], steps),
            "ds": np.tile(pd.date_range("2024-01-01", periods=steps), count),
            "y": rng.normal(size=count * steps),
        }
    )
    assert table[["ds", "y"]].to_numpy().nbytes > 5e6
    right = library(table, 2)
    for door in (client, remote_command):
        pd.testing.assert_frame_equal(door(table, 2).table, right.table, check_exact=True)


def test_csv_holds_every_bit(foretell, library, models, tmp_path):
    table = mixed()
    table.to_parquet(tmp_path / "in.parquet")
    output = tmp_path / "out.csv"
    call = ["forecast", tmp_path / "in.parquet", "--model", models / "any", "--horizon", 4]
    call += ["--device", "cpu"]
    assert foretell(*call, "--output", output).code == 0
    written = pd.read_csv(output, dtype=str)
    right = library(table, 4).table
    assert pd.to_datetime(written["ds"]).tolist() == right["ds"].tolist()
    assert written[COLUMNS].map(float).to_numpy().tobytes() == right[COLUMNS].to_numpy().tobytes()


def test_in_a_process_of_its_own(library, models, tmp_path):
    """As a shell runs it: no torch and no fixture at hand."""
    table = mixed()
    table.to_parquet(tmp_path / "in.parquet")
    call = ["forecast", "in.parquet", "--model", models / "any", "--horizon", "4"]
    call += ["--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "foretell.cli.main", *call, "--output", "out.parquet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    told, took = done.stderr.splitlines()
    assert told == "7 series forecast by CPUExecutionProvider -> out.parquet"
    assert " s (" in took
    assert " series/s, peak memory " in took
    written = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(written, library(table, 4).table, check_exact=True)


def test_the_provider_in_use_is_told_by_every_door(forecasters, server, foretell, models, tmp_path):
    """HC04: nobody is left to guess what computes."""
    (tmp_path / "in.csv").write_text("unique_id,ds,y\na,1,1.5\na,2,2.5\n")
    call = ["forecast", tmp_path / "in.csv", "--horizon", 1]
    provider = forecasters("any").provider
    assert provider == "CPUExecutionProvider"
    told = foretell(*call, "--model", models / "any", "--device", "cpu").err
    assert f"forecast by {provider}" in told
    with Client(server()) as client:
        served = client.describe("any").provider
    assert served == provider
    assert served in foretell(*call, "--server", server(), "--model", "any").err


@pytest.mark.parametrize("ids", [["s0"], ["s0", "s1", "s2", "s3"]], ids=["one", "all"])
def test_where_all_are_refused_a_future_table_hides_no_reason(forecast, ids) -> None:
    """A table of one series is the likely case; its user must read what is wrong with it."""
    table, known = with_covariates()
    table = table[table["unique_id"].isin(ids)].assign(y=np.inf)
    answer = forecast(table, 9, model="covariates", future=known)
    assert list(answer.refusals) == ids
    assert all("'y' is inf" in reason for reason in answer.refusals.values())
    assert answer.table.empty


def test_every_other_business_day_asks_or_answers_alike(forecast) -> None:
    """2D fits its rows too, and would be stamped on a Saturday."""
    days = pd.date_range("1999-11-29", periods=40, freq="2B")
    answer = forecast(pd.DataFrame({"unique_id": "a", "ds": days, "y": np.arange(40.0)}), 4)
    assert answer.stamps("a") == ["2000-03-20", "2000-03-22", "2000-03-24", "2000-03-28"]


def test_a_day_that_samoa_skipped_is_no_stamp(forecast) -> None:
    days = pd.date_range("2011-12-01", "2011-12-29", tz="Pacific/Apia")
    answer = forecast(pd.DataFrame({"unique_id": "a", "ds": days, "y": 1.0}), 3)
    found = pd.DatetimeIndex(answer.series("a")["ds"]).strftime("%Y-%m-%d %H")
    assert found.tolist() == ["2011-12-31 00", "2012-01-01 00", "2012-01-02 00"]
