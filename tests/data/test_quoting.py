"""What callers call things stands in our messages: short, on one line, and as they wrote it."""

from foretell.data.quoting import quoted


def test_a_name_that_fits_stands_as_it_is():
    assert quoted("sales") == "'sales'"
    assert quoted("a" * 128) == f"'{'a' * 128}'"


def test_a_long_one_is_cut_where_it_shows():
    assert quoted("a" * 10**6) == f"'{'a' * 128}...'"


def test_a_message_stays_one_line_whatever_the_name_holds():
    """Else a name could write lines of its own into a log."""
    assert quoted("a\nERROR b\r\x1b[2J\u2028") == r"'a\nERROR b\r\x1b[2J\u2028'"
