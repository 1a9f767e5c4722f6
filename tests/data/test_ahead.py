"""Pieces made ahead are the same pieces, and whoever leaves early leaves no thread behind."""

import threading

import pytest

from foretell.data.tables.ahead import ahead


def test_pieces_come_in_order_none_missing():
    assert list(ahead(iter(range(100)))) == list(range(100))
    assert list(ahead([])) == []


def test_one_piece_is_made_while_another_is_looked_at():
    begun = threading.Semaphore(0)

    def pieces():
        for number in range(3):
            begun.release()
            yield number

    found = ahead(pieces())
    assert next(found) == 0
    assert begun.acquire(timeout=60)
    assert begun.acquire(timeout=60), "the second is being made, though nobody has asked for it"
    assert not begun.acquire(blocking=False), "but not the third, or memory would have no bound"
    assert list(found) == [1, 2]


def test_an_error_comes_behind_what_was_made_before_it():
    def pieces():
        yield 1
        yield 2
        raise ValueError("broken")

    found = ahead(pieces())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(found)


def test_whoever_leaves_early_leaves_no_thread_behind():
    before = threading.active_count()
    found = ahead(iter(range(1000)))
    assert next(found) == 0
    found.close()
    assert threading.active_count() == before
