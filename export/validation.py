"""BLEU of the very search that serves, over a model in training: what chooses the best weights."""

from foretell.data.bundles.manifest import TranslatorSpec
from foretell.data.errors import ForetellError
from foretell.data.text.tokenizer import Tokenizer
from foretell.data.text.translation import TranslateOptions
from foretell.export.torch_decoder import TorchDecoder
from foretell.model.fit_translator import Corpus, MakeScorer, translator_spec
from foretell.model.seq2seq import Seq2Seq
from foretell.model.training import Scorer
from foretell.runtime.packing import pad_sources, plan_batches
from foretell.runtime.search.search import search
from foretell.runtime.sources import SentenceTask, sentence_task, without_model

_MAX_TOKENS = 8_192  # padded source tokens of a batch, counted once a beam


def bleu_scorer(validation: Corpus, *, beam_size: int = 1) -> MakeScorer:
    """Score a model by the BLEU (sacreBLEU, 13a, case counts) of its translations, 0 to 100.

    Args:
        validation: Sentences and their translations, in normal form where case and spaces matter.
            A source that is longer than the model allows is cut; a blank one stays blank.
        beam_size: Hypotheses kept alive; 1 is greedy search, the fastest.

    Returns:
        What `fit_translator` takes as `make_scorer`.

    Raises:
        ForetellError: sacreBLEU is not installed.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  - of the extra [evaluate]
    except ImportError as error:
        raise ForetellError(
            "BLEU needs sacrebleu, which is not installed; pip install 'foretell[evaluate]', or "
            "train without a scorer: the loss then chooses the best weights."
        ) from error
    options = TranslateOptions(beam_size=beam_size, truncate_source=True)

    def make(model: Seq2Seq, tokenizer: Tokenizer) -> Scorer:
        spec = translator_spec(model)
        known = [without_model(text) for text in validation.src]  # blanks, and signs alone
        tasks = [
            sentence_task(text, options, tokenizer, spec, position=place, place=place)
            for place, (text, answer) in enumerate(zip(validation.src, known, strict=True))
            if answer is None
        ]

        def score() -> float:
            texts = ["" if answer is None else answer.text for answer in known]
            for task, ids in zip(tasks, _translate(model, spec, tasks), strict=True):
                texts[task.position] = tokenizer.decode(ids)
            return float(BLEU().corpus_score(texts, [list(validation.tgt)]).score)

        return score

    return make


def _translate(
    model: Seq2Seq, spec: TranslatorSpec, tasks: list[SentenceTask]
) -> list[tuple[int, ...]]:
    """Return the tokens of each sentence's best translation."""
    decoder = TorchDecoder(model)
    best: list[tuple[int, ...]] = [()] * len(tasks)
    batches = plan_batches(
        [len(task.source.ids) for task in tasks],
        [task.request.options.beam_size for task in tasks],
        [task.request.max_length for task in tasks],
        max_source_length=spec.max_source_length,
        max_tokens=_MAX_TOKENS,
    )
    for batch in batches:
        some = [tasks[place] for place in batch.sentences]
        src, src_mask = pad_sources([task.source.ids for task in some], batch.source_length)
        found = search(decoder, src, src_mask, [task.request for task in some])
        for place, hypotheses in zip(batch.sentences, found, strict=True):
            best[place] = hypotheses[0].token_ids if hypotheses else ()
    return best
