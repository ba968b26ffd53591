"""Powers with numbers, tensors and complex operands: values, first and second derivatives, and the edges of both."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.func import vmap

INF, NAN = math.inf, math.nan
POSITIVE = torch.tensor([0.5, 1.0, 2.5], dtype=torch.float64)
REAL = torch.tensor([-1.5, 0.75, 2.0], dtype=torch.float64)
COMPLEX = torch.tensor([1 + 2j, -0.5 + 1j, 2 - 1j], dtype=torch.complex128)


def leaf(x):
    return x.detach().clone().requires_grad_()


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x**3, [REAL]), (lambda x: x**2.5, [POSITIVE]), (lambda x: x**-1, [REAL]), (lambda x: x**1, [REAL]), (lambda x: x**2, [REAL]),
        (lambda y: 2.0**y, [REAL]), (lambda y: 1.0**y, [REAL]), (lambda x, y: x**y, [POSITIVE, REAL]), (lambda z: z**3, [COMPLEX]),
        (lambda z: z ** (1 + 1j), [COMPLEX]), (lambda y: (1 + 1j) ** y, [REAL]), (lambda z: 2.0**z, [COMPLEX]), (lambda z: (-2.0) ** z, [COMPLEX]),
        (lambda z, w: z**w, [COMPLEX, COMPLEX.flip(0)]), (lambda x, w: x**w, [POSITIVE, COMPLEX]), (lambda z, y: z**y, [COMPLEX, REAL]),
        (lambda x: torch.float_power(x, 1.5), [POSITIVE]), (lambda x: x.sqrt() * x.rsqrt(), [POSITIVE]), (torch.square, [COMPLEX]),
    ],
)  # fmt: skip
def test_derivatives(function, inputs):
    given = tuple(leaf(x) for x in inputs)
    assert gradcheck(function, given) and gradgradcheck(function, given)


def slopes(function, *values):
    given = [leaf(torch.tensor(values_, dtype=torch.float64)) for values_ in values]
    return [g.tolist() for g in torch.autograd.grad(function(*given).sum(), given)]


def twice(function, *values):
    """The same by the formula over tensors, which a derivative of the derivative takes."""
    given = [leaf(torch.tensor(values_, dtype=torch.float64)) for values_ in values]
    return [g.tolist() for g in torch.autograd.grad(function(*given).sum(), given, create_graph=True)]


@pytest.mark.parametrize("derivative", [slopes, twice])
def test_edges_of_derivatives(derivative):
    assert derivative(lambda x: x**0, [0.0, 2.0, NAN, INF]) == [[0.0] * 4]
    assert derivative(lambda x: x**1, [0.0, -2.0]) == [[1.0, 1.0]]
    assert derivative(lambda x: x**2, [0.0, -2.0]) == [[0.0, -4.0]]
    assert derivative(lambda x, y: x**y, [0.0, 0.0, 0.0], [0.0, 1.0, 2.0])[0] == [0.0, 1.0, 0.0]
    assert derivative(lambda x, y: x**y, [0.0, 0.0, 2.0], [0.0, 1.0, 0.0])[1] == [0.0, 0.0, math.log(2.0)]
    assert derivative(lambda y: 0.0**y, [0.0, 1.0, 3.0]) == [[0.0, 0.0, 0.0]]
    assert derivative(lambda y: 0**y, [-1.0])[0][0] == -INF
    assert all(map(math.isnan, derivative(lambda y: (-2.0) ** y, [2.0, 3.0])[0]))
    assert derivative(lambda y: 1.0**y, [0.0, 5.0]) == [[0.0, 0.0]]


def test_of_samples():
    x, y = torch.rand(3, 4) + 0.5, torch.rand(3, 4) * 3
    assert torch.equal(vmap(torch.pow)(x, y), x**y)
    assert torch.equal(vmap(lambda a: 2**a)(y), 2**y)
    np.testing.assert_allclose(vmap(lambda a: a**2.5)(x).numpy(), x.numpy() ** 2.5, rtol=1e-6)
