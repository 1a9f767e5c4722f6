"""Models as the Open Inference Protocol names them: NAME is a task, NAME:GRAPH a bare graph."""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import numpy as np

from foretell.data.errors import ModelNotFoundError
from foretell.data.quoting import quoted
from foretell.server.calls.answering import Answering
from foretell.server.calls.call import Call
from foretell.server.errors import RequestError
from foretell.server.inference.forecasts import ForecastInference
from foretell.server.inference.graphs import GraphInference, graphs_of
from foretell.server.inference.parameters import Value
from foretell.server.inference.signature import Signature
from foretell.server.inference.translations import TranslationInference
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions


class Inference(Protocol):
    """A model, or a graph of one, as this protocol asks it: read, ask, write.

    Attributes:
        model: Which answers.
        signature: What it takes and gives.
    """

    model: Model
    signature: Signature

    def read(self, arrays: Mapping[str, np.ndarray], own: Mapping[str, Value], /) -> Any:
        """Check the inputs and the model's own parameters, off the event loop."""

    async def ask(
        self, answering: Answering, task: Any, outputs: tuple[str, ...], call: Call, /
    ) -> Any:
        """Get the answer to what `read` returned."""

    def answer_bytes(self, answer: Any, /) -> int:
        """About how much `write` goes through."""

    def write(self, task: Any, answer: Any, /, *, asks_errors: bool) -> dict[str, np.ndarray]:
        """Lay the answer out as arrays, off the event loop: at least the outputs asked for."""


GRAPH = ":"
"""Stands between a model's name and a graph's; no name holds it."""

_VERSION = re.compile(r"[0-9]{1,18}")


class InferenceModels:
    """Looks models up for the Open Inference Protocol."""

    def __init__(self, repository: Repository, options: ServerOptions) -> None:
        self._repository = repository
        self._options = options

    def get(self, name: str, version: str) -> Inference:
        """Look up what a request tells about; that keeps no version loaded.

        Args:
            name: NAME or NAME:GRAPH.
            version: A number, or empty for the one that serves.

        Raises:
            RequestError: The version is no number.
            ModelNotFoundError: There is no such model, version or graph.
            ModelNotReadyError: It is being loaded.
        """
        with _unknown(name, version):
            model_name, number, graph = _read_name(name, version)
            return self._inference(self._repository.get(model_name, number or 0), number, graph)

    @contextmanager
    def lease(self, name: str, version: str) -> Iterator[Inference]:
        """Look up what a request asks, as `get` does, and keep that version loaded until left."""
        with ExitStack() as stack:
            with _unknown(name, version):
                model_name, number, graph = _read_name(name, version)
                model = stack.enter_context(self._repository.lease(model_name, number or 0))
                inference = self._inference(model, number, graph)
            yield inference

    def _inference(self, model: Model, version: int | None, graph: str | None) -> Inference:
        if version == 0 != model.version:  # to the repository 0 is whichever serves
            raise ModelNotFoundError(
                f"version 0 of {model.name} is not served; version {model.version} is."
            )
        manifest = model.served.manifest
        if graph is not None:
            graphs = graphs_of(manifest)
            if graph not in graphs:
                named = ", ".join(f"{model.name}{GRAPH}{one}" for one in graphs) or "none"
                raise ModelNotFoundError(f"its graphs are: {named}.")
            return GraphInference(model, graph, self._options)
        if manifest.forecaster is not None:
            return ForecastInference(model, self._options)
        return TranslationInference(model, self._options)


def read_version(version: str) -> int | None:
    """Read a version; None where none is named.

    Raises:
        RequestError: It is no number.
    """
    if not version:
        return None
    if not _VERSION.fullmatch(version):
        raise RequestError(
            f"model version is {quoted(version)}; send a number such as 1, or none for the version "
            "that serves."
        )
    return int(version)


@contextmanager
def _unknown(name: str, version: str) -> Iterator[None]:
    """Say what wasn't found as people look for it in Triton's logs."""
    try:
        yield
    except ModelNotFoundError as error:
        raise ModelNotFoundError(
            [f"Request for unknown model: {_named(name, version)} is not found.", *error.problems]
        ) from error


def _read_name(name: str, version: str) -> tuple[str, int | None, str | None]:
    """A model's name, a version if one is named, and a graph if one is named."""
    model_name, colon, graph = name.partition(GRAPH)
    if not model_name:  # which the repository takes for the only one
        raise ModelNotFoundError("a model must be named; RepositoryIndex lists them.")
    return model_name, read_version(version), graph if colon else None


def _named(name: str, version: str) -> str:
    return f"{quoted(name)} version {version}" if version else quoted(name)
