"""A cure must be named in the words of whoever reads it."""

import pytest

from foretell.cli.messages import as_options


@pytest.mark.parametrize(
    ("library", "shell"),
    [
        ("give the frequency (freq).", "give the frequency (--freq)."),
        ("name the columns (id_col, time_col), or", "name the columns (--id-col, --time-col), or"),
        ("allow it (allow_other_frequency)", "allow it (--allow-other-frequency)"),
        ("let it be cut (truncate_source).", "let it be cut (--truncate)."),
        ("a series (really) named id_col (no, freq)", "a series (really) named id_col (no, freq)"),
    ],
)
def test_arguments_are_named_as_options(library, shell):
    assert as_options(library) == shell
