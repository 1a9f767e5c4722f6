"""Models as the Open Inference Protocol names them: NAME is a task, NAME:GRAPH a bare graph."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from foretell.data.errors import ModelNotFoundError
from foretell.server.errors import RequestError
from foretell.server.inference_forecasts import ForecastInference
from foretell.server.inference_graphs import GraphInference, graphs_of
from foretell.server.inference_tensors import show
from foretell.server.inference_translations import TranslationInference
from foretell.server.options import ServerOptions
from foretell.server.repository import Repository
from foretell.server.served import Model

Inference = ForecastInference | TranslationInference | GraphInference

GRAPH = ":"
"""Stands between a model's name and a graph's; no name holds it."""

_VERSION = re.compile(r"[0-9]{1,18}")


class InferenceModels:
    """Looks models up for the Open Inference Protocol."""

    def __init__(self, repository: Repository, options: ServerOptions) -> None:
        self._repository = repository
        self._options = options

    @contextmanager
    def lease(self, name: str, version: str) -> Iterator[Inference]:
        """Look up what a request asks, and keep that version loaded until left.

        Args:
            name: NAME or NAME:GRAPH.
            version: A number, or empty for the one that serves.

        Raises:
            RequestError: The version is no number.
            ModelNotFoundError: There is no such model, version or graph.
        """
        number = read_version(version)
        model_name, colon, graph = name.partition(GRAPH)
        with ExitStack() as stack:
            try:
                model = stack.enter_context(self._lease(model_name, number))
                inference = self._inference(model, graph if colon else None)
            except ModelNotFoundError as error:
                raise ModelNotFoundError(
                    [
                        f"Request for unknown model: {_named(name, version)} is not found.",
                        *error.problems,
                    ]
                ) from error
            yield inference

    @contextmanager
    def _lease(self, name: str, version: int | None) -> Iterator[Model]:
        """The repository's lease, by this protocol's rules: it has no unnamed model."""
        if not name:
            raise ModelNotFoundError("a model must be named; RepositoryIndex lists them.")
        with self._repository.lease(name, version or 0) as model:
            if version == 0 != model.version:
                raise ModelNotFoundError(
                    f"version 0 of {model.name} is not served; version {model.version} is."
                )
            yield model

    def _inference(self, model: Model, graph: str | None) -> Inference:
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
            f"model version is {show(version)}; send a number such as 1, or none for the version "
            "that serves."
        )
    return int(version)


def _named(name: str, version: str) -> str:
    return f"{show(name)} version {version}" if version else show(name)
