"""Stand-ins for a trained forecaster: graphs whose answers can be worked out by hand."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from foretell.data.bundle import ForecasterSpec, GraphSpec, Manifest, TensorSpec, write_bundle

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
