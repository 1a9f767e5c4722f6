"""A page about an evaluation, for a browser: one file, no network, no script, light and dark."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

from foretell.data.errors import OptionError
from foretell.jobs.evaluation.backtest import Backtest, Evaluation
from foretell.jobs.output import replacing
from foretell.jobs.report.charts import (
    beside,
    calibration_chart,
    distribution_chart,
    hits_chart,
    legend,
    step_chart,
)
from foretell.jobs.report.examples import Example, pick_examples
from foretell.jobs.report.series import series_chart, series_legend
from foretell.jobs.report.tables import (
    facts_list,
    refusals_table,
    score_table,
    spread_table,
    step_tables,
    windows_table,
)

_STYLE = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
# Nothing may be fetched, and nothing may run, whatever an id says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def check_report(target: Path) -> None:
    """Refuse a report that is no page, before any work is done.

    Raises:
        OptionError: The ending is not .html.
    """
    if target.suffix not in (".html", ".htm"):
        raise OptionError(f"{target}: a report must end in .html.")


def write_report(
    backtest: Backtest, found: Evaluation, target: Path, *, data: str, model: str | Path
) -> None:
    """Write the page, whole or not at all; the same evaluation gives the same bytes.

    Args:
        backtest: What was evaluated.
        found: What was found.
        target: Where the page shall stand.
        data: What the table is called.
        model: What the model is called.
    """
    page = report_page(backtest, found, data=data, model=str(model))
    with replacing(target, target.suffix) as partial:
        partial.write_text(page, encoding="utf-8", newline="\n")


def report_page(backtest: Backtest, found: Evaluation, *, data: str, model: str) -> str:
    """The page as text; arguments as for `write_report`."""
    examples = pick_examples(backtest, found)
    title = f"{_short(model)} on {_short(data)}"
    sections = [
        _section("scores", "Scores", [_SCORES_NOTE, score_table(found.scores)]),
        _section("what", "What was evaluated", _what(backtest, found, data, model)),
        _section("steps", "By step ahead", _steps(found)),
        _section("calibration", "Calibration", _calibration(found)),
        _section("series", "Series", _series(found, examples)),
    ]
    if found.refusals:
        sections.append(_section("refused", "Refused series", refusals_table(found.refusals)))
    sections.append(_section("how", "How to read this", [_HOW]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n'
        f"<style>\n{_STYLE}</style>\n</head>\n<body>\n<header>\n"
        f"<p>Forecaster evaluation</p>\n<h1>{escape(title)}</h1>\n"
        f'<p class="verdict">{_verdict(found)}</p>\n{_warnings(found)}</header>\n<main>\n'
        + "\n".join(sections)
        + f"\n</main>\n<footer>foretell {escape(version('foretell'))}</footer>\n</body>\n</html>\n"
    )


_SCORES_NOTE = (
    '<p class="note">Lower is better; of intervals, closer to their name. ★ marks the best.</p>'
)
_HOW = """<dl class="words">
<dt>MASE</dt><dd>Mean absolute error, in units of what repeating the last season costs within the
history. Below 1 is better than that. Mean over series and windows; a series that always repeats
itself has none.</dd>
<dt>sMAPE</dt><dd>Mean of 200 |y − f| / (|y| + |f|), 0 to 200, as in the M4 competition.</dd>
<dt>OWA</dt><dd>Half the sum of MASE and sMAPE, each over that of Naive2. Below 1 beats it.</dd>
<dt>WQL</dt><dd>Weighted quantile loss: how far the quantiles 0.1 to 0.9 are off, over the size of
the values. Large series weigh more.</dd>
<dt>in 50, 80, 90 %</dt><dd>Share of actual values inside the central interval of that name. Lower
than the name: too sure of itself; higher: too cautious.</dd>
<dt>Calibration</dt><dd>Of all actual values, 10 % should lie below the quantile 0.1, and so on.
Above the diagonal quantiles lie too high, below it too low. Bars of height 1 say the same for the
gaps between quantiles; a U means too narrow, a hill too wide.</dd>
<dt>Baselines</dt><dd>SeasonalNaive repeats the last season. Naive2 repeats the last value,
seasonally adjusted. Theta is the M4 benchmark: half a straight line, half exponential smoothing.
Ridge is a linear regression on the last steps, fitted anew before each window on all series. None
sees anything of the window.</dd>
</dl>"""


def _short(path: str) -> str:
    """The last part of a path, and the model's name before a version."""
    parts = [part for part in path.replace("\\", "/").split("/") if part] or [path]
    return "/".join(parts[-2:] if parts[-1].isdigit() else parts[-1:])


def _section(name: str, title: str, parts: Sequence[str] | Iterator[str]) -> str:
    return (
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{title}</h2>\n'
        + "\n".join(parts)
        + "\n</section>"
    )


def _verdict(found: Evaluation) -> str:
    """Say first what most readers come for."""
    own, *others = found.scores
    if math.isnan(own.mase):
        return "No series has a unit for the MASE: all of them repeat themselves."
    measured = [scores for scores in others if scores.mase > 0]
    naive = found.scores[beside(found)]
    parts = [f"MASE <b>{own.mase:.3f}</b>"]
    if naive in measured:
        parts.append(f"{_compared(own.mase, naive.mase)} {escape(naive.name)}")
    best = min(measured, key=lambda scores: scores.mase, default=naive)
    if best is not naive:
        parts.append(f"{_compared(own.mase, best.mase)} {escape(best.name)}, the best baseline")
    return "; ".join(parts) + "."


def _compared(own: float, other: float) -> str:
    percent = 100 * (own / other - 1)
    if abs(percent) < 0.5:
        return "level with"
    return f"{abs(percent):.0f} % {'worse' if percent > 0 else 'better'} than"


def _warnings(found: Evaluation) -> str:
    return "".join(
        f'<p class="warning" role="note"><b>Warning:</b> {escape(warning)}</p>\n'
        for warning in found.warnings
    )


def _what(backtest: Backtest, found: Evaluation, data: str, model: str) -> Iterator[str]:
    spec, manifest = backtest.spec, backtest.forecaster.manifest
    covariates = [*spec.future_covariates, *spec.past_covariates, *spec.static]
    trained_to, holdout = manifest.training.get("last_stamp"), manifest.training.get("holdout")
    yield '<div class="pair">'
    yield facts_list(
        "Model",
        {
            "path": model,
            "frequency": f"{spec.frequency}, season of {spec.season_length}",
            "looks back": f"{spec.context_length:,} steps",
            "trained for": f"{spec.horizon:,} steps ahead",
            "quantiles": f"{spec.quantile_levels[0]:g} to {spec.quantile_levels[-1]:g}",
            "covariates": ", ".join(covariates) or "none",
            "trained up to": "unknown"
            if trained_to is None
            else f"{trained_to}, last {holdout} steps held out",
        },
    )
    share = 100 * found.num_observed / max(found.num_steps, 1)
    yield facts_list(
        "Data",
        {
            "table": data,
            "series": f"{found.num_series:,} of {found.num_total:,}",
            "steps": f"{found.num_steps:,}, {share:.4g} % with a value",
            "from, to": f"{found.first}, {found.last}",
            "frequency": ", ".join(found.frequencies),
            "season": f"{found.season_length:,} steps",
            "windows": f"{found.num_windows:,} of {found.horizon:,} steps",
        },
    )
    yield "</div>"
    yield windows_table(found.windows)


def _steps(found: Evaluation) -> Iterator[str]:
    yield legend([scores.name for scores in found.scores])
    yield '<div class="grid-of-figures">'
    steps = [scores.by_step for scores in found.scores]
    yield step_chart("step-mase", "MASE", found, [step.mase for step in steps])
    yield step_chart("step-smape", "sMAPE", found, [step.smape for step in steps])
    yield step_chart("step-wql", "WQL", found, [step.wql for step in steps])
    inside = [step.coverage.get(80, ()) for step in steps]
    yield step_chart("step-80", "Inside the 80 % interval", found, inside, aim=0.8)
    yield "</div>"
    yield step_tables(found)


def _calibration(found: Evaluation) -> Iterator[str]:
    yield legend([scores.name for scores in found.scores])
    yield '<div class="grid-of-figures">'
    yield calibration_chart("below", found)
    yield hits_chart("hits", found.scores[0])
    yield "</div>"


def _series(found: Evaluation, examples: tuple[Example, ...]) -> Iterator[str]:
    if not examples:
        yield "<p>No series has a unit for the MASE, so none can be ranked.</p>"
        return
    naive = beside(found)
    name = escape(found.scores[naive].name)
    yield (
        '<p class="note">A series counts by its mean MASE over the windows. '
        f"Bars: the model; the line: {name}.</p>"
    )
    yield f'<div class="grid-of-figures">{distribution_chart("spread", found)}'
    yield f"<div>{spread_table(found)}</div></div>"
    yield "<h3>Best, median and worst, by MASE</h3>"
    yield series_legend(examples)
    yield '<div class="grid-of-figures">'
    yield from (series_chart(f"series-{i}", example) for i, example in enumerate(examples))
    yield "</div>"
