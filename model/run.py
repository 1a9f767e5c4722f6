"""A training run on disk: what was trained, on what, and the weights. No pickle.

`run.json` and `weights.npz` are what an export needs; checkpoint and log lie beside them.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from foretell.data.errors import BundleError
from foretell.data.manifest import ForecasterSpec
from foretell.data.records import read_record, to_plain
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster

INPUTS_FILE = "inputs.json"  # what was asked for; there from the first step on
RUN_FILE = "run.json"
WEIGHTS_FILE = "weights.npz"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A finished training.

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

    def model(self) -> Forecaster:
        """Return the trained model, in evaluation mode."""
        model = Forecaster(self.config)
        load_weights(self.path / WEIGHTS_FILE, model)
        return model.eval()


def write_run(run: Run, model: nn.Module) -> None:
    """Write a finished training into its folder."""
    save_weights(run.path / WEIGHTS_FILE, model)
    values = {
        "kind": "forecaster",
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
        problems: list[str] = []
        spec = read_record(ForecasterSpec, values["spec"], "spec", problems)
        if spec is None or problems:
            raise BundleError(problems)
        config = ForecasterConfig.from_json(values["config"])
        return Run(path=folder, config=config, spec=spec, training=values["training"])
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{folder / RUN_FILE} is damaged ({error}); train again.") from error


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
