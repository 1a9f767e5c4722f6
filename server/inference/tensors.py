"""Tensors of the Open Inference Protocol to arrays and back.

What comes over the wire is checked here, all of it, before any of it is used: no array is larger
than the bytes that were sent, whatever a shape says. The wording follows Triton's where that has
one, because people search their logs for it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from foretell.data.quoting import quoted
from foretell.protos.inference import inference_pb2 as wire
from foretell.server.errors import RequestError
from foretell.server.inference.signature import Signature, Tensor

_MOST_TENSORS = 100  # of a request; no model has as many
_MOST_PARAMETERS = 10  # of a tensor that are told of; none has as many
_LENGTH_BYTES = 4  # before each element of a BYTES tensor

_DTYPES = {
    "BOOL": "|u1",  # a byte is any number; NumPy's bool isn't
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def read_inputs(request: wire.ModelInferRequest, signature: Signature) -> dict[str, np.ndarray]:
    """Check a request's inputs whole and unpack them.

    Args:
        request: As it came.
        signature: Of the model.

    Returns:
        An array for each input of the signature, by name; it may share the request's memory and be
        read-only. BYTES become an array of objects, each of type bytes.

    Raises:
        RequestError: Something doesn't fit; all of it is listed.
    """
    problems = _set_problems(request, signature)
    if problems:
        raise RequestError(problems)
    tensors = {tensor.name: tensor for tensor in signature.inputs}
    sizes: dict[str, int] = {}
    for given in request.inputs:
        problems += _shape_problems(given, tensors[given.name], signature, sizes)
    if problems:
        raise RequestError(problems)
    arrays: dict[str, np.ndarray] = {}
    for at, given in enumerate(request.inputs):
        about = f"input {given.name!r} for model {signature.model!r}"
        count = math.prod(given.shape)
        try:
            if request.raw_input_contents:
                flat = _read_raw(request.raw_input_contents[at], given.datatype, count, about)
            else:
                flat = _read_contents(given.contents, given.datatype, count, about)
        except RequestError as error:
            problems += error.problems
        else:
            arrays[given.name] = flat.reshape(tuple(given.shape))
    if problems:
        raise RequestError(problems)
    return {tensor.name: arrays[tensor.name] for tensor in signature.inputs}


def read_outputs(request: wire.ModelInferRequest, signature: Signature) -> tuple[str, ...]:
    """Read which outputs are asked for, in the order they are asked for; none are all.

    Raises:
        RequestError: One is unknown, or asked for twice.
    """
    if len(request.outputs) > _MOST_TENSORS:
        raise RequestError(f"{len(request.outputs):,} outputs are asked for; ask for each once.")
    known = [tensor.name for tensor in signature.outputs]
    asked = [output.name for output in request.outputs]
    problems = [
        f"unexpected inference output {quoted(name)} for model {signature.model!r}; it has "
        f"{', '.join(known)}."
        for name in dict.fromkeys(asked)
        if name not in known
    ]
    problems += [
        f"output {quoted(name)} already exists in request; ask once." for name in _twice(asked)
    ]
    problems += [
        f"output {quoted(output.name)} has the parameter {quoted(name)}, which isn't known; "
        "leave it out."
        for output in request.outputs
        for name in sorted(output.parameters)[:_MOST_PARAMETERS]
    ]
    if problems:
        raise RequestError(problems)
    return tuple(asked) or tuple(known)


def write_outputs(
    response: wire.ModelInferResponse,
    tensors: Iterable[Tensor],
    arrays: Mapping[str, np.ndarray],
    *,
    raw: bool,
) -> None:
    """Pack arrays into an answer.

    Args:
        response: Gets them.
        tensors: What they are, in order.
        arrays: By name.
        raw: Pack them as bytes; else element by element, which people can read. FP16 knows no such
            elements and is always raw, and then so are all.
    """
    tensors = list(tensors)
    raw = raw or any(tensor.datatype not in _CONTENTS for tensor in tensors)
    for tensor in tensors:
        array = arrays[tensor.name]
        output = response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=array.shape)
        if raw:
            response.raw_output_contents.append(_write_raw(array, tensor.datatype))
        else:
            field = getattr(output.contents, _CONTENTS[tensor.datatype])
            field.extend(array.ravel().tolist())


def texts_of(array: np.ndarray, name: str) -> list[str]:
    """Read the elements of a BYTES tensor as texts.

    Raises:
        RequestError: Some are no UTF-8; each is named by its place.
    """
    texts, problems = [], []
    for at, element in enumerate(array.ravel().tolist()):
        try:
            texts.append(element.decode())
        except UnicodeDecodeError as error:
            problems.append(
                f"{name}[{at}] is no UTF-8 from its byte {error.start} on; send texts in UTF-8."
            )
    if problems:
        raise RequestError(problems)
    return texts


def bytes_array(texts: Sequence[str], shape: tuple[int, ...]) -> np.ndarray:
    """Lay texts out as a BYTES tensor."""
    array = np.empty(len(texts), dtype=object)
    array[:] = [text.encode() for text in texts]
    return array.reshape(shape)


def _set_problems(request: wire.ModelInferRequest, signature: Signature) -> list[str]:
    """Tell what is wrong with the inputs as a set: missing, unknown, twice, raw or not."""
    model = signature.model
    if len(request.inputs) > _MOST_TENSORS:
        return [f"got {len(request.inputs):,} inputs for model {model!r}; send each once."]
    given = [one.name for one in request.inputs]
    known = [tensor.name for tensor in signature.inputs]
    num_raw = len(request.raw_input_contents)
    has_more = any(one.parameters or one.HasField("contents") for one in request.inputs)
    if given == known and num_raw == len(given) and not has_more:  # as most are
        return []
    missing = [name for name in known if name not in given]
    problems = [
        f"unexpected inference input {quoted(name)} for model {model!r}; it takes "
        f"{', '.join(known)}."
        for name in dict.fromkeys(given)
        if name not in known
    ]
    problems += [
        f"input {quoted(name)} already exists in request; send it once." for name in _twice(given)
    ]
    if missing:
        # Of a wrong name the numbers would tell nothing.
        counts = f"expected {len(known)} inputs but got {len(given)} inputs for model {model!r}: "
        problems.append(
            f"{counts if len(given) != len(known) else ''}missing required input(s) {missing}; "
            f"send all of {', '.join(known)}."
        )
    if num_raw and num_raw != len(given):
        problems.append(
            f"unable to find data for input tensors for model {model!r}: raw_input_contents has "
            f"{num_raw} entries, but there are {len(given)} inputs; send one an input, in order."
        )
    if num_raw:
        problems += [
            "contents field must not be specified when using raw_input_contents for "
            f"{quoted(one.name)} for model {model!r}; send one of them."
            for one in request.inputs
            if one.HasField("contents")
        ]
    sizes = list(map(len, request.raw_input_contents)) if num_raw == len(given) else []
    for at, one in enumerate(request.inputs):
        problems += _parameter_problems(one, sizes[at] if sizes else None)
    return problems


def _parameter_problems(
    given: wire.ModelInferRequest.InferInputTensor, size_bytes: int | None
) -> Iterable[str]:
    for name, value in sorted(given.parameters.items())[:_MOST_PARAMETERS]:
        if name != "binary_data_size":
            yield (
                f"input {quoted(given.name)} has the parameter {quoted(name)}, which isn't known; "
                "leave it out."
            )
        elif size_bytes is not None and value.int64_param != size_bytes:
            yield (
                f"input {quoted(given.name)}: binary_data_size is {value.int64_param}, but its raw "
                f"contents have {size_bytes} bytes."
            )


def _shape_problems(
    given: wire.ModelInferRequest.InferInputTensor,
    tensor: Tensor,
    signature: Signature,
    sizes: dict[str, int],
) -> Iterable[str]:
    """Tell what is wrong with one input's datatype and shape; notes the sizes of its axes."""
    about = f"input {tensor.name!r} for model {signature.model!r}"
    if given.datatype != tensor.datatype:
        yield (
            f"inference input {tensor.name!r} data-type is {quoted(given.datatype)}, but model "
            f"{signature.model!r} expects {tensor.datatype!r}."
        )
    shape, wanted = list(given.shape), tensor.shape
    if len(shape) != len(wanted) or any(
        size < 0 or size != want >= 0 for size, want in zip(shape, wanted, strict=True)
    ):
        shown = f"{shape}" if len(shape) <= 2 * len(wanted) + 2 else f"{len(shape)} axes"
        yield f"unexpected shape for {about}. Expected {wanted}, got {shown}."
        return
    for axis, size in zip(tensor.axes, shape, strict=True):
        name = str(axis)
        if size != sizes.setdefault(name, size):
            yield f"unexpected shape for {about}: {name} is {size}, but {sizes[name]} elsewhere."
        if size == 0 and axis not in signature.may_be_empty and axis != 0:
            yield f"unexpected shape for {about}: {name} is 0; send at least 1."
        limit = signature.limits.get(name)
        if limit is not None and size > limit.most:
            yield (
                f"unexpected shape for {about}: {name} is {size:,}; at most {limit.most:,} "
                f"{limit.reason}."
            )


def _read_raw(content: bytes, datatype: str, count: int, about: str) -> np.ndarray:
    if datatype == "BYTES":
        return _split(content, count, about)
    dtype = np.dtype(_DTYPES[datatype])
    if len(content) != count * dtype.itemsize:
        raise RequestError(
            f"input byte size mismatch for {about}. Expected {count * dtype.itemsize}, got "
            f"{len(content)}."
        )
    flat = np.frombuffer(content, dtype)
    return flat != 0 if datatype == "BOOL" else flat


def _split(content: bytes, count: int, about: str) -> np.ndarray:
    """Take the elements of a BYTES tensor apart: each has its length before it."""
    if count * _LENGTH_BYTES > len(content):
        raise RequestError(
            f"input byte size mismatch for {about}. Expected at least {count * _LENGTH_BYTES} for "
            f"{count} elements with their lengths, got {len(content)}."
        )
    elements: list[bytes] = []
    start = 0
    for at in range(count):
        end = start + _LENGTH_BYTES
        size = int.from_bytes(content[start:end], "little")
        start, end = end, end + size
        if end > len(content):
            raise RequestError(
                f"incomplete element {at} of {about}: {size} bytes are announced, "
                f"{max(0, len(content) - start)} are left; before each element stands its length, "
                "4 bytes, little-endian."
            )
        elements.append(content[start:end])
        start = end
    if start != len(content):
        raise RequestError(
            f"input byte size mismatch for {about}. {count} elements end at byte {start}, got "
            f"{len(content)}."
        )
    return _objects(elements)


def _read_contents(
    contents: wire.InferTensorContents, datatype: str, count: int, about: str
) -> np.ndarray:
    field = _CONTENTS.get(datatype)
    if field is None:
        raise RequestError(f"{about}: {datatype} has no contents; send it in raw_input_contents.")
    others = [other.name for other, _ in contents.ListFields() if other.name != field]
    if others:
        raise RequestError(f"{about} has {', '.join(others)}; {datatype} travels in {field}.")
    values = getattr(contents, field)
    if len(values) != count:
        raise RequestError(
            f"unexpected number of elements for {about}. Expected {count}, got {len(values)} in "
            f"{field}."
        )
    if datatype == "BYTES":
        return _objects(list(values))
    dtype = bool if datatype == "BOOL" else np.dtype(_DTYPES[datatype])
    return np.fromiter(values, dtype, count)


def _write_raw(array: np.ndarray, datatype: str) -> bytes:
    if datatype == "BYTES":
        elements = array.ravel().tolist()
        return b"".join(
            part
            for element in elements
            for part in (len(element).to_bytes(_LENGTH_BYTES, "little"), element)
        )
    return np.ascontiguousarray(array, _DTYPES[datatype]).tobytes()


def _objects(elements: list[bytes]) -> np.ndarray:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array


def _twice(names: Sequence[str]) -> list[str]:
    if len(set(names)) == len(names):
        return []
    return [name for name, count in Counter(names).items() if count > 1]
