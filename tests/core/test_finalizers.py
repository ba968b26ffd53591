"""Garbage collection may end blocks of the program, and run operations, in the midst of what the package does."""

import gc
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import flambeau as torch
from flambeau._core import allocation
from flambeau._core.collector import uncollected
from flambeau._core.state import AUTOCAST, FUNCTION_MODE, PROFILE, Modes


class Loop:
    """Garbage that only a collection finds, and what happens then."""

    def __init__(self, end):
        self.me, self.end = self, end

    def __del__(self):
        self.end()


def run(program):
    """In a process of its own, which a deadlock cannot keep from ending."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_blocks_of_finalizers_in_the_midst_of_others():
    run(
        """
        import gc
        import flambeau as torch
        from flambeau._core.state import local, modes

        graph = torch.fx.Graph()
        node = graph.placeholder("x")
        ended = 0

        class Loop:
            def __init__(self):
                self.me, self.proxy = self, torch.fx.Proxy(node)

            def __del__(self):
                global ended
                ended += 1
                with torch.inference_mode(ended % 2 == 0), torch.autocast("cpu", torch.bfloat16), torch.profiler.profile():
                    self.proxy = None

        for number in range(100):
            gc.set_threshold(1 + number % 41)  # collections in all kinds of places
            Loop()
            with torch.inference_mode(), torch.autocast("cpu"):
                Loop()
                assert local.inference and local.autocast.on["cpu"]
        gc.set_threshold(700)
        gc.collect()
        assert ended == 200 and local.profiler is None and modes.inferring is None
        assert modes.on == 0 == modes.overrides and not any(modes.counts.values()), (modes.on, modes.counts)
        """
    )


@pytest.mark.parametrize("ends", [True, False])
def test_a_function_mode_that_begins_or_ends_while_attributes_are_switched(ends):
    seen, mine = [], Modes()

    def watch(on):
        seen.append(on)
        if len(seen) == 1:
            (mine.leave if ends else mine.enter)(FUNCTION_MODE)

    mine.when_watched = watch
    mine.enter(FUNCTION_MODE)
    assert mine.counts[FUNCTION_MODE] == (0 if ends else 2)
    assert seen == ([True, False] if ends else [True]) and mine.watched is not ends
    assert bool(mine.on) is not ends is not bool(mine.overrides)


def test_counts_of_a_moment():
    mine = Modes()
    mine.enter(PROFILE)
    mine.enter(AUTOCAST)
    mine.enter(PROFILE)
    assert mine.on == mine.overrides == PROFILE | AUTOCAST
    mine.leave(PROFILE)
    assert mine.on == mine.overrides == PROFILE | AUTOCAST
    mine.leave(PROFILE)
    assert mine.on == mine.overrides == AUTOCAST
    mine.leave(AUTOCAST)
    assert mine.on == mine.overrides == 0


@pytest.mark.slow
def test_operations_of_finalizers_while_kernels_are_compiled(tmp_path):
    run(
        f"""
        import gc, os
        os.environ["FLAMBEAU_CACHE_DIR"] = {str(tmp_path / "kept")!r}
        import flambeau as torch

        functions = [torch.sin, torch.cos, torch.exp, torch.sinh, torch.erf, torch.tan, torch.log1p, torch.atan]

        class Loop:
            def __init__(self):
                self.me = self

            def __del__(self):
                if functions:
                    functions.pop()(torch.ones(3, dtype=torch.float64))

        for _ in range(40):
            Loop()
        gc.set_threshold(20)
        x = torch.ones(3, 4)
        out = [x.softmax(1), x.tanh(), x @ x.T]
        gc.collect()
        assert not functions
        """
    )


def test_finalizers_do_not_run_in_a_watched_call():
    seen = []
    before = gc.get_threshold()
    try:
        for n in range(1, 60):
            gc.set_threshold(3 + 5 * n)
            x = torch.ones(n, 7)
            for _ in range(4):  # the second is watched
                Loop(lambda: seen.append(allocation.watcher))
                torch.softmax(x, 1)
    finally:
        gc.set_threshold(*before)
    assert len(seen) > 100 and seen.count(None) == len(seen)


def test_a_moment_without_collection():
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_moments_of_several_threads():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with uncollected():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with uncollected():
        thread.start()
        inside.wait(30)
    assert not gc.isenabled()  # the other's goes on
    child = os.fork()
    if not child:
        with uncollected():
            off = not gc.isenabled()
        os._exit(0 if off and gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    leave.set()
    thread.join()
    assert gc.isenabled()
