"""Activation functions."""

import math

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional
X = [-2.0, -1.0, 0.0, 1.0, 2.0]


def gradient(function):
    x = torch.tensor(X, requires_grad=True)
    function(x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("relu", [nn.ReLU(), F.relu, torch.relu])
def test_relu(relu):
    assert relu(torch.tensor(X)).tolist() == [0, 0, 0, 1, 2]
    assert gradient(relu) == [0, 0, 0, 1, 1]


def test_leaky_relu():
    assert nn.LeakyReLU()(torch.tensor(X)).tolist() == pytest.approx([-0.02, -0.01, 0, 1, 2])
    assert gradient(lambda x: F.leaky_relu(x, negative_slope=0.1))[::4] == pytest.approx([0.1, 1])


def test_sigmoid_and_tanh():
    x = torch.tensor(X)
    assert nn.Sigmoid()(x).tolist() == pytest.approx([1 / (1 + math.exp(-v)) for v in X])
    assert nn.Tanh()(x).tolist() == pytest.approx([math.tanh(v) for v in X])
    x = torch.tensor(0.5, requires_grad=True)
    y = x
    for _ in range(20):
        y = torch.sigmoid(y)
    y.backward()
    assert x.grad < 1e-12


def test_softmax():
    logits = torch.tensor([[1000.0, 999.0, -1000.0]])
    p = nn.Softmax(dim=1)(logits)
    assert p.sum() == 1 and p[0, 0].item() == pytest.approx(1 / (1 + math.exp(-1)))
    assert torch.isfinite(nn.LogSoftmax(dim=1)(logits)).all()
    assert nn.LogSoftmax(dim=1)(logits)[0, 2] < -1900


def test_gelu_and_silu():
    x = torch.tensor(X)
    exact = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in X]
    assert F.gelu(x).tolist() == pytest.approx(exact, abs=1e-6)
    near = F.gelu(x, approximate="tanh").tolist()
    assert near == pytest.approx(exact, abs=1e-3) and near != F.gelu(x).tolist()
    assert nn.SiLU()(x).tolist() == pytest.approx([v / (1 + math.exp(-v)) for v in X])
