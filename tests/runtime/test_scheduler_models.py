"""Real models behind a queue: many callers in a batch get what each gets alone, bit by bit."""

import threading
from pathlib import Path

import numpy as np
import pytest

from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.rows import read_rows
from foretell.data.text.number_words import english_words
from foretell.data.text.translation import TranslateOptions
from foretell.runtime import load
from foretell.runtime.queues.scheduler import Scheduler
from foretell.runtime.queues.work import Row
from foretell.runtime.search.stopping import Stop, StoppedError
from foretell.runtime.session import Session

WAIT_S = 60.0
OPTIONS = [
    TranslateOptions(beam_size=1),
    TranslateOptions(beam_size=1, max_length=3),
    TranslateOptions(),
    TranslateOptions(beam_size=4, n_best=4, attention=True),
    TranslateOptions(beam_size=4, no_repeat_ngram_size=2, banned=("zwei",)),
    TranslateOptions(beam_size=3, n_best=2, prefix="ein", repetition_penalty=1.3),
    TranslateOptions(beam_size=1, sample=True, seed=7),
    TranslateOptions(beam_size=1, sample=True, seed=8, temperature=2.0),
]


def run_together(plans, threads=1):
    """Run plans of several callers that all wait when the first batch is taken."""
    reports, hold = [], threading.Event()
    scheduler = Scheduler(threads=threads, on_batch=reports.append)

    def wait(batch):
        assert hold.wait(WAIT_S)
        batch.put(0)

    for _ in range(threads):
        scheduler.admit().begin([Row(wait, object(), None)])
    requests = [scheduler.admit() for _ in plans]
    for request, plan in zip(requests, plans, strict=True):
        request.begin(plan.rows)
    hold.set()
    for request in requests:
        request.done.result(WAIT_S)
    scheduler.close(WAIT_S)
    return [plan.answer() for plan in plans], [one for one in reports if one.padded_items > 1]


def same(first, second):
    """Whether two translations are equal, attention too."""
    first_attention = [one.attention for one in first.hypotheses]
    second_attention = [one.attention for one in second.hypotheses]
    return (
        repr(first) == repr(second)
        and first.hypotheses[0].token_log_probs == second.hypotheses[0].token_log_probs
        and all(map(np.array_equal, first_attention, second_attention))
    )


@pytest.fixture(params=["translator_bundle_path", "recurrent_bundle_path"])
def translator(request):
    return load(request.getfixturevalue(request.param), device="cpu", threads=1)


def test_translations_of_many_callers_run_together_and_equal_those_alone(translator):
    tasks = [
        ([english_words(at * 7 + k) for k in range(1 + at % 3)], OPTIONS[at % len(OPTIONS)], at)
        for at in range(24)
    ]
    tasks.append((["", "42 !", "one " * 60], TranslateOptions(), 0))
    plans = [
        translator.plan_translations(texts, options, first_place=place)
        for texts, options, place in tasks
    ]
    answers, reports = run_together(plans)
    assert max(report.requests for report in reports) > 4
    for (texts, options, place), found in zip(tasks, answers, strict=True):
        alone = translator.translate_sentences(texts, options, first_place=place)
        assert found.refusals == alone.refusals
        for one, other in zip(found.answers, alone.answers, strict=True):
            assert one == other or same(one, other)
    assert answers[-1].answers[0].text == ""
    assert "tokens" in answers[-1].refusals[0].reason


def test_scores_of_many_callers_equal_those_alone(translator):
    tasks = [[(english_words(at), "eins zwei"[: at + 1])] for at in range(12)]
    answers, reports = run_together([translator.plan_scores(pairs) for pairs in tasks])
    assert max(report.requests for report in reports) > 4
    for pairs, found in zip(tasks, answers, strict=True):
        assert found.answers == translator.score_pairs(pairs).answers


def ragged_rows(seed):
    import pandas as pd

    rng = np.random.default_rng(seed)
    frames = []
    for number, steps in enumerate(rng.integers(1, 70, rng.integers(1, 9))):
        y = (rng.normal(size=steps).cumsum() + 10) * 10.0 ** rng.integers(-6, 7)
        frames.append(pd.DataFrame({"unique_id": number, "ds": np.arange(steps), "y": y}))
    return read_rows(pd.concat(frames, ignore_index=True), Columns())


def test_forecasts_of_many_callers_run_together_and_equal_those_alone(bundle_path: Path):
    forecaster = load(bundle_path, device="cpu", threads=2)
    levels = [(0.1, 0.9), (0.5,), (0.25, 0.3, 0.8)]
    tasks = [
        (
            ragged_rows(at),
            ForecastOptions.from_call(5 + at % 2, quantiles=levels[at % 3], freq=1),
        )
        for at in range(16)
    ]
    plans = [forecaster.plan_forecast(rows, None, options) for rows, options in tasks]
    answers, reports = run_together(plans, threads=2)
    assert max(report.requests for report in reports) > 3
    assert sum(report.items for report in reports) < sum(report.padded_items for report in reports)
    for (rows, options), found in zip(tasks, answers, strict=True):
        alone = forecaster.forecast_rows(rows, None, options)
        assert found.ids.equals(alone.ids)
        for name in ("stamps", "forecast", "quantiles"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))


def test_a_search_that_its_caller_leaves_ends_and_the_others_go_on(translator):
    """What left must not take part in further steps; who stays gets what it gets alone."""
    steps, requests = [], []
    step = translator._decoder.session.run

    def run(inputs, *args, **options):
        steps.append(len(inputs["tokens"]))
        if len(steps) == 2:
            requests[0].cancel()
        return step(inputs, *args, **options)

    plans = [translator.plan_translations([english_words(number)]) for number in (77, 78)]
    alone = translator.translate_sentences([english_words(78)])
    translator._decoder.session.run = run
    scheduler, hold = Scheduler(threads=1), threading.Event()
    scheduler.admit().begin([Row(lambda batch: (hold.wait(WAIT_S), batch.put(0)), "hold", None)])
    for plan in plans:
        requests.append(scheduler.admit())
        requests[-1].begin(plan.rows)
    hold.set()
    requests[1].done.result(WAIT_S)
    assert steps[:3] == [2, 2, 1]
    assert plans[0].answer().answers == [None]
    (found,), (expected,) = plans[1].answer().answers, alone.answers
    assert same(found, expected)


def test_a_stop_ends_a_run_in_its_midst(bundle_path: Path, stop_in_its_midst):
    from foretell.data.bundles.bundle import read_bundle

    session = Session(read_bundle(bundle_path), "forecaster.onnx", device="cpu", threads=1)
    inputs = {"context": np.ones((2000, 48)), "horizon_placeholder": np.full((2000, 400), np.nan)}
    stop = Stop()
    outcome = stop_in_its_midst(stop, lambda: session.run(inputs, stop=stop))
    assert isinstance(outcome, StoppedError)
    with pytest.raises(StoppedError):
        session.run(inputs, stop=stop)  # what was stopped never begins
