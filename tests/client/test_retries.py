"""What becomes of requests that a full queue refused, or a server that wasn't there."""

import pickle
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from foretell.client import RemoteError
from foretell.client.errors import read_details
from foretell.client.options import ClientOptions
from foretell.client.retries import Retries
from foretell.data.text.translation import TranslateOptions
from foretell.server.background import serve_in_background
from foretell.server.errors import ModelNotReadyError
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

WAIT_S = 60.0
DETAILS = "grpc-status-details-bin"


class Refusal(grpc.RpcError):
    """An error as gRPC's clients raise it."""

    def __init__(self, code, text="", *details):
        self._code, self._text = code, text
        packed = [any_pb2.Any() for _ in details]
        for one, detail in zip(packed, details, strict=True):
            one.Pack(detail)
        self._trailers = ((DETAILS, status_pb2.Status(details=packed).SerializeToString()),)

    def code(self):
        return self._code

    def details(self):
        return self._text

    def trailing_metadata(self):
        return self._trailers


def full(seconds, reason="QUEUE_FULL"):
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(int(seconds * 1000))
    info = error_details_pb2.ErrorInfo(reason=reason, domain="foretell")
    return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", info, retry)


@pytest.fixture
def refused(monkeypatch):
    """Is set once a client has heard a refusal; a server says that a batch takes a moment."""
    monkeypatch.setattr("foretell.runtime.queues.pace._UNKNOWN_S", 0.05)
    heard, wait_s = threading.Event(), Retries.wait_s

    def hear(self, error):
        wait = wait_s(self, error)
        heard.set()
        return wait

    monkeypatch.setattr(Retries, "wait_s", hear)
    return heard


@pytest.mark.parametrize("method", ["translate", "score"])
def test_a_long_list_passes_a_short_queue(call, serving, make_translator, refused, method):
    """Alone it would fill the queue, and lose what is answered already."""
    translator = make_translator(before_step=lambda: refused.wait(WAIT_S))
    texts = [f"ab{at}" for at in range(900)]
    asked = texts if method == "translate" else [(text, text) for text in texts]
    with serving(ende=translator, instances=1, max_queue=1) as address:
        answers = call(address, method, asked)
    assert refused.is_set()
    if method == "translate":
        assert [one.hypotheses[0].text for one in answers] == [text[::-1] for text in texts]
    else:
        assert [one.tokens for one in answers] == [(f"▁{text}",) for text in texts]


def test_whoever_wants_no_second_try_hears_at_once_why(call, serving, make_translator, refused):
    translator = make_translator(before_step=lambda: refused.wait(WAIT_S))
    with (
        serving(ende=translator, instances=1, max_queue=1) as address,
        pytest.raises(RemoteError, match="Exceeds maximum queue size") as caught,
    ):
        call(address, "translate", ["ab"] * 600, options={"retry_s": 0})
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "QUEUE_FULL")
        assert error.retry_after_s > 0
        assert error.request_id
        assert "message is too large" not in str(error)
        assert "larger retry_s" in str(error)


@pytest.mark.parametrize("method", ["translate", "translate_stream"])
def test_a_model_that_is_not_there_yet_is_asked_again(call, serving, make_translator, method):
    """But not for a stream, whose caller may have been told a part of it."""
    translator = make_translator()
    plan, stream, times = translator.plan_translations, translator.translate_stream, []

    def planned(*arguments, **keywords):
        times.append(1)
        if len(times) <= 2:
            raise ModelNotReadyError("it is being loaded.")
        return plan(*arguments, **keywords)

    def streamed(sentence, options=TranslateOptions()):  # noqa: B008  # frozen
        times.append(1)
        raise ModelNotReadyError("it is being loaded.")
        yield from stream(sentence, options)

    translator.plan_translations, translator.translate_stream = planned, streamed
    with serving(ende=translator) as address:
        if method == "translate":
            (answer,) = call(address, method, ["ab"])
            assert (answer.hypotheses[0].text, len(times)) == ("ba", 3)
        else:
            with pytest.raises(RemoteError, match="UNAVAILABLE"):
                call(address, method, "ab")
            assert len(times) == 1


def test_a_server_that_is_started_anew_answers_the_rest(call, make_translator):
    come, go = threading.Event(), threading.Event()

    def hold():
        come.set()
        assert go.wait(WAIT_S)

    def serve(translator):
        repository = Repository([Model("ende", 1, translator)])
        return serve_in_background(repository, ServerOptions(listen=address, grace_s=0.05))

    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with ThreadPoolExecutor(1) as caller:
        with serve(make_translator(before_step=hold)):
            asked = caller.submit(call, address, "translate", ["ab"] * 300)
            assert come.wait(WAIT_S)
        go.set()
        with serve(make_translator()):
            answers = asked.result(WAIT_S)
    assert [one.hypotheses[0].text for one in answers] == ["ba"] * 300


def test_who_asks_what_a_model_is_may_wait_for_the_server(call, make_translator, refused):
    """A job goes on when it is back; unasked nobody waits, since the address may be wrong."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(RemoteError, match="UNAVAILABLE"):
        call(address, "describe", "ende")
    assert not refused.is_set()
    repository = Repository([Model("ende", 1, make_translator())])
    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(call, address, "describe", "ende", retry=True)
        assert refused.wait(WAIT_S)
        with serve_in_background(repository, ServerOptions(listen=address)):
            assert asked.result(WAIT_S).version == 1


def test_what_breaks_no_server_is_asked_through_any_number_of_broken_connections():
    """As a proxy tells them for as long as nothing stands behind it."""
    retries = Retries(ClientOptions(), is_harmless=True)
    broken = Refusal(grpc.StatusCode.UNAVAILABLE, "no healthy upstream")
    assert all(retries.wait_s(broken) is not None for _ in range(10))


def test_a_wait_is_never_shorter_than_told_and_differs_from_others():
    waits = {Retries(ClientOptions()).wait_s(full(4.0)) for _ in range(20)}
    assert len(waits) > 1
    assert all(4.0 <= wait <= 5.0 for wait in waits)


@pytest.mark.parametrize("options", [{"timeout_s": 3.0}, {"retry_s": 3.0}, {"retry_s": 0}], ids=str)
def test_nobody_waits_for_longer_than_a_request_may_take(options):
    assert Retries(ClientOptions(**options)).wait_s(full(4.0)) is None


def test_waits_for_a_server_that_is_not_there_grow_up_to_a_bound():
    retries = Retries(ClientOptions())
    gone = Refusal(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; ...")
    waits = [retries.wait_s(gone) for _ in range(12)]
    assert waits[0] <= 0.1
    assert 2.5 <= waits[-1] <= 5.0


def test_a_request_that_breaks_connections_is_not_sent_for_ever():
    retries = Retries(ClientOptions())
    broken = Refusal(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    assert [retries.wait_s(broken) is None for _ in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    "error",
    [
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max"),
        full(0.1, reason="MESSAGE_SIZE"),
        Refusal(grpc.StatusCode.DEADLINE_EXCEEDED),
        Refusal(grpc.StatusCode.INVALID_ARGUMENT),
        Refusal(grpc.StatusCode.INTERNAL),
    ],
    ids=["large", "size", "late", "wrong", "fault"],
)
def test_what_would_only_fail_again_is_not_sent_again(error):
    assert Retries(ClientOptions()).wait_s(error) is None


@pytest.mark.parametrize("value", [b"\xff\xff", b"", "text"])
def test_details_that_nobody_can_read_are_left_out(value):
    told = read_details([(DETAILS, value)])
    assert (told.reason, told.retry_after_s, told.request_id) == (None, None, None)
    assert read_details(None) == told
