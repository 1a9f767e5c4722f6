"""Which of the processes of one training this is, as `torchrun` tells it; needs no torch.

The first process writes the run folder and talks to the user; all of them compute.
"""

import os

from foretell.data.errors import ForetellError


class ProcessLostError(ForetellError):
    """Another process of the training has ended, so that no further step can be taken."""


class FirstFailedError(ForetellError):
    """The first process has failed, and tells why."""

    def __init__(self) -> None:
        super().__init__("the first process of the training has failed; its message tells why.")


def world_size() -> int:
    """Count the processes of the training; 1 where `torchrun` started none.

    Cluster schedulers set the same variables for whatever they start, so they count under
    `torchrun` alone.
    """
    return _number("WORLD_SIZE", 1)


def rank() -> int:
    """Return the number of this process, from 0."""
    return _number("RANK", 0)


def is_first() -> bool:
    """Tell whether this process writes and tells."""
    return rank() == 0


def local_world_size() -> int:
    """Count the processes on this machine."""
    return _number("LOCAL_WORLD_SIZE", 1)


def local_rank() -> int:
    """Return the number of this process on its machine, from 0."""
    return _number("LOCAL_RANK", 0)


def _number(name: str, alone: int) -> int:
    return int(os.environ.get(name, alone)) if "TORCHELASTIC_RUN_ID" in os.environ else alone
