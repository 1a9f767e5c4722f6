"""Names of frequencies: pandas' aliases, old and new, and plain steps.

Equal grids get equal names: a bare W is W-SUN, and QE-MAR is QE-DEC.
"""

import re

from foretell.data.errors import FrequencyError

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

# Units that step by a fixed time, in nanoseconds: they count instants, whatever the local clock
# does.
CLOCK_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# Units that step by months: their length, and the month (from 0) that the bare name is anchored to.
_MONTHS = {
    "ME": (1, 0),
    "MS": (1, 0),
    "QE": (3, 11),
    "QS": (3, 0),
    "YE": (12, 11),
    "YS": (12, 0),
}
MONTH_UNITS = _MONTHS | {f"B{unit}": length for unit, length in _MONTHS.items()}
UNITS = ("integer", *CLOCK_NS, "D", "B", "W", *MONTH_UNITS)

_OLD_NAMES = {
    **{"H": "h", "T": "min", "S": "s", "L": "ms", "U": "us", "N": "ns"},
    **{"d": "D", "b": "B", "w": "W"},
    **{"M": "ME", "BM": "BME", "Q": "QE", "BQ": "BQE"},
    **{"A": "YE", "Y": "YE", "BA": "BYE", "BY": "BYE", "AS": "YS", "BAS": "BYS"},
}
_KNOWN = (
    "an integer step, ns, us, ms, s, min, h, D, B (business day), W or W-MON to W-SUN, ME and MS "
    "(month end and start), QE-DEC, QS-JAN, YE-DEC, YS-JAN and their like, BME, BMS, BQE, BQS, "
    "BYE, BYS (last and first business day), each with a multiple if need be, such as 15min"
)
_LONGEST_NAME = 32  # characters; the longest that means anything has 26


def read_alias(text: object) -> tuple[str, int, str]:
    """Read a name as unit, multiple and anchor, the unit by its new name.

    Raises:
        FrequencyError: The name is unknown; the message lists the known ones.
    """
    try:
        written = str(text)
    except ValueError:  # Python writes no integers of thousands of digits
        raise FrequencyError(
            f"frequency is a number of thousands of digits; give {_KNOWN}."
        ) from None
    is_short = len(written) <= _LONGEST_NAME  # with its spaces: messages tell all of it
    shown = repr(written if is_short else f"{written[:_LONGEST_NAME]}...")
    name = written.strip(" ") if is_short else ""
    match = re.fullmatch(r"([0-9]*) *([A-Za-z]*)(?:-([A-Za-z]{3}))?", name)
    # bool is an int; `True` as a frequency is a mistake.
    if match is None or not name or isinstance(text, bool):
        raise FrequencyError(f"frequency {shown} is unknown; give {_KNOWN}.")
    digits, word, anchor = match[1], match[2], (match[3] or "").upper()
    unit = _OLD_NAMES.get(word, word) if word else "integer"
    if name == "m":
        raise FrequencyError(
            "frequency 'm' may be minutes or months; give 'min', 'ME' (month end) or 'MS' "
            "(month start)."
        )
    if unit not in UNITS or word == "integer":
        raise FrequencyError(f"frequency {shown} is unknown; give {_KNOWN}.")
    return unit, int(digits or 1), _normal_anchor(unit, anchor, name)


def _normal_anchor(unit: str, anchor: str, name: str) -> str:
    """Name an anchor so that equal grids have equal names: a bare W is W-SUN, QE-MAR is QE-DEC."""
    if unit == "W":
        if anchor and anchor not in WEEKDAYS:
            raise FrequencyError(
                f"frequency {name!r} is anchored to {anchor!r}; give one of {', '.join(WEEKDAYS)}."
            )
        return anchor or "SUN"
    length, default = MONTH_UNITS.get(unit, (0, 0))
    if length in {3, 12}:
        if anchor and anchor not in MONTHS:
            raise FrequencyError(
                f"frequency {name!r} is anchored to {anchor!r}; give one of {', '.join(MONTHS)}."
            )
        return anchor_month(unit, MONTHS.index(anchor) if anchor else default)
    if anchor:
        raise FrequencyError(
            f"frequency {name!r} has the anchor {anchor!r}; only weeks, quarters and years have "
            f"one. Give {name.split('-', 1)[0]!r}."
        )
    return ""


def anchor_month(unit: str, month: int) -> str:
    """Name the anchor of a quarter or year unit that has an edge in a month (from 0, any year)."""
    length = MONTH_UNITS[unit][0]
    if length == 1:
        return ""
    first = 9 if length == 3 and unit.endswith("E") else 0
    return MONTHS[first + month % length]
