"""JSON to dataclasses and back, strictly: all unknown or missing keys and wrong types are named."""

import dataclasses
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from foretell.data.errors import ForetellError

Record = TypeVar("Record")

_SCALARS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def to_plain(record: Any) -> dict[str, Any]:
    """Turn a dataclass and the dataclasses inside it into dictionaries, ready for `json.dumps`."""
    return dataclasses.asdict(record)


def read_record(
    kind: type[Record], value: object, where: str, problems: list[str]
) -> Record | None:
    """Read one dataclass from parsed JSON.

    Fields may be scalars, dataclasses, `Literal`, `X | None`, `str | int`, `tuple[X, ...]`,
    `dict[str, X]` and `Any`. All keys must be there, defaults or not: the writer wrote all of them.

    Args:
        kind: The dataclass.
        value: Parsed JSON.
        where: Dotted path of the value, for the messages.
        problems: Every problem found is appended here, a sentence each.

    Returns:
        The record, or None where there was a problem.
    """
    if not isinstance(value, dict):
        problems.append(f"{where} is {value!r}; expected an object.")
        return None
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    found = [f"{where} has the unknown key {key!r}." for key in value if key not in names]
    found += [f"{where} lacks the key {name!r}." for name in names if name not in value]
    read = {
        name: _read(hints[name], value[name], f"{where}.{name}", found)
        for name in names
        if name in value
    }
    record = None
    if not found:
        try:
            record = kind(**read)
        except ForetellError as error:
            found = [f"{where}: {problem}" for problem in error.problems]
    problems += found
    return record


def _read(hint: Any, value: Any, where: str, problems: list[str]) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return read_record(hint, value, where, problems)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, where, problems)
    if hint is Any:
        fits, expected = True, ""
    elif origin is Literal:
        fits, expected = value in arguments, f"one of {', '.join(map(repr, arguments))}"
    elif origin is tuple:
        fits, expected = isinstance(value, list), "a list"
    elif origin is dict:
        fits, expected = isinstance(value, dict), "an object"
    else:
        fits, expected = _is_scalar(hint, value), _SCALARS[hint]
    if not fits:
        problems.append(f"{where} is {value!r}; expected {expected}.")
    elif origin is tuple:
        value = tuple(
            _read(arguments[0], item, f"{where}[{i}]", problems) for i, item in enumerate(value)
        )
    elif origin is dict:
        value = {
            key: _read(arguments[1], item, f"{where}[{key!r}]", problems)
            for key, item in value.items()
        }
    return float(value) if fits and hint is float else value


def _read_union(arguments: tuple[Any, ...], value: Any, where: str, problems: list[str]) -> Any:
    if value is None and type(None) in arguments:
        return None
    kinds = [argument for argument in arguments if argument is not type(None)]
    if len(kinds) == 1:
        return _read(kinds[0], value, where, problems)
    if not any(_is_scalar(kind, value) for kind in kinds):
        expected = " or ".join(_SCALARS[kind] for kind in kinds)
        problems.append(f"{where} is {value!r}; expected {expected}.")
    return value


def _is_scalar(kind: type, value: object) -> bool:
    if isinstance(value, bool):  # bool is an int to Python, never to us
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
