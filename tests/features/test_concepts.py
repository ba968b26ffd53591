"""Concepts that introductions to deep learning explain, shown by running them."""

import pytest

import flambeau as torch
from flambeau import nn


def test_the_graph_follows_the_branch_taken():
    def model(x, use_relu):
        return torch.relu(x) if use_relu else torch.tanh(x)

    x = torch.ones(2, requires_grad=True)
    assert [model(x, flag).grad_fn.name() for flag in (True, False)] == ["ReluBackward0", "TanhBackward0"]


def test_vector_jacobian_products():
    def f(x):
        return torch.stack([x[0] * x[1], x[1].exp(), x.sum()])

    x = torch.tensor([2.0, 0.5], requires_grad=True)
    rows = [torch.autograd.grad(f(x), x, torch.eye(3)[i])[0] for i in range(3)]
    jacobian = torch.autograd.functional.jacobian(f, x)
    assert torch.allclose(torch.stack(rows), jacobian)
    v = torch.tensor([1.0, 2.0, 3.0])
    f(x).backward(gradient=v)
    assert torch.allclose(x.grad, v @ jacobian)


@pytest.mark.parametrize("factor, test", [(2.0, torch.isinf), (0.5, lambda g: g == 0)])
def test_exploding_and_vanishing_gradients(factor, test):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(200):
        y = y * factor
    y.backward()
    assert test(x.grad).all()


def final(kind, decay, penalty):
    w = nn.Parameter(torch.tensor([2.0, -3.0], dtype=torch.float64))
    optimizer = kind([w], lr=0.1, weight_decay=decay)
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((w - torch.tensor([1.0, 50.0])) ** 2).sum() + penalty / 2 * (w**2).sum()
        loss.backward()
        optimizer.step()
    return w.detach()


def test_weight_decay_against_a_penalty():
    assert torch.allclose(final(torch.optim.SGD, 0.1, 0.0), final(torch.optim.SGD, 0.0, 0.1))
    assert torch.allclose(final(torch.optim.Adam, 0.1, 0.0), final(torch.optim.Adam, 0.0, 0.1))
    assert not torch.allclose(final(torch.optim.AdamW, 0.1, 0.0), final(torch.optim.Adam, 0.0, 0.1), rtol=1e-3)


def test_dropout_keeps_the_mean():
    torch.manual_seed(0)
    assert nn.Dropout(0.8)(torch.ones(100_000)).mean().item() == pytest.approx(1, abs=0.03)


def test_broadcasting_is_a_stride_of_zero():
    x = torch.arange(3).reshape(3, 1).expand(3, 4)
    assert x.stride() == (1, 0) and x.untyped_storage().nbytes() == 24


def test_double_descent():
    torch.manual_seed(0)
    samples, x, noise = 20, torch.randn(220, 60, dtype=torch.float64), torch.randn(220, dtype=torch.float64)
    y = x @ (torch.randn(60, dtype=torch.float64) / 8) + 0.5 * noise

    def error(features):
        w = torch.linalg.pinv(x[:samples, :features]) @ y[:samples]
        return ((x[samples:, :features] @ w - y[samples:]) ** 2).mean().item()

    assert error(samples) > 3 * max(error(5), error(60))


def test_a_throw_is_fitted_by_its_gradient():
    speed = torch.tensor([3.0, 5.0], requires_grad=True)
    optimizer = torch.optim.Adam([speed], lr=0.2)
    for _ in range(200):
        place, velocity = torch.zeros(2), speed
        for _ in range(10):
            velocity = velocity + torch.tensor([0.0, -9.81]) * 0.1
            place = place + velocity * 0.1
        loss = ((place - torch.tensor([4.0, 1.0])) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 1e-3


def test_recurrent_input_is_time_major():
    out, h = nn.GRU(4, 5)(torch.randn(7, 3, 4))  # (time, batch, features)
    assert out.shape == (7, 3, 5) and h.shape == (1, 3, 5)
