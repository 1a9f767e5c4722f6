"""Text as models see it: its normal form, its pieces, and how pieces are learned."""

from foretell.data.text.normalising import is_blank, is_copied, normalise
from foretell.data.text.tokenizer import BOS, EOS, PAD, TOKENIZER_FILE, UNK, UNKNOWN_TEXT, Tokenizer
from foretell.data.text.tokenizer_training import learn_tokenizer, train_tokenizer

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "TOKENIZER_FILE",
    "UNK",
    "UNKNOWN_TEXT",
    "Tokenizer",
    "is_blank",
    "is_copied",
    "learn_tokenizer",
    "normalise",
    "train_tokenizer",
]
