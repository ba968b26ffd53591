"""Initial weights."""

import math

import pytest

import flambeau as torch
from flambeau import nn


def test_defaults():
    torch.manual_seed(0)
    for layer, fan in ((nn.Linear(256, 128), 256), (nn.Conv2d(16, 32, 3), 144)):
        bound = 1 / math.sqrt(fan)
        for p in (layer.weight, layer.bias):
            assert p.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    table = nn.Embedding(1000, 20).weight
    assert abs(table.mean().item()) < 0.05 and table.std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    "name, options, std",
    [
        ("xavier_uniform_", {}, math.sqrt(2 / 600)), ("xavier_normal_", {}, math.sqrt(2 / 600)),
        ("kaiming_uniform_", {"nonlinearity": "relu"}, math.sqrt(2 / 400)),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, math.sqrt(2 / 200)),
        ("normal_", {"std": 0.02}, 0.02),
    ],
)  # fmt: skip
def test_schemes(name, options, std):
    torch.manual_seed(0)
    w = torch.empty(200, 400)
    assert getattr(nn.init, name)(w, **options) is w
    assert w.std().item() == pytest.approx(std, rel=0.03)


def test_constants_and_orthogonal_rows():
    w = torch.empty(3, 5)
    assert nn.init.ones_(w).sum() == 15 and nn.init.zeros_(w).sum() == 0
    nn.init.orthogonal_(w)
    assert torch.allclose(w @ w.T, torch.eye(3), atol=1e-5)


def test_through_apply_and_under_no_grad():
    def init(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    model.apply(init)
    assert not model[2].bias.any() and model[0].weight.any()
    with torch.no_grad():
        model[0].weight.fill_(0.01)
        model[0].weight.normal_(mean=0.0, std=0.02)
        model[0].bias.zero_()
    assert model[0].weight.is_leaf and model[0].weight.requires_grad


def trained(value):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    for p in model.parameters():
        nn.init.constant_(p, value)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    for _ in range(10):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


def test_equal_neurons_stay_equal():
    model = trained(0.5)
    assert torch.equal(model[0].weight, model[0].weight[:1].expand(4, 3)) and not (model[0].weight == 0.5).all()
    model = trained(0.0)
    assert not model[0].weight.any() and not model[0].weight.grad.any() and model[2].bias.any()


@pytest.mark.parametrize("gain, low, high", [(math.sqrt(2), 0.1, 10), (0.5, 0, 1e-8), (4.0, 1e8, math.inf)])
def test_scale_through_depth(gain, low, high):
    torch.manual_seed(0)
    x = torch.randn(64, 128)
    for _ in range(30):
        x = torch.relu(x @ (torch.randn(128, 128) * gain / math.sqrt(128)))
    assert low <= x.std().item() <= high
