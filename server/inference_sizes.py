"""How large an answer over the Open Inference Protocol may be."""

from foretell.server.errors import MessageSizeError
from foretell.server.options import ServerOptions


def check_answer_size(size_bytes: int, options: ServerOptions) -> None:
    """Refuse an answer that no message may hold.

    Args:
        size_bytes: Of the answer, reckoned or real.
        options: The server's.

    Raises:
        MessageSizeError: It is larger.
    """
    most = options.max_message_bytes
    if size_bytes > most:
        raise MessageSizeError(
            f"the answer may have {size_bytes:,} bytes, and this server sends at most {most:,}. "
            "Ask for fewer rows, or start the server with a larger --max-message-mib."
        )
