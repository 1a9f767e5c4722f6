"""How good a model is on a table: rolling windows, beside forecasts that anybody can make."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from foretell.data.bundles.bundle import ANY_FREQUENCY, ForecasterSpec, Manifest
from foretell.data.calendars.zones import describe_stamp
from foretell.data.errors import OptionError, Refusal, TableError
from foretell.data.measures.metrics import seasonal_scale
from foretell.data.series.future import FUTURE_TABLE
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel, PanelForecast, Rows
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_rows
from foretell.jobs.evaluation.rivals import (
    DEFAULT_BASELINES,
    NAIVE2,
    Filled,
    check_baselines,
    prepare,
)
from foretell.jobs.evaluation.tally import LEVELS, Scores, Tally, levels_within
from foretell.jobs.evaluation.windows import Cut, Window, cuts, grid_stamps, lay_window, pieces
from foretell.runtime import Forecaster

MODEL = "model"
# What is laid at once: steps of context, and numbers of one method's quantiles.
_MOST_STEPS, _MOST_NUMBERS = 1 << 20, 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowFacts:
    """One window.

    Attributes:
        first: Earliest first step of the horizon, as text.
        last: Latest last step of the horizon, as text.
        num_series: Series that stand in it.
    """

    first: str
    last: str
    num_series: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesScores:
    """The measures of each series that stood in a window, means over its windows.

    Attributes:
        ids: In order of first appearance.
        num_windows: Windows in which it was forecast.
        mase: A row a method, in the order of the scores; NaN where it isn't defined.
        smape: A row a method; NaN where nothing was observed.
    """

    ids: pd.Index
    num_windows: Int64[np.ndarray, " n"]
    mase: Float64[np.ndarray, "M n"]
    smape: Float64[np.ndarray, "M n"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        scores: Of the model, then of the baselines.
        windows: The windows in which at least one series stood.
        series: Measures of each series.
        num_total: Series of the table.
        horizon: Steps in a window.
        season_length: Steps of the season of the baselines and the MASE.
        frequencies: Of the series, as pandas names them, the commonest first.
        num_steps: Steps of all series on their grids.
        num_observed: Of them, those with a value.
        first: Earliest stamp, as text.
        last: Latest stamp, as text.
        refusals: Series that could not be evaluated, or not in every window.
        warnings: Why the scores may flatter the model, a sentence each.
    """

    scores: tuple[Scores, ...]
    windows: tuple[WindowFacts, ...]
    series: SeriesScores
    num_total: int
    horizon: int
    season_length: int
    frequencies: tuple[str, ...]
    num_steps: int
    num_observed: int
    first: str
    last: str
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...] = ()

    @property
    def num_series(self) -> int:
        """Series that stood in at least one window."""
        return len(self.series.ids)

    @property
    def num_windows(self) -> int:
        """Windows in which at least one series stood."""
        return len(self.windows)


@dataclass(frozen=True, kw_only=True, slots=True)
class Backtest:
    """A table laid for rolling windows, and whom to ask.

    Attributes:
        forecaster: The model.
        panel: The whole series.
        stamps: Of every step of the panel.
        positions: Place of each series of the panel in the table.
        options: What the model is asked for.
        season_length: Steps of a season.
        num_windows: Windows, one horizon apart.
    """

    forecaster: Forecaster
    panel: Panel
    stamps: Int64[np.ndarray, " N"]
    positions: Int64[np.ndarray, " n"]
    options: ForecastOptions
    season_length: int
    num_windows: int

    @property
    def spec(self) -> ForecasterSpec:
        """What the model was trained for."""
        return _spec(self.forecaster)

    def cuts(self) -> Iterator[Cut]:
        """The windows, the earliest first."""
        return cuts(self.panel, horizon=self.options.horizon, num_windows=self.num_windows)

    def ask(self, cut: Cut) -> tuple[Window, PanelForecast]:
        """Lay the series of a cut, and have the model forecast them."""
        window = lay_window(
            self.panel,
            self.stamps,
            cut,
            horizon=self.options.horizon,
            num_future=len(self.spec.future_covariates),
        )
        return window, self.forecaster.forecast_rows(window.context, window.future, self.options)


def evaluate(
    table: pd.DataFrame,
    forecaster: Forecaster,
    *,
    columns: Columns,
    options: ForecastOptions,
    num_windows: int = 1,
    season_length: int | None = None,
    baselines: Sequence[str] = DEFAULT_BASELINES,
    tell: Callable[[str], None] | None = None,
) -> Evaluation:
    """Forecast the last windows of every series from what came before each, and measure.

    Args:
        table: Long table with the windows' actual values.
        forecaster: The model.
        columns: Names of the columns, the model's covariates included.
        options: Horizon and frequency; the quantile levels are chosen here.
        num_windows: Windows, one horizon apart; the last ends where the series end.
        season_length: Steps of a season; None takes the model's, or the data's frequency's.
        baselines: Names of those to stand beside the model, as in `rivals.BASELINES`.
        tell: Is told how far the work is.

    Raises:
        TableError: No series is long enough for a window.
        OptionError: The season can't be told, or a baseline is unknown.
        ForetellError: A baseline needs a library that is not installed.
    """
    check_baselines(baselines)
    backtest = lay_backtest(
        table,
        forecaster,
        columns=columns,
        options=options,
        num_windows=num_windows,
        season_length=season_length,
    )
    return measure(backtest, baselines, tell)


def lay_backtest(
    table: pd.DataFrame,
    forecaster: Forecaster,
    *,
    columns: Columns,
    options: ForecastOptions,
    num_windows: int = 1,
    season_length: int | None = None,
) -> Backtest:
    """Lay a table on its grids and settle what all windows share; arguments as for `evaluate`.

    Raises:
        TableError: The table can't be understood.
        OptionError: The season can't be told.
    """
    spec = _spec(forecaster)
    rows = read_rows(table, columns)
    panel = regularise(
        rows, options=options, future=None, future_names=(), model_frequency=spec.frequency
    )
    # A cut series may be too short to tell its frequency; the whole ones have told it.
    aliases = {frequency.alias for frequency in panel.frequencies}
    freq = aliases.pop() if len(aliases) == 1 else options.freq
    levels = levels_within(spec.quantile_levels)
    return Backtest(
        forecaster=forecaster,
        panel=panel,
        stamps=grid_stamps(panel, rows),
        positions=_positions(rows, panel),
        options=replace(options, quantile_levels=levels, freq=freq),
        season_length=season_length or _season_length(spec, panel),
        num_windows=num_windows,
    )


def measure(
    backtest: Backtest, baselines: Sequence[str], tell: Callable[[str], None] | None = None
) -> Evaluation:
    """Forecast and measure every window of a backtest, some series at a time.

    Raises:
        TableError: No series is long enough for a window.
    """
    horizon, panel = backtest.options.horizon, backtest.panel
    every = list(backtest.cuts())
    if not every:
        raise TableError(
            f"no series has an observed value more than {horizon} steps before its end; "
            "give longer series or a smaller --horizon."
        )
    size = {"num_series": len(panel.ids), "horizon": horizon}
    tallies = [Tally(MODEL, backtest.options.quantile_levels, **size)]
    tallies += [Tally(name, LEVELS, **size) for name in baselines]
    refusals = {refusal.position: refusal for refusal in panel.refusals}
    filled = Filled.of(panel)
    for cut in every:
        for done in _measure_cut(backtest, filled, cut, tallies, refusals):
            if tell is not None:
                tell(
                    f"evaluating: window {cut.number + 1} of {len(every)}, "
                    f"{done:,} of {cut.series.size:,} series"
                )
    naive2 = next((tally for tally in tallies if tally.name == NAIVE2), None)
    return Evaluation(
        scores=tuple(tally.scores(naive2) for tally in tallies),
        windows=tuple(_window_facts(backtest, cut) for cut in every),
        series=_series_scores(panel, tallies),
        num_total=len(panel.ids) + len(panel.refusals),
        horizon=horizon,
        season_length=backtest.season_length,
        frequencies=_by_commonness([frequency.alias for frequency in panel.frequencies]),
        num_steps=panel.target.size,
        num_observed=int((~np.isnan(panel.target)).sum()),
        first=_text(backtest, backtest.stamps.min()),
        last=_text(backtest, backtest.stamps.max()),
        refusals=tuple(refusal for _, refusal in sorted(refusals.items())),
        # Windows that nothing stands in are the earliest ones.
        warnings=_seen_in_training(backtest.forecaster.manifest, panel, horizon * len(every)),
    )


def _measure_cut(
    backtest: Backtest,
    filled: Filled,
    cut: Cut,
    tallies: Sequence[Tally],
    refusals: dict[int, Refusal],
) -> Iterator[int]:
    """Forecast and measure a window piece by piece; yields how many series are done."""
    horizon, season = backtest.options.horizon, backtest.season_length
    own, *others = tallies
    answers = [
        prepare(tally.name, filled, cut, season_length=season, horizon=horizon, levels=tally.levels)
        for tally in others
    ]
    most_series = max(_MOST_NUMBERS // (horizon * len(LEVELS)), 1)
    done = 0
    for piece in pieces(backtest.panel, cut, most_steps=_MOST_STEPS, most_series=most_series):
        window, answer = backtest.ask(piece)
        for refusal in map(_of_this_table, answer.refusals):
            position = int(backtest.positions[piece.series[refusal.position]])
            refusals.setdefault(position, replace(refusal, position=position))
        refused = [refusal.position for refusal in answer.refusals]
        kept = np.setdiff1d(np.arange(piece.series.size), refused)
        series, actual = piece.series[kept], window.actual[kept]
        target, indptr = window.context.target, window.context.indptr
        scale = seasonal_scale(target, indptr, season)[kept]
        own.add(series, actual, answer.quantiles, scale)
        for tally, forecast in zip(others, answers, strict=True):
            tally.add(series, actual, forecast(target, indptr)[kept], scale)
        done += piece.series.size
        yield done


def _series_scores(panel: Panel, tallies: Sequence[Tally]) -> SeriesScores:
    counts = tallies[0].num_windows
    stood = counts > 0
    mase, smape = (
        np.stack([getattr(tally, name)[stood] for tally in tallies]) for name in ("mase", "smape")
    )
    return SeriesScores(ids=panel.ids[stood], num_windows=counts[stood], mase=mase, smape=smape)


def _window_facts(backtest: Backtest, cut: Cut) -> WindowFacts:
    first = backtest.stamps[cut.ends].min()
    last = backtest.stamps[cut.ends + backtest.options.horizon - 1].max()
    return WindowFacts(
        first=_text(backtest, first), last=_text(backtest, last), num_series=cut.series.size
    )


def _text(backtest: Backtest, stamp: np.int64) -> str:
    return describe_stamp(int(stamp), backtest.panel.stamp_kind, backtest.panel.time_zone)


def _positions(rows: Rows, panel: Panel) -> Int64[np.ndarray, " n"]:
    positions: Int64[np.ndarray, " n"] = rows.positions[rows.ids.get_indexer(panel.ids)]
    return positions


def _by_commonness(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(names), key=lambda name: (-names.count(name), name)))


def _spec(forecaster: Forecaster) -> ForecasterSpec:
    spec = forecaster.manifest.forecaster
    assert spec is not None  # a Forecaster refuses bundles that hold none
    return spec


def _seen_in_training(manifest: Manifest, panel: Panel, steps: int) -> tuple[str, ...]:
    """Warn where the model was trained on what it is measured on."""
    trained_to, holdout = manifest.training.get("last_stamp"), manifest.training.get("holdout")
    if not isinstance(trained_to, str) or not isinstance(holdout, int) or not len(panel.last):
        return ()
    latest = describe_stamp(int(panel.last.max()), panel.stamp_kind, panel.time_zone)
    # Stamps of one kind are written alike, so their order is that of their texts.
    if panel.stamp_kind == "integer" or len(latest) != len(trained_to) or latest > trained_to:
        return ()
    if latest == trained_to and holdout >= steps:
        return ()
    return (
        f"the model was trained on data up to {trained_to} with the last {holdout} steps held out, "
        f"so the last {steps} steps of this table, up to {latest}, are not all new to it; train "
        "with a holdout of as many steps as are evaluated.",
    )


def _of_this_table(refusal: Refusal) -> Refusal:
    """Say that the known future of a window is the table's own: nobody gave a future table."""
    where, _, what = refusal.reason.partition(FUTURE_TABLE)
    if where or not what:
        return refusal
    reason = f"in the evaluated steps of this table, {what} Its y may be blank."
    return replace(refusal, reason=reason)


def _season_length(spec: ForecasterSpec, panel: Panel) -> int:
    if spec.frequency != ANY_FREQUENCY:
        return spec.season_length
    seasons = sorted({frequency.season_length for frequency in panel.frequencies})
    if len(seasons) > 1:
        raise OptionError(
            f"the series have seasons of {seasons} steps; give --season-length, or one frequency."
        )
    return seasons[0] if seasons else 1
