"""Looking at values, shapes and gradients while a program runs."""

import io
import pdb

import pytest

import flambeau as torch
from flambeau import nn


def test_values_in_the_debugger():
    x = torch.tensor([1.0, 2.0]) * 3  # noqa: F841 (the debugger prints it)
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("p x\nc\n"), stdout=out, nosigint=True, readrc=False)
    debugger.set_trace()
    assert "tensor([3., 6.])" in out.getvalue()


def test_shapes_by_hooks(capsys):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
    handles = [
        layer.register_forward_hook(lambda m, given, out, name=name: print(f"{name}: {out.shape}"))
        for name, layer in model.named_modules()
    ]
    model(torch.zeros(4, 1, 8, 8))
    for handle in handles:
        handle.remove()
    model(torch.zeros(4, 1, 8, 8))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "0: torch.Size([4, 2, 6, 6])", "1: torch.Size([4, 72])", "2: torch.Size([4, 3])", ": torch.Size([4, 3])",
    ]  # fmt: skip


def test_parameters_without_gradient():
    model = nn.ModuleDict({n: nn.Linear(2, 2, bias=False) for n in ("used", "frozen", "unused", "detached")})
    model["frozen"].requires_grad_(False)
    x = torch.ones(1, 2)
    (model["used"](model["frozen"](x)) + model["detached"](x).detach()).sum().backward()
    found = {n: p.grad is not None for n, p in model.named_parameters()}
    assert [n for n, has in found.items() if has] == ["used.weight"]
    assert f"{model['used'].weight.grad.norm():.6f}" == f"{model['used'].weight.grad.norm().item():.6f}"


def test_anomaly_detection_names_the_operation():
    x = torch.zeros(1, requires_grad=True)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="PowBackward0"), torch.autograd.detect_anomaly():
        (x**0.3 * 0).sum().backward()


def test_nan_hooks():
    def check(gradient):
        if torch.isnan(gradient).any():
            raise RuntimeError("NaN gradient detected")

    w = torch.tensor([0.0], requires_grad=True)
    w.register_hook(check)
    with pytest.raises(RuntimeError, match="NaN gradient detected"):
        (w.sqrt() * 0).sum().backward()


def test_causes_of_nan():
    zero = torch.tensor(0.0)
    assert torch.log(zero) == -float("inf") and torch.isnan(zero / zero)
    assert torch.isfinite(torch.log(zero + 1e-8))
    model = nn.Linear(2, 1)
    assert torch.isnan(model(torch.tensor([[float("nan"), 1.0]]))).all()
    w = torch.ones(1, requires_grad=True)
    for _ in range(200):
        loss = (w * w * w).sum()
        (g,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w -= 10 * g
    assert not torch.isfinite(w).all()


def test_saliency():
    x = torch.zeros(3, 3, requires_grad=True)
    (x * torch.tensor([[1.0, 1, 1], [1, 9, 1], [1, 1, 1]])).sum().backward()
    assert x.grad.abs().argmax() == 4


def test_errors_name_sizes_and_types():
    with pytest.raises(RuntimeError, match=r"3x4 and 5x6"):
        torch.ones(3, 4) @ torch.ones(5, 6)
    with pytest.raises(RuntimeError, match=r"4.*3"):
        torch.ones(3, 4) + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"(?i)double.*float"):
        nn.Linear(2, 2)(torch.ones(1, 2).double())
    with pytest.raises(RuntimeError, match=r"size mismatch for weight[\s\S]*\[2, 2\][\s\S]*\[1, 2\]"):
        nn.Linear(2, 1).load_state_dict(nn.Linear(2, 2).state_dict())
