"""Greedy, beam and sampling search for many sentences at once, over any `Decoder`; ids in, ids out.

Each sentence is searched as if it were alone: its options, its stop and its greatest length are its
own, and it leaves the batch at the step that completes it.

Axes: B sentences, S pieces of the source, K beams, N candidates, V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from foretell.runtime.search.banned import BannedSequences
from foretell.runtime.search.beams import Beams
from foretell.runtime.search.candidates import Candidates, Choice, choose
from foretell.runtime.search.constraints import (
    banned_places,
    looks_back,
    needs_log_probs,
    own_candidates,
)
from foretell.runtime.search.decoding import Decoder, StepAnswer, StepRequest
from foretell.runtime.search.hypotheses import FoundHypothesis, SearchRequest, Sentence
from foretell.runtime.search.rules import Banned, Rules


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Progress:
    """What a step has brought for a sentence.

    Attributes:
        row: Its place among the requests.
        tokens: More tokens of the hypothesis that will be the best, without the end token; none of
            them is ever taken back.
        answer: All that was found, once the sentence is complete.
    """

    row: int
    tokens: tuple[int, ...]
    answer: list[FoundHypothesis] | None = None


# Called after each step with the search, whose `progress` may be asked for. It returns the rows to
# give up; what it raises ends the whole search.
OnStep = Callable[["Search"], Collection[int] | None]


def search(
    decoder: Decoder,
    src: Int64[np.ndarray, "B S"],
    src_mask: Bool[np.ndarray, "B S"],
    requests: Sequence[SearchRequest],
    on_step: OnStep | None = None,
) -> list[list[FoundHypothesis]]:
    """Search for the translations of some sentences.

    Args:
        decoder: The model.
        src: The sources, padded on the right.
        src_mask: True where a piece is; at least one in each row.
        requests: What is asked for each.
        on_step: Is told of every step; see `OnStep`.

    Returns:
        For each sentence its hypotheses, the best first, at most `n_best`; fewer where fewer were
        found, none where the model gives no hypothesis a probability above 0, and where the
        sentence was given up before one ended.
    """
    if not requests:
        return []
    running = Search(decoder, src, src_mask, requests)
    while not running.is_done:
        running.step()
        if on_step is not None:
            running.give_up(on_step(running) or ())
    return running.answers


class Search:
    """A search on its way, a step at a time.

    Attributes:
        answers: What was found for each request; empty until its sentence is complete.
    """

    def __init__(
        self,
        decoder: Decoder,
        src: Int64[np.ndarray, "B S"],
        src_mask: Bool[np.ndarray, "B S"],
        requests: Sequence[SearchRequest],
    ) -> None:
        """Read the sources; see `search`."""
        lengths = np.count_nonzero(src_mask, axis=1).tolist()
        self.answers: list[list[FoundHypothesis]] = [[] for _ in requests]
        self._decoder = decoder
        banned = {id(request.banned): request.banned for request in requests}
        shared = {key: BannedSequences(sequences) for key, sequences in banned.items()}
        self._sentences = [
            Sentence(row, request, length, shared[id(request.banned)])
            for row, (request, length) in enumerate(zip(requests, lengths, strict=True))
        ]
        self._completed: list[Sentence] = []  # by the last step
        self._all_plain = not any(
            needs_log_probs(request, 0) or looks_back(request) for request in requests
        )
        self._rules = Rules.of(requests)
        # The width of all steps but the first follows from options, never from what is found.
        self._width = int(self._rules.beam_sizes.max())
        self._with_attention = decoder.has_attention and any(
            request.wants_attention for request in requests
        )
        self._beams = Beams.start(
            len(requests), source_length=src.shape[1], with_attention=self._with_attention
        )
        self._state = decoder.start(src, src_mask)

    @property
    def is_done(self) -> bool:
        """Whether every sentence is complete."""
        return not self._sentences

    @property
    def completed(self) -> list[int]:
        """Places among the requests of the sentences that the last step has completed."""
        return [sentence.row for sentence in self._completed]

    def step(self) -> None:
        """Go one token on with every sentence that is not complete."""
        beams, rules = self._beams, self._rules
        vocab_size = self._decoder.vocab_size
        own, banned = ([], {}) if self._all_plain else self._special()
        answer = self._ask(banned, own)
        candidates = rules.allow(answer, beams.sums, beams.positions, banned, vocab_size)
        if own:
            candidates = self._with_own(candidates, answer, own)
        choice = choose(candidates, rules.beam_sizes, rules.considered, self._width)
        self._state = answer.state
        self._completed = []
        self._end(choice)
        self._beams = beams.grow(choice, answer.attention)
        self._leave(self._complete())

    def progress(self) -> list[Progress]:
        """Tell what the last step has brought, for each sentence that took part in it."""
        news = [
            Progress(row=sentence.row, tokens=sentence.tell(self._beams.held(row)))
            for row, sentence in enumerate(self._sentences)
        ]
        for sentence in self._completed:
            answer = self.answers[sentence.row]
            rest = answer[0].token_ids[sentence.num_told :] if answer else ()
            news.append(Progress(row=sentence.row, tokens=rest, answer=answer))
        return news

    def give_up(self, rows: Collection[int]) -> None:
        """Complete some of the requests now, with what has ended so far."""
        if rows:
            self._leave([sentence.row in rows for sentence in self._sentences])

    def _special(self) -> tuple[list[int], Banned]:
        """Find the rows that choose among all tokens, and what may not follow in the others."""
        beams, vocab_size = self._beams, self._decoder.vocab_size
        own, banned = [], {}
        for row, sentence in enumerate(self._sentences):
            if needs_log_probs(sentence.request, int(beams.positions[row])):
                own.append(row)
            elif looks_back(sentence.request):
                banned[row] = banned_places(
                    sentence.request, sentence.banned, beams.held(row), vocab_size
                )
        return own, banned

    def _ask(self, banned: Banned, own: list[int]) -> StepAnswer:
        """Have the decoder go a step."""
        beams = self._beams
        num_beams = beams.sums.shape[1]
        count = self._rules.num_candidates(beams.positions, num_beams, banned)
        if len(own) == len(self._sentences):
            count = 0
        return self._decoder.step(
            self._state,
            StepRequest(
                tokens=beams.last,
                scores=beams.scores,
                parents=beams.parents,
                positions=beams.positions,
                num_candidates=min(count, num_beams * self._decoder.vocab_size),
                want_log_probs=bool(own),
                want_attention=self._with_attention,
            ),
        )

    def _with_own(self, candidates: Candidates, answer: StepAnswer, own: list[int]) -> Candidates:
        """Put some rows' own choice out of the whole distribution beside the decoder's."""
        beams, log_probs = self._beams, answer.log_probs
        assert log_probs is not None  # they were asked for
        found = {}
        for row in own:
            held = beams.held(row)
            live = len(held)
            found[row] = own_candidates(
                self._sentences[row], beams.sums[row, :live], held, log_probs[row, :live]
            )
        candidates = candidates.padded(max(one.tokens.shape[1] for one in found.values()))
        for row, one in found.items():
            candidates.replace(row, one)
        return candidates

    def _end(self, choice: Choice) -> None:
        """Hand the hypotheses that end to their sentences."""
        beams = self._beams
        ended = zip(
            choice.ended_rows.tolist(),
            choice.ended_parents.tolist(),
            choice.ended_log_probs,
            choice.ended_sums.tolist(),
            strict=True,
        )
        for row, beam, log_prob, sum_ in ended:
            tokens, log_probs, attention = beams.history(row, beam)
            self._sentences[row].end(sum_, tokens, np.append(log_probs, log_prob), attention)

    def _complete(self) -> list[bool]:
        """Find the sentences that need no further step."""
        beams, rules = self._beams, self._rules
        full = (beams.positions == rules.max_lengths).tolist()
        for row, is_full in enumerate(full):
            if is_full:
                sentence = self._sentences[row]
                for beam in range(len(beams.held(row))):
                    sentence.cut(float(beams.sums[row, beam]), *beams.history(row, beam))
        # Sums only fall and norms only rise: no descendant of the best live one comes above this.
        bests = beams.sums[:, 0]
        bounds = (bests / rules.max_norms).tolist()
        live = zip(bests.tolist(), beams.positions.tolist(), strict=True)
        return [
            is_full or sentence.bar >= bound or sentence.is_content(*best)
            for is_full, sentence, bound, best in zip(
                full, self._sentences, bounds, live, strict=True
            )
        ]

    def _leave(self, complete: Sequence[bool]) -> None:
        """Take complete sentences out of the batch, at once: what stays costs a step, each time."""
        if not any(complete):
            return
        for sentence, is_complete in zip(self._sentences, complete, strict=True):
            if is_complete:
                self.answers[sentence.row] = sentence.answer
                self._completed.append(sentence)
        kept = [row for row, is_complete in enumerate(complete) if not is_complete]
        self._sentences = [self._sentences[row] for row in kept]
        if kept:
            rows = np.array(kept)
            self._rules = self._rules.keep(rows)
            self._beams = self._beams.keep(rows)
            self._state = self._decoder.keep(self._state, rows)
