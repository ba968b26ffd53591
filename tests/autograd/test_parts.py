"""Gradients of parts are added in place to that of the whole."""

import pytest

import flambeau as torch
from flambeau._ops.places import indexing


@pytest.fixture
def made(monkeypatch):
    """How many gradients of wholes were made for parts."""
    calls, real = [], indexing.getitem_backward

    def counted(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(indexing, "getitem_backward", counted)
    return calls


def test_a_loop_over_parts_makes_one_gradient_of_the_whole(made):
    x = torch.arange(12.0).reshape(4, 3).requires_grad_()
    whole = x * 2
    total = sum((i + 1) * whole[i].sum() for i in range(4))
    total.backward()
    assert len(made) == 1
    assert x.grad.tolist() == [[2.0] * 3, [4.0] * 3, [6.0] * 3, [8.0] * 3]


def test_parts_of_a_leaf(made):
    x = torch.ones(4, 3, requires_grad=True)
    (x[0].sum() + x[:, 1].sum() * 10 + x[1:3].sum() * 100 + x.diagonal().sum() * 1000).backward()
    assert len(made) <= 1
    assert x.grad.tolist() == [[1001, 11, 1], [100, 1110, 100], [100, 110, 1100], [0, 10, 0]]
    x[0].sum().backward()  # what the leaf holds is not taken for that of this pass
    assert x.grad[0].tolist() == [1002, 12, 2]


def test_gradients_that_others_hold_are_not_written_to():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    seen = []
    given = torch.tensor([1.0, 2.0, 3.0])
    y.register_hook(lambda g: seen.append(g.clone()))
    total = y[0] + y[1]
    torch.autograd.backward([y, total], [given, torch.tensor(1.0)])
    assert given.tolist() == [1, 2, 3]
    assert seen[0].tolist() == [2, 3, 3]
    assert x.grad.tolist() == [2, 3, 3]


def test_hooks_of_parts_see_zeros_around_them():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    seen = []
    parts = [y[0], y[2]]
    for part in parts:
        part.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0].tolist()))
    (parts[0] * 2 + parts[1] * 3).backward()
    assert sorted(seen) == [[0, 0, 3], [2, 0, 0]]
    assert x.grad.tolist() == [2, 0, 3]


def test_second_derivatives_of_parts():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (first,) = torch.autograd.grad(x[0] ** 3 + x[1] ** 2 * x[0], x, create_graph=True)
    assert first.tolist() == [7, 4, 0]
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [10, 6, 0]
