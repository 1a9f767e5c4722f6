"""The count of what a message would unfold to, beside what the parser makes of it."""

from contextlib import suppress

from google.protobuf.message import DecodeError

from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import forecaster_pb2, translator_pb2
from foretell.server.calls.wire_scan import count_fields

KINDS = (
    forecaster_pb2.ForecastRequest,
    inference_pb2.ModelInferRequest,
    translator_pb2.TranslateRequest,
)


def seeds():
    """Messages within messages, maps, packed numbers, and a group that no message has."""
    yield b""
    forecast = forecaster_pb2.ForecastRequest(horizon=3)
    forecast.history.covariates.add(name="promo").values.values.extend([1, 2])
    forecast.future.unread.add(position=1)
    infer = inference_pb2.ModelInferRequest(model_name="any")
    infer.inputs.add(name="x", datatype="FP64", shape=[1, 2]).contents.fp64_contents.extend([1, 2])
    infer.parameters["priority"].int64_param = 3
    translate = translator_pb2.TranslateRequest(sentences=["one", "two"])
    translate.options.add(beam_size=3, banned=["no"])
    for kind, message in enumerate((forecast, infer, translate)):
        content = message.SerializeToString()
        yield bytes([kind]) + content
        yield bytes([kind]) + content + b"\x9b\x06" + content + b"\x9c\x06"


def parts(data):
    """What stands before the message, and the message."""
    return data[:1], KINDS[data[0] % len(KINDS)].FromString(data[1:])


def read(data):
    """Count, and never less than there is: what isn't counted costs memory that nobody checks."""
    kind = KINDS[data[0] % len(KINDS) if data else 0]
    content = data[1:]
    count = count_fields(content, kind.DESCRIPTOR, 10**9)
    assert count <= 2 * len(content)
    assert count_fields(content, kind.DESCRIPTOR, 5) <= 6
    with suppress(DecodeError):
        assert count >= fields_of(kind.FromString(content))


def fields_of(message):
    """All that is set and would be written again; what came twice and counts once is less."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            count += len(value) if field.is_repeated and not field.is_packed else 1
        elif field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"].message_type
            count += sum(1 + (0 if inner is None else fields_of(value[key])) for key in value)
        else:
            count += sum(1 + fields_of(one) for one in (value if field.is_repeated else [value]))
    return count
