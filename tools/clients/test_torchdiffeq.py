"""torchdiffeq: differential equations, their gradients, and events."""

import pytest
import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

ADAPTIVE = ["dopri8", "dopri5", "bosh3", "fehlberg2", "adaptive_heun"]
FIXED = ["euler", "midpoint", "heun2", "heun3", "rk4", "explicit_adams", "implicit_adams"]


class Spiral(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3) - 0.1 * y * t


class Fall(nn.Module):
    def __init__(self):
        super().__init__()
        self.gravity = nn.Parameter(torch.tensor([9.8]))

    def forward(self, t, state):
        height, speed = state
        return speed, -self.gravity * torch.ones_like(height)


@pytest.mark.parametrize("method", ADAPTIVE + FIXED)
@pytest.mark.parametrize("solve", [odeint, odeint_adjoint])
def test_methods(method, solve, record_property):
    equation, times = Spiral(), torch.linspace(0.0, 1.0, 6)
    start = torch.tensor([[2.0, 0.0], [0.5, -1.0]], requires_grad=True)
    options = {"step_size": 0.05} if method in FIXED else None
    path = solve(equation, start, times, method=method, options=options)
    path[-1].pow(2).sum().backward()
    record_property("path", path.flatten().tolist())
    record_property("start", start.grad.flatten().tolist())
    record_property("weights", [p.grad.norm().item() for p in equation.parameters()])


def test_scipy(record_property):
    path = odeint(
        Spiral(), torch.tensor([2.0, 0.0]), torch.linspace(0, 1, 4), method="scipy_solver", options={"solver": "LSODA"}
    )
    record_property("path", path.flatten().tolist())


def test_training(record_property):
    true = odeint(
        lambda t, y: y @ torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]), torch.tensor([2.0, 0.0]), torch.linspace(0, 1, 11)
    )
    equation = Spiral()
    optimizer = torch.optim.RMSprop(equation.parameters(), lr=1e-3)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (odeint_adjoint(equation, true[0], torch.linspace(0, 1, 11)) - true).abs().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    record_property("losses", losses)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("solve", [odeint, odeint_adjoint])
def test_event(solve, record_property):
    equation = Fall()
    start = (torch.tensor([10.0], requires_grad=True), torch.tensor([0.0]))
    time, (height, speed) = odeint_event(
        equation,
        start,
        torch.tensor(0.0),
        event_fn=lambda t, state: state[0],
        odeint_interface=solve,
        atol=1e-6,
        rtol=1e-6,
    )
    time.sum().backward()
    record_property("end", [time.item(), height[-1].item(), speed[-1].item()])
    record_property("gradients", [start[0].grad.item(), equation.gravity.grad.item()])


def test_backward_in_time_and_double(record_property):
    start = torch.tensor([1.0, 2.0], dtype=torch.float64)
    path = odeint(lambda t, y: -y, start, torch.tensor([1.0, 0.0], dtype=torch.float64), rtol=1e-10, atol=1e-10)
    assert torch.allclose(path[-1], start * torch.e)
    with pytest.raises(AssertionError):
        odeint(lambda t, y: -y, start, torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64))
