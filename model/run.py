"""A training run on disk: what was trained, on what, and the weights. No pickle.

`run.json` and `weights.npz` are what an export needs; checkpoint and log lie beside them.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import nn

from foretell.data.bundles.manifest import ForecasterSpec, TranslatorSpec
from foretell.data.bundles.records import read_record, to_plain
from foretell.data.errors import BundleError, ForetellError
from foretell.model.checkpoint import CHECKPOINT_FILE
from foretell.model.config import ForecasterConfig
from foretell.model.exchange import from_first
from foretell.model.forecaster import Forecaster
from foretell.model.ranks import world_size
from foretell.model.recurrent import Recurrent
from foretell.model.seq2seq import Seq2Seq
from foretell.model.transformer import Transformer
from foretell.model.translator_config import RecurrentConfig, TransformerConfig, TranslatorConfig

INPUTS_FILE = "inputs.json"  # what was asked for; there from the first step on
RUN_FILE = "run.json"
WEIGHTS_FILE = "weights.npz"
_KEPT = (CHECKPOINT_FILE, WEIGHTS_FILE, RUN_FILE)  # steps that were done; gone when it starts anew

Spec = TypeVar("Spec", ForecasterSpec, TranslatorSpec)


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecasterRun:
    """A finished training of a forecaster.

    Attributes:
        path: Its folder.
        config: Shape of the model.
        spec: What it was trained for.
        training: How: the options, the data's fingerprint, the losses; JSON values.
    """

    path: Path
    config: ForecasterConfig
    spec: ForecasterSpec
    training: dict[str, Any]

    kind: ClassVar[str] = "forecaster"

    def model(self) -> Forecaster:
        """Return the trained model, in evaluation mode."""
        model = Forecaster(self.config)
        load_weights(self.path / WEIGHTS_FILE, model)
        return model.eval()


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorRun:
    """A finished training of a translator; its tokenizer lies in the folder.

    Attributes:
        path: Its folder.
        config: Shape of the model.
        spec: What it was trained for.
        training: How: the options, the data's fingerprint, the losses; JSON values.
    """

    path: Path
    config: TranslatorConfig
    spec: TranslatorSpec
    training: dict[str, Any]

    kind: ClassVar[str] = "translator"

    @property
    def weights_sha256(self) -> str:
        """Tells its weights from others."""
        try:
            return hashlib.sha256((self.path / WEIGHTS_FILE).read_bytes()).hexdigest()
        except OSError as error:
            raise BundleError(f"{self.path / WEIGHTS_FILE} can't be read; train again.") from error

    def model(self) -> Seq2Seq:
        """Return the trained model, in evaluation mode."""
        model = make_translator(self.config)
        load_weights(self.path / WEIGHTS_FILE, model)
        return model.eval()


Run = ForecasterRun | TranslatorRun


def make_translator(config: TranslatorConfig) -> Seq2Seq:
    """Return a new model of either family."""
    if isinstance(config, TransformerConfig):
        return Transformer(config)
    return Recurrent(config)


def translator_config(arch: str, values: dict[str, Any]) -> TranslatorConfig:
    """Read the configuration of a translator of the family `arch`."""
    if arch == "transformer":
        return TransformerConfig.from_json(values)
    return RecurrentConfig.from_json(values)


def write_run(run: Run, model: nn.Module) -> None:
    """Write a finished training into its folder; of several processes the first does.

    Raises:
        FirstFailedError: It couldn't; it raises why.
    """
    from_first(lambda: _write(run, model))


def _write(run: Run, model: nn.Module) -> None:
    save_weights(run.path / WEIGHTS_FILE, model)
    values = {
        "kind": run.kind,
        "config": run.config.to_json(),
        "spec": to_plain(run.spec),
        "training": run.training,
    }
    partial = run.path / f".{RUN_FILE}.partial"
    partial.write_text(json.dumps(values, indent=2) + "\n")
    partial.replace(run.path / RUN_FILE)


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read what `write_run` wrote.

    Raises:
        BundleError: There is no finished training in the folder, or its files are damaged.
    """
    folder = Path(path).absolute()
    if not (folder / RUN_FILE).is_file():
        if (folder / INPUTS_FILE).is_file():
            raise BundleError(
                f"the training in {folder} has not finished; go on with it first (resume)."
            )
        raise BundleError(
            f"{folder} is no training run (no {RUN_FILE} in it); give the folder that "
            "`foretell train` wrote."
        )
    try:
        values = json.loads((folder / RUN_FILE).read_bytes())
        training = values["training"]
        if values["kind"] == "forecaster":
            return ForecasterRun(
                path=folder,
                config=ForecasterConfig.from_json(values["config"]),
                spec=_spec(ForecasterSpec, values),
                training=training,
            )
        spec = _spec(TranslatorSpec, values)
        config = translator_config(spec.arch, values["config"])
        return TranslatorRun(path=folder, config=config, spec=spec, training=training)
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{folder / RUN_FILE} is damaged ({error}); train again.") from error


def _spec(kind: type[Spec], values: dict[str, Any]) -> Spec:
    problems: list[str] = []
    spec = read_record(kind, values["spec"], "spec", problems)
    if spec is None or problems:
        raise BundleError(problems)
    return spec


def prepare_run(run: Path, inputs: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Make the run's folder, or refuse one as `check_run` does, with the same arguments."""
    from_first(lambda: _prepare(run, inputs, resume=resume, overwrite=overwrite))


def _prepare(run: Path, inputs: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    if _goes_on(run, inputs, resume=resume, overwrite=overwrite):
        return
    run.mkdir(parents=True, exist_ok=True)
    for name in _KEPT:
        (run / name).unlink(missing_ok=True)
    (run / INPUTS_FILE).write_text(json.dumps(inputs, indent=2) + "\n")


def check_run(run: Path, inputs: dict[str, Any], *, resume: bool, overwrite: bool) -> bool:
    """Tell whether there is a run to go on with, and write nothing.

    A training that has kept no step yet is no run: whatever ended it, another may begin.

    Args:
        run: The folder.
        inputs: What is asked for, JSON values, among them the data's "fingerprint".
        resume: Allow a run that was started with the same.
        overwrite: Start anew where a run stands already.

    Of several processes the first looks, for it is the one that writes.

    Raises:
        ForetellError: The folder holds another run, or is a file.
        FirstFailedError: So it is for the first process, which raises that.
    """
    return from_first(lambda: _goes_on(run, inputs, resume=resume, overwrite=overwrite))


def _goes_on(run: Path, inputs: dict[str, Any], *, resume: bool, overwrite: bool) -> bool:
    record = run / INPUTS_FILE
    if run.exists() and not run.is_dir():
        raise ForetellError(f"{run} is a file; give the path of a folder for the run.")
    if not any((run / name).exists() for name in _KEPT):
        return False
    if resume and record.exists():
        if changes := list(_changes(_read_inputs(record), inputs)):
            raise ForetellError(
                [
                    f"the training in {run} was started otherwise:",
                    *changes,
                    *_of_all_processes(),
                    "Resume with the same data and options (resume), or start anew (overwrite).",
                ]
            )
        return True
    if not overwrite:
        raise ForetellError(
            f"{run} holds a training run already; go on with it (resume), start anew (overwrite), "
            "or choose another place."
        )
    return False


def _of_all_processes() -> list[str]:
    size = world_size()
    return [f"Batches are counted over all {size} processes together."] if size > 1 else []


def _read_inputs(record: Path) -> dict[str, Any]:
    try:
        was: dict[str, Any] = json.loads(record.read_bytes())
    except ValueError as error:
        raise BundleError(
            f"{record} is damaged ({error}), so nobody knows what the training was started with; "
            "start anew (overwrite)."
        ) from error
    return was


def _changes(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Name what differs, with both values, except for the data's fingerprint."""
    other_family = was.get("arch") != now.get("arch")
    for name, value in now.items():
        before = was.get(name)
        if name == "model" and other_family:
            continue  # its fields are others altogether
        if isinstance(value, dict) and isinstance(before, dict):
            yield from _changes(before, value)
        elif name == "fingerprint" and before != value:
            yield "the data were others."
        elif before != value:
            yield f"{name}: {before} then, {value} now."


def save_weights(path: Path, model: nn.Module) -> None:
    """Write a model's weights as plain arrays, atomically."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, **{name: value.cpu().numpy() for name, value in model.state_dict().items()})
    partial.replace(path)


def load_weights(path: Path, model: nn.Module) -> None:
    """Read what `save_weights` wrote.

    Raises:
        BundleError: The file is missing or damaged, or holds another model's weights.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        model.load_state_dict(weights)
    except (OSError, ValueError, EOFError, KeyError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise BundleError(f"weights {path} can't be loaded: {reason}") from error
