"""Pairs of lines must stay pairs: a shifted file would score every sentence with another's."""

import io
import json
import os
import threading

import pytest

from foretell.data.errors import ForetellError, OptionError, TextError
from foretell.jobs.lines.score import ScoreJob, run_score_job


@pytest.fixture
def score(tmp_path, backwards):
    def run(english, german, *, model=None, **options):
        (tmp_path / "a.en").write_bytes(english if isinstance(english, bytes) else english.encode())
        (tmp_path / "a.de").write_text(german)
        values = {
            "src": str(tmp_path / "a.en"),
            "tgt": str(tmp_path / "a.de"),
            "output": tmp_path / "out.txt",
        }
        return run_score_job(ScoreJob(**(values | options)), (model or backwards()).door)

    return run


def test_a_number_for_each_pair(score, tmp_path):
    done, where = score("x\ny\nz", "a b\n\nc\n")
    assert (tmp_path / "out.txt").read_text() == "-3.000000\n-1.000000\n-2.000000\n"
    assert (done.num_lines, done.num_refused, where) == (3, 0, "Backwards")


def test_refused_pairs_are_left_empty_on_either_side(score, tmp_path):
    done, _ = score(b"x\n\xff\nz\n", "a\nb\n?\n")
    assert (tmp_path / "out.txt").read_text() == "-2.000000\n\n\n"
    assert [line.number for line in done.refused] == [2, 3]
    assert "source: byte 1 is 0xff" in done.refused[0].reason


def test_json_lines_hold_everything(score, tmp_path):
    score("x\ny\n", "a b\n?\n", form="jsonl")
    first, second = map(json.loads, (tmp_path / "out.txt").read_text().splitlines())
    assert first == {
        "line": 1,
        "source": "x",
        "target": "a b",
        "log_prob": -3.0,
        "score": -1.0,
        "tokens": ["a", "b"],
        "token_log_probs": [-1.0, -1.0, -1.0],
    }
    assert second["refused"] == "the target is too long."


def test_different_numbers_of_lines_are_told_before_a_model_is_asked(score, tmp_path, backwards):
    model = backwards()
    with pytest.raises(ForetellError, match=r"a\.en has 3 lines, .*a\.de has 2 lines\."):
        score("x\ny\nz\n", "a\nb\n", model=model)
    assert model.asked == []
    assert not (tmp_path / "out.txt").exists()


@pytest.fixture
def pipe(tmp_path):
    """Make a pipe that gives a text once, as `<(...)` does."""

    def make(name, text):
        path = tmp_path / name
        os.mkfifo(path)
        threading.Thread(target=path.write_text, args=(text,), daemon=True).start()
        return str(path)

    return make


def test_pipes_are_counted_while_they_are_read(score, tmp_path, pipe):
    """Counting them first would drain them, and score nothing without a word."""
    done, _ = score("", "", src=pipe("src", "x\ny\n"), tgt=pipe("tgt", "a b\nc\n"))
    assert done.num_lines == 2
    assert (tmp_path / "out.txt").read_text() == "-3.000000\n-2.000000\n"
    with pytest.raises(ForetellError, match=r"short has 1 line, .*long has 2 lines\."):
        score(
            *("", ""),
            src=pipe("short", "x\n"),
            tgt=pipe("long", "a\nb\n"),
            output=tmp_path / "other.txt",
        )
    assert not (tmp_path / "other.txt").exists()


def test_one_pipe_is_not_two_texts(score, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    name = str(tmp_path / "pipe")
    with pytest.raises(OptionError, match="which can be read only once"):
        score("", "", src=name, tgt=name)


def test_all_that_is_missing_is_named(score):
    with pytest.raises(TextError, match=r"no\.en can't be read[^\0]*no\.de can't be read"):
        score("", "", src="no.en", tgt="no.de")


def test_a_short_standard_input_is_told_too(score, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
    with pytest.raises(ForetellError, match=r"standard input has 1 line, .*a\.de has 2 lines\."):
        score("", "a\nb\n", src="-")
    assert not (tmp_path / "out.txt").exists()


def test_standard_input_is_read_once(score):
    with pytest.raises(OptionError, match="can't both be -"):
        score("", "", src="-", tgt="-")
