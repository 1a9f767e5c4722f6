"""Series as rows of a forecaster's queue: forecast beside those of others.

A row is some series of one request that are padded to one length. Its answer is the same whatever
batch it runs in; see `foretell.runtime.batching`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.series.panel import Panel
from foretell.runtime.batching import Batch as Series
from foretell.runtime.panels import Part, Quantiles, plan_panel, run_parts, series_room
from foretell.runtime.queues.work import Batch, Row
from foretell.runtime.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Some series of a panel, and where their quantiles go."""

    part: Part
    context_length: int
    found: Quantiles


class SeriesRows:
    """Makes rows for one forecaster's queue, and runs batches of them."""

    def __init__(self, session: Session, spec: ForecasterSpec) -> None:
        self._session = session
        self._spec = spec

    def rows(
        self, panel: Panel, horizon: int, levels: Sequence[float]
    ) -> tuple[list[Row], Quantiles]:
        """Make rows of the series of a panel.

        Args:
            panel: The series.
            horizon: Steps ahead.
            levels: Quantile levels inside the trained range.

        Returns:
            The rows, and where their answers will be.
        """
        found = Quantiles.empty(panel, horizon, levels)
        batches = plan_panel(self._session, self._spec, panel, horizon)
        return [self._row(panel, series, found) for series in batches], found

    def _row(self, panel: Panel, series: Series, found: Quantiles) -> Row:
        lengths = np.diff(panel.indptr)[series.series]
        length, horizon = series.context_length, found.values.shape[1]
        room = series_room(self._session, self._spec, length, horizon)
        return Row(
            self._run,
            (length, horizon),
            _Asked(Part(panel, series.series), length, found),
            share=len(series.series) / room,
            items=int(np.minimum(lengths, length).sum()),
            padded_items=len(lengths) * length,
        )

    def _run(self, batch: Batch) -> None:
        asked: tuple[_Asked, ...] = batch.tasks
        length, horizon = asked[0].context_length, asked[0].found.values.shape[1]
        answers = run_parts(
            self._session,
            self._spec,
            [one.part for one in asked],
            length,
            horizon,
            stop=batch.stop,
        )
        for place, (one, (trained, seen)) in enumerate(zip(asked, answers, strict=True)):
            one.found.put(one.part.series, trained, seen, self._spec)
            batch.put(place)
