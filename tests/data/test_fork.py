"""A forked process can compute, whatever the threads of its parent were doing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

SCRIPT = """
import faulthandler, os, sys, threading, time
import flambeau as torch

torch.set_num_threads(3)
a, big, stop = torch.randn(200, 200), torch.randn(1 << 18), False

def products():
    while not stop:
        a @ a
        torch.linalg.solve(a[:40, :40] + 9 * torch.eye(40), a[:40, :3])

def loops():
    while not stop:
        (big * 2 + 1).exp_()
        torch.randn(100)

def check():
    x = torch.randn(1 << 18, requires_grad=True)
    (x * x).sum().backward()
    assert torch.allclose(x.grad, 2 * x)
    b = torch.randn(300, 300)
    assert torch.allclose(b @ torch.eye(300), b, atol=1e-4)
    assert torch.linalg.solve(torch.eye(50) * 2, torch.ones(50, 1)).sum() == 25
    assert torch.linalg.svdvals(torch.eye(64)).sum() == 64
    (torch.rand(1 << 18) + 0.5).log2_().sort()

check()
threads = [threading.Thread(target=f, daemon=True) for f in (products, loops)]
for t in threads: t.start()
for _ in range(12):
    time.sleep(0.003)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            check()
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit("a child failed")
stop = True
for t in threads: t.join()
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_compute_while_threads_of_the_parent_do():
    environment = {**os.environ, "PYTHONPATH": str(Path(flambeau.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "done", done.stderr


def test_locks_are_taken_from_the_outermost_to_the_innermost(monkeypatch):
    """Whatever was imported first: a thread that holds one lock and waits for a later one must not meet a fork half way."""
    from flambeau._core import state

    order = []

    class Lock:
        def __init__(self, name):
            self.name = name

        def acquire(self):
            order.append(self.name)

        def release(self):
            order.append("-" + self.name)

    depths = {"moment": state.MOMENT, "leaves": state.LEAVES, "compiling": state.COMPILING, "watching": state.WATCHING}
    monkeypatch.setattr(state, "_over_forks", [(depth, Lock(name)) for name, depth in depths.items()])
    monkeypatch.setattr(state, "_taken", [])
    state._take()
    state._release()
    names = ["watching", "leaves", "compiling", "moment"]
    assert order == [*names, *["-" + name for name in reversed(names)]]
