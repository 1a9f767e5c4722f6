"""Small translators of every kind, with weights that no training has smoothed."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from foretell.model.run import make_translator
from foretell.model.seq2seq import Seq2Seq
from foretell.model.translator_config import RecurrentConfig, TransformerConfig, TranslatorConfig

VOCAB_SIZE, NUM_SPECIAL = 11, 4

TRANSFORMER = TransformerConfig(
    vocab_size=VOCAB_SIZE,
    d_model=16,
    num_heads=4,
    d_ff=24,
    num_encoder_layers=2,
    num_decoder_layers=2,
)
RECURRENT = RecurrentConfig(vocab_size=VOCAB_SIZE, d_model=12)

CONFIGS: dict[str, TranslatorConfig] = {
    "transformer": TRANSFORMER,
    "transformer post-norm untied": replace(TRANSFORMER, norm_first=False, tied_output=False),
    "transformer rms swiglu": replace(TRANSFORMER, norm="rms", activation="swiglu"),
    "tanh none": replace(RECURRENT, cell="tanh", attention="none"),
    "gru none 2 layers": replace(RECURRENT, attention="none", num_layers=2),
    "gru dot": replace(RECURRENT, attention="dot", bidirectional=False),
    "gru scaled_dot without feeding": replace(
        RECURRENT, attention="scaled_dot", input_feeding=False
    ),
    "gru additive": RECURRENT,
    "lstm additive 2 layers untied": replace(
        RECURRENT, cell="lstm", num_layers=2, tied_output=False
    ),
}


def build(config: TranslatorConfig, seed: int = 0) -> Seq2Seq:
    """Make a model in evaluation mode whose norms and biases are random too."""
    torch.manual_seed(seed)
    model = make_translator(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def translator(request) -> Seq2Seq:
    """A translator of each kind."""
    return build(request.param)


@pytest.fixture
def make_model():
    """Makes a small translator by its name in the list above, with changes to its shape."""

    def make(name: str, *, seed: int = 0, **changes: object) -> Seq2Seq:
        return build(replace(CONFIGS[name], **changes), seed)

    return make


@pytest.fixture
def sentences():
    """Makes random token ids [B S] with their mask, padded on the right to the longest length."""

    def make(*lengths: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ids = torch.randint(NUM_SPECIAL, VOCAB_SIZE, mask.shape, generator=generator)
        return ids * mask, mask

    return make


@pytest.fixture
def step_through():
    """Decodes a target [B T] one token at a time; returns log P [B T V] of what comes next."""

    def run(model: Seq2Seq, src: torch.Tensor, mask: torch.Tensor, tgt: torch.Tensor):
        memory, state = model.encode(src, mask)
        state = {**model.empty_state(len(src)), **state}
        first = torch.zeros(len(src), 1, dtype=torch.int64)
        log_probs = []
        for t in range(tgt.shape[1]):
            output = model.step(tgt[:, t : t + 1], first, first[:, 0] + t, mask, memory, state)
            state = output.state
            log_probs.append(output.log_probs[:, 0])
        return torch.stack(log_probs, dim=1)

    return run


@pytest.fixture
def jacobian():
    """Returns ∂function(x)/∂x for vectors, by autograd."""

    def compute(function, x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.functional.jacobian(function, x)

    return compute


@pytest.fixture
def num_weights():
    """Counts the numbers in weight matrices; biases and norms are left out."""

    def count(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters() if p.ndim > 1)

    return count
