"""A translator without graphs: every word is turned round, and one step finds one word.

It answers as simply as the promises of a translator allow, so that all is known beforehand. What a
test wants to go wrong, or to wait for, can be switched on.
"""

import random
import threading
from functools import partial

import numpy as np

from foretell.data.bundles.bundle import Manifest, TranslatorSpec
from foretell.data.errors import OptionError
from foretell.data.text.normalising import is_blank, is_copied, normalise
from foretell.data.text.sentences import check_pairs, check_sentences
from foretell.data.text.translation import (
    Hypothesis,
    PairScore,
    RefusedSentencesError,
    SentenceRefusal,
    TranslateOptions,
    Translation,
    TranslationPart,
)
from foretell.runtime.answers import Answers
from foretell.runtime.queues.work import Plan, Row

DEFAULTS = TranslateOptions()


def make_manifest(*, max_source_length=50, max_target_length=60, has_attention=True, training=None):
    return Manifest(
        kind="translator",
        precision="fp32",
        config={},
        translator=TranslatorSpec(
            arch="recurrent",
            vocab_size=100,
            max_source_length=max_source_length,
            max_target_length=max_target_length,
            src_language="en",
            tgt_language="ne",
            has_attention=has_attention,
        ),
        graphs=(),
        training=training or {},
        tool_versions={},
    )


class FakeTranslator:
    """Turns words round; the k-th hypothesis has k exclamation marks; records its calls.

    `before_step` is called before each step: a sentence, or a word of a stream.
    """

    provider = "FakeExecutionProvider"
    threads = 2

    def __init__(self, *, error=None, before_step=lambda: None, **manifest):
        self.manifest = make_manifest(**manifest)
        self.error = error
        self.before_step = before_step
        self.calls = []
        self.batches = []  # the number of sentences of each
        self.answered = []
        self.steps = 0
        self.closed = threading.Event()

    def plan_translations(self, sentences, options=DEFAULTS, *, first_place=0, on_step=None):
        texts, settings = check_sentences(sentences, options)
        self.calls.append((list(texts), list(settings), first_place))
        if self.error is not None:
            raise self.error
        return self._plan(
            [
                partial(self._one, text, options, first_place + at)
                for at, (text, options) in enumerate(zip(texts, settings, strict=True))
            ]
        )

    def translate(self, sentences, options=DEFAULTS, *, first_place=0):
        return self._alone(self.plan_translations(sentences, options, first_place=first_place))

    def translate_stream(self, sentence, options=DEFAULTS):
        try:
            translation = self._all([self._one(sentence, options, 0)])[0]
            yield TranslationPart()
            for at, token in enumerate(translation.hypotheses[0].tokens):
                self.step()
                yield TranslationPart(text=token.replace("▁", " " if at else ""), tokens=(token,))
                yield TranslationPart()
            yield translation
        finally:
            self.closed.set()

    def plan_scores(self, pairs, *, on_step=None):
        return self._plan([partial(self._score, *pair) for pair in check_pairs(pairs)])

    def score(self, pairs):
        return self._alone(self.plan_scores(pairs))

    def _score(self, source, target):
        if "bad" in source:
            return "the source is bad; send a good one."
        log_probs = tuple(-0.1 * (at + 1) for at in range(len(target.split()) + 1))
        total = sum(log_probs)
        return PairScore(
            tokens=pieces(target),
            token_log_probs=log_probs,
            log_prob=total,
            score=total / len(log_probs),
        )

    def _plan(self, makers):
        answers = Answers(len(makers))
        rows = [Row(self._run, "k", (answers, *item), 0.01) for item in enumerate(makers)]
        return Plan(rows, lambda: answers)

    def _alone(self, plan):
        for row in plan.rows:
            self._answer(*row.task)
        return plan.answer().all()

    def _run(self, batch):
        self.batches.append(len(batch.tasks))
        for place, task in enumerate(batch.tasks):
            self._answer(*task, batch.given_up)
            batch.put(place)

    def _answer(self, answers, at, make, on_step=lambda: None):
        self.step(on_step)
        found = make()
        self.answered.append(str(found))
        if isinstance(found, str):
            answers.refuse(at, OptionError(found))
        else:
            answers.answers[at] = found

    def step(self, on_step=lambda: None):
        self.before_step()
        on_step()
        self.steps += 1

    def _one(self, text, options, place):
        if is_blank(text):
            return Translation(hypotheses=(Hypothesis(text=""),))
        if is_copied(text):
            return Translation(hypotheses=(Hypothesis(text=normalise(text)),), copied=True)
        words = normalise(text).split()
        most = self.manifest.translator.max_source_length - 1
        if len(words) > most and not options.truncate_source:
            return f"the source has {len(words) + 1} tokens; the model takes at most {most + 1}."
        truncated, words = len(words) > most, words[:most]
        found = [word[::-1] for word in words]
        if options.sample:
            random.Random(f"{options.seed} {place}").shuffle(found)
        return Translation(
            hypotheses=tuple(
                self._hypothesis(found, rank, options) for rank in range(options.n_best)
            ),
            source_tokens=pieces(" ".join(words)),
            truncated=truncated,
        )

    def _hypothesis(self, words, rank, options):
        tokens = pieces(" ".join(words) + "!" * rank)
        log_probs = tuple(-1 / (at + 3) - rank / 7 for at in range(len(tokens) + 1))
        total = sum(log_probs)
        attention = None
        if options.attention and self.manifest.translator.has_attention:
            attention = np.random.default_rng(rank).random((len(tokens), len(words)), np.float32)
        return Hypothesis(
            text=" ".join(words) + "!" * rank,
            tokens=tokens,
            token_log_probs=log_probs,
            log_prob=total,
            score=total / len(log_probs) ** options.length_penalty,
            finish_reason="length" if rank % 2 else "eos",
            attention=attention,
        )

    @staticmethod
    def _all(answers):
        refusals = [
            SentenceRefusal(at, answer)
            for at, answer in enumerate(answers)
            if isinstance(answer, str)
        ]
        if refusals:
            kept = [None if isinstance(answer, str) else answer for answer in answers]
            raise RefusedSentencesError(refusals, kept)
        return answers


def pieces(text):
    return tuple(f"▁{word}" for word in text.split())
