"""Instants and local clocks: the one place that knows time zones.

Stamps are int64 nanoseconds: instants in UTC where there is a zone, a bare clock where there is
none.
"""

import re
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from jaxtyping import Int64

from foretell.data.errors import TableError

StampKind = Literal["naive", "zoned", "integer"]

DAY_NS = 86_400_000_000_000
_OFFSET = re.compile(r"(UTC)?[+-]\d{2}:\d{2}")


def check_zone(name: str) -> str:
    """Return the name of a time zone as it came.

    Raises:
        TableError: There is no such zone.
    """
    try:
        # The zone database first: pandas opens any file that is named as dateutil/PATH.
        if not _OFFSET.fullmatch(name):  # fixed offsets are in no database
            ZoneInfo(name)
        pd.Timestamp(0, tz=name)
    except (KeyError, ValueError, OSError, TypeError) as error:
        raise TableError(
            f"{name!r} is no time zone; give a name such as 'Europe/Berlin' or 'UTC'."
        ) from error
    return name


def to_wall(stamps: Int64[np.ndarray, " N"], time_zone: str | None) -> Int64[np.ndarray, " N"]:
    """Read the local clock at each instant."""
    if time_zone is None or time_zone == "UTC":
        return stamps
    instants = pd.DatetimeIndex(stamps.view("M8[ns]")).tz_localize("UTC")
    return _nanoseconds(instants.tz_convert(time_zone).tz_localize(None))


def from_wall(wall: Int64[np.ndarray, " N"], time_zone: str | None) -> Int64[np.ndarray, " N"]:
    """Find the instant at which the local clock shows a time.

    A time that the clock shows twice is its first showing; one that it skips is the first instant
    after the skip.
    """
    if time_zone is None or time_zone == "UTC":
        return wall
    clock = pd.DatetimeIndex(wall.view("M8[ns]"))
    first = np.ones(len(wall), dtype=bool)
    return _nanoseconds(clock.tz_localize(time_zone, ambiguous=first, nonexistent="shift_forward"))


def split_days(
    stamps: Int64[np.ndarray, " N"], time_zone: str | None
) -> tuple[Int64[np.ndarray, " N"], Int64[np.ndarray, " N"]]:
    """Split stamps into local days since 1970-01-01 and the time of day in nanoseconds.

    Where a zone skips midnight, the first instant of that day counts as midnight, so that a daily
    series keeps its time of day over the change.
    """
    days, time_of_day = np.divmod(to_wall(stamps, time_zone), DAY_NS)
    if time_zone is None or time_zone == "UTC":
        return days, time_of_day
    late = np.flatnonzero(time_of_day)
    if late.size:
        late_days, which = np.unique(days[late], return_inverse=True)
        is_first_instant = from_wall(late_days * DAY_NS, time_zone)[which] == stamps[late]
        time_of_day[late[is_first_instant]] = 0
    return days, time_of_day


def describe_stamp(stamp: int | np.int64, kind: StampKind, time_zone: str | None) -> str:
    """Write a stamp for a person: `2024-05-10`, `2024-05-10 13:00+02:00`, or `42`."""
    if kind == "integer":
        return str(stamp)
    moment = pd.Timestamp(int(stamp), unit="ns", tz="UTC")
    local = moment.tz_convert(time_zone) if time_zone is not None else moment.tz_localize(None)
    if stamp % 1_000_000_000:
        return local.isoformat(" ")
    if stamp % 60_000_000_000:
        return local.isoformat(" ", timespec="seconds")
    if time_zone is None and stamp % DAY_NS == 0:
        return local.strftime("%Y-%m-%d")
    return local.isoformat(" ", timespec="minutes")


def _nanoseconds(index: pd.DatetimeIndex) -> Int64[np.ndarray, " N"]:
    return np.asarray(index.as_unit("ns").asi8, dtype=np.int64)
