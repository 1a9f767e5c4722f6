"""Doors to models that are computed by workers on Ray."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from foretell.data.bundles.bundle import Manifest, read_bundle, resolve_bundle
from foretell.data.errors import BundleError
from foretell.jobs.journals.sealed import model_fingerprint
from foretell.jobs.lines.doors import TranslatorDoor, local_translator
from foretell.jobs.pool import OpenWorker
from foretell.jobs.ray.cluster import Placed, RayWorkers, ray_cluster
from foretell.jobs.ray.workers import run_on_ray
from foretell.jobs.tables.doors import Door, local_door

D = TypeVar("D")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _RayPool(Generic[D]):
    """Actors that each open a model; see `Pool`."""

    placed: Placed
    model: Path
    open_door: Callable[[], AbstractContextManager[D]]

    def run(
        self, items: Sequence[T], open_worker: OpenWorker[T, R], *, paths: Sequence[str | Path] = ()
    ) -> Generator[R, None, None]:
        return run_on_ray(items, open_worker, self.placed, paths=[*paths, self.model])


@contextmanager
def ray_door(model: Path, workers: RayWorkers) -> Iterator[Door]:
    """Have a forecaster computed on Ray.

    Raises:
        BundleError: The bundle can't be read, or holds no forecaster.
        OptionError: The workers don't fit into the cluster.
        ForetellError: It can't be reached.
    """
    with _opened(model, "forecaster", workers, local_door) as (manifest, pool, here):
        spec = manifest.forecaster
        assert spec is not None  # of its kind
        yield Door(
            forecast_rows=_Here(pool, here, "forecast_rows"),
            where=pool.placed.where,
            spec=spec,
            fingerprint=model_fingerprint(manifest),
            pool=pool,
        )


@contextmanager
def ray_translator(model: Path, workers: RayWorkers) -> Iterator[TranslatorDoor]:
    """Have a translator computed on Ray.

    Raises:
        BundleError: The bundle can't be read, or holds no translator.
        OptionError: The workers don't fit into the cluster.
        ForetellError: It can't be reached.
    """
    with _opened(model, "translator", workers, local_translator) as (manifest, pool, here):
        spec = manifest.translator
        assert spec is not None  # of its kind
        yield TranslatorDoor(
            translate=_Here(pool, here, "translate"),
            score=_Here(pool, here, "score"),
            where=pool.placed.where,
            spec=spec,
            fingerprint=model_fingerprint(manifest),
            pool=pool,
        )


@contextmanager
def _opened(
    model: Path, kind: str, workers: RayWorkers, local: Callable[..., Any]
) -> Iterator[tuple[Manifest, _RayPool[Any], ExitStack]]:
    """Read a bundle of a kind, and make a pool for it; what is opened here ends with the block."""
    bundle = read_bundle(resolve_bundle(model).absolute())
    if bundle.manifest.kind != kind:
        raise BundleError(
            f"bundle {bundle.path} holds a {bundle.manifest.kind}; expected a {kind}."
        )
    with ray_cluster(workers) as placed, ExitStack() as here:
        open_door = partial(local, bundle.path, device=placed.device, threads=placed.threads)
        yield bundle.manifest, _RayPool(placed, bundle.path, open_door), here


class _Here:
    """A call of the model in this process, for the few items of a picture; opened when needed."""

    def __init__(self, pool: _RayPool[Any], stack: ExitStack, name: str) -> None:
        self._pool, self._stack, self._name = pool, stack, name
        self._call: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._call is None:
            door = self._stack.enter_context(self._pool.open_door())
            self._call = getattr(door, self._name)
        return self._call(*args, **options)
