"""Rows to requests, responses to answers."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd

from foretell.client.errors import RemoteError
from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import Refusal, TableError
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows, StampKind
from foretell.protos.arrays import (
    STAMP_KIND_NAMES,
    STAMP_KINDS,
    pack_doubles,
    pack_integers,
    unpack_doubles,
    unpack_integers,
)
from foretell.protos.v1.forecaster_pb2 import (
    ForecastRequest,
    ForecastResponse,
    Future,
    History,
    NamedDoubles,
    SeriesError,
)


@dataclass(frozen=True, slots=True)
class Span:
    """Series `start` to `stop` (exclusive) of a table's rows: what one request carries."""

    start: int
    stop: int


def wire_ids(ids: pd.Index) -> list[str]:
    """Write ids as texts, no two equal: 1 and "1" are two ids in a table.

    Raises:
        TableError: Two ids can't be told apart by their texts.
    """
    for write in (str, repr):
        texts = [_sendable(write(value)) for value in ids]
        if len(set(texts)) == len(texts):
            return texts
    raise TableError(
        "two ids have the same text, so a server can't tell them apart; give each its own."
    )


def write_request(
    rows: Rows,
    texts: list[str],
    span: Span,
    future: Rows | None,
    options: ForecastOptions,
    spec: ForecasterSpec,
) -> ForecastRequest:
    """Pack a span of series and the question.

    Args:
        rows: All rows of the table.
        texts: The ids as texts.
        span: Which series.
        future: Known-future rows; series i of them belongs to series i of `rows`, and may be empty.
        options: What to forecast.
        spec: The model's, which says what covariates there are.
    """
    request = ForecastRequest(
        horizon=int(options.horizon),
        quantile_levels=pack_doubles(np.array(options.quantile_levels)),
        frequency=options.freq or "",
        allow_other_frequency=bool(options.allow_other_frequency),
        raw_answer=True,
        history=_write_history(rows, texts, span, spec),
    )
    if future is not None:
        request.future.CopyFrom(_write_future(future, texts, span, spec))
    return request


def read_response(response: ForecastResponse, rows: Rows, span: Span, target: str) -> PanelForecast:
    """Unpack the answer to the request of a span; ids and positions are the table's own again.

    Args:
        response: What the server sent.
        rows: All rows of the table.
        span: Which series were asked for.
        target: The server's address, for an error.

    Raises:
        RemoteError: The response doesn't fit the request.
    """
    problems: list[str] = []
    answered = unpack_integers(response.positions, "positions", problems) + span.start
    levels = unpack_doubles(response.quantile_levels, "quantile_levels", problems)
    stamps = unpack_integers(response.stamps, "stamps", problems)
    forecast = unpack_doubles(response.forecast, "forecast", problems)
    quantiles = unpack_doubles(response.quantiles, "quantiles", problems)
    shape = (len(answered), response.horizon)
    steps = len(answered) * response.horizon
    refused = [span.start + error.position for error in response.errors]
    if (
        problems
        or stamps.size != steps
        or forecast.size != steps
        or quantiles.size != steps * levels.size
        or len(response.frequencies) != len(answered)
        or (np.diff(answered) <= 0).any()
        or sorted([*answered.tolist(), *refused]) != list(range(span.start, span.stop))
        or response.stamp_kind not in STAMP_KIND_NAMES
    ):
        raise RemoteError(
            "DATA_LOSS", target, " ".join(["the answer doesn't fit the request.", *problems])
        )
    parsed = {alias: Frequency.parse(alias) for alias in set(response.frequencies)}
    return PanelForecast(
        ids=rows.ids[answered],
        frequencies=tuple(parsed[alias] for alias in response.frequencies),
        stamp_kind=cast(StampKind, STAMP_KIND_NAMES[response.stamp_kind]),
        time_zone=response.time_zone or None,
        stamps=stamps.reshape(shape),
        forecast=forecast.reshape(shape),
        quantile_levels=tuple(levels.tolist()),
        quantiles=quantiles.reshape(*shape, levels.size),
        refusals=tuple(
            Refusal(int(rows.positions[at]), rows.ids[at], error.reason)
            for at, error in zip(refused, response.errors, strict=True)
        ),
        warnings=tuple(response.warnings),
    )


def _write_history(rows: Rows, texts: list[str], span: Span, spec: ForecasterSpec) -> History:
    taken = slice(int(rows.indptr[span.start]), int(rows.indptr[span.stop]))
    names = (*spec.future_covariates, *spec.past_covariates)
    return History(
        ids=texts[span.start : span.stop],
        lengths=pack_integers(np.diff(rows.indptr[span.start : span.stop + 1])),
        stamps=pack_integers(rows.stamps[taken]),
        stamp_kind=STAMP_KINDS[rows.stamp_kind],
        time_zone=rows.time_zone or "",
        target=pack_doubles(rows.target[taken]),
        covariates=_columns(names, rows.covariates[taken]),
        static=_columns(spec.static, rows.static[span.start : span.stop]),
    )


def _write_future(future: Rows, texts: list[str], span: Span, spec: ForecasterSpec) -> Future:
    taken = slice(int(future.indptr[span.start]), int(future.indptr[span.stop]))
    return Future(
        ids=texts[span.start : span.stop],
        lengths=pack_integers(np.diff(future.indptr[span.start : span.stop + 1])),
        stamps=pack_integers(future.stamps[taken]),
        covariates=_columns(spec.future_covariates, future.covariates[taken]),
        unread=[
            SeriesError(
                position=refusal.position - span.start,
                unique_id=texts[refusal.position],
                reason=_sendable(refusal.reason),
            )
            for refusal in future.refusals
            if span.start <= refusal.position < span.stop
        ],
    )


def _sendable(text: str) -> str:
    """Text may hold half a surrogate pair, which no message can carry."""
    return text.encode(errors="backslashreplace").decode()


def _columns(names: tuple[str, ...], values: np.ndarray) -> list[NamedDoubles]:
    return [
        NamedDoubles(name=name, values=pack_doubles(values[:, at])) for at, name in enumerate(names)
    ]
