"""One training loop for every model: AdamW, warm-up and cosine, clipping, averaged weights, resume.

A step depends on the seed and its number alone (batch, dropout), so a run that was killed and
resumed ends with the same weights as one that never was. Under `torchrun` each process takes its
part of the same batch, and the loss is that of the whole batch; the first process alone validates,
and writes checkpoint and log.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from foretell.model.checkpoint import (
    CHECKPOINT_FILE,
    Average,
    Checkpoint,
    TrainingLog,
    diverged,
)
from foretell.model.exchange import add_up, check_alike, from_first, join, told_if_lost
from foretell.model.interrupt import StopRequest, TrainingStopped, stop_on_signals
from foretell.model.loop_config import LoopConfig
from foretell.model.memory import MemoryKeeper
from foretell.model.ranks import ProcessLostError, local_world_size, world_size

# A checkpoint is never older than this, however slow the steps are.
CHECKPOINT_S = 60.0

Batches = Callable[[int], dict[str, Tensor]]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """Where a training stands; reported after every step.

    Attributes:
        step: Steps done.
        steps: Steps to do.
        loss: Loss per target of the last step.
        learning_rate: Its learning rate.
        gradient_norm: Its gradient norm before clipping.
        clipped_share: Share of all steps so far whose gradient was clipped.
        steps_per_s: Steps per second since the start or the resume.
        validation_step: Step of the last validation; None before the first, and where a checkpoint
            of an older version doesn't tell it.
        validation_loss: Its loss; None before the first.
        validation_score: Its score, such as BLEU; None where nothing scores.
        best_validation_loss: The loss of the best validation so far: the one of the highest score,
            or of the least loss where nothing scores.
        best_validation_score: Its score.
        best_step: Its step.
    """

    step: int
    steps: int
    loss: float = math.nan
    learning_rate: float = 0.0
    gradient_norm: float = math.nan
    clipped_share: float = 0.0
    steps_per_s: float = math.nan
    validation_step: int | None = None
    validation_loss: float | None = None
    validation_score: float | None = None
    best_validation_loss: float | None = None
    best_validation_score: float | None = None
    best_step: int | None = None


Progress = Callable[[TrainingState], None]
# How good a model in evaluation mode is; higher is better.
Scorer = Callable[[], float]


def train(
    objective: nn.Module,
    batches: Batches,
    *,
    validation: list[dict[str, Tensor]],
    scorer: Scorer | None = None,
    config: LoopConfig,
    run: Path,
    resume: bool = False,
    progress: Progress | None = None,
) -> TrainingState:
    """Train `objective` in place; it ends holding the averaged weights, the best if validated.

    Args:
        objective: Maps a batch to (summed loss, number of targets).
        batches: The whole batch of a step.
        validation: Batches to validate on; empty for none.
        scorer: Scores the averaged weights at each validation, while `objective` holds them.
        config: How to train.
        run: Folder for the checkpoint and the log.
        resume: Go on from the checkpoint in `run`, if there is one.
        progress: Called after every step.

    Returns:
        The last state.

    Raises:
        TrainingStopped: SIGINT or SIGTERM came to one of the processes; the checkpoint holds all
            steps done.
        ProcessLostError: Another process has ended; the checkpoint holds all steps done.
        ForetellError: A loss, a gradient or a weight is no finite number, or the checkpoint is
            damaged. A checkpoint from before stays as it is.
    """
    fabric = _fabric(config)
    torch.manual_seed(config.seed)
    optimizer = _optimizer(objective, config)
    module, optimizer = fabric.setup(objective, optimizer)
    average = Average(objective, config.ema_decay)
    checkpoint = Checkpoint(run / CHECKPOINT_FILE, objective, optimizer, average)
    state, clipped = TrainingState(step=0, steps=config.steps), 0
    if resume and (saved := from_first(checkpoint.read)) is not None:
        state, clipped = _restored(checkpoint.load(saved), config)
    if state.step < config.steps:
        check_alike(batches(state.step), str(config))
    log = TrainingLog(run / "log.csv", after=state.step) if fabric.is_global_zero else None
    clock, memory = _Clock(state.step), MemoryKeeper()

    def save() -> None:
        if log is not None and state.step:
            checkpoint.save({"state": _plain(state), "clipped": int(clipped)})
            clock.saved()

    with stop_on_signals() as stop:
        while state.step < config.steps and not _out_of_patience(state, config):
            step = state.step
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, config)
            try:
                done = _step(fabric, module, optimizer, batches(step), config, step, stop)
            except ProcessLostError:  # before any weight has changed
                save()
                raise
            average.update(objective, step)
            clipped += done.norm > config.clip_norm
            state = _stepped(state, done, config, clipped, clock)
            last = state.step == config.steps
            if validation and (last or state.step % config.validate_every == 0):
                state = _validated(fabric, objective, average, validation, scorer, state)
            if log is not None:
                log.write(state)
            if progress is not None and fabric.is_global_zero:
                progress(state)
            # Once: what is told to be kept must have been saved. All processes stop at one step.
            stopping = bool(stop) if fabric.world_size == 1 else done.stops
            if last or stopping or clock.is_due() or state.step % config.checkpoint_every == 0:
                save()
            memory.step()
            if stopping:
                raise TrainingStopped(state.step)
    average.copy_to(objective, best=bool(validation))
    return state


class _Clock:
    """How fast the steps go, and whether a checkpoint is due by time."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._start = self._saved = time.monotonic()

    def steps_per_s(self, step: int) -> float:
        return (step - self._first) / max(1e-9, time.monotonic() - self._start)

    def is_due(self) -> bool:
        return time.monotonic() - self._saved > CHECKPOINT_S

    def saved(self) -> None:
        self._saved = time.monotonic()


def learning_rate(step: int, config: LoopConfig) -> float:
    """Return the rate of a step (from 0): up in a line to the peak, then down half a cosine."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _is_news(record: logging.LogRecord) -> bool:
    """Whether Lightning says more than what was asked for."""
    return record.getMessage() != "Using bfloat16 Automatic Mixed Precision (AMP)"


def _fabric(config: LoopConfig) -> Fabric:
    logging.getLogger("lightning_fabric.utilities.rank_zero").addFilter(_is_news)
    join()
    fabric = Fabric(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        devices=local_world_size(),
        num_nodes=max(1, world_size() // local_world_size()),
        strategy="ddp" if world_size() > 1 else "auto",
        precision="bf16-mixed" if config.precision == "bf16" else "32-true",
    )
    fabric.launch()
    return fabric


def _optimizer(objective: nn.Module, config: LoopConfig) -> torch.optim.Optimizer:
    parameters = [p for p in objective.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.98), fused=True)


@dataclass(frozen=True, slots=True)
class _Done:
    """A step: the loss per target, the gradient's norm before clipping, whether all stop now."""

    loss: float
    norm: float
    stops: bool


def _step(
    fabric: Fabric,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: dict[str, Tensor],
    config: LoopConfig,
    step: int,
    stop: StopRequest,
) -> _Done:
    """Take one step.

    Raises:
        ForetellError: Loss or norm is no finite number; then no weight has changed.
        ProcessLostError: Another process has ended; then no weight has changed either.
    """
    torch.manual_seed((config.seed * 1_000_003 + step) * fabric.world_size + fabric.global_rank)
    module.train()
    part, weight = _part(fabric, batch)
    with told_if_lost():
        total, count = module(**fabric.to_device(part))
        total, count = total * weight, count * weight
        sums = add_up(torch.stack((total.detach(), count, count.new_tensor(float(bool(stop))))))
        targets = sums[1].clamp(min=1.0)
        optimizer.zero_grad(set_to_none=True)
        # DDP averages the gradients of the processes; the loss is a sum over all of them.
        fabric.backward(total * (fabric.world_size / targets))
    norm = float(torch.nn.utils.clip_grad_norm_(module.parameters(), config.clip_norm))
    loss = float(sums[0] / targets)
    if not (math.isfinite(loss) and math.isfinite(norm)):
        what = f"the loss is {loss:g} and the gradient's norm {norm:g}"
        raise diverged(f"step {step + 1} of the training", what)
    optimizer.step()
    return _Done(loss, norm, stops=bool(sums[2]))


def _stepped(
    state: TrainingState, done: _Done, config: LoopConfig, clipped: int, clock: _Clock
) -> TrainingState:
    """Tell where the training stands after a step."""
    step = state.step + 1
    return replace(
        state,
        step=step,
        loss=done.loss,
        learning_rate=learning_rate(state.step, config),
        gradient_norm=done.norm,
        clipped_share=clipped / step,
        steps_per_s=clock.steps_per_s(step),
    )


def _part(fabric: Fabric, batch: dict[str, Tensor]) -> tuple[dict[str, Tensor], float]:
    """Take this process' rows of a batch, and their weight.

    A process that is left without a row takes one that another has, at a weight of 0: it must
    take part in the sums, and a model needs something to read.
    """
    rank, size = fabric.global_rank, fabric.world_size
    rows = len(next(iter(batch.values())))
    if rank >= rows:
        return {name: values[:1] for name, values in batch.items()}, 0.0
    return {name: values[rank::size] for name, values in batch.items()}, 1.0


def _validated(
    fabric: Fabric,
    objective: nn.Module,
    average: Average,
    batches: list[dict[str, Tensor]],
    scorer: Scorer | None,
    state: TrainingState,
) -> TrainingState:
    """Validate the averaged weights, and keep them if they are the best so far."""
    loss, score = from_first(
        lambda: _measured(fabric, objective, average, batches, scorer, state.step)
    )
    state = replace(state, validation_step=state.step, validation_loss=loss, validation_score=score)
    if not _is_best(state, loss, score):
        return state
    average.keep_best()
    return replace(
        state, best_validation_loss=loss, best_validation_score=score, best_step=state.step
    )


@torch.no_grad()
def _measured(
    fabric: Fabric,
    objective: nn.Module,
    average: Average,
    batches: list[dict[str, Tensor]],
    scorer: Scorer | None,
    step: int,
) -> tuple[float, float | None]:
    """Return loss and score of the averaged weights."""
    objective.eval()
    with average.swapped_into(objective):
        with fabric.autocast():
            sums = [torch.stack(objective(**fabric.to_device(batch))).double() for batch in batches]
        score = None if scorer is None else scorer()
    total, count = torch.stack(sums).sum(dim=0).tolist()
    loss = float(total / max(1.0, count))
    if not math.isfinite(loss):
        raise diverged(f"the validation after step {step}", f"the loss is {loss:g}")
    return loss, score


def _is_best(state: TrainingState, loss: float, score: float | None) -> bool:
    if score is not None:
        return state.best_validation_score is None or score > state.best_validation_score
    return state.best_validation_loss is None or loss < state.best_validation_loss


def _out_of_patience(state: TrainingState, config: LoopConfig) -> bool:
    if not config.patience or state.best_step is None:
        return False
    return state.step - state.best_step >= config.patience * config.validate_every


def _plain(state: TrainingState) -> dict[str, float | int | None]:
    return {name: getattr(state, name) for name in TrainingState.__slots__}


def _restored(extra: dict[str, object], config: LoopConfig) -> tuple[TrainingState, int]:
    state = TrainingState(**extra["state"])  # type: ignore[arg-type]
    clipped = extra["clipped"]
    assert isinstance(clipped, int)
    return replace(state, steps=config.steps), clipped
