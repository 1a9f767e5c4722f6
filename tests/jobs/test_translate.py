"""One line in, one line out: whatever a line holds, and whatever becomes of it."""

import gzip
import io
import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import ForetellError, OptionError, TextError
from foretell.data.text.translation import (
    Hypothesis,
    RefusedSentencesError,
    SentenceRefusal,
    TranslateOptions,
    Translation,
)
from foretell.jobs.lines.translate import TranslateJob, run_translate_job

HB01 = "Good morning.\n\n   \n\t\n-\nThe shop opens at nine.\n\n\n"
HB02 = (
    b"\xef\xbb\xbfFirst line\r\nA line\xe2\x80\xa8with a line separator\r\n"
    b"One\x0btwo\x0cthree\xc2\x85four\nTab\there\n\x1cGroup mark\nEnd without newline"
)
LONG = "word " * 11
BLANK = Hypothesis(text="")


@pytest.fixture
def run(tmp_path, backwards):
    """Write a text, run a job on it, and return the result."""

    def run_one(text, *, output="out.txt", model=None, **options):
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "in.txt").write_bytes(content)
        values = {"source": str(tmp_path / "in.txt"), "output": output and tmp_path / output}
        return run_translate_job(TranslateJob(**(values | options)), (model or backwards()).door)

    return run_one


@pytest.fixture
def translate(run, tmp_path):
    """The lines that come out; every one of them ends with LF."""

    def lines(text, **options):
        run(text, **options)
        written = (tmp_path / "out.txt").read_bytes().decode()
        assert written == "" or written.endswith("\n")
        return written.split("\n")[:-1]

    return lines


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_blank_lines_stay_and_what_has_no_words_is_not_translated(translate):
    """HB01: an empty line that vanishes shifts all lines behind it."""
    lines = translate(HB01)
    assert lines == ["morning. Good", "", "", "", "-", "nine. at opens shop The", "", ""]


def test_only_line_feeds_end_lines(translate):
    """HB02: U+2028 and its kin are text; no reader may find more lines than there were."""
    lines = translate(HB02)
    assert len(lines) == 6
    assert lines[0] == "line First"
    assert lines[5] == "newline without End"
    assert all(len(line.splitlines()) == 1 for line in lines)
    assert translate("First line\n", overwrite=True) == lines[:1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("\n", [""]), ("a b", ["b a"]), ("a b\n", ["b a"]), ("\n\na b", ["", "", "b a"])],
    ids=["empty", "one blank line", "no newline", "newline", "blank lines before"],
)
def test_small_files(translate, text, expected):
    assert translate(text) == expected


def test_ten_thousand_lines_keep_their_order_in_every_chunking(translate):
    text = "".join(f"line {i}\n" for i in range(10_000))
    expected = [f"{i} line" for i in range(10_000)]
    assert translate(text) == expected
    assert translate(text, chunk_lines=7, overwrite=True) == expected


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)))))
def test_any_text_gives_as_many_lines(tmp_path_factory, backwards, lines):
    folder = tmp_path_factory.mktemp("any")
    lines = ["a b", *lines]
    (folder / "in.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
    job = TranslateJob(source=str(folder / "in.txt"), output=folder / "out.txt", chunk_lines=2)
    result = run_translate_job(job, backwards().door)
    written = (folder / "out.txt").read_bytes().decode()
    assert result.done.num_lines == len(lines)
    assert len(written.splitlines()) == written.count("\n") == len(lines)


def test_too_long_lines_are_left_empty_with_their_reasons_in_a_file(run, tmp_path):
    result = run(f"a b\n{LONG}\nc d\n{LONG}{LONG}\n")
    assert (tmp_path / "out.txt").read_text() == "b a\n\nd c\n\n"
    assert (tmp_path / "out.txt.refused.csv").read_text() == (
        "line,reason\n"
        "2,it has 11 words; the model reads 10.\n"
        "4,it has 22 words; the model reads 10.\n"
    )
    assert (result.done.num_lines, result.done.num_refused, result.where) == (4, 2, "Backwards")
    assert [str(line) for line in result.done.refused] == [
        "line 2: it has 11 words; the model reads 10.",
        "line 4: it has 22 words; the model reads 10.",
    ]


def test_lines_that_are_no_utf8_are_refused_and_the_others_answered(run, tmp_path, backwards):
    model = backwards()
    result = run(b"a b\ncaf\xe9\nc d\n", model=model)
    assert (tmp_path / "out.txt").read_text() == "b a\n\nd c\n"
    assert "line 2: byte 4 is 0xe9" in str(result.done.refused[0])
    assert model.asked[0][0] == ["a b", "", "c d"]


def test_line_numbers_go_on_over_chunks(run):
    result = run(f"a\nb\n{LONG}\nc\n{LONG}\n", chunk_lines=2)
    assert [line.number for line in result.done.refused] == [3, 5]


def test_truncated_lines_are_cut_and_named(run, tmp_path):
    options = TranslateOptions(truncate_source=True)
    result = run(f"a b\n{LONG}\n", options=options)
    assert (tmp_path / "out.txt").read_text() == "b a\n" + " ".join(["word"] * 10) + "\n"
    done = result.done
    assert (done.num_truncated, done.truncated, done.num_refused) == (1, (2,), 0)
    assert files(tmp_path) == ["in.txt", "out.txt"]


def test_where_all_are_refused_the_old_answers_stay(run, tmp_path):
    (tmp_path / "out.txt").write_text("old")
    result = run(f"{LONG}\n{LONG}\n", overwrite=True)
    assert (result.done.num_lines, result.done.num_refused) == (2, 2)
    assert (tmp_path / "out.txt").read_text() == "old"
    assert files(tmp_path) == ["in.txt", "out.txt", "out.txt.refused.csv"]


def test_a_later_success_removes_the_stale_side_file(run, tmp_path):
    run(f"a\n{LONG}\n")
    run("a\n", overwrite=True)
    assert files(tmp_path) == ["in.txt", "out.txt"]


def test_many_refusals_stay_out_of_memory(run, tmp_path):
    """A file of millions of bad lines must not end in a list of as many reasons."""
    result = run("a\n" + f"{LONG}\n" * 300)
    assert result.done.num_refused == 300
    assert len(result.done.refused) == 20
    assert len((tmp_path / "out.txt.refused.csv").read_text().splitlines()) == 301


def test_a_failing_door_leaves_the_old_bytes_and_what_is_done_to_go_on_with(
    run, tmp_path, backwards
):
    class Failing(backwards):
        def translate(self, sentences, options, *, first_place=0):
            if sentences == ["c"]:
                raise ForetellError("the server went away")
            return super().translate(sentences, options)

    (tmp_path / "out.txt").write_text("old")
    (tmp_path / "out.txt.refused.csv").write_text("old reasons")
    with pytest.raises(ForetellError, match="went away"):
        run(f"{LONG}\nb\nc\n", chunk_lines=1, overwrite=True, model=Failing())
    assert files(tmp_path) == [".out.txt.foretell-job", "in.txt", "out.txt", "out.txt.refused.csv"]
    assert (tmp_path / "out.txt").read_text() == "old"
    assert (tmp_path / "out.txt.refused.csv").read_text() == "old reasons"
    model = backwards()
    result = run(f"{LONG}\nb\nc\n", chunk_lines=1, resume=True, model=model)
    assert model.asked == [(["c"], [TranslateOptions()])]
    assert (tmp_path / "out.txt").read_text() == "\nb\nc\n"
    assert (result.done.num_lines, result.done.num_refused) == (3, 1)
    assert [line.number for line in result.done.refused] == [1]


def test_n_best_and_scores_stand_in_one_line_with_tabs(translate):
    options = TranslateOptions(n_best=3, beam_size=3)
    assert translate("a b\n\n", options=options) == ["b a\tb a 1\tb a 2", ""]
    lines = translate("a b\n", options=options, scores=True, overwrite=True)
    assert lines == ["-0.500000\tb a\t-1.500000\tb a 1\t-2.500000\tb a 2"]


def test_text_that_is_handed_on_brings_no_tab_and_no_line_end(translate):
    """A lone separator is no sentence; as a column of its own it would shift all others."""
    assert translate("-\t-\n\u2028.\u2028.\n", scores=True) == ["0.000000\t- -", "0.000000\t. ."]


def test_json_lines_hold_everything(translate):
    options = TranslateOptions(n_best=2, beam_size=2, attention=True)
    with pytest.raises(OptionError, match="no place for attention; give --format jsonl"):
        translate("a", options=options)
    lines = translate(f"a\u2028b\n\n-\n{LONG}\n", options=options, form="jsonl")
    assert all(len(line.splitlines()) == 1 for line in lines)
    first, blank, dash, refused = map(json.loads, lines)
    assert (first["line"], first["source"]) == (1, "a\u2028b")
    assert first["source_tokens"] == ["\u2581a", "\u2581b"]
    best, second = first["hypotheses"]
    assert best == {
        "text": "b a",
        "score": -0.5,
        "log_prob": -1.5,
        "finish_reason": "eos",
        "tokens": ["\u2581b", "\u2581a"],
        "token_log_probs": [-0.5, -0.5, -0.5],
        "attention": [[0.0, 1.0], [1.0, 0.0]],
    }
    assert second["text"] == "b a 1"
    assert (blank["hypotheses"][0]["text"], dash["copied"]) == ("", True)
    assert refused == {
        "line": 4,
        "source": LONG,
        "refused": "it has 11 words; the model reads 10.",
    }


def test_draws_the_attention_of_the_first_sentences_that_hold_words(run, tmp_path, backwards):
    model = backwards()
    text = "\na b\n-\nc d\ne f\ng h\ni j\n"
    run(text, plot=tmp_path / "out.png", chunk_lines=4, model=model)
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    drawn = [texts for texts, options in model.asked if options[0].attention]
    assert drawn == [["a b"], ["c d"], ["e f"], ["g h"]]


def test_a_model_without_attention_is_told_before_the_work(run, tmp_path, backwards):
    model = backwards(has_attention=False)
    with pytest.raises(ForetellError, match="the model has no attention"):
        run("a b\n", plot=tmp_path / "out.png", model=model)
    assert model.asked == []


def test_nothing_to_draw_leaves_the_answers(run, tmp_path):
    """They are computed and complete; failing then would deny that."""
    result = run("\n-\n", plot=tmp_path / "out.png")
    assert (result.num_drawn, result.done.num_lines) == (0, 2)
    assert files(tmp_path) == ["in.txt", "out.txt"]


def test_a_refused_sentence_takes_no_place_in_the_picture(run, tmp_path):
    result = run(f"{LONG}\na b\n", plot=tmp_path / "out.png", chunk_lines=1)
    assert result.num_drawn == 1


@pytest.mark.parametrize("chunk_lines", [1, 2, 3, 1024])
def test_a_line_keeps_its_place_in_the_file(run, backwards, chunk_lines):
    """What sampling draws depends on the place: however a file is cut, and whatever is refused."""
    model = backwards()
    run(b"a\n\xff\n\nb\nc\n", chunk_lines=chunk_lines, model=model)
    calls = zip(model.asked, model.places, strict=True)
    places = {
        text: first + at for (texts, _), first in calls for at, text in enumerate(texts) if text
    }
    assert places == {"a": 0, "b": 3, "c": 4}


def test_a_pipe_is_read_once_from_its_start(tmp_path, backwards):
    """Opened and closed again to see whether it is there, it would block, or lose its text."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a b\nc\n",), daemon=True)
    writer.start()
    job = TranslateJob(source=str(pipe), output=tmp_path / "out.txt")
    run_translate_job(job, backwards().door)
    assert (tmp_path / "out.txt").read_text() == "b a\nc\n"


def test_a_name_that_ends_in_gz_is_packed(run, tmp_path):
    for _ in range(2):
        run("a b\n\n", output="out.txt.gz", overwrite=True)
        packed = (tmp_path / "out.txt.gz").read_bytes()
        assert gzip.decompress(packed) == b"b a\n\n"
    assert packed[4:8] == bytes(4)  # no time: the same text gives the same bytes


def test_the_words_of_side_file_and_json_are_those_of_the_command(run, tmp_path, backwards):
    class Refusing(backwards):
        def translate(self, sentences, options, *, first_place=0):
            reason = "min_length is 9, above 5; let it be cut (truncate_source)."
            raise RefusedSentencesError(
                [SentenceRefusal(0, reason)], [None, Translation(hypotheses=(BLANK,))]
            )

    run("a\nb\n", form="jsonl", model=Refusing())
    told = "--min-length is 9, above 5; let it be cut (--truncate)."
    assert json.loads((tmp_path / "out.txt").read_text().splitlines()[0])["refused"] == told
    assert told in (tmp_path / "out.txt.refused.csv").read_text()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": "nowhere.txt"}, TextError, "No such file"),
        ({"source": "."}, TextError, "directory"),
        ({"form": "xml"}, OptionError, "it must be text or jsonl"),
        ({"output": "no/out.txt"}, ForetellError, "doesn't exist; make it first"),
        ({"output": "in.txt", "overwrite": True}, ForetellError, "is also read"),
        ({"output": "x" * 240}, ForetellError, "the name has 240 bytes; give a shorter one"),
        ({"output": "."}, ForetellError, "is no regular file"),
    ],
    ids=["no such file", "folder", "unknown format", "no such folder", "input", "long", "here"],
)
def test_refusals_before_a_model_is_asked(run, tmp_path, backwards, options, error, message):
    model = backwards()
    with pytest.raises(error, match=message):
        run("a b\n", model=model, **options)
    assert model.asked == []
    assert files(tmp_path) == ["in.txt"]


def test_an_existing_output_needs_overwrite(run, tmp_path):
    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(ForetellError, match=r"out\.txt exists; give --overwrite"):
        run("a b\n")
    assert (tmp_path / "out.txt").read_text() == "old"


def test_through_a_pipe_an_answer_comes_before_the_input_ends(backwards, monkeypatch):
    """Who types a sentence, or asks over a pipe, waits for the answer before the next one."""
    (stdin, ask), (answers, stdout) = os.pipe(), os.pipe()
    with (
        io.TextIOWrapper(os.fdopen(stdin, "rb")) as source,
        io.TextIOWrapper(os.fdopen(stdout, "wb")) as target,
        os.fdopen(answers, "rb") as answered,
    ):
        monkeypatch.setattr("sys.stdin", source)
        monkeypatch.setattr("sys.stdout", target)
        job, door = TranslateJob(source="-"), backwards().door
        work = threading.Thread(target=run_translate_job, args=(job, door), daemon=True)
        work.start()
        for question, expected in ((b"a b\n", [b"b a\n"]), (b"c\nd e\n", [b"c\n", b"e d\n"])):
            os.write(ask, question)
            assert [answered.readline() for _ in expected] == expected
        os.write(ask, b"f g")
        os.close(ask)
        assert answered.readline() == b"g f\n"
        work.join()
