"""What a failed call tells beside its status: the kind of the caller's mistake.

A status code is too coarse to say which error a forecaster in the caller's own process would have
raised. The name of that error's class travels as trailing metadata, so that a client can raise the
very same; other clients may leave it unread.
"""

from collections.abc import Iterable

_ERROR_KIND = "foretell-error-kind"


def write_error_kind(error: Exception) -> tuple[tuple[str, str], ...]:
    """Make the trailing metadata of a call that failed by its caller's mistake."""
    return ((_ERROR_KIND, type(error).__name__),)


def read_error_kind(trailers: Iterable[tuple[str, str | bytes]] | None) -> str | None:
    """Read the name of the error's class from trailing metadata.

    Args:
        trailers: As gRPC gives them; None where the call never reached a server.

    Returns:
        The name, or None where the server sent none.
    """
    for key, value in trailers or ():
        if key == _ERROR_KIND and isinstance(value, str):
            return value
    return None
