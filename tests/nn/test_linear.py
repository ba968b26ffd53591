"""Linear, Bilinear, Identity and LazyLinear: initial values and results of PyTorch, shapes, printing, errors."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn


def close(actual, expected, rtol=4e-7):
    np.testing.assert_allclose(actual.detach().flatten().numpy(), expected, rtol=rtol)


@pytest.mark.parametrize(
    "make, weight, bias",
    [
        (lambda: nn.Linear(3, 2), [-0.00432251766, 0.309715837, -0.475185335], [-0.0114391446, 0.457774937]),
        (lambda: nn.Linear(3, 2, bias=False), [-0.00432251766, 0.309715837, -0.475185335], None),
        (lambda: nn.Bilinear(2, 3, 2), [-0.00529398117, 0.379322886, -0.581980765], [-0.675533414, -0.468304157]),
    ],
)
def test_initial_values(make, weight, bias):
    torch.manual_seed(0)
    layer = make()
    close(layer.weight.flatten()[:3], weight)
    if bias is None:
        assert layer.bias is None and layer._parameters["bias"] is None and list(layer.state_dict()) == ["weight"]
    else:
        close(layer.bias, bias)
        assert list(layer.state_dict()) == ["weight", "bias"]


def test_values_and_gradients():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4)
    layer = nn.Linear(4, 2)
    out = layer(x)
    close(out, [
        0.225403816, 0.47949791, 0.583931506, -1.22283292, -0.171092138, 0.386921406, -0.401543289, -0.381544709,
        -0.375461996, -0.030960232, 0.910413504, -1.07923079,
    ], 1e-5)  # fmt: skip
    out.square().sum().backward()
    close(
        layer.weight.grad,
        [0.615430295, -2.05662012, -3.89781976, -6.92475224, -4.31187582, -2.77374864, 3.45046401, 10.0438404],
        1e-5,
    )
    close(layer.bias.grad, [1.54330301, -3.6962986], 1e-5)


@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (4,), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_gradients_agree_with_the_formula(shape, dtype):
    """The short path of the derivative against a product and a sum."""
    torch.manual_seed(1)
    x, weight, bias, g = (torch.randn(s, dtype=dtype) for s in (shape, (3, 4), (3,), (*shape[:-1], 3)))
    results = []
    for function in (nn.functional.linear, lambda a, w, b: torch.matmul(a, w.t()) + b):
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
        out = function(*leaves)
        out.backward(g)
        results.append([out.detach(), *[t.grad for t in leaves]])
    for actual, expected in zip(*results):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
        assert (actual - expected).abs().sum().item() <= tolerance * (1 + expected.abs().sum().item())


def test_second_derivative():
    x, weight, bias = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
    assert torch.autograd.gradgradcheck(nn.functional.linear, (x, weight, bias))


def test_gradient_of_an_expanded_result():
    layer = nn.Linear(3, 2)
    layer(torch.ones(4, 3)).sum().backward()
    assert layer.bias.grad.tolist() == [4, 4] and (layer.weight.grad == 4).all()


def test_weight_changed_between_forward_and_backward():
    x = torch.ones(1, 3, requires_grad=True)
    layer = nn.Linear(3, 2)
    out = layer(x).sum()
    with torch.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified"):
        out.backward()


def test_weight_that_is_no_parameter():
    """What parametrizations and hooks do: the name leads to a computed tensor."""
    layer = nn.Linear(2, 2, bias=False)
    del layer._parameters["weight"]
    layer.weight = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert layer(torch.tensor([1.0, 2.0])).tolist() == [2, 1]


def test_printing():
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.Linear(2, 3, bias=False)) == "Linear(in_features=2, out_features=3, bias=False)"
    assert repr(nn.Bilinear(2, 3, 4)) == "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)"
    assert repr(nn.Identity(3, a=4)) == "Identity()"
    assert repr(nn.LazyLinear(3)) == "LazyLinear(in_features=0, out_features=3, bias=True)"


def test_options():
    layer = nn.Linear(2, 3, dtype=torch.float64)
    assert layer.weight.dtype == layer.bias.dtype == torch.float64
    assert nn.Linear(2, 3, device="meta").weight.is_meta
    assert isinstance(nn.modules.linear.NonDynamicallyQuantizableLinear(2, 3), nn.Linear)


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: nn.Linear(2.5, 3), TypeError),
        (lambda: nn.Linear(-2, 3), RuntimeError),
        (lambda: nn.Linear(2, 3, dtype=torch.int32), RuntimeError),
        (lambda: nn.Bilinear(0, 3, 4), ValueError),
        (lambda: nn.Linear(3, 4)(torch.ones(2, 5)), RuntimeError),
        (lambda: nn.Linear(3, 4)(torch.ones(2, 3, dtype=torch.float64)), RuntimeError),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make()


def test_lazy():
    torch.manual_seed(0)
    layer = nn.LazyLinear(2)
    assert layer.has_uninitialized_params()
    layer(torch.ones(1, 3))
    assert type(layer) is nn.Linear and layer.in_features == 3
    close(layer.weight.flatten()[:3], [-0.00432251766, 0.309715837, -0.475185335])
    close(layer.bias, [-0.0114391446, 0.457774937])
    assert nn.LazyLinear(2, bias=False).bias is None


def test_lazy_takes_a_state():
    layer = nn.LazyLinear(2)
    layer.load_state_dict(nn.Linear(3, 2).state_dict())
    assert layer(torch.ones(1, 3)).shape == (1, 2) and layer.in_features == 3


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(twin_of):
    layer = nn.Linear(3, 2)
    twin = twin_of(layer)
    x = torch.randn(4, 3)
    assert torch.equal(twin(x), layer(x)) and twin.weight is not layer.weight


def numbers(*shape):
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("needs", [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1) if a + b + c])
@pytest.mark.parametrize("m, n", [(6, 9), (6, 3), (1, 9)])
def test_gradients_of_some_operands(needs, m, n):
    """Small matrices: every set of wanted gradients, gradients in any layout, and those of gradients."""
    torch.manual_seed(3)
    x, weight, bias = (
        t.requires_grad_(bool(need)) for t, need in zip((numbers(m, 5), numbers(n, 5), numbers(n)), needs)
    )
    wanted, g = [t for t in (x, weight, bias) if t.requires_grad], numbers(m, n)
    expected = torch.autograd.grad(x @ weight.t() + bias, wanted, g)
    out = nn.functional.linear(x, weight, bias)
    assert out.grad_fn.name() == "AddmmBackward0" and len(out.grad_fn.next_functions) == 3
    for gradient in (g, g.t().contiguous().t(), g.repeat_interleave(2, 1)[:, ::2]):
        for again in (False, True):
            made = torch.autograd.grad(out, wanted, gradient, retain_graph=True, create_graph=again)
            for have, value in zip(made, expected, strict=True):
                torch.testing.assert_close(have.detach(), value)
    if all(needs):
        assert torch.autograd.gradgradcheck(nn.functional.linear, wanted)


def test_gradient_of_a_repeated_number():
    """The gradient of a sum has no strides."""
    layer = nn.Linear(4, 9)
    layer(torch.ones(3, 4)).sum().backward()
    assert layer.weight.grad.tolist() == [[3.0] * 4] * 9 and layer.bias.grad.tolist() == [3.0] * 9


def test_small_operands_that_changed_since():
    layer, x = nn.Linear(4, 9), torch.ones(3, 4)
    for changed in (layer.weight, x):
        out = layer(x.requires_grad_())
        with torch.no_grad():
            changed.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
    layer(x).sum().backward(retain_graph=True)


def test_bias_of_another_shape():
    x, weight = torch.ones(3, 4), torch.ones(2, 4)
    assert nn.functional.linear(x, weight, torch.ones(1)).tolist() == [[5.0, 5.0]] * 3
    assert nn.functional.linear(x, weight, torch.ones(3, 2)).tolist() == [[5.0, 5.0]] * 3
    with pytest.raises(RuntimeError):
        nn.functional.linear(x, weight, torch.ones(3))
    with pytest.raises(RuntimeError):
        nn.functional.linear(x, torch.ones(2, 5), torch.ones(2))


def test_products_with_scales():
    F, kinds = torch.nn.functional, torch.nn.functional.ScalingType
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(torch.float8_e4m3fn)
    rows, columns = torch.tensor([[0.5], [2.0]]), torch.tensor([[1.0, 10.0]])
    out = F.scaled_mm(
        a, a.t(), rows, kinds.RowWise, columns, kinds.RowWise, bias=torch.tensor([1.0, 0.0]), output_dtype=torch.float32
    )  # fmt: skip
    assert out.tolist() == [[3.5, 55.0], [23.0, 500.0]]
    one = torch.tensor(0.5)
    assert F.scaled_mm(a, a, one, kinds.TensorWise, one, kinds.TensorWise).dtype is torch.bfloat16
    with pytest.raises(ValueError, match="RowWise needs scale_b"):
        F.scaled_mm(a, a, one, kinds.TensorWise, torch.ones(1, 3), kinds.RowWise)
    with pytest.raises(NotImplementedError, match="scales of blocks"):
        F.scaled_mm(a, a, one, kinds.BlockWise1x128, one, kinds.TensorWise)
