"""Many callers at once: whoever comes, leaves and fails, nobody gets a row of another, or none."""

import threading
from concurrent.futures import CancelledError

from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.runtime.queues.scheduler import Scheduler
from foretell.runtime.queues.work import Row

WAIT_S = 20.0
# A caller's requests: the key, the number of rows, and whether it leaves.
CALLERS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.sampled_from([False, False, True])),
        max_size=6,
    ),
    min_size=1,
    max_size=6,
)


class House:
    """Runs the batches of a scheduler, and notes what went wrong."""

    def __init__(self, threads):
        self.scheduler = Scheduler(threads=threads)
        self.failures = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def run(self, batch):
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            for place, (answers, at, value, is_bad) in enumerate(batch.tasks):
                batch.given_up()
                if is_bad:
                    raise ValueError("bad")
                assert answers[at] in {None, value}
                answers[at] = value
                batch.put(place)
        finally:
            with self._lock:
                self._at_once -= 1

    def call(self, number, requests):
        """Ask as one caller, request after request; some hold a bad row."""
        for key, count, leaves in requests:
            request, answers = self.scheduler.admit(size_bytes=7), [None] * count
            is_bad = key == 2 and count == 5
            expected = [(number, key, at) for at in range(count)]
            tasks = [(answers, at, value, is_bad and at == 3) for at, value in enumerate(expected)]
            request.begin([Row(self.run, key, task, 0.2) for task in tasks])
            if leaves:
                request.cancel()
            try:
                request.done.result(WAIT_S)
                is_right = answers == expected and not is_bad
            except ValueError:
                is_right = is_bad
            except CancelledError:
                is_right = leaves
            if not is_right:
                self.failures.append((number, key, count, answers))


@settings(max_examples=15)
@given(CALLERS, st.integers(1, 3))
def test_every_row_returns_to_its_own_caller(callers, threads):
    house = House(threads)
    asking = [threading.Thread(target=house.call, args=item) for item in enumerate(callers)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(WAIT_S)
    assert not house.failures
    scheduler = house.scheduler
    assert scheduler.close(WAIT_S)
    assert (scheduler.num_waiting, scheduler._bytes, scheduler.num_running) == (0, 0, 0)
    assert len(scheduler._queue) == 0
    assert house.most_at_once <= threads
