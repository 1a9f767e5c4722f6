"""Streams of the Open Inference Protocol: parts as they are decided, errors in their place."""

import threading
import time

import grpc
import numpy as np
import pytest

from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.server.options import ServerOptions

WANTS_FINAL = "triton_enable_empty_final_response"
FINAL = "triton_final_response"
WAIT_S = 60.0


def sentence(text, request_id="", **parameters):
    content = text.encode()
    request = wire.ModelInferRequest(
        model_name="ende",
        id=request_id,
        raw_input_contents=[len(content).to_bytes(4, "little") + content],
    )
    request.inputs.add(name="sentences", datatype="BYTES", shape=[1])
    for name, value in parameters.items():
        field = "bool_param" if isinstance(value, bool) else "int64_param"
        setattr(request.parameters[name], field, value)
    return request


def context(request_id=""):
    request = wire.ModelInferRequest(
        model_name="demand", id=request_id, raw_input_contents=[np.ones(4).tobytes()]
    )
    request.inputs.add(name="context", datatype="FP64", shape=[1, 4])
    return request


def text_of(response, name):
    """The one text of an output; None where the answer hasn't that output."""
    inner = response.infer_response
    for output, content in zip(inner.outputs, inner.raw_output_contents, strict=True):
        if output.name == name:
            assert list(output.shape) in ([1], [1, 1])
            return content[4:].decode()
    return None


@pytest.fixture
def stub(serving, make_forecaster, make_translator):
    with serving(demand=make_forecaster(), ende=make_translator()) as channel:
        yield GRPCInferenceServiceStub(channel)


def by_id(answers):
    """The answers to each request of a stream, those of one in their order."""
    found = {}
    for answer in answers:
        found.setdefault(answer.infer_response.id, []).append(answer)
    return found


def test_each_request_has_its_answer_under_its_id(stub):
    requests = [sentence("one", "a"), context("b"), sentence("two", "c")]
    answers = by_id(stub.ModelStreamInfer(iter(requests)))
    assert sorted(answers) == ["a", "b", "c"]
    for request in requests:
        (answer,) = answers[request.id]
        assert not answer.error_message
        assert answer.infer_response == stub.ModelInfer(request)
    assert text_of(answers["c"][0], "translations") == "owt"


@pytest.mark.parametrize("model", ["ende", "m" * 5000])
def test_an_id_that_is_a_load_is_refused_and_not_sent_back(stub, model):
    """Each part of an answer would hold it again: 50 MiB of it stopped the server."""
    largest, larger = (sentence("one two", "i" * size, stream=True) for size in (1024, 1025))
    larger.model_name = model
    answers = list(stub.ModelStreamInfer(iter([larger])))
    assert len(answers) == 1
    assert "id has 1,025 characters; send at most 1,024" in answers[0].error_message
    assert answers[0].infer_response.parameters["grpc_code"].string_param == "INVALID_ARGUMENT"
    assert answers[0].ByteSize() < 2048
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(larger)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "iii" not in error.value.details()
    ids = {answer.infer_response.id for answer in stub.ModelStreamInfer(iter([largest]))}
    assert ids == {largest.id}


def test_a_translation_appears_in_parts_and_then_whole(stub):
    answers = list(stub.ModelStreamInfer(iter([sentence("one two", "7", stream=True)])))
    parts = [text_of(answer, "text") for answer in answers]
    assert parts == ["eno", " owt", None]
    assert text_of(answers[-1], "translations") == "eno owt"
    assert {answer.infer_response.id for answer in answers} == {"7"}
    whole = stub.ModelInfer(sentence("one two", "7"))
    assert answers[-1].infer_response == whole


def test_the_last_answer_is_marked_when_asked_for(stub):
    """Or a client that waits for it waits for ever."""
    requests = [
        sentence("one two", "a", stream=True, **{WANTS_FINAL: True}),
        sentence("three", "b", **{WANTS_FINAL: True}),
        sentence("four", "c"),
    ]
    marks = {
        request_id: [
            answer.infer_response.parameters[FINAL].bool_param
            if FINAL in answer.infer_response.parameters
            else None
            for answer in answers
        ]
        for request_id, answers in by_id(stub.ModelStreamInfer(iter(requests))).items()
    }
    assert marks == {"a": [False, False, True], "b": [True], "c": [None]}


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        (lambda: wire.ModelInferRequest(model_name="nope", id="x"), "NOT_FOUND", "unknown model"),
        (lambda: sentence("one", "x", beam_size=0), "INVALID_ARGUMENT", "beam_size is 0"),
        (lambda: sentence("one", "x", beam=0), "INVALID_ARGUMENT", "'beam' is not known"),
        (
            lambda: sentence("long " * 60, "x", stream=True),
            "INVALID_ARGUMENT",
            "the source has 61 tokens",
        ),
        (
            lambda: sentence("one", "x", stream=True, first_place=2),
            "INVALID_ARGUMENT",
            "'first_place' has no meaning",
        ),
        (lambda: wire.ModelInferRequest(model_name="ende", id="x"), "INVALID_ARGUMENT", "missing"),
    ],
)
def test_an_error_is_its_requests_own_and_the_stream_goes_on(stub, bad, code, words):
    requests = [sentence("one", "a"), bad(), sentence("two", "b")]
    answers = by_id(stub.ModelStreamInfer(iter(requests)))
    (error,) = answers["x"]
    assert error.error_message.startswith("[request id: x]")
    assert words in error.error_message
    assert error.infer_response.parameters["grpc_code"].string_param == code
    for request_id, text in (("a", "eno"), ("b", "owt")):
        (answer,) = answers[request_id]
        assert not answer.error_message
        assert text_of(answer, "translations") == text


def test_an_error_is_final_too(stub):
    bad = sentence("one", beam_size=0, **{WANTS_FINAL: True})
    (answer,) = stub.ModelStreamInfer(iter([bad]))
    assert answer.infer_response.parameters[FINAL].bool_param


def test_a_stream_of_parts_takes_one_sentence(stub):
    request = sentence("one", stream=True)
    request.inputs[0].shape[0] = 2
    request.raw_input_contents[0] *= 2
    (answer,) = stub.ModelStreamInfer(iter([request]))
    assert "sentences has 2 elements" in answer.error_message


def test_parts_are_of_translators_alone(stub):
    request = context()
    request.parameters["stream"].bool_param = True
    (answer,) = stub.ModelStreamInfer(iter([request]))
    assert "'stream' is not known" in answer.error_message


def test_an_error_ends_the_call_when_the_caller_wants_that(stub):
    is_answered = threading.Event()

    def requests():
        yield sentence("one")
        assert is_answered.wait(WAIT_S)
        yield sentence("one", "x", beam_size=0)

    call = stub.ModelStreamInfer(requests(), metadata=(("triton_grpc_error", "true"),))
    assert text_of(next(call), "translations") == "eno"
    is_answered.set()
    with pytest.raises(grpc.RpcError) as error:
        next(call)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith("[request id: x]")


def test_a_fault_of_ours_tells_nothing_and_the_stream_goes_on(serving, make_translator):
    model = make_translator(error=RuntimeError("secret"))
    with serving(ende=model) as channel:
        stub = GRPCInferenceServiceStub(channel)
        answers = by_id(stub.ModelStreamInfer(iter([sentence("one", "a"), sentence("two", "b")])))
    assert sorted(answers) == ["a", "b"]
    for request_id, (answer,) in answers.items():
        told, text = answer.error_message.splitlines()
        assert told == f"[request id: {request_id}]"
        assert text.startswith("internal error, request id ")
        assert answer.infer_response.parameters["grpc_code"].string_param == "INTERNAL"


def test_a_request_that_fails_in_a_stream_has_a_line(serving, make_translator, caplog):
    """The call goes on and ends well: nothing else would tell who got an error, and which."""
    caplog.set_level("INFO", "foretell")
    wrong = sentence("one", "8 code=OK\n")
    wrong.model_name = "x"
    with serving(ende=make_translator()) as channel:
        requests = [sentence("one", "7", beam_size=0), sentence("two", "8"), wrong]
        answers = by_id(GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(requests)))
    assert not answers["8"][0].error_message
    lines = {one.fields["id"]: one for one in caplog.records if hasattr(one, "fields")}
    assert lines.keys() == {"7", "8 code=OK\n"}
    known, unknown = lines["7"].fields, lines["8 code=OK\n"].fields
    assert (known["model"], known["version"], known["code"]) == ("ende", 1, "INVALID_ARGUMENT")
    assert "model" not in unknown
    assert (unknown["code"], known["request_id"]) == ("NOT_FOUND", unknown["request_id"])
    assert known["peer"].startswith("ipv4:127.0.0.1:")
    assert "[request id: 7]; options[0]: beam_size is 0" in lines["7"].getMessage()
    assert r" id='8 code=OK\n' code=NOT_FOUND" in lines["8 code=OK\n"].getMessage()


def test_a_caller_that_leaves_stops_the_translation(serving, make_translator):
    """An abandoned stream must not hold the place of those who wait."""
    model = make_translator(before_step=lambda: time.sleep(0.02), max_source_length=500)
    with serving(ende=model, options=ServerOptions(listen="127.0.0.1:0", instances=1)) as channel:
        stub = GRPCInferenceServiceStub(channel)
        call = stub.ModelStreamInfer(iter([sentence("one " * 400, stream=True)]))
        assert text_of(next(call), "text") == "eno"
        call.cancel()
        assert (
            text_of(next(stub.ModelStreamInfer(iter([sentence("two")]))), "translations") == "owt"
        )
        assert model.closed.wait(30)
        assert model.steps < 400
