"""Parameters of the Open Inference Protocol's requests; one that isn't known is refused by name.

To pass over an unknown parameter would be to answer another question than the one asked.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from foretell.data.quoting import quoted
from foretell.protos.inference import inference_pb2 as wire
from foretell.server.errors import RequestError
from foretell.server.inference.signature import Kind

Value = bool | int | float | str

_MOST_PARAMETERS = 100  # of a request; no model has as many
_MOST_TIMEOUT_US = 10**15  # some thirty years
_MOST_PRIORITY = 2**31 - 1

# Those of every request, whatever the model.
_COMMON: dict[str, Kind] = {
    "timeout": "int",
    "priority": "int",
    "binary_data_output": "bool",
    "triton_enable_empty_final_response": "bool",
}
_WANTED = {
    "bool": "a truth value (bool_param)",
    "int": "a whole number (int64_param)",
    "float": "a number (double_param, int64_param, or a string_param that reads as one)",
    "text": "a text (string_param)",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """What a request asks beside its inputs.

    Attributes:
        timeout_s: Seconds that it may take; None where it says nothing.
        priority: Smaller numbers go first; 0 for the default.
        raw: Answer in raw bytes.
        wants_final: Mark the last answer, even if an empty one must be sent to do so.
        own: Those of the model, by name.
    """

    timeout_s: float | None
    priority: int
    raw: bool
    wants_final: bool
    own: Mapping[str, Value]


def read_parameters(request: wire.ModelInferRequest, known: Mapping[str, Kind]) -> Parameters:
    """Check a request's parameters whole and read them.

    Args:
        request: As it came.
        known: Those of the model, beside the protocol's.

    Raises:
        RequestError: One is unknown, or of another type than expected; all of it is listed.
    """
    given = request.parameters
    kinds = {**_COMMON, **known}
    if len(given) > _MOST_PARAMETERS:
        raise RequestError(f"{len(given):,} parameters are sent; leave out what isn't known.")
    problems: list[str] = []
    values: dict[str, Value] = {}
    for name in sorted(given):
        if name not in kinds:
            problems.append(
                f"parameter {quoted(name)} is not known for model {quoted(request.model_name)}; "
                f"leave it out. Known are {', '.join(sorted(kinds))}."
            )
            continue
        value = _value(given[name], kinds[name])
        if value is None:
            problems.append(
                f"parameter {name!r} is {_shown(given[name])}; send {_WANTED[kinds[name]]}."
            )
        else:
            values[name] = value
    timeout_us = _whole(values, "timeout", _MOST_TIMEOUT_US, "microseconds, 0 for none", problems)
    priority = _whole(values, "priority", _MOST_PRIORITY, "0 for the default", problems)
    if problems:
        raise RequestError(problems)
    return Parameters(
        timeout_s=timeout_us / 1e6 if timeout_us else None,
        priority=priority,
        raw=bool(values.get("binary_data_output", True)),
        wants_final=bool(values.get("triton_enable_empty_final_response", False)),
        own={name: value for name, value in values.items() if name in known},
    )


def _value(parameter: wire.InferParameter, kind: Kind) -> Value | None:
    """Read a parameter as the type it must have; None where it has another."""
    choice = parameter.WhichOneof("parameter_choice")
    value: Value = getattr(parameter, choice) if choice else ""
    if kind == "float":
        # Some clients' copies of the protocol have no double.
        return _number(value) if choice != "bool_param" else None
    fits = {
        "bool": choice == "bool_param",
        "int": choice in ("int64_param", "uint64_param"),
        "text": choice == "string_param",
    }
    return value if fits[kind] else None


def _number(value: Value) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _whole(
    values: Mapping[str, Value], name: str, most: int, unit: str, problems: list[str]
) -> int:
    value = int(values.get(name, 0))
    if not 0 <= value <= most:
        problems.append(f"parameter {name!r} is {value}; send 0 to {most:,} ({unit}).")
        return 0
    return value


def _shown(parameter: wire.InferParameter) -> str:
    choice = parameter.WhichOneof("parameter_choice")
    return "empty" if choice is None else f"{quoted(str(getattr(parameter, choice)))} ({choice})"
