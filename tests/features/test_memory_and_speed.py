"""What is held in memory, and the switches for speed."""

import gc
import time
import weakref

import pytest

import flambeau as torch
from flambeau import nn


def test_adam_holds_two_numbers_for_each_parameter():
    model = nn.Linear(50, 50)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 50)).sum().backward()
    optimizer.step()
    held = sum(v.nbytes for s in optimizer.state.values() for n, v in s.items() if n != "step")
    assert held == 2 * sum(p.nbytes for p in model.parameters())


@pytest.mark.slow
def test_dropping_losses_frees_their_graphs():
    w, losses, middles = torch.ones(10, requires_grad=True), [], []
    for _ in range(3):
        y = w * 2
        middles.append(weakref.ref(y))
        losses.append((y**2).sum())
    del y
    gc.collect()
    assert all(m() is not None for m in middles)
    losses.clear()
    gc.collect()
    assert all(m() is None for m in middles)


def test_gradients_are_released_between_steps():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    gradient = weakref.ref(model.weight.grad)
    optimizer.zero_grad()
    gc.collect()
    assert model.weight.grad is None and gradient() is None


@pytest.mark.slow
def test_low_precision_and_channels_last_are_accepted():
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), torch.randn(2, 3, 8, 8)
    plain = model(x)
    for kind in (torch.bfloat16, torch.float16):
        assert torch.allclose(model.to(kind)(x.to(kind)).float(), plain, atol=0.1)
    model = model.float().to(memory_format=torch.channels_last)
    assert torch.allclose(model(x.to(memory_format=torch.channels_last)), plain, atol=0.05)


def test_non_blocking_copies():
    x = torch.arange(3.0)
    assert x.to("cpu", torch.float64, non_blocking=True).tolist() == [0, 1, 2]
    assert torch.zeros(3).copy_(x, non_blocking=True).tolist() == [0, 1, 2]


def test_the_benchmark_pattern():
    def benchmark(function, x, count=5):
        function(x)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.time()
        for _ in range(count):
            function(x)
        return time.time() - start

    assert benchmark(nn.Linear(8, 8), torch.randn(4, 8)) > 0
