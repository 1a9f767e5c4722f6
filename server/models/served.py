"""What the server asks of a model: the calls of the runtime that it needs, and no more."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from foretell.data.bundles.bundle import ForecasterSpec, Manifest, TranslatorSpec
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows
from foretell.data.text.translation import PairScore, TranslateOptions, Translation, TranslationPart
from foretell.runtime.answers import Answers
from foretell.runtime.queues.work import Plan
from foretell.runtime.search.stopping import Stop
from foretell.server.errors import ModelKindError


class Served(Protocol):
    """Any model, such as those of `foretell.runtime`: thread-safe."""

    @property
    def manifest(self) -> Manifest:
        """What the bundle holds."""

    @property
    def provider(self) -> str:
        """What computes the answers, the one in use."""

    @property
    def threads(self) -> int:
        """Batches that are worth being computed at a time."""

    def run_graph(
        self,
        graph: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None,
        *,
        stop: Stop,
    ) -> dict[str, np.ndarray]:
        """Run "forecaster", "encoder" or "decoder" once on arrays that fit its signature.

        When `stop` is set, the run ends with a `StoppedError`.
        """


class ServedForecaster(Served, Protocol):
    """What the server asks of a forecaster."""

    def plan_forecast(
        self,
        rows: Rows,
        future: Rows | None,
        options: ForecastOptions,
        *,
        on_step: Callable[[], None],
    ) -> Plan[PanelForecast]:
        """Say what is to be computed for typed rows.

        `on_step` is called now and then, such as once a series that is refused; what it raises
        ends the work. So it is with the other plans, sentence by sentence.
        """


class ServedTranslator(Served, Protocol):
    """What the server asks of a translator."""

    def plan_translations(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions],
        *,
        first_place: int,
        on_step: Callable[[], None],
    ) -> Plan[Answers[Translation]]:
        """Say what is to be searched for sentences.

        The first one has this place in the caller's whole list.
        """

    def translate_stream(
        self, sentence: str, options: TranslateOptions
    ) -> Generator[TranslationPart | Translation, None, None]:
        """Yield a part a step, which may be empty, and the translation last; closing it stops."""

    def plan_scores(
        self, pairs: Sequence[tuple[str, str]], *, on_step: Callable[[], None]
    ) -> Plan[Answers[PairScore]]:
        """Say what is to be computed for given translations."""


@dataclass(frozen=True, slots=True)
class Model:
    """One served version of a model."""

    name: str
    version: int
    served: ServedForecaster | ServedTranslator

    @property
    def forecaster(self) -> tuple[ServedForecaster, ForecasterSpec]:
        """The model as a forecaster.

        Raises:
            ModelKindError: It is none.
        """
        spec = self.served.manifest.forecaster
        if spec is None:
            raise self._is_no("forecaster")
        return cast(ServedForecaster, self.served), spec

    @property
    def translator(self) -> tuple[ServedTranslator, TranslatorSpec]:
        """The model as a translator.

        Raises:
            ModelKindError: It is none.
        """
        spec = self.served.manifest.translator
        if spec is None:
            raise self._is_no("translator")
        return cast(ServedTranslator, self.served), spec

    def _is_no(self, kind: str) -> ModelKindError:
        return ModelKindError(
            f"model {self.name} is a {self.served.manifest.kind}, no {kind}; "
            "ask Models.List and Models.Describe for one."
        )
