"""Where an operation's kernels had to be compiled, another core compiles those of its derivative at once."""

import os
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau._autograd import rehearsal
from flambeau._kernel.building import ahead, jit, llvm


@pytest.fixture
def tasks(monkeypatch):
    """What would be done by a thread, as if this one had just waited for the compiler."""
    found = []
    monkeypatch.setattr(ahead, "soon", found.append)
    monkeypatch.setattr(llvm, "cores", lambda: 2)
    monkeypatch.setattr(rehearsal, "trains", True)
    monkeypatch.setattr(jit.waits, "waited", True)
    return found


def test_a_derivative_is_run_for_zeros_and_forgotten(tasks, monkeypatch):
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = torch.cumprod(x, 0)
    (task,) = tasks
    assert not jit.waits.waited
    given, backward = [], y.grad_fn.op.backward
    monkeypatch.setattr(y.grad_fn.op, "backward", lambda node, g, graph: given.append(g) or backward(node, g, graph))
    task()
    assert x.grad is None and torch.is_grad_enabled() and given[0].tolist() == [0, 0]
    y.sum().backward()
    task()  # too late: what it needs is released
    assert x.grad.tolist() == [4, 2] and len(given) == 2


def test_nothing_is_kept_for_it(tasks):
    x = torch.ones(7, requires_grad=True)
    y = torch.linalg.vector_norm(x)
    del y
    assert len(tasks) == 1 and tasks[0]() is None


@pytest.mark.parametrize("reason", ["no gradient", "no optimizer", "one core", "large", "hooks", "kept"])
def test_there_are_calls_without_one(tasks, monkeypatch, reason):
    x = torch.ones((1 << 20) + 1 if reason == "large" else 3, requires_grad=reason != "no gradient")
    if reason == "one core":
        monkeypatch.setattr(llvm, "cores", lambda: 1)
    if reason == "no optimizer":
        monkeypatch.setattr(rehearsal, "trains", False)
    if reason == "kept":
        monkeypatch.setattr(jit.waits, "waited", False)
    if reason == "hooks":  # which belong to the program, and to its own passes
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            torch.cumprod(x, 0)
    else:
        torch.cumprod(x, 0)
    assert tasks == []


@pytest.mark.slow
def test_without_kernels_on_disk_the_first_backward_pass_finds_its_own(tmp_path):
    code = """
import flambeau as torch
from flambeau._kernel.building import ahead, jit
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2))
optimizer = torch.optim.SGD(net.parameters())
loss = net(torch.randn(4, 2, 6)).square().mean()
following = torch.rand(1).item()
ahead.finish()
before = jit.counts()[1]
loss.backward()
print(before > 0, jit.counts()[1] - before < 3, following)
"""
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path), "FLAMBEAU_SHIPPED": "0"}
    done = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=100)
        for _ in range(2)
    ]
    assert [d.stderr for d in done] == ["", ""]
    first, second = [d.stdout.split() for d in done]
    assert first[:2] == ["True", "True"] and second[0] == "False" and first[2] == second[2]
