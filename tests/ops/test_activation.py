"""Activation functions: options, in-place forms, weights and chance, second derivatives."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional
IN_PLACE = [
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "silu",
    "mish",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
]
SMOOTH = [
    *IN_PLACE,
    "gelu",
    "softplus",
    "softsign",
    "hardshrink",
    "softshrink",
    "tanhshrink",
    "logsigmoid",
    "sigmoid",
    "tanh",
]


def t(values, dtype=None):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_gives_the_same_value_and_gradient(name):
    function = getattr(F, name)
    x = torch.linspace(-3.3, 3.4, 13, dtype=torch.float64).requires_grad_()
    expected = function(x)
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    y = x * 1
    assert function(y, inplace=True) is y
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-15)
    (other,) = torch.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(other.numpy(), gradient.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    x = torch.tensor([-3.3, -0.7, -0.2, 0.3, 0.9, 2.2, 6.5], dtype=torch.float64, requires_grad=True)
    function = getattr(F, name)
    assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


@pytest.mark.parametrize("name", SMOOTH)
def test_extreme_arguments_stay_finite_or_infinite(name):
    out = getattr(F, name)(t([-1e30, -200.0, 0.0, 200.0, 1e30]))
    assert not torch.isnan(out).any()


def test_values():
    x = t([-2.0, 0.0, 1.0])
    close = lambda out, expected: np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-7)
    close(F.gelu(x), [-0.04550026, 0.0, 0.84134475])
    close(F.gelu(x, approximate="tanh"), [-0.04540229, 0.0, 0.841192])
    close(F.selu(x), [-1.5201665, 0.0, 1.050701])
    close(F.celu(x, 2.0), [2 * math.expm1(-1), 0.0, 1.0])
    close(F.softplus(x, 2.0, 1.5), [math.log1p(math.exp(-4)) / 2, math.log(2) / 2, 1.0])
    close(F.threshold(x, 0.5, 9.0), [9.0, 9.0, 1.0])
    close(F.hardtanh(x, -0.5, 0.5), [-0.5, 0.0, 0.5])
    close(F.logsigmoid(t([-100.0])), [-100.0])


def test_integers_and_refused_dtypes():
    assert F.relu(t([-1, 2])).tolist() == [0, 2] and F.relu6(t([-1, 9])).tolist() == [0, 6]
    assert F.hardtanh(t([-5, 5])).tolist() == [-1, 1] and torch.threshold(t([1, 3]), 2, 7).tolist() == [7, 3]
    for call in (F.gelu, F.silu, F.elu, F.softplus):
        with pytest.raises(NotImplementedError):
            call(t([1]))
    with pytest.raises(RuntimeError):
        F.relu(t([True]))
    with pytest.raises(RuntimeError):
        F.hardtanh(t([1], torch.uint8))
    with pytest.raises(RuntimeError):
        F.gelu(t([1.0]), approximate="cubic")
    with pytest.raises(RuntimeError):
        F.softshrink(t([1.0]), -1.0)
    with pytest.raises(RuntimeError):
        F.celu(t([1.0]), 0.0)


def test_relu_of_nan_and_its_gradient_at_zero():
    x = t([math.nan, 0.0, 1.0]).requires_grad_()
    out = torch.relu(x)
    assert math.isnan(out.tolist()[0])
    out.nansum().backward()
    assert x.grad.tolist()[1:] == [0.0, 1.0]


def test_prelu():
    x = torch.tensor([[-1.0, -2.0], [3.0, -4.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    np.testing.assert_allclose(F.prelu(x, weight).detach().numpy(), [[-0.1, -0.4], [3.0, -0.8]])
    assert gradcheck(F.prelu, (x, weight)) and gradgradcheck(F.prelu, (x, weight))
    assert torch.prelu(t(-1.0), t(0.5)).tolist() == -0.5
    for bad in (t([0.1, 0.2, 0.3], torch.float64), t([0.1, 0.2]), t([[0.1]], torch.float64)):
        with pytest.raises(RuntimeError):
            F.prelu(x, bad)


def test_rrelu():
    x = t([-1.0, 2.0])
    assert F.rrelu(x, 0.2, 0.4).tolist() == pytest.approx([-0.3, 2.0])
    many = torch.full((1000,), -1.0).requires_grad_()
    out = F.rrelu(many, 0.2, 0.4, training=True)
    assert -0.4 <= out.min().item() < -0.35 and -0.25 < out.max().item() <= -0.2
    out.sum().backward()
    np.testing.assert_array_equal(many.grad.numpy(), -out.detach().numpy())
    y = x.clone()
    assert F.rrelu(y, 0.2, 0.4, True, True) is y and y.tolist()[1] == 2.0
    with pytest.raises(RuntimeError):
        F.rrelu(x, 0.5, 0.1)


@pytest.mark.slow
def test_glu():
    x = torch.randn(3, 4, dtype=torch.float64).requires_grad_()
    a, b = x.detach().numpy()[:, :2], x.detach().numpy()[:, 2:]
    np.testing.assert_allclose(F.glu(x).detach().numpy(), a / (1 + np.exp(-b)))
    assert gradcheck(F.glu, (x,)) and gradgradcheck(F.glu, (x,))
    with pytest.raises(RuntimeError):
        F.glu(x, 0)
    with pytest.raises(RuntimeError):
        F.glu(t(1.0))


def test_gelu_far_out():
    """Where the density is no number that is quick to compute with, its part of the derivative is left out."""
    x = torch.tensor([-1e30, -50.0, -13.1, -13.0, -5.0, 0.0, 5.0, 13.0, 13.1, 50.0, 1e30], requires_grad=True)
    torch.nn.functional.gelu(x).sum().backward()
    tail = [-13.0 * 0.3989423 * math.exp(-84.5)]
    assert x.grad.tolist()[:3] == [0.0, 0.0, 0.0] and x.grad.tolist()[-4:] == [1.0, 1.0, 1.0, 1.0]
    assert x.grad.tolist()[3:4] == pytest.approx(tail, rel=1e-2, abs=0)
    assert x.grad.tolist()[4:7] == pytest.approx([-7.1469e-06, 0.5, 1.0000072], rel=1e-3)


@pytest.mark.parametrize("dim", [0, 1])
def test_both_halves_of_a_large_gradient_of_glu(dim):
    x = torch.randn(400, 400, requires_grad=True)
    y = torch.nn.functional.glu(x, dim)
    g = torch.randn_like(y)
    (made,) = torch.autograd.grad(y, x, g, retain_graph=True)
    (wanted,) = torch.autograd.grad(y, x, g, create_graph=True)
    assert wanted.requires_grad and torch.equal(made, wanted.detach())
