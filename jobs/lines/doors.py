"""Who computes a job's translations: here a model in this process; `remote_door` is a server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from foretell.data.bundles.bundle import TranslatorSpec
from foretell.data.text.translation import PairScore, TranslateOptions, Translation
from foretell.jobs.journals.sealed import model_fingerprint
from foretell.jobs.pool import Pool
from foretell.runtime import load_translator
from foretell.runtime.search.stopping import Stop


class Translate(Protocol):
    """The call that all doors share."""

    def __call__(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions],
        *,
        first_place: int = 0,
    ) -> list[Translation]:
        """Translate sentences; see `Translator.translate`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorDoor:
    """An open way to a model.

    Attributes:
        translate: Asks for translations; several threads may.
        score: Asks how probable given translations are.
        where: What computes them, for people to read.
        spec: What the model is.
        fingerprint: Of the model: another one has another.
        in_flight: Chunks of a job that are worth being asked for at a time.
        stop: Has calls end soon, by whatever error; nothing can be asked afterwards.
        busy_s: See `Translator.busy_s`; None where another process computes.
        threads: That compute at a time.
        pool: Processes that compute whole chunks, where there are any.
    """

    translate: Translate
    score: Callable[[Sequence[tuple[str, str]]], list[PairScore]]
    where: str
    spec: TranslatorSpec
    fingerprint: str = ""
    in_flight: int = 2
    stop: Callable[[], None] = lambda: None
    busy_s: Callable[[], float] | None = None
    threads: int = 1
    pool: "Pool[TranslatorDoor] | None" = None


OpenTranslatorDoor = Callable[[], AbstractContextManager[TranslatorDoor]]


@contextmanager
def local_translator(
    model: Path, *, device: str = "auto", threads: int | None = None
) -> Iterator[TranslatorDoor]:
    """Load a translator into this process.

    Raises:
        BundleError: It can't be loaded, or is no translator.
        DeviceError: The device can't be had.
    """
    translator = load_translator(model, device=device, threads=threads)
    spec = translator.manifest.translator
    assert spec is not None  # a Translator refuses bundles that hold none
    stop = Stop()
    yield TranslatorDoor(
        translate=partial(translator.translate, on_step=stop.check),
        score=partial(translator.score, on_step=stop.check),
        where=translator.provider,
        spec=spec,
        fingerprint=model_fingerprint(translator.manifest),
        stop=stop.set,
        busy_s=lambda: translator.busy_s,
        threads=translator.threads,
    )
