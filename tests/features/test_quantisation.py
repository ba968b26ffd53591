"""Quantisation by hand: int8 values, the straight-through estimator, training with rounded weights."""

import pytest

import flambeau as torch


def test_int8_error_is_at_most_half_a_step():
    torch.manual_seed(0)
    x = torch.randn(1000)
    scale = x.abs().max() / 127
    q = torch.clamp((x / scale).round(), -128, 127).to(torch.int8)
    assert q.dtype is torch.int8 and q.element_size() == 1
    assert (q.float() * scale - x).abs().max() <= scale / 2 * 1.0001


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


@pytest.mark.parametrize("rounded", [Straight.apply, lambda x: x + (x.round() - x).detach()])
def test_straight_through_rounding(rounded):
    x = torch.tensor([0.2, 1.7], requires_grad=True)
    y = rounded(x)
    assert y.tolist() == [0, 2]
    (y * torch.tensor([3.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [3, 5]
    x.grad = None
    x.round().sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_rounded_weights_learn_integer_targets():
    torch.manual_seed(0)
    w, target = torch.zeros(4, requires_grad=True), torch.tensor([2.0, -1.0, 0.0, 3.0])
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(100):
        x = torch.randn(16, 4)
        loss = ((x @ Straight.apply(w)) - x @ target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert w.round().tolist() == target.tolist()
