"""How far a training is: nothing may be taken for what it isn't."""

from types import SimpleNamespace

import pytest

from foretell.cli import progress


def state(step, loss=None, score=None, **changes):
    values = {
        "step": step,
        "steps": 9,
        "loss": 1.0,
        "steps_per_s": 2.0,
        "validation_step": None if loss is None else step,
        "validation_loss": loss,
        "validation_score": score,
        "best_validation_loss": loss,
        "best_validation_score": score,
    }
    return SimpleNamespace(**(values | changes))


@pytest.fixture
def told(monkeypatch, capsys):
    """What is said of states, each of them ten seconds after the one before."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)

    def say(states):
        with progress.training_progress() as show:
            for one in states:
                show(one)
        return capsys.readouterr().err.splitlines()

    return say


def test_a_validation_is_told_with_its_own_step(told):
    """Beside a later step it would be taken for that step's."""
    first, second, third, fourth = told(
        [state(1), state(2, 0.5, 7.0), state(3, 0.5, 7.0, validation_step=2), state(4, 0.4, 8.0)]
    )
    assert "validation" not in first
    for line in (second, third):
        assert line.endswith("  at 2: validation 0.5000 (best 0.5000), BLEU 7.00 (best 7.00)")
    assert "  at 4: validation 0.4000" in fourth


def test_a_resumed_training_tells_the_validation_that_it_brings_along(told):
    first, second = told([state(6, 0.5, validation_step=4), state(7, 0.4)])
    assert first.endswith("  at 4: validation 0.5000 (best 0.5000)")
    assert second.endswith("  at 7: validation 0.4000 (best 0.4000)")


def test_a_validation_at_an_unknown_step_is_not_told(told):
    """A checkpoint of an older version doesn't know it."""
    (line,) = told([state(6, 0.5, validation_step=None)])
    assert "validation" not in line
