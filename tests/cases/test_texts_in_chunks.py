"""HB01 to HB04, HB06 and HB07 as files through `foretell translate`, a few lines at a time.

A chunk ends wherever it likes: behind a blank line, between two spellings of a word, before a line
that is refused. No byte may hang on that, and what is right of the text alone is right of its file.
"""

import json
from pathlib import Path
from tempfile import mkdtemp

import pytest

from foretell.data.text.lines import read_lines
from foretell.data.text.translation import TranslateOptions
from foretell.runtime import load_translator

CASES = Path(__file__).parent
LONG = " ".join(f"Item {i} is on the shelf." for i in range(600))
CHUNKS = (1, 3)


@pytest.fixture(scope="module", params=["translator_bundle_path", "recurrent_bundle_path"])
def bundle(request):
    """A Transformer, and a recurrent model."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def known():
    """What was translated before, by bundle, text and options."""
    return {}


@pytest.fixture
def translate(foretell, bundle, tmp_path, known):
    """By the command, in chunks of each size: the hypotheses of each line, and the exit code."""

    def run(content, *more):
        if (bundle, content, more) not in known:
            known[bundle, content, more] = run_anew(content, *more)
        return known[bundle, content, more]

    def run_anew(content, *more):
        folder, found = Path(mkdtemp(dir=tmp_path)), set()
        source = folder / "in.txt"
        source.write_bytes(content)
        for size in CHUNKS:
            output = folder / f"out{size}.jsonl"
            options = ["--chunk-lines", size, "--beam-size", 2, "--format", "jsonl", *more]
            ended = foretell("translate", source, "--model", bundle, "--output", output, *options)
            side = output.with_name(f"{output.name}.refused.csv")
            refused = side.read_bytes() if side.exists() else None
            found.add((ended.code, output.read_bytes(), refused))
        assert len(found) == 1, "chunks change what comes out"
        ((code, written, _),) = found
        return [json.loads(line) for line in written.splitlines()], code

    return run


def best(line):
    return line["hypotheses"][0]["text"]


@pytest.mark.parametrize("name", ["HB01", "HB02", "HB03", "HB04", "HB06"])
def test_a_file_is_translated_as_its_lines_in_one_piece(translate, bundle, name):
    """Texts and scores, to the last bit, those of a loaded model that gets all lines at once."""
    found, code = translate((CASES / f"{name}.txt").read_bytes(), "--truncate")
    texts = list(read_lines(CASES / f"{name}.txt"))
    translator = load_translator(bundle, device="cpu", threads=1)
    answers = translator.translate(texts, TranslateOptions(beam_size=2, truncate_source=True))
    assert code == 0
    assert [line["line"] for line in found] == list(range(1, len(texts) + 1))
    assert [(best(line), line["hypotheses"][0]["score"]) for line in found] == [
        (answer.text, answer.hypotheses[0].score) for answer in answers
    ]
    for line in found:  # no sign in them that a reader takes for the end of a line
        assert len(best(line).splitlines()) <= 1


def test_hb01_blank_lines_stay_in_their_places(translate):
    found, _ = translate((CASES / "HB01.txt").read_bytes(), "--truncate")
    assert [n for n, line in enumerate(found, 1) if not best(line)] == [2, 3, 4, 7, 8]
    assert best(found[4]) == "-"


def test_hb02_a_mark_at_the_start_and_line_ends_are_no_text(translate):
    found, _ = translate((CASES / "HB02.txt").read_bytes(), "--truncate")
    (plain,), _ = translate(b"First line\n")
    assert found[0]["hypotheses"] == plain["hypotheses"]
    assert len(found) == 6


def test_hb06_spellings_of_one_word_on_both_sides_of_a_cut(translate):
    found, _ = translate((CASES / "HB06.txt").read_bytes(), "--truncate")
    for composed, decomposed in zip(found[0:10:2], found[1:10:2], strict=True):
        assert composed["hypotheses"] == decomposed["hypotheses"]
    for entity in ("&amp;", "&lt;", "&quot;", "&apos;", "&#39;"):
        assert entity not in best(found[10])


def test_hb07_a_line_that_is_too_long_is_refused_alone(translate):
    found, code = translate(f"seven\n{LONG}\ntwelve\n".encode())
    alone = [translate(text)[0][0]["hypotheses"] for text in (b"seven\n", b"twelve\n")]
    assert code == 3
    assert [found[0]["hypotheses"], found[2]["hypotheses"]] == alone
    assert "at most 40" in found[1]["refused"]
