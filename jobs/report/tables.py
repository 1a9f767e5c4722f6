"""The tables of a report: what was evaluated, scores with the best marked, numbers by step."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np

from foretell.data.errors import Refusal
from foretell.jobs.evaluation.backtest import Evaluation, WindowFacts
from foretell.jobs.evaluation.tally import INTERVALS, Scores

_MOST_ROWS = 48
_MOST_REFUSALS = 200
_LONGEST_ID = 120


def facts_list(title: str, facts: Mapping[str, str]) -> str:
    """Names and what stands behind them."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()
    )
    return f'<div><h3>{escape(title)}</h3><dl class="facts">{rows}</dl></div>'


def windows_table(windows: Sequence[WindowFacts]) -> str:
    """When each window begins and ends."""
    rows = [
        [f"{i + 1:,}", windows[i].first, windows[i].last, f"{windows[i].num_series:,}"]
        for i in _chosen(len(windows))
    ]
    return _table("Windows", ["window", "from (earliest)", "to (latest)", "series"], rows)


def score_table(scores: Sequence[Scores]) -> str:
    """All measures of all methods; on a narrow page a method is a block."""
    columns = {
        "MASE": ([of.mase for of in scores], 3, None),
        "sMAPE": ([of.smape for of in scores], 2, None),
        "OWA": ([of.owa for of in scores], 3, None),
        "WQL": ([of.wql for of in scores], 4, None),
    } | {
        f"in {percent} %": ([of.coverage[percent] for of in scores], 1, percent / 100)
        for percent in INTERVALS
    }
    heads = "".join(f'<th role="columnheader" scope="col">{name}</th>' for name in columns)
    rows = []
    for i, of in enumerate(scores):
        cells = "".join(
            _score_cell(name, values, i, decimals, aim)
            for name, (values, decimals, aim) in columns.items()
        )
        rows.append(
            f'<tr role="row"><th role="rowheader" scope="row">{escape(of.name)}</th>{cells}</tr>'
        )
    return (
        '<table class="scores" role="table"><thead role="rowgroup"><tr role="row">'
        f'<th role="columnheader" scope="col">method</th>{heads}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(rows)}</tbody></table>'
    )


def _score_cell(
    name: str, values: Sequence[float], row: int, decimals: int, aim: float | None
) -> str:
    texts = [plain_number(value if aim is None else 100 * value, decimals) for value in values]
    misses = [value if aim is None else abs(value - aim) for value in values]
    known = [miss for miss in misses if not math.isnan(miss)]
    # What is written alike is alike.
    best = {texts[misses.index(min(known))]} if known else set()
    text = texts[row] if aim is None or math.isnan(values[row]) else f"{texts[row]} %"
    if texts[row] in best:
        text = (
            f'<b>{text}</b> <span class="star" aria-hidden="true">★</span>'
            '<span class="unseen">best</span>'
        )
    return f'<td role="cell" data-name="{escape(name)}">{text}</td>'


def step_tables(found: Evaluation) -> str:
    """The numbers behind the pictures by step, at most 48 steps of them."""
    heads = ["step", *(scores.name for scores in found.scores)]
    measures = {
        "MASE": ([scores.by_step.mase for scores in found.scores], 3),
        "sMAPE": ([scores.by_step.smape for scores in found.scores], 2),
        "WQL": ([scores.by_step.wql for scores in found.scores], 4),
    }
    measures |= {
        f"% inside {percent} %": (
            [
                tuple(100 * share for share in scores.by_step.coverage.get(percent, ()))
                for scores in found.scores
            ],
            1,
        )
        for percent in INTERVALS
    }
    tables = []
    for name, (values, decimals) in measures.items():
        rows = [
            [f"{step + 1:,}", *(plain_number(of[step], decimals) if of else "–" for of in values)]
            for step in _chosen(found.horizon)
        ]
        # Of many methods the table may be wider than a phone: it scrolls, the page doesn't.
        tables.append(
            f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(name)} by step">'
            f"{_table(name, heads, rows)}</div>"
        )
    return f"<details><summary>The numbers, step by step</summary>{''.join(tables)}</details>"


def refusals_table(refusals: Sequence[Refusal]) -> Iterator[str]:
    """Series that could not be evaluated, and why."""
    rows = [[_cut(str(refusal.unique_id)), refusal.reason] for refusal in refusals[:_MOST_REFUSALS]]
    if len(refusals) > _MOST_REFUSALS:
        yield (
            f'<p class="note">The first {_MOST_REFUSALS} of {len(refusals):,}; --json has all.</p>'
        )
    yield _table("", ["series", "reason"], rows, style="reasons")


def spread_table(found: Evaluation) -> str:
    """How each method's MASE is spread over the series, and how often the model is better."""
    own = found.series.mase[0]
    rows = []
    for scores, mase in zip(found.scores, found.series.mase, strict=True):
        known = mase[~np.isnan(mase)]
        both = ~np.isnan(mase) & ~np.isnan(own)
        shares = np.quantile(known, (0.1, 0.5, 0.9)) if known.size else np.full(3, np.nan)
        better = f"{100 * float((own[both] < mase[both]).mean()):.0f} %" if both.any() else "–"
        cells = [plain_number(share, 3) for share in shares.tolist()]
        rows.append([scores.name, *cells, "" if scores is found.scores[0] else better])
    heads = ["method", "10 %", "50 %", "90 %", "model better"]
    return _table(
        "MASE of the series: quantiles, and on how many the model is better",
        heads,
        rows,
        "plain narrow",
    )


def _chosen(count: int) -> list[int]:
    """At most 48 of so many rows, evenly, the first and the last among them."""
    rows = np.linspace(0, count - 1, min(count, _MOST_ROWS)).round().astype(np.int64)
    chosen: list[int] = np.unique(rows).tolist()
    return chosen


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_ID else text[: _LONGEST_ID - 1] + "…"


def plain_number(value: float, decimals: int) -> str:
    """As many decimals as are meant; very large and very small numbers by powers of ten."""
    if math.isnan(value):
        return "–"
    if value and not 10.0 ** -(decimals + 1) <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:,.{decimals}f}"


def _table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], style: str = "plain"
) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="{style}">{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )
