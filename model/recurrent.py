"""The recurrent translator: an encoder and a decoder of tanh, GRU or LSTM cells, with attention.

Axes: B batch, S source, T target, K beams, C channels (d_model), G gates · C.

Source: Sutskever et al. 2014 and Cho et al. 2014 (fixed context vector c); Bahdanau et al. 2015 and
    Luong et al. 2015 (attention; input feeding, section 3.3). A decoder state s gathers a from the
    memory and puts out tanh(W_c [a; s]); without attention a is c.
"""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from foretell.model.cells import Cell, CellState, read
from foretell.model.scores import Attention
from foretell.model.seq2seq import Memory, Seq2Seq, State, StepOutput
from foretell.model.translator_config import RecurrentConfig


class Recurrent(Seq2Seq):
    """A recurrent encoder-decoder."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(
            config.vocab_size,
            config.d_model,
            tied_output=config.tied_output,
            dropout=config.dropout,
        )
        self.config: RecurrentConfig = config
        self.has_attention = config.attention != "none"
        width, directions = config.d_model, 2 if config.bidirectional else 1
        self.encoder = nn.ModuleList(
            nn.ModuleList(Cell(config.cell, width, width // directions) for _ in range(directions))
            for _ in range(config.num_layers)
        )
        self.decoder = nn.ModuleList(
            Cell(config.cell, width, width) for _ in range(config.num_layers)
        )
        self.bridge = nn.ModuleList(
            nn.Linear(width, width) for _ in range(config.num_layers * self._first.num_states)
        )
        self.attention = None if config.attention == "none" else Attention(config.attention, width)
        # What the first decoder cell reads beside the token: its last output, or c.
        self.feeds_back = self.has_attention and config.input_feeding
        reads_more = self.feeds_back or not self.has_attention
        self.feed = (
            nn.Linear(width, self._first.weight_ih.shape[0], bias=False) if reads_more else None
        )
        self.combine = nn.Linear(2 * width, width)  # W_c

    @property
    def _first(self) -> Cell:
        cell = self.decoder[0]
        assert isinstance(cell, Cell)
        return cell

    def encode(
        self, src: Int64[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> tuple[Memory, State]:
        """Read the source; the state starts from what each layer ended with."""
        x = self.dropout(self.embed(src))
        ends: list[CellState] = []
        for layer in self.encoder:
            assert isinstance(layer, nn.ModuleList)
            outputs, states = [], []
            for backward, cell in enumerate(layer):
                assert isinstance(cell, Cell)
                output, state = read(cell, x, src_mask, backward=bool(backward))
                outputs.append(output)
                states.append(state)
            x = self.dropout(torch.cat(outputs, dim=-1))  # [B S C]
            ends.append(
                tuple(torch.cat(parts, dim=-1) for parts in zip(*states, strict=True))
            )  # [B C] each
        return self._memory(x, ends[-1][0]), self._initial(ends)

    def _memory(self, x: Float[Tensor, "B S C"], end: Float[Tensor, "B C"]) -> Memory:
        if self.attention is None:
            return {"memory_context": end}
        if self.attention.kind != "additive":
            return {"memory_values": x}
        return {"memory_keys": self.attention.keys(x), "memory_values": x}

    def _initial(self, ends: list[CellState]) -> State:
        state: State = {}
        parts = iter(self.bridge)
        for i, end in enumerate(ends):
            for name, value in zip(("hidden", "cell"), end, strict=False):
                first = next(parts)(value)
                state[f"past_{name}_{i}"] = (first.tanh() if name == "hidden" else first)[:, None]
        return state

    def empty_state(self, batch: int) -> State:
        """Return the output that is fed back before there is one."""
        if not self.feeds_back:
            return {}
        return {"past_feed": self.embedding.weight.new_zeros(batch, 1, self.d_model)}

    def step(
        self,
        tokens: Int64[Tensor, "B K"],
        parents: Int64[Tensor, "B K"],
        positions: Int64[Tensor, " B"],
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
    ) -> StepOutput:
        """Decode one token of each beam, from the state of the beam that it continues."""
        followed = {
            name: past.gather(1, parents[..., None].expand(-1, -1, past.shape[2]))
            for name, past in state.items()
        }  # [B K C] each
        projected = self._first.project(self.dropout(self.embed(tokens)))
        output, attention, present = self._advance(projected, src_mask, memory, followed)
        return StepOutput(self.log_probs(output), attention, present)

    def decode(
        self,
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
        tgt: Int64[Tensor, "B T"],
    ) -> Float[Tensor, "B T C"]:
        """Decode a given target step by step, as `step` does."""
        projected = self._first.project(self.dropout(self.embed(tgt)))  # [B T G]
        state = {**state, **self.empty_state(tgt.shape[0])}
        if self.feeds_back:
            outputs = []
            for t in range(tgt.shape[1]):
                output, _, state = self._advance(projected[:, t : t + 1], src_mask, memory, state)
                outputs.append(output)
            return torch.cat(outputs, dim=1)
        # Nothing is fed back: the cells run alone, attention then serves all steps at once.
        hidden = []
        for t in range(tgt.shape[1]):
            top, state = self._cells(projected[:, t : t + 1], memory, state)
            hidden.append(top)
        return self._combine(torch.cat(hidden, dim=1), src_mask, memory)[0]

    def _advance(
        self,
        projected: Float[Tensor, "B K G"],
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
    ) -> tuple[Float[Tensor, "B K C"], Float[Tensor, "B K S"] | None, State]:
        """Take one step of cells, attention and output."""
        top, present = self._cells(projected, memory, state)
        output, attention = self._combine(top, src_mask, memory)
        if self.feeds_back:
            present["past_feed"] = output
        return output, attention, present

    def _cells(
        self, projected: Float[Tensor, "B K G"], memory: Memory, state: State
    ) -> tuple[Float[Tensor, "B K C"], State]:
        """Take one step of the decoder's cells."""
        if self.feed is not None:
            known = state["past_feed"] if self.feeds_back else memory["memory_context"][:, None]
            projected = projected + self.feed(known)
        present: State = {}
        x = projected
        for i, cell in enumerate(self.decoder):
            assert isinstance(cell, Cell)
            names = [f"past_{name}_{i}" for name in ("hidden", "cell")[: cell.num_states]]
            gates = projected if i == 0 else cell.project(self.dropout(x))
            new = cell.step(gates, tuple(state[name] for name in names))
            present.update(zip(names, new, strict=True))
            x = new[0]
        return x, present

    def _combine(
        self, top: Float[Tensor, "B Q C"], src_mask: Bool[Tensor, "B S"], memory: Memory
    ) -> tuple[Float[Tensor, "B Q C"], Float[Tensor, "B Q S"] | None]:
        """Return tanh(W_c [a; s]) and the attention weights."""
        if self.attention is None:
            gathered, weights = memory["memory_context"][:, None].expand_as(top), None
        else:
            values = memory["memory_values"]
            keys = memory.get("memory_keys", values)
            gathered, weights = self.attention(top, keys, values, src_mask)
        output: Tensor = self.dropout(self.combine(torch.cat((gathered, top), dim=-1)).tanh())
        return output, weights
