"""Requests for translations are checked whole before anything of them is used."""

import math
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.bundles.bundle import TranslatorSpec
from foretell.data.text.translation import Hypothesis, TranslateOptions, Translation
from foretell.protos.v1 import translator_pb2 as wire
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions
from foretell.server.services.translator_codec import (
    Task,
    answer_bytes,
    read_pairs,
    read_sentence,
    read_sentences,
    write_translation,
)

LIMITS = ServerOptions(max_sentences=4, max_characters=20, max_beam_size=8)
SPEC = TranslatorSpec(
    arch="transformer",
    vocab_size=100,
    max_source_length=50,
    max_target_length=60,
    has_attention=True,
)
# A value of each field that is not its default.
OTHERS = {
    "beam_size": 3,
    "n_best": 2,
    "length_penalty": 0.0,
    "length_formula": "gnmt",
    "min_length": 2,
    "max_length": 9,
    "max_length_ratio": 0.0,
    "max_length_margin": 0,
    "patience": math.inf,
    "no_repeat_ngram_size": 3,
    "repetition_penalty": 1.25,
    "banned": ("a", "b c"),
    "prefix": "Das",
    "sample": True,
    "temperature": 0.5,
    "top_k": 7,
    "top_p": 0.9,
    "seed": 2**62,
    "replace_unknowns": True,
    "attention": True,
    "truncate_source": True,
}


def read(limits=LIMITS, **fields):
    return read_sentences(wire.TranslateRequest(**fields), limits)


def test_no_options_are_the_defaults_of_every_other_door():
    task = read(sentences=["a", "b"])
    assert task.items == ["a", "b"]
    assert task.options == (TranslateOptions(),)
    assert read(sentences=["a"], options=[wire.TranslateOptions()]).options == task.options


@pytest.mark.parametrize("name", [field.name for field in fields(TranslateOptions)])
def test_every_option_arrives_even_where_it_is_zero(name):
    """An option that gets lost on the way changes the answer without a word."""
    value = OTHERS[name]
    more = {"beam_size": 1} if name == "sample" else {}
    sent = f"LENGTH_FORMULA_{value.upper()}" if name == "length_formula" else value
    task = read(sentences=["a"], options=[wire.TranslateOptions(**{name: sent}, **more)])
    assert task.options == (TranslateOptions(**{name: value}, **more),)


def test_options_can_be_one_a_sentence():
    task = read(sentences=["a", "b"], options=[wire.TranslateOptions(seed=s) for s in (1, 2)])
    assert [task.option_of(at).seed for at in (0, 1)] == [1, 2]


def test_all_problems_are_told_at_once_with_their_items():
    with pytest.raises(RequestError) as caught:
        read(
            sentences=["a"] * 3,
            first_place=-1,
            options=[
                wire.TranslateOptions(beam_size=0, top_p=2),
                wire.TranslateOptions(beam_size=9),
            ],
        )
    problems = caught.value.problems
    assert len(problems) == 5
    assert "options has 2 entries, but there are 3 sentences" in problems[0]
    assert problems[1] == "first_place is -1; it must be 0 or more."
    assert problems[2].startswith("options[0]: beam_size is 0; it must be a whole number of 1 to")
    assert problems[3].startswith("options[0]: top_p is 2")
    assert problems[4].startswith("options[1]: beam_size is 9; this server takes at most 8 (--max-")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"length_formula": 9}, "length_formula is 9, which this server doesn't know; send LENGTH"),
        ({"temperature": float("nan")}, "temperature is nan; it must be a number"),
        ({"length_penalty": float("inf")}, "length_penalty is inf"),
        ({"patience": 0.0}, "patience is 0.0"),
        ({"max_length": 0}, "max_length is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"banned": [""]}, "none of them empty"),
        ({"n_best": 6}, "n_best is 6, but beam_size is 5"),
        ({"sample": True}, "sample needs beam_size 1"),
        ({"prefix": "x" * 15, "banned": ["y" * 6]}, "prefix and banned have 21 characters; .* 20"),
    ],
)
def test_what_no_search_can_do_is_refused(options, text):
    options = wire.TranslateOptions(**options)
    with pytest.raises(RequestError, match=text):
        read(sentences=["a"], options=[options])
    with pytest.raises(RequestError, match=text):
        read_sentence(wire.TranslateStreamRequest(sentence="a", options=options), LIMITS)


def test_an_option_that_this_server_does_not_know_is_refused():
    """protobuf drops what it doesn't know; the answer would be another one than was asked for."""
    newer = wire.TranslateOptions.FromString(b"\xf0\x01\x01")  # field 30 = 1
    with pytest.raises(RequestError, match=r"options\[0\]: it has fields .* number 30; leave"):
        read(sentences=["a"], options=[newer])


def test_an_empty_request_and_a_huge_one_are_refused():
    with pytest.raises(RequestError, match="sentences is empty; send at least one"):
        read()
    with pytest.raises(RequestError, match=r"has 5 entries; .* at most 4 \(--max-sentences\)"):
        read(sentences=["a"] * 5)
    with pytest.raises(RequestError, match="pairs is empty"):
        read_pairs(wire.ScoreRequest(), LIMITS)


def test_a_text_that_is_too_long_is_refused_alone_and_all_keep_their_places():
    """A sentence's place decides what sampling draws for it."""
    task = read(sentences=["a", "x" * 21, "b"])
    assert task.items == ["a", "", "b"]
    assert list(task.refusals) == [1]
    assert "21 characters; this server takes at most 20 (--max-characters)" in task.refusals[1]
    pairs = [wire.SentencePair(source="a", target="x" * 21), wire.SentencePair(source="a")]
    task = read_pairs(wire.ScoreRequest(pairs=pairs), LIMITS)
    assert task.items == [("", ""), ("a", "")]
    assert list(task.refusals) == [0]


@given(
    num_characters=st.integers(0, 60),
    n_best=st.integers(1, 4),
    max_length=st.none() | st.integers(1, 99),
    attention=st.booleans(),
    has_attention=st.booleans(),
    byte_pieces=st.booleans(),
)
def test_the_size_of_an_answer_is_reckoned_high_enough(
    num_characters, n_best, max_length, attention, has_attention, byte_pieces
):
    """It protects the memory, and lets a client cut its requests by the size of the answers."""
    options = TranslateOptions(n_best=n_best, max_length=max_length, attention=attention)
    spec = replace(SPEC, has_attention=has_attention)
    text = "x" * num_characters
    num_sources = min(num_characters + 1, spec.max_source_length - 1)
    most = options.max_length or 2 * num_sources + 20
    piece = "<0xE2>" if byte_pieces else "▁x"
    num_tokens = min(most, spec.max_target_length)
    hypothesis = Hypothesis(
        text=" x" * num_tokens,
        tokens=(piece,) * num_tokens,
        token_log_probs=(-0.1,) * (num_tokens + 1),
        log_prob=-1.0,
        score=-1.0,
        attention=np.ones((num_tokens, num_sources), np.float32)
        if options.attention and has_attention
        else None,
    )
    translation = Translation(
        hypotheses=(hypothesis,) * options.n_best, source_tokens=("▁x",) * num_sources
    )
    size_bytes = write_translation(0, translation, raw=True).ByteSize()
    assert size_bytes <= answer_bytes(Task([text], (options,), {}), spec)


@settings(max_examples=300)
@given(data=st.data())
def test_no_bytes_do_more_than_be_refused(data):
    """A server reads what anyone sends: whatever parses is either a task or a RequestError."""
    options = {name: value for name, value in OTHERS.items() if name != "length_formula"}
    request = wire.TranslateRequest(
        sentences=["a", "b"],
        options=[wire.TranslateOptions(**options, length_formula="LENGTH_FORMULA_GNMT")],
    )
    message = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(message) - 1))
        message[at] = data.draw(st.integers(0, 255))
    try:
        request = wire.TranslateRequest.FromString(bytes(message))
    except DecodeError:
        return
    with suppress(RequestError):
        assert isinstance(read_sentences(request, LIMITS), Task)
