"""Optimizers: their rules, groups and states."""

import math

import pytest

import flambeau as torch
from flambeau import nn

optim = torch.optim


def steps(kind, gradients, start=1.0, **options):
    """The values that a parameter takes when these gradients arrive."""
    p = nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer, values = kind([p], **options), []
    for g in gradients:
        p.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        values.append(p.item())
    return values


def test_zero_grad_and_step():
    p = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.step()
    assert p.item() == 1  # without a gradient nothing moves
    p.grad = torch.ones(1)
    optimizer.step()
    assert p.item() == pytest.approx(0.9)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0]
    optimizer.zero_grad()
    assert p.grad is None


def test_sgd():
    lr, momentum, decay = 0.1, 0.9, 0.01
    for nesterov in (False, True):
        p, velocity, expected = 1.0, None, []
        for g in (1.0, -2.0, 0.5):
            g = g + decay * p
            velocity = g if velocity is None else momentum * velocity + g
            p -= lr * (g + momentum * velocity if nesterov else velocity)
            expected.append(p)
        options = {"lr": lr, "momentum": momentum, "weight_decay": decay, "nesterov": nesterov}
        assert steps(optim.SGD, (1.0, -2.0, 0.5), **options) == pytest.approx(expected)


def adam(gradients, lr=0.1, b1=0.9, b2=0.999, eps=1e-8, l2=0.0, decay=0.0):
    p, m, v, values = 1.0, 0.0, 0.0, []
    for t, g in enumerate(gradients, 1):
        p *= 1 - lr * decay
        g += l2 * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p -= lr * (m / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + eps)
        values.append(p)
    return values


def test_adam_and_adamw():
    gradients = (1.0, -2.0, 0.5)
    assert steps(optim.Adam, gradients, lr=0.1) == pytest.approx(adam(gradients))
    assert steps(optim.Adam, gradients, lr=0.1, weight_decay=0.1) == pytest.approx(adam(gradients, l2=0.1))
    assert steps(optim.AdamW, gradients, lr=0.1, weight_decay=0.1) == pytest.approx(adam(gradients, decay=0.1))
    firsts = [steps(optim.Adam, (g,), lr=0.1)[0] for g in (1e-3, 1.0, 1e3)]
    assert firsts == pytest.approx([0.9] * 3, rel=1e-4)


def test_rmsprop_and_adagrad():
    p, square = 1.0, 0.0
    q, total = 1.0, 0.0
    rms, ada = [], []
    for g in (1.0, -2.0, 0.5):
        square = 0.9 * square + 0.1 * g * g
        p -= 0.1 * g / (math.sqrt(square) + 1e-8)
        total += g * g
        q -= 0.1 * g / (math.sqrt(total) + 1e-10)
        rms.append(p)
        ada.append(q)
    assert steps(optim.RMSprop, (1.0, -2.0, 0.5), lr=0.1, alpha=0.9) == pytest.approx(rms)
    assert steps(optim.Adagrad, (1.0, -2.0, 0.5), lr=0.1) == pytest.approx(ada)


def test_lbfgs_solves_a_quadratic():
    torch.manual_seed(0)
    a = torch.randn(4, 4, dtype=torch.float64)
    a, b = a @ a.T + torch.eye(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    x = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer, calls = optim.LBFGS([x]), []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = 0.5 * x @ a @ x - b @ x
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    assert torch.allclose(a @ x, b, atol=1e-5) and len(calls) > 5


def test_groups():
    model = nn.Linear(128, 10)
    optimizer = optim.AdamW([{"params": model.weight, "lr": 1e-4}, {"params": model.bias}], lr=1e-3, weight_decay=0.5)
    assert [g["lr"] for g in optimizer.param_groups] == [1e-4, 1e-3]
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.5, 0.5]
    optimizer.add_param_group({"params": nn.Linear(1, 1).parameters(), "lr": 1.0})
    assert optimizer.param_groups[2]["lr"] == 1 and len(optimizer.param_groups[2]["params"]) == 2


def test_iterators_of_parameters():
    model = nn.Linear(2, 2)
    model.weight.requires_grad = False
    optimizer = optim.Adam(filter(lambda p: p.requires_grad, model.parameters()))
    assert [p is model.bias for p in optimizer.param_groups[0]["params"]] == [True]
    with pytest.raises(ValueError):
        optim.SGD([], lr=0.1)


@pytest.mark.parametrize(
    "kind, options, names",
    [
        (optim.Adam, {}, ["exp_avg", "exp_avg_sq"]), (optim.SGD, {"momentum": 0.9}, ["momentum_buffer"]), (optim.SGD, {}, []),
    ],
)  # fmt: skip
def test_states(kind, options, names):
    p = nn.Parameter(torch.ones(3))
    optimizer = kind([p], lr=0.1, **options)
    p.grad = torch.ones(3)
    optimizer.step()
    held = [n for n, v in optimizer.state[p].items() if isinstance(v, torch.Tensor) and v.shape == p.shape]
    assert held == names


def train(model, optimizer, count, x, y):
    for _ in range(count):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", [optim.Adam, lambda p, lr: optim.SGD(p, lr, momentum=0.9)])
def test_resumed_training_equals_uninterrupted(kind):
    torch.manual_seed(0)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    one, two, three = nn.Linear(3, 1), nn.Linear(3, 1), nn.Linear(3, 1)
    two.load_state_dict(one.state_dict())
    train(one, kind(one.parameters(), lr=0.1), 6, x, y)
    optimizer = kind(two.parameters(), lr=0.1)
    train(two, optimizer, 3, x, y)
    three.load_state_dict(two.state_dict())
    resumed = kind(three.parameters(), lr=0.5)
    resumed.load_state_dict(optimizer.state_dict())
    train(three, resumed, 3, x, y)
    assert torch.equal(three.weight, one.weight)


def test_parameters_outside_never_change():
    model = nn.Linear(2, 2)
    before = model.bias.clone()
    optimizer = optim.SGD([model.weight], lr=0.1)
    train(model, optimizer, 3, torch.ones(4, 2), torch.zeros(4, 2))
    assert torch.equal(model.bias, before) and model.bias.grad is not None
