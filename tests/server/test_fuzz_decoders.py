"""Whatever is sent is read or refused: no other exception, no hang, no memory beyond its bytes.

The properties hold for messages of any content, not only for those that a client of ours writes.
"""

import runpy
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import forecaster_pb2, models_pb2, translator_pb2
from foretell.server.access.tokens import read_tokens
from foretell.server.calls.wire_scan import count_fields
from foretell.server.errors import RequestError, TokenFileError
from foretell.server.inference.parameters import read_parameters
from foretell.server.inference.signature import Limit, Signature, Tensor
from foretell.server.inference.tensors import read_inputs, read_outputs
from foretell.server.options import ServerOptions
from foretell.server.services.forecaster_codec import read_request
from foretell.server.services.translator_codec import read_pairs, read_sentence, read_sentences

HERE = Path(__file__).parent
any_message = runpy.run_path(str(HERE / "any_message.py"))["any_message"]
make_manifest = runpy.run_path(str(HERE / "fake_forecaster.py"))["make_manifest"]
SPEC = make_manifest(
    future_covariates=("promo",), past_covariates=("visits",), static=("size",)
).forecaster
LIMITS = ServerOptions(max_series=3, max_steps=4, max_sentences=3, max_characters=200)
SIGNATURE = Signature(
    model="any",
    inputs=(
        Tensor("x", "FP64", ("batch", "time")),
        Tensor("n", "INT64", ("batch",)),
        Tensor("words", "BYTES", ("batch", 2)),
        Tensor("flags", "BOOL", ("batch",)),
    ),
    outputs=(Tensor("y", "FP32", ("batch",)),),
    limits={"batch": Limit(1000, "here")},
    parameters={"beam_size": "int", "speed": "float", "name": "text", "deep": "bool"},
)
WORDS = ("x", "n", "words", "flags", "y", "any", "beam_size", "speed", "timeout", "FP64", "BYTES")
NAMES = ("promo", "visits", "size", "Europe/Berlin", "h", "MS")


def read_infer(request):
    read_parameters(request, SIGNATURE.parameters)
    read_outputs(request, SIGNATURE)
    arrays = read_inputs(request, SIGNATURE)
    assert set(arrays) == {"x", "n", "words", "flags"}


READERS = {
    "forecast": (
        forecaster_pb2.ForecastRequest,
        lambda request: read_request(request, SPEC, LIMITS),
        NAMES,
    ),
    "translate": (
        translator_pb2.TranslateRequest,
        lambda request: read_sentences(request, LIMITS),
        (),
    ),
    "stream": (
        translator_pb2.TranslateStreamRequest,
        lambda request: read_sentence(request, LIMITS),
        (),
    ),
    "score": (translator_pb2.ScoreRequest, lambda request: read_pairs(request, LIMITS), ()),
    "infer": (inference_pb2.ModelInferRequest, read_infer, WORDS),
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40)
@given(data=st.data())
def test_any_message_is_read_or_refused(name, data):
    kind, read, words = READERS[name]
    request = data.draw(any_message(kind, words=words))
    with suppress(RequestError):
        read(request)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25)
@given(data=st.data())
def test_damaged_messages_are_read_or_refused(name, data):
    """Flipped, cut and doubled bytes reach what no well-made message holds."""
    kind, read, words = READERS[name]
    content = bytearray(data.draw(any_message(kind, words=words)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        if content:
            at = data.draw(st.integers(0, len(content) - 1))
            piece = data.draw(st.sampled_from([b"", b"\xff", b"\x80\x80", bytes(content[at:])]))
            content[at : at + data.draw(st.integers(0, 8))] = piece
    with suppress(RequestError, DecodeError):
        read(kind.FromString(bytes(content)))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=20)
@given(data=st.data())
def test_memory_is_bounded_by_what_was_sent(name, data):
    """A shape or a count says any number; only bytes that are there may cost memory."""
    kind, read, words = READERS[name]
    request = data.draw(any_message(kind, words=words))
    tracemalloc.start()
    try:
        with suppress(RequestError):
            read(request)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000 + 100 * request.ByteSize()


@pytest.mark.parametrize(
    "shape",
    [[2**62, 4], [2**32, 2**32], [2**63 - 1, 2**63 - 1], [-1, 2], [2**31, 1], [0, 2**62]],
)
@pytest.mark.parametrize("raw", [True, False])
def test_shapes_whose_product_overflows(shape, raw):
    """In 64 bits 2**32 x 2**32 is 0, which no bytes at all would fit."""
    request = inference_pb2.ModelInferRequest(model_name="any")
    for tensor in SIGNATURE.inputs:
        given_shape = shape if len(tensor.axes) == 2 else shape[:1]
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=given_shape)
        if raw:
            request.raw_input_contents.append(b"")
    with pytest.raises(RequestError, match="shape"):
        read_inputs(request, SIGNATURE)


@pytest.mark.parametrize("lengths", [[2**62, 2**62], [2**31, 0], [2**31 - 1] * 3, [-1, 1]])
def test_lengths_that_no_message_holds(lengths):
    request = forecaster_pb2.ForecastRequest(horizon=1)
    request.history.ids.extend("abc"[: len(lengths)])
    request.history.lengths.values.extend(lengths)
    request.history.stamp_kind = 3
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="history"):
            read_request(request, make_manifest().forecaster)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


KINDS = [
    forecaster_pb2.ForecastRequest,
    translator_pb2.TranslateRequest,
    models_pb2.ModelDescription,
    inference_pb2.ModelInferRequest,
]


def fields_of(message):
    """The slow way: all that is set, repeated ones each, packed numbers as one."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            count += len(value) if field.is_repeated and not field.is_packed else 1
        elif field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"].message_type
            for key in value:
                count += 3 if inner is None else 3 + fields_of(value[key])  # entry, key, value
        else:
            inner = value if field.is_repeated else [value]
            count += sum(1 + fields_of(one) for one in inner)
    return count


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_fields_are_counted_as_the_parser_would_find_them(kind, data):
    message = data.draw(any_message(kind))
    assert count_fields(message.SerializeToString(), kind.DESCRIPTOR, 10**9) == fields_of(message)


@pytest.mark.parametrize(
    "hidden", [b"\x42\x0b" + b"\xff" * 11, b"\x42\x02\x3a\x05", b"\x42\x01\x80"]
)
def test_what_the_parser_passes_over_hides_nothing(hidden):
    """Bytes in a group that no message has are no message, and the parser reads on behind them."""
    history = b"\x3a\x00" * 1000
    content = b"\x3a\xd0\x0f" + history + b"\x9b\x06" + hidden + b"\x9c\x06"
    request = forecaster_pb2.ForecastRequest.FromString(content)
    assert len(request.history.covariates) == 1000
    assert count_fields(content, request.DESCRIPTOR, 10**9) > 1000


@settings(max_examples=200)
@given(content=st.binary(max_size=300), most=st.integers(0, 50))
def test_counting_ends_whatever_the_bytes(content, most):
    assert 0 <= count_fields(content, KINDS[1].DESCRIPTOR, most) <= most + 1


def test_counting_stops_at_its_limit():
    content = b"\x12\x00" * 1_000_000
    assert count_fields(content, KINDS[1].DESCRIPTOR, 1000) == 1001


@settings(max_examples=200)
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_file_of_tokens_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzzed_tokens"
    path.write_bytes(content)
    with suppress(TokenFileError):
        assert read_tokens(path)


def test_numpy_takes_no_bytes_that_it_does_not_have():
    """What a reader gives away read-only stays so: answers of others may share it."""
    request = inference_pb2.ModelInferRequest(model_name="any")
    request.inputs.add(name="x", datatype="FP64", shape=[1, 2])
    request.raw_input_contents.append(np.arange(2.0).tobytes())
    signature = Signature(model="any", inputs=(SIGNATURE.inputs[0],), outputs=())
    array = read_inputs(request, signature)["x"]
    assert array.tolist() == [[0.0, 1.0]]
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
