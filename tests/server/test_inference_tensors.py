"""Tensors off the wire: right ones come through to the last bit, wrong ones are told."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.protos.inference import inference_pb2 as wire
from foretell.server.errors import RequestError
from foretell.server.inference.signature import Limit, Signature, Tensor
from foretell.server.inference.tensors import (
    bytes_array,
    read_inputs,
    read_outputs,
    texts_of,
    write_outputs,
)

NUMBERS = {
    "BOOL": np.dtype(bool),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
CONTENTS = {
    "BOOL": "bool_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
TWO = Signature(
    model="simple",
    inputs=(
        Tensor("numbers", "FP32", ("batch", 4)),
        Tensor("texts", "BYTES", ("batch",)),
    ),
    outputs=(Tensor("sum", "FP32", ("batch",)), Tensor("all", "FP32", ("batch", 4))),
    limits={"batch": Limit(100, "on this server (--max-rows)")},
)


def signature(datatype, rank, *, may_be_empty=()):
    axes = tuple(f"axis{number}" for number in range(rank))
    return Signature(
        model="m",
        inputs=(Tensor("x", datatype, axes),),
        outputs=(Tensor("x", datatype, axes),),
        may_be_empty=frozenset(may_be_empty),
    )


def two():
    """A right request for `TWO`."""
    request = wire.ModelInferRequest(model_name="simple")
    request.inputs.add(name="numbers", datatype="FP32", shape=[2, 4])
    request.inputs.add(name="texts", datatype="BYTES", shape=[2])
    request.raw_input_contents.append(np.arange(8, dtype="<f4").tobytes())
    request.raw_input_contents.append(b"\x01\0\0\0a\x02\0\0\0bc")
    return request


@st.composite
def arrays(draw):
    datatype = draw(st.sampled_from(sorted([*NUMBERS, "BYTES"])))
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    count = int(np.prod(shape, dtype=int))
    if datatype == "BYTES":
        array = np.empty(count, dtype=object)
        array[:] = draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
        return datatype, array.reshape(shape)
    dtype = NUMBERS[datatype]
    if datatype == "BOOL":
        values = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        return datatype, np.array(values, dtype).reshape(shape)
    size = count * dtype.itemsize
    content = draw(st.binary(min_size=size, max_size=size))  # NaNs of all kinds among them
    return datatype, np.frombuffer(content, dtype).reshape(shape)


def packed(datatype, array, *, raw):
    """What our own writing makes of an array, as a request."""
    response = wire.ModelInferResponse()
    tensor = Tensor("x", datatype, tuple(f"axis{at}" for at in range(array.ndim)))
    write_outputs(response, [tensor], {"x": array}, raw=raw)
    (output,) = response.outputs
    request = wire.ModelInferRequest()
    given = request.inputs.add(name="x", datatype=output.datatype, shape=output.shape)
    if output.HasField("contents"):
        given.contents.CopyFrom(output.contents)
    request.raw_input_contents.extend(response.raw_output_contents)
    return request


def same(one, other):
    if one.dtype == object:
        return one.tolist() == other.tolist()
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@given(arrays())
def test_raw_contents_come_back_to_the_last_bit(case):
    datatype, array = case
    found = read_inputs(packed(datatype, array, raw=True), signature(datatype, array.ndim))["x"]
    assert found.shape == array.shape
    assert same(found, array)


@given(arrays())
def test_typed_contents_come_back_to_the_last_bit(case):
    datatype, array = case
    if datatype.startswith("FP"):
        array = np.nan_to_num(array)  # a NaN's payload may be lost on the way through a float
    found = read_inputs(packed(datatype, array, raw=False), signature(datatype, array.ndim))["x"]
    assert found.shape == array.shape
    assert same(found, array)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.inputs[0].ClearField("name"), "unexpected inference input '' for model"),
        (lambda r: r.inputs.pop(), "expected 2 inputs but got 1 inputs for model 'simple'"),
        (lambda r: r.inputs.pop(), r"missing required input\(s\) \['texts'\]"),
        (
            lambda r: setattr(r.inputs[1], "name", "more"),
            r"^unexpected inference input 'more' for model 'simple'; [^\n]*\n"
            r"missing required input\(s\) \['texts'\]; send all of numbers, texts\.$",
        ),
        (lambda r: r.inputs.add(name="texts"), "input 'texts' already exists in request"),
        (lambda r: r.inputs.add(name="more"), "unexpected inference input 'more'"),
        (lambda r: r.raw_input_contents.pop(), "unable to find data for input tensors"),
        (lambda r: r.raw_input_contents.append(b""), "raw_input_contents has 3 entries"),
        (
            lambda r: r.inputs[0].contents.fp32_contents.append(1),
            "contents field must not be specified when using raw_input_contents for 'numbers'",
        ),
        (
            lambda r: setattr(r.inputs[0], "datatype", "FP64"),
            "inference input 'numbers' data-type is 'FP64', but model 'simple' expects 'FP32'",
        ),
        (lambda r: setattr(r.inputs[0], "datatype", "x" * 9999), "data-type is 'x"),
        (lambda r: r.inputs[0].shape.append(1), r"Expected \[-1, 4\], got \[2, 4, 1\]"),
        (lambda r: r.inputs[0].shape.extend([1] * 9999), r"Expected \[-1, 4\], got 10001 axes"),
        (lambda r: r.inputs[0].shape.pop(), r"unexpected shape for input 'numbers'.*got \[2\]"),
        (lambda r: r.inputs[0].shape.__setitem__(1, 3), r"Expected \[-1, 4\], got \[2, 3\]"),
        (lambda r: r.inputs[0].shape.__setitem__(0, -1), r"got \[-1, 4\]"),
        (lambda r: r.inputs[0].shape.__setitem__(0, 1), "batch is 2, but 1 elsewhere"),
        (lambda r: r.inputs[0].shape.__setitem__(0, 0), "batch is 0; send at least 1"),
        (
            lambda r: r.inputs[0].shape.__setitem__(0, 2**62),
            r"batch is 4,611,686,018,427,387,904; at most 100 on this server \(--max-rows\)",
        ),
        (
            lambda r: r.raw_input_contents.__setitem__(0, bytes(31)),
            "input byte size mismatch for input 'numbers' for model 'simple'. Expected 32, got 31",
        ),
        (lambda r: r.raw_input_contents.__setitem__(0, bytes(33)), "Expected 32, got 33"),
        (lambda r: r.raw_input_contents.__setitem__(0, b""), "Expected 32, got 0"),
        (lambda r: r.raw_input_contents.__setitem__(1, b"\0\0\0"), "Expected at least 8"),
        (
            lambda r: r.raw_input_contents.__setitem__(1, b"\x05\0\0\0ab\0\0"),
            "incomplete element 0 .*: 5 bytes are announced, 4 are left",
        ),
        (
            lambda r: r.raw_input_contents.__setitem__(1, b"\xff\xff\xff\xffabcdefgh"),
            "4294967295 bytes are announced",
        ),
        (
            lambda r: r.raw_input_contents.__setitem__(1, b"\x04\0\0\0abcd\0\0"),
            "incomplete element 1",
        ),
        (lambda r: r.raw_input_contents.__setitem__(1, bytes(9)), "2 elements end at byte 8"),
        (
            lambda r: setattr(r.inputs[0].parameters["binary_data_size"], "int64_param", 9),
            "binary_data_size is 9, but its raw contents have 32 bytes",
        ),
        (
            lambda r: setattr(r.inputs[1].parameters["classification"], "int64_param", 9),
            "input 'texts' has the parameter 'classification'",
        ),
        (lambda r: r.inputs.extend(r.inputs[0] for _ in range(100)), "got 102 inputs"),
    ],
)
def test_what_does_not_fit_is_told(change, words):
    request = two()
    change(request)
    with pytest.raises(RequestError) as error:
        read_inputs(request, TWO)
    assert re.search(words, str(error.value)), str(error.value)
    assert len(str(error.value)) < 2000


def test_all_that_does_not_fit_is_told_at_once():
    request = two()
    request.inputs[0].datatype = "INT8"
    request.inputs[0].shape[1] = 5
    request.inputs[1].datatype = "FP64"
    with pytest.raises(RequestError) as error:
        read_inputs(request, TWO)
    assert len(error.value.problems) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.fp32_contents.pop(), "Expected 8, got 7 in fp32_contents"),
        (lambda c: c.fp32_contents.append(1), "Expected 8, got 9"),
        (lambda c: c.fp64_contents.append(1), "has fp64_contents; FP32 travels in fp32_contents"),
        (lambda c: c.Clear(), "Expected 8, got 0"),
    ],
)
def test_typed_contents_that_do_not_fit_are_told(change, words):
    request = two()
    request.ClearField("raw_input_contents")
    request.inputs[0].contents.fp32_contents.extend(range(8))
    request.inputs[1].contents.bytes_contents.extend([b"a", b""])
    assert read_inputs(request, TWO)["texts"].tolist() == [b"a", b""]
    change(request.inputs[0].contents)
    with pytest.raises(RequestError, match=re.escape(words)):
        read_inputs(request, TWO)


def test_halves_have_no_typed_contents():
    request = wire.ModelInferRequest()
    request.inputs.add(name="x", datatype="FP16", shape=[1]).contents.fp32_contents.append(1)
    with pytest.raises(RequestError, match="FP16 has no contents"):
        read_inputs(request, signature("FP16", 1))
    array = np.ones(3, np.float16)
    assert packed("FP16", array, raw=False).raw_input_contents == [array.tobytes()]


def test_the_order_of_inputs_is_the_callers():
    request = two()
    turned = wire.ModelInferRequest(inputs=request.inputs[::-1])
    turned.raw_input_contents.extend(request.raw_input_contents[::-1])
    one, other = read_inputs(request, TWO), read_inputs(turned, TWO)
    assert list(one) == list(other) == ["numbers", "texts"]
    assert all(same(one[name], other[name]) for name in one)


def test_an_axis_may_be_empty_where_the_model_says_so():
    """Nothing is past at a decoder's first step."""
    request = wire.ModelInferRequest(raw_input_contents=[b""])
    request.inputs.add(name="x", datatype="FP32", shape=[3, 0])
    found = read_inputs(request, signature("FP32", 2, may_be_empty={"axis1"}))["x"]
    assert found.shape == (3, 0)
    with pytest.raises(RequestError, match="axis1 is 0"):
        read_inputs(request, signature("FP32", 2))


@pytest.mark.parametrize("shape", [[2**62, 2**62], [2**63 - 1, 2], [1, 2**40], [2**32, 2**32]])
@pytest.mark.parametrize("datatype", ["FP64", "BYTES"])
def test_a_shape_promises_nothing(shape, datatype):
    """Its product overflows 64 bits, or asks for a terabyte: the bytes that came decide."""
    request = wire.ModelInferRequest(raw_input_contents=[bytes(64)])
    request.inputs.add(name="x", datatype=datatype, shape=shape)
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="byte size mismatch"):
            read_inputs(request, signature(datatype, 2))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    request.ClearField("raw_input_contents")
    with pytest.raises(RequestError, match="number of elements"):
        read_inputs(request, signature(datatype, 2))


@given(
    st.builds(
        wire.ModelInferRequest,
        inputs=st.lists(
            st.builds(
                wire.ModelInferRequest.InferInputTensor,
                name=st.sampled_from(["numbers", "texts", "x"]),
                datatype=st.sampled_from(["FP32", "BYTES", "BOOL", ""]),
                shape=st.lists(
                    st.sampled_from([0, 1, 2, 4, -1, 2**40, 2**63 - 1, -(2**63)]), max_size=3
                ),
                contents=st.one_of(
                    st.none(),
                    st.builds(
                        wire.InferTensorContents,
                        fp32_contents=st.lists(st.floats(width=32), max_size=9),
                        bytes_contents=st.lists(st.binary(max_size=3), max_size=3),
                    ),
                ),
            ),
            max_size=3,
        ),
        raw_input_contents=st.lists(
            st.one_of(st.binary(max_size=40), st.just(bytes(16)), st.just(b"\x01\0\0\0a\0\0\0\0")),
            max_size=3,
        ),
    )
)
def test_anything_is_read_or_refused(request_):
    """Whatever a client sends, the answer is arrays as the model wants them, or a reason."""
    try:
        found = read_inputs(request_, TWO)
    except RequestError:
        return
    assert found["numbers"].shape == (len(found["texts"]), 4)
    assert found["numbers"].dtype == np.float32
    assert all(isinstance(text, bytes) for text in found["texts"].tolist())


def test_outputs_are_all_or_those_asked_for():
    request = two()
    assert read_outputs(request, TWO) == ("sum", "all")
    request.outputs.add(name="all")
    assert read_outputs(request, TWO) == ("all",)
    request.outputs.add(name="sum")
    assert read_outputs(request, TWO) == ("all", "sum")


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([{"name": "ZZ"}], "unexpected inference output 'ZZ' for model 'simple'; it has sum, all"),
        ([{"name": "sum"}] * 2, "output 'sum' already exists in request"),
        (
            [{"name": "sum", "parameters": {"classification": wire.InferParameter()}}],
            "output 'sum' has the parameter 'classification'",
        ),
        ([{"name": "sum"}] * 101, "101 outputs are asked for"),
    ],
)
def test_outputs_that_there_are_not_are_told(outputs, words):
    request = two()
    request.outputs.extend(
        wire.ModelInferRequest.InferRequestedOutputTensor(**one) for one in outputs
    )
    with pytest.raises(RequestError, match=re.escape(words)):
        read_outputs(request, TWO)


def test_texts_are_utf8():
    assert texts_of(bytes_array(["zwölf", ""], (2,)), "x") == ["zwölf", ""]
    broken = np.empty(3, dtype=object)
    broken[:] = [b"a", b"b\xff", b"\xed\xa0\x80"]
    with pytest.raises(RequestError) as error:
        texts_of(broken, "x")
    assert [problem.split(" ")[0] for problem in error.value.problems] == ["x[1]", "x[2]"]
