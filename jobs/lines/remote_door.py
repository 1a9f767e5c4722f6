"""A server that computes a job's translations; apart, for clients take time to import."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from foretell.client.models import translator_of
from foretell.data.text.translation import PairScore, TranslateOptions, Translation
from foretell.jobs.journals.sealed import fingerprint
from foretell.jobs.lines.doors import TranslatorDoor
from foretell.jobs.servers import IN_FLIGHT, JobServer, job_server


@contextmanager
def remote_translator(
    target: str, *, model: str | None = None, in_flight: int = IN_FLIGHT
) -> Iterator[TranslatorDoor]:
    """Connect to a server, with the credentials of the environment.

    Args:
        target: HOST:PORT of the server.
        model: Its name; None where the server serves one.
        in_flight: Requests that are on their way at a time, at most.

    Raises:
        OptionError: The credentials contradict, or a token would go in clear to another machine.
        RemoteError: It can't be reached, or has no such translator.
    """
    chunks = min(2, in_flight)
    with job_server(target, model=model, in_flight=in_flight // chunks) as server:
        yield TranslatorDoor(
            translate=partial(_translate, server),
            score=partial(_score, server),
            where=server.where,
            spec=translator_of(server.info, target),
            fingerprint=fingerprint(server.info.manifest),
            in_flight=chunks,
            stop=server.stop,
        )


def _translate(
    server: JobServer,
    sentences: Sequence[str],
    options: TranslateOptions | Sequence[TranslateOptions],
    *,
    first_place: int = 0,
) -> list[Translation]:
    server.check_model()
    return server.client.translate(sentences, options, model=server.info, first_place=first_place)


def _score(server: JobServer, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
    server.check_model()
    return server.client.score(pairs, model=server.info)
