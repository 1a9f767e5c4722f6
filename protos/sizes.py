"""How large an answer may become, reckoned alike by who cuts requests and by who takes them."""

import math

_NUMBER_BYTES = 8
_TOKEN_BYTES = 24  # its log probability, its piece, its share of the text, tags
_SENTENCE_BYTES = 400  # any sentence may be refused, and then has a reason; else its few numbers
_ENDS = 2  # pieces that a tokenizer may add at the ends


def translation_bytes(
    num_characters: int,
    *,
    max_source_length: int,
    max_target_length: int,
    n_best: int,
    max_length: int | None,
    max_length_ratio: float,
    max_length_margin: int,
    attention: bool,
) -> int:
    """Reckon the answer to one sentence: hardly a piece is shorter than a character.

    Args:
        num_characters: Of the sentence.
        max_source_length: The model's, in pieces.
        max_target_length: The model's, in pieces.
        n_best: See `TranslateOptions`; so the next three.
        max_length: None where it isn't given.
        max_length_ratio: See there.
        max_length_margin: See there.
        attention: Attention is asked for, and the model has it.
    """
    source = min(num_characters + _ENDS, max_source_length)
    target = max_length or math.ceil(max_length_ratio * source) + max_length_margin
    target = min(target, max_target_length)
    a_token = _TOKEN_BYTES + (_NUMBER_BYTES * source if attention else 0)
    return _SENTENCE_BYTES + source * _TOKEN_BYTES + n_best * target * a_token


def pair_score_bytes(num_characters: int) -> int:
    """Reckon the answer to one pair whose target has so many characters."""
    return _SENTENCE_BYTES + (num_characters + _ENDS) * _TOKEN_BYTES
