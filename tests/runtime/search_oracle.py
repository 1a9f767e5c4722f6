"""One sentence searched the slow and obvious way: the meaning of every option in plain Python.

It knows the whole table, keeps everything it has ever seen end, and follows no clever path.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foretell.data.text.tokenizer import EOS, UNK
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.hypotheses import SearchRequest

Table = Callable[[tuple[int, ...], tuple[int, ...]], Sequence[float]]


@dataclass
class Held:
    """A hypothesis; `ranked` is the sum that it is ranked by."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    ranked: float = 0.0
    score: float = 0.0
    reason: str = ""


@dataclass
class Next:
    """What one of the hypotheses may continue with."""

    beam: int
    token: int
    log_prob: float
    gain: float


def search_slowly(table: Table, source: tuple[int, ...], request: SearchRequest) -> list[Held]:
    options = request.options
    random = np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(options.seed, spawn_key=(request.place,)))
    )
    live = [Held()]
    ended: list[Held] = []
    while live and not is_enough(live, ended, request):
        choices = continuations(table, source, live, request)
        if options.sample and len(live[0].tokens) >= len(request.prefix) and choices:
            choices = [drawn(choices, options, random)]
        # The highest sum first, then the better beam, then the lower token.
        choices.sort(key=lambda one: (-(live[one.beam].ranked + one.gain), one.beam, one.token))
        grown: list[Held] = []
        for rank, one in enumerate(choices):
            before = live[one.beam]
            after = Held(
                before.tokens if one.token == EOS else (*before.tokens, one.token),
                (*before.log_probs, one.log_prob),
                before.ranked + one.gain,
            )
            after.score = after.ranked / norm(options, len(after.log_probs))
            if one.token == EOS and rank < options.beam_size:
                after.reason = "eos"
                ended.append(after)
            elif one.token != EOS and len(grown) < options.beam_size:
                grown.append(after)
        if options.beam_size == 1 and choices and choices[0].token == EOS:
            grown = []  # greedy search ends with the most probable token
        live = grown
        if live and len(live[0].tokens) == request.max_length:
            for cut in live:
                cut.reason = "length"
            return (best_first(ended, options) + live)[: options.n_best]
    return best_first(ended, options)


def norm(options: TranslateOptions, length: int) -> float:
    a = options.length_penalty
    return length**a if options.length_formula == "power" else ((5 + length) / 6) ** a


def best_first(ended: list[Held], options: TranslateOptions) -> list[Held]:
    """A stable sort: of equals the one that ended first."""
    return sorted(ended, key=lambda held: -held.score)[: options.n_best]


def is_enough(live: list[Held], ended: list[Held], request: SearchRequest) -> bool:
    options = request.options
    best = best_first(ended, options)
    patience = 1.0 if options.beam_size == 1 else options.patience * options.beam_size
    if ended and len(ended) >= patience:
        leader = max(live, key=lambda held: held.ranked)
        if best[0].score >= leader.ranked / norm(options, len(leader.tokens)):
            return True
    if len(best) < options.n_best:
        return False
    # Whatever a live hypothesis becomes, its sum can't rise, and no norm is above the longest's.
    highest = max(held.ranked for held in live) / norm(options, request.max_length)
    return best[-1].score >= highest


def continuations(
    table: Table, source: tuple[int, ...], live: list[Held], request: SearchRequest
) -> list[Next]:
    every = []
    for beam, held in enumerate(live):
        for token, log_prob in enumerate(table(source, held.tokens)):
            repeats = token in held.tokens
            gain = log_prob * request.options.repetition_penalty if repeats else log_prob
            if log_prob > -math.inf:
                every.append(Next(beam, token, log_prob, gain))
    allowed = [one for one in every if may_follow(live[one.beam].tokens, one.token, request)]
    if len(live[0].tokens) < len(request.prefix):
        return allowed
    return allowed or [one for one in every if one.token == EOS]


def may_follow(tokens: tuple[int, ...], token: int, request: SearchRequest) -> bool:
    options = request.options
    if len(tokens) < len(request.prefix):
        return token == request.prefix[len(tokens)]
    after = (*tokens, token)
    if token == EOS:
        return len(after) >= options.min_length
    if token == UNK and not options.replace_unknowns:
        return False
    if any(after[-len(sequence) :] == sequence for sequence in request.banned):
        return False
    size = options.no_repeat_ngram_size
    if size and len(after) >= size:
        ngrams = [after[i : i + size] for i in range(len(after) - size + 1)]
        return ngrams[-1] not in ngrams[:-1]
    return True


def drawn(choices: list[Next], options: TranslateOptions, random: np.random.Generator) -> Next:
    likely = sorted(choices, key=lambda one: (-one.gain, one.token))
    weight = {
        one.token: math.exp((one.gain - likely[0].gain) / options.temperature) for one in likely
    }
    if options.top_k:
        likely = likely[: options.top_k]
    kept, whole = [], sum(weight[one.token] for one in likely)
    for one in likely:
        if options.top_p == 1.0 or sum(weight[k.token] for k in kept) < options.top_p * whole:
            kept.append(one)
    kept.sort(key=lambda one: one.token)
    height = random.random() * sum(weight[one.token] for one in kept)
    for one in kept:
        height -= weight[one.token]
        if height < 0:
            return one
    return kept[-1]
