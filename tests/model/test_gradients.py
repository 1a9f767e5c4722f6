"""What is told of a model's gradients against autograd, and verdicts on cells that are known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from foretell.data.errors import ForetellError
from foretell.model.cells import Cell
from foretell.model.gradients import Flow, measure_gradients, recurrent_model
from foretell.model.jacobians import log_norms, step_bounds, step_factors, step_jacobians
from foretell.model.run import TranslatorRun, write_run

KINDS = ["tanh", "gru", "lstm"]
SOURCES = [[4, 5, 6, 7, 8, 9, 10], [5, 5], [9, 8, 7, 6, 4]]


@pytest.fixture
def walk():
    """A cell in double precision with the inputs and states of a walk of five steps."""

    def make(kind):
        torch.manual_seed(0)
        cell = Cell(kind, 3, 6).double().requires_grad_(False)
        cell.bias_hh.normal_()
        inputs = torch.randn(5, len(cell.bias_ih)).double()
        states = [tuple(torch.randn(1, 6).double() for _ in range(cell.num_states))]
        for gates in inputs:
            states.append(cell.step(gates[None], states[-1]))
        before = tuple(torch.cat(parts) for parts in zip(*states[:-1], strict=True))
        return cell, inputs, before

    return make


def one_step(cell, gates):
    """A step as a map of the whole state, all parts in one vector."""
    return lambda state: torch.cat(cell.step(gates, state.chunk(cell.num_states)))


def many_steps(cell, inputs):
    def run(state):
        for gates in inputs:
            state = one_step(cell, gates)(state)
        return state

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_the_jacobian_of_a_step_is_autograds(kind, walk, jacobian):
    cell, inputs, before = walk(kind)
    ours = step_jacobians(cell, step_factors(cell, inputs, before))
    for t, gates in enumerate(inputs):
        state = torch.cat([part[t] for part in before])
        torch.testing.assert_close(ours[t], jacobian(one_step(cell, gates), state))


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_exceeds_its_bound(kind, walk):
    cell, inputs, before = walk(kind)
    factors = step_factors(cell, inputs, before)
    norms = torch.linalg.matrix_norm(step_jacobians(cell, factors), 2)
    assert (norms <= step_bounds(cell, factors) * (1 + 1e-9)).all()


def test_norms_of_products_equal_the_slow_way():
    jacobians = torch.randn(6, 4, 4, dtype=torch.float64)
    for lag, log_norm in enumerate(log_norms(jacobians), start=1):
        product = torch.eye(4, dtype=torch.float64)
        for jacobian in jacobians[len(jacobians) - lag :]:
            product = jacobian @ product
        assert log_norm == pytest.approx(float(torch.linalg.matrix_norm(product, 2).log()))


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_products_beyond_all_numbers_keep_their_logarithms(factor):
    """A long sentence through a vanishing cell: 1e-2000 is no double, its logarithm is."""
    steps = factor * torch.eye(3, dtype=torch.float64).expand(20, 3, 3)
    expected = np.arange(1, 21) * math.log(factor)
    np.testing.assert_allclose(log_norms(steps), expected)


def test_a_product_that_is_zero_is_told_as_such():
    steps = torch.tensor([[0.0, 10.0], [0.0, 0.0]], dtype=torch.float64).expand(3, 2, 2)
    assert log_norms(steps).tolist() == [math.log(10), -math.inf, -math.inf]


@pytest.mark.parametrize("kind", KINDS)
def test_norms_on_sentences_are_those_of_the_running_encoder(kind, make_model, jacobian):
    """From the embeddings to the last state by the encoder's own steps, and back by autograd."""
    model = make_model("gru additive", cell=kind, d_model=8)
    flow = measure_gradients(model, SOURCES)[1]
    assert flow.name == "encoder, backward"
    cell = model.double().encoder[0][1]
    for row, source in enumerate(SOURCES):
        with torch.no_grad():
            inputs = cell.project(model.embed(torch.tensor([2, *source[::-1]])))
        assert np.isfinite(flow.log_norms[row]).sum() == len(source)  # from step 2 to the last
        for lag in (1, len(source)):
            start = torch.zeros(4 * cell.num_states).double()
            with torch.no_grad():
                start = many_steps(cell, inputs[:-lag])(start)
            norm = torch.linalg.matrix_norm(jacobian(many_steps(cell, inputs[-lag:]), start), 2)
            assert flow.log_norms[row, lag - 1] == pytest.approx(float(norm.log()), rel=1e-6)


@pytest.mark.parametrize("name", ["tanh none", "gru additive", "lstm additive 2 layers untied"])
def test_every_layer_is_measured_and_the_model_stays_as_it_was(name, make_model):
    model = make_model(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    seen = []
    flows = measure_gradients(model, SOURCES, seen.append)
    assert seen == [1, 2, 3]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert next(model.parameters()).dtype == torch.float32
    names = [flow.name for flow in flows]
    if "2 layers" in name:
        sides = [f"encoder layer {i}, {way}" for i in (1, 2) for way in ("forward", "backward")]
        assert names == [*sides, "decoder layer 1", "decoder layer 2"]
    else:
        assert names == ["encoder, forward", "encoder, backward", "decoder"]
    for flow in flows:
        assert (np.nan_to_num(flow.log_norms - flow.log_bounds) <= 1e-9).all()
        assert flow.quantile(0.1)[0] <= flow.mean[0] <= flow.quantile(0.9)[0]


def linear_model(make_model, weight):
    """Nothing is read, so h stays 0, where tanh has slope 1: ∂h_t/∂h_k is W^(t-k)."""
    model = make_model("tanh none", bidirectional=False, d_model=2)
    with torch.no_grad():
        model.embedding.weight.zero_()
        cell = model.encoder[0][0]
        cell.bias_ih.zero_()
        cell.bias_hh.zero_()
        cell.weight_hh.copy_(torch.tensor(weight))
    return measure_gradients(model, SOURCES)[0]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.25, "vanish"), (0.5, "vanish"), (1.0, "kept"), (2.0, "explode")]
)
def test_rates_and_verdicts_of_a_rotation_and_a_stretch(make_model, factor, verdict):
    """W = factor · rotation by 90°: all singular values are the factor, and so is the rate."""
    flow = linear_model(make_model, [[0.0, -factor], [factor, 0.0]])
    np.testing.assert_allclose(flow.mean, factor**flow.lags)
    np.testing.assert_allclose(flow.bound, flow.mean)
    assert (flow.rate, flow.largest, flow.effective) == pytest.approx((factor,) * 3)
    assert flow.half_life == pytest.approx(
        abs(math.log(2) / math.log(factor)) if factor != 1 else math.inf
    )
    assert flow.reach == 5  # the median sentence: 5 pieces and eos
    assert flow.left == pytest.approx(factor**5)
    assert flow.verdict == verdict


def test_a_singular_value_above_1_does_not_make_it_explode(make_model):
    """λ1 = 4 in each step, and yet it vanishes: what one step stretches the next one shrinks."""
    flow = linear_model(make_model, [[0.0, -0.04], [4.0, 0.0]])
    assert flow.largest == pytest.approx(4.0)
    assert flow.bound_rate == pytest.approx(4.0)
    assert flow.rate == pytest.approx(0.4, rel=0.25)
    assert flow.verdict == "vanish"


def test_a_gru_with_an_open_update_gate_keeps_what_a_tanh_cell_loses(make_model):
    verdicts = {}
    for kind in ("tanh", "gru"):
        model = make_model("gru additive", cell=kind, bidirectional=False)
        cell = model.encoder[0][0]
        with torch.no_grad():
            cell.weight_hh.mul_(0.3)
            if kind == "gru":
                cell.bias_ih[12:24] = 6.0
        verdicts[kind] = measure_gradients(model, SOURCES)[0].verdict
    assert verdicts == {"tanh": "vanish", "gru": "kept"}


def test_without_sentences_only_the_weights_are_told(make_model):
    """And sentences too short to tell a rate from are no measure."""
    for sources in ([], [[]]):
        flow = measure_gradients(make_model("gru dot"), sources)[0]
        assert not flow.is_measured
        assert list(flow.singular_values) == ["reset", "update", "new"]
        assert all((np.diff(values) <= 0).all() for values in flow.singular_values.values())


def test_quantiles_and_means_are_over_the_sentences_that_reach_so_far():
    logs = np.log(np.array([[1.0, 0.5, np.nan], [1.0, 0.125, 0.1]]))
    flow = Flow(
        name="encoder",
        singular_values={"hidden": np.ones(1)},
        log_norms=logs,
        log_bounds=logs,
        log_step_norms=np.zeros(1),
    )
    assert flow.mean.tolist() == pytest.approx([1.0, 0.25, 0.1])
    assert flow.quantile(0.0).tolist() == pytest.approx([1.0, 0.125, 0.1])


def test_only_recurrent_translators_have_recurrent_steps(make_model, tmp_path):
    from foretell.data.bundles.manifest import TranslatorSpec

    for name, family in (("gru dot", "recurrent"), ("transformer", "transformer")):
        model = make_model(name)
        spec = TranslatorSpec(
            arch=family,
            vocab_size=11,
            max_source_length=9,
            max_target_length=9,
            has_attention=True,
        )
        run = TranslatorRun(path=tmp_path, config=model.config, spec=spec, training={})
        write_run(run, model)
        if family == "recurrent":
            assert recurrent_model(replace(run)).config == model.config
        else:
            with pytest.raises(ForetellError, match="holds a Transformer, in which gradients"):
                recurrent_model(run)
