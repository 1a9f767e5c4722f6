"""What texts may be stamps, told for many at once: steps, ISO dates with an offset or without.

It says what the expressions of `foretell.data.series.stamps` say, one for each form and for ASCII
alone, so that they need not be asked for millions of stamps one by one; they are, for whatever is
odd.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64

from foretell.data.series.stamps import ISO, LAST_STEP, WHOLE

_TIME = r"[T ]\d{2}(:?\d{2}(:?\d{2}(\.\d{1,9})?)?)?"
_OFFSET = r"[\t-\r \x1c-\x1f]*(Z|[+-]\d{2}(:?\d{2})?)"
_DAY = r"(-\d{1,2}-\d{1,2}|/\d{1,2}/\d{1,2})"
_LOCAL = rf"^\d{{4}}([-/]\d{{1,2}}|{_DAY}({_TIME})?)$"
_WITH_OFFSET = rf"^\d{{4}}{_DAY}{_TIME}{_OFFSET}$"
_STEP = r"^[+-]?\d{1,15}$"
_LONG = r"^[+-]?\d{16,}$"


@dataclass(frozen=True, slots=True)
class StampTexts:
    """What each of some texts is.

    Attributes:
        masks: Which of them show what: "blank", "filled", "no step", "no date", "local", "offset",
            or "far" for a step that is too large.
        steps: The steps among them, but those too large.
        step_places: Where these stand.
    """

    masks: dict[str, Bool[np.ndarray, " k"]]
    steps: Int64[np.ndarray, " m"]
    step_places: Int64[np.ndarray, " m"]


def classify(texts: pa.Array) -> StampTexts:
    """Tell what texts are that are not null and have no blanks at their ends."""
    blank, step, local, offset, long = (
        _match(texts, pattern) for pattern in ("^$", _STEP, _LOCAL, _WITH_OFFSET, _LONG)
    )
    far = np.zeros(len(texts), dtype=bool)
    step_places = np.flatnonzero(step)
    steps = pc.cast(pc.utf8_ltrim(texts.take(pa.array(step_places)), "+"), pa.int64()).to_numpy()
    more: dict[int, int] = {}
    # Digits of any alphabet are digits, and long numbers may be steps.
    odd = long | ~pc.string_is_ascii(texts).to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(odd).tolist():
        text = texts[place].as_py()
        match = ISO.fullmatch(text)
        if match is not None:
            (local if match["offset"] is None else offset)[place] = True
        elif WHOLE.fullmatch(text):
            # Python reads no integers of thousands of digits.
            if len(text) > 20 or abs(int(text)) > LAST_STEP:
                far[place] = True
            else:
                more[place] = int(text)
                step[place] = True
    masks = {
        "blank": blank,
        "filled": ~blank,
        "no step": ~(blank | step | far),
        "no date": ~(blank | step | far | local | offset),
        "local": local,
        "offset": offset,
        "far": far,
    }
    return StampTexts(
        masks,
        np.concatenate([steps, np.array(list(more.values()), dtype=np.int64)]),
        np.concatenate([step_places, np.array(list(more), dtype=np.int64)]),
    )


def _match(texts: pa.Array, pattern: str) -> Bool[np.ndarray, " k"]:
    found = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return np.array(found, dtype=bool)
