"""Serves models until told to stop: what `foretell serve` runs."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from foretell.data.translation import LARGEST_BEAM
from foretell.runtime import load
from foretell.server.application import Application, Ending
from foretell.server.certificates import server_credentials
from foretell.server.listen import check_address
from foretell.server.options import MIB, ServerOptions
from foretell.server.repository import Repository
from foretell.server.security import SecurityOptions, open_doors
from foretell.server.tokens import read_tokens

_log = logging.getLogger(__name__)


def serve(
    models: str | Path,
    listen: str = "127.0.0.1:8001",
    *,
    security: SecurityOptions | None = None,
    device: str = "auto",
    threads: int | None = None,
    instances: int = 2,
    max_message_bytes: int = 64 * MIB,
    max_sentences: int = 1024,
    max_characters: int = 100_000,
    max_beam_size: int = LARGEST_BEAM,
    grace_s: float = 30.0,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Load models and serve them until SIGTERM or SIGINT.

    The first signal stops the server when the calls in work are done, or the grace is over; a
    second one at once. The process ends here, with code 1, if calls were cut off; also, with code
    0, if something is still being computed that nobody waits for. The log goes to stderr.

    Args:
        models: A folder of models (models/NAME/VERSION), one model's folder, or one bundle.
        listen: HOST:PORT, where port 0 takes a free one; or unix:PATH.
        security: Certificates and tokens; None asks for none.
        device: "auto", "cpu" or "cuda".
        threads: Threads of each model; None takes the allowed cores.
        instances: Batches that are computed at a time.
        max_message_bytes: Largest request and largest answer.
        max_sentences: Most sentences of one request to a translator.
        max_characters: Most characters of one sentence.
        max_beam_size: Largest beam.
        grace_s: Seconds that requests in work get to finish when the server stops.
        on_listening: Gets the address with the bound port, once the server answers.

    Raises:
        OptionError: An option is out of its range.
        BundleError: No model can be served.
        DeviceError: The device can't be had.
        ListenError: The address can't be had.
        CertificateError: TLS can't be had with the files.
        TokenFileError: The file of tokens is missing, malformed or empty.
    """
    options = ServerOptions(
        listen=listen,
        security=security or SecurityOptions(),
        instances=instances,
        max_message_bytes=max_message_bytes,
        max_sentences=max_sentences,
        max_characters=max_characters,
        max_beam_size=max_beam_size,
        grace_s=grace_s,
    )
    log_to_stderr()
    check_address(options.listen)  # before a load that may take long, and so the next
    server_credentials(options.security)
    if options.security.tokens is not None:
        read_tokens(options.security.tokens)
    repository = Repository.load(Path(models), partial(load, device=device, threads=threads))
    ending = asyncio.run(_serve(repository, options, on_listening))
    if ending is not Ending.CLEAN:  # a computation under way would hold up an ordinary exit
        logging.shutdown()
        sys.stdout.flush()
        os._exit(1 if ending is Ending.CUT_OFF else 0)


def log_to_stderr() -> None:
    """Send foretell's log to stderr, unless the program has set up logging itself."""
    logger = logging.getLogger("foretell")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


async def _serve(
    repository: Repository, options: ServerOptions, on_listening: Callable[[str], None] | None
) -> Ending:
    application = Application(repository, options)
    await application.start()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the process at once
            loop.add_signal_handler(number, on_signal)
    for model in repository.models.values():
        _log.info(
            "model=%s version=%d provider=%s",
            model.name,
            model.version,
            model.served.provider,
        )
    _log.info("listening on %s", application.address)
    for door in open_doors(options.listen, options.security):
        _log.warning("%s", door)
    if on_listening is not None:
        on_listening(application.address)
    await stop.wait()
    _log.info("stopping; requests in work have %g s", options.grace_s)
    ending = await application.stop(hurry)
    _log.info(ending.value)
    return ending
