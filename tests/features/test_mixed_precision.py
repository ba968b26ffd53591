"""Mixed precision."""

import pytest

import flambeau as torch
from flambeau import nn


@pytest.mark.parametrize("cast", [torch.autocast, torch.amp.autocast])
def test_autocast(cast):
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    with cast(device_type="cpu", dtype=torch.bfloat16):
        y = model(x)
        loss = nn.functional.mse_loss(y, torch.zeros(3, 4))
    assert y.dtype is torch.bfloat16 and model.weight.dtype is torch.float32
    assert loss.dtype is torch.float32
    loss.backward()
    assert model.weight.grad.dtype is torch.float32
    with cast("cpu", enabled=False):
        assert model(x).dtype is torch.float32
    assert model(x).dtype is torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="active with a GPU")
@pytest.mark.filterwarnings("ignore")
def test_the_older_names_are_inactive_without_a_gpu():
    from flambeau.cuda.amp import GradScaler, autocast

    scaler, model = GradScaler(), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with autocast():
        out = model(torch.ones(1, 2))
    assert out.dtype is torch.float32 and not scaler.is_enabled()
    before = model.weight.clone()
    scaler.scale(out.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(model.weight, before - 0.1)


def scaled_step(scaler, optimizer, p, gradient):
    p.grad = None
    scaler.scale((p * gradient).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_scaler():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", growth_interval=2)
    assert scaler.is_enabled() and scaler.get_scale() == 65536
    scaled_step(scaler, optimizer, p, float("inf"))
    assert p.tolist() == [1, 1] and scaler.get_scale() == 32768  # skipped, halved
    for _ in range(2):
        scaled_step(scaler, optimizer, p, 0.25)
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 65536  # doubled after a good run
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 65536


def test_unscale_before_clipping():
    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale((p * 4).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.item() == 4
    nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)
    assert p.item() == pytest.approx(0, abs=1e-5)


def test_scaling_avoids_underflow():
    def gradient(factor, kind):
        w = torch.ones(1, dtype=kind, requires_grad=True)
        ((w * 1e-4).float() * 1e-5 * factor).sum().backward()
        return w.grad.item()

    assert gradient(1, torch.float16) == 0 and gradient(65536, torch.float16) > 0
    assert gradient(1, torch.bfloat16) > 0  # needs no scaler
