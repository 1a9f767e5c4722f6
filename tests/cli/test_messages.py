"""A cure must be named in the words of whoever reads it."""

import dataclasses

import pytest

from foretell.cli.messages import by_stage
from foretell.data.text.translation import TranslateOptions
from foretell.jobs.amounts import counted
from foretell.jobs.lines.option_names import as_options, problem_as_options


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


@pytest.mark.parametrize(
    ("library", "shell"),
    [
        (
            "n_best is 3, but beam_size is 2; raise beam_size.",
            "--n-best is 3, but --beam-size is 2; raise --beam-size.",
        ),
        ("steps is 0.\nbanned is 'x'.", "--steps is 0.\n--ban is 'x'."),
        ("min_length is 3, above max_length 2.", "--min-length is 3, above --max-length 2."),
        ("prefix is 'it is d_model'; the steps", "--prefix is 'it is d_model'; the steps"),
        (
            "runs/d_model and top_k.txt don't say 'top_k'",
            "runs/d_model and top_k.txt don't say 'top_k'",
        ),
        ("let it be cut (truncate_source).", "let it be cut (--truncate)."),
        ("--top-k is none", "--top-k is none"),
        ("seed: 1 then, 2 now.\nit: 1 then", "--seed: 1 then, 2 now.\nit: 1 then"),
        ("input_feeding: False then, True now.", "--no-input-feeding: given then, not given now."),
        ("frequency: D then, h now.", "--freq: D then, h now."),
        (
            "unique_id: a then, b now.\ny: y then, z now.",
            "--id-col: a then, b now.\n--target-col: y then, z now.",
        ),
    ],
)
def test_what_is_said_of_options_names_them_as_typed(library, shell):
    assert problem_as_options(library) == shell


def test_every_field_of_a_search_has_a_name_that_can_be_typed(foretell):
    """A message must not name what nobody can give."""
    usage = foretell("translate", "--help").out
    for field in dataclasses.fields(TranslateOptions):
        option = problem_as_options(f"{field.name} is 0")
        assert option.startswith("--")
        assert f"{option.split()[0]} " in usage


def test_a_stage_is_told_at_once_and_its_progress_now_and_then():
    told = []
    tell = by_stage(told.append)
    for text in ("1 of 2: a", "1 of 2: b", "2 of 2: case 1", "2 of 2: case 2"):
        tell(text)
    assert told == ["1 of 2: a", "2 of 2: case 1"]


@pytest.mark.parametrize(("number", "text"), [(0, "0 lines"), (1, "1 line"), (2000, "2,000 lines")])
def test_one_is_no_plural(number, text):
    assert counted(number, "line") == text
