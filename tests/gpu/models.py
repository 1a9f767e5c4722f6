"""Bundles for the checks: models of every kind with random weights, tiny and as large as in use.

python tests/gpu/models.py FOLDER [--tiny]     # to take along to where nothing can be exported
"""

import argparse
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import checkout

    checkout.prepare()

from foretell.data.bundles.bundle import Manifest, write_bundle
from foretell.data.bundles.manifest import ForecasterSpec
from foretell.export.forecaster import export_forecaster
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster
from foretell.model.run import WEIGHTS_FILE, save_weights
from foretell.model.translator_config import RecurrentConfig, TransformerConfig

GRAPHS = runpy.run_path(str(Path(__file__).parents[1] / "graphs.py"))
MID = "mid-"  # how names of models begin that are as large as in use

FORECASTERS = {
    "tiny-forecaster": ForecasterConfig(
        patch_length=4, context_length=48, d_model=16, num_layers=2, num_heads=2, d_ff=32
    ),
    "tiny-covariates": ForecasterConfig(
        patch_length=4,
        context_length=48,
        d_model=16,
        num_layers=2,
        num_heads=2,
        d_ff=32,
        num_future_covariates=2,
        num_past_covariates=1,
        num_static=1,
    ),
    "mid-forecaster": ForecasterConfig(
        patch_length=16, context_length=512, d_model=256, num_layers=6, num_heads=8, d_ff=768
    ),
}
_SIZES = {
    "vocab_size": 8_000,
    "d_model": 256,
    "dropout": 0.0,
    "max_source_length": 128,
    "max_target_length": 128,
}
TRANSLATORS = {
    **GRAPHS["CONFIGS"],
    "mid-transformer": TransformerConfig(
        **_SIZES, num_heads=8, d_ff=1024, num_encoder_layers=3, num_decoder_layers=3
    ),
    "mid-gru": RecurrentConfig(**_SIZES, cell="gru", attention="additive"),
}


def make(folder: Path, *, tiny: bool = False) -> None:
    """Write FOLDER/NAME for each model."""
    for name, config in FORECASTERS.items():
        if not (tiny and name.startswith(MID)):
            _write_forecaster(config, folder / name)
    for seed, (name, config) in enumerate(TRANSLATORS.items()):
        if not name.startswith(MID):
            GRAPHS["export"](config, folder / name, seed=seed)
        elif not tiny:  # random weights of this size are large enough as they begin
            GRAPHS["export"](config, folder / name, seed=seed, noise=0.01)


def _write_forecaster(config: ForecasterConfig, target: Path) -> None:
    import torch

    torch.manual_seed(0)
    model = Forecaster(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    spec = ForecasterSpec(
        context_length=config.context_length,
        patch_length=config.patch_length,
        horizon=3 * config.patch_length,
        frequency="any",
        season_length=1,
        quantile_levels=config.quantile_levels,
        future_covariates=tuple(f"future_{i}" for i in range(config.num_future_covariates)),
        past_covariates=tuple(f"past_{i}" for i in range(config.num_past_covariates)),
        static=tuple(f"static_{i}" for i in range(config.num_static)),
    )

    def fill(folder: Path) -> Manifest:
        save_weights(folder / WEIGHTS_FILE, model)
        return Manifest(
            kind="forecaster",
            precision="fp32",
            config=config.to_json(),
            forecaster=spec,
            graphs=(export_forecaster(model, folder),),
            training={},
            tool_versions={},
        )

    write_bundle(target, fill)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tiny", action="store_true", help="leave the large ones out")
    arguments = parser.parse_args()
    make(arguments.folder, tiny=arguments.tiny)
