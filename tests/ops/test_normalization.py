"""Normalization: values against plain formulas, running statistics, first and second derivatives."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional


def rand(*shape, seed=0, grad=False, dtype=torch.float64):
    values = np.random.default_rng(seed).uniform(-2, 2, shape)
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def plain(x, axes, eps=1e-5):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


CASES = {
    "layer_norm": ((4, 3, 5), (3, 5), lambda x, w, b: F.layer_norm(x, (3, 5), w, b)),
    "rms_norm": ((4, 6), (6,), lambda x, w, b: F.rms_norm(x, (6,), w) + b),
    "group_norm": ((2, 6, 5), (6,), lambda x, w, b: F.group_norm(x, 3, w, b)),
    "instance_norm": ((2, 3, 5), (3,), lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
    "batch_norm": ((4, 3, 5), (3,), lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "batch_norm_2d": ((6, 3), (3,), lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
}
NORMALIZED = {
    "layer_norm": lambda x: plain(x, (1, 2)),
    "rms_norm": lambda x: x / np.sqrt((x * x).mean(1, keepdims=True)),
    "group_norm": lambda x: plain(x.reshape(2, 3, 2, 5), (2, 3)).reshape(x.shape),
    "instance_norm": lambda x: plain(x, (2,)),
    "batch_norm": lambda x: plain(x, (0, 2)),
    "batch_norm_2d": lambda x: plain(x, (0,)),
}


def channels(v, x, name):
    return v if name in ("layer_norm", "rms_norm") else v.reshape(1, -1, *[1] * (x.ndim - 2))


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    shape, parameters, function = CASES[name]
    x, w, b = rand(*shape), rand(*parameters, seed=1), rand(*parameters, seed=2)
    expected = NORMALIZED[name](x.numpy())
    expected = expected * channels(w.numpy(), x, name) + channels(b.numpy(), x, name)
    if name == "group_norm":
        expected = NORMALIZED[name](x.numpy()) * w.numpy().reshape(1, 6, 1) + b.numpy().reshape(1, 6, 1)
    np.testing.assert_allclose(function(x, w, b).numpy(), expected, rtol=1e-9, atol=1e-12)
    single = function(x.float(), w.float(), b.float())
    np.testing.assert_allclose(single.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    shape, parameters, function = CASES[name]
    inputs = rand(*shape, grad=True), rand(*parameters, seed=1, grad=True), rand(*parameters, seed=2, grad=True)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True)


@pytest.mark.parametrize("name", CASES)
def test_layout_does_not_matter(name):
    shape, parameters, function = CASES[name]
    x, w, b = rand(*shape), rand(*parameters, seed=1), rand(*parameters, seed=2)
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    np.testing.assert_allclose(function(turned, w, b).numpy(), function(x, w, b).numpy(), rtol=1e-12)


def test_large_rows_in_threads():
    x = rand(300, 1000, dtype=torch.float32, grad=True)
    w, b = (rand(1000, seed=s, dtype=torch.float32, grad=True) for s in (1, 2))
    out = F.layer_norm(x, (1000,), w, b)
    g = rand(300, 1000, seed=3, dtype=torch.float32)
    out.backward(g)
    normal = plain(x.detach().numpy().astype(np.float64), (1,))
    np.testing.assert_allclose(out.detach().numpy(), normal * w.detach().numpy() + b.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(w.grad.numpy(), (g.numpy() * normal).sum(0), atol=1e-3)
    np.testing.assert_allclose(b.grad.numpy(), g.numpy().sum(0), atol=1e-3)


def test_batch_norm_keeps_running_statistics():
    x = rand(4, 3, 5)
    mean, variance = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    F.batch_norm(x, mean, variance, training=True, momentum=0.25)
    np.testing.assert_allclose(mean.numpy(), 0.25 * x.numpy().mean((0, 2)))
    np.testing.assert_allclose(variance.numpy(), 0.75 + 0.25 * x.numpy().var((0, 2), ddof=1))
    made = F.batch_norm(x, mean, variance)
    shape = (1, 3, 1)
    expected = (x.numpy() - mean.numpy().reshape(shape)) / np.sqrt(variance.numpy().reshape(shape) + 1e-5)
    np.testing.assert_allclose(made.numpy(), expected)


def test_evaluation_has_derivatives():
    x, w, b = rand(4, 3, grad=True), rand(3, seed=1, grad=True), rand(3, seed=2, grad=True)
    mean, variance = rand(3, seed=3), rand(3, seed=4) ** 2 + 0.5
    assert gradcheck(lambda x, w, b: F.batch_norm(x, mean, variance, w, b), (x, w, b))


def test_16_bit_floats_keep_their_dtype():
    x = rand(4, 6, dtype=torch.bfloat16)
    assert F.layer_norm(x, (6,)).dtype == torch.bfloat16
    assert F.layer_norm(x, (6,), torch.ones(6)).dtype == torch.bfloat16
    assert torch.native_layer_norm(x, (6,), None, None, 1e-5)[1].dtype == torch.bfloat16


def test_wrong_arguments():
    x = rand(2, 6)
    with pytest.raises(RuntimeError):
        F.layer_norm(x, (5,))
    with pytest.raises(RuntimeError):
        F.layer_norm(x, (6,), rand(5))
    with pytest.raises(RuntimeError):
        F.group_norm(x, 4)
    with pytest.raises(RuntimeError):
        F.batch_norm(x, None, None)
    with pytest.raises(ValueError):
        F.batch_norm(rand(1, 6), None, None, training=True)
    with pytest.raises(ValueError):
        F.instance_norm(rand(2, 6, 1))


def test_native_forms_give_their_statistics():
    x = rand(2, 6, 5)
    out, mean, scale = torch.native_group_norm(x, None, None, 2, 6, 5, 3, 1e-5)
    groups = x.numpy().reshape(2, 3, 10)
    np.testing.assert_allclose(mean.numpy(), groups.mean(2))
    np.testing.assert_allclose(scale.numpy(), 1 / np.sqrt(groups.var(2) + 1e-5))
    np.testing.assert_allclose(out.numpy(), F.group_norm(x, 3).numpy())
    _, mean, scale = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean((0, 2)))


def test_local_response_norm():
    x = rand(2, 5, 3)
    square = np.pad(x.numpy() ** 2, ((0, 0), (1, 1), (0, 0)))
    mean = (square[:, :-2] + square[:, 1:-1] + square[:, 2:]) / 3
    expected = x.numpy() / (1.5 + 0.1 * mean) ** 0.75
    np.testing.assert_allclose(F.local_response_norm(x, 3, alpha=0.1, k=1.5).numpy(), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("shape", [(2, 9, 5), (3, 7, 4, 3)])
def test_local_response_norm_of_any_width(size, shape):
    x = rand(*shape, grad=True)
    values, total = x.detach().numpy(), np.zeros(shape)
    for c in range(shape[1]):
        total[:, c] = (values[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1] ** 2).sum(1)
    made = F.local_response_norm(x, size, alpha=0.3)
    np.testing.assert_allclose(made.detach().numpy(), values / (1 + 0.3 * total / size) ** 0.75)
    assert gradcheck(lambda x: F.local_response_norm(x, size, alpha=0.3), (x,))
    if size == 3:
        assert gradgradcheck(lambda x: F.local_response_norm(x, size, alpha=0.3), (x[:1].detach().requires_grad_(),))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("bags", [6, 400])
def test_bags_of_equal_length(mode, index, bags):
    weight = rand(50, 40, grad=True)
    names = torch.tensor(np.random.default_rng(0).integers(0, 50, (bags, 16)), dtype=index)
    made = F.embedding_bag(names, weight, mode=mode)
    rows = weight.detach().numpy()[names.numpy()]
    np.testing.assert_allclose(made.detach().numpy(), rows.sum(1) if mode == "sum" else rows.mean(1), rtol=1e-12)
    g = rand(bags, 40, seed=1)
    made.backward(g)
    expected = np.zeros((50, 40))
    np.add.at(expected, names.numpy(), np.repeat(g.numpy()[:, None], 16, 1) / (1 if mode == "sum" else 16))
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-9, atol=1e-12)
    for wrong in (-1, 50):
        with pytest.raises(RuntimeError, match=f"found idx to be {wrong}"):
            F.embedding_bag(torch.tensor([[0, wrong]]), weight, mode=mode)


def test_eps_of_batch_norm():
    x, mean, var = torch.tensor([[1.0, 2.0], [3.0, 6.0]]), torch.zeros(2), torch.ones(2)
    for eps in (0.0, -1e-5):
        with pytest.raises(ValueError, match="eps must be positive during training"):
            F.batch_norm(x, mean, var, training=True, eps=eps)
    assert torch.equal(F.batch_norm(x, mean, var, eps=0.0), x)
    with pytest.raises(ValueError, match="eps must be non-negative"):
        F.batch_norm(x, mean, var, eps=-1e-5)
    assert F.batch_norm(torch.zeros(0), None, None, training=True).shape == (0,)


def test_batch_norm_of_no_rows():
    x, w, b = (
        torch.zeros(0, 3, 2, requires_grad=True),
        torch.ones(3, requires_grad=True),
        torch.ones(3, requires_grad=True),
    )
    F.batch_norm(x, torch.zeros(3), torch.ones(3), w, b).sum().backward()
    assert x.grad.shape == (0, 3, 2) and w.grad.tolist() == [0, 0, 0] == b.grad.tolist()


def test_norms_of_no_rows_have_derivatives_of_any_order():
    x = torch.zeros(0, 4, 3, dtype=torch.float64, requires_grad=True)
    fixed = torch.nn.InstanceNorm1d(4, track_running_stats=True).double().eval()
    for call in (lambda x: F.group_norm(x, 2), F.instance_norm, fixed):
        first = torch.autograd.grad(call(x).sum(), x, create_graph=True)[0]
        (again,) = torch.autograd.grad(first.sin().sum() + x.sum(), x, allow_unused=True)
        assert first.shape == again.shape == (0, 4, 3)


def test_local_response_norm_of_other_dtypes():
    """Expected values as PyTorch gives them."""
    made = F.local_response_norm(torch.arange(24).reshape(1, 4, 6) * 7, 3)
    np.testing.assert_allclose(made[0, :, 1].numpy(), [6.6001, 38.9577, 55.2376, 83.3178], atol=1e-4)
    assert made.dtype is torch.float32
    x = torch.arange(12.0, dtype=torch.float64).reshape(1, 3, 4) * 0.37
    exact = (
        x
        / (1 + 1e-4 * F.avg_pool3d(F.pad(x[:, None, :, :, None] ** 2, (0, 0, 0, 0, 1, 1)), (3, 1, 1), 1)[:, 0, :, :, 0])
        ** 0.75
    )
    for d, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)):
        made = F.local_response_norm(x.to(d), 3)
        assert made.dtype is d
        torch.testing.assert_close(made.double(), exact, rtol=tolerance, atol=0)


def test_strides_of_channels_of_one_element():
    for shape in ((4, 3), (4, 3, 1), (4, 3, 1, 1), (4, 3, 1, 1, 1), (4, 3, 2, 2)):
        x = rand(*shape)
        assert F.batch_norm(x, None, None, training=True).stride() == x.stride()
        assert F.batch_norm(x, torch.zeros(3).double(), torch.ones(3).double()).stride() == x.stride()
    x = rand(4, 3, 2, 2).to(memory_format=torch.channels_last)
    assert F.batch_norm(x, None, None, training=True).stride() == x.stride() == (12, 1, 6, 3)
