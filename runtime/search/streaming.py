"""The text of one translation while it is being found.

Axes: B one sentence, S pieces of its source.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.text.tokenizer import UNK, Tokenizer
from foretell.data.text.translation import Translation, TranslationPart
from foretell.runtime.answers import write_translation
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.search import Search
from foretell.runtime.sources import SentenceTask


def stream_search(
    decoder: OnnxDecoder,
    task: SentenceTask,
    src: Int64[np.ndarray, "B S"],
    src_mask: Bool[np.ndarray, "B S"],
    tokenizer: Tokenizer,
) -> Iterator[TranslationPart | Translation]:
    """Search for a translation; yield a part a step, which may be empty, and the whole at the end.

    Args:
        decoder: The model; each step runs on one of its session's threads.
        task: The sentence.
        src: Its source.
        src_mask: True where a piece is.
        tokenizer: The model's.

    Raises:
        OptionError: Nothing was found.
    """
    running = Search(decoder, src, src_mask, [task.request])
    ids: list[int] = []
    told = ""
    while True:
        decoder.session.for_each(lambda _: running.step(), [None])
        (news,) = running.progress()
        if running.is_done:
            break
        ids += news.tokens
        # What an unknown token reads as is told at the end.
        known = ids[: ids.index(UNK)] if UNK in ids else ids
        settled = tokenizer.decode_settled(known)
        yield TranslationPart(text=settled[len(told) :], tokens=tokenizer.pieces(news.tokens))
        told = settled
    translation = write_translation(task, running.answers[0], tokenizer)
    yield TranslationPart(text=translation.text[len(told) :], tokens=tokenizer.pieces(news.tokens))
    yield translation
