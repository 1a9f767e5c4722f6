"""Sentences to requests and back: an answer that doesn't fit its request is never taken."""

from dataclasses import fields
from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.client.chunks import spans
from foretell.client.codec import Span
from foretell.client.errors import RemoteError
from foretell.client.translation_codec import (
    check_complete,
    read_event,
    read_scores,
    read_translations,
    sendable,
    write_options,
)
from foretell.data.text.normalising import normalise
from foretell.data.text.translation import SentenceRefusal, TranslateOptions, TranslationPart
from foretell.protos.arrays import pack_doubles
from foretell.protos.v1 import translator_pb2 as wire


@given(
    sizes=st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), max_size=40),
    chunk_bytes=st.integers(1, 300),
    most=st.integers(1, 9),
)
def test_spans_cover_every_item_once_and_stay_within_all_limits(sizes, chunk_bytes, most):
    sent, answered = (np.array([size[end] for size in sizes], np.int64) for end in (0, 1))
    found = list(spans(sent, answered, chunk_bytes, most=most))
    assert [at for span in found for at in range(span.start, span.stop)] == list(range(len(sizes)))
    for span, after in zip_longest(found, found[1:]):
        here = slice(span.start, span.stop)
        count = span.stop - span.start
        assert count == 1 or max(sent[here].sum(), answered[here].sum()) <= chunk_bytes
        assert count <= most
        if after is not None and count < most:  # one more would not have fitted
            more = slice(span.start, span.stop + 1)
            assert max(sent[more].sum(), answered[more].sum()) > chunk_bytes


def test_every_option_is_sent_even_where_it_is_the_default():
    """A server's defaults may be others than this client's some day."""
    message = write_options(TranslateOptions(prefix="x", banned=("y",), max_length=3))
    sent = {field.name for field, _ in message.ListFields()}
    assert sent == {field.name for field in fields(TranslateOptions)}
    assert not write_options(TranslateOptions()).HasField("max_length")


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_texts_that_no_message_holds_mean_the_same_to_a_tokenizer(text):
    sent = sendable(text)
    assert wire.TranslateRequest(sentences=[sent]).sentences[0] == sent
    assert normalise(sent) == normalise(text)


def translation(position, **changes):
    hypothesis = wire.Hypothesis(
        text="x",
        tokens=["▁x"],
        token_log_probs=[-1, -2],
        finish_reason=wire.FinishReason.FINISH_REASON_EOS,
        attention=pack_doubles(np.array([0.25, 0.75])),
    )
    for name, value in changes.items():
        hypothesis.ClearField(name)
        hypothesis.MergeFrom(wire.Hypothesis(**{name: value}))
    return wire.Translation(position=position, hypotheses=[hypothesis], source_tokens=["▁a", "▁b"])


def response(positions=(0, 2), errors=(1,), **changes):
    return wire.TranslateResponse(
        translations=[translation(position, **changes) for position in positions],
        errors=[wire.SentenceError(position=position, reason="why.") for position in errors],
    )


def test_positions_become_those_of_the_whole_call():
    answers, refusals = read_translations(response(), Span(5, 8), "host:1")
    assert list(answers) == [5, 7]
    assert refusals == [SentenceRefusal(6, "why.")]
    attention = answers[5].hypotheses[0].attention
    assert attention.dtype == np.float32
    assert attention.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": (0, 1)},
        {"positions": (2, 0)},
        {"positions": (0, 3)},
        {"positions": (0, -1)},
        {"positions": (0,)},
        {"errors": ()},
        {"errors": (1, 1)},
        {"finish_reason": 0},
        {"finish_reason": 7},
        {"attention": pack_doubles(np.ones(3))},
        {"tokens": ["▁x", "▁y"]},
    ],
)
def test_an_answer_that_does_not_fit_is_never_taken(changes):
    """A shifted answer would give sentences each other's translations."""
    with pytest.raises(RemoteError, match="the answer doesn't fit the request") as caught:
        read_translations(response(**changes), Span(0, 3), "host:1")
    assert caught.value.code == "DATA_LOSS"


def test_a_translation_without_hypotheses_is_none():
    empty = wire.TranslateResponse(translations=[wire.Translation()])
    with pytest.raises(RemoteError, match="a translation has no hypothesis"):
        read_translations(empty, Span(0, 1), "host:1")


def test_a_score_has_a_probability_for_each_token_and_the_end():
    score = wire.PairScore(tokens=["▁x"], token_log_probs=[-1])
    with pytest.raises(RemoteError, match="not one probability for each token"):
        read_scores(wire.ScoreResponse(scores=[score]), Span(0, 1), "host:1")


def test_a_stream_that_brings_nothing_or_ends_early_is_told():
    with pytest.raises(RemoteError, match="nothing that this client knows"):
        read_event(wire.TranslateStreamResponse(), "host:1")
    with pytest.raises(RemoteError, match="the stream ended without a translation"):
        check_complete(TranslationPart(text="x"), "host:1")
    with pytest.raises(RemoteError, match="the stream ended without a translation"):
        check_complete(None, "host:1")
