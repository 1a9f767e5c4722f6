"""The notes on the Transformer's other parts: positions, feed-forward, residuals and norms."""

import pytest
import torch
from torch import nn

from foretell.model.layers import Block, DecoderBlock, FeedForward, make_norm
from foretell.model.positions import sinusoidal_positions

C = 16


def make_block(kind=Block, *, norm_first=True):
    torch.manual_seed(0)
    shape = {"d_model": C, "num_heads": 2, "d_ff": 4 * C, "norm": "layer", "activation": "relu"}
    return kind(**shape, norm_first=norm_first, dropout=0.0)


@pytest.mark.parametrize("shift", [1, 7, 1000])
def test_the_sinusoid_at_pos_plus_k_is_that_at_pos_rotated_by_an_angle_of_k_alone(shift):
    """[sin; cos](pos + k) = R(k ω_i) [sin; cos](pos), the notes' matrix: distances can be seen."""
    positions = torch.arange(200)
    early = sinusoidal_positions(positions, C).unflatten(-1, (-1, 2))  # [T C/2 2]
    late = sinusoidal_positions(positions + shift, C).unflatten(-1, (-1, 2))
    angles = shift * 10_000.0 ** (-torch.arange(0, C, 2, dtype=torch.float64) / C)
    cos, sin = angles.cos(), angles.sin()
    rotations = torch.stack((cos, sin, -sin, cos), dim=-1).unflatten(-1, (2, 2)).float()
    turned = torch.einsum("cij,tcj->tci", rotations, early)
    torch.testing.assert_close(late, turned, rtol=0, atol=2e-4)


def test_products_of_sinusoids_depend_on_the_distance_alone_and_fall_with_it():
    codes = sinusoidal_positions(torch.arange(60), 64)
    products = codes @ codes.T
    for distance in (0, 1, 5):
        same = products.diagonal(distance)
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-4, atol=1e-4)
    assert products[0, 0] > products[0, 1] > products[0, 2] > products[0, 4]


def test_no_two_positions_share_a_code():
    """Also beyond any length seen in training: codes are computed, not looked up."""
    codes = sinusoidal_positions(torch.arange(3000), C).double()
    distances = torch.cdist(codes, codes).fill_diagonal_(torch.inf)
    assert float(distances.min()) > 0.01


def test_later_channels_change_more_slowly():
    """High frequencies see neighbours, low ones the far structure of a sentence."""
    codes = sinusoidal_positions(torch.arange(100), C)
    speed = codes.diff(dim=0).abs().mean(dim=0)[0::2]
    assert (speed.diff() < 0).all()


def test_the_feed_forward_layer_has_eight_d_model_squared_weights(num_weights):
    """2 · d_model · d_ff at d_ff = 4 d_model, biases aside."""
    assert num_weights(FeedForward(C, 4 * C, "relu")) == 8 * C**2
    assert num_weights(FeedForward(C, 4 * C, "swiglu")) == 12 * C**2  # the gate has its own third


def test_the_feed_forward_layer_has_two_thirds_of_an_encoder_block_and_half_of_a_decoder_block(
    num_weights,
):
    """The notes say two thirds of a Transformer; that leaves out the cross-attention's 4 d²."""
    for kind, share in ((Block, 2 / 3), (DecoderBlock, 1 / 2)):
        block = make_block(kind)
        assert num_weights(block.feed_forward) / num_weights(block) == pytest.approx(share)


@torch.no_grad()
def test_the_feed_forward_layer_is_w2_relu_w1_and_sees_each_step_alone():
    layer = FeedForward(C, 32, "relu")
    x = torch.randn(2, 5, C)
    hidden = (x @ layer.up.weight.T + layer.up.bias).clamp(min=0)
    torch.testing.assert_close(layer(x), hidden @ layer.down.weight.T + layer.down.bias)
    torch.testing.assert_close(layer(x)[:, 3:4], layer(x[:, 3:4]))


def block_change(block, x):
    """What a block adds to its input."""
    return block(x[None, None], torch.ones(1, 1, 1, 1, dtype=torch.bool))[0, 0] - x


def test_the_gradient_of_a_pre_norm_block_is_the_identity_and_more(jacobian):
    """y = x + f(x) has ∂y/∂x = 1 + ∂f/∂x: the gradient gets through even where f learns nothing."""
    block, x = make_block(), torch.randn(C)
    whole = jacobian(lambda x: x + block_change(block, x), x)
    torch.testing.assert_close(whole, torch.eye(C) + jacobian(lambda x: block_change(block, x), x))
    for parameter in (block.attention.out.weight, *block.feed_forward.down.parameters()):
        nn.init.zeros_(parameter)
    torch.testing.assert_close(jacobian(lambda x: x + block_change(block, x), x), torch.eye(C))


@pytest.mark.parametrize(("norm_first", "least", "most"), [(True, 0.999, 1.001), (False, 0, 1e-3)])
def test_a_gradient_goes_straight_through_pre_norm_blocks_and_is_divided_in_post_norm_ones(
    norm_first, least, most, jacobian
):
    """Why pre-norm trains more calmly: post-norm divides the way through by the size of x."""
    block = make_block(norm_first=norm_first)
    for parameter in (block.attention.out.weight, *block.feed_forward.down.parameters()):
        nn.init.zeros_(parameter)
    x = 5000 * torch.randn(C)
    through = jacobian(lambda x: x + block_change(block, x), x)
    assert least <= float(torch.linalg.matrix_norm(through, 2)) <= most


def test_layer_norm_divides_by_the_root_of_variance_and_epsilon():
    """The notes divide by σ + ε, the field (torch, and we) by sqrt(σ² + ε).

    At σ = 1 nobody can tell them apart. At σ = 1e-3, below sqrt(ε), ours is a third of the notes':
    weights trained with one are wrong in the other.
    """
    norm = make_norm("layer", C)
    epsilon = norm.eps
    x = torch.randn(C, dtype=torch.float64)
    x = (x - x.mean()) / x.std(correction=0)
    norm.double()
    for sigma, quotient in ((1.0, 1.0), (1e-3, 0.3047)):
        ours, notes = norm(sigma * x), sigma * x / (sigma + epsilon)
        torch.testing.assert_close(ours, sigma * x / (sigma**2 + epsilon) ** 0.5)
        torch.testing.assert_close(ours / notes, torch.full_like(x, quotient), rtol=1e-3, atol=0)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_take_each_step_by_itself_and_know_no_batch(kind):
    """Over the channels, unlike batch norm: an answer must not depend on its neighbours."""
    norm, x = make_norm(kind, C), torch.randn(4, 3, C)
    assert torch.equal(norm(x)[2:3, 1:2], norm(x[2:3, 1:2]))
    constant = norm(torch.full((1, C), 3.0))
    assert constant.isfinite().all()
