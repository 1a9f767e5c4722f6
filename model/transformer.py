"""The Transformer translator: encoder and decoder blocks with sinusoidal positions.

Axes: B batch, S source, T target, K beams, P cached entries, C channels (d_model).

Source: Vaswani et al. 2017, "Attention is all you need". Weights of embeddings and output are
    shared unless told otherwise (section 3.4); pre-norm adds a last norm to either side.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from foretell.model.attention import causal_mask
from foretell.model.layers import Block, DecoderBlock, make_norm
from foretell.model.positions import sinusoidal_positions
from foretell.model.seq2seq import Memory, Seq2Seq, State, StepOutput
from foretell.model.translator_config import TransformerConfig


class Transformer(Seq2Seq):
    """An encoder-decoder Transformer."""

    has_attention = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(
            config.vocab_size,
            config.d_model,
            tied_output=config.tied_output,
            dropout=config.dropout,
        )
        self.config: TransformerConfig = config
        shape: dict[str, Any] = {
            "d_model": config.d_model,
            "num_heads": config.num_heads,
            "d_ff": config.d_ff,
            "norm": config.norm,
            "norm_first": config.norm_first,
            "activation": config.activation,
            "dropout": config.dropout,
        }
        self.encoder = nn.ModuleList(Block(**shape) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(
            DecoderBlock(**shape) for _ in range(config.num_decoder_layers)
        )
        last_norm = (lambda: make_norm(config.norm, config.d_model)) if config.norm_first else None
        self.encoder_norm = last_norm() if last_norm else nn.Identity()
        self.decoder_norm = last_norm() if last_norm else nn.Identity()
        for block in (*self.encoder, *self.decoder):
            for parameter in block.parameters():
                if parameter.ndim > 1:
                    nn.init.xavier_uniform_(parameter)
        # The last layer looks at what to say next; the one before it at what is said now.
        self.alignment_layer = max(0, config.num_decoder_layers - 2)

    def encode(
        self, src: Int64[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> tuple[Memory, State]:
        """Read the source; the memory is the keys and values of every decoder layer."""
        length = src.shape[1]
        mask = src_mask[:, None, None, :].expand(-1, 1, length, -1)  # [B 1 S S]
        x = self._embed(src, torch.arange(length, device=src.device)[None])
        for block in self.encoder:
            x = block(x, mask)
        x = self.encoder_norm(x)
        memory: Memory = {}
        for i, block in enumerate(self.decoder):
            assert isinstance(block, DecoderBlock)
            memory[f"memory_keys_{i}"], memory[f"memory_values_{i}"] = block.remember(x)
        return memory, {}

    def empty_state(self, batch: int) -> State:
        """Return caches without entries."""
        cache = self.embedding.weight.new_zeros(batch, 0, self.d_model)
        ancestors = torch.zeros(batch, 1, 0, dtype=torch.bool, device=cache.device)
        names = [
            f"past_{kind}_{i}" for i in range(len(self.decoder)) for kind in ("keys", "values")
        ]
        return {"past_ancestors": ancestors, **dict.fromkeys(names, cache)}

    def step(
        self,
        tokens: Int64[Tensor, "B K"],
        parents: Int64[Tensor, "B K"],
        positions: Int64[Tensor, " B"],
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
    ) -> StepOutput:
        """Decode one token of each beam.

        The caches only grow, by one entry a beam and step; `past_ancestors` says which entries a
        beam descends from, so beams that change their order move no keys and no values.
        """
        ancestors = self._ancestors(parents, state["past_ancestors"])  # [B K P+K]
        beams = tokens.shape[1]
        memory_mask = src_mask[:, None, :].expand(-1, beams, -1)  # [B K S]
        x = self._embed(tokens, positions[:, None])
        present: State = {"past_ancestors": ancestors}
        attention = None
        for i, block in enumerate(self.decoder):
            assert isinstance(block, DecoderBlock)
            keys, values = memory[f"memory_keys_{i}"], memory[f"memory_values_{i}"]
            past = state[f"past_keys_{i}"], state[f"past_values_{i}"]
            x, read, grown = block.step(
                x, ancestors[:, None], past, keys, values, memory_mask[:, None]
            )
            present[f"past_keys_{i}"], present[f"past_values_{i}"] = grown
            if i == self.alignment_layer:
                attention = block.cross_attention.weights(read, keys, memory_mask)
        return StepOutput(self.log_probs(self.decoder_norm(x)), attention, present)

    def decode(
        self,
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
        tgt: Int64[Tensor, "B T"],
    ) -> Float[Tensor, "B T C"]:
        """Decode a given target, all steps at once under a causal mask."""
        length = tgt.shape[1]
        mask = causal_mask(length, tgt.device)[None, None]
        memory_mask = src_mask[:, None, None, :].expand(-1, 1, length, -1)
        x = self._embed(tgt, torch.arange(length, device=tgt.device)[None])
        for i, block in enumerate(self.decoder):
            assert isinstance(block, DecoderBlock)
            keys, values = memory[f"memory_keys_{i}"], memory[f"memory_values_{i}"]
            x = block.decode(x, mask, keys, values, memory_mask)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def _embed(
        self, tokens: Int64[Tensor, "B T"], positions: Int64[Tensor, "#B #T"]
    ) -> Float[Tensor, "B T C"]:
        embedded = self.embed(tokens) + sinusoidal_positions(positions, self.d_model)
        placed: Tensor = self.dropout(embedded)
        return placed

    @staticmethod
    def _ancestors(
        parents: Int64[Tensor, "B K"], past: Bool[Tensor, "B J P"]
    ) -> Bool[Tensor, "B K N"]:
        """Give each beam the ancestors of its parent, and itself; N = P + K."""
        inherited = past.gather(1, parents[..., None].expand(-1, -1, past.shape[2]))  # [B K P]
        places = torch.arange(parents.shape[1], device=parents.device)
        itself = (places[:, None] == places)[None].expand(parents.shape[0], -1, -1)
        return torch.cat((inherited, itself), dim=2)
