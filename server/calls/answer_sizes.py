"""How large an answer may be, over whatever protocol."""

from collections.abc import Iterable
from typing import Literal

from foretell.data.series.panel import PanelForecast
from foretell.data.text.translation import PairScore, Translation
from foretell.server.errors import MessageSizeError
from foretell.server.options import ServerOptions

_TOKEN_BYTES = 16  # a piece of a word and its log probability


def check_answer_size(
    size_bytes: int, options: ServerOptions, fewer: str, *, has: Literal["has", "may have"]
) -> None:
    """Refuse an answer that no message may hold.

    Args:
        size_bytes: Of the answer.
        options: The server's.
        fewer: What a caller can ask for less of, such as "fewer rows".
        has: Whether it was made, or reckoned before.

    Raises:
        MessageSizeError: It is larger.
    """
    most = options.max_message_bytes
    if size_bytes > most:
        raise MessageSizeError(
            f"the answer {has} {size_bytes:,} bytes, and this server sends at most {most:,}. "
            f"Ask for {fewer}, or start the server with a larger --max-message-mib."
        )


def forecast_bytes(answer: PanelForecast) -> int:
    """About what a response with these forecasts takes."""
    return answer.quantiles.nbytes + answer.forecast.nbytes


def scores_bytes(answers: Iterable[PairScore]) -> int:
    """About what a response with these scores takes."""
    return sum(_TOKEN_BYTES * (len(one.tokens) + 1) for one in answers)


def translations_bytes(answers: Iterable[Translation]) -> int:
    """About what a response with these translations takes."""
    hypotheses = [one for answer in answers for one in answer.hypotheses]
    return sum(len(one.text) + _TOKEN_BYTES * len(one.tokens) for one in hypotheses) + sum(
        one.attention.nbytes for one in hypotheses if one.attention is not None
    )
