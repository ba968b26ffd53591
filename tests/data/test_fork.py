"""A forked process can compute, whatever the threads of its parent were doing."""

import _imp
import importlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import flambeau
from flambeau._core.once import found_once

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


def test_a_fork_that_is_interrupted_leaves_no_lock_taken(monkeypatch):
    """Python reports what a signal's handler raises while the fork waits, and goes on: nobody would free the locks."""
    from flambeau._core import state

    class Interrupted:
        def acquire(self):
            raise KeyboardInterrupt

    free = threading.Lock()
    monkeypatch.setattr(state, "_over_forks", [(0, free), (1, Interrupted())])
    with pytest.raises(KeyboardInterrupt):
        state._take()
    assert not free.locked()


def test_a_fork_waits_for_what_other_threads_import(monkeypatch):
    """The child has none of these threads: nobody would finish the module, and who needs it would wait for ever."""
    from flambeau._core import state

    holds, imported = threading.Event(), []

    def work():
        with importlib._bootstrap._ModuleLockManager("flambeau.made_up"):
            holds.set()
            time.sleep(0.1)
            imported.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    holds.wait()
    assert state._imported_elsewhere()
    with importlib._bootstrap._ModuleLockManager("flambeau.made_up_too"):  # this thread's own
        state._take()
        state._release()
    thread.join()
    assert imported and not state._imported_elsewhere()
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not _imp.lock_held()


def test_attributes_are_found_out_side_by_side():
    """One lock for all, as Python had until 3.12, would be held in a child that is forked meanwhile."""
    begun, ends = threading.Event(), threading.Event()

    class Shape:
        def __init__(self, waits):
            self.waits = waits

        @found_once
        def area(self):
            if self.waits:
                begun.set()
                assert ends.wait(5)
            return object()

    slow = Shape(True)
    thread = threading.Thread(target=lambda: slow.area)
    thread.start()
    begun.wait()
    quick = Shape(False)
    assert quick.area is quick.area
    slow.waits = False
    first = slow.area
    ends.set()
    thread.join()
    assert slow.area is first


def test_threads_fork_at_once():
    """One that waits for the locks must not forget which ones another has to release."""
    from flambeau._core import state

    started = threading.Event()

    def fork():
        started.set()
        state._take()
        state._release()

    state._take()
    other = threading.Thread(target=fork, daemon=True)
    other.start()
    started.wait()
    other.join(0.05)
    state._release()
    other.join(5)
    assert not other.is_alive()
