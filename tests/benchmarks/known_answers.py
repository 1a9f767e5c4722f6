"""Questions to a server whose right answers are known: computed in this process beforehand.

Each goes over the wire as any client's would; its answer is compared bit for bit with what
`foretell.runtime` gives for the same input. A question may be asked by several versions of a model,
each of which has an answer of its own.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pandas as pd

from foretell.client.codec import Span
from foretell.client.translation_codec import read_event, read_translations, write_options
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.rows import read_rows
from foretell.data.text.number_words import english_words
from foretell.data.text.translation import RefusedSentencesError, TranslateOptions, TranslationPart
from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import arrays_pb2, forecaster_pb2, translator_pb2
from foretell.runtime import Translator, load

FORECASTER, TRANSLATOR = "demand", "ende"
"""Names of the models that are asked."""

FORECAST = "/foretell.v1.Forecaster/Forecast"
TRANSLATE = "/foretell.v1.Translator/Translate"
TRANSLATE_STREAM = "/foretell.v1.Translator/TranslateStream"
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"
SEARCHES = (
    TranslateOptions(beam_size=1),
    TranslateOptions(beam_size=4, n_best=2),
    TranslateOptions(beam_size=5, length_formula="gnmt"),
    TranslateOptions(beam_size=1, sample=True, seed=7),
)
LOST_S = 60.0  # an answer that isn't there by then counts as lost
_OWN_FAULT = "Internal error from Core"  # gRPC's client wrote on to a call that had been refused
RIGHT, WRONG, LOST, LEFT = "right", "wrong", "lost", "left"

Answer = tuple[int, Any]
"""The version that answered, and what it said, comparable by `==`."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask.

    Attributes:
        kind: In a word or two, for tables.
        ask: Sends it over a channel, and reads the answer.
        known: The right answer by version.
        ends: How it may end: RIGHT, LEFT (by the caller), or a status code's name.
    """

    kind: str
    ask: Callable[[grpc.aio.Channel], Awaitable[Answer]]
    known: Mapping[int, Any]
    ends: tuple[str, ...] = (RIGHT,)


async def put(question: Question, channel: grpc.aio.Channel) -> tuple[str, int]:
    """Ask, and tell how it ended, and which version answered (0 for none)."""
    version = 0
    try:
        async with asyncio.timeout(LOST_S):
            version, answer = await question.ask(channel)
    except grpc.RpcError as error:
        if (error.details() or "").startswith(_OWN_FAULT):
            return "UNAVAILABLE", version
        return error.code().name, version
    except TimeoutError:
        return LOST, version
    except asyncio.CancelledError:
        return LEFT, version
    return (RIGHT if question.known.get(version) == answer else WRONG), version


def questions(
    *, forecasters: Mapping[int, Path], translators: Mapping[int, Path], seed: int = 0
) -> list[Question]:
    """Make some of every kind.

    Args:
        forecasters: Bundles by version, none with covariates; empty for no forecasts.
        translators: Bundles by version; empty for no translations.
        seed: Of what is asked.
    """
    found: list[Question] = []
    if forecasters:
        models = {version: load(path, threads=1) for version, path in forecasters.items()}
        found += forecasts(models, random.Random(seed))
    if translators:
        models = {version: load(path, threads=1) for version, path in translators.items()}
        found += translations(models, random.Random(seed))
    return found


def forecasts(models: Mapping[int, Any], rng: random.Random) -> list[Question]:
    """Forecasts of one to six series, over both protocols."""
    made = []
    for _ in range(40):
        steps = [rng.randint(8, 200) for _ in range(rng.randint(1, 6))]
        values = [np.cumsum([rng.gauss(0, 1) for _ in range(one)]) + 20 for one in steps]
        horizon = rng.randint(1, 24)
        made.append(_forecast(models, values, horizon))
        same = np.stack([one[: min(steps)] for one in values])
        made.append(_infer_forecast(models, same, horizon))
    return made


def rows_of(values: Sequence[np.ndarray]) -> Any:
    """Series of integer steps as rows."""
    table = pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{at}" for at in range(len(values))], [*map(len, values)]),
            "ds": np.concatenate([np.arange(len(one)) for one in values]),
            "y": np.concatenate(values),
        }
    )
    return read_rows(table, Columns())


def forecast_options(horizon: int) -> ForecastOptions:
    """Options for integer steps, whatever the model was trained for."""
    return ForecastOptions.from_call(horizon, freq=1, allow_other_frequency=True)


def integer_request(values: Sequence[np.ndarray]) -> Any:
    """A request for series of integer steps, whose horizon is still to be said."""
    lengths = np.array([len(one) for one in values])
    return forecaster_pb2.ForecastRequest(
        model=FORECASTER,
        raw_answer=True,
        frequency="1",
        allow_other_frequency=True,
        history=forecaster_pb2.History(
            ids=[f"s{at}" for at in range(len(values))],
            lengths=pack_integers(lengths, raw=True),
            stamps=pack_integers(np.concatenate([np.arange(one) for one in lengths]), raw=True),
            stamp_kind=arrays_pb2.StampKind.STAMP_KIND_INTEGER,
            target=pack_doubles(np.concatenate(values), raw=True),
        ),
    )


def _forecast(models: Mapping[int, Any], values: list[np.ndarray], horizon: int) -> Question:
    known = {}
    for version, model in models.items():
        told = model.forecast_rows(rows_of(values), None, forecast_options(horizon))
        known[version] = tuple(
            one.tobytes() for one in (told.stamps, told.forecast, told.quantiles)
        )
    request = integer_request(values)
    request.horizon = horizon
    content = request.SerializeToString()

    async def ask(channel: grpc.aio.Channel) -> Answer:
        told = forecaster_pb2.ForecastResponse.FromString(
            await channel.unary_unary(FORECAST)(content)
        )
        return told.version, (told.stamps.raw, told.forecast.raw, told.quantiles.raw)

    return Question("forecast", ask, known)


def _infer_forecast(models: Mapping[int, Any], context: np.ndarray, horizon: int) -> Question:
    request = inference_pb2.ModelInferRequest(model_name=FORECASTER)
    request.inputs.add(name="context", datatype="FP64", shape=context.shape)
    request.raw_input_contents.append(context.tobytes())
    request.parameters["horizon"].int64_param = horizon
    for name in ("forecast", "quantiles"):
        request.outputs.add(name=name)
    known = {}
    for version, model in models.items():
        levels = model.manifest.forecaster.quantile_levels
        options = ForecastOptions.from_call(
            horizon, quantiles=levels, freq=1, allow_other_frequency=True
        )
        told = model.forecast_rows(rows_of(list(context)), None, options)
        known[version] = (told.forecast.tobytes(), told.quantiles.tobytes())
    return Question("forecast, Open Inference", infer(request), known)


def infer(request: Any) -> Callable[[grpc.aio.Channel], Awaitable[Answer]]:
    """Asks by the Open Inference Protocol; the answer is the raw outputs."""
    content = request.SerializeToString()

    async def ask(channel: grpc.aio.Channel) -> Answer:
        told = inference_pb2.ModelInferResponse.FromString(
            await channel.unary_unary(INFER)(content)
        )
        return int(told.model_version), tuple(told.raw_output_contents)

    return ask


def translations(models: Mapping[int, Any], rng: random.Random) -> list[Question]:
    """Translations in every way, over both protocols."""
    made = []
    for at in range(40):
        sentences = [english_words(rng.randrange(1000)) for _ in range(rng.randint(1, 5))]
        options = SEARCHES[at % len(SEARCHES)]
        made.append(_translate(models, sentences, options))
        made.append(_infer_translation(models, sentences, options))
        made.append(_stream(models, sentences[0], options))
        made.append(_infer_stream(models, sentences, options))
        if at % 4 == 0:
            made.append(_with_a_refused_one(models, sentences))
    return made


def translate_request(sentences: Sequence[str], options: TranslateOptions) -> Any:
    """A request for some sentences."""
    return translator_pb2.TranslateRequest(
        model=TRANSLATOR, sentences=sentences, options=[write_options(options)]
    )


def _translate(
    models: Mapping[int, Any], sentences: list[str], options: TranslateOptions
) -> Question:
    known = {
        version: repr((dict(enumerate(model.translate(sentences, options))), []))
        for version, model in models.items()
    }
    kind = "sampled" if options.sample else "greedy" if options.beam_size == 1 else "beam"
    return Question(f"translate, {kind}", _asks(sentences, options), known)


def _with_a_refused_one(models: Mapping[int, Any], sentences: list[str]) -> Question:
    """One sentence is too long for the model: it is refused, and its neighbours are not."""
    bad = [*sentences, " ".join(map(english_words, range(200, 300)))]
    known = {version: _partly(model, bad) for version, model in models.items()}
    return Question("translate, one refused", _asks(bad, TranslateOptions()), known)


def _partly(model: Translator, sentences: list[str]) -> Any:
    try:
        model.translate(sentences, TranslateOptions())
    except RefusedSentencesError as error:
        answers = {at: one for at, one in enumerate(error.answers) if one is not None}
        return repr((answers, [*error.refusals]))
    raise RuntimeError("the model takes longer sentences than this script has")


def _asks(
    sentences: list[str], options: TranslateOptions
) -> Callable[[grpc.aio.Channel], Awaitable[Answer]]:
    content = translate_request(sentences, options).SerializeToString()

    async def ask(channel: grpc.aio.Channel) -> Answer:
        told = translator_pb2.TranslateResponse.FromString(
            await channel.unary_unary(TRANSLATE)(content)
        )
        answer = read_translations(told, Span(0, len(sentences)), "the server")
        return told.version, repr(answer)  # translations are not compared by `==`

    return ask


def infer_translation_request(sentences: list[str], options: TranslateOptions) -> Any:
    """A request of the Open Inference Protocol for some sentences."""
    request = inference_pb2.ModelInferRequest(model_name=TRANSLATOR)
    request.inputs.add(name="sentences", datatype="BYTES", shape=[len(sentences)])
    request.raw_input_contents.append(_lengths_and_texts(sentences))
    for name in ("beam_size", "n_best", "seed"):
        request.parameters[name].int64_param = getattr(options, name)
    request.parameters["length_formula"].string_param = options.length_formula
    request.parameters["sample"].bool_param = options.sample
    return request


def _infer_translation(
    models: Mapping[int, Any], sentences: list[str], options: TranslateOptions
) -> Question:
    request = infer_translation_request(sentences, options)
    for name in ("translations", "scores"):
        request.outputs.add(name=name)
    known = {version: _arrays(model, sentences, options) for version, model in models.items()}
    return Question("translate, Open Inference", infer(request), known)


def _arrays(model: Translator, sentences: list[str], options: TranslateOptions) -> Any:
    """Translations and scores as the protocol writes them."""
    texts: list[str] = []
    scores = np.full((len(sentences), options.n_best), -np.inf)
    for at, translation in enumerate(model.translate(sentences, options)):
        found = [one.text for one in translation.hypotheses]
        texts += [*found, *[""] * (options.n_best - len(found))]
        scores[at, : len(found)] = [one.score for one in translation.hypotheses]
    return _lengths_and_texts(texts), scores.tobytes()


def _lengths_and_texts(texts: Sequence[str]) -> bytes:
    coded = [text.encode() for text in texts]
    return b"".join(len(one).to_bytes(4, "little") + one for one in coded)


def _stream(models: Mapping[int, Any], sentence: str, options: TranslateOptions) -> Question:
    known = {
        version: repr(
            [
                event
                for event in model.translate_stream(sentence, options)
                if event != TranslationPart()
            ]
        )
        for version, model in models.items()
    }
    content = stream_request(sentence, options).SerializeToString()

    async def ask(channel: grpc.aio.Channel) -> Answer:
        version, events = 0, []
        async for told in channel.unary_stream(TRANSLATE_STREAM)(content):
            response = translator_pb2.TranslateStreamResponse.FromString(told)
            version = response.version
            events.append(read_event(response, "the server"))
        return version, repr(events)

    return Question("translate, token stream", ask, known)


def _infer_stream(
    models: Mapping[int, Any], sentences: list[str], options: TranslateOptions
) -> Question:
    """A stream of requests, whose answers come in any order: wholes, parts, and an error.

    Each request of a stream has the version that is newest when it comes. Where these differ, the
    answer of each is compared with what its own version says.
    """
    wanted = ("translations", "scores")
    whole, bad = (infer_translation_request(sentences, options) for _ in range(2))
    stream = infer_translation_request(sentences[:1], options)
    stream.parameters["stream"].bool_param = True
    bad.parameters["beam_size"].int64_param = 0
    for name, request in {"whole": whole, "stream": stream, "bad": bad}.items():
        request.id = name
        for output in wanted:
            request.outputs.add(name=output)
    contents = [request.SerializeToString() for request in (whole, stream, bad)]
    known = {}
    for version, model in models.items():
        text = model.translate(sentences[:1], options)[0].text
        known[version] = {
            "whole": [_arrays(model, sentences, options)],
            "stream": [_arrays(model, sentences[:1], options)],
            "parts": text,
            "bad": "INVALID_ARGUMENT",
        }

    async def ask(channel: grpc.aio.Channel) -> Answer:
        versions = {}
        found: dict[str, Any] = {"whole": [], "stream": [], "parts": "", "bad": ""}
        call = channel.stream_stream(STREAM_INFER)(iter(contents))
        async for content in call:
            message = inference_pb2.ModelStreamInferResponse.FromString(content)
            told = message.infer_response
            if message.error_message:
                found[told.id] = told.parameters["grpc_code"].string_param
            elif told.outputs[0].name == "text":
                found["parts"] += told.raw_output_contents[0][4:].decode()
            else:
                versions[told.id] = int(told.model_version)
                found[told.id].append(tuple(told.raw_output_contents))
        version, other = (known.get(versions.get(name, 0), {}) for name in ("whole", "stream"))
        streamed = ("stream", "parts")
        if version and other and all(found[name] == other[name] for name in streamed):
            found |= {name: version[name] for name in streamed}
        return versions.get("whole", 0), found

    return Question("stream, Open Inference", ask, known)


def stream_request(sentence: str, options: TranslateOptions) -> Any:
    """A request for a token stream."""
    return translator_pb2.TranslateStreamRequest(
        model=TRANSLATOR, sentence=sentence, options=write_options(options)
    )
