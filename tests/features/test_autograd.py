"""Automatic differentiation: the graph, its ends, its life, its switches and its hooks."""

import gc
import weakref

import pytest

import flambeau as torch
from flambeau import nn


def test_python_control_flow_is_differentiated():
    def power(x, n):
        return x * power(x, n - 1) if n else torch.ones_like(x)

    x = torch.tensor(3.0, requires_grad=True)
    y = x
    while y < 100:
        y = y * x
    (y + power(x, 2) if y > 0 else -y).backward()
    assert x.grad == 5 * 81 + 6  # x^5 + x^2


def test_requires_grad_spreads():
    a = torch.tensor([1.0], requires_grad=True)
    b = torch.tensor([1.0])
    assert not b.requires_grad and (a + b).requires_grad
    assert b.requires_grad_() is b and b.requires_grad and not b.requires_grad_(False).requires_grad


def test_backward_of_a_scalar():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    (x**2).sum().backward()
    assert repr(x.grad) == "tensor([4., 6.])"


def test_backward_of_a_vector_needs_a_vector():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError):
        (x**2).backward()
    (x**2).backward(gradient=torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2, 40]


def test_gradients_accumulate_until_cleared():
    x = torch.tensor([1.0], requires_grad=True)
    for _ in range(3):
        (x**2).backward()
    assert x.grad.tolist() == [6]
    x.grad.zero_()
    assert x.grad.tolist() == [0]
    x.grad = None
    assert x.grad is None


def test_only_leaves_keep_gradients():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y * 3
    y.retain_grad()
    z.sum().backward()
    assert x.is_leaf and not y.is_leaf
    assert x.grad.tolist() == [6, 6] and y.grad.tolist() == [3, 3]
    with pytest.warns(UserWarning):
        assert z.grad is None
    with pytest.raises(ValueError):
        torch.optim.SGD([z], lr=0.1)


def test_the_graph_can_be_walked():
    x = torch.tensor([2.0], requires_grad=True)
    y = x**3
    assert repr(y.grad_fn).startswith("<PowBackward0 object at") and y.grad_fn.name() == "PowBackward0"
    assert repr((x * 2).grad_fn).startswith("<MulBackward0")
    assert type(y.grad_fn).__name__ == "PowBackward0"
    ((leaf, _),) = y.grad_fn.next_functions
    assert type(leaf).__name__ == "AccumulateGrad" and leaf.variable is x and leaf.next_functions == ()
    assert x.grad_fn is None


def test_the_graph_is_freed_after_backward():
    x = torch.tensor([2.0], requires_grad=True)
    y = (x**2).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_detach_cuts():
    x = torch.tensor([2.0], requires_grad=True)
    y = x * 3
    d = y.detach()
    assert d.data_ptr() == y.data_ptr() and not d.requires_grad and d.grad_fn is None
    (y * d).backward()
    assert x.grad.tolist() == [18]  # 3 * 6: nothing through d


def test_no_grad():
    x = torch.tensor(2.0, requires_grad=True)
    with torch.no_grad():
        y = x * 3
    assert not y.requires_grad and y.grad_fn is None

    @torch.no_grad()
    def predict(z):
        return x * z

    assert not predict(2).requires_grad and (x * 2).requires_grad
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        1 / 0  # noqa: B018
    assert torch.is_grad_enabled()


def test_switches():
    x = torch.ones(1, requires_grad=True)
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled() and not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_inference_tensors_stay_out():
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        y = x * 2
    assert y.is_inference() and not y.requires_grad
    with pytest.raises(RuntimeError):
        (y * x).sum().backward()


def test_updates_by_hand():
    w = torch.tensor([1.0], requires_grad=True)
    (w * 3).sum().backward()
    with pytest.raises(RuntimeError):
        w -= 0.1 * w.grad
    with torch.no_grad():
        w -= 0.1 * w.grad
    assert w.is_leaf and w.requires_grad and w.item() == pytest.approx(0.7)


def test_overwritten_values_are_noticed():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y**2
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(RuntimeError):
        x.add_(1)  # a leaf, at once
    y = x * 2
    y.add_(1)  # nobody needs the old values
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_tensor_hooks():
    x = torch.ones(2, requires_grad=True)
    seen = []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g) or g * 10)
    y.sum().backward(retain_graph=True)
    assert seen[0].tolist() == [1, 1] and x.grad.tolist() == [20, 20]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [2, 2]


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, g):
        assert ctx.saved_tensors[0].shape == g.shape
        return g


def test_functions_of_ones_own():
    x = torch.tensor([0.4, 1.6], requires_grad=True)
    y = Round.apply(x)
    assert y.tolist() == [0, 2] and y.grad_fn.name() == "RoundBackward"
    (y * torch.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2, 3]


def test_anomaly_mode_names_the_operation():
    x = torch.tensor([-1.0], requires_grad=True)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="SqrtBackward0"), torch.autograd.detect_anomaly():
        (x.sqrt() * 0).sum().backward()


def test_nothing_is_kept_without_tracking():
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])
    kept = []

    def watch(module, given, out):
        kept.append(weakref.ref(out))

    for layer in model:
        layer.register_forward_hook(watch)
    x = torch.ones(2, 4)
    with torch.no_grad():
        y = model(x)
    gc.collect()
    assert sum(r() is not None for r in kept) == 1  # the result alone
    assert y.grad_fn is None


@pytest.mark.slow
def test_the_graph_lives_as_long_as_its_result():
    x = torch.ones(3, requires_grad=True)
    middle = x * 2
    watched = weakref.ref(middle)
    losses = [(middle**2).sum()]
    del middle
    gc.collect()
    assert watched() is not None
    values = [losses[0].item()]
    losses.clear()
    gc.collect()
    assert watched() is None and values == [12]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.exp() * x.sin(), lambda x: (x @ x.T).tanh(), lambda x: torch.softmax(x, 1).log(),
        lambda x: torch.linalg.inv(x @ x.T + torch.eye(3, dtype=x.dtype)), lambda x: x.cumsum(0).norm(dim=1),
        lambda x: nn.functional.layer_norm(x, (4,)), lambda x: nn.functional.gelu(x), lambda x: x.sort(1)[0] * x,
    ],
)  # fmt: skip
def test_derivatives_agree_with_differences(function):
    torch.manual_seed(0)
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x,))
