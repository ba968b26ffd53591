"""Activation layers: values against plain formulas, in-place forms, what they print, how they fail."""

import math
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn


def values():
    return np.linspace(-4, 4, 25)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


FORMULAS = {
    "Threshold(0.5, 7.0)": lambda x: np.where(x > 0.5, x, 7.0),
    "ReLU()": lambda x: np.maximum(x, 0),
    "RReLU().eval()": lambda x: np.where(x > 0, x, x * (1 / 8 + 1 / 3) / 2),
    "Hardtanh(-2, 1)": lambda x: np.clip(x, -2, 1),
    "ReLU6()": lambda x: np.clip(x, 0, 6),
    "Sigmoid()": sigmoid,
    "Hardsigmoid()": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "Tanh()": np.tanh,
    "SiLU()": lambda x: x * sigmoid(x),
    "Mish()": lambda x: x * np.tanh(softplus(x)),
    "Hardswish()": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "ELU(0.5)": lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
    "CELU(0.5)": lambda x: np.where(x > 0, x, 0.5 * np.expm1(x / 0.5)),
    "SELU()": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "GELU()": lambda x: x * np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]),
    "GELU('tanh')": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "Hardshrink()": lambda x: np.where(abs(x) > 0.5, x, 0),
    "LeakyReLU(0.2)": lambda x: np.where(x > 0, x, 0.2 * x),
    "LogSigmoid()": lambda x: -softplus(-x),
    "Softplus(2.0)": lambda x: softplus(2 * x) / 2,
    "Softshrink(0.7)": lambda x: np.sign(x) * np.maximum(abs(x) - 0.7, 0),
    "PReLU(init=0.125).double()": lambda x: np.where(x > 0, x, 0.125 * x),
    "Softsign()": lambda x: x / (1 + abs(x)),
    "Tanhshrink()": lambda x: x - np.tanh(x),
    "Softmin(0)": lambda x: np.exp(-x) / np.exp(-x).sum(),
    "Softmax(0)": lambda x: np.exp(x) / np.exp(x).sum(),
    "LogSoftmax(0)": lambda x: x - np.log(np.exp(x).sum()),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_values(text):
    layer = eval("nn." + text)
    x = values()
    with torch.no_grad():
        out = layer(torch.tensor(x))
    np.testing.assert_allclose(out.numpy(), FORMULAS[text](x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "text",
    ["ReLU", "ReLU6", "SiLU", "Mish", "SELU", "ELU", "CELU", "LeakyReLU", "Hardswish", "Hardsigmoid", "Hardtanh"],
)
def test_in_place(text):
    x = torch.tensor(values())
    expected = getattr(nn, text)()(x)
    given = x.clone()
    assert getattr(nn, text)(inplace=True)(given) is given
    assert torch.equal(given, expected)


def test_glu_and_softmax2d():
    x = torch.arange(4.0)
    assert torch.allclose(nn.GLU()(x), x[:2] * torch.sigmoid(x[2:]))
    image = torch.randn(2, 3, 4, 5)
    assert torch.allclose(nn.Softmax2d()(image).sum(1), torch.ones(2, 4, 5))
    assert nn.Softmax2d()(image[0]).shape == (3, 4, 5)


def test_rrelu_draws_slopes_for_negative_elements_only():
    torch.manual_seed(0)
    x = -torch.ones(1000)
    slopes = -nn.RReLU(0.2, 0.4)(x)
    assert 0.2 <= float(slopes.min()) < 0.21 and 0.39 < float(slopes.max()) <= 0.4
    torch.manual_seed(0)
    mixed = x.clone()
    mixed[::2] = 3.0
    made = nn.RReLU(0.2, 0.4)(mixed)
    assert torch.equal(made[::2], mixed[::2])
    assert torch.equal(-made[1::2], slopes[:500])


def test_prelu_learns_a_slope_for_each_channel():
    layer = nn.PReLU(2)
    assert layer.weight.tolist() == [0.25, 0.25]
    layer(torch.tensor([[-1.0, -2.0], [3.0, -4.0]])).sum().backward()
    assert layer.weight.grad.tolist() == [-1.0, -6.0]


PRINTED = {
    "Threshold(0.1, 20, True)": "Threshold(threshold=0.1, value=20, inplace=True)",
    "ReLU()": "ReLU()",
    "ReLU(True)": "ReLU(inplace=True)",
    "RReLU(0.1, 0.3)": "RReLU(lower=0.1, upper=0.3)",
    "Hardtanh(-2, 2, True)": "Hardtanh(min_val=-2, max_val=2, inplace=True)",
    "ReLU6(True)": "ReLU6(inplace=True)",
    "Hardswish(True)": "Hardswish()",
    "ELU(2, True)": "ELU(alpha=2, inplace=True)",
    "GLU()": "GLU(dim=-1)",
    "GELU('tanh')": "GELU(approximate='tanh')",
    "Hardshrink()": "Hardshrink(0.5)",
    "LeakyReLU()": "LeakyReLU(negative_slope=0.01)",
    "Softplus(2, 10)": "Softplus(beta=2, threshold=10)",
    "PReLU(3)": "PReLU(num_parameters=3)",
    "Softmax(1)": "Softmax(dim=1)",
    "LogSoftmax()": "LogSoftmax(dim=None)",
}


@pytest.mark.parametrize("text", PRINTED)
def test_printed_and_pickled(text):
    layer = eval("nn." + text)
    assert repr(layer) == PRINTED[text]
    assert repr(pickle.loads(pickle.dumps(layer))) == PRINTED[text]


def test_bad_arguments():
    with pytest.raises(AssertionError, match="max_val"):
        nn.Hardtanh(3, 2)
    with pytest.warns(FutureWarning, match="min_val"):
        assert nn.Hardtanh(min_value=-3.0).min_val == -3.0
    with pytest.raises(ValueError, match="3D or 4D"):
        nn.Softmax2d()(torch.zeros(2, 2))
    with pytest.raises(RuntimeError):
        nn.GELU("other")(torch.zeros(2))
    with pytest.raises(RuntimeError):
        nn.GLU()(torch.zeros(3))
