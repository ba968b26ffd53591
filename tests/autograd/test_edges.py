"""Differentiating from and to edges of the graph, and by dicts of tensors."""

import pytest

import flambeau as torch
from flambeau.autograd.graph import GradientEdge, get_gradient_edge


def test_from_and_to_an_edge():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    edge = get_gradient_edge(y)
    (g,) = torch.autograd.grad((y * y).sum(), edge, retain_graph=True)
    assert g.tolist() == [6.0, 12.0]
    assert torch.autograd.grad(edge, x, g, retain_graph=True)[0].tolist() == [18.0, 36.0]
    assert torch.autograd.grad((y * y).sum(), (GradientEdge(y.grad_fn, 0), x))[1].tolist() == [18.0, 36.0]
    leaf = get_gradient_edge(x)
    assert torch.autograd.grad((x * x).sum(), leaf)[0].tolist() == [2.0, 4.0]


def test_what_an_edge_is_checked_for():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    edge = get_gradient_edge(x * 3)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        torch.autograd.grad(edge, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        torch.autograd.grad(edge, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        torch.autograd.grad(edge, x, torch.ones(2, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        torch.autograd.grad(x.sum(), edge, allow_unused=True, materialize_grads=True)


def test_an_edge_is_that_of_the_value_before_a_write():
    x = torch.ones(2, requires_grad=True).clone()
    edge = get_gradient_edge(x)
    x *= 2
    old, new = torch.autograd.grad(x.sum(), (edge, x))
    assert old.tolist() == [2.0, 2.0] and new.tolist() == [1.0, 1.0]


def test_dicts():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    found = torch.autograd.grad((x * x * 3).sum(), {"x": x, "y": y}, allow_unused=True)
    assert found["x"].tolist() == [6.0, 6.0] and found["y"] is None
    (x * y).sum().backward(inputs={"x": x})
    assert x.grad.tolist() == [1.0, 1.0] and y.grad is None


def test_batches_of_gradients_leave_out_what_is_not_reached():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    found = torch.autograd.grad(x * 3, (y, x), torch.eye(2), allow_unused=True, is_grads_batched=True)
    assert found[0] is None and found[1].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    with pytest.raises(
        RuntimeError, match="we interpret the first dimension of each grad_output as the batch dimension"
    ):
        torch.autograd.grad(x * 3, x, torch.ones(2), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used"):
        torch.autograd.grad((x * 3).sum(), (x, y))
