"""The queue of a model: who runs with whom, in which order, and what becomes of those who leave."""

import threading
import time

import pytest

from foretell.data.errors import OptionError
from foretell.runtime.queues.scheduler import QueueLimits, Scheduler
from foretell.runtime.queues.work import (
    BatchTimeError,
    DeadlineError,
    QueueFullError,
    Row,
)
from foretell.runtime.search.stopping import StoppedError

WAIT_S = 20.0


class Desk:
    """Runs batches of (answers, place, value) one at a time, each when it is let go."""

    def __init__(self, scheduler_options=None, *, is_open=False):
        self.batches = []  # the values of each
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()
        if is_open:
            self.go.set()
        self.scheduler = Scheduler(threads=1, **(scheduler_options or {}))

    def run(self, batch):
        self.batches.append([value for _, _, value in batch.tasks])
        self.entered.release()
        while not self.go.wait(0.005):
            batch.given_up()
        for place, (answers, at, value) in enumerate(batch.tasks):
            if value == "bad":
                raise ValueError("a bad row")
            answers[at] = value
            batch.put(place)

    def ask(self, *values, key="k", share=0.1, **admission):
        request = self.scheduler.admit(**admission)
        answers = [None] * len(values)
        request.begin([Row(self.run, key, (answers, at, v), share) for at, v in enumerate(values)])
        return request, answers

    def occupy(self):
        """Have the only thread at work, on a request of its own."""
        occupied = self.ask("occupied", key=object())
        assert self.entered.acquire(timeout=WAIT_S)
        return occupied[0]


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.go.set()
    assert desk.scheduler.close(WAIT_S)


def _retry_after_s(desk):
    with pytest.raises(QueueFullError) as full:
        desk.scheduler.admit()
    assert f"Ask again in {full.value.retry_after_s:.2g} s" in str(full.value)
    return full.value.retry_after_s


def result(request):
    return request.done.result(WAIT_S)


def test_what_queued_while_busy_runs_together_and_each_gets_its_own(desk):
    desk.occupy()
    asked = [desk.ask(*values) for values in (["a"], ["b", "c"], [], ["d"])]
    result(asked[2][0])  # nothing to do is done at once
    desk.go.set()
    for request, _ in asked:
        result(request)
    assert [answers for _, answers in asked] == [["a"], ["b", "c"], [], ["d"]]
    assert len(desk.batches) == 2
    assert sorted(desk.batches[1]) == ["a", "b", "c", "d"]


def test_a_request_on_an_idle_model_waits_for_nobody(desk):
    desk.go.set()
    request, answers = desk.ask("a")
    result(request)
    assert answers == ["a"]
    assert desk.batches == [["a"]]


def test_only_rows_of_one_key_share_a_batch_and_only_as_many_as_have_room(desk):
    desk.occupy()
    asked = [
        desk.ask("a", key=1),
        desk.ask("b", key=2),
        desk.ask("c", key=1),
        desk.ask("d", "e", "f", key=3, share=0.5),
        desk.ask("g", key=4, share=7.0),
    ]
    desk.go.set()
    for request, _ in asked:
        result(request)
    assert sorted(map(sorted, desk.batches[1:])) == [["a", "c"], ["b"], ["d", "e"], ["f"], ["g"]]


def test_smaller_numbers_of_priority_go_first(desk):
    desk.occupy()
    asked = [desk.ask(value, key=value, priority=value) for value in (3, 1, 2)]
    desk.go.set()
    for request, _ in asked:
        result(request)
    assert desk.batches[1:] == [[1], [2], [3]]


def test_a_short_request_never_waits_for_the_whole_of_a_long_one(desk):
    desk.occupy()
    long, _ = desk.ask(*"abcdefgh", share=1.0)
    short, _ = desk.ask("short", share=1.0)
    desk.go.set()
    result(short)
    result(long)
    assert desk.batches[2] == ["short"]


def test_a_long_request_is_not_passed_for_good(desk):
    """Every short one that comes later stands behind what the long one has waited for by then."""
    desk.occupy()
    long, _ = desk.ask(*"ab", share=1.0)
    shorts = [desk.ask(value, share=1.0)[0] for value in range(3)]
    desk.go.set()
    for request in (long, *shorts):
        result(request)
    later = [desk.ask(value, share=1.0)[0] for value in range(10, 13)]
    for request in later:
        result(request)
    order = [batch[0] for batch in desk.batches[1:]]
    assert order.index("b") < order.index(10)


def test_a_full_queue_says_so_and_has_room_once_somebody_leaves():
    desk = Desk({"limits": QueueLimits(max_requests=2)})
    desk.occupy()
    asked = [desk.ask("a")[0], desk.ask("b")[0]]
    with pytest.raises(QueueFullError, match="Exceeds maximum queue size: 2 requests wait") as full:
        desk.scheduler.admit()
    assert full.value.retry_after_s > 0
    asked[0].cancel()
    assert desk.scheduler.num_waiting == 1
    asked.append(desk.ask("c")[0])
    desk.go.set()
    for request in asked[1:]:
        result(request)
    assert desk.batches[1:] == [["b", "c"]]
    assert desk.scheduler.num_waiting == 0


def test_a_full_queue_tells_when_what_waits_has_had_its_turn():
    """Before a batch has ended, and after it: a batch takes what one took, and several wait."""
    desk = Desk({"limits": QueueLimits(max_requests=3)})
    first = desk.occupy()
    asked = [desk.ask(value, share=1.0)[0] for value in "abc"]
    early = _retry_after_s(desk)
    time.sleep(0.4)
    assert early >= 3.0  # three batches of nobody knows how long
    desk.go.set()
    for request in (first, *asked):
        result(request)
    for _ in asked:
        assert desk.entered.acquire(timeout=WAIT_S)
    desk.go.clear()
    desk.occupy()
    asked = [desk.ask(value, share=1.0)[0] for value in "abc"]
    late = _retry_after_s(desk)
    desk.go.set()
    for request in asked:
        result(request)
    assert 3 * 0.4 * 0.8**3 <= late <= 30.0


def test_bytes_are_bounded_too_and_held_until_the_answer():
    desk = Desk({"limits": QueueLimits(max_bytes=100)})
    running, _ = desk.ask("large", size_bytes=1000)  # alone it is let in, or it never could be
    assert desk.entered.acquire(timeout=WAIT_S)
    with pytest.raises(QueueFullError, match="hold 1,000 bytes; with this one, 1, it would"):
        desk.scheduler.admit(size_bytes=1)
    desk.go.set()
    result(running)
    desk.scheduler.admit(size_bytes=100).cancel()


def test_a_request_that_is_too_late_never_runs(desk):
    desk.occupy()
    late, _ = desk.ask("late", deadline=time.monotonic() + 0.05)
    fine, _ = desk.ask("fine", deadline=time.monotonic() + 1000)
    time.sleep(0.1)
    desk.go.set()
    with pytest.raises(DeadlineError, match="Request timeout expired"):
        result(late)
    result(fine)
    assert desk.batches[1:] == [["fine"]]
    with pytest.raises(DeadlineError):
        desk.scheduler.admit(deadline=time.monotonic() - 1)
    assert desk.scheduler.num_waiting == 0


def test_a_request_that_is_left_never_runs(desk):
    desk.occupy()
    left, _ = desk.ask("left", "left")
    admitted = desk.scheduler.admit()
    stays, _ = desk.ask("stays")
    left.cancel()
    admitted.cancel()
    admitted.begin([Row(desk.run, "k", ([], 0, "never"))])
    desk.go.set()
    result(stays)
    assert desk.batches[1:] == [["stays"]]


def test_what_a_left_request_holds_is_let_go_while_others_run(desk):
    """Callers that come and go while a long batch runs must not fill the memory."""
    desk.occupy()
    for _ in range(500):
        desk.ask("left", "left")[0].cancel()
    heaps = desk.scheduler._queue._heaps
    assert sum(map(len, heaps.values())) < 10


def test_a_batch_that_all_have_left_is_stopped():
    desk = Desk()
    request, _ = desk.ask("a", "b")
    assert desk.entered.acquire(timeout=WAIT_S)
    (batch,) = desk.scheduler._running
    request.cancel()
    assert batch.stop.is_set
    other = desk.ask("c")[0]  # the thread is free again, though nothing was let go
    assert desk.entered.acquire(timeout=WAIT_S)
    desk.go.set()
    result(other)


def test_a_batch_goes_on_for_those_who_stay_and_hears_who_left():
    started, heard = threading.Event(), threading.Event()
    gone = []

    def run(batch):
        started.set()
        while not gone:
            gone.extend(batch.given_up())
        heard.set()
        for place in {0, 1} - set(gone):
            batch.put(place)

    scheduler = Scheduler(threads=1)
    hold = threading.Event()
    first = scheduler.admit()
    first.begin([Row(lambda batch: (hold.wait(WAIT_S), batch.put(0)), "hold", None)])
    requests = [scheduler.admit() for _ in range(2)]
    for request in requests:
        request.begin([Row(run, "k", None, 0.1)])
    hold.set()
    assert started.wait(WAIT_S)
    requests[0].cancel()
    result(requests[1])
    assert gone == [0]


def test_a_bad_row_fails_its_own_caller_alone(desk):
    desk.occupy()
    asked = [desk.ask(value) for value in ("a", "b", "bad", "c", "d", "e")]
    desk.go.set()
    for request, (answer,) in asked:
        if answer == "bad" or request is asked[2][0]:
            with pytest.raises(ValueError, match="a bad row"):
                result(request)
        else:
            result(request)
    assert [answers for _, answers in asked] == [["a"], ["b"], [None], ["c"], ["d"], ["e"]]


def test_the_first_error_ends_a_request_whatever_else_it_has(desk):
    desk.occupy()
    request, _ = desk.ask("bad", *range(50), share=1.0)
    desk.go.set()
    with pytest.raises(ValueError, match="a bad row"):
        result(request)
    result(desk.ask("next")[0])
    assert desk.batches[1:] == [["bad"], ["next"]]


def test_a_batch_that_forgets_a_row_is_a_fault():
    scheduler = Scheduler(threads=1)
    request = scheduler.admit()
    request.begin([Row(lambda batch: None, "k", None)])
    with pytest.raises(AssertionError, match="1 rows of a batch were left without an answer"):
        result(request)


def test_a_caller_has_its_answer_before_its_neighbours_are_done():
    neighbour = threading.Event()

    def run(batch):
        batch.put(0)
        assert neighbour.wait(WAIT_S)
        batch.put(1)

    scheduler, hold = Scheduler(threads=1), threading.Event()
    scheduler.admit().begin([Row(lambda batch: (hold.wait(WAIT_S), batch.put(0)), "hold", None)])
    quick, slow = scheduler.admit(), scheduler.admit()
    for request in (quick, slow):
        request.begin([Row(run, "k", None, 0.1)])
    hold.set()
    result(quick)
    assert not slow.done.done()
    neighbour.set()
    result(slow)


def test_a_batch_that_hangs_is_given_up_and_its_thread_replaced():
    """Even code that never looks up must not hold the only thread for good."""
    hang = threading.Event()
    scheduler = Scheduler(threads=1, limits=QueueLimits(max_batch_s=0.1))
    request = scheduler.admit()
    request.begin([Row(lambda batch: hang.wait(WAIT_S), "k", None)])
    with pytest.raises(BatchTimeError, match=r"took longer than 0.1 s"):
        result(request)
    after = scheduler.admit()
    after.begin([Row(lambda batch: batch.put(0), "k", None)])
    result(after)
    assert not hang.is_set()
    hang.set()


def test_a_batch_that_looks_up_stops_when_it_takes_too_long():
    stopped = threading.Event()

    def run(batch):
        try:
            while True:
                batch.given_up()
        except StoppedError:
            stopped.set()
            raise

    scheduler = Scheduler(threads=1, limits=QueueLimits(max_batch_s=0.1))
    request = scheduler.admit()
    request.begin([Row(run, "k", None)])
    with pytest.raises(BatchTimeError):
        result(request)
    assert stopped.wait(WAIT_S)


def test_limits_are_checked():
    with pytest.raises(OptionError, match="max_requests is 0") as caught:
        QueueLimits(max_requests=0, max_bytes=-1)
    assert len(caught.value.problems) == 2
