"""Text to the ids of its pieces and back, by a SentencePiece model that travels in the bundle.

Text is never control: no id of `PAD`, `BOS`, `EOS` comes from any text.
"""

import codecs
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from foretell.data.errors import BundleError
from foretell.data.text.normalising import normalise

PAD, BOS, EOS, UNK = 0, 1, 2, 3
TOKENIZER_FILE = "tokenizer.model"
UNKNOWN_TEXT = "\u2047"  # how a piece outside the vocabulary reads: ⁇

_SPACE = "\u2581"  # how pieces spell the space before a word
# A U+2581 of the text would be taken for a space, so it travels as a character that no normal text
# holds, and its bytes are put in its place.
_STAND_IN = "\x01"
_ANY_SEED = 2**32 - 1
_JOINERS = "\u200c\u200d"


class Tokenizer:
    """Splits text into the pieces of a fixed vocabulary; safe to share between threads.

    Attributes:
        vocab_size: V; ids are 0 to V - 1.
        byte_fallback: Characters outside the vocabulary are spelled in bytes, so that
            `decode(encode(text)) == normalise(text)` for every text; else they become `UNK`.
    """

    def __init__(self, model: bytes) -> None:
        """Read a SentencePiece model; `from_file` and `from_bytes` say the same in words.

        Raises:
            BundleError: It is none, or not one that `train_tokenizer` makes; all reasons are told.
        """
        self._model = model
        self._processor, self._pieces = _read(model)
        self.vocab_size: int = len(self._pieces)
        bytes_ = [token for token in range(self.vocab_size) if self._processor.is_byte(token)]
        self.byte_fallback = bool(bytes_)
        self._surfaces = [piece.replace(_SPACE, " ").encode() for piece in self._pieces]
        for token in (PAD, BOS, EOS):
            self._surfaces[token] = b""
        for token in bytes_:
            self._surfaces[token] = bytes([int(self._pieces[token][1:-1], 16)])
        by_byte = {self._surfaces[token]: token for token in bytes_}
        self._stand_in = by_byte.get(_STAND_IN.encode(), -1)
        self._meant = [by_byte[bytes([byte])] for byte in _SPACE.encode()] if bytes_ else []

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Read a tokenizer's file.

        Raises:
            BundleError: It can't be read, or is no tokenizer.
        """
        try:
            return cls(Path(path).read_bytes())
        except OSError as error:
            raise BundleError(f"tokenizer {path} can't be read ({error.strerror}).") from error
        except BundleError as error:
            raise BundleError([f"tokenizer {path}: {text}" for text in error.problems]) from error

    @classmethod
    def from_bytes(cls, model: bytes) -> "Tokenizer":
        """Take a tokenizer from the bytes of its file.

        Raises:
            BundleError: They are no tokenizer.
        """
        return cls(model)

    def to_bytes(self) -> bytes:
        """Return the bytes of its file."""
        return self._model

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[bytes]]:
        return Tokenizer, (self._model,)

    def encode(self, text: str, *, is_normal: bool = False) -> list[int]:
        """Split a text, brought into its normal form, into ids of pieces; none of them is special.

        Args:
            text: Any text. Names of control tokens in it are text; so are U+2581 and U+2047.
            is_normal: It is in its normal form already.

        Returns:
            The ids, without `BOS` and `EOS`; `UNK` for what the vocabulary can't spell.
        """
        normal = text if is_normal else normalise(text)
        return self._unshield(self._processor.encode_as_ids(normal.replace(_SPACE, _STAND_IN)))

    def encode_varied(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Spell texts with some merges of pieces left out at random, as training may want them.

        This is BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267); `decode` reads the spellings
        like the usual ones. The same texts and seed give the same spellings. The tokenizer must be
        one of merges (model_type "bpe", as every training makes it).

        Args:
            texts: Any texts.
            dropout: Share of merges left out, [0, 1]; 0 spells as `encode` does.
            seed: Fixes the choice, 0 to 2**32 - 1.
        """
        # Of this thread; every call sets it anew. To sentencepiece the last one means any seed.
        sentencepiece.set_random_generator_seed(seed % _ANY_SEED)
        return [
            self._unshield(
                self._processor.encode(
                    normalise(text).replace(_SPACE, _STAND_IN),
                    enable_sampling=True,
                    alpha=dropout,
                    nbest_size=-1,
                )
            )
            for text in texts
        ]

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """Join pieces to a text in its normal form: one line, valid Unicode.

        Args:
            ids: `PAD`, `BOS` and `EOS` are left out. Bytes that are no UTF-8 read as U+FFFD.
            unknowns: What each `UNK` stands for, in their order; U+2047 where there is none.

        Raises:
            ValueError: An id is outside the vocabulary.
        """
        return normalise(self._join(ids, unknowns).decode("utf-8", "replace"))

    def decode_settled(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """Return the start of `decode(ids)` that no further ids can change, for token streams.

        The last word is held back, because it may go on; so is half a character. Wide characters
        (Chinese, Japanese, Korean) are words of their own here.
        """
        joined = self._join(ids, unknowns)
        text = normalise(codecs.getincrementaldecoder("utf-8")("replace").decode(joined))
        for place in range(len(text) - 1, 0, -1):
            if text[place] == " " or (text[place - 1] not in _JOINERS and _is_word(text[place])):
                return text[:place].rstrip(" ")
        return ""

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Name pieces as the vocabulary does, U+2581 for a space.

        Raises:
            ValueError: An id is outside the vocabulary.
        """
        self._check(ids)
        return tuple(self._pieces[token] for token in ids)

    def words(self, text: str, *, is_normal: bool = False) -> tuple[str, ...]:
        """Name for each piece of `encode(text)` the word it belongs to, as the normal text has it.

        This is what an unknown token is replaced by.
        """
        return tuple(word for _, word in self._spelled(text if is_normal else normalise(text)))

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """List the words of a text that the vocabulary can't spell, each once, in their order."""
        return tuple(
            dict.fromkeys(word for token, word in self._spelled(normalise(text)) if token == UNK)
        )

    def _spelled(self, normal: str) -> list[tuple[int, str]]:
        words = normal.split(" ")
        shielded = normal.replace(_SPACE, _STAND_IN)
        surfaces = self._processor.encode_as_pieces(shielded)
        spelled = []
        word = -1
        for token, surface in zip(self._processor.encode_as_ids(shielded), surfaces, strict=True):
            begins = surface.startswith(_SPACE)
            word += begins
            meant = self._meant if token == self._stand_in else [token]
            spelled += [(one, words[word]) for one in meant]
            word += surface.count(_SPACE) - begins  # a piece over several words counts to its first
        return spelled

    def _unshield(self, ids: list[int]) -> list[int]:
        if self._stand_in not in ids:
            return ids
        return [
            meant
            for token in ids
            for meant in (self._meant if token == self._stand_in else [token])
        ]

    def _join(self, ids: Sequence[int], unknowns: Sequence[str]) -> bytes:
        self._check(ids)
        if UNK not in ids:
            return b"".join([self._surfaces[token] for token in ids])
        stand_for = iter(unknowns)
        return b"".join(
            next(stand_for, UNKNOWN_TEXT).encode("utf-8", "replace")
            if token == UNK
            else self._surfaces[token]
            for token in ids
        )

    def _check(self, ids: Sequence[int]) -> None:
        wrong = [int(token) for token in ids if not 0 <= token < self.vocab_size]
        if wrong:
            raise ValueError(f"the ids {wrong} are no pieces; expected 0 to {self.vocab_size - 1}.")


def _is_word(character: str) -> bool:
    """Tell whether a character starts anew whatever stands before it, without a space."""
    wide = unicodedata.east_asian_width(character) in "WF"
    return wide and unicodedata.category(character) not in ("Mn", "Mc", "Sk")


def _read(model: bytes) -> tuple[sentencepiece.SentencePieceProcessor, list[str]]:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
        pieces = [processor.id_to_piece(token) for token in range(processor.vocab_size())]
    except (RuntimeError, UnicodeDecodeError) as error:
        raise BundleError("this is no SentencePiece model, or a damaged one.") from error
    found = [processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()]
    problems = []
    if found != [PAD, BOS, EOS, UNK]:
        problems.append(
            f"the ids of pad, bos, eos and unk are {found}; expected {[PAD, BOS, EOS, UNK]}. "
            "Train it with foretell."
        )
    if processor.normalize("ﬁ Ａ") != "▁ﬁ▁Ａ":
        problems.append(
            "it normalises text by its own rules; expected the identity with a space put before "
            "the text. Train it with foretell."
        )
    if problems:
        raise BundleError(problems)
    return processor, pieces
