"""Translations as lines of text: plain, with scores, or JSON with all that is known."""

import json
import math
from typing import Any

from foretell.data.text.lines import Line
from foretell.data.text.normalising import normalise
from foretell.data.text.translation import Hypothesis, Translation
from foretell.jobs.lines.answered_lines import RefusedLine

# JSON leaves these as they are, and some readers take them for line ends.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}


def text_line(translation: Translation, *, scores: bool = False) -> str:
    """Write the hypotheses in a line, the best first, with tabs between them.

    Args:
        translation: What was found.
        scores: Put each hypothesis' score and a tab before it.
    """
    parts = []
    for hypothesis in translation.hypotheses:
        parts += [f"{hypothesis.score:.6f}"] if scores else []
        parts.append(normalise(hypothesis.text))  # copied text may hold tabs and the like
    return "\t".join(parts)


def json_line(line: Line, translation: Translation | RefusedLine) -> str:
    """Write all that is known of a line's translation as a JSON object in a line."""
    values: dict[str, Any] = {"line": line.number, "source": line.text}
    if isinstance(translation, RefusedLine):
        values["refused"] = translation.reason
    else:
        values |= {
            "hypotheses": [_hypothesis(hypothesis) for hypothesis in translation.hypotheses],
            "source_tokens": translation.source_tokens,
            "truncated": translation.truncated,
            "copied": translation.copied,
        }
    return to_json(values)


def to_json(values: dict[str, Any]) -> str:
    """Write JSON in one line, readable, and safe for readers that split at any kind of end."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False).translate(_ESCAPES)


def number(value: float) -> float | None:
    """JSON has no infinity: the log probability of what can't be is null."""
    return value if math.isfinite(value) else None


def _hypothesis(hypothesis: Hypothesis) -> dict[str, Any]:
    values: dict[str, Any] = {
        "text": hypothesis.text,
        "score": number(hypothesis.score),
        "log_prob": number(hypothesis.log_prob),
        "finish_reason": hypothesis.finish_reason,
        "tokens": hypothesis.tokens,
        "token_log_probs": [number(value) for value in hypothesis.token_log_probs],
    }
    if hypothesis.attention is not None:
        values["attention"] = [[round(w, 6) for w in row] for row in hypothesis.attention.tolist()]
    return values
