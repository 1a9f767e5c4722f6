"""Any message of a kind, as hostile as its types allow: for fuzzing what reads messages."""

from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

_NUMBERS = [0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**40]
_UNSIGNED = [0, 1, 2, 2**32 - 1, 2**64 - 1]
_REALS = [0.0, -0.0, 1.0, 0.5, -1.5, 1e308, 1e-320, float("nan"), float("inf"), -float("inf")]
_TEXTS = ["", "a", "b", "en", "UTC", "D", "\0", "\u202e", "𝕏", "./..", "x" * 300, "9" * 300]


def any_message(kind, *, words=(), depth=4):
    """A strategy for messages of a class or descriptor.

    Args:
        kind: Class or descriptor.
        words: Texts that mean something there, such as names of models and tensors.
        depth: How deep messages go within each other.
    """
    descriptor = getattr(kind, "DESCRIPTOR", kind)

    @st.composite
    def draw_message(draw):
        message = GetMessageClass(descriptor)()
        for field in descriptor.fields:
            if draw(st.booleans()):
                _fill(draw, message, field, words, depth)
        return message

    return draw_message()


def _fill(draw, message, field, words, depth):
    if field.message_type is not None and depth == 0:
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        for _ in range(draw(st.integers(0, 3))):
            key = draw(st.sampled_from([*_TEXTS, *words]))
            if value.message_type is None:
                getattr(message, field.name)[key] = draw(_scalars(value, words))
            else:
                inner = any_message(value.message_type, words=words, depth=depth - 1)
                getattr(message, field.name)[key].CopyFrom(draw(inner))
    elif field.is_repeated:
        values = getattr(message, field.name)
        if field.message_type is None:
            values.extend(draw(st.lists(_scalars(field, words), max_size=4)))
        else:
            inner = any_message(field.message_type, words=words, depth=depth - 1)
            values.extend(draw(st.lists(inner, max_size=3)))
    elif field.message_type is None:
        setattr(message, field.name, draw(_scalars(field, words)))
    else:
        inner = any_message(field.message_type, words=words, depth=depth - 1)
        getattr(message, field.name).CopyFrom(draw(inner))


def _scalars(field, words):
    if field.type == field.TYPE_BYTES:
        zeros = st.integers(0, 5).map(lambda count: bytes(8 * count))
        return st.one_of(st.binary(max_size=40), zeros, st.just(b"\4\0\0\0abcd"))
    if field.enum_type is not None:
        return st.sampled_from([*(value.number for value in field.enum_type.values), 99])
    return {
        field.CPPTYPE_INT32: st.sampled_from([n for n in _NUMBERS if -(2**31) <= n < 2**31]),
        field.CPPTYPE_INT64: st.sampled_from(_NUMBERS),
        field.CPPTYPE_UINT32: st.sampled_from([n for n in _UNSIGNED if n < 2**32]),
        field.CPPTYPE_UINT64: st.sampled_from(_UNSIGNED),
        field.CPPTYPE_DOUBLE: st.sampled_from(_REALS),
        field.CPPTYPE_FLOAT: st.sampled_from(_REALS),
        field.CPPTYPE_BOOL: st.booleans(),
        field.CPPTYPE_STRING: st.sampled_from([*_TEXTS, *words]),
    }[field.cpp_type]
