"""Translations in the caller's own process: texts in, texts out.

Axes: B sentences, S pieces of the source.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.bundles.bundle import Bundle, TranslatorSpec, read_bundle, resolve_bundle
from foretell.data.errors import BundleError, OptionError
from foretell.data.text.normalising import normalise
from foretell.data.text.sentences import check_pairs, check_sentences
from foretell.data.text.tokenizer import TOKENIZER_FILE, Tokenizer
from foretell.data.text.translation import PairScore, TranslateOptions, Translation, TranslationPart
from foretell.runtime.answers import Answers, write_score, write_translation
from foretell.runtime.devices import CPU_PROVIDER
from foretell.runtime.origin import Origin
from foretell.runtime.packing import Batch, pad_sources, plan_batches, source_ladder
from foretell.runtime.queues.sentence_rows import SentenceRows
from foretell.runtime.queues.work import Plan
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.option_texts import OptionTexts
from foretell.runtime.search.scoring import score_targets
from foretell.runtime.search.search import search
from foretell.runtime.search.stopping import Stop
from foretell.runtime.search.streaming import stream_search
from foretell.runtime.sources import (
    PairTask,
    SentenceTask,
    check_model_options,
    pair_task,
    sentence_task,
    without_model,
)

# Padded source tokens of a batch, counted once a beam: on a CPU what its caches hold, on a GPU
# what fills it.
_MAX_TOKENS = 8_192
_MAX_TOKENS_GPU = 65_536

_DEFAULTS = TranslateOptions()
OnStep = Callable[[], None]
# Places of a batch's sentences among those that run, their sources, and where a piece is.
RunBatch = Callable[[tuple[int, ...], Int64[np.ndarray, "B S"], Bool[np.ndarray, "B S"]], None]


class Translator:
    """A loaded translator. Many threads may use it at once; a pickled one loads its bundle again.

    Attributes:
        manifest: What the bundle says of the model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Bundle,
        *,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Load a bundle.

        Args:
            path: A bundle's folder, or a model's folder, whose newest version is taken; or a
                bundle that `read_bundle` has read.
            device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.
            threads: Compute threads; None takes the cores that this process may use.

        Raises:
            BundleError: The bundle is missing, incomplete, damaged, or holds no translator.
            DeviceError: CUDA was asked for and can't be had.
            OptionError: `device` or `threads` is none that there is.
        """
        bundle = path if isinstance(path, Bundle) else read_bundle(resolve_bundle(path))
        self.manifest = bundle.manifest
        self._decoder = OnnxDecoder(bundle, device=device, threads=threads)
        self._session = self._decoder.session
        self._spec = self._decoder.spec
        self._tokenizer = read_tokenizer(bundle, self._spec)
        on_cpu = self.provider == CPU_PROVIDER
        self._max_tokens = _MAX_TOKENS if on_cpu else _MAX_TOKENS_GPU
        self._rows = SentenceRows(self._decoder, self._tokenizer, max_tokens=self._max_tokens)
        self._origin = Origin.of(bundle, device, threads)

    @property
    def provider(self) -> str:
        """The onnxruntime provider in use, such as "CPUExecutionProvider"."""
        return self._session.provider

    @property
    def busy_s(self) -> float:
        """Seconds in which the model's graphs have been running so far, summed over all threads."""
        return sum((session.busy_s for session in self._decoder.sessions.values()), 0.0)

    def __reduce__(self) -> tuple[Callable[..., "Translator"], tuple[object, ...]]:
        return _reload, (self._origin,)

    def __copy__(self) -> "Translator":
        return self  # nothing in it changes, so a copy would only be memory

    def __deepcopy__(self, memo: dict[int, object]) -> "Translator":
        return self

    def __repr__(self) -> str:
        return f"Translator({str(self._origin.path)!r}, provider={self.provider!r})"

    def translate(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions] = _DEFAULTS,
        *,
        first_place: int = 0,
        on_step: OnStep | None = None,
    ) -> list[Translation]:
        """Translate sentences, each as if it were alone.

        Args:
            sentences: A text each. A blank one stays blank; one without any letter or digit is
                handed on as it is.
            options: How to search: for all, or one a sentence.
            first_place: Place of the first sentence, where these are a part of a longer list: what
                is drawn at random depends on a sentence's place.
            on_step: Called for every text that is read, and at every step, in the threads that
                compute; what it raises ends the call.

        Returns:
            A translation for each sentence, in their order.

        Raises:
            RefusedSentencesError: Some sentences can't be translated; it names them and why, and
                carries the translations of all others.
            OptionError: That is no list of texts, or the options fit neither it nor this model.
        """
        return self.translate_sentences(
            sentences, options, first_place=first_place, on_step=on_step
        ).all()

    def translate_sentences(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions] = _DEFAULTS,
        *,
        first_place: int = 0,
        on_step: OnStep | None = None,
    ) -> Answers[Translation]:
        """Translate sentences, with refusals beside the answers; else as `translate`.

        Raises:
            OptionError: That is no list of texts, or the options fit neither it nor this model.
        """
        answers, tasks = self._read_sentences(sentences, options, first_place, on_step)

        def run(places: tuple[int, ...], src: np.ndarray, src_mask: np.ndarray) -> None:
            some = [tasks[place] for place in places]
            told = None if on_step is None else lambda _: on_step()
            found = search(self._decoder, src, src_mask, [task.request for task in some], told)
            for task, hypotheses in zip(some, found, strict=True):
                answers.put(
                    task.position, partial(write_translation, task, hypotheses, self._tokenizer)
                )

        self._in_batches(
            [task.source.ids for task in tasks],
            [task.request.options.beam_size for task in tasks],
            [task.request.max_length for task in tasks],
            run,
        )
        return answers

    def translate_stream(
        self, sentence: str, options: TranslateOptions = _DEFAULTS
    ) -> Generator[TranslationPart | Translation, None, None]:
        """Translate a sentence, and tell its text while it is being found.

        With a beam of 1 a token is told as soon as it is chosen; with more, once all hypotheses
        that may still win agree on it. Text is told in whole words.

        Args:
            sentence: A text; see `translate`.
            options: How to search.

        Returns:
            A part for each step, which may be empty, and the whole translation at the end. Closing
            it ends the search.

        Raises:
            RefusedSentencesError: The sentence can't be translated.
            OptionError: That is no text, or the options don't fit this model.
        """
        (text,), (chosen,) = check_sentences([sentence], [options])
        of_options = OptionTexts(self._tokenizer)
        check_model_options([chosen], self._spec, of_options)
        return self._stream(normalise(text), chosen, of_options)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, on_step: OnStep | None = None
    ) -> list[PairScore]:
        """Tell how probable given translations are, each as if it were alone.

        Args:
            pairs: A source and its translation each; of a blank translation its end is scored.
            on_step: Called for every text that is read, and at every step, in the threads that
                compute; what it raises ends the call.

        Returns:
            A score for each pair, in their order.

        Raises:
            RefusedSentencesError: Some pairs can't be scored; it names them and why, and carries
                the scores of all others.
            OptionError: That is no list of pairs of texts.
        """
        return self.score_pairs(pairs, on_step=on_step).all()

    def score_pairs(
        self, pairs: Sequence[tuple[str, str]], *, on_step: OnStep | None = None
    ) -> Answers[PairScore]:
        """Score translations, with refusals beside the answers; else as `score`.

        Raises:
            OptionError: That is no list of pairs of texts.
        """
        answers, tasks = self._read_pairs(pairs, on_step)

        def run(places: tuple[int, ...], src: np.ndarray, src_mask: np.ndarray) -> None:
            some = [tasks[place] for place in places]
            targets = [task.target for task in some]
            found = score_targets(self._decoder, src, src_mask, targets, on_step)
            for task, log_probs in zip(some, found, strict=True):
                answers.put(task.position, partial(write_score, task, log_probs, self._tokenizer))

        self._in_batches(
            [task.source.ids for task in tasks],
            [1] * len(tasks),
            [len(task.target) for task in tasks],
            run,
        )
        return answers

    @property
    def threads(self) -> int:
        """Batches that are worth being computed at a time."""
        return self._session.threads

    def plan_translations(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions] = _DEFAULTS,
        *,
        first_place: int = 0,
        on_step: OnStep | None = None,
    ) -> Plan[Answers[Translation]]:
        """Read sentences, and leave the search to a queue; else as `translate_sentences`."""
        answers, tasks = self._read_sentences(sentences, options, first_place, on_step)
        return Plan(self._rows.translations(tasks, answers), lambda: answers)

    def plan_scores(
        self, pairs: Sequence[tuple[str, str]], *, on_step: OnStep | None = None
    ) -> Plan[Answers[PairScore]]:
        """Read pairs, and leave the scoring to a queue; else as `score_pairs`."""
        answers, tasks = self._read_pairs(pairs, on_step)
        return Plan(self._rows.scores(tasks, answers), lambda: answers)

    def run_graph(
        self,
        graph: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
        *,
        stop: Stop | None = None,
    ) -> dict[str, np.ndarray]:
        """Run one of the bundle's graphs, "encoder" or "decoder"; as `Session.run`."""
        return self._decoder.sessions[graph].run(inputs, outputs, stop=stop)

    def _read_sentences(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions],
        first_place: int,
        on_step: OnStep | None,
    ) -> tuple[Answers[Translation], list[SentenceTask]]:
        """Find what is to be searched for; what needs no search is answered already."""
        texts, settings = check_sentences(sentences, options)
        of_options = OptionTexts(self._tokenizer, on_step)
        check_model_options(settings, self._spec, of_options)
        if first_place < 0:
            raise OptionError(f"first_place is {first_place}; it must be 0 or more.")
        answers = Answers[Translation](len(texts))
        tasks: list[SentenceTask] = []
        for position, (text, chosen) in enumerate(zip(texts, settings, strict=True)):
            if on_step is not None:
                on_step()
            normal = normalise(text)
            if (known := without_model(normal, is_normal=True)) is not None:
                answers.answers[position] = known
                continue
            try:
                task = self._task(normal, chosen, of_options, position, first_place + position)
                tasks.append(task)
            except OptionError as error:
                answers.refuse(position, error)
        return answers, tasks

    def _read_pairs(
        self, pairs: Sequence[tuple[str, str]], on_step: OnStep | None
    ) -> tuple[Answers[PairScore], list[PairTask]]:
        """Find what is to be scored."""
        texts = check_pairs(pairs)
        answers = Answers[PairScore](len(texts))
        tasks: list[PairTask] = []
        for position, (source, target) in enumerate(texts):
            if on_step is not None:
                on_step()
            try:
                tasks.append(pair_task(source, target, self._tokenizer, self._spec, position))
            except OptionError as error:
                answers.refuse(position, error)
        return answers, tasks

    def _task(
        self, normal: str, options: TranslateOptions, texts: OptionTexts, position: int, place: int
    ) -> SentenceTask:
        return sentence_task(
            normal,
            options,
            self._tokenizer,
            self._spec,
            position=position,
            place=place,
            texts=texts,
            is_normal=True,
        )

    def _in_batches(
        self,
        sources: Sequence[tuple[int, ...]],
        beam_sizes: Sequence[int],
        max_lengths: Sequence[int],
        run: RunBatch,
    ) -> None:
        """Run sources of all lengths, batches side by side."""

        def work(batch: Batch) -> None:
            some = [sources[place] for place in batch.sentences]
            run(batch.sentences, *pad_sources(some, batch.source_length))

        batches = plan_batches(
            [len(ids) for ids in sources],
            beam_sizes,
            max_lengths,
            max_source_length=self._spec.max_source_length,
            max_tokens=self._max_tokens,
            parts=self._session.threads,
        )
        self._session.for_each(work, batches)

    def _stream(
        self, normal: str, options: TranslateOptions, texts: OptionTexts
    ) -> Generator[TranslationPart | Translation, None, None]:
        answers = Answers[Translation](1)
        known = without_model(normal, is_normal=True)
        if known is not None:
            yield TranslationPart(text=known.text)
            yield known
            return
        try:
            task = self._task(normal, options, texts, 0, 0)
            ladder = source_ladder(self._spec.max_source_length)
            length = int(ladder[np.searchsorted(ladder, len(task.source.ids))])
            src, src_mask = pad_sources([task.source.ids], length)
            yield from stream_search(self._decoder, task, src, src_mask, self._tokenizer)
        except OptionError as error:
            answers.refuse(0, error)
        answers.all()


def read_tokenizer(bundle: Bundle, spec: TranslatorSpec) -> Tokenizer:
    """Read the tokenizer that travels in a bundle.

    Raises:
        BundleError: There is none, or it is damaged or another model's.
    """
    # While a bundle is being made, the manifest lists no files yet.
    if bundle.manifest.files and TOKENIZER_FILE not in bundle.manifest.files:
        raise BundleError(f"bundle {bundle.path} has no {TOKENIZER_FILE}; export the model again.")
    tokenizer = Tokenizer.from_file(bundle.path / TOKENIZER_FILE)
    if tokenizer.vocab_size != spec.vocab_size:
        raise BundleError(
            f"bundle {bundle.path}: {TOKENIZER_FILE} has {tokenizer.vocab_size:,} pieces, "
            f"the model {spec.vocab_size:,}; export the model again."
        )
    return tokenizer


def _reload(origin: Origin) -> Translator:
    return Translator(origin.read(), device=origin.device, threads=origin.threads)
