"""How well a model in training translates: BLEU of the very search that serves, run on torch."""

from collections.abc import Callable

from foretell.data.text import EOS, Tokenizer
from foretell.data.translation import TranslateOptions
from foretell.export.torch_decoder import TorchDecoder
from foretell.model.fit_translator import Corpus, MakeScorer
from foretell.model.seq2seq import Seq2Seq
from foretell.runtime.hypotheses import SearchRequest
from foretell.runtime.packing import pad_sources, plan_batches
from foretell.runtime.search import search

_GREEDY = TranslateOptions(beam_size=1)
_MAX_TOKENS = 8192  # padded pieces of a batch


def bleu_scorer(validation: Corpus) -> MakeScorer:
    """Score a model by the BLEU (sacreBLEU, 13a, mixed case) of its greedy translations.

    Args:
        validation: Sentences, and their translations by people.

    Raises:
        ModuleNotFoundError: sacreBLEU, of the extra [evaluate], is not installed.
    """
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415

    metric = BLEU()
    references = [list(validation.tgt)]

    def make(model: Seq2Seq, tokenizer: Tokenizer) -> Callable[[], float]:
        sources = [(*tokenizer.encode(text), EOS) for text in validation.src]

        def score() -> float:
            found = translate_greedily(model, tokenizer, sources)
            return float(metric.corpus_score(found, references).score)

        return score

    return make


def translate_greedily(
    model: Seq2Seq, tokenizer: Tokenizer, sources: list[tuple[int, ...]]
) -> list[str]:
    """Translate encoded sentences; a sentence without pieces stays empty.

    Args:
        model: In evaluation mode.
        tokenizer: The model's.
        sources: Pieces of each sentence and the end token.
    """
    decoder = TorchDecoder(model)
    texts = [""] * len(sources)
    filled = [place for place, ids in enumerate(sources) if len(ids) > 1]
    lengths = [len(sources[place]) for place in filled]
    batches = plan_batches(
        lengths,
        [1] * len(lengths),
        max_source_length=max(lengths, default=1),
        max_tokens=_MAX_TOKENS,
    )
    for batch in batches:
        places = [filled[i] for i in batch.sentences]
        src, src_mask = pad_sources([sources[place] for place in places], batch.source_length)
        requests = [
            SearchRequest(options=_GREEDY, max_length=2 * len(sources[place]) + 20, place=place)
            for place in places
        ]
        for place, found in zip(places, search(decoder, src, src_mask, requests), strict=True):
            texts[place] = tokenizer.decode(found[0].token_ids) if found else ""
    return texts
