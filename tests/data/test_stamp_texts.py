"""Texts told apart many at once: as the expressions say that tell one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.series.stamps import ISO, LAST_STEP, WHOLE
from foretell.data.tables.stamp_texts import classify

stamps = st.sampled_from(
    [
        "2024-01-05T10:00:00.123456789+01:00",
        "2024/1/5 1030 -0130",
        "2024-01-05 10:00Z",
        "2024-01",
        "2024/01/05",
        "+20240105",
        "-12345678901234567890",
        str(LAST_STEP),
        str(LAST_STEP + 1),
        "1" * 30,
        "٢٠٢٤-٠١-٠٥",
        "",
    ]
)
edits = st.tuples(
    st.integers(0, 40), st.integers(0, 2), st.text("0123456789-/:+.TZ \t\v\x1c\n٣x", max_size=2)
)


def by_expressions(text: str) -> tuple[set[str], int | None]:
    if not text:
        return {"blank"}, None
    if WHOLE.fullmatch(text):
        if len(text) > 20 or abs(int(text)) > LAST_STEP:
            return {"filled", "far"}, None
        return {"filled"}, int(text)
    match = ISO.fullmatch(text)
    if match is None:
        return {"filled", "no step", "no date"}, None
    return {"filled", "no step", "local" if match["offset"] is None else "offset"}, None


@given(st.lists(st.tuples(stamps, st.lists(edits, max_size=3)), min_size=1, max_size=20))
def test_many_are_told_apart_as_one(drawn: list[tuple[str, list[tuple[int, int, str]]]]) -> None:
    texts = []
    for text, changes in drawn:
        for place, length, piece in changes:
            text = text[:place] + piece + text[place + length :]  # noqa: PLW2901
        texts.append(text.strip())
    found = classify(pa.array(texts, pa.large_string()))
    steps = dict(zip(found.step_places.tolist(), found.steps.tolist(), strict=True))
    for place, text in enumerate(texts):
        shown = {name for name, mask in found.masks.items() if mask[place]}
        assert (shown, steps.get(place)) == by_expressions(text)
