"""The in-process door, on a stand-in that copies its source, mostly."""

import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from foretell.data.errors import BundleError, OptionError
from foretell.data.text.tokenizer import TOKENIZER_FILE, UNK, Tokenizer
from foretell.data.text.translation import (
    RefusedSentencesError,
    TranslateOptions,
    Translation,
    TranslationPart,
)
from foretell.runtime import Translator, load, load_forecaster, load_translator
from foretell.runtime.devices import CPU_PROVIDER

GREEDY = TranslateOptions(beam_size=1)
BEAMS = TranslateOptions(beam_size=4, n_best=3)


@pytest.fixture
def translator(make_translator) -> Translator:
    return load(make_translator(), device="cpu", threads=2)


class TestTranslating:
    @pytest.mark.parametrize("options", [GREEDY, TranslateOptions(), BEAMS])
    def test_texts_in_texts_out(self, translator: Translator, options: TranslateOptions) -> None:
        sentences = ["the lamp is on .", "seven old ships", "one"]
        answers = translator.translate(sentences, options)
        assert [str(answer) for answer in answers] == sentences
        for answer in answers:
            best = answer.hypotheses[0]
            assert best.tokens == answer.source_tokens
            assert best.finish_reason == "eos"
            assert len(best.token_log_probs) == len(best.tokens) + 1
            assert best.log_prob == pytest.approx(sum(best.token_log_probs))
            assert answer.score == pytest.approx(best.log_prob / len(best.token_log_probs))
            assert best.attention is None
            assert not answer.truncated
            assert not answer.copied

    def test_blank_stays_blank_and_signs_stay_signs(self, translator: Translator) -> None:
        """HB01: nothing is invented where there is nothing to translate."""
        answers = translator.translate(["", " \t", "-", "one", "\u200b", " ... !"])
        assert [answer.text for answer in answers] == ["", "", "-", "one", "", "... !"]
        assert [answer.copied for answer in answers] == [False, False, True, False, False, True]
        assert answers[0].score == 0
        assert answers[0].source_tokens == answers[2].source_tokens == ()

    def test_no_sentences_no_answers(self, translator: Translator) -> None:
        assert translator.translate([]) == []
        assert translator.score([]) == []

    def test_each_sentence_has_its_own_options(self, translator: Translator) -> None:
        options = [GREEDY, TranslateOptions(max_length=2), BEAMS, TranslateOptions(prefix="red")]
        answers = translator.translate(["the lamp"] * 4, options)
        assert answers[0].text == "the lamp"
        assert answers[1].hypotheses[0].finish_reason == "length"
        assert len(answers[2].hypotheses) == 3
        assert answers[3].text.startswith("red")

    def test_hypotheses_differ_in_text_and_fall_in_score(self, translator: Translator) -> None:
        (answer,) = translator.translate(["the lamp"], TranslateOptions(beam_size=8, n_best=8))
        texts = [one.text for one in answer.hypotheses]
        scores = [one.score for one in answer.hypotheses]
        assert len(set(texts)) == len(texts) > 1
        assert scores == sorted(scores, reverse=True)

    def test_the_greatest_length_follows_from_each_source(self, make_translator) -> None:
        """A model that never ends is cut by its own source's length, not by its neighbours'."""
        translator = load(make_translator(boost=0.0), device="cpu")
        options = TranslateOptions(
            beam_size=1, min_length=8, max_length_ratio=2.0, max_length_margin=3
        )
        answers = translator.translate(["one two three", "one two three four five six"], options)
        for answer in answers:
            most = 2 * len(answer.source_tokens) + 3
            assert 8 <= len(answer.hypotheses[0].token_log_probs) <= most

    def test_alignment_covers_the_sources_pieces_and_nothing_else(
        self, translator: Translator
    ) -> None:
        """Traps 14, 42, 44: a row a token, the end token's column gone, rows that sum to 1."""
        options = TranslateOptions(beam_size=3, attention=True)
        answers = translator.translate(["the red door", "one"], options)
        for answer in answers:
            best = answer.hypotheses[0]
            assert best.attention.shape == (len(best.tokens), len(answer.source_tokens))
            np.testing.assert_allclose(best.attention.sum(axis=1), 1, rtol=1e-6)
            assert best.attention.argmax(axis=1).tolist() == list(range(len(best.tokens)))

    def test_an_unknown_word_is_handed_on(self, translator: Translator) -> None:
        """Trap 18: the word as it stands in the source, never the name of a token."""
        sentence = "the Łódź lamp"
        (plain,) = translator.translate([sentence])
        assert "Łódź" not in plain.text
        (answer,) = translator.translate([sentence], TranslateOptions(replace_unknowns=True))
        assert answer.text == sentence
        assert answer.hypotheses[0].attention is None

    def test_what_is_drawn_depends_on_the_place_in_the_whole_list(self, make_translator) -> None:
        """Trap 23: however a list is cut into calls, its sentences draw the same."""
        translator = load(make_translator(boost=2.0), device="cpu")
        options = TranslateOptions(beam_size=1, sample=True, seed=3)
        whole = translator.translate(["the lamp is on"] * 6, options)
        assert len({answer.text for answer in whole}) > 1
        rest = translator.translate(["the lamp is on"] * 4, options, first_place=2)
        assert [one.text for one in rest] == [one.text for one in whole[2:]]

    def test_threads_may_share_one(self, translator: Translator) -> None:
        texts = [["one two", "three"], ["the lamp"], ["seven old ships", ""]] * 4
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(translator.translate, texts))
        for some, answer in zip(texts, answers, strict=True):
            assert [one.text for one in answer] == some

    def test_what_is_raised_at_a_step_ends_the_call(self, translator: Translator) -> None:
        """A caller that is gone should cost no more than a step."""
        steps = []

        def stop() -> None:
            steps.append(1)
            if len(steps) == 3:
                raise TimeoutError("enough")

        with pytest.raises(TimeoutError, match="enough"):
            translator.translate(["one two three four five six seven"], on_step=stop)
        steps.clear()
        with pytest.raises(TimeoutError, match="enough"):
            translator.score([("one two three", "one two three four")], on_step=stop)
        assert len(steps) == 3

    def test_reading_what_is_asked_can_be_ended_as_well(self, translator: Translator) -> None:
        """A small request that bans many texts kept its thread for minutes after its deadline."""
        banned = tuple(f"banned {number}" for number in range(100))
        for texts, options in ((["one"], TranslateOptions(banned=banned)), (["one"] * 100, GREEDY)):
            threads = []

            def stop(threads: list[int] = threads) -> None:
                threads.append(threading.get_ident())
                if len(threads) == 100:
                    raise TimeoutError("enough")

            with pytest.raises(TimeoutError, match="enough"):
                translator.translate(texts, options, on_step=stop)
            assert set(threads) == {threading.get_ident()}  # those that compute are others

    def test_what_options_hold_is_encoded_once_a_call(
        self, translator: Translator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """256 sentences that each banned 1,000 texts took gigabytes."""
        encode, encoded = Tokenizer.encode, Counter()

        def counting(self: Tokenizer, text: str, **options: bool) -> list[int]:
            encoded[text] += 1
            return encode(self, text, **options)

        monkeypatch.setattr(Tokenizer, "encode", counting)
        options = [
            TranslateOptions(banned=("blue", "red house"), prefix="the", beam_size=1 + place % 2)
            for place in range(6)
        ]
        answers = translator.translate(["the blue door"] * 6, options)
        assert [encoded[text] for text in ("blue", "red house", "the")] == [1, 1, 1]
        assert encoded["the blue door"] == 6
        assert not any("blue" in answer.text for answer in answers)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_a_step_may_itself_ask_for_a_translation(self, make_translator, threads: int) -> None:
        """Each waited for a thread that the other held, for ever."""
        translator = load(make_translator(), device="cpu", threads=threads)
        found = []

        def ask() -> None:
            found.append(translator.translate(["seven old ships"], GREEDY)[0].text)

        texts = ["one two", "three", "the lamp is on . the red door"]
        answers = translator.translate(texts, on_step=ask)
        assert [answer.text for answer in answers] == texts
        assert set(found) == {"seven old ships"}


class TestRefusing:
    LONG = "one " * 40

    def test_a_long_source_is_refused_with_both_numbers_and_no_other(
        self, translator: Translator
    ) -> None:
        """HB07: never a silent cut, never the end of the whole call."""
        with pytest.raises(RefusedSentencesError, match=r"41 tokens.*at most 24") as caught:
            translator.translate(["the lamp", self.LONG, "one"])
        (refusal,) = caught.value.refusals
        assert refusal.position == 1
        assert [None if one is None else one.text for one in caught.value.answers] == [
            "the lamp",
            None,
            "one",
        ]

    def test_a_long_source_is_cut_where_that_was_asked_for(self, translator: Translator) -> None:
        options = TranslateOptions(truncate_source=True)
        long, short = translator.translate([self.LONG, "one"], options)
        assert long.truncated
        assert not short.truncated
        assert len(long.source_tokens) == 23

    def test_the_longest_source_is_read_whole(self, translator: Translator) -> None:
        (answer,) = translator.translate(["one " * 23], TranslateOptions(truncate_source=True))
        assert not answer.truncated
        assert len(answer.source_tokens) == 23

    def test_options_that_one_sentence_cannot_meet_refuse_that_one(
        self, translator: Translator
    ) -> None:
        options = TranslateOptions(min_length=8, max_length_ratio=3.0, max_length_margin=0)
        with pytest.raises(RefusedSentencesError, match="sentence 2: min_length is 8") as caught:
            translator.translate(["one two three four", "one"], options)
        assert caught.value.answers[0] is not None

    def test_one_text_is_no_list(self, translator: Translator) -> None:
        with pytest.raises(OptionError, match=r"sentences is 'one' \(str\); give a list"):
            translator.translate("one")
        with pytest.raises(OptionError, match="there are 2 options for 1 sentences"):
            translator.translate(["one"], [GREEDY, GREEDY])
        with pytest.raises(OptionError, match="first_place is -1; it must be 0 or more"):
            translator.translate(["one"], first_place=-1)

    def test_what_this_model_cannot_do_is_named(self, make_translator) -> None:
        def without(text: str) -> str:
            head, _, tail = text.partition(", float[batch, beams, src_len] attention")
            return head + tail

        translator = load(make_translator(alter=without, has_attention=False), device="cpu")
        options = TranslateOptions(replace_unknowns=True, banned=(" ",))
        with pytest.raises(OptionError) as caught:
            translator.translate(["one"], options)
        assert len(caught.value.problems) == 2
        assert "needs attention, and this model has none" in str(caught.value)
        assert "banned text ' ' is blank" in str(caught.value)
        (answer,) = translator.translate(["one"], TranslateOptions(attention=True))
        assert answer.hypotheses[0].attention is None

    def test_an_answer_that_is_no_number_is_never_handed_out(self, make_translator) -> None:
        translator = load(make_translator(boost=float("nan")), device="cpu")
        with pytest.raises(RefusedSentencesError) as caught:
            translator.translate(["one", ""])
        assert caught.value.answers[1].text == ""


class TestStreaming:
    def events(self, translator: Translator, sentence: str, options: TranslateOptions):
        *parts, last = translator.translate_stream(sentence, options)
        assert all(isinstance(part, TranslationPart) for part in parts)
        assert isinstance(last, Translation)
        return parts, last

    @pytest.mark.parametrize(
        "options", [GREEDY, BEAMS, TranslateOptions(beam_size=1, sample=True, seed=5)]
    )
    @pytest.mark.parametrize("sentence", ["the red door , the blue house", "one", "", "- !"])
    def test_the_parts_are_the_translation(
        self, translator: Translator, sentence: str, options: TranslateOptions
    ) -> None:
        parts, last = self.events(translator, sentence, options)
        assert "".join(part.text for part in parts) == last.text
        assert sum((part.tokens for part in parts), ()) == last.hypotheses[0].tokens
        (whole,) = translator.translate([sentence], options)
        assert (whole.text, whole.score) == (last.text, last.score)

    def test_greedy_words_come_one_by_one(self, translator: Translator) -> None:
        parts, _ = self.events(translator, "one two three", GREEDY)
        assert len([part for part in parts if part.text]) >= 3

    def test_unknown_words_are_told_at_the_end(self, translator: Translator) -> None:
        options = TranslateOptions(beam_size=1, replace_unknowns=True)
        parts, last = self.events(translator, "the Łódź lamp", options)
        assert "".join(part.text for part in parts) == last.text == "the Łódź lamp"

    def test_a_refused_sentence_raises_as_a_call_does(self, translator: Translator) -> None:
        with pytest.raises(RefusedSentencesError, match="at most 24") as caught:
            list(translator.translate_stream("one " * 40))
        assert caught.value.answers == (None,)

    def test_closing_it_ends_the_search(self, translator: Translator) -> None:
        stream = translator.translate_stream("one two three", GREEDY)
        next(stream)
        stream.close()
        with pytest.raises(StopIteration):
            next(stream)


class TestScoring:
    def test_a_found_translation_scores_what_the_search_said(self, translator: Translator) -> None:
        sentences = ["the red door", "one", "seven old ships and the blue house"]
        found = translator.translate(sentences, BEAMS)
        pairs = [
            (sentence, hypothesis.text)
            for sentence, answer in zip(sentences, found, strict=True)
            for hypothesis in answer.hypotheses
        ]
        hypotheses = [hypothesis for answer in found for hypothesis in answer.hypotheses]
        for hypothesis, score in zip(hypotheses, translator.score(pairs), strict=True):
            if score.tokens == hypothesis.tokens:  # a text may have been spelled otherwise
                np.testing.assert_array_equal(score.token_log_probs, hypothesis.token_log_probs)
                assert score.log_prob == hypothesis.log_prob
                assert score.score == pytest.approx(score.log_prob / (len(score.tokens) + 1))

    def test_a_blank_target_is_its_end_alone(self, translator: Translator) -> None:
        (score,) = translator.score([("one", "")])
        assert score.tokens == ()
        assert len(score.token_log_probs) == 1

    def test_what_cannot_be_scored_is_refused_beside_the_others(
        self, translator: Translator
    ) -> None:
        long = "one " * 40
        with pytest.raises(RefusedSentencesError) as caught:
            translator.score([("one", "one"), ("", "one"), (long, long)])
        assert caught.value.answers[0] is not None
        blank, too_long = caught.value.refusals
        assert "the source is blank" in blank.reason
        assert "the source has 41 tokens" in too_long.reason
        assert "the target has 41 tokens" in too_long.reason


class TestLoading:
    def test_each_kind_is_loaded_as_what_it_is(self, make_translator, make_bundle) -> None:
        translator, forecaster = make_translator(), make_bundle()
        assert isinstance(load_translator(translator, device="cpu"), Translator)
        assert load(forecaster, device="cpu").manifest.kind == "forecaster"
        with pytest.raises(BundleError, match=f"{translator} holds a translator; expected a forec"):
            load_forecaster(translator)
        with pytest.raises(BundleError, match=f"{forecaster} holds a forecaster; expected a trans"):
            load_translator(forecaster)

    def test_it_says_what_it_is_and_where_it_runs(self, translator: Translator) -> None:
        assert translator.provider == CPU_PROVIDER
        assert translator.manifest.translator.max_source_length == 24
        assert CPU_PROVIDER in repr(translator)

    def test_a_pickled_one_answers_the_same(self, translator: Translator) -> None:
        assert pickle.loads(pickle.dumps(translator)).translate(["one"])[0].text == "one"

    def test_a_bundle_without_its_tokenizer_is_refused(self, make_translator) -> None:
        path = make_translator(also_write=lambda folder: (folder / TOKENIZER_FILE).unlink())
        with pytest.raises(BundleError, match=r"has no tokenizer\.model; export the model again"):
            load(path, device="cpu")

    def test_another_models_tokenizer_is_refused(
        self, make_translator, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        from foretell.data.text.tokenizer_training import train_tokenizer

        other = train_tokenizer(["a b c d e"] * 3, 12, tmp_path / "other", byte_fallback=False)
        path = make_translator(
            also_write=lambda folder: (folder / TOKENIZER_FILE).write_bytes(other.to_bytes())
        )
        with pytest.raises(BundleError, match=rf"pieces, the model {tokenizer.vocab_size}"):
            load(path, device="cpu")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_answers_too(self, make_translator) -> None:
        script = """
import os, sys
from foretell.runtime import load

model = load(sys.argv[1], device="cpu")
print(model.translate(["one"])[0], flush=True)
child = os.fork()
if child:
    os.waitpid(child, 0)
print(model.translate(["one"])[0], flush=True)
if child == 0:
    os._exit(0)
"""
        command = [sys.executable, "-c", script, str(make_translator())]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert result.stdout.splitlines() == ["one"] * 3


def test_unknown_is_what_it_is_called(tokenizer: Tokenizer) -> None:
    """The stand-in's vocabulary lacks these letters; else the tests above test nothing."""
    assert UNK in tokenizer.encode("Łódź")
