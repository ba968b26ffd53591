"""torch.compile: the same call and the same numbers."""

import pytest

import flambeau as torch
from flambeau import nn


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead", "max-autotune"])
def test_results_and_parameters_are_the_model_s(model, mode):
    compiled, x = torch.compile(model, mode=mode), torch.randn(5, 8)
    for _ in range(2):
        assert torch.allclose(compiled(x), model(x), atol=1e-6)
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in model.parameters()]
    assert torch.allclose(compiled(x[:2]), model(x[:2]), atol=1e-6)  # another shape


def test_gradients(model):
    compiled, x = torch.compile(model), torch.randn(5, 8)
    model(x).square().sum().backward()
    eager = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled(x).square().sum().backward()
    assert all(torch.allclose(p.grad, g, atol=1e-5) for p, g in zip(model.parameters(), eager))


def test_functions_with_branches():
    @torch.compile
    def f(x, flag):
        y = torch.sin(x) * 2 + 1
        return y.relu() if flag else y.tanh()

    x = torch.randn(6)
    for flag in (True, False, True):
        expected = torch.sin(x) * 2 + 1
        assert torch.allclose(f(x, flag), expected.relu() if flag else expected.tanh(), atol=1e-6)


def test_branches_on_values():
    @torch.compile
    def f(x):
        return x * 2 if x.sum() > 0 else x - 1

    assert f(torch.ones(3)).tolist() == [2, 2, 2] and f(-torch.ones(3)).tolist() == [-2, -2, -2]
