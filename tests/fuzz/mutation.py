"""Changes a message by its fields, which a fuzzer that sees only bytes hardly ever does."""

_NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
_REALS = (0.0, -0.0, 0.5, 1.0, -1.5, 1e308, 1e-320, float("nan"), float("inf"), -float("inf"))


def mutate(message, rng, change):
    """Change one field of a message, or of one within it.

    Args:
        message: Is changed.
        rng: Chooses what.
        change: Makes other bytes of some.
    """
    holder = rng.choice(list(_within(message)))
    field = rng.choice(holder.DESCRIPTOR.fields)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _change_map(getattr(holder, field.name), field.message_type, rng, change)
    elif field.is_repeated:
        _change_list(getattr(holder, field.name), field, rng, change)
    elif rng.random() < 0.2:
        holder.ClearField(field.name)
    elif field.message_type is not None:
        getattr(holder, field.name).SetInParent()
    else:
        setattr(holder, field.name, _scalar(field, getattr(holder, field.name), rng, change))


def _within(message):
    """A message and all within it, at any depth."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        is_map = field.message_type.GetOptions().map_entry
        if is_map and field.message_type.fields_by_name["value"].message_type is None:
            continue
        for one in value.values() if is_map else value if field.is_repeated else [value]:
            yield from _within(one)


def _change_map(values, entry, rng, change):
    key = rng.choice([*values, "name"])
    if rng.random() < 0.3:
        values.pop(key, None)
    elif entry.fields_by_name["value"].message_type is None:
        values[key] = _scalar(entry.fields_by_name["value"], values[key], rng, change)
    else:
        mutate(values[key], rng, change)


def _change_list(values, field, rng, change):
    at = rng.randrange(len(values)) if values else None
    if at is None or rng.random() < 0.2:
        if field.message_type is not None:
            values.add()
        else:
            start = b"" if field.type == field.TYPE_BYTES else "" if _is_text(field) else 0
            values.append(_scalar(field, start, rng, change))
    elif rng.random() < 0.3:
        del values[at]
    elif field.message_type is not None:
        values.add().CopyFrom(values[at])
    elif rng.random() < 0.2:
        values.extend([values[at]] * rng.choice([1, 10, 100]))
    else:
        values[at] = _scalar(field, values[at], rng, change)


def _scalar(field, value, rng, change):
    """Another value that the field can hold."""
    if field.type == field.TYPE_BYTES:
        return change(value)
    if _is_text(field):
        return change(value.encode()).decode(errors="replace")
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice(_REALS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    bits = 64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    is_unsigned = field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
    low, high = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    number = rng.choice([*_NUMBERS, value + 1, value - 1, value * 2])
    return max(low, min(high, number))


def _is_text(field):
    return field.type == field.TYPE_STRING
