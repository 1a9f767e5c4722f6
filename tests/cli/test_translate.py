"""`foretell translate` and `foretell score`: the contract of a command over lines (HB01, HB02)."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foretell.data.text.translation import RefusedSentencesError, TranslateOptions
from foretell.runtime import load_translator
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

CASES = Path(__file__).parents[1] / "cases"
WORDS = "twenty one\nthree hundred and five\nsixty four\n"
LONG = "one " * 2000
FORETELL = [sys.executable, "-m", "foretell.cli.main"]
STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def translate(foretell, translator_bundle_path, tmp_path):
    def call(text=WORDS, *options, output="out.txt", server=None):
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "in.txt").write_bytes(content)
        where = ["--output", output] if output else []
        door = ["--server", server] if server else ["--model", translator_bundle_path]
        return foretell("translate", "in.txt", *door, *where, *options)

    return call


@pytest.fixture
def translator(translator_bundle_path):
    return load_translator(translator_bundle_path)


def lines(path="out.txt"):
    return Path(path).read_bytes().decode().split("\n")


def test_a_line_for_every_line_as_in_process(translate, translator):
    ended = translate()
    assert (ended.code, ended.out) == (0, "")
    assert "3 lines translated by CPUExecutionProvider" in ended.err
    assert ended.err.endswith("-> out.txt\n")
    here = translator.translate(WORDS.splitlines())
    assert lines() == [*(answer.text for answer in here), ""]
    assert sorted(os.listdir()) == ["in.txt", "out.txt"]


def test_the_options_reach_the_search(translate, translator):
    options = ["--beam-size", 3, "--n-best", 2, "--length-penalty", 0.5, "--prefix", "ein"]
    assert translate(WORDS, *options, "--scores").code == 0
    expected = translator.translate(
        WORDS.splitlines(),
        TranslateOptions(beam_size=3, n_best=2, length_penalty=0.5, prefix="ein"),
    )
    for line, answer in zip(lines()[:-1], expected, strict=True):
        cells = line.split("\t")
        assert cells[1::2] == [hypothesis.text for hypothesis in answer.hypotheses]
        assert cells[::2] == [f"{hypothesis.score:.6f}" for hypothesis in answer.hypotheses]


def test_what_is_drawn_at_random_is_fixed_by_the_seed(translate):
    sample = ["--sample", "--beam-size", 1, "--temperature", 5, "--overwrite", "--seed"]
    drawn = []
    for seed in (1, 1, 2):
        assert translate(WORDS * 3, *sample, seed).code == 0
        drawn.append(lines())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("chunk_lines", [1, 2, 1024])
def test_a_file_is_drawn_as_the_list_is_in_process(translate, translator, chunk_lines):
    """However the file is cut, whatever is refused, and whoever computes."""
    text = f"seven\n{LONG}\n\nseven\nseven\nseven\n"
    options = {"sample": True, "temperature": 4.0, "seed": 3, "beam_size": 1}
    with pytest.raises(RefusedSentencesError) as refused:
        translator.translate(text.splitlines(), TranslateOptions(**options))
    expected = ["" if answer is None else answer.text for answer in refused.value.answers]
    assert len(set(expected)) > 3
    sample = ["--sample", "--temperature", 4, "--seed", 3, "--chunk-lines", chunk_lines]
    assert translate(text, *sample).code == 3
    assert lines() == [*expected, ""]
    model = Model("ende", 1, translator)
    with serve_in_background(Repository([model]), ServerOptions(listen="127.0.0.1:0")) as address:
        assert translate(text, *sample, "--overwrite", server=address).code == 3
    assert lines() == [*expected, ""]


def test_blank_lines_stay_and_a_dash_is_no_sentence(translate):
    """HB01."""
    assert translate((CASES / "HB01.txt").read_bytes()).code == 0
    written = lines()
    assert len(written) == 9
    assert [i for i, line in enumerate(written) if not line] == [1, 2, 3, 6, 7, 8]
    assert written[4] == "-"


def test_signs_that_some_take_for_line_ends(translate):
    """HB02."""
    assert translate((CASES / "HB02.txt").read_bytes()).code == 0
    written = lines()
    assert len(written) == 7
    assert all(len(line.splitlines()) <= 1 for line in written)
    assert translate("First line", "--overwrite").code == 0
    assert lines() == [written[0], ""]


@pytest.mark.parametrize(
    ("text", "count", "told"),
    [("", 0, "0 lines"), ("\n", 1, "1 line"), ("twenty one", 1, "1 line")],
    ids=["empty", "blank", "no newline"],
)
def test_small_files(translate, text, count, told):
    ended = translate(text)
    assert ended.code == 0
    assert f"{told} translated" in ended.err
    assert len(lines()) == count + 1


def test_lines_that_are_too_long_are_refused_or_cut(translate):
    text = f"twenty one\n{LONG}\nsixty four\n"
    ended = translate(text)
    assert (ended.code, ended.out) == (3, "")
    assert "1 of 3 lines refused:\n  line 2: " in ended.err
    assert "let it be cut (--truncate)" in ended.err
    assert "all reasons: out.txt.refused.csv" in ended.err
    assert [bool(line) for line in lines()] == [True, False, True, False]
    assert lines("out.txt.refused.csv")[1].startswith("2,")
    ended = translate(text, "--truncate", "--overwrite")
    assert ended.code == 0
    assert "1 line cut, not translated to the end: 2" in ended.err
    assert sorted(os.listdir()) == ["in.txt", "out.txt"]


def test_nothing_but_refusals_is_1_and_no_output(translate):
    ended = translate(f"{LONG}\n")
    assert ended.code == 1
    assert "1 of 1 line refused" in ended.err
    assert not os.path.exists("out.txt")


def test_json_lines(translate):
    assert translate(WORDS, "--format", "jsonl", "--attention").code == 0
    first = json.loads(lines()[0])
    assert (first["line"], first["source"]) == (1, "twenty one")
    best = first["hypotheses"][0]
    assert len(best["attention"]) == len(best["tokens"])
    assert len(best["attention"][0]) == len(first["source_tokens"])
    assert sum(best["token_log_probs"]) == pytest.approx(best["log_prob"], abs=1e-4)


def test_draws(translate):
    ended = translate(WORDS, "--plot-attention", "out.png")
    assert ended.code == 0
    assert "-> out.txt, out.png" in ended.err
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_is_a_warning(translate):
    ended = translate("\n-\n", "--plot-attention", "out.png")
    assert ended.code == 0
    assert "warning: out.png is not drawn: no line with words in it was translated" in ended.err
    assert ended.err.startswith("2 lines translated")
    assert lines() == ["", "-", ""]


@pytest.mark.parametrize("number", STOPS)
def test_an_interruption_is_told(translator_bundle_path, tmp_path, number):
    call = [*FORETELL, "translate", "-", "--model", str(translator_bundle_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(call, cwd=tmp_path, text=True, **pipes) as process:
        process.stdin.write("seven\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait() == 130
        assert process.stderr.read() == "interrupted\n"


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize(
    "command", [["translate", "in.txt"], ["score", "--src", "in.txt", "--tgt", "a.de"]]
)
def test_a_stopped_command_leaves_no_part_of_a_file(
    translator_bundle_path, tmp_path, command, number
):
    """A service manager ends with SIGTERM what Ctrl-C ends at a desk."""
    (tmp_path / "a.de").write_text("sieben\n")
    os.mkfifo(tmp_path / "in.txt")
    given = ["--model", str(translator_bundle_path), "--output", "out.txt"]
    with (
        subprocess.Popen([*FORETELL, *command, *given], cwd=tmp_path) as process,
        (tmp_path / "in.txt").open("wb"),  # waits for its reader, whose output is open by then
    ):
        assert any(".partial" in path.name for path in tmp_path.iterdir())
        process.send_signal(number)
        assert process.wait() == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "in.txt"]


def test_stdin_to_stdout(foretell_process, translator_bundle_path, tmp_path, translator):
    """Through real pipes, in UTF-8 whatever the machine's own encoding is."""
    call = [*FORETELL, "translate", "-", "--model", translator_bundle_path]
    done = subprocess.run(
        call,
        cwd=tmp_path,
        input="twenty one\n\n„–“\n".encode(),
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    expected = translator.translate(["twenty one"])[0].text
    assert done.stdout.decode() == f"{expected}\n\n„–“\n"
    assert b"3 lines translated" in done.stderr


def test_a_reader_that_leaves_early_is_no_error_message(translator_bundle_path, tmp_path):
    """`foretell translate ... | head -1` must end quietly."""
    (tmp_path / "in.txt").write_text("seven\n" * 20_000)
    call = [*FORETELL, "translate", "in.txt", "--model", str(translator_bundle_path)]
    options = ["--chunk-lines", "50", "--beam-size", "1"]
    with subprocess.Popen(
        [*call, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        assert process.wait() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam-size", 0], "error: --beam-size is 0; it must be a whole number of 1 to 64"),
        (
            ["--beam-size", 2, "--n-best", 3],
            "--n-best is 3, but --beam-size is 2; raise --beam-size.",
        ),
        (["--sample", "--beam-size", 5], "--sample needs --beam-size 1"),
        (
            ["--sample", "--n-best", 3],
            "--n-best is 3, but of each sentence one translation is drawn (--sample); leave it at "
            "1, and ask again with another seed (--seed) for another translation.",
        ),
        (["--top-k", 5, "--seed", 0], "--top-k, --seed are options of --sample; give that too"),
        (["--temperature", 1], "--temperature is an option of --sample; give that too"),
        (["--attention"], "--attention is an option of --format jsonl"),
        (["--format", "xml"], "the format is 'xml'; it must be text or jsonl"),
        (["--beam", 2], "--beam"),
        (["--plot-attention", "out.bmp"], "must end in .png"),
        (["--server", "127.0.0.1:1", "--device", "cpu"], "are the server's"),
        (["--in-flight", 2], "--in-flight counts requests to a server; give it with --server"),
        (["--output", "."], "is no regular file"),
        (["--output", "/"], "is no regular file"),
        (["--output", "x" * 250], "the name has 250 bytes; give a shorter one"),
        (["--output", "out.png", "--plot-attention", "out.png"], "are the same file"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_options_are_2_and_write_nothing(translate, options, message):
    ended = translate(WORDS, *options)
    assert ended.code == (1 if "--output" in options else 2)
    assert message in ended.err
    assert not os.path.exists("out.txt")


def test_an_unknown_choice_is_refused_with_those_there_are(foretell_process, tmp_path):
    (tmp_path / "in.txt").write_text(WORDS)
    wrong = ["--length-formula", "google", "--sample", "--top-p", 0]
    ended = foretell_process("translate", "in.txt", *wrong)
    assert ended.code == 2
    assert "--length-formula is 'google'; expected power or gnmt." in ended.err
    assert "--top-p is 0.0" in ended.err  # all problems at once


def test_existing_output_needs_overwrite(translate):
    Path("out.txt").write_text("old")
    ended = translate()
    assert ended.code == 1
    assert "out.txt exists; give --overwrite" in ended.err
    assert Path("out.txt").read_text() == "old"


def test_input_missing(foretell, translator_bundle_path):
    ended = foretell("translate", "no.txt", "--model", translator_bundle_path)
    assert (ended.code, ended.out) == (1, "")
    assert "no.txt" in ended.err


def test_neither_model_nor_server(foretell, tmp_path):
    (tmp_path / "in.txt").write_text(WORDS)
    ended = foretell("translate", "in.txt")
    assert ended.code == 2
    assert "--model" in ended.err
    assert "--server" in ended.err


def test_an_unreachable_server_is_one_clear_sentence(foretell, tmp_path):
    (tmp_path / "in.txt").write_text(WORDS)
    ended = foretell("translate", "in.txt", "--server", "127.0.0.1:1", "--output", "out.txt")
    assert ended.code == 1
    assert "127.0.0.1:1" in ended.err
    assert not os.path.exists("out.txt")


def test_each_command_names_the_kind_that_it_wants(
    foretell, bundle_path, translator_bundle_path, tmp_path
):
    (tmp_path / "in.txt").write_text(WORDS)
    ended = foretell("translate", "in.txt", "--model", bundle_path)
    assert ended.code == 1
    assert "forecaster" in ended.err
    (tmp_path / "in.csv").write_text("unique_id,ds,y\na,2024-01-01,1\na,2024-01-02,2\n")
    ended = foretell("forecast", "in.csv", "--model", translator_bundle_path, "--horizon", 1)
    assert ended.code == 1
    assert "translator" in ended.err


def test_scores_of_given_translations(foretell, translator_bundle_path, tmp_path, translator):
    (tmp_path / "a.en").write_text("twenty one\nseven\n")
    (tmp_path / "a.de").write_text("ein und zwanzig\nsieben\n")
    score = ["score", "--src", "a.en", "--tgt", "a.de", "--model", translator_bundle_path]
    ended = foretell(*score)
    assert ended.code == 0
    assert "2 pairs scored by CPUExecutionProvider" in ended.err
    pairs = [("twenty one", "ein und zwanzig"), ("seven", "sieben")]
    expected = [f"{answer.log_prob:.6f}" for answer in translator.score(pairs)]
    assert ended.out.splitlines() == expected
    command = shlex.join([*FORETELL, "score", "--model", str(translator_bundle_path)])
    pipes = f"{command} --src <(cat a.en) --tgt <(cat a.de)"
    done = subprocess.run(["bash", "-c", pipes], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == expected
    ended = foretell(*score, "--output", ".")
    assert ended.code == 1
    assert ". is no regular file" in ended.err
    (tmp_path / "a.de").write_text("ein und zwanzig\n")
    ended = foretell(*score)
    assert ended.code == 1
    assert "a.en has 2 lines, a.de has 1 line." in ended.err
