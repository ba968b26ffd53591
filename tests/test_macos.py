"""Programs on a Mac, as far as Linux can play one: no /proc, no /sys, no functions of Linux' alone, names of another system, and object
files that only LLVM links. What is left untested is the machine itself."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau._kernel.building import jit, llvm
from flambeau._kernel.building.modules import split

ROOT = Path(__file__).resolve().parents[1]
MAC = """
import builtins, mmap, os, platform, sys
import ctypes.util, multiprocessing.popen_fork, numpy, llvmlite.binding  # which know the real system
llvmlite.binding.llvm_version_info
import sysconfig; sysconfig.get_config_vars()

def hidden(path):
    return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(("/proc/", "/sys/", "/dev/shm"))

def without(function):
    def look(path, *args, **kwargs):
        if hidden(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *args, **kwargs)
    return look

builtins.open, os.open, os.stat, os.listdir = map(without, (open, os.open, os.stat, os.listdir))
machine = platform.machine().lower().replace("aarch64", "arm64")
sys.platform = "darwin"
platform.system, platform.machine = (lambda: "Darwin"), (lambda: machine)
for name in ("sched_getaffinity", "memfd_create", "O_TMPFILE", "eventfd", "copy_file_range"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("MADV_DONTNEED", "MAP_NORESERVE"):
    if hasattr(mmap, name):
        delattr(mmap, name)

class Mapped(mmap.mmap):
    def __new__(cls, *args, flags=mmap.MAP_SHARED, **kwargs):
        if flags & 0x40:  # of a Mac: reserve nothing; to Linux on x86 it means the lower 2 GiB
            flags ^= 0x40 | 0x4000
        return super().__new__(cls, *args, flags=flags, **kwargs)

mmap.mmap = Mapped
"""
PROGRAM = """
import flambeau as torch
from flambeau import nn
from flambeau._kernel.building import elf, jit

assert elf.machine() == 0 and torch.get_num_threads() == (os.cpu_count() or 1)
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
optimizer = torch.optim.AdamW(net.parameters(), 0.01)
x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 3, (8,))
losses = []
for _ in range(4):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses == sorted(losses, reverse=True), losses
assert torch.randn(3).tolist() and torch.ones(1 << 18).exp().sum() > 0      # many elements: the pool of threads
torch.save(net.state_dict(), "net.pt")
net.load_state_dict(torch.load("net.pt", mmap=True))
shared = torch.arange(5.0).share_memory_()
assert shared.is_shared() and shared.sum() == 10
compiled = torch.compile(net)
assert all(torch.allclose(compiled(x), net(x), atol=1e-5) for _ in range(3))
assert torch.empty(1 << 20, 1 << 10, device="meta").sum().shape == ()
assert torch.backends.cpu.get_cpu_capability() and "" != torch.utils.collect_env.get_pretty_env_info()
from flambeau.watch.memory import memory
assert memory()
print("done", jit.target().cpu != "")
"""


def test_llvm_links_words_that_kernels_read():
    text = "@some_word = external global i64\ndefine i64 @next() {\n  %a = load i64, ptr @some_word\n  %b = add i64 %a, 1\n  ret i64 %b\n}\n"
    held, (part,) = ctypes.c_int64(41), split("next", text)
    data = llvm.objects_of(jit.target(), [part])[part.digest]
    address = llvm.linked(jit.target(), part.symbol, [data], {"some_word": ctypes.addressof(held)})
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 42


@pytest.mark.slow
def test_a_program(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", "-c", MAC + PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and done.stdout == "done True\n", done.stderr[-3000:]
