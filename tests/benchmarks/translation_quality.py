"""Translation quality on Multi30k, English to German: trained on its 29,000 pairs alone.

    python tests/benchmarks/translation_quality.py train transformer
    python tests/benchmarks/translation_quality.py train recurrent

A killed training goes on where it stopped when the same command is given again.
"""

import argparse
import os
import sys
from pathlib import Path

DATA = Path(__file__).parents[3] / "shared" / "data" / "translate" / "multi30k"
RUNS = Path(__file__).parents[2] / "build" / "benchmarks" / "multi30k"


def lines(name: str) -> list[str]:
    """Read one side of a part."""
    return (DATA / name).read_text(encoding="utf-8").split("\n")[:-1]


def train(name: str, threads: int) -> None:
    """Train one of the two models, or go on with it."""
    import torch

    from foretell.cli.progress import training_progress
    from foretell.model.fit_translator import Corpus, fit_translator
    from foretell.model.translator_config import (
        RecurrentConfig,
        TransformerConfig,
        TranslatorTraining,
    )

    torch.set_num_threads(threads)
    model, training = {
        "transformer": (
            TransformerConfig(vocab_size=6000, d_model=256, d_ff=512, num_heads=4, dropout=0.25),
            TranslatorTraining(
                steps=5200,
                warmup_steps=400,
                learning_rate=1e-3,
                precision="bf16",
                validate_every=250,
                batch_tokens=3000,
            ),
        ),
        "recurrent": (
            RecurrentConfig(vocab_size=6000, d_model=320, dropout=0.3),
            TranslatorTraining(
                steps=3400,
                warmup_steps=400,
                learning_rate=1e-3,
                precision="bf16",
                validate_every=250,
                batch_tokens=3000,
            ),
        ),
    }[name]
    with training_progress() as progress:
        summary = fit_translator(
            Corpus(lines("train.en"), lines("train.de")),
            validation=Corpus(lines("val.en"), lines("val.de")),
            model=model,
            training=training,
            run=RUNS / name,
            src_language="en",
            tgt_language="de",
            resume=True,
            progress=progress,
        )
    print(summary)


if __name__ == "__main__":
    if not DATA.exists():
        sys.exit(f"skipped: {DATA} is not there")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["train"])
    parser.add_argument("model", choices=["transformer", "recurrent"])
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    arguments = parser.parse_args()
    train(arguments.model, arguments.threads)
