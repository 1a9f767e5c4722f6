"""A report is read by people who trust it: nothing broken, nothing that runs, nothing made up."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import OptionError
from foretell.data.series.options import Columns, ForecastOptions
from foretell.jobs.evaluation.backtest import lay_backtest, measure
from foretell.jobs.report.page import check_report, report_page, write_report
from foretell.jobs.report.svg import round_ticks, tick_text, time_ticks, whole_ticks
from foretell.jobs.report.tables import score_table

HOSTILE = "<script>alert('x')</script>"
VOID = {"meta", "link", "br"}


def table(ids=("a", "b", "c", HOSTILE, 'x" onload="y', "z" * 300), *, size=70, freq="D", tz=None):
    rng = np.random.default_rng(1)
    stamps = pd.date_range("2024-01-01", periods=size, freq=freq, tz=tz)
    season = 5 * np.sin(np.arange(size) * 2 * np.pi / 7)
    return pd.concat(
        pd.DataFrame(
            {"unique_id": name, "ds": stamps, "y": 50 + i + season + rng.normal(size=size)}
        )
        for i, name in enumerate(ids)
    )


@pytest.fixture
def page(stand_in):
    def make(data, *, horizon=6, num_windows=2, season_length=7, **options):
        backtest = lay_backtest(
            data,
            widening(stand_in()),
            columns=Columns(),
            options=ForecastOptions(horizon=horizon, **options),
            num_windows=num_windows,
            season_length=season_length,
        )
        found = measure(backtest, ["SeasonalNaive", "Naive2", "Theta", "Ridge"])
        return report_page(backtest, found, data="sales.csv", model="models/demand/3")

    return make


def widening(model):
    """Give the stand-in's answers a width, so that bands are drawn."""
    answer = model.forecast_rows

    def forecast_rows(rows, future, options):
        found = answer(rows, future, options)
        offsets = 4 * (np.array(options.quantile_levels) - 0.5)
        return replace(found, quantiles=found.forecast[:, :, None] + offsets)

    model.forecast_rows = forecast_rows
    return model


class Tree(HTMLParser):
    """Checks that tags close as they opened, and keeps text, tags and attributes."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def test_whatever_an_id_says_nothing_runs_and_nothing_is_fetched(page):
    tree = Tree(page(table()))
    assert not {"script", "iframe", "img", "object"} & set(tree.tags)
    assert not [of for of in tree.attributes if of[1].startswith("on")]
    links = [value for _, name, value in tree.attributes if name in ("src", "href", "action")]
    assert links == ["data:,"]
    assert "url(" not in "".join(tree.texts)
    policy = [value for _, name, value in tree.attributes if name == "content"]
    assert any("default-src 'none'" in value for value in policy)
    assert HOSTILE in "".join(tree.texts)  # told as it is, in text


def test_every_picture_has_words_and_every_name_is_one(page):
    tree = Tree(page(table()))
    ids = [value for _, name, value in tree.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    told = [value.split() for _, name, value in tree.attributes if name == "aria-labelledby"]
    assert {name for names in told for name in names} <= set(ids)
    pictures = [of for of in tree.attributes if of[0] == "svg" and of[1:] == ("role", "img")]
    hidden = [of for of in tree.attributes if of[0] == "svg" and of[1] == "aria-hidden"]
    assert len(pictures) == 4 + 2 + 1 + 6  # by step, calibration, distribution, series
    assert tree.tags.count("svg") == len(pictures) + len(hidden)


def integers(size):
    return table(("a",), size=size).assign(ds=np.arange(size) * 5)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (table(("a",)), {"horizon": 1, "num_windows": 1}),
        (table(("a", "b")), {}),
        (table().assign(y=4.0), {}),
        (table().assign(y=lambda t: t["y"] * 1e60), {}),
        (table().assign(y=lambda t: t["y"] * 1e-60), {}),
        (table().assign(y=0.0), {}),
        (integers(60), {}),
        (table(("a",), freq="5s"), {}),
        (table(("a",), freq="h", tz="Europe/Berlin"), {}),
        (table(("a",), freq="YS", size=60), {"season_length": 1}),
        (table(("a",)).assign(y=lambda t: t["y"].where(t["y"] > 52)), {}),
    ],
    ids=[
        "one step",
        "two series",
        "constant",
        "huge",
        "tiny",
        "zero",
        "integer time",
        "seconds",
        "zoned hours",
        "years",
        "gaps",
    ],
)
def test_odd_tables_make_whole_pages(page, data, options):
    made = page(data, **options)
    Tree(made)
    drawn = re.findall(r' (?:d|points|[xy]\d?|r|width|height|cx|cy)="([^"]*)"', made)
    assert not [of for of in drawn if "nan" in of or "inf" in of]
    assert len(made) < 200_000


def test_long_horizons_are_thinned_so_that_a_page_stays_small(page, monkeypatch):
    monkeypatch.setattr("foretell.jobs.report.svg._MOST_POINTS", 40)
    made = page(table(("a",), size=700), horizon=200, num_windows=1)
    points = [of.count("L") + of.count("M") for of in re.findall(r' d="([^"]*)"', made)]
    assert max(points) == 40


def test_the_same_evaluation_gives_the_same_bytes(page):
    assert page(table()) == page(table())


def test_the_page_is_written_whole_or_not_at_all(stand_in, tmp_path, monkeypatch):
    backtest = lay_backtest(
        table(), stand_in(), columns=Columns(), options=ForecastOptions(horizon=5)
    )
    found = measure(backtest, ["Theta"])  # without SeasonalNaive, Theta stands beside the model
    target = tmp_path / "report.html"
    write_report(backtest, found, target, data="a.csv", model="m")
    before = target.read_bytes()
    assert b"the line: Theta" in before
    monkeypatch.setattr("foretell.jobs.report.page.score_table", SimpleNamespace())
    with pytest.raises(TypeError):
        write_report(backtest, found, target, data="a.csv", model="m")
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_refused_series_and_warnings_are_told(page, stand_in):
    twice = pd.concat([table(("<b>twice</b>",)), table(("<b>twice</b>",), size=1)])
    text = " ".join(Tree(page(pd.concat([table(), twice]))).texts)
    assert "<b>twice</b>" in text
    assert "2024-01-01 has 2 rows" in text


def test_the_best_is_marked_and_what_is_written_alike_is_marked_alike(stand_in):
    backtest = lay_backtest(
        table(), stand_in(), columns=Columns(), options=ForecastOptions(horizon=5)
    )
    found = measure(backtest, ["SeasonalNaive"])
    own, other = found.scores
    scores = [
        replace(own, mase=0.81231, smape=9.0, coverage={50: 0.4, 80: 0.9, 90: 0.9}),
        replace(other, mase=0.81249, smape=8.0, coverage={50: 0.7, 80: 0.75, 90: np.nan}),
    ]
    rows = re.findall(r"<tr role=\"row\">(.*?)</tr>", score_table(scores))[1:]
    marked = [re.findall(r'data-name="([^"]*)"><b>', row) for row in rows]
    assert marked[0][0] == marked[1][0] == "MASE"
    assert "sMAPE" in marked[1]
    assert "sMAPE" not in marked[0]
    assert "in 50 %" in marked[0]
    assert "in 80 %" in marked[1]
    assert "in 90 %" in marked[0]
    assert ">–<" in rows[1]


def test_only_pages_are_reports(tmp_path):
    with pytest.raises(OptionError, match=r"a report must end in \.html"):
        check_report(tmp_path / "report.pdf")


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(2, 8))
def test_ticks_are_round_inside_and_told_apart(low, span, most):
    ticks, step = round_ticks(low, low + span, most)
    assert len(ticks) <= most + 1
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    texts = [tick_text(tick, step, max(map(abs, [*ticks, step]))) for tick in ticks]
    assert len(set(texts)) == len(texts) or max(map(abs, ticks)) > 1e4 * span


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_whole_ticks_start_at_the_first_and_are_whole(low, span):
    ticks = whole_ticks(low, low + span)
    assert ticks[0][0] == low
    assert [text for _, text in ticks] == [f"{int(value):,}" for value, _ in ticks]
    assert all(low <= value <= low + span for value, _ in ticks)


@pytest.mark.parametrize("step", ["1s", "1min", "15min", "1h", "6h", "1D", "7D", "30D", "365D"])
@pytest.mark.parametrize("size", [2, 13, 50, 400])
def test_times_get_few_round_ticks_between_first_and_last(step, size):
    times = pd.date_range("2023-11-30 07:11", periods=size, freq=step).to_numpy()
    numbers, ticks = time_ticks(times)
    assert len(ticks) <= 5
    assert all(numbers[0] <= value <= numbers[-1] for value, _ in ticks)
    texts = [text for _, text in ticks]
    assert len(set(texts)) == len(texts)
