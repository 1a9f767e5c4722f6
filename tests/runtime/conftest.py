"""Stand-ins for trained models: graphs whose answers can be worked out by hand."""

import threading
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from foretell.data.bundles.bundle import (
    ForecasterSpec,
    GraphSpec,
    Manifest,
    TensorSpec,
    TranslatorSpec,
    write_bundle,
)
from foretell.data.text.tokenizer import TOKENIZER_FILE, Tokenizer
from foretell.data.text.tokenizer_training import train_tokenizer
from foretell.runtime.search.stopping import StoppedError

WAIT_S = 60.0

SPEC = ForecasterSpec(
    context_length=12,
    patch_length=4,
    horizon=3,
    frequency="D",
    season_length=7,
    quantile_levels=(0.1, 0.5, 0.9),
)
COVARIATE_SPEC = ForecasterSpec(
    context_length=12,
    patch_length=4,
    horizon=3,
    frequency="D",
    season_length=7,
    quantile_levels=(0.1, 0.5, 0.9),
    future_covariates=("promo", "price"),
    past_covariates=("visits",),
    static=("size",),
)

# Mean of the observed context (0 where there is none), times a scale.
MEAN = """
    blank = IsNaN(context)
    values = Where(blank, zero, context)
    observed = Where(blank, zero, one)
    total = ReduceSum(values, axis_1)
    steps = ReduceSum(observed, axis_1)
    divisor = Max(steps, one)
    mean = Div(total, divisor)
    level = Mul(mean, scale)
"""
# Softplus in float32 of the last step: rounded one way in whole vectors, another in the rest.
SOFTPLUS = """
    narrow = Cast <to = 1> (context)
    curve = Softplus(narrow)
    ending = Gather <axis = 1> (curve, last)
    level = Cast <to = 11> (ending)
"""
HORIZON = """
    ahead = IsNaN(horizon_placeholder)
    empty = Where(ahead, zero, zero)
    plain = Add(level, empty)
"""
# A column each in its own decimal place: promo 1, price 10; past 1, 10, 100; size 1000.
COVARIATES = """
    weighted_ahead = Mul(horizon_covariates, places_ahead)
    sum_ahead = ReduceSum <keepdims = 0> (weighted_ahead, axis_2)
    unknown = IsNaN(context_covariates)
    known = Where(unknown, zero, context_covariates)
    weighted_past = Mul(known, places_past)
    by_step = ReduceSum <keepdims = 0> (weighted_past, axis_2)
    sum_past = ReduceSum(by_step, axis_1)
    sum_static = Mul(static, thousand)
    with_ahead = Add(plain, sum_ahead)
    with_past = Add(with_ahead, sum_past)
    steps_ahead = Add(with_past, sum_static)
"""
PLAIN = """
    steps_ahead = Identity(plain)
"""
ENDING = """
    column = Unsqueeze(steps_ahead, axis_2)
    quantiles = Add(column, offsets)
"""

MakeBundle = Callable[..., Path]


def tensor_specs(spec: ForecasterSpec) -> tuple[TensorSpec, ...]:
    """The inputs that a forecaster's graph has, in their order."""
    inputs = [
        TensorSpec("context", "float64", ("batch", "context_len")),
        TensorSpec("horizon_placeholder", "float64", ("batch", "horizon")),
    ]
    if spec.future_covariates:
        inputs += [
            TensorSpec("context_covariates", "float64", ("batch", "context_len", 3)),
            TensorSpec("horizon_covariates", "float64", ("batch", "horizon", 2)),
            TensorSpec("static", "float64", ("batch", 1)),
        ]
    return tuple(inputs)


def make_graph(spec: ForecasterSpec, level: str = MEAN, scale: float = 1.0) -> bytes:
    """Build a graph that answers the level, plus its covariates, plus each quantile level - 0.5."""

    def declare(tensor: TensorSpec) -> str:
        return f"double[{', '.join(map(str, tensor.shape))}] {tensor.name}"

    offsets = [quantile - 0.5 for quantile in spec.quantile_levels]
    inputs = ", ".join(declare(tensor) for tensor in tensor_specs(spec))
    text = f"""
        <ir_version: 10, opset_import: ["": 20]>
        stand_in ({inputs}) => (double[batch, horizon, {len(offsets)}] quantiles)
        <double zero = {{0.0}}, double one = {{1.0}}, double scale = {{{scale!r}}},
         double thousand = {{1000.0}}, double[2] places_ahead = {{1.0, 10.0}},
         double[3] places_past = {{1.0, 10.0, 100.0}},
         int64[1] axis_1 = {{1}}, int64[1] axis_2 = {{2}}, int64[1] last = {{-1}},
         double[{len(offsets)}] offsets = {{{", ".join(map(repr, offsets))}}}>
        {{ {level} {HORIZON} {COVARIATES if spec.future_covariates else PLAIN} {ENDING} }}
    """
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


@pytest.fixture
def make_bundle(tmp_path: Path) -> MakeBundle:
    """Write a bundle around a stand-in graph; every part can be replaced by a wrong one."""

    def make(
        spec: ForecasterSpec = SPEC,
        *,
        name: str = "models/stand_in/1",
        graph: bytes | None = None,
        inputs: tuple[TensorSpec, ...] | None = None,
        outputs: tuple[TensorSpec, ...] | None = None,
        level: str = MEAN,
        scale: float = 1.0,
        also_write: Callable[[Path], None] = lambda folder: None,
    ) -> Path:
        quantiles = ("batch", "horizon", len(spec.quantile_levels))
        manifest = Manifest(
            kind="forecaster",
            precision="fp32",
            config={},
            forecaster=spec,
            graphs=(
                GraphSpec(
                    "forecaster.onnx",
                    20,
                    inputs or tensor_specs(spec),
                    outputs or (TensorSpec("quantiles", "float64", quantiles),),
                ),
            ),
            training={},
            tool_versions={},
        )

        def fill(folder: Path) -> Manifest:
            (folder / "forecaster.onnx").write_bytes(graph or make_graph(spec, level, scale))
            also_write(folder)
            return manifest

        return write_bundle(tmp_path / name, fill).path

    return make


@pytest.fixture
def spec() -> ForecasterSpec:
    """A daily forecaster without covariates, context 12."""
    return SPEC


@pytest.fixture
def covariate_spec() -> ForecasterSpec:
    """Future columns `promo` and `price`, past column `visits`, static column `size`."""
    return COVARIATE_SPEC


@pytest.fixture
def softplus() -> str:
    """A level whose rounding shows at which place of an array it was computed."""
    return SOFTPLUS


# Of a translator: what a word says is decided by the source's piece at its place, and by the trace
# of the beam, half its parent's and its last token. So a source is copied, mostly, and a beam that
# were given another's state would say something else.
ENCODER = """
    <ir_version: 10, opset_import: ["": 20]>
    encoder (int64[batch, src_len] src, bool[batch, src_len] src_mask)
        => (float[batch, src_len] memory_ids, float[batch, 1, 1] initial_trace)
    <float zero = {0.0}, int64[1] axis_1 = {1}, int64[1] axis_2 = {2}>
    {
        ids = Cast <to = 1> (src)
        memory_ids = Where(src_mask, ids, zero)
        total = ReduceSum(memory_ids, axis_1)
        initial_trace = Unsqueeze(total, axis_2)
    }
"""
DECODER = """
    <ir_version: 10, opset_import: ["": 20]>
    decoder (int64[batch, beams] tokens, float[batch, beams] scores, int64[batch, beams] parents,
             int64[batch] positions, int64[1] num_candidates, bool[batch, src_len] src_mask,
             float[batch, src_len] memory_ids,
             float[batch, beams, 1] past_trace, float[batch, past_len, 1] past_entries)
        => (int64[batch, num] candidates, float[batch, num] candidate_log_probs,
            float[batch, beams, VOCAB] log_probs, float[batch, beams, src_len] attention,
            float[batch, beams, 1] present_trace, float[batch, past_len, 1] present_entries)
    <float zero = {0.0}, float half = {0.5}, float boost = {BOOST}, float hidden = {-1e9},
     int64 none = {0}, int64 one = {1}, int64[1] axis_1 = {1}, int64[1] axis_2 = {2},
     int64[2] flat = {0, -1}, float[VOCAB] ids = {IDS}, float[VOCAB] never = {NEVER}>
    {
        parent = Unsqueeze(parents, axis_2)
        carried = GatherElements <axis = 1> (past_trace, parent)
        halved = Mul(carried, half)
        words = Cast <to = 1> (tokens)
        word = Unsqueeze(words, axis_2)
        present_trace = Add(halved, word)
        present_entries = Concat <axis = 1> (past_entries, present_trace)

        shape = Shape(src_mask)
        length = Gather(shape, one)
        places = Range(none, length, one)
        position = Unsqueeze(positions, axis_1)
        ahead = Sub(places, position)
        here = Equal(ahead, none)
        found = Where(here, memory_ids, zero)
        piece = ReduceSum(found, axis_1)
        pieces = Unsqueeze(piece, axis_2)
        is_piece = Equal(ids, pieces)
        copied = Where(is_piece, boost, zero)
        turned = Mul(present_trace, ids)
        said = Sin(turned)
        logits = Add(said, copied)
        allowed = Add(logits, never)
        log_probs = LogSoftmax <axis = -1> (allowed)

        running = Unsqueeze(scores, axis_2)
        sums = Add(running, log_probs)
        row_sums = Reshape(sums, flat)
        row_log_probs = Reshape(log_probs, flat)
        best, candidates = TopK(row_sums, num_candidates)
        candidate_log_probs = GatherElements <axis = 1> (row_log_probs, candidates)

        distance = Abs(ahead)
        far = Neg(distance)
        near = Cast <to = 1> (far)
        seen = Where(src_mask, near, hidden)
        weights = Softmax <axis = -1> (seen)
        of_one_beam = Unsqueeze(weights, axis_1)
        beams = Shape(present_trace)
        attention = Expand(of_one_beam, beams)
    }
"""
LINES = (
    "one two three four five six seven eight nine ten .",
    "the lamp is on . the red door , the blue house",
    "one small ship and seven old ships",
)

MakeTranslator = Callable[..., Path]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A few English words, without bytes: other letters are unknown."""
    path = tmp_path_factory.mktemp("tokenizer") / TOKENIZER_FILE
    return train_tokenizer(LINES, 64, path, byte_fallback=False)


@pytest.fixture
def make_translator(tmp_path: Path, tokenizer: Tokenizer) -> MakeTranslator:
    """Write a translator's bundle around the stand-in graphs; parts can be replaced by wrong ones.

    `alter` changes the text of both graphs, `boost` says how surely the source is copied.
    """

    def make(
        *,
        boost: float = 8.0,
        name: str = "models/copying/1",
        alter: Callable[[str], str] = lambda text: text,
        also_write: Callable[[Path], None] = lambda folder: None,
        **spec: object,
    ) -> Path:
        vocab = tokenizer.vocab_size
        ids = ", ".join(f"{token}.0" for token in range(vocab))
        never = ", ".join(["-inf", "-inf", *["0.0"] * (vocab - 2)])
        text = DECODER.replace("VOCAB", str(vocab)).replace("BOOST", repr(boost))
        text = text.replace("IDS", ids).replace("NEVER", never)
        graphs = {
            "encoder.onnx": onnx.parser.parse_model(alter(ENCODER)),
            "decoder.onnx": onnx.parser.parse_model(alter(text)),
        }
        fields = {
            "arch": "recurrent",
            "vocab_size": vocab,
            "max_source_length": 24,
            "max_target_length": 30,
            "has_attention": True,
            **spec,
        }
        manifest = Manifest(
            kind="translator",
            precision="fp32",
            config={},
            translator=TranslatorSpec(**fields),
            graphs=tuple(graph_spec(file, graph) for file, graph in graphs.items()),
            training={},
            tool_versions={},
        )

        def fill(folder: Path) -> Manifest:
            for file, graph in graphs.items():
                onnx.checker.check_model(graph, full_check=True)
                (folder / file).write_bytes(graph.SerializeToString())
            (folder / TOKENIZER_FILE).write_bytes(tokenizer.to_bytes())
            also_write(folder)
            return manifest

        return write_bundle(tmp_path / name, fill).path

    return make


def graph_spec(file: str, model: onnx.ModelProto) -> GraphSpec:
    """Describe a graph as an export does."""

    def tensors(values) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(
                value.name,
                onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name,
                tuple(
                    axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim
                ),
            )
            for value in values
        )

    return GraphSpec(file, 20, tensors(model.graph.input), tensors(model.graph.output))


@pytest.fixture
def stop_in_its_midst():
    """Has work done in a thread, stops it once a graph runs, and tells what it gave or raised."""

    def stop_it(stop, work):
        outcome = []

        def run():
            try:
                outcome.append(work())
            except StoppedError as error:
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while not stop._calls:  # it has not yet begun
            assert thread.is_alive()
        stop.set()
        thread.join(WAIT_S)
        return outcome[0]

    return stop_it
