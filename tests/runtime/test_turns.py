"""Turns: one thread at a time, given up while a graph runs, and nobody waits for ever."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from foretell.runtime.queues.turns import in_my_place, in_turn, out_of_turn

WAIT_S = 60.0


def test_one_at_a_time_and_all_come_to_their_turn():
    inside, most, lock = 0, 0, threading.Lock()

    def work(number):
        nonlocal inside, most
        for _ in range(20):
            with in_turn():
                with lock:
                    inside += 1
                    most = max(most, inside)
                sum(range(200))
                with lock:
                    inside -= 1
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
    assert most == 1


def test_others_have_their_turn_while_a_graph_runs():
    both = threading.Barrier(2)

    def work():
        with in_turn(), out_of_turn():
            both.wait(WAIT_S)  # would break if only one could be here

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work) for _ in range(2)]:
            future.result(WAIT_S)


def test_who_waits_for_something_in_his_turn_holds_up_nobody():
    """A model that waits must not stop all others of the process."""
    go, begun = threading.Event(), threading.Event()

    def wait():
        with in_turn():
            begun.set()
            return go.wait(WAIT_S)

    def pass_by():
        with in_turn(), out_of_turn():
            go.set()

    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(wait)
        assert begun.wait(WAIT_S)
        pool.submit(pass_by).result(WAIT_S)
        assert waiting.result(WAIT_S)


def test_an_error_ends_a_turn():
    def fail():
        with pytest.raises(ZeroDivisionError), in_turn(), out_of_turn():
            raise ZeroDivisionError

    fail()
    done = threading.Event()

    def work():
        with in_turn():
            done.set()

    threading.Thread(target=work).start()
    assert done.wait(WAIT_S)


def test_threads_that_work_for_one_in_turn_take_turns_too():
    """Else a stream's steps, which run in other threads, would be beside all turns."""
    with ThreadPoolExecutor(1) as pool, in_turn():
        work = in_my_place(lambda done: done.set())
        done = threading.Event()
        with out_of_turn():
            list(pool.map(work, [done]))
        assert done.is_set()
    plain = print
    assert in_my_place(plain) is plain


def test_a_child_forked_in_anothers_turn_begins_anew():
    go, begun = threading.Event(), threading.Event()

    def hold():
        with in_turn():
            begun.set()
            go.wait(WAIT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert begun.wait(WAIT_S)
    child = os.fork()
    if child == 0:
        with in_turn(), out_of_turn():
            os._exit(7)
    _, status = os.waitpid(child, 0)
    go.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 7
