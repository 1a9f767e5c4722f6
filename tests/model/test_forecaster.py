"""What the architecture promises, for every choice of its parts."""

import dataclasses
from dataclasses import replace

import pytest
import torch

from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster

TINY = ForecasterConfig(
    patch_length=4,
    context_length=48,
    d_model=16,
    num_layers=2,
    num_heads=2,
    d_ff=32,
    quantile_levels=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
)

VARIANTS = [
    {},
    {"norm": "rms", "activation": "relu"},
    {"positions": "sinusoidal", "norm_first": False, "activation": "relu"},
    {"quantile_levels": (0.5,)},
    {"quantile_levels": (0.5, 0.9), "positions": "sinusoidal"},
]


@pytest.fixture(params=VARIANTS, ids=lambda v: ",".join(map(str, v.values())) or "default")
def model(request):
    torch.manual_seed(0)
    return Forecaster(replace(TINY, **request.param)).eval()


def forecast(model, context, horizon):
    placeholder = torch.full((len(context), horizon), torch.nan, dtype=torch.float64)
    with torch.inference_mode():
        return model(context, placeholder)


@pytest.fixture
def context():
    torch.manual_seed(1)
    walks = torch.randn(3, 22, dtype=torch.float64).cumsum(1) + 10
    walks[1, 5:9] = torch.nan
    return walks


def test_every_horizon_is_answered_in_order_of_levels(model, context):
    for horizon in (1, 3, 4, 5, 50):
        answer = forecast(model, context, horizon)
        assert answer.shape == (3, horizon, len(model.config.quantile_levels))
        assert answer.isfinite().all()
        assert (answer.diff(dim=-1) >= 0).all()


def test_a_shorter_horizon_is_a_prefix_of_a_longer_one(model, context):
    torch.testing.assert_close(
        forecast(model, context, 3), forecast(model, context, 30)[:, :3], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("steps", [1, 4, 30])
def test_padding_changes_nothing(model, context, steps):
    padding = torch.full((3, steps), torch.nan, dtype=torch.float64)
    padded = torch.cat((padding, context), dim=1)
    torch.testing.assert_close(
        forecast(model, padded, 9), forecast(model, context, 9), rtol=1e-4, atol=1e-4
    )


def test_neighbours_change_nothing(model, context):
    alone = forecast(model, context[:1], 9)
    torch.testing.assert_close(forecast(model, context, 9)[:1], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("factor", "shift"), [(1000.0, 5.0), (1e12, 0.0), (1e-12, 0.0)])
def test_another_unit_gives_the_same_forecast_in_it(model, context, factor, shift):
    expected = factor * forecast(model, context, 9) + shift
    found = forecast(model, factor * context + shift, 9)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 * factor)


def test_changing_the_future_changes_nothing_earlier(model, context):
    """The causal mask lets every position be a training target: a leak would be cheating."""
    values = context.nan_to_num(10.0)[:, :20]
    other = values.clone()
    other[:, 12:] = 1e5
    with torch.inference_mode():
        before, _ = model.encode(values, None, None)
        after, _ = model.encode(other, None, None)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3], after[:, 3])


def test_inference_is_what_training_sees(model, context):
    """The horizon in one pass equals the positions of a window whose last patches are hidden."""
    values = context.nan_to_num(10.0)[:, :20]
    answer = forecast(model, values[:, :12], 8)
    hidden = values.clone()
    hidden[:, 12:] = torch.nan
    with torch.inference_mode():
        states, scale = model.encode(hidden[:, :-4], None, None)
        seen = scale.select(2).unscale(model.head(states[:, 2:]))
    torch.testing.assert_close(answer, seen.flatten(1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("constant", [7.25, 0.0, -3e-05, 123456789.0])
def test_constant_in_constant_out(model, constant):
    context = torch.full((1, 19), constant, dtype=torch.float64)
    assert (forecast(model, context, 12) == constant).all()


def test_nothing_observed_is_finite(model):
    assert forecast(model, torch.full((2, 9), torch.nan, dtype=torch.float64), 5).isfinite().all()


class TestCovariates:
    @pytest.fixture
    def covariate_model(self):
        torch.manual_seed(0)
        sizes = {"num_future_covariates": 2, "num_past_covariates": 1, "num_static": 1}
        return Forecaster(replace(TINY, **sizes)).eval()

    @pytest.fixture
    def inputs(self, context):
        torch.manual_seed(3)
        return {
            "context": context,
            "horizon_placeholder": torch.full((3, 10), torch.nan, dtype=torch.float64),
            "context_covariates": torch.randn(3, 22, 3, dtype=torch.float64),
            "horizon_covariates": torch.randn(3, 10, 2, dtype=torch.float64),
            "static": torch.randn(3, 1, dtype=torch.float64),
        }

    def run(self, model, inputs, **changes):
        with torch.inference_mode():
            return model(**{**inputs, **changes})

    @pytest.mark.parametrize("name", ["context_covariates", "horizon_covariates", "static"])
    def test_each_kind_is_looked_at(self, covariate_model, inputs, name):
        changed = self.run(covariate_model, inputs, **{name: inputs[name] + 1})
        assert not torch.allclose(changed, self.run(covariate_model, inputs))

    def test_a_later_known_value_changes_no_earlier_patch(self, covariate_model, inputs):
        later = inputs["horizon_covariates"].clone()
        later[:, 8:] += 5  # the third patch of the horizon
        before = self.run(covariate_model, inputs)
        after = self.run(covariate_model, inputs, horizon_covariates=later)
        assert torch.equal(before[:, :8], after[:, :8])
        assert not torch.allclose(before[:, 8:], after[:, 8:])

    def test_a_known_value_reaches_its_own_patch(self, covariate_model, inputs):
        own = inputs["horizon_covariates"].clone()
        own[:, 0] += 5
        before = self.run(covariate_model, inputs)
        after = self.run(covariate_model, inputs, horizon_covariates=own)
        assert not torch.allclose(before[:, :4], after[:, :4])

    def test_missing_covariates_are_no_nan(self, covariate_model, inputs):
        blank = torch.full_like(inputs["context_covariates"], torch.nan)
        assert self.run(covariate_model, inputs, context_covariates=blank).isfinite().all()

    def test_padding_changes_nothing(self, covariate_model, inputs):
        padding = torch.full((3, 9, 1), torch.nan, dtype=torch.float64)
        padded = self.run(
            covariate_model,
            inputs,
            context=torch.cat((padding[..., 0], inputs["context"]), dim=1),
            context_covariates=torch.cat(
                (padding.expand(-1, -1, 3), inputs["context_covariates"]), dim=1
            ),
        )
        plain = self.run(covariate_model, inputs)
        torch.testing.assert_close(padded, plain, rtol=1e-4, atol=1e-4)


def test_past_covariates_alone_need_no_horizon_columns(context):
    torch.manual_seed(0)
    model = Forecaster(replace(TINY, num_past_covariates=1)).eval()
    placeholder = torch.full((3, 6), torch.nan, dtype=torch.float64)
    covariates = torch.randn(3, 22, 1, dtype=torch.float64)
    with torch.inference_mode():
        assert model(context, placeholder, covariates).shape == (3, 6, 7)


def test_a_config_never_changes():
    config = TINY
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 8
