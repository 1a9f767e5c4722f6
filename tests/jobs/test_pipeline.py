"""Reading, computing and writing overlap, and nobody can tell from what comes out."""

import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.jobs.pipeline import run_pipeline


@given(st.lists(st.integers()), st.integers(1, 5))
def test_results_are_those_of_a_loop(items, in_flight):
    assert list(run_pipeline(items, lambda n: n * n, in_flight=in_flight)) == [n * n for n in items]


def test_a_slow_item_is_waited_for_and_others_compute_meanwhile():
    """Else each item would take its own time and that of all before it."""
    second_is_done = threading.Event()

    def compute(item):
        if item == "first":
            assert second_is_done.wait(60)
        else:
            second_is_done.set()
        return item

    assert list(run_pipeline(["first", "second"], compute, in_flight=2)) == ["first", "second"]


def test_the_next_item_is_taken_while_one_computes():
    taken = threading.Event()

    def items():
        yield "first"
        taken.set()
        yield "second"

    def compute(item):
        assert taken.wait(60)
        return item

    assert list(run_pipeline(items(), compute, in_flight=2)) == ["first", "second"]


def test_no_more_items_are_held_than_may_be_in_flight():
    """A file is larger than memory: reading mustn't run ahead of writing."""
    read = []

    def items():
        for item in range(20):
            read.append(item)
            yield item

    for result in run_pipeline(items(), lambda item: item, in_flight=3):
        assert len(read) <= result + 3


@pytest.mark.parametrize("in_flight", [1, 2, 7])
@pytest.mark.parametrize("where", ["read", "compute"])
def test_what_came_before_an_error_comes_out_before_it(where, in_flight):
    """A journal keeps it: work of hours before a server went away."""
    begun = []

    def items():
        for item in range(9):
            if where == "read" and item == 5:
                raise OSError("damaged")
            yield item

    def compute(item):
        begun.append(item)
        if item == 5:
            raise OSError("gone")
        return item

    results = run_pipeline(items(), compute, in_flight=in_flight)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="damaged" if where == "read" else "gone"):
        next(results)
    assert max(begun) < 5 + in_flight


def test_who_leaves_early_stops_what_is_being_computed():
    """After Ctrl-C nothing may go on behind the prompt."""
    stopped, ended = threading.Event(), []

    def compute(item):
        if item > 0:
            assert stopped.wait(60)
            ended.append(item)
        return item

    with closing(run_pipeline(range(9), compute, in_flight=3, stop=stopped.set)) as results:
        assert next(results) == 0
        assert not stopped.is_set()
    assert stopped.is_set()
    assert set(ended) <= {1, 2, 3}
    assert not [thread for thread in threading.enumerate() if thread.name == "foretell-job"]


def test_an_end_in_peace_stops_nothing():
    stops = []
    list(run_pipeline(range(3), lambda n: n, in_flight=2, stop=lambda: stops.append(1)))
    assert stops == []


def test_no_way_to_compute_is_refused_at_once():
    with pytest.raises(ValueError, match="in_flight is 0; it must be at least 1"):
        run_pipeline([], len, in_flight=0)
