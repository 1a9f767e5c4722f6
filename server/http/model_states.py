"""What is known of each version of a model beside numbers, for all that tell of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foretell.server.models.repository import Repository


@dataclass(frozen=True, slots=True)
class ModelState:
    """One version of a model.

    Attributes:
        name: Of the model.
        version: Of the model.
        state: "loading", "ready", "failed" or "unloading".
        provider: What computes; empty where nothing is loaded.
        reason: Why it is in this state, where there is something to tell.
    """

    name: str
    version: int
    state: str
    provider: str = ""
    reason: str = ""


ReadStates = Callable[[], Sequence[ModelState]]


def read_states(repository: Repository) -> list[ModelState]:
    """The versions that a repository tells of, by name and version."""
    serving = repository.models
    states = []
    for status in repository.statuses():
        model = serving.get(status.name)
        is_serving = model is not None and model.version == status.version
        states.append(
            ModelState(
                name=status.name,
                version=status.version,
                state=status.state.value,
                provider=model.served.provider if model is not None and is_serving else "",
                reason=status.reason,
            )
        )
    return states
