"""Real bundles over the Open Inference Protocol: the numbers are those of the runtime."""

from functools import partial

import grpc
import numpy as np
import pandas as pd
import pytest

from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import Rows
from foretell.data.text.tokenizer import BOS, EOS, TOKENIZER_FILE, Tokenizer
from foretell.data.text.translation import TranslateOptions
from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.runtime import load
from foretell.runtime.signature import empty_past, renamed
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model

DATATYPES = {
    "float64": "FP64",
    "float32": "FP32",
    "int64": "INT64",
    "bool": "BOOL",
}
DTYPES = {datatype: np.dtype(dtype) for dtype, datatype in DATATYPES.items()}
load_on_cpu = partial(load, device="cpu", threads=1)


@pytest.fixture(scope="module")
def forecaster(bundle_path):
    return load_on_cpu(bundle_path)


@pytest.fixture(scope="module")
def translator(translator_bundle_path):
    return load_on_cpu(translator_bundle_path)


@pytest.fixture(scope="module")
def recurrent(recurrent_bundle_path):
    return load_on_cpu(recurrent_bundle_path)


@pytest.fixture(scope="module")
def stub(forecaster, translator, recurrent):
    models = {"demand": forecaster, "ende": translator, "gru": recurrent}
    repository = Repository([Model(name, 3, model) for name, model in models.items()])
    with (
        serve_in_background(repository) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield GRPCInferenceServiceStub(channel)


def request_of(model, arrays, outputs=(), **parameters):
    request = wire.ModelInferRequest(model_name=model)
    for name, array in arrays.items():
        request.inputs.add(name=name, datatype=DATATYPES[array.dtype.name], shape=array.shape)
        request.raw_input_contents.append(np.ascontiguousarray(array).tobytes())
    for name in outputs:
        request.outputs.add(name=name)
    for name, value in parameters.items():
        request.parameters[name].int64_param = value
    return request


def ask(stub, model, arrays, outputs=(), **parameters):
    response = stub.ModelInfer(request_of(model, arrays, outputs, **parameters))
    return {
        output.name: np.frombuffer(content, DTYPES[output.datatype]).reshape(output.shape)
        for output, content in zip(response.outputs, response.raw_output_contents, strict=True)
        if output.datatype != "BYTES"
    }


def translate(stub, model, texts, **parameters):
    request = wire.ModelInferRequest(model_name=model)
    given = request.inputs.add(name="sentences", datatype="BYTES", shape=[len(texts)])
    given.contents.bytes_contents.extend(text.encode() for text in texts)
    parameters = {**parameters, "binary_data_output": False}
    for name, value in parameters.items():
        field = "bool_param" if isinstance(value, bool) else "int64_param"
        setattr(request.parameters[name], field, value)
    return {output.name: output for output in stub.ModelInfer(request).outputs}


def contexts(rows=3, steps=40):
    rng = np.random.default_rng(5)
    context = rng.normal(size=(rows, steps)).cumsum(axis=1) + 20
    context[0, :25] = np.nan
    context[1, 30] = np.nan
    return context


def test_a_graph_gives_what_its_session_gives(stub, forecaster):
    arrays = {"context": contexts(), "horizon_placeholder": np.full((3, 9), np.nan)}
    found = ask(stub, "demand:forecaster", arrays)
    expected = forecaster.run_graph("forecaster", arrays)
    assert found["quantiles"].tobytes() == expected["quantiles"].tobytes()


def rows_of(context):
    """The same by the runtime's own door: no row before the first that was observed."""
    firsts = [int(np.argmax(~np.isnan(row))) for row in context]
    kept = [row[first:] for row, first in zip(context, firsts, strict=True)]
    return Rows(
        ids=pd.Index([str(at) for at in range(len(kept))], dtype=object),
        indptr=np.cumsum([0, *map(len, kept)]).astype(np.int64),
        stamps=np.concatenate([np.arange(len(row)) for row in kept]).astype(np.int64),
        stamp_kind="integer",
        time_zone=None,
        target=np.concatenate(kept),
        covariates=np.empty((sum(map(len, kept)), 0)),
        static=np.empty((len(kept), 0)),
        positions=np.arange(len(kept)),
    )


def test_a_task_gives_what_the_runtime_gives(stub, forecaster):
    context = contexts()
    found = ask(stub, "demand", {"context": context}, horizon=9)
    options = ForecastOptions(
        horizon=9,
        quantile_levels=forecaster.manifest.forecaster.quantile_levels,
        freq="1",
        allow_other_frequency=True,
    )
    expected = forecaster.forecast_rows(rows_of(context), None, options)
    assert found["forecast"].tobytes() == expected.forecast.tobytes()
    assert found["quantiles"].tobytes() == expected.quantiles.tobytes()
    assert found["quantile_levels"].tolist() == list(options.quantile_levels)


def test_a_row_does_not_depend_on_its_neighbours(stub):
    context = contexts()
    together = ask(stub, "demand", {"context": context}, horizon=5)["quantiles"]
    alone = ask(stub, "demand", {"context": context[:1, 25:]}, horizon=5)["quantiles"]
    assert together[:1].tobytes() == alone.tobytes()


def test_covariates_reach_the_graph(covariate_bundle_path):
    model = load_on_cpu(covariate_bundle_path)
    rng = np.random.default_rng(2)
    arrays = {
        "context": contexts(2),
        "context_covariates": rng.normal(size=(2, 40, 2)),
        "horizon_covariates": rng.normal(size=(2, 6, 1)),
        "static": rng.normal(size=(2, 1)),
    }
    arrays["context"][0, :] = np.arange(40)  # as long as the other: one padding, one batch
    with (
        serve_in_background(Repository([Model("demand", 1, model)])) as address,
        grpc.insecure_channel(address) as channel,
    ):
        stub = GRPCInferenceServiceStub(channel)
        found = ask(stub, "demand", arrays)
        graph = {**arrays, "horizon_placeholder": np.full((2, 6), np.nan)}
        bare = ask(stub, "demand:forecaster", graph)
    assert np.allclose(found["quantiles"], bare["quantiles"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ["ende", "gru"])
def test_translations_are_those_of_the_runtime(stub, translator, recurrent, model):
    texts = ["twenty one", "", "ninety nine", "seven"]
    runtime = {"ende": translator, "gru": recurrent}[model]
    found = translate(stub, model, texts, beam_size=4, n_best=2)
    expected = runtime.translate(texts, TranslateOptions(beam_size=4, n_best=2))
    told = [text.decode() for text in found["translations"].contents.bytes_contents]
    scores = list(found["scores"].contents.fp64_contents)
    counts = list(found["num_translations"].contents.int64_contents)
    for at, translation in enumerate(expected):
        assert counts[at] == len(translation.hypotheses)
        for rank, hypothesis in enumerate(translation.hypotheses):
            assert told[2 * at + rank] == hypothesis.text
            assert scores[2 * at + rank] == hypothesis.score


@pytest.mark.parametrize("model", ["ende", "gru"])
def test_a_search_can_be_made_of_the_graphs_alone(
    stub, translator, recurrent, translator_bundle_path, recurrent_bundle_path, model
):
    """Whoever has a search of his own, in any language, needs nothing but the two graphs."""
    runtime, folder = {
        "ende": (translator, translator_bundle_path),
        "gru": (recurrent, recurrent_bundle_path),
    }[model]
    tokenizer = Tokenizer.from_file(folder / TOKENIZER_FILE)
    (expected,) = runtime.translate(["twenty one"], TranslateOptions(beam_size=1))
    src = np.array([[*tokenizer.encode("twenty one"), EOS]], np.int64)
    found = greedy(stub, model, runtime, src)
    assert tokenizer.decode(found) == expected.text


def greedy(stub, model, runtime, src):
    """Ask for the encoder once, and for the decoder step by step."""
    src_mask = np.ones(src.shape, bool)
    given = ask(stub, f"{model}:encoder", {"src": src, "src_mask": src_mask})
    memory = {name: array for name, array in given.items() if name.startswith("memory_")}
    state = first_state(runtime, {"src": src, **given})
    token, found = BOS, []
    for position in range(40):
        arrays = {
            "tokens": np.array([[token]]),
            "scores": np.zeros((1, 1), np.float32),
            "parents": np.array([[0]]),
            "positions": np.array([position]),
            "num_candidates": np.array([1]),
            "src_mask": src_mask,
        }
        step = ask(stub, f"{model}:decoder", {**arrays, **memory, **state})
        token = int(step["candidates"][0, 0])
        if token == EOS:
            break
        found.append(token)
        state = {name: step[renamed(name, "present_")] for name in state}
    return found


def first_state(runtime, given):
    """What a decoder remembers before its first step."""
    return {
        spec.name: given.get(renamed(spec.name, "initial_"), empty_past(spec, len(given["src"])))
        for spec in runtime.manifest.graph("decoder.onnx").inputs
        if spec.name.startswith("past_")
    }


def encoder_arrays(rows=2, pieces=5):
    return {
        "src": np.full((rows, pieces), 7, np.int64),
        "src_mask": np.ones((rows, pieces), bool),
    }


def decoder_arrays(rows=2, beams=3, pieces=5):
    return {
        "tokens": np.full((rows, beams), 7, np.int64),
        "scores": np.zeros((rows, beams), np.float32),
        "parents": np.zeros((rows, beams), np.int64),
        "positions": np.zeros(rows, np.int64),
        "num_candidates": np.array([4]),
        "src_mask": np.ones((rows, pieces), bool),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a["src"].__setitem__((0, 0), 10**6), "'src' holds 7 to 1000000"),
        (lambda a: a["src"].__setitem__((0, 0), -1), "'src' holds -1 to 7"),
        (lambda a: a.update(encoder_arrays(pieces=41)), "src_len is 41; at most 40"),
        (lambda a: a.update(src_mask=np.ones((2, 4), bool)), "src_len is 4, but 5 elsewhere"),
        (lambda a: a.update(encoder_arrays(rows=30_000)), "of such at most"),
    ],
)
def test_what_an_encoder_cannot_take_never_reaches_it(stub, change, words):
    arrays = encoder_arrays()
    change(arrays)
    with pytest.raises(grpc.RpcError) as error:
        ask(stub, "ende:encoder", arrays)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in error.value.details()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a["tokens"].__setitem__((0, 0), 400), "'tokens' holds 7 to 400"),
        (lambda a: a["parents"].__setitem__((0, 0), 1), "'parents' holds 0 to 1"),
        (lambda a: a["parents"].__setitem__((0, 0), -1), "'parents' holds -1 to 0"),
        (lambda a: a["positions"].__setitem__(0, -1), "'positions' holds -1 to 0"),
        (lambda a: a["num_candidates"].__setitem__(0, 0), "'num_candidates' holds 0 to 0"),
        (lambda a: a["num_candidates"].__setitem__(0, 2**40), "'num_candidates' holds"),
        (lambda a: a.update(decoder_arrays(beams=65)), "beams is 65; at most 64"),
    ],
)
def test_what_a_decoder_cannot_take_never_reaches_it(stub, recurrent, change, words):
    given = ask(stub, "gru:encoder", encoder_arrays())
    past = {name: array for name, array in given.items() if name.startswith("memory_")}
    past |= first_state(recurrent, {**encoder_arrays(), **given})
    arrays = decoder_arrays()
    assert ask(stub, "gru:decoder", {**arrays, **past})["candidates"].shape == (2, 4)
    change(arrays)
    with pytest.raises(grpc.RpcError) as error:
        ask(stub, "gru:decoder", {**arrays, **past})
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in error.value.details()


@pytest.mark.parametrize(
    ("rows", "steps", "horizon", "words"),
    [
        (1, 4, 8_200, "at most 2,048 can be run"),  # patches squared are gigabytes
        (100, 4, 4_000, "of such at most"),
        (1, 0, 4, "context_len is 0"),
        (1, 4, 0, "horizon is 0"),
    ],
)
def test_a_small_request_cannot_ask_a_graph_for_all_the_memory(stub, rows, steps, horizon, words):
    arrays = {
        "context": np.ones((rows, steps)),
        "horizon_placeholder": np.full((rows, horizon), np.nan),
    }
    with pytest.raises(grpc.RpcError) as error:
        ask(stub, "demand:forecaster", arrays)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in error.value.details()


def test_outputs_of_a_graph_come_as_asked(stub):
    arrays = encoder_arrays()
    everything = ask(stub, "gru:encoder", arrays)
    names = list(everything)[::-1]
    assert list(ask(stub, "gru:encoder", arrays, outputs=names)) == names
    (one,) = ask(stub, "gru:encoder", arrays, outputs=names[:1]).values()
    assert one.tobytes() == everything[names[0]].tobytes()


def test_graphs_are_listed_and_described(stub, forecaster):
    index = stub.RepositoryIndex(wire.RepositoryIndexRequest(ready=True)).models
    assert [(one.name, one.version) for one in index] == [
        ("demand", "3"),
        ("demand:forecaster", "3"),
        ("ende", "3"),
        ("ende:encoder", "3"),
        ("ende:decoder", "3"),
        ("gru", "3"),
        ("gru:encoder", "3"),
        ("gru:decoder", "3"),
    ]
    for one in index:
        assert stub.ModelReady(wire.ModelReadyRequest(name=one.name, version="3")).ready
        config = stub.ModelConfig(wire.ModelConfigRequest(name=one.name)).config
        about = stub.ModelMetadata(wire.ModelMetadataRequest(name=one.name))
        assert [(i.name, list(i.dims)) for i in config.input] == [
            (i.name, list(i.shape)) for i in about.inputs
        ]
        assert config.parameters["provider"].string_value == "CPUExecutionProvider"
    about = stub.ModelMetadata(wire.ModelMetadataRequest(name="demand:forecaster"))
    assert about.platform == "onnxruntime_onnx"
    assert [(one.name, one.datatype, list(one.shape)) for one in about.inputs] == [
        ("context", "FP64", [-1, -1]),
        ("horizon_placeholder", "FP64", [-1, -1]),
    ]
    num_levels = len(forecaster.manifest.forecaster.quantile_levels)
    assert list(about.outputs[0].shape) == [-1, -1, num_levels]


def test_a_graph_that_there_is_not_is_told(stub):
    for name in ("demand:encoder", "demand:", "demand:forecaster.onnx", "demand:../x"):
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelMetadata(wire.ModelMetadataRequest(name=name))
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
        assert "demand:forecaster" in error.value.details()


def account(stub, model):
    (found,) = stub.ModelStatistics(wire.ModelStatisticsRequest(name=model)).model_stats
    return found


@pytest.mark.parametrize(
    "model", ["demand", "demand:forecaster", "ende", "ende:encoder", "gru:encoder"]
)
def test_statistics_tell_what_a_requests_time_went_into(stub, model):
    """Triton's tools print them as the server's share of what a caller waited."""
    asks = {
        "demand": lambda: ask(stub, model, {"context": contexts(2)[:1]}),
        "demand:forecaster": lambda: ask(
            stub, model, {"context": contexts(2), "horizon_placeholder": np.full((2, 9), np.nan)}
        ),
        "ende": lambda: translate(stub, model, ["twenty one"]),
    }
    before = account(stub, model)
    for _ in range(5):
        asks.get(model, lambda: ask(stub, model, encoder_arrays()))()
    after = account(stub, model)

    def grown(name):
        now, then = getattr(after.inference_stats, name), getattr(before.inference_stats, name)
        return now.count - then.count, now.ns - then.ns

    parts = [grown(name) for name in ("queue", "compute_input", "compute_infer", "compute_output")]
    assert {count for count, _ in parts} == {5}, "each batch had one request"
    assert all(ns > 0 for _, ns in parts), parts
    count, whole_ns = grown("success")
    assert count == 5
    assert sum(ns for _, ns in parts) <= whole_ns, "they are parts of it, and don't overlap"
    (alone,) = [one for one in after.batch_stats if one.batch_size == 1]
    assert alone.compute_input.count == alone.compute_infer.count == alone.compute_output.count
    assert min(alone.compute_input.ns, alone.compute_infer.ns, alone.compute_output.ns) > 0
