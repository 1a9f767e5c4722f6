"""Work on many items at a time, in bounded memory, with the results in the items' order."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_LONGEST_WAIT_S = 0.5


class _Task(Generic[T, R]):
    """An item that is computed, and what became of it."""

    def __init__(self, item: T) -> None:
        self.item = item
        self._is_over = threading.Event()
        self._result: R
        self._error: BaseException | None = None

    def do(self, compute: Callable[[T], R]) -> None:
        try:
            self._result = compute(self.item)
        except BaseException as error:  # belongs to whoever waits for the result
            self._error = error
        self._is_over.set()

    def result(self) -> R:
        # A signal in the moment in which the waiting begins is seen when that ends, not before.
        while not self._is_over.wait(_LONGEST_WAIT_S):
            pass
        if self._error is not None:
            raise self._error
        return self._result


def run_pipeline(
    items: Iterable[T],
    compute: Callable[[T], R],
    *,
    in_flight: int,
    stop: Callable[[], None] | None = None,
) -> Generator[R, None, None]:
    """Compute items in threads of their own; yield the results in the items' order.

    The caller's thread takes the items and does with the results what it wants, while the others
    compute: with two in flight, one item is read and an earlier one written while a third is being
    computed. No more than `in_flight` items are held, and no item is taken before there is room.

    Where taking or computing an item fails, the results of all items before it come first, so that
    a journal keeps them; then the error is raised, and nothing is taken or begun after it.

    Args:
        items: What to compute; taken in the caller's thread, which Ctrl-C can interrupt there.
        compute: Computes one; called in several threads at once.
        in_flight: Items that are computed at a time, at least 1.
        stop: Called once when something has failed, or the caller leaves before the end: has what
            is being computed end soon. The generator waits for that; nothing goes on behind it.

    Returns:
        A generator; close it (`contextlib.closing`) in case the block that takes from it fails.

    Raises:
        ValueError: `in_flight` is below 1.
    """
    if in_flight < 1:
        raise ValueError(f"in_flight is {in_flight}; it must be at least 1.")
    return _run(items, compute, in_flight, stop)


def _run(
    items: Iterable[T],
    compute: Callable[[T], R],
    in_flight: int,
    stop: Callable[[], None] | None,
) -> Generator[R, None, None]:
    waiting: queue.SimpleQueue[_Task[T, R] | None] = queue.SimpleQueue()
    # No executor: Python waits at its end for the threads of those, whatever they do.
    threads = [
        threading.Thread(target=_work, args=(waiting, compute), name="foretell-job", daemon=True)
        for _ in range(in_flight)
    ]
    for thread in threads:
        thread.start()
    is_over = False
    try:
        yield from _in_order(items, waiting, in_flight)
        is_over = True
    finally:
        _empty(waiting)
        if stop is not None and not is_over:
            stop()
        for _ in threads:
            waiting.put(None)
        for thread in threads:
            thread.join()


def _in_order(
    items: Iterable[T], waiting: "queue.SimpleQueue[_Task[T, R] | None]", in_flight: int
) -> Iterator[R]:
    """Keep as many on their way as may be, and hand out the first."""
    tasks: deque[_Task[T, R]] = deque()
    source, failed, is_read = iter(items), None, False
    while tasks or not is_read:
        while not is_read and len(tasks) < in_flight:
            try:
                task = _Task[T, R](next(source))
            except StopIteration:
                is_read = True
            except Exception as error:  # raised below, when its turn has come
                is_read, failed = True, error
            else:
                tasks.append(task)
                waiting.put(task)
        if tasks:
            yield tasks.popleft().result()
    if failed is not None:
        raise failed


def _work(waiting: "queue.SimpleQueue[_Task[T, R] | None]", compute: Callable[[T], R]) -> None:
    while (task := waiting.get()) is not None:
        task.do(compute)


def _empty(waiting: "queue.SimpleQueue[_Task[T, R] | None]") -> None:
    """Forget what no thread has begun."""
    try:
        while True:
            waiting.get_nowait()
    except queue.Empty:
        return
