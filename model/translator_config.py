"""What can be chosen about a translator and about its training; checked once, when it is made."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from foretell.data.errors import OptionError
from foretell.model.loop_config import (
    JsonConfig,
    LoopConfig,
    choice_problems,
    share_problems,
    whole_problems,
)

Cell = Literal["tanh", "gru", "lstm"]
Score = Literal["none", "dot", "scaled_dot", "additive"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig(JsonConfig):
    """The shape of a Transformer translator.

    Attributes:
        vocab_size: Pieces; source and target share them.
        d_model: Width of a token.
        num_heads: Attention heads; each has d_model / num_heads dimensions.
        d_ff: Width inside the feed-forward layers.
        num_encoder_layers: Blocks of the encoder.
        num_decoder_layers: Blocks of the decoder.
        norm: "layer" (LayerNorm) or "rms" (RMSNorm).
        norm_first: Normalise before each sub-layer (pre-norm) or after its sum (post-norm).
        activation: "relu" as in the first Transformer, or "swiglu".
        tied_output: The output layer multiplies by the embeddings, or by weights of its own.
        dropout: Share of activations dropped in training, [0, 1).
        max_source_length: Longest source in tokens, its end token counted. Positions are computed,
            so it may exceed what training saw.
        max_target_length: Longest translation in tokens, its end token counted.
    """

    vocab_size: int
    d_model: int = 256
    num_heads: int = 4
    d_ff: int = 512
    num_encoder_layers: int = 3
    num_decoder_layers: int = 3
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = True
    activation: Literal["swiglu", "relu"] = "relu"
    tied_output: bool = True
    dropout: float = 0.1
    max_source_length: int = 256
    max_target_length: int = 256

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        layers = ("num_encoder_layers", "num_decoder_layers")
        problems = [
            *whole_problems(values, 5, "vocab_size"),
            *whole_problems(values, 1, "d_model", "num_heads", "d_ff", *layers),
            *whole_problems(values, 2, "max_source_length", "max_target_length"),
            *choice_problems(
                norm=(self.norm, ("layer", "rms")),
                norm_first=(self.norm_first, (True, False)),
                activation=(self.activation, ("swiglu", "relu")),
                tied_output=(self.tied_output, (True, False)),
            ),
            *share_problems(values, ")", "dropout"),
        ]
        if not problems and self.d_model % self.num_heads:
            problems.append(f"d_model {self.d_model} doesn't split into {self.num_heads} heads.")
        if not problems and self.d_model % 2:
            problems.append(f"d_model {self.d_model} is odd; sines and cosines come in pairs.")
        if problems:
            raise OptionError(problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentConfig(JsonConfig):
    """The shape of a recurrent translator.

    Attributes:
        vocab_size: Pieces; source and target share them.
        d_model: Width of embeddings, memory and decoder state. A bidirectional encoder gives each
            direction half of it.
        num_layers: Recurrent layers of the encoder, and of the decoder.
        cell: "tanh" (the plain recurrent cell), "gru" or "lstm".
        bidirectional: The encoder reads both ways.
        attention: How a decoder state scores the source: "dot", "scaled_dot", "additive", or
            "none", where one fixed context vector is all that the decoder knows of the source.
        input_feeding: The decoder reads its last output beside the last token. Without attention
            it reads the context vector instead.
        tied_output: The output layer multiplies by the embeddings, or by weights of its own.
        dropout: Share of activations dropped in training, [0, 1): of embeddings, memory, outputs.
        max_source_length: Longest source in tokens, its end token counted.
        max_target_length: Longest translation in tokens, its end token counted.
    """

    vocab_size: int
    d_model: int = 256
    num_layers: int = 1
    cell: Cell = "gru"
    bidirectional: bool = True
    attention: Score = "additive"
    input_feeding: bool = True
    tied_output: bool = True
    dropout: float = 0.2
    max_source_length: int = 256
    max_target_length: int = 256

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        problems = [
            *whole_problems(values, 5, "vocab_size"),
            *whole_problems(values, 1, "d_model", "num_layers"),
            *whole_problems(values, 2, "max_source_length", "max_target_length"),
            *choice_problems(
                cell=(self.cell, ("tanh", "gru", "lstm")),
                bidirectional=(self.bidirectional, (True, False)),
                attention=(self.attention, ("none", "dot", "scaled_dot", "additive")),
                input_feeding=(self.input_feeding, (True, False)),
                tied_output=(self.tied_output, (True, False)),
            ),
            *share_problems(values, ")", "dropout"),
        ]
        if not problems and self.bidirectional and self.d_model % 2:
            problems.append(f"d_model {self.d_model} is odd; two directions share it.")
        if problems:
            raise OptionError(problems)


TranslatorConfig = TransformerConfig | RecurrentConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorTraining(LoopConfig):
    """How a translator is trained; see `LoopConfig` for the loop.

    Attributes:
        batch_tokens: Most target tokens a step, padding counted; over all processes together.
        label_smoothing: Share of the target's probability that is spread over all pieces.
        subword_dropout: Share of merges left out of each sentence's spelling, anew each epoch.
    """

    batch_tokens: int = 3000
    label_smoothing: float = 0.1
    subword_dropout: float = 0.0
    weight_decay: float = 0.0
    ema_decay: float = 0.99

    def problems(self) -> list[str]:
        """Say what is out of its range."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return [
            *LoopConfig.problems(self),
            *whole_problems(values, 1, "batch_tokens"),
            *share_problems(values, ")", "label_smoothing", "subword_dropout"),
        ]
