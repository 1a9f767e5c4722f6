"""One `forecast` call of a client, whatever carries its messages: requests out, an answer back."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from foretell.client.chunks import align_future, cut
from foretell.client.codec import Span, read_response, wire_ids, write_request
from foretell.client.models import ModelInfo, forecaster_of
from foretell.client.options import ClientOptions
from foretell.data.errors import Refusal, TableWarning
from foretell.data.series.answers import forecast_table, raise_refused
from foretell.data.series.future import match_future
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, ForecastResponse

_WARNINGS = 5


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks, before the model is known.

    Attributes:
        df: The history.
        future: The known-future covariates, or None.
        columns: Names of the columns; the covariates' are the model's to say.
        options: What to forecast.
    """

    df: pd.DataFrame
    future: pd.DataFrame | None
    columns: Columns
    options: ForecastOptions

    def call(self, model: ModelInfo, options: ClientOptions, target: str) -> "ForecastCall":
        """Read the tables, and make the call to a model.

        Raises:
            TableError: A table can't be understood.
        """
        spec = forecaster_of(model, target)
        columns = replace(
            self.columns,
            future_covariates=spec.future_covariates,
            past_covariates=spec.past_covariates,
            static=spec.static,
        )
        rows = read_rows(self.df, columns)
        future = None if self.future is None else read_future_rows(self.future, columns)
        return ForecastCall(rows, future, self.options, model, options, target)

    def table(self, call: "ForecastCall") -> pd.DataFrame:
        """Make the table of all answers.

        Raises:
            RefusedSeriesError: Some series were refused; it carries the table of the others.
        """
        answer = call.answer()
        for sentence in answer.warnings:
            warnings.warn(sentence, TableWarning, stacklevel=3)
        table = forecast_table(answer, id_col=self.columns.unique_id, time_col=self.columns.ds)
        raise_refused(answer, table)
        return table


class ForecastCall:
    """Makes the requests of typed rows, and one answer of theirs.

    Raises:
        TableError: The rows don't fit the model.
    """

    def __init__(
        self,
        rows: Rows,
        future: Rows | None,
        asked: ForecastOptions,
        model: ModelInfo,
        options: ClientOptions,
        target: str,
    ) -> None:
        self._asked = asked
        self._model = model
        self._target = target
        self._chunk_bytes = options.chunk_bytes_for(model.max_message_bytes)
        self._answers: list[PanelForecast] = []
        self._spec = forecaster_of(model, target)
        self._rows = rows
        self._texts = wire_ids(rows.ids)
        self._future, self._warnings = self._align(future)

    def _align(self, future: Rows | None) -> tuple[Rows | None, tuple[str, ...]]:
        names = self._spec.future_covariates
        owner, sentences = match_future(self._rows, future, names)
        if future is None or not names:
            return None, sentences
        return align_future(future, self._rows, owner), sentences

    def requests(self) -> Iterator[tuple[Span, ForecastRequest]]:
        """Make the requests one by one, in the order of the series.

        All ask for one version: no table is answered by two when the server changes its model.
        """
        options = self._asked
        for span in cut(
            self._rows,
            self._texts,
            self._future,
            options,
            self._chunk_bytes,
            most=self._model.max_series or len(self._texts),
        ):
            request = write_request(
                self._rows, self._texts, span, self._future, options, self._spec
            )
            request.model, request.version = self._model.name, self._model.version
            yield span, request

    def add(self, span: Span, response: ForecastResponse) -> None:
        """Take the answer to the next request, in the order of the requests.

        Raises:
            RemoteError: The answer doesn't fit the request.
        """
        self._answers.append(read_response(response, self._rows, span, self._target))

    def answer(self) -> PanelForecast:
        """Put all answers together, with the refusals and warnings of all."""
        rows, options, answers = self._rows, self._asked, self._answers
        horizon, num_levels = options.horizon, len(options.quantile_levels)
        refusals = self._refusals()
        refused = [refusal.position for refusal in refusals]
        stamps = [np.empty((0, horizon), np.int64), *(one.stamps for one in answers)]
        forecast = [np.empty((0, horizon)), *(one.forecast for one in answers)]
        quantiles = [np.empty((0, horizon, num_levels)), *(one.quantiles for one in answers)]
        return PanelForecast(
            # Joining the answers' ids would infer their type anew; answers keep the order of rows.
            ids=rows.ids[~np.isin(rows.positions, refused)],
            frequencies=tuple(frequency for one in answers for frequency in one.frequencies),
            stamp_kind=rows.stamp_kind,
            time_zone=rows.time_zone,
            stamps=np.concatenate(stamps),
            forecast=np.concatenate(forecast),
            quantile_levels=options.quantile_levels,
            quantiles=np.concatenate(quantiles),
            refusals=refusals,
            warnings=self._all_warnings(),
        )

    def _refusals(self) -> tuple[Refusal, ...]:
        refusals = [*self._rows.refusals]
        for one in self._answers:
            refusals += one.refusals
        return tuple(sorted(refusals, key=lambda refusal: refusal.position))

    def _all_warnings(self) -> tuple[str, ...]:
        """Every request may bring its own; a handful says it all."""
        sentences = [*self._warnings, *(text for one in self._answers for text in one.warnings)]
        distinct = list(dict.fromkeys(sentences))
        more = len(distinct) - _WARNINGS
        return tuple(
            distinct[:_WARNINGS] + ([f"{more} more warnings like these."] if more > 0 else [])
        )
