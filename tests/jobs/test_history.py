"""A picture must show the right series, at the right times, in the reader's own clock."""

import numpy as np
import pandas as pd
import pytest

from foretell.data.series.options import Columns
from foretell.jobs.pictures.history import pictures


def ask(stand_in, table, horizon=2, **options):
    given = {
        "quantiles": (0.9, 0.1, 0.5),
        "level": None,
        "freq": None,
        "future": None,
        "id_col": "unique_id",
        "time_col": "ds",
        "target_col": "y",
        "time_zone": None,
        "allow_other_frequency": False,
    }
    return stand_in().forecast(table, horizon, **(given | options))


def table(stamps, name="a"):
    return pd.DataFrame({"unique_id": name, "ds": stamps, "y": np.arange(float(len(stamps)))})


@pytest.mark.parametrize(
    ("stamps", "last", "first"),
    [
        (pd.date_range("2024-01-21", periods=12), "2024-02-01", "2024-02-02"),
        (
            pd.date_range("2024-03-30 22:00", periods=4, freq="h", tz="Europe/Berlin"),
            "2024-03-31T01:00",
            "2024-03-31T03:00",  # the clock skips an hour
        ),
    ],
    ids=["naive", "zoned"],
)
def test_times_are_the_local_clocks(stand_in, stamps, last, first):
    history = table(stamps)
    (picture,) = pictures(history, ask(stand_in, history), columns=Columns())
    assert picture.past_times[-1] == np.datetime64(last)
    assert picture.times[0] == np.datetime64(first)


def test_integer_steps_stay_integers(stand_in):
    history = table([100, 105, 110])
    (picture,) = pictures(history, ask(stand_in, history), columns=Columns())
    assert picture.past_times.tolist() == [100, 105, 110]
    assert picture.times.tolist() == [115, 120]


def test_shuffled_rows_are_drawn_in_time_and_levels_rise(stand_in):
    history = table(pd.date_range("2024-01-01", periods=9)).sample(frac=1, random_state=0)
    (picture,) = pictures(history, ask(stand_in, history), columns=Columns())
    assert picture.past.tolist() == list(range(9))
    assert picture.quantile_levels == (0.1, 0.5, 0.9)


def test_only_the_first_six_series_and_their_recent_past(stand_in):
    days = pd.date_range("2020-01-01", periods=500)
    history = pd.concat([table(days, name) for name in range(8)])
    shown = pictures(history, ask(stand_in, history), columns=Columns())
    assert [picture.title for picture in shown] == ["0", "1", "2", "3", "4", "5"]
    assert len(shown[0].past) == 48
    longer = pictures(history, ask(stand_in, history, 20), columns=Columns())
    assert len(longer[0].past) == 120


def test_what_happened_stands_beside_the_forecast(stand_in):
    whole = table(pd.date_range("2024-01-01", periods=12))
    past, actual = whole.iloc[:10], whole.iloc[10:]
    answer = ask(stand_in, past)
    (picture,) = pictures(past, answer, columns=Columns(), actual=actual)
    assert picture.actual.tolist() == [10, 11]
