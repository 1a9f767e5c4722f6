"""Requests to rows, answers to responses.

What comes over the wire is checked here, all of it, before any of it is used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.calendars.zones import check_zone
from foretell.data.errors import FrequencyError, OptionError, Refusal, TableError
from foretell.data.quoting import quoted
from foretell.data.series.options import DEFAULT_QUANTILE_LEVELS, MAX_HORIZON, ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows, StampKind
from foretell.protos.arrays import (
    STAMP_KIND_NAMES,
    STAMP_KINDS,
    pack_doubles,
    pack_integers,
    unpack_doubles,
    unpack_integers,
)
from foretell.protos.v1.arrays_pb2 import Integers
from foretell.protos.v1.forecaster_pb2 import (
    ForecastRequest,
    ForecastResponse,
    History,
    NamedDoubles,
    SeriesError,
)
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions
from foretell.server.services.screening import screen, screen_future

_DEFAULT_LIMITS = ServerOptions()
_SHOWN = 5  # ids or names that a message lists before it says "..."
_LONGEST = 128  # characters of each of them


@dataclass(frozen=True, slots=True)
class ForecastTask:
    """What a request asks of a forecaster.

    Attributes:
        rows: Rows of the series' past; covariates in the order of the model.
        future: Rows of the known-future covariates; None where the model has none.
        options: What to forecast.
    """

    rows: Rows
    future: Rows | None
    options: ForecastOptions


def read_request(
    request: ForecastRequest, spec: ForecasterSpec, limits: ServerOptions = _DEFAULT_LIMITS
) -> ForecastTask:
    """Check a request whole and unpack it; a series that is too long is refused alone.

    Args:
        request: As it came.
        spec: The model's, which says what covariates there must be.
        limits: What the server takes.

    Raises:
        RequestError: Something doesn't fit; all of it is listed.
    """
    # Before anything is unpacked: what is too much must not fill the memory first.
    problems = _limit_problems(request, limits)
    if problems:
        raise RequestError(problems)
    options = _read_options(request, problems)
    rows = _read_history(request.history, spec, problems)
    future = _read_future(request, spec, limits, problems)
    if options is None or rows is None or problems:
        raise RequestError(problems)
    return ForecastTask(screen(rows, spec, limits.max_steps), future, options)


def answer_bytes(num_series: int, options: ForecastOptions) -> int:
    """Estimate the size of an answer before anything is computed for it."""
    return num_series * options.horizon * 8 * (2 + len(options.quantile_levels))


def write_answer(answer: PanelForecast, rows: Rows, *, raw: bool) -> ForecastResponse:
    """Pack an answer.

    Args:
        answer: The forecaster's.
        rows: The rows that it answers.
        raw: Pack numbers as bytes.
    """
    refused = {refusal.position for refusal in answer.refusals}
    positions = np.array([at for at in rows.positions.tolist() if at not in refused], np.int64)
    return ForecastResponse(
        horizon=answer.stamps.shape[1],
        positions=pack_integers(positions, raw=raw),
        frequencies=[frequency.alias for frequency in answer.frequencies],
        stamp_kind=STAMP_KINDS[answer.stamp_kind],
        time_zone=answer.time_zone or "",
        stamps=pack_integers(answer.stamps, raw=raw),
        forecast=pack_doubles(answer.forecast, raw=raw),
        quantile_levels=pack_doubles(np.array(answer.quantile_levels), raw=raw),
        quantiles=pack_doubles(answer.quantiles, raw=raw),
        errors=[
            SeriesError(
                position=refusal.position,
                unique_id=str(refusal.unique_id),
                reason=refusal.reason,
            )
            for refusal in answer.refusals
        ],
        warnings=answer.warnings,
    )


def _limit_problems(request: ForecastRequest, limits: ServerOptions) -> list[str]:
    counts = {
        "history.ids": len(request.history.ids),
        "future.ids": len(request.future.ids),
        "future.unread": len(request.future.unread),
    }
    problems = [
        f"{name} has {count:,} series; this server takes at most {limits.max_series:,} "
        "(--max-series). Send several requests."
        for name, count in counts.items()
        if count > limits.max_series
    ]
    if limits.max_horizon < request.horizon <= MAX_HORIZON:
        problems.append(
            f"horizon is {request.horizon:,}; this server takes at most {limits.max_horizon:,} "
            "(--max-horizon). Ask for fewer steps."
        )
    return problems


def _read_options(request: ForecastRequest, problems: list[str]) -> ForecastOptions | None:
    levels: Sequence[float] = DEFAULT_QUANTILE_LEVELS
    if request.HasField("quantile_levels"):
        levels = unpack_doubles(request.quantile_levels, "quantile_levels", problems).tolist()
    try:
        return ForecastOptions(
            horizon=request.horizon,
            quantile_levels=tuple(levels),
            freq=request.frequency or None,
            allow_other_frequency=request.allow_other_frequency,
        )
    except (OptionError, FrequencyError) as error:
        problems += error.problems
        return None


def _read_history(history: History, spec: ForecasterSpec, problems: list[str]) -> Rows | None:
    num_series = len(history.ids)
    if not num_series:
        problems.append("history.ids is empty; send at least one series.")
    _check_ids(history.ids, "history.ids", problems)
    indptr = _read_lengths(history.lengths, num_series, "history", problems)
    num_rows = int(indptr[-1])
    stamps = unpack_integers(history.stamps, "history.stamps", problems)
    _check_size(stamps, num_rows, "history.stamps", "history.lengths", problems)
    target = unpack_doubles(history.target, "history.target", problems)
    _check_size(target, num_rows, "history.target", "history.lengths", problems)
    names = (*spec.future_covariates, *spec.past_covariates)
    columns = _read_columns(history.covariates, names, num_rows, "history.covariates", problems)
    static = _read_columns(history.static, spec.static, num_series, "history.static", problems)
    stamp_kind = _read_stamp_kind(history, problems)
    time_zone = _read_time_zone(history, problems)
    if problems:
        return None
    return Rows(
        ids=pd.Index(list(history.ids), dtype=object),
        indptr=indptr,
        stamps=stamps,
        stamp_kind=stamp_kind,
        time_zone=time_zone,
        target=target,
        covariates=columns,
        static=static,
        positions=np.arange(num_series),
    )


def _read_future(
    request: ForecastRequest, spec: ForecasterSpec, limits: ServerOptions, problems: list[str]
) -> Rows | None:
    future, names = request.future, spec.future_covariates
    if not names and not request.HasField("future"):
        return None
    if not names:
        problems.append("future is sent, but this model takes no known-future covariates; drop it.")
        return None
    if not request.HasField("future"):
        problems.append(f"future is missing; this model needs {_some(names)} over the horizon.")
        return None
    _check_ids(future.ids, "future.ids", problems)
    indptr = _read_lengths(future.lengths, len(future.ids), "future", problems)
    num_rows = int(indptr[-1])
    stamps = unpack_integers(future.stamps, "future.stamps", problems)
    _check_size(stamps, num_rows, "future.stamps", "future.lengths", problems)
    covariates = _read_columns(future.covariates, names, num_rows, "future.covariates", problems)
    unread = _read_unread(request, problems)
    if problems:
        return None
    rows = screen_future(
        Rows(
            ids=pd.Index(list(future.ids), dtype=object),
            indptr=indptr,
            stamps=stamps,
            stamp_kind=_read_stamp_kind(request.history, problems),
            time_zone=_read_time_zone(request.history, problems),
            target=np.empty(0),
            covariates=covariates,
            static=np.empty((len(future.ids), 0)),
            positions=np.arange(len(future.ids)),
        ),
        spec,
        limits.max_steps,
    )
    return replace(rows, refusals=(*rows.refusals, *unread))


def _read_unread(request: ForecastRequest, problems: list[str]) -> tuple[Refusal, ...]:
    unread = request.future.unread
    known = set(request.history.ids)
    strangers = [one.unique_id for one in unread if one.unique_id not in known]
    silent = [one.unique_id for one in unread if not one.reason.strip()]
    if strangers:
        problems.append(
            f"future.unread has {_some(strangers)}, which history.ids lacks; send ids of both."
        )
    if silent:
        problems.append(f"future.unread gives no reason for {_some(silent)}; send one for each.")
    return tuple(Refusal(one.position, one.unique_id, one.reason) for one in unread)


def _read_lengths(message: Integers, num_series: int, name: str, problems: list[str]) -> np.ndarray:
    lengths = unpack_integers(message, f"{name}.lengths", problems)
    _check_size(lengths, num_series, f"{name}.lengths", f"{name}.ids", problems)
    # A sum of int64 could wrap around; no message holds 2**31 rows.
    if lengths.size and not 0 <= lengths.min() <= lengths.max() < 2**31:
        problems.append(f"{name}.lengths holds numbers below 0 or above 2,147,483,647.")
        lengths = np.zeros_like(lengths)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _read_columns(
    columns: Iterable[NamedDoubles],
    names: Sequence[str],
    num_rows: int,
    field: str,
    problems: list[str],
) -> np.ndarray:
    found = {column.name: column for column in columns}
    unknown = [name for name in found if name not in names]
    missing = [name for name in names if name not in found]
    if len(found) < len(list(columns)):
        problems.append(f"{field} names a column twice; send each one once.")
    if unknown:
        problems.append(
            f"{field} has {_some(unknown)}, which this model doesn't take; it takes {_some(names)}."
        )
    if missing:
        problems.append(f"{field} lacks {_some(missing)}; this model takes {_some(names)}.")
    values = np.full((num_rows, len(names)), np.nan) if not problems else np.empty((0, len(names)))
    for at, name in enumerate(names):
        if name in found:
            column = unpack_doubles(found[name].values, f"{field} {name!r}", problems)
            _check_size(column, num_rows, f"{field} {name!r}", "the rows", problems)
            if not problems:
                values[:, at] = column
    return values


def _read_stamp_kind(history: History, problems: list[str]) -> StampKind:
    name = STAMP_KIND_NAMES.get(history.stamp_kind)
    if name is None:
        problems.append(
            "history.stamp_kind is missing or unknown; send one of "
            f"{', '.join(f'STAMP_KIND_{kind.upper()}' for kind in STAMP_KINDS)}."
        )
    return cast(StampKind, name or "naive")


def _read_time_zone(history: History, problems: list[str]) -> str | None:
    zone = history.time_zone
    if STAMP_KIND_NAMES.get(history.stamp_kind) != "zoned":
        if zone:
            problems.append(
                f"history.time_zone is {quoted(zone)}, but the stamps are not STAMP_KIND_ZONED; "
                "drop one."
            )
        return None
    # A name may also mean a file to some readers of zones, and clients have no business with our
    # files.
    if len(zone) > 64 or zone.startswith(("/", ".", "dateutil")):
        problems.append("history.time_zone is no zone; send a name, such as Europe/Berlin.")
        return None
    try:
        return check_zone(zone or "UTC")
    except TableError as error:
        problems += [f"history.time_zone: {problem}" for problem in error.problems]
        return None


def _check_ids(ids: Sequence[str], name: str, problems: list[str]) -> None:
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = [text for text in ids if text in seen or seen.add(text)]  # type: ignore[func-returns-value]
        problems.append(f"{name} has {_some(twice)} twice; send all rows of a series together.")


def _check_size(
    values: np.ndarray, size: int, name: str, against: str, problems: list[str]
) -> None:
    # A part that couldn't be unpacked is empty and has its own problem already.
    if values.size != size and not any(
        text.startswith((name + " ", name + ".")) for text in problems
    ):
        problems.append(f"{name} has {values.size} numbers, but {against} ask for {size}.")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(map(quoted, names[:_SHOWN])) or "none"
    return shown if len(names) <= _SHOWN else f"{shown}, ... ({len(names)} in all)"
