"""A translator's bundle, proven: its steps, and whole searches through the runtime."""

from collections.abc import Iterator, Sequence

import numpy as np

from foretell.data.bundles.bundle import Bundle, TranslatorSpec
from foretell.data.text.tokenizer import UNK, Tokenizer
from foretell.data.text.translation import TranslateOptions
from foretell.export.environment import tool_versions, torch_threads
from foretell.export.paired_decoder import ATOL, RTOL, PairedDecoder
from foretell.export.parity import CaseProgress, Difference, Progress, summary
from foretell.export.torch_decoder import TorchDecoder
from foretell.export.translator import EXAMPLE_LENGTH
from foretell.export.translator_parity import (
    LONGEST_SEARCH,
    NEAR_SCORE,
    SourceBatch,
    TranslatorReport,
    change_beams,
    compare_hypotheses,
    lead_along,
    search_requests,
    source_batches,
)
from foretell.model.seq2seq import Seq2Seq
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.search import search
from foretell.runtime.selfcheck import write_translator_sample
from foretell.runtime.sources import sentence_task, without_model
from foretell.runtime.translator import Translator, read_tokenizer

_BATCHES = (1, 2, 3, 8)
# Of sources; the export's own example and its neighbours among them.
_LENGTHS = (1, 2, 3, EXAMPLE_LENGTH - 1, EXAMPLE_LENGTH, EXAMPLE_LENGTH + 1)
_STEPS = 8  # along given tokens
_SEARCHED_BATCHES = (1, 3, 8)
_SEARCHED_LENGTHS = (12,)
_BEAM_SIZES = (1, 5)
_NUM_TEXTS = 8
_NUM_SAMPLES = 3


def prove_translator(
    model: Seq2Seq, bundle: Bundle, *, device: str, progress: Progress
) -> TranslatorReport:
    """Compare a model with its graphs step by step, then whole searches on either side."""
    translator = Translator(bundle, device=device)
    graphs = OnnxDecoder(bundle, device=device)
    spec = graphs.spec
    alone = TorchDecoder(model)
    decoder = PairedDecoder(alone, graphs)
    tokenizer = read_tokenizer(bundle, spec)
    batches = list(source_batches(spec, _BATCHES, _LENGTHS))
    searched = list(source_batches(spec, _SEARCHED_BATCHES, _SEARCHED_LENGTHS))
    told = CaseProgress(progress, len(batches) + (len(searched) + 1) * len(_BEAM_SIZES))
    with torch_threads(graphs.session.threads):
        for batch in batches:
            told.begin(f"steps of {batch.name}")
            steps = min(_STEPS, spec.max_target_length)
            decoder.found.append(lead_along(decoder, model, batch, steps))
            change_beams(decoder, batch)
        searches = [
            *_searches(decoder, alone, spec, searched, told),
            *_translations(decoder, alone, translator, tokenizer, told),
        ]
    differences = [one for one in searches if one is not None]
    return TranslatorReport(
        atol=ATOL,
        rtol=RTOL,
        searches=len(searches),
        tokens_equal=len(searches) - len(differences),
        near_ties=(*decoder.near_ties, *(one.where for one in differences if not one.failed)),
        provider=graphs.session.provider,
        tool_versions=tool_versions(),
        **summary([*decoder.found, *differences]),
    )


def write_sample_translations(bundle: Bundle) -> None:
    """Store some texts and what becomes of them."""
    translator = Translator(bundle, device="cpu")
    spec = bundle.manifest.translator
    assert spec is not None
    texts = random_texts(read_tokenizer(bundle, spec), spec, _NUM_SAMPLES)
    write_translator_sample(bundle.path, translator, texts)


def random_texts(tokenizer: Tokenizer, spec: TranslatorSpec, count: int) -> list[str]:
    """Draw texts of the tokenizer's own pieces, which are no secret; the same each time."""
    rng = np.random.default_rng(24)
    known = [  # one letter at least, in whole characters
        text
        for token in range(UNK + 1, spec.vocab_size)
        if without_model(text := tokenizer.decode([token])) is None and "\ufffd" not in text
    ]
    most = max(1, min(8, spec.max_source_length // 4))
    return [" ".join(rng.choice(known, size=1 + place % most)) for place in range(count)]


def _searches(
    decoder: PairedDecoder,
    alone: TorchDecoder,
    spec: TranslatorSpec,
    batches: Sequence[SourceBatch],
    told: CaseProgress,
) -> Iterator[Difference | None]:
    """Search for padded batches: on onnxruntime with torch beside it, and on torch alone."""
    for batch in batches:
        for beam_size in _BEAM_SIZES:
            decoder.where, ties = f"{batch.name}, beam {beam_size}", len(decoder.near_ties)
            told.begin(f"search of {decoder.where}")
            requests = search_requests(spec, beam_size, len(batch.src))
            expected, found = (
                search(side, batch.src, batch.src_mask, requests) for side in (alone, decoder)
            )
            tied = len(decoder.near_ties) > ties
            for row, sides in enumerate(zip(expected, found, strict=True)):
                yield compare_hypotheses(f"{decoder.where}, row {row}", *sides, had_near_tie=tied)


def _translations(
    decoder: PairedDecoder,
    alone: TorchDecoder,
    translator: Translator,
    tokenizer: Tokenizer,
    told: CaseProgress,
) -> Iterator[Difference | None]:
    """Translate texts as the product does, all at once, and each by itself on torch."""
    spec = translator.manifest.translator
    assert spec is not None
    texts = random_texts(tokenizer, spec, _NUM_TEXTS)
    for beam_size in _BEAM_SIZES:
        told.begin(f"{len(texts)} texts, beam {beam_size}")
        options = TranslateOptions(
            beam_size=beam_size,
            max_length=min(LONGEST_SEARCH, spec.max_target_length),
            truncate_source=True,
        )
        for place, found in enumerate(translator.translate(texts, options)):
            task = sentence_task(
                texts[place], options, tokenizer, spec, position=place, place=place
            )
            src = np.array([task.source.ids])
            sentence = (src, np.ones_like(src, dtype=bool), [task.request])
            best = search(alone, *sentence)[0][0]
            if found.hypotheses[0].tokens == tokenizer.pieces(best.token_ids):
                yield None
                continue
            decoder.where, ties = f"text {place}, beam {beam_size}", len(decoder.near_ties)
            search(decoder, *sentence)
            gap = 0.0 if len(decoder.near_ties) > ties else abs(found.score - best.score)
            yield Difference(decoder.where, gap, gap, gap / NEAR_SCORE)
