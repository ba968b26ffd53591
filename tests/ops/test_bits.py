"""Where PyTorch rounds: results that have to agree to the last bit."""

import numpy as np
import pytest

import flambeau as torch


def samples(seed=0, n=300):
    return np.random.RandomState(seed).standard_normal(n).astype(np.float32)


def test_scaled_sums_are_rounded_once():
    x, y, alpha = samples(0), samples(1), 0.37
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    product = y.astype(np.float64) * np.float64(np.float32(alpha))
    once = (x + product).astype(np.float32)
    assert (torch.add(a, b, alpha=alpha).numpy() == once).all()
    assert (a.clone().add_(b, alpha=alpha).numpy() == once).all()
    assert (torch.sub(a, b, alpha=alpha).numpy() == (x - product).astype(np.float32)).all()
    assert (once != x + y * np.float32(alpha)).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_over_tensor_is_a_reciprocal_times_it(dtype):
    x = samples().astype(dtype)
    t = torch.from_numpy(x).requires_grad_()
    made = 255 / t
    assert (made.detach().numpy() == 1 / x * dtype(255)).all()
    made.sum().backward()
    assert (t.grad.numpy() == -dtype(255) * (1 / x * (1 / x))).all()
    assert made.grad_fn.name() == "MulBackward0"


def test_number_over_tensor_twice_differentiable():
    x = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: 3 / x, (x,))
    assert torch.autograd.gradgradcheck(lambda x: 3 / x, (x,))


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, -2, 1.5, 3, 4])
def test_fixed_powers(exponent):
    x = torch.tensor([0.3, 1.7, 2.5], dtype=torch.float64, requires_grad=True)
    made = x**exponent
    np.testing.assert_allclose(made.detach().numpy(), x.detach().numpy() ** exponent, rtol=1e-15)
    assert made.grad_fn.name() == "PowBackward0"
    assert torch.autograd.gradcheck(lambda x: x**exponent, (x,))
    assert torch.autograd.gradgradcheck(lambda x: x**exponent, (x,))


def test_derivative_of_a_fourth_power():
    x = samples()
    t = torch.from_numpy(x).requires_grad_()
    (t**4).sum().backward()
    assert (t.grad.numpy() == x * x * x * np.float32(4)).all()


def test_arrays_compare_as_tensors():
    t = torch.tensor([1.0, 2.0])
    assert (t == np.array([1.0, 3.0])).tolist() == [True, False]
    assert (t != np.array([1.0, 3.0])).tolist() == [False, True]
    assert (t == "text") is False


def test_array_as_divisor():
    assert (torch.tensor([7.0, 8.0]) // np.array([2.0, 3.0])).tolist() == [3.0, 2.0]
    assert (torch.tensor([7, 8]) % np.array([2, 3])).tolist() == [1, 2]
