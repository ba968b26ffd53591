"""Optimizers on a GPU make the steps that they make on the CPU."""

import numpy as np
import pytest

import flambeau as torch

pytestmark = pytest.mark.gpu
NAMES = [
    "SGD",
    "Adam",
    "AdamW",
    "Adadelta",
    "Adagrad",
    "Adamax",
    "ASGD",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Adafactor",
]


def trained(name, device, dtype, **settings):
    generator = np.random.default_rng(0)
    shapes = [(4, 3), (5,), (), (300, 7)]
    params = [torch.nn.Parameter(torch.tensor(generator.standard_normal(s)).to(device, dtype)) for s in shapes]
    optimizer = getattr(torch.optim, name)(params, lr=0.02, **settings)
    for _ in range(4):
        for p in params:
            p.grad = torch.tensor(generator.standard_normal(tuple(p.shape))).to(device, dtype)
        optimizer.step()
    return [p.detach().double().cpu().numpy() for p in params], optimizer


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-8), ("bfloat16", 0.1)])
def test_steps(name, dtype, tolerance):
    dtype = getattr(torch, dtype)
    settings = {"momentum": 0.9} if name == "SGD" else {}
    got, optimizer = trained(name, "cuda", dtype, **settings)
    want, _ = trained(name, "cpu", torch.float64, **settings)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    state = next(iter(optimizer.state.values()))
    assert all(value.device.type == "cpu" for key, value in state.items() if key == "step")
    assert any(value.is_cuda for value in state.values())


@pytest.mark.parametrize("name", ["Adam", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"])
def test_capturable(name):
    """Steps that are counted on the GPU."""
    got, optimizer = trained(name, "cuda", torch.float32, capturable=True)
    want, _ = trained(name, "cpu", torch.float32)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
    assert all(state["step"].is_cuda for state in optimizer.state.values())


def test_resuming():
    p = torch.nn.Parameter(torch.ones(3, device="cuda"))
    q = torch.nn.Parameter(torch.ones(3))
    one, two = torch.optim.Adam([p]), torch.optim.Adam([q])
    for _ in range(2):
        p.grad = torch.ones(3, device="cuda")
        one.step()
    two.load_state_dict(one.state_dict())
    assert two.state[q]["exp_avg"].device.type == "cpu" and two.state[q]["step"].item() == 2
