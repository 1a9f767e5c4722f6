"""`foretell translate --resume` and `--dry-run`: one command for every night."""

import os
import re
from pathlib import Path

import pytest

from foretell.runtime import load_translator
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

WORDS = "twenty one\nthree hundred and five\nsixty four\n"


@pytest.fixture
def translate(foretell, translator_bundle_path, tmp_path):
    def call(text, *options, server=None):
        (tmp_path / "in.txt").write_text(text)
        door = ["--server", server] if server else ["--model", translator_bundle_path]
        return foretell("translate", "in.txt", *door, "--output", "out.txt", *options)

    return call


@pytest.fixture
def translator(translator_bundle_path):
    return load_translator(translator_bundle_path)


def lines():
    return Path("out.txt").read_text().split("\n")


def test_the_same_command_with_resume_again_and_again(translate):
    """HD06: who has a job run by a clock gives one command, whatever became of the last one."""
    assert translate(WORDS, "--resume").code == 0
    written = lines()
    again = translate(WORDS, "--resume", "--chunk-lines", 2)
    assert (again.code, again.err) == (0, "out.txt is complete already: 3 lines; nothing done.\n")
    assert lines() == written
    other = translate(WORDS, "--resume", "--beam-size", 4)
    assert other.code == 1
    assert other.err == (
        "error: out.txt is of another job:\n"
        "--beam-size: 5 then, 4 now.\n"
        "Give --overwrite to replace it, or another path.\n"
    )
    other = translate(WORDS, "--resume", "--scores", "--format", "jsonl")
    assert "--format: text then, jsonl now." in other.err
    changed = translate(WORDS + "one\n", "--resume")
    assert (changed.code, "the input was another." in changed.err) == (1, True)
    assert translate(WORDS + "one\n", "--resume", "--overwrite").code == 0
    assert len(lines()) == 5


def test_a_job_that_went_on_elsewhere_is_the_same_job(translate, translator):
    """What was begun here may be ended by a server with the same model."""
    assert translate(WORDS, "--resume").code == 0
    model = Model("ende", 1, translator)
    with serve_in_background(Repository([model]), ServerOptions(listen="127.0.0.1:0")) as address:
        ended = translate(WORDS, "--resume", "--in-flight", 1, server=address)
    assert (ended.code, "complete already" in ended.err) == (0, True)


def test_a_dry_run_tells_what_would_be_done(translate):
    ended = translate(WORDS, "--dry-run", "--chunk-lines", 2)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == (
        "would translate 3 lines in 2 chunks of at most 2, by CPUExecutionProvider -> out.txt\n"
    )
    assert os.listdir() == ["in.txt"]
    Path("out.txt").write_text("old")
    ended = translate(WORDS, "--dry-run")
    assert (ended.code, "out.txt exists; give --overwrite" in ended.err) == (1, True)


def test_the_summary_tells_rate_memory_and_busy_threads(translate):
    told = translate(WORDS).err
    assert re.search(
        r" in \d+\.\d s \([\d.,]+ lines/s, peak memory [\d,]+ MiB, compute threads busy \d+%\) ->",
        told,
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["translate", "-", "--output", "out.txt"],
            "standard input can be read only once, so noth",
        ),
        (["translate", "in.txt"], "nothing can be resumed on standard output; give an output file"),
    ],
    ids=["stdin", "stdout"],
)
def test_what_can_not_be_resumed_is_wrong_usage(foretell, tmp_path, options, told):
    (tmp_path / "in.txt").write_text(WORDS)
    ended = foretell(*options, "--model", "m", "--resume")
    assert (ended.code, told in ended.err) == (2, True)
