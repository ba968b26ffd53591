"""Scaled gradients on a GPU, by kernels that the CPU runs."""

import pytest

import flambeau as torch

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep


def unscaled(gradients, scale=8.0):
    """What `unscale_` makes of gradients, and whether it found something odd."""
    scaler = torch.amp.GradScaler("cuda", init_scale=scale)
    parameters = [on_gpu(torch.zeros_like(g), True) for g in gradients]
    for p, g in zip(parameters, gradients):
        p.grad = on_gpu(g) if g.is_contiguous() else on_gpu(g.t().contiguous()).t()
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    scaler.scale(on_gpu(torch.ones(1)))
    scaler.unscale_(optimizer)
    (found,) = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
    return [back(p.grad) for p in parameters], back(found).item()


def test_gradients_are_divided_at_once(gpu, monkeypatch):
    names, run = [], Kernel.run

    def noted(self, *args):
        names.append(self.name)
        run(self, *args)

    monkeypatch.setattr(Kernel, "run", noted)
    gradients = [
        torch.randn(5, 7),
        torch.randn(4, 3).t(),
        torch.randn(5000),
        torch.zeros(0),
        torch.randn(3).double(),
        torch.randn(9).bfloat16(),
    ]
    made, odd = unscaled(gradients)
    assert odd == 0 and all(a.equal(g / 8) for a, g in zip(made, gradients))
    assert names.count("unscale") == 3 and not [n for n in names if n.startswith("isfinite")]
    for bad in (float("inf"), float("-inf"), float("nan")):
        for d in (torch.float32, torch.float64, torch.bfloat16):
            gradients[2] = torch.randn(5000).to(d)
            gradients[2][4999] = bad
            assert unscaled(gradients)[1] == 1


def test_gradients_with_gaps(gpu):
    (made,), odd = unscaled([torch.randn(6, 4)[:, ::2]])
    assert made.shape == (6, 2) and odd == 0


def test_capturable_steps_take_the_numbers_of_before(gpu):
    """ASGD's rate for a step is the one that the step before found."""
    made = []
    for capturable in (False, True):
        p = on_gpu(torch.tensor([1.0, 2.0, 3.0]), True)
        optimizer = torch.optim.ASGD([p], lr=0.1, capturable=capturable)
        for rate in (0.1, 0.05, 0.01):
            optimizer.param_groups[0]["lr"] = rate
            p.grad = on_gpu(torch.tensor([0.1, 0.2, 0.3]))
            optimizer.step()
        made.append(back(p.detach()))
    assert torch.allclose(*made, rtol=1e-6)
