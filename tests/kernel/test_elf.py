"""Object files are loaded without LLVM: what they refer to is found, and damaged ones are refused."""

import ctypes
import os
import subprocess
import sys

import pytest

from flambeau._kernel.building import elf, jit, llvm, target

linux = pytest.mark.skipif(not elf.machine(), reason="this system has object files of another kind")

MODULE = """
@count = internal global i64 40
@table = internal constant [4 x i64] [i64 3, i64 1, i64 4, i64 1]
declare double @pow(double, double)
declare ptr @memset(ptr, i32, i64)
define i64 @outer(i64 %a) nounwind {
  %r = call i64 @inner(i64 %a)
  ret i64 %r
}
define i64 @inner(i64 %a) noinline nounwind {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  %place = getelementptr i64, ptr @table, i64 %a
  %found = load i64, ptr %place
  %sum = add i64 %new, %found
  ret i64 %sum
}
define double @power(double %a) nounwind {
  %r = call double @pow(double %a, double 2.500000e+00)
  ret double %r
}
define ptr @address() nounwind {
  ret ptr @memset
}
define ptr @own() nounwind {
  ret ptr @outer
}
@shared = global i64 5
define ptr @place() nounwind {
  ret ptr @shared
}
"""


def _object(text=MODULE):
    return llvm.optimised(jit.target(), text)


@linux
def test_functions_find_each_other_their_constants_and_those_of_the_process():
    found = elf.load(_object(), elf.process_symbol)
    outer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["outer"])
    assert [outer(0), outer(2), outer(1)] == [44, 46, 44]  # what is counted in the module's own memory, and its table
    power = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(found["power"])
    assert power(4.0) == 32.0
    memset = ctypes.CFUNCTYPE(ctypes.c_void_p)(found["address"])()
    assert memset == elf.process_symbol("memset")
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(found["own"])() == found["outer"]
    place = ctypes.CFUNCTYPE(ctypes.c_void_p)(found["place"])()
    assert place == found["shared"] and ctypes.c_int64.from_address(place).value == 5


@linux
def test_a_file_calls_one_that_was_loaded_before():
    first = elf.load(
        _object("define i64 @twice(i64 %a) {\n  %r = add i64 %a, %a\n  ret i64 %r\n}\n"), elf.process_symbol
    )
    text = "declare i64 @twice(i64)\ndefine i64 @more(i64 %a) {\n  %t = call i64 @twice(i64 %a)\n  %r = add i64 %t, 1\n  ret i64 %r\n}\n"
    second = elf.load(_object(text), first.__getitem__)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(second["more"])(20) == 41


@linux
def test_a_function_that_is_nowhere_is_named():
    text = "declare i64 @no_such_function(i64)\ndefine i64 @f(i64 %a) {\n  %t = call i64 @no_such_function(i64 %a)\n  ret i64 %t\n}\n"
    with pytest.raises(elf.Unloadable, match="no function 'no_such_function'"):
        elf.load(_object(text), elf.process_symbol)


@linux
def test_damaged_files_are_refused_or_loaded_but_never_break_the_process():
    data = _object()
    for end in range(0, len(data) - 1, 13):
        with pytest.raises(elf.Unloadable):
            elf.load(data[:end], elf.process_symbol)
    refused = 0
    for at in range(0, len(data), 3):
        for bit in (1, 128):
            damaged = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            try:
                elf.load(damaged, elf.process_symbol)  # what it does is not known, so nobody calls it
            except elf.Unloadable:
                refused += 1
    assert refused > 50


@linux
@pytest.mark.parametrize("data, message", [(b"", "not in order"), (b"\x7fELF" + bytes(60), "no object file")])
def test_other_files_are_refused(data, message):
    with pytest.raises(elf.Unloadable, match=message):
        elf.load(data, elf.process_symbol)


@linux
def test_files_of_other_machines_are_refused(monkeypatch):
    data = _object()
    monkeypatch.setattr(elf, "machine", lambda: 8)
    with pytest.raises(elf.Unloadable, match="another kind of machine"):
        elf.load(data, elf.process_symbol)


def test_relocations_of_intel():
    memory = bytearray(32)
    elf._intel(memory, 4, 0x1004, 2, 0x2000, 0, -4)
    elf._intel(memory, 8, 0x1008, 4, 0x0F00, 0, -4)
    elf._intel(memory, 12, 0x100C, 42, 0, 0x3008, -4)
    elf._intel(memory, 16, 0x1010, 1, 0x7FFF_1234_5678, 0, 8)
    words = [int.from_bytes(memory[i : i + 4], "little", signed=True) for i in (4, 8, 12)]
    assert words == [0x2000 - 4 - 0x1004, 0x0F00 - 4 - 0x1008, 0x3008 - 4 - 0x100C]
    assert int.from_bytes(memory[16:24], "little") == 0x7FFF_1234_5680
    for kind, goal, message in ((2, 1 << 40, "too far"), (10, 0, "not known"), (9, 0, "not known")):
        with pytest.raises(elf.Unloadable, match=message):
            elf._intel(memory, 0, 0, kind, goal, 0, 0)


def test_relocations_of_arm():
    def after(word, kind, target, addend=0, here=0x10000, pointer=0):
        memory = bytearray(word.to_bytes(4, "little"))
        elf._arm(memory, 0, here, kind, target, pointer, addend)
        return int.from_bytes(memory, "little")

    assert after(0x94000000, 283, 0x10010) == 0x94000004  # bl
    assert after(0x94000000, 283, 0x0FFFC) == 0x97FFFFFF
    assert after(0x90000000, 275, 0x12345678) == 0x90000000 | (0x12335 & 3) << 29 | (0x12335 >> 2) << 5  # adrp
    assert after(0x91000000, 277, 0x12345678) == 0x91000000 | 0x678 << 10  # add
    assert after(0xFD400000, 286, 0x12345678) == 0xFD400000 | (0x678 >> 3) << 10  # ldr d
    assert after(0xF9400000, 312, 0, pointer=0x12345678) == 0xF9400000 | (0x678 >> 3) << 10
    for kind, goal, message in (
        (283, 1 << 40, "too far"),
        (299, 0x8, "not aligned"),
        (999, 0, "not known"),
        (311, 0, "without"),
    ):
        with pytest.raises(elf.Unloadable, match=message):
            after(0, kind, goal)


WARM = """
import sys
import flambeau as torch
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 4))
step = torch.compile(lambda x: torch.softmax(net(x), 1).log().sum())
torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8)
for _ in range(3):
    step(x).backward()
print("llvmlite" in sys.modules)
"""


@pytest.mark.slow
@linux
def test_a_process_whose_kernels_are_kept_does_not_load_llvm(tmp_path):
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path / "own")}

    def run():
        done = subprocess.run([sys.executable, "-c", WARM], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-1500:]
        return done.stdout.strip()

    assert [run(), run()] == ["True", "False"]


def test_what_is_kept_about_the_host_is_asked_again_when_it_is_damaged_or_another(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "own"))
    kept, asked = target.Cache.open(), []

    def ask():
        asked.append(1)
        return target.Target("(1, 2)", "some-cpu", "+fast,-slow")

    def host(kept=kept):
        found = target.Host(kept, ask)
        return found.kept() or found.asked()

    monkeypatch.setattr(target, "_facts", lambda: ["this"])
    assert host() == host() and len(asked) == 1
    assert host().abilities() == {"fast": True, "slow": False}
    (file,) = (tmp_path / "own" / "kernels").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="checksum"):
        host()
    assert len(asked) == 2
    monkeypatch.setattr(target, "_facts", lambda: ["another"])
    host()
    assert len(asked) == 3
    monkeypatch.setattr(target, "_facts", lambda: None)  # nothing to know it by
    host()
    assert len(asked) == 4 and host(None).cpu == "some-cpu"


@linux
def test_a_jump_goes_where_its_word_says():
    library = ctypes.CDLL(None)
    upper, lower = (ctypes.cast(f, ctypes.c_void_p).value for f in (library.toupper, library.tolower))
    address, word = elf.jump(upper)
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)
    assert call(ord("a")) == ord("A")
    word.value = lower
    assert call(ord("A")) == ord("a") and call(ord("a")) == ord("a")
