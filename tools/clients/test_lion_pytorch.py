"""lion-pytorch: training with the optimizer, its state, its variants."""

import copy

import pytest
import torch
from lion_pytorch import Lion
from torch import nn


def train(optimizer, model, steps=5):
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 10)
        loss = (model(x).squeeze() - x.sum(1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "options", [{}, {"decoupled_weight_decay": True}, {"betas": (0.5, 0.5)}, {"betas": (0.95, 0.98)}], ids=repr
)
def test_training(options, record_property):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
    losses = train(Lion(model.parameters(), lr=1e-2, weight_decay=1e-2, **options), model)
    record_property("losses", losses)
    record_property("weights", model[0].weight.flatten().tolist())
    assert losses[-1] < losses[0]


def test_one_step_of_one_sample(record_property):
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=1e-2)
    model(torch.randn(10)).backward()
    optimizer.step()
    optimizer.zero_grad()
    record_property("weights", model.weight.flatten().tolist())


def test_state_continues(record_property):
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    optimizer = Lion(model.parameters(), lr=1e-3)
    train(optimizer, model)
    other = copy.deepcopy(model)
    again = Lion(other.parameters(), lr=1.0)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert train(optimizer, model) == train(again, other)
    record_property("weights", other.weight.flatten().tolist())


def test_schedule_and_closure(record_property):
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    optimizer = Lion(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(10)).pow(2).sum()
        loss.backward()
        return loss

    losses = []
    for _ in range(4):
        losses.append(optimizer.step(closure).item())
        schedule.step()
    record_property("losses", losses)


def test_bad_values():
    with pytest.raises(AssertionError):
        Lion([nn.Parameter(torch.ones(1))], lr=-1.0)
