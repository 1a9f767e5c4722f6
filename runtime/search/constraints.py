"""What a sentence's options forbid, punish and demand of the next token.

Axes: K live hypotheses of one sentence, n tokens of each, V vocabulary, N candidates, m places.
"""

import numpy as np
from jaxtyping import Float32, Float64, Int64

from foretell.data.text.tokenizer import EOS, UNK
from foretell.runtime.search.banned import BannedSequences
from foretell.runtime.search.candidates import Candidates, highest, num_considered
from foretell.runtime.search.hypotheses import SearchRequest, Sentence
from foretell.runtime.search.sampling import draw


def looks_back(request: SearchRequest) -> bool:
    """Whether what is forbidden depends on more than the place: `banned_places` has to be asked."""
    return bool(request.options.no_repeat_ngram_size or request.banned)


def needs_log_probs(request: SearchRequest, position: int) -> bool:
    """Whether the next token is chosen by more than the decoder's best candidates."""
    options = request.options
    return options.sample or options.repetition_penalty != 1.0 or position < len(request.prefix)


def banned_places(
    request: SearchRequest,
    banned: BannedSequences,
    tokens: Int64[np.ndarray, "K n"],
    vocab_size: int,
) -> Int64[np.ndarray, " m"]:
    """Find what would complete a banned sequence or an n-gram that a hypothesis holds already.

    Args:
        request: Of the sentence.
        banned: What the request bans.
        tokens: Of each live hypothesis, its own: each has its own past.
        vocab_size: V.

    Returns:
        beam · V + token, each once, rising.
    """
    length = tokens.shape[1]
    places = [banned.places(tokens, vocab_size)]
    size = request.options.no_repeat_ngram_size
    if 0 < size <= length:
        ngrams = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=1)  # [K n-size+1 size]
        tails = tokens[:, None, length - size + 1 :]
        beams, starts = np.nonzero((ngrams[..., :-1] == tails).all(axis=-1))
        places.append(beams * vocab_size + ngrams[beams, starts, -1])
    return np.unique(np.concatenate(places))


def own_candidates(
    sentence: Sentence,
    sums: Float64[np.ndarray, " K"],
    tokens: Int64[np.ndarray, "K n"],
    log_probs: Float32[np.ndarray, "K V"],
) -> Candidates:
    """Choose candidates out of the whole distribution, where the decoder's best won't do.

    Args:
        sentence: What is asked for.
        sums: What its live hypotheses are ranked by.
        tokens: What they hold.
        log_probs: By the model.

    Returns:
        A batch of one sentence, ordered as a decoder does.
    """
    request, options = sentence.request, sentence.request.options
    num_live, length = tokens.shape
    vocab_size = log_probs.shape[1]
    gains = log_probs.copy()
    if options.repetition_penalty != 1.0:
        held = np.zeros(gains.shape, dtype=bool)
        held[np.arange(num_live)[:, None], tokens] = True
        gains[held] *= np.float32(options.repetition_penalty)

    if length < len(request.prefix):
        places = np.arange(num_live) * vocab_size + request.prefix[length]
    else:
        _forbid(gains, sentence, tokens)
        if options.sample and np.any(gains > -np.inf):
            places = np.array([draw(gains[0], options, sentence.generator)])
        else:
            scores = (sums - sums[0]).astype(np.float32)
            places = highest((scores[:, None] + gains).ravel(), num_considered(options.beam_size))
    parents, chosen = np.divmod(places, vocab_size)
    return Candidates(
        parents[None],
        chosen[None],
        log_probs[parents, chosen][None],
        (sums[parents] + gains[parents, chosen])[None],
    )


def _forbid(
    gains: Float32[np.ndarray, "K V"], sentence: Sentence, tokens: Int64[np.ndarray, "K n"]
) -> None:
    """Set what may not be to -inf; where nothing is left, the end may be, as a last resort."""
    request, options = sentence.request, sentence.request.options
    length = tokens.shape[1]
    ends = gains[:, EOS].copy()
    if length + 1 < options.min_length:
        gains[:, EOS] = -np.inf
    if not options.replace_unknowns:
        gains[:, UNK] = -np.inf
    places = banned_places(request, sentence.banned, tokens, gains.shape[1])
    gains.ravel()[places] = -np.inf
    if not np.any(gains > -np.inf):
        gains[:, EOS] = ends
