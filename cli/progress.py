"""How far a training is: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foretell.cli.messages import SECONDS_BETWEEN_LINES, say
from foretell.model.ranks import is_first

if TYPE_CHECKING:
    from foretell.model.training import TrainingState


@contextmanager
def training_progress() -> "Iterator[Callable[[TrainingState], None]]":
    """Hand out what is to be called after every step."""
    if is_first() and sys.stderr.isatty():
        with _bar() as show:
            yield show
    else:
        yield _lines()


@contextmanager
def _bar() -> "Iterator[Callable[[TrainingState], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    text = TextColumn("{task.fields[facts]}")
    bar = Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        text,
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("training", facts="", total=None)

        def show(state: "TrainingState") -> None:
            bar.update(task, completed=state.step, total=state.steps, facts=_facts(state))

        yield show


def _lines() -> "Callable[[TrainingState], None]":
    last = -SECONDS_BETWEEN_LINES

    def show(state: "TrainingState") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES or state.step == state.steps:
            last = now
            say(f"training {state.step}/{state.steps}  {_facts(state)}")

    return show


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{round(seconds)} s" if seconds < 90 else f"{minutes} min"


def _facts(state: "TrainingState") -> str:
    facts = f"loss {state.loss:.4f}  {state.steps_per_s:.1f} steps/s"
    if state.step < state.steps:
        left = (state.steps - state.step) / max(state.steps_per_s, 1e-9)
        facts += f"  {_duration(left)} left"
    return facts + _validation(state)


def _validation(state: "TrainingState") -> str:
    """Tell the last validation with its step: beside a later step it would be taken for that's."""
    if state.validation_step is None or state.validation_loss is None:
        return ""
    facts = f"  at {state.validation_step}: validation {state.validation_loss:.4f}"
    facts += f" (best {state.best_validation_loss:.4f})"
    if state.validation_score is not None:
        facts += f", BLEU {state.validation_score:.2f} (best {state.best_validation_score:.2f})"
    return facts
