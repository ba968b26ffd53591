"""Kernels are compiled by several threads at a time, each part once; some before they are needed."""

import os
import subprocess
import sys
import threading
import time

import pytest

from flambeau._kernel.building import ahead, jit, llvm
from flambeau._kernel.building.modules import Part


def _text(number):
    return f"define i64 @wanted(i64 %x) nounwind {{\n  %y = add i64 %x, {number}\n  ret i64 %y\n}}\n"


def test_tasks_are_done_in_turn_by_another_thread():
    done, go_on = [], threading.Event()

    def fails():
        go_on.wait(10)
        raise RuntimeError

    ahead.soon(fails)
    for i in range(3):
        ahead.soon(lambda i=i: done.append((i, threading.current_thread().name)))
    assert done == []
    go_on.set()
    ahead.finish()
    assert done == [(i, "flambeau compiler") for i in range(3)]


@pytest.mark.parametrize("cached", [True, False])
def test_threads_that_want_the_same_kernel_compile_it_once(cached, monkeypatch):
    if not cached:
        monkeypatch.setattr(jit._setting(), "cache", None)
    asked, compiled, begun = [], llvm.objects_of, threading.Event()

    def slowly(target, parts):
        asked.extend(parts)
        begun.set()
        time.sleep(0.05)
        return compiled(target, parts)

    monkeypatch.setattr(llvm, "objects_of", slowly)
    found, text = [], _text(time.time_ns() >> 1)
    thread = threading.Thread(target=lambda: found.append(jit.compile("wanted", text)))
    thread.start()
    assert begun.wait(10)
    found.append(jit.compile("wanted", text))
    thread.join()
    assert len(asked) == 1 and found[0] == found[1]


def test_threads_compile_different_kernels_side_by_side(monkeypatch):
    both, compiled = threading.Barrier(2, timeout=10), llvm.objects_of
    monkeypatch.setattr(llvm, "objects_of", lambda target, parts: both.wait() >= 0 and compiled(target, parts))
    now = time.time_ns() >> 1
    thread = threading.Thread(target=jit.compile, args=("wanted", _text(now)))
    thread.start()
    assert jit.compile("wanted", _text(now + 1)) > 0
    thread.join()


def test_a_fork_waits_until_nobody_compiles():
    compiling, order = jit._compiling, []
    mine = compiling.begin([Part("a", "a", "")])

    def fork():
        compiling.acquire()
        order.append("forked")
        compiling.release()

    thread = threading.Thread(target=fork)
    thread.start()
    time.sleep(0.02)
    order.append("compiled")
    compiling.end(mine)
    thread.join()
    assert order == ["compiled", "forked"]
    compiling.begin(mine)  # a thread that forks while it compiles does not wait for itself
    compiling.acquire()
    compiling.release()
    compiling.end(mine)


@pytest.mark.slow
def test_without_kernels_on_disk_functions_work_before_their_native_entry_does(tmp_path):
    code = """
import flambeau as torch
from flambeau._kernel.native import site
x = torch.tensor([0.5])
assert torch.neg(x).item() == -0.5 and site._entries.waiting
site.wait()
assert not site._entries.waiting
for _ in range(4):
    assert torch.neg(x).item() == -0.5
print(len(torch.neg.__self__.table.kept))
"""
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path), "FLAMBEAU_SHIPPED": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=100)
    assert (done.stdout, done.stderr) == ("1\n", "")
