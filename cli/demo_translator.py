"""The demo's translator: numbers in English words to German ones, learned from pairs by rule."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foretell.data.errors import ForetellError

if TYPE_CHECKING:
    from foretell.client import Client
    from foretell.data.text.translation import Translation

MODEL = "number_words"
NUM_PAIRS = 6000
NUM_HELD_OUT = 200

_SHOWN = 5  # translations in the report


def number_words() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs to train on, and those that are held out."""
    from foretell.data.text.number_words import number_pairs

    pairs = list(number_pairs(NUM_PAIRS + NUM_HELD_OUT, seed=1))
    return pairs[:NUM_PAIRS], pairs[NUM_PAIRS:]


def train_translator(pairs: Sequence[tuple[str, str]], run: Path, steps: int) -> None:
    """Train a small Transformer on the pairs alone; nothing of those held out is seen."""
    from foretell.cli.progress import training_progress
    from foretell.model.fit_translator import Corpus, fit_translator
    from foretell.model.translator_config import TransformerConfig, TranslatorTraining

    with training_progress() as progress:
        fit_translator(
            Corpus([english for english, _ in pairs], [german for _, german in pairs]),
            model=TransformerConfig(
                vocab_size=400,
                d_model=64,
                num_heads=4,
                d_ff=128,
                num_encoder_layers=2,
                num_decoder_layers=2,
                dropout=0.0,
                max_source_length=64,
                max_target_length=64,
            ),
            training=TranslatorTraining(
                steps=steps,
                batch_tokens=1500,
                learning_rate=3e-3,
                warmup_steps=min(30, steps),
                label_smoothing=0.0,
                ema_decay=0.98,
            ),
            run=run,
            src_language="en",
            tgt_language="de",
            overwrite=True,
            progress=progress,
        )


def ask_translator(
    client: "Client", bundle: Path, pairs: Sequence[tuple[str, str]]
) -> "list[Translation]":
    """Translate over gRPC and in this process; both answers must be the same.

    Raises:
        ForetellError: They are not.
    """
    from foretell.data.text.translation import TranslateOptions
    from foretell.runtime import load_translator

    sentences = [english for english, _ in pairs]
    # Searched to the end: so sure a model's rivals end early, and must not end the search.
    options = [TranslateOptions(attention=place < _SHOWN) for place in range(len(sentences))]
    answers = client.translate(sentences, options, model=MODEL)
    here = load_translator(bundle).translate(sentences, options)
    if [(a.text, a.score) for a in answers] != [(a.text, a.score) for a in here]:
        raise ForetellError("the server and this process translated differently; please report it.")
    return answers


def draw_translations(
    pairs: Sequence[tuple[str, str]], answers: "Sequence[Translation]", picture: Path
) -> None:
    """Draw what the model looked at in the first translations."""
    from foretell.jobs.pictures.attention_plot import AttentionPicture, draw_attention

    shown = zip(pairs[:_SHOWN], answers, strict=False)
    found = [AttentionPicture.of(answer, english) for (english, _), answer in shown]
    draw_attention([one for one in found if one is not None], picture)


def translation_report(pairs: Sequence[tuple[str, str]], answers: "Sequence[Translation]") -> str:
    """Lay out the first translations, and count those that are right."""
    lines = []
    for (english, german), answer in zip(pairs[:_SHOWN], answers, strict=False):
        lines += [english, f"  {answer.text}", *([] if answer.text == german else [f"! {german}"])]
    right = sum(answer.text == german for (_, german), answer in zip(pairs, answers, strict=True))
    lines.append(f"{right} of {len(pairs)} numbers that it has never seen are right, word for word")
    return "\n".join(lines)
