"""Requests for translations, one by one or many, and for scores; the first byte says which."""

from contextlib import suppress

from google.protobuf.message import DecodeError

from foretell.protos.v1 import translator_pb2 as wire
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions
from foretell.server.services.translator_codec import read_pairs, read_sentence, read_sentences

LIMITS = ServerOptions(max_sentences=50, max_characters=2000)
KINDS = (
    (wire.TranslateRequest, read_sentences),
    (wire.TranslateStreamRequest, read_sentence),
    (wire.ScoreRequest, read_pairs),
)
OPTIONS = wire.TranslateOptions(beam_size=4, n_best=2, banned=["no"], prefix="so", seed=7)


def seeds():
    """A request of each kind, and an empty one."""
    yield b""
    messages = (
        wire.TranslateRequest(sentences=["one", "zwölf", ""], options=[OPTIONS], first_place=3),
        wire.TranslateStreamRequest(sentence="one two", options=OPTIONS),
        wire.ScoreRequest(pairs=[wire.SentencePair(source="one", target="eins")]),
    )
    for kind, message in enumerate(messages):
        yield bytes([kind]) + message.SerializeToString()


def parts(data):
    """What stands before the message, and the message."""
    return data[:1], KINDS[data[0] % len(KINDS)][0].FromString(data[1:])


def read(data):
    """Read it or refuse it."""
    kind, reader = KINDS[data[0] % len(KINDS) if data else 0]
    with suppress(DecodeError, RequestError):
        task = reader(kind.FromString(data[1:]), LIMITS)
        assert len(task.options) in {0, 1, len(task.items)}
        assert set(task.refusals) <= set(range(len(task.items)))
