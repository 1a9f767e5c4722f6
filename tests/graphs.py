"""Export untrained translators of every kind, for tests that compare graphs with torch.

`python tests/graphs.py all FOLDER` writes a bundle without a tokenizer for each, FOLDER/NAME. It
runs in a process of its own, as an export does, and not under the tests' type checker.
"""

import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from foretell.model.translator_config import RecurrentConfig, TransformerConfig, TranslatorConfig

_SIZES: dict[str, Any] = {
    "vocab_size": 23,
    "d_model": 16,
    "dropout": 0.3,  # it must not be exported
    "max_source_length": 12,
    "max_target_length": 10,
}


def _transformer(encoder: int, decoder: int, **more: Any) -> TransformerConfig:
    return TransformerConfig(
        **_SIZES,
        num_heads=2,
        d_ff=24,
        num_encoder_layers=encoder,
        num_decoder_layers=decoder,
        **more,
    )


def _recurrent(cell: Any, attention: Any, **more: Any) -> RecurrentConfig:
    return RecurrentConfig(**_SIZES, cell=cell, attention=attention, **more)


# Every choice at least once; the trained bundles add a GRU with additive attention.
CONFIGS: dict[str, TranslatorConfig] = {
    "pre-norm": _transformer(2, 2),
    "post-norm": _transformer(1, 3, norm_first=False, tied_output=False),
    "rms-swiglu": _transformer(1, 1, norm="rms", activation="swiglu"),
    "tanh-dot": _recurrent("tanh", "dot", num_layers=2, bidirectional=False),
    "gru-scaled": _recurrent("gru", "scaled_dot", input_feeding=False, tied_output=False),
    "gru-none": _recurrent("gru", "none", num_layers=2, bidirectional=False),
    "lstm-additive": _recurrent("lstm", "additive", num_layers=2),
    "lstm-none": _recurrent("lstm", "none"),
}


def build(name: str, target: Path) -> None:
    """Export one of the models."""
    export(CONFIGS[name], target, seed=sorted(CONFIGS).index(name))


def export(config: TranslatorConfig, target: Path, *, seed: int, noise: float = 0.2) -> None:
    """Export a model with weights that are far from their first ones."""
    import torch

    from foretell.data.bundles.bundle import Manifest, TranslatorSpec, write_bundle
    from foretell.export.translator import export_translator
    from foretell.model.run import WEIGHTS_FILE, make_translator, save_weights

    torch.manual_seed(seed)
    model = make_translator(config).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=noise)

    def fill(folder: Path) -> Manifest:
        save_weights(folder / WEIGHTS_FILE, model)
        return Manifest(
            kind="translator",
            precision="fp32",
            config=model.config.to_json(),
            translator=TranslatorSpec(
                arch="recurrent" if isinstance(config, RecurrentConfig) else "transformer",
                vocab_size=config.vocab_size,
                max_source_length=config.max_source_length,
                max_target_length=config.max_target_length,
                has_attention=model.has_attention,
            ),
            graphs=export_translator(model, folder),
            training={},
            tool_versions={},
        )

    write_bundle(target, fill)


if __name__ == "__main__":
    for name in CONFIGS:
        build(name, Path(sys.argv[2]) / name)
