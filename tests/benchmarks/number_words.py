"""Number words, English to German: five translators, and how right they are by length.

    python tests/benchmarks/number_words.py --data FOLDER

FOLDER holds train, val and test as .en and .de: "twenty one thousand three hundred and five" and
"ein und zwanzig tausend drei hundert fünf". Units come before tens, so words must be reordered.
Each model is trained, exported, and asked through the runtime with greedy search.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from foretell.cli.progress import training_progress
from foretell.data.text.translation import TranslateOptions
from foretell.export.build import export_run
from foretell.model.fit_translator import Corpus, fit_translator
from foretell.model.translator_config import (
    RecurrentConfig,
    TransformerConfig,
    TranslatorConfig,
    TranslatorTraining,
)
from foretell.runtime import load

HERE = Path(__file__).resolve()
DATA = HERE.parents[3] / "shared" / "data" / "translate" / "toy_numbers_en_de"
RUNS = HERE.parents[2] / "build" / "benchmarks" / "number_words"

VOCAB = 400
# So narrow that a number doesn't fit into one vector, while attention needs no more.
GRU = RecurrentConfig(vocab_size=VOCAB, d_model=20, dropout=0.0)
MODELS: dict[str, TranslatorConfig] = {
    "transformer": TransformerConfig(
        vocab_size=VOCAB,
        d_model=64,
        d_ff=128,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dropout=0.0,  # a rule has no noise
    ),
    "gru, dot": replace(GRU, attention="dot"),
    "gru, scaled_dot": replace(GRU, attention="scaled_dot"),
    "gru, additive": replace(GRU, attention="additive"),
    "gru, none": replace(GRU, attention="none"),
}
TRAINING = TranslatorTraining(
    steps=4000, warmup_steps=100, learning_rate=3e-3, batch_tokens=1500, validate_every=250
)
LENGTHS = ((1, 6), (7, 8), (9, 9), (10, 10), (11, 99))


def corpus(folder: Path, part: str) -> Corpus:
    """Read both sides of a part."""
    sides = [
        (folder / f"{part}.{side}").read_text("utf-8").split("\n")[:-1] for side in ("en", "de")
    ]
    return Corpus(*sides)


def train(name: str, folder: Path) -> Path:
    """Train a model, or take the finished one, and export it."""
    place = RUNS / name.replace(", ", "_")
    bundle = place / "bundle"
    if not bundle.exists():
        with training_progress() as progress:
            fit_translator(
                corpus(folder, "train"),
                validation=corpus(folder, "val"),
                model=MODELS[name],
                training=TRAINING,
                run=place / "run",
                resume=True,
                progress=progress,
            )
        export_run(place / "run", bundle)
    return bundle


def exact_match(bundle: Path, test: Corpus) -> dict[str, float]:
    """Return the share of test sentences translated without any fault, in all and by length."""
    answers = load(bundle).translate(test.src, TranslateOptions(beam_size=1))
    right = [answer.text == tgt for answer, tgt in zip(answers, test.tgt, strict=True)]
    words = [len(src.split()) for src in test.src]
    shares = {"all": sum(right) / len(right)}
    for low, high in LENGTHS:
        inside = [ok for ok, count in zip(right, words, strict=True) if low <= count <= high]
        shares[
            f"{low} to {high} words"
            if low < high < 99
            else f"{low} words"
            if low == high
            else f"{low} or more"
        ] = sum(inside) / len(inside)
    return shares


def main() -> None:
    """Train all five and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    folder = parser.parse_args().data
    if not folder.exists():
        sys.exit(f"skipped: there is no {folder}; give the number words with --data.")
    test = corpus(folder, "test")
    table = {name: exact_match(train(name, folder), test) for name in MODELS}
    columns = list(next(iter(table.values())))
    print("| exact match, % | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name, shares in table.items():
        print(f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in shares.values()) + " |")
    HERE.with_suffix(".json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
