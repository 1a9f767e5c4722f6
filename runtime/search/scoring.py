"""How probable given translations are: the decoder is led along them, a token a step.

Axes: B sentences, S pieces of the source.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.text.tokenizer import BOS
from foretell.runtime.search.decoding import Decoder, StepRequest


def score_targets(
    decoder: Decoder,
    src: Int64[np.ndarray, "B S"],
    src_mask: Bool[np.ndarray, "B S"],
    targets: Sequence[Sequence[int]],
    on_step: Callable[[], None] | None = None,
) -> list[list[float]]:
    """Tell the log probability of each token of given targets.

    Args:
        decoder: The model.
        src: The sources, padded on the right.
        src_mask: True where a piece is.
        targets: Of each source, the end token at its end; none is empty.
        on_step: Called before each step; what it raises ends the scoring.

    Returns:
        log P of each token given those before it.
    """
    found: list[list[float]] = [[] for _ in targets]
    rows = np.arange(len(targets))
    state = decoder.start(src, src_mask)
    for position in range(max(map(len, targets))):
        going = np.array([len(targets[row]) > position for row in rows.tolist()])
        if not going.all():
            rows, state = rows[going], decoder.keep(state, np.flatnonzero(going))
        if on_step is not None:
            on_step()
        tokens = [targets[row][position - 1] if position else BOS for row in rows.tolist()]
        answer = decoder.step(state, _request(tokens, position))
        state = answer.state
        assert answer.log_probs is not None  # they were asked for
        for row, log_probs in zip(rows.tolist(), answer.log_probs, strict=True):
            found[row].append(float(log_probs[0, targets[row][position]]))
    return found


def _request(tokens: list[int], position: int) -> StepRequest:
    count = len(tokens)
    return StepRequest(
        tokens=np.array(tokens, dtype=np.int64)[:, None],
        scores=np.zeros((count, 1), dtype=np.float32),
        parents=np.zeros((count, 1), dtype=np.int64),
        positions=np.full(count, position, dtype=np.int64),
        want_log_probs=True,
    )
