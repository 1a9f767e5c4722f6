"""`--ray [ADDRESS]` and `--num-workers`, as they are typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretell.data.errors import OptionError

if TYPE_CHECKING:
    from foretell.jobs.ray.cluster import RayWorkers

_OWN = "local"  # a cluster of this machine alone, for one job


@dataclass(frozen=True, slots=True)
class RayChoice:
    """That a job is to run on Ray, and where.

    Attributes:
        address: HOST:PORT, "auto", or "local".
        num_workers: Of the job; None takes as many as there is room for.
    """

    address: str
    num_workers: int | None

    @classmethod
    def of(
        cls, address: str | None, num_workers: int | None, *, output: str, source: str
    ) -> "RayChoice | None":
        """Gather what was given; None where the job runs in this process.

        Args:
            address: What stands behind `--ray`.
            num_workers: What stands behind `--num-workers`.
            output: Where the answer goes.
            source: What is read.

        Raises:
            OptionError: Workers without Ray, or a stream, which other machines can't read or keep.
        """
        if address is None:
            if num_workers is not None:
                raise OptionError("--num-workers counts workers on Ray; give it with --ray.")
            return None
        problems = []
        if output == "-":
            problems.append("on Ray (--ray) the answer goes to a file; give --output FILE.")
        if source == "-":
            problems.append("on Ray (--ray) the workers read a file; give its path instead of -.")
        if problems:
            raise OptionError(problems)
        return cls(address, num_workers)

    def workers(self, device: str, threads: int | None) -> "RayWorkers":
        """Say what is asked of the cluster."""
        from foretell.jobs.ray.cluster import RayWorkers

        address = None if self.address == _OWN else self.address
        return RayWorkers(
            address=address, num_workers=self.num_workers, threads=threads, device=device
        )


def check_address(address: str | None) -> str | None:
    """Refuse what stands behind `--ray` and can't be an address.

    Click calls it before it misses the input that `--ray` has taken for its address.

    Raises:
        OptionError: It is neither HOST:PORT nor `auto`.
    """
    if address in (None, "auto", _OWN) or ":" in str(address):
        return address
    raise OptionError(
        f"--ray {address}: that is no address of a cluster; expected HOST:PORT, or auto. To use "
        "this machine alone, give --ray last, or before another option."
    )


def absolute(path: str, ray: RayChoice | None) -> str:
    """Make a path one that other processes understand, where there are any."""
    return path if ray is None or path == "-" else str(Path(path).absolute())


def with_address(arguments: Sequence[str]) -> list[str]:
    """Put the address of this machine behind a `--ray` that has none: the parser wants one.

    What follows it is its address, unless that is another option.
    """
    given = list(arguments)
    for place in reversed(range(len(given))):
        following = given[place + 1 : place + 2]
        if given[place] == "--ray" and (not following or following[0].startswith("-")):
            given.insert(place + 1, _OWN)
    return given
