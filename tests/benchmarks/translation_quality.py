"""Translation quality on Multi30k, English to German: trained on its 29,000 pairs alone.

    python tests/benchmarks/translation_quality.py train transformer
    python tests/benchmarks/translation_quality.py train transformer_again
    python tests/benchmarks/translation_quality.py train recurrent
    python tests/benchmarks/translation_quality.py evaluate

A killed training goes on where it stopped when the same command is given again. The evaluation
exports what has been trained, translates test_2016_flickr with the bundles and with torch, and
asks again in calls of 1, 7 and 64 sentences and in another order. Weights trained on Multi30k are
for research alone and are not shipped.
"""

import argparse
import csv
import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from foretell.cli.progress import training_progress
from foretell.data.text.translation import TranslateOptions
from foretell.export.build import export_run
from foretell.export.torch_decoder import TorchDecoder
from foretell.export.validation import bleu_scorer
from foretell.jobs.evaluation.translation_quality import evaluate_translator
from foretell.jobs.lines.doors import TranslatorDoor
from foretell.model.fit_translator import Corpus, fit_translator
from foretell.model.run import TranslatorRun, read_run
from foretell.model.translator_config import (
    RecurrentConfig,
    TransformerConfig,
    TranslatorConfig,
    TranslatorTraining,
)
from foretell.runtime import Translator, load_translator

HERE = Path(__file__).resolve()
DATA = HERE.parents[3] / "shared" / "data" / "translate" / "multi30k"
RUNS = HERE.parents[2] / "build" / "benchmarks" / "multi30k"

TRANSFORMER = TransformerConfig(vocab_size=6000, d_model=256, d_ff=512, num_heads=4, dropout=0.3)
TRAINING = TranslatorTraining(
    steps=9_000,
    batch_tokens=1500,
    warmup_steps=800,
    learning_rate=1e-3,
    precision="bf16",
    validate_every=1000,
)
MODELS: dict[str, tuple[TranslatorConfig, TranslatorTraining]] = {
    "transformer": (TRANSFORMER, replace(TRAINING, steps=13_000, subword_dropout=0.03)),
    # The schedule of "transformer" ends before the model has learned all it can: once more, from
    # its weights.
    "transformer_again": (
        TRANSFORMER,
        replace(
            TRAINING,
            steps=10_000,
            subword_dropout=0.05,
            warmup_steps=500,
            learning_rate=7e-4,
            seed=1,
        ),
    ),
    "recurrent": (RecurrentConfig(vocab_size=6000, d_model=384, dropout=0.3), TRAINING),
}
STARTS = {"transformer_again": "transformer"}
SEARCHES = (TranslateOptions(beam_size=1), TranslateOptions(beam_size=5))


def corpus(folder: Path, part: str) -> Corpus:
    """Read both sides of a part."""
    return Corpus(
        *((folder / f"{part}.{x}").read_text("utf-8").split("\n")[:-1] for x in ["en", "de"])
    )


def train(name: str, data: Path) -> None:
    """Train one of the models, or go on with it."""
    model, training = MODELS[name]
    validation = corpus(data, "val")
    start = read_run(RUNS / STARTS[name]) if name in STARTS else None
    assert start is None or isinstance(start, TranslatorRun)
    with training_progress() as progress:
        summary = fit_translator(
            corpus(data, "train"),
            validation=validation,
            model=model,
            training=training,
            run=RUNS / name,
            src_language="en",
            tgt_language="de",
            make_scorer=bleu_scorer(validation, beam_size=5),
            start_from=start,
            resume=True,
            progress=progress,
        )
    print(summary)


class TorchTranslator(Translator):
    """A bundle's translator with torch in the place of its graphs."""

    def __init__(self, bundle: Path, run: Path) -> None:
        super().__init__(bundle)
        self._decoder = TorchDecoder(read_run(run).model())  # type: ignore[assignment, arg-type]


def evaluate(name: str, data: Path) -> dict[str, object]:
    """Export a trained model, and measure its bundle and its torch form on the test part."""
    run, bundle = RUNS / name, RUNS / f"{name}.bundle"
    if not bundle.exists():
        export_run(run, bundle, progress=lambda text: print(text, file=sys.stderr))
    test = corpus(data, "test_2016_flickr")
    served = load_translator(bundle)
    result: dict[str, object] = {"training": served.manifest.training}
    for where, translator in (("served", served), ("torch", TorchTranslator(bundle, run))):
        spec = translator.manifest.translator
        assert spec is not None
        door = TranslatorDoor(
            translate=translator.translate, score=translator.score, where=where, spec=spec
        )
        quality = evaluate_translator(test.src, [test.tgt], door, SEARCHES)
        result[where] = [asdict(scores) for scores in quality.scores]
        result["signatures"] = quality.signatures
    result["alike"] = {
        f"beam {options.beam_size}": batch_invariance(served, test.src, options)
        for options in SEARCHES
    }
    return result


def batch_invariance(
    translator: Translator, sentences: Sequence[str], options: TranslateOptions
) -> dict[str, int]:
    """Count the sentences that come out alike however they are put together."""
    whole = [answer.text for answer in translator.translate(sentences, options)]
    counts = {}
    for size in (1, 7, 64):
        found = [
            answer.text
            for start in range(0, len(sentences), size)
            for answer in translator.translate(sentences[start : start + size], options)
        ]
        counts[f"calls of {size}"] = sum(a == b for a, b in zip(whole, found, strict=True))
    order = random.Random(0).sample(range(len(sentences)), len(sentences))
    shuffled = translator.translate([sentences[i] for i in order], options)
    pairs = zip(order, shuffled, strict=True)
    counts["shuffled"] = sum(whole[i] == answer.text for i, answer in pairs)
    return counts


def draw_curves(path: Path, names: Sequence[str]) -> None:
    """Draw the losses and the validation BLEU by step."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, color in zip(names, ("#1f6f8b", "#7a5195", "#c1554d"), strict=False):
        before = MODELS[STARTS[name]][1].steps if name in STARTS else 0
        with (RUNS / name / "log.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        steps = [before + int(row["step"]) for row in rows]
        some = slice(None, None, max(1, len(rows) // 300))
        loss = [float(row["loss"]) for row in rows]
        smooth = [sum(loss[max(0, i - 20) : i + 1]) / min(i + 1, 21) for i in range(len(loss))]
        left.plot(steps[some], smooth[some], color=color, alpha=0.5, lw=1)
        every = MODELS[name][1].validate_every
        held = [(s, row) for s, row in zip(steps, rows, strict=True) if (s - before) % every == 0]
        left.plot(
            [s for s, _ in held],
            [float(r["validation_loss"]) for _, r in held],
            color=color,
            label=name,
        )
        scored = [(s, float(r["validation_score"])) for s, r in held if r["validation_score"]]
        right.plot(
            [s for s, _ in scored],
            [x for _, x in scored],
            color=color,
            marker="o",
            ms=3,
            label=name,
        )
    left.set(
        title="Loss a token: training (pale, smoothed labels), validation",
        xlabel="step",
        ylim=(1, 6),
    )
    right.set(title="BLEU, validation (beam 5; recurrent: greedy)", xlabel="step")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train or evaluate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["train", "evaluate"])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="|".join(MODELS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    arguments = parser.parse_args()
    if not arguments.data.exists():
        sys.exit(f"skipped: there is no {arguments.data}; give Multi30k's task 1 with --data.")
    torch.set_num_threads(arguments.threads)
    if arguments.action == "train":
        for name in arguments.models:
            train(name, arguments.data)
        return
    record = HERE.with_suffix(".json")
    results = json.loads(record.read_text()) if record.exists() else {}
    results |= {name: evaluate(name, arguments.data) for name in arguments.models}
    print(json.dumps(results, indent=1))
    record.write_text(json.dumps(results, indent=1) + "\n")
    draw_curves(HERE.with_suffix(".png"), [name for name in MODELS if (RUNS / name).exists()])


if __name__ == "__main__":
    main()
