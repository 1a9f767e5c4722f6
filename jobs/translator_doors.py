"""Who computes a job's translations: a model in this process, or a server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from foretell.client import Client, Credentials
from foretell.client.models import translator_of
from foretell.data.bundle import TranslatorSpec
from foretell.data.translation import PairScore, TranslateOptions, Translation
from foretell.runtime import load_translator


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
        translate: Asks for translations.
        score: Asks how probable given translations are.
        where: What computes them, for people to read.
        spec: What the model is.
    """

    translate: Translate
    score: Callable[[Sequence[tuple[str, str]]], list[PairScore]]
    where: str
    spec: TranslatorSpec


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
    yield TranslatorDoor(
        translate=translator.translate,
        score=translator.score,
        where=translator.provider,
        spec=spec,
    )


@contextmanager
def remote_translator(target: str, *, model: str | None = None) -> Iterator[TranslatorDoor]:
    """Connect to a server, with the credentials of the environment.

    Raises:
        OptionError: The credentials contradict, or a token would go in clear to another machine.
        RemoteError: It can't be reached, or has no such translator.
    """
    with Client(target, credentials=Credentials.from_environment()) as client:
        info = client.describe(model)
        yield TranslatorDoor(
            translate=partial(client.translate, model=model),
            score=partial(client.score, model=model),
            where=f"{info.name} version {info.version} at {target} ({info.provider})",
            spec=translator_of(info, target),
        )
