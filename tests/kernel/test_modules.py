"""Modules are compiled in parts, side by side, and kernels share the parts that they have in common."""

import ctypes
import gc
import os
import pty
import re
import subprocess
import sys

import pytest

from flambeau._kernel.building import jit, llvm
from flambeau._kernel.building.compiling import Notice
from flambeau._kernel.building.modules import SHARED, split
from flambeau._kernel.products.gemm import Plan, render
from flambeau._kernel.render.llvm import Llvm
from flambeau._kernel.render.value import Value

LONG = "".join(f"  %x{i + 1} = add i64 %x{i}, {i}\n" for i in range(300))


def _part(name, *, calls="", attributes="noinline nounwind", last=300):
    call = f"  %y = call i64 @{calls}(i64 %x{last})\n  ret i64 %y\n" if calls else f"  ret i64 %x{last}\n"
    return f"define internal i64 @{name}(i64 %x0) {attributes} {{\n{LONG}{call}}}\n"


def _main(*calls):
    lines = [f"  %r{i + 1} = call i64 @{name}(i64 %r{i})" for i, name in enumerate(calls)]
    return "\n".join(["define i64 @wanted(i64 %r0) nounwind {", *lines, f"  ret i64 %r{len(calls)}", "}", ""])


def _names(text):
    return [part.symbol.rsplit("_", 1)[0] for part in split("wanted", text)]


def test_long_functions_are_parts():
    assert _names(_part("first") + _part("second", calls="first") + _main("second", "first")) == [
        "first",
        "second",
        "wanted",
    ]
    assert _names(_part("first", attributes="nounwind") + _main("first")) == ["wanted"]  # may be inlined
    assert _names("define internal i64 @short(i64 %a) noinline {\n  ret i64 %a\n}\n" + _main("short")) == ["wanted"]


def test_short_functions_that_are_shared_are_parts():
    short = f"define internal i64 @short(i64 %a) noinline {SHARED} {{\n  ret i64 %a\n}}\n"
    assert _names(short + _main("short")) == ["short", "wanted"]


def test_parts_are_given_to_each_other():
    """Not only called: where a part is, is an argument, too."""
    given = "define internal i64 @given(i64 %a, ptr %f) noinline {\n  %b = call i64 %f(i64 %a)\n  ret i64 %b\n}\n"
    main = "define i64 @wanted(i64 %a) {\n  %b = call i64 @given(i64 %a, ptr @first)\n  ret i64 %b\n}\n"
    address = jit.compile("wanted", _part("first") + given.replace("noinline", f"noinline {SHARED}") + main)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1) == 1 + sum(range(300))


def test_what_belongs_together_is_not_split():
    assert _names("@state = internal global i64 0\n" + _part("first") + _main("first")) == ["wanted"]
    assert _names(_part("first", calls="second") + _part("second", calls="first") + _main("first")) == ["wanted"]
    assert _names(_part("first", calls="wanted") + _main("first")) == ["wanted"]


def test_parts_call_each_other():
    address = jit.compile("wanted", _part("first") + _part("second", calls="first") + _main("second", "first"))
    total = sum(range(300))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1) == 1 + 3 * total


def test_what_is_said_of_loops_goes_with_their_function():
    plan = Plan("f32", 6, 2, False)
    parts = split("kernel", render(plan, False))
    packing = next(part for part in parts if part.symbol.startswith("pack_right"))
    names = re.findall(r"!llvm.loop !(\d+)", packing.text)
    assert names and all(f"!{number} = distinct !{{!{number}, !" in packing.text for number in names)
    assert packing.text.count('!"llvm.loop.unroll.disable"') == len(names)  # and nothing of other functions' loops
    assert "!0 = " in packing.text


def test_kernels_share_parts():
    def names(one, other):
        """The parts that kernels of tiles of so many rows and vectors have in common."""
        found = [
            set(split("kernel", render(Plan("f32", rows, wide, few), added))) for rows, wide, few, added in (one, other)
        ]
        return {part.symbol.rpartition("_")[0] for part in found[0] & found[1]}

    common = {"pack_left", "pack_turned", "store_edge"}
    assert names((6, 2, False, False), (6, 2, False, True)) == common | {"pack_right", "tile"}
    assert names((6, 2, False, False), (4, 3, False, False)) == common | {"products"}
    assert names((4, 2, True, False), (3, 3, True, False)) == common | {"products"}
    assert names((6, 2, False, False), (4, 3, True, False)) == common


def test_tiles_are_compiled_as_they_are_written():
    """They are vectors already: passes that look for some would take longer than all others, and find none."""
    tile = render(Plan("f32", 6, 2, False), False)
    assert all(llvm.AS_WRITTEN in line for line in tile.splitlines() if line.startswith("define "))
    r = Llvm("doubled", ["ptr noalias %to", "ptr noalias %from", "i64 %n"])
    with r.loop(r.constant("i64", 0), Value(r, "%n", "i64")) as i:
        r.store(r.address("%to", i * 4), "f32", r.load(r.address("%from", i * 4), "f32") * 2.0)
    machine = llvm._machine(jit.target())

    def made() -> str:
        return str(llvm.improved(jit.target(), r.text(), llvm.loaded().get_global_context(), machine))

    assert re.search(r"fmul <\d+ x float>", made()) is not None
    r.as_written = True
    assert "fmul float" in made() and "alloca" not in made() and re.search(r"fmul <\d+ x float>", made()) is None


def test_an_error_in_a_part_is_raised():
    wrong = _part("first").replace("ret i64 %x300", "ret i64 %unknown")
    with pytest.raises(RuntimeError, match="unknown"):
        jit.compile("wanted", wrong + _part("second") + _main("first", "second"))


@pytest.mark.slow
def test_the_context_of_a_module_that_fails_stays():
    """The garbage collector frees both in any order, and a module after its context would be a crash."""
    text = "define i64 @wanted(i64 %x) {\n  %y = add i64 %z, 1\n  %z = add i64 %x, 1\n  ret i64 %y\n}\n"
    before = len(llvm._contexts)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="dominate") as caught:
            llvm.optimised(jit.target(), text)
        caught.value.itself = caught.value
        del caught
    gc.collect()
    assert len(llvm._contexts) == before + 3


def test_threads_pass_one_lock(monkeypatch):
    """Of two that replace it at once both get the same: otherwise one would pass it and release the other, which it never had."""
    from llvmlite.binding import ffi

    holder = ffi.lib._lock
    mine = llvm._passable()
    assert mine is holder._lock
    monkeypatch.setattr(holder, "_lock", mine.inner)  # as a thread sees it that looked before
    assert llvm._passable() is mine


def test_a_terminal_says_what_it_waits_for(tmp_path):
    code = """
import flambeau as torch
from flambeau._kernel.building import jit, llvm
jit._notice.spent = 1.5
print(torch.ones(3).sum().item())
"""
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path)}
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, text=True, env=env)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.stdout == "3.0\n"
    assert "compiling kernel 1 for this processor" in shown and shown.endswith("\r\x1b[K")  # and is wiped away
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (again.stdout, again.stderr) == ("3.0\n", "")


def test_the_line_can_be_switched_off(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    notice = Notice()
    notice.spent = 1.5
    with notice:
        assert notice.shown
    monkeypatch.setenv("FLAMBEAU_PROGRESS", "0")
    with notice:
        assert not notice.shown
    assert capsys.readouterr().err.count("compiling kernel") == 1


def test_parts_that_are_loaded_are_not_compiled_again(monkeypatch):
    """Where nothing can be kept on disk, too."""
    monkeypatch.setattr(jit._setting(), "cache", None)
    asked, compiled = [], llvm.objects_of

    def noted(target, parts):
        asked.extend([part.symbol.rsplit("_", 1)[0] for part in parts])
        return compiled(target, parts)

    monkeypatch.setattr(llvm, "objects_of", noted)
    for last in (41, 42):
        part = _part("shared").replace("%x0, 0", "%x0, 977")
        jit.compile("wanted", part + _main("shared").replace("ret i64 %r1", f"%s = add i64 %r1, {last}\n  ret i64 %s"))
    assert asked == ["shared", "wanted", "wanted"]
