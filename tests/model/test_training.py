"""The training loop: the schedule, clipping, averaging, and a kill that changes nothing."""

import csv
import logging
import math
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

from foretell.data.errors import ForetellError
from foretell.model.config import TrainingConfig
from foretell.model.interrupt import TrainingStopped
from foretell.model.training import TrainingState, learning_rate, train


class Line(nn.Module):
    """y = w·x + b with a squared loss and dropout, so that seeds matter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, y):
        error = self.dropout(self.linear(x))[:, 0] - y
        return (error * error).sum(), torch.tensor(float(len(y)))


def batches(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 3, generator=generator)
    return {"x": x, "y": x @ torch.tensor([1.0, -2.0, 0.5]) + 3}


CONFIG = {"warmup_steps": 3, "learning_rate": 0.05, "weight_decay": 0.0, "ema_decay": 0.9}


def run_training(folder, *, validation=(), resume=False, progress=None, **options):
    torch.manual_seed(9)
    line = Line()
    config = TrainingConfig(**{**CONFIG, "steps": 40, "validate_every": 10, **options})
    state = train(
        line,
        batches,
        validation=list(validation),
        config=config,
        run=folder,
        resume=resume,
        progress=progress,
    )
    return state, line


class Killed(Exception):
    pass


def killer(at: int):
    def progress(state: TrainingState) -> None:
        if state.step == at:
            raise Killed

    return progress


@pytest.mark.parametrize("killed_at", [5, 10, 27])
@pytest.mark.parametrize("validated", [False, True])
def test_a_killed_run_ends_with_the_weights_of_an_unbroken_one(tmp_path, killed_at, validated):
    validation = [batches(1000)] if validated else []
    options = {"checkpoint_every": 5, "validation": validation}
    _, unbroken = run_training(tmp_path / "whole", **options)
    with pytest.raises(Killed):
        run_training(tmp_path / "broken", progress=killer(killed_at), **options)
    _, resumed = run_training(tmp_path / "broken", resume=True, **options)
    for name, value in unbroken.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    logs = [_log(tmp_path / name) for name in ("whole", "broken")]
    for lines in logs:
        for line in lines:
            del line["steps_per_s"]
    assert logs[0] == logs[1]


def _log(folder):
    with (folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_state_tells_the_step_of_its_validation_after_a_resume_too(tmp_path):
    options = {"validation": [batches(1000)], "checkpoint_every": 5}
    with pytest.raises(Killed):
        run_training(tmp_path, progress=killer(26), **options)
    seen = {}

    def progress(state):
        seen[state.step] = state.validation_step

    run_training(tmp_path, resume=True, progress=progress, **options)
    assert (min(seen), seen[26], seen[29], seen[30]) == (26, 20, 20, 30)


def test_a_run_of_an_older_version_goes_on(tmp_path):
    """Its checkpoint doesn't tell the step of a validation, and its log has no such column."""
    options = {"validation": [batches(1000)], "checkpoint_every": 5}
    with pytest.raises(Killed):
        run_training(tmp_path, progress=killer(26), **options)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    del saved["extra"]["state"]["validation_step"]
    torch.save(saved, tmp_path / "checkpoint.pt")
    lines = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()]
    place = lines[0].index("validation_step")
    kept = [",".join(line[:place] + line[place + 1 :]) for line in lines]
    (tmp_path / "log.csv").write_text("".join(f"{line}\n" for line in kept))
    seen = []
    run_training(tmp_path, resume=True, progress=seen.append, **options)
    assert (seen[0].validation_step, seen[-1].validation_step) == (None, 40)
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert [row.count(",") for row in rows] == [kept[0].count(",")] * 41
    assert float(_log(tmp_path)[-1]["validation_loss"]) == seen[-1].validation_loss


def test_bfloat16_is_no_news_to_who_asked_for_it(tmp_path, monkeypatch):
    """Lightning says it on standard error, between the lines of progress."""
    lightning = logging.getLogger("lightning_fabric.utilities.rank_zero")
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    monkeypatch.setattr(lightning, "handlers", [handler])
    run_training(tmp_path, precision="bf16", steps=1)
    assert told == []
    lightning.info("something else")
    assert told == ["something else"]


def test_other_seeds_give_other_weights(tmp_path):
    _, first = run_training(tmp_path / "a")
    _, second = run_training(tmp_path / "b", seed=1)
    assert not torch.equal(first.linear.weight, second.linear.weight)


def test_it_learns(tmp_path):
    state, line = run_training(tmp_path, steps=400, checkpoint_every=400)
    assert state.step == 400
    line.eval()
    loss, count = line(**batches(5000))
    assert loss / count < 0.3  # 14 before; dropout keeps it from 0


def spoiled(at, value):
    """Batches of which one has a value that no loss survives."""

    whole = batches

    def some(step):
        batch = whole(step)
        if step == at:
            batch["y"][3] = value
        return batch

    return some


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_a_loss_that_is_no_number_ends_the_training(tmp_path, monkeypatch, value):
    """It ended in weights of NaN that were written as if all were well."""
    monkeypatch.setitem(globals(), "batches", spoiled(25, value))
    with pytest.raises(ForetellError, match=r"step 26 of the training has diverged: the loss is"):
        run_training(tmp_path, checkpoint_every=10)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["extra"]["state"]["step"] == 20
    assert all(weight.isfinite().all() for weight in saved["module"].values())


def test_a_validation_that_is_no_number_ends_the_training_too(tmp_path):
    odd = {**batches(7), "y": torch.full((16,), math.nan)}
    with pytest.raises(ForetellError, match="the validation after step 10 has diverged"):
        run_training(tmp_path, validation=[odd])


def test_weights_that_are_no_numbers_are_never_saved(tmp_path):
    """The last step has no later loss that would tell."""
    with pytest.raises(ForetellError, match="some weights are infinite or no numbers"):
        run_training(tmp_path, steps=1, warmup_steps=0, learning_rate=1e308)
    assert not (tmp_path / "checkpoint.pt").exists()


def test_free_memory_is_given_back_now_and_then(tmp_path, monkeypatch):
    """Batches of varying shape leave holes in the heap, and a long training grows by them."""
    given = []
    monkeypatch.setattr("foretell.model.memory._find_trim", lambda: given.append)
    monkeypatch.setattr("foretell.model.memory.INTERVAL_S", 1e9)
    run_training(tmp_path / "seldom")
    assert not given
    monkeypatch.setattr("foretell.model.memory.INTERVAL_S", 0.0)
    run_training(tmp_path / "always")
    assert given == [0] * 40


def test_the_schedule_climbs_in_a_line_and_falls_in_half_a_cosine():
    config = TrainingConfig(steps=110, warmup_steps=10, learning_rate=1.0)
    rates = [learning_rate(step, config) for step in range(110)]
    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert rates[10:] == pytest.approx(
        [0.5 * (1 + math.cos(math.pi * i / 100)) for i in range(100)]
    )


def test_clipping_keeps_the_direction_of_the_gradient():
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([3.0, -4.0, 12.0])
    norm = torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    assert float(norm) == pytest.approx(13.0)
    torch.testing.assert_close(parameter.grad * 13, torch.tensor([3.0, -4.0, 12.0]))


def test_the_clipped_share_is_told(tmp_path):
    all_clipped, _ = run_training(tmp_path / "a", clip_norm=1e-6)
    none_clipped, _ = run_training(tmp_path / "b", clip_norm=1e6)
    assert (all_clipped.clipped_share, none_clipped.clipped_share) == (1.0, 0.0)


def test_patience_ends_the_training_with_the_best_weights(tmp_path):
    # Validation that the training makes worse: its best is the first.
    worse = {"x": torch.ones(4, 3), "y": torch.full((4,), -100.0)}
    state, line = run_training(tmp_path, validation=[worse], steps=200, patience=2)
    assert state.step == 30
    assert state.best_step == 10
    _, short = run_training(tmp_path / "short", validation=[worse], steps=200, patience=0)
    assert torch.equal(line.linear.weight, short.linear.weight)


def test_the_weights_that_are_kept_are_an_average(tmp_path):
    _, averaged = run_training(tmp_path / "a", steps=10, ema_decay=0.99)
    _, last = run_training(tmp_path / "b", steps=10, ema_decay=0.0)
    assert not torch.equal(averaged.linear.weight, last.linear.weight)


PROGRAM = """
import sys, time, torch
from pathlib import Path
sys.path.insert(0, {folder!r})
from test_training import run_training

def progress(state):
    print(state.step, flush=True)
    time.sleep(0.02)

run_training(Path({run!r}), checkpoint_every=1, steps=30, resume=True, progress=progress)
"""


def test_kill_9_at_any_moment_loses_nothing(tmp_path):
    """A checkpoint is either whole or not there, also when the process dies while writing it."""
    from pathlib import Path

    program = PROGRAM.format(folder=str(Path(__file__).parent), run=str(tmp_path / "killed"))
    for lines in (7, 13):
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
    _, resumed = run_training(tmp_path / "killed", checkpoint_every=1, steps=30, resume=True)
    _, unbroken = run_training(tmp_path / "whole", checkpoint_every=30, steps=30)
    assert torch.equal(resumed.linear.weight, unbroken.linear.weight)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_between_two_steps_and_loses_none(tmp_path, number):
    """Ctrl-C, and what a scheduler sends, must not cost what was trained since a checkpoint."""

    def progress(state):
        if state.step == 7:
            signal.raise_signal(number)

    options = {"steps": 20, "checkpoint_every": 20}
    with pytest.raises(TrainingStopped, match=r"stopped after step 7; .*\(resume\)"):
        run_training(tmp_path / "stopped", progress=progress, **options)
    seen = []
    _, resumed = run_training(
        tmp_path / "stopped", resume=True, progress=lambda s: seen.append(s.step), **options
    )
    assert seen[0] == 8
    _, unbroken = run_training(tmp_path / "whole", **options)
    assert torch.equal(resumed.linear.weight, unbroken.linear.weight)


def test_checkpoints_come_by_time_too(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.model.training.CHECKPOINT_S", -1.0)
    with pytest.raises(Killed):
        run_training(tmp_path, progress=killer(3), checkpoint_every=1000)
    seen = []
    run_training(tmp_path, resume=True, progress=lambda s: seen.append(s.step))
    assert seen[0] == 3
