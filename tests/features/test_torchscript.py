"""TorchScript: traced and scripted programs."""

import pytest

import flambeau as torch
from flambeau import nn

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch calls TorchScript old


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.mean() > 0:
            return torch.relu(x)
        return torch.tanh(x)


def halved(x: torch.Tensor) -> torch.Tensor:
    while x.sum() > 1:
        x = x / 2
    return x


def test_traces_work_for_other_batch_sizes():
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5)).eval()
    traced = torch.jit.trace(model, torch.randn(1, 10))
    x = torch.randn(4, 10)
    assert torch.allclose(traced(x), model(x))


def test_scripts_keep_branches_and_loops():
    positive, negative = torch.ones(3), -torch.ones(3)
    scripted = torch.jit.script(Dynamic())
    assert torch.equal(scripted(negative), torch.tanh(negative)) and torch.equal(scripted(positive), positive)
    assert torch.jit.script(halved)(torch.tensor([8.0])).item() == 1
