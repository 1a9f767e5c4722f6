"""Numbers that are kept: against slow obvious ways, under threads, never by a caller's names."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.server.http.model_states import ModelState
from foretell.server.http.recent import STEP_S, WINDOW_S, Recent
from foretell.server.telemetry.durations import split
from foretell.server.telemetry.histograms import SECONDS, Recorder
from foretell.server.telemetry.observing import Observer

seconds = st.floats(1e-4, 100, allow_nan=False)


def recorded(values):
    recorder = Recorder(SECONDS)
    for value in values:
        recorder.add(value)
    return recorder.read()


@given(st.lists(seconds, min_size=1), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_within_a_bucket_of_the_exact_one(values, percent):
    """Bounds are 19 % apart, so what is told is never further off."""
    exact = np.percentile(values, percent, method="inverted_cdf")
    told = recorded(values).percentile(percent)
    assert exact / 1.19 - 1e-4 <= told <= exact * 1.19


@given(st.lists(seconds), st.lists(seconds))
def test_histograms_add_up_and_take_apart(one, other):
    """Rates are differences of counts, and several processes' counts are sums."""
    both = recorded(one + other)
    total = recorded(one) + recorded(other)
    assert total.counts == both.counts
    assert total.total == pytest.approx(both.total)
    assert (total - recorded(one)).counts == recorded(other).counts


@given(st.lists(seconds), st.integers(1, 5))
def test_cumulated_buckets_hold_what_is_not_above_their_bound(values, every):
    pairs = recorded(values).cumulated(every)
    assert pairs == [(bound, sum(value <= bound for value in values)) for bound, _ in pairs]
    assert pairs[-1] == (float("inf"), len(values))


def test_no_values_have_no_percentile():
    assert recorded([]).percentile(99) is None


def test_durations_divided_by_their_counts_are_a_requests_means():
    """As with Triton, whose tools read them so."""
    observer = Observer()
    observer.on_loaded("demand", 2, 1.5)
    for _ in range(3):
        observer.on_admitted("demand", 2)
    observer.on_batch("demand", 2, 3, 30, 60, [0.1, 0.2, 0.3], 0.5, input_s=0.125, output_s=0.0625)
    spent = split(0.5, 0.125, 0.0625)
    times = {"read_s": 0.25, "queue_s": 0.1, "write_s": 0.5, "spent": spent}
    for took_s in (0.6, 0.7):
        observer.on_done("demand", 2, "ok", took_s, **times)
    observer.on_done("demand", 2, "cancelled", 0.8, **times)
    told = observer.statistics.of("demand", 2)
    assert (told.success.count, told.success.ns) == (2, 1_300_000_000)
    assert (told.fail.count, told.fail.ns) == (1, 800_000_000)
    assert (told.queue.count, told.queue.ns) == (2, 200_000_000)
    assert told.queue_seconds.count == 3
    # Of those that got their answer, as the whole time is: else it could be the shorter one.
    assert (told.compute_input.count, told.compute_input.ns) == (2, 2 * 375_000_000)
    assert (told.compute_infer.count, told.compute_infer.ns) == (2, 2 * 312_500_000)
    assert (told.compute_output.count, told.compute_output.ns) == (2, 2 * 562_500_000)
    assert (told.inference_count, told.execution_count) == (3, 1)
    took = told.batches[3]
    assert took.input.count == took.infer.count == took.output.count == 1
    assert (took.input.ns, took.infer.ns, took.output.ns) == (125_000_000, 312_500_000, 62_500_000)
    assert told.compute_seconds.total == 0.5
    assert told.failures == {"CANCELED": 1}
    assert (told.items, told.padded_items, told.padding.total) == (30, 60, 0.5)
    assert told.load_s == 1.5
    assert told.in_work == 0


def test_nothing_is_lost_when_many_threads_count():
    observer = Observer()
    observer.on_loaded("demand", 1, 0.0)

    def work():
        for _ in range(500):
            observer.on_admitted("demand", 1)
            observer.on_batch("demand", 1, 1, 2, 3, [0.01], 0.02)
            observer.on_tokens("demand", 1, 4)
            observer.on_done("demand", 1, "ok", 0.03)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = observer.statistics.of("demand", 1)
    assert told.success.count == told.execution_count == told.request_seconds.count == 4000
    assert (told.items, told.padded_items, told.tokens) == (8000, 12_000, 16_000)
    assert told.in_work == 0


@given(st.lists(st.text(), max_size=20))
def test_names_that_no_model_has_are_one_name(names):
    """A caller that invents names must not fill the memory of those who collect metrics."""
    observer = Observer()
    observer.on_loaded("demand", 1, 0.0)
    for name in names:
        if name != "demand":
            observer.on_rejected(name, 1, "full")
            observer.on_admitted(name, 7)
    told = {(model.name, model.version) for model in observer.statistics.all()}
    assert told <= {("demand", 1), ("other", 0)}


def test_a_version_that_is_gone_leaves_no_numbers():
    """A hundred reloads must not leave a hundred versions behind."""
    observer = Observer()
    for version in range(1, 101):
        observer.on_loaded("demand", version, 0.1)
        observer.on_unloaded("demand", version - 1)
    assert [model.version for model in observer.statistics.all()] == [100]


def test_a_version_loaded_anew_keeps_its_numbers_while_the_first_goes():
    """Files that are exchanged under one number: the new ones serve before the old are gone."""
    observer = Observer()
    observer.on_loaded("demand", 1, 0.1)
    observer.on_admitted("demand", 1)
    observer.on_done("demand", 1, "ok", 0.1)
    observer.on_loaded("demand", 1, 0.2)
    observer.on_unloaded("demand", 1)
    told = observer.statistics.of("demand", 1)
    assert (told.name, told.success.count, told.load_s) == ("demand", 1, 0.2)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def observer():
    observer = Observer()
    observer.on_loaded("demand", 1, 0.0)
    return observer


@pytest.fixture
def recent(observer, clock):
    return Recent(observer, lambda: [ModelState("demand", 1, "ready", "CPU")], clock)


def finish(observer, count, outcome="ok", took_s=0.01):
    for _ in range(count):
        observer.on_admitted("demand", 1)
        observer.on_done("demand", 1, outcome, took_s)


def test_rates_are_of_the_last_minute(observer, recent, clock):
    """What happened an hour ago says nothing of a server's state now."""
    finish(observer, 1000, took_s=9.0)
    for _ in range(30):
        clock.now += STEP_S
        finish(observer, 10)
        recent.keep()
    finish(observer, 5, "error")
    (model,) = recent.models()
    # The reading that is a minute old; what came since then is 11 or 12 steps of ten, and the five.
    assert model.requests_per_s == pytest.approx(2, rel=0.15)
    assert model.failures_per_s == pytest.approx(5 / WINDOW_S)
    assert model.p50_s == pytest.approx(0.01, rel=0.19)
    assert model.p99_s < 1


def test_an_idle_server_has_no_percentiles_and_no_rates(recent, clock):
    clock.now += 600
    (model,) = recent.models()
    assert model.requests_per_s == model.failures_per_s == model.tokens_per_s == 0
    assert model.p50_s is model.p99_s is model.queue_s is model.padding is None


def test_the_history_is_of_five_minutes_and_newest_last(observer, recent, clock):
    for step in range(100):
        clock.now += STEP_S
        finish(observer, step)
        recent.keep()
    (model,) = recent.models()
    assert len(model.history) == 60
    assert model.history == tuple(step / STEP_S for step in range(40, 100))


def test_a_model_loaded_anew_has_no_negative_rates(observer, recent, clock):
    finish(observer, 50)
    recent.keep()
    observer.on_unloaded("demand", 1)
    observer.on_loaded("demand", 1, 0.0)
    clock.now += STEP_S
    finish(observer, 10)
    recent.keep()
    (model,) = recent.models()
    assert model.requests_per_s == 2
    assert model.history[-1] == 2
