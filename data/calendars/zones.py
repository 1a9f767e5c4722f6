"""Instants and local clocks: the one place that knows time zones.

Stamps are int64 nanoseconds: instants in UTC where there is a zone, a bare clock where there is
none. pandas comes when it is needed: a manifest names a frequency, and a translator has no tables.
"""

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from jaxtyping import Int64

from foretell.data.errors import TableError

StampKind = Literal["naive", "zoned", "integer"]

DAY_NS = 86_400_000_000_000
_OFFSET = re.compile(r"(UTC)?[+-]\d{2}:\d{2}")
# Files of the zone database that are no places: this machine's own clock, a marker, and copies that
# count leap seconds or are on few machines. Some file systems find them in capitals too.
_NO_PLACE = re.compile(r"(localtime|posixrules|Factory)|(right|posix)/.*", re.IGNORECASE)
_DATE_LINE_DAYS = (-47_500, 47_500)  # 1839 to 2100: zones crossed the date line from 1844 on


def check_zone(name: str) -> str:
    """Return the name of a time zone as it came.

    Raises:
        TableError: There is no such zone.
    """
    with suppress(KeyError, ValueError, OSError, TypeError):
        if not _NO_PLACE.fullmatch(name):
            # The zone database first: pandas opens any file that is named as dateutil/PATH.
            if not _OFFSET.fullmatch(name):  # fixed offsets are in no database
                ZoneInfo(name)
            import pandas as pd

            pd.Timestamp(0, tz=name)
            return name
    raise TableError(f"{name!r} is no time zone; give a name such as 'Europe/Berlin' or 'UTC'.")


def to_wall(stamps: Int64[np.ndarray, " N"], time_zone: str | None) -> Int64[np.ndarray, " N"]:
    """Read the local clock at each instant."""
    if time_zone is None or time_zone == "UTC":
        return stamps
    import pandas as pd

    instants = pd.DatetimeIndex(stamps.view("M8[ns]")).tz_localize("UTC")
    return _nanoseconds(instants.tz_convert(time_zone).tz_localize(None))


def from_wall(wall: Int64[np.ndarray, " N"], time_zone: str | None) -> Int64[np.ndarray, " N"]:
    """Find the instant at which the local clock shows a time.

    A time that the clock shows twice is its first showing; one that it skips is the first instant
    after the skip.
    """
    if time_zone is None or time_zone == "UTC":
        return wall
    import pandas as pd

    skipped = skipped_days(time_zone)
    if skipped.size:  # pandas shifts over a whole day to a wrong time
        is_skipped = np.isin(wall // DAY_NS, skipped)
        wall = np.where(is_skipped, (wall // DAY_NS + 1) * DAY_NS, wall)
    clock = pd.DatetimeIndex(wall.view("M8[ns]"))
    first = np.ones(len(wall), dtype=bool)
    return _nanoseconds(clock.tz_localize(time_zone, ambiguous=first, nonexistent="shift_forward"))


@lru_cache(maxsize=1024)
def skipped_days(time_zone: str | None) -> Int64[np.ndarray, " k"]:
    """Find the days since 1970-01-01 that a zone's calendar skips, as by crossing the date line.

    Samoa had no 30 December 2011.
    """
    days = np.arange(*_DATE_LINE_DAYS)
    if time_zone is None or time_zone == "UTC":
        return days[:0]
    import pandas as pd

    for time_of_day in (0, DAY_NS // 2, DAY_NS - 1):
        clock = pd.DatetimeIndex((days * DAY_NS + time_of_day).view("M8[ns]"))
        first = np.ones(len(days), dtype=bool)
        instants = clock.tz_localize(time_zone, ambiguous=first, nonexistent="NaT")
        days = days[np.asarray(instants.isna())]
        if not days.size:
            break
    return days


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
    import pandas as pd

    local = pd.Timestamp(int(stamp), tz=time_zone)  # in one step: refusals write thousands
    if stamp % 1_000_000_000:
        return local.isoformat(" ")
    if stamp % 60_000_000_000:
        return local.isoformat(" ", timespec="seconds")
    if time_zone is None and stamp % DAY_NS == 0:
        return local.strftime("%Y-%m-%d")
    return local.isoformat(" ", timespec="minutes")


def _nanoseconds(index: Any) -> Int64[np.ndarray, " N"]:
    return np.asarray(index.as_unit("ns").asi8, dtype=np.int64)
