"""What a server runs with, by the names of the command's flags: what didn't arrive is seen.

Defaults that depend on the machine are told as the numbers that count.
"""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from foretell.runtime.cpu import allowed_cores
from foretell.server.models.repository import ModelControl
from foretell.server.options import MIB, ServerOptions

_OF_ONE_PROCESS = {"worker", "counts_folder"}
_IN_MIB = {"max_queue_bytes": "max_queue_mib", "max_message_bytes": "max_message_mib"}

Settings = dict[str, object]


def settings_in_force(
    models: Path,
    options: ServerOptions,
    control: ModelControl,
    *,
    threads: int | None,
    others: Mapping[str, object],
) -> Settings:
    """All of them, named as the flags are, with "_" for "-"; `models` is the folder.

    Args:
        models: Where the models are.
        options: How they are served.
        control: What changes them.
        threads: Of each model; None takes the allowed cores.
        others: What concerns neither, by name.
    """
    found = asdict(options)
    found |= found.pop("security")
    threads = threads or allowed_cores()
    found |= {
        "models": models,
        "model_control": control.mode,
        "poll_s": control.poll_s,
        "pin": dict(control.pins),
        "threads": threads,
        "instances": options.instances or threads,
        **others,
    }
    for name, flag in _IN_MIB.items():
        found[flag] = found.pop(name) / MIB
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in sorted(found.items())
        if name not in _OF_ONE_PROCESS
    }


def write_settings(settings: Settings) -> str:
    """Write them in a line, as they would be typed."""
    flags = [
        f"--{name.replace('_', '-')}={_write(value)}"
        for name, value in settings.items()
        if name != "models"
    ]
    return " ".join([shlex.quote(str(settings["models"])), *flags])


def _write(value: object) -> str:
    if value is None or value in ("", {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        value = ",".join(f"{name}={one}" for name, one in value.items())
    return f"{value:.10g}" if isinstance(value, float) else shlex.quote(str(value))
