"""Learns a tokenizer from sentences."""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import sentencepiece

from foretell.data.errors import OptionError
from foretell.data.text.normalising import normalise
from foretell.data.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

# SentencePiece keeps these for itself: the first spells a space, a sentence with the second is
# left out. Neither is worth a piece; in text that is encoded both are spelled in bytes.
_RESERVED = re.compile("[\u2581\u2585]+")
_TOO_SMALL = re.compile(r"required_chars\. \d+ vs (\d+)")
_NUM_SPECIAL, _NUM_BYTES = 4, 256


def train_tokenizer(
    sentences: Iterable[str],
    vocab_size: int,
    path: Path,
    *,
    model_type: Literal["bpe", "unigram"] = "bpe",
    byte_fallback: bool = True,
    character_coverage: float = 1.0,
) -> Tokenizer:
    """Learn a tokenizer as `learn_tokenizer` does, and write its file, which is replaced."""
    tokenizer = learn_tokenizer(
        sentences,
        vocab_size,
        model_type=model_type,
        byte_fallback=byte_fallback,
        character_coverage=character_coverage,
    )
    path.write_bytes(tokenizer.to_bytes())
    return tokenizer


def learn_tokenizer(
    sentences: Iterable[str],
    vocab_size: int,
    *,
    model_type: Literal["bpe", "unigram"] = "bpe",
    byte_fallback: bool = True,
    character_coverage: float = 1.0,
) -> Tokenizer:
    """Learn the pieces of a language, or of two together.

    The same sentences in the same order give the same tokenizer, to the byte.

    Args:
        sentences: Text of any form; blank ones count for nothing. They are held in memory.
        vocab_size: Most pieces, special ones and bytes among them. A text that doesn't hold so
            many gives fewer; the tokenizer's own `vocab_size` says how many.
        model_type: Merges of frequent pairs, or the likeliest set of pieces.
        byte_fallback: Spell characters outside the vocabulary in bytes (256 pieces for it).
        character_coverage: Share of the text's characters that get pieces; the rest, the rarest,
            is left to the bytes or unknown.

    Raises:
        OptionError: An option is out of its range, or `vocab_size` has no room for the characters.
    """
    _check(vocab_size, model_type, character_coverage)
    model = io.BytesIO()
    failures: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_readable(sentences, failures),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            hard_vocab_limit=False,
            max_sentence_length=1 << 30,  # the default drops long sentences without a word
            num_threads=1,
            minloglevel=3,
        )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        raise OptionError(_reason(str(error), vocab_size, byte_fallback)) from error
    return Tokenizer(model.getvalue())


def _readable(sentences: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """Hand on what is text; keep what the sentences raise, of which C++ leaves words only."""
    try:
        for sentence in sentences:
            text = normalise(_RESERVED.sub(" ", sentence))
            if text:
                yield text
    except BaseException as error:
        failures.append(error)
        raise


def _check(vocab_size: int, model_type: str, character_coverage: float) -> None:
    problems = []
    if not 5 <= vocab_size <= 1_000_000:
        problems.append(f"vocab_size is {vocab_size}; it must be a whole number of 5 to 1,000,000.")
    if model_type not in ("bpe", "unigram"):
        problems.append(f"model_type is {model_type!r}; it must be bpe or unigram.")
    if not 0.9 <= character_coverage <= 1:
        problems.append(f"character_coverage is {character_coverage}; it must be 0.9 to 1.")
    if problems:
        raise OptionError(problems)


def _reason(message: str, vocab_size: int, byte_fallback: bool) -> str:
    if "sentences_.empty()" in message:
        return "the sentences to learn a tokenizer from are all blank; give some text."
    if too_small := _TOO_SMALL.search(message):
        least = int(too_small[1])
        num_bytes = _NUM_BYTES if byte_fallback else 0
        of_bytes = f"{num_bytes} bytes, " if byte_fallback else ""
        return (
            f"vocab_size is {vocab_size:,}, but this text needs at least {least:,} pieces: "
            f"{least - num_bytes - _NUM_SPECIAL:,} for its characters, {of_bytes}"
            f"{_NUM_SPECIAL} special ones. Set vocab_size to {least:,} or more."
        )
    return f"no tokenizer can be learned from these sentences: {message}"
