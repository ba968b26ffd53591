"""Kernels that come with flambeau: found by their text, used only if the archive is whole, private and for this CPU."""

import ctypes
import os
import platform
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau._kernel.building import archives, cpus, elf, jit, llvm
from flambeau._kernel.building.modules import split

pytestmark = pytest.mark.skipif(not elf.machine(), reason="object files of another kind")
ROOT = Path(__file__).resolve().parents[2]
HERE = platform.machine().lower()
TEXT = "define i64 @seven(i64 %a) {\n  %b = add i64 %a, 6\n  ret i64 %b\n}\n"


@pytest.fixture(scope="module")
def code():
    (part,) = split("seven", TEXT)
    return part, llvm.objects_of(jit.target(), [part])[part.digest]


@pytest.fixture
def written(tmp_path, monkeypatch, code):
    """An archive with one kernel, which this process looks for kernels in; LLVM is not to be asked."""
    monkeypatch.setattr(archives, "FOLDER", tmp_path / "shipped")
    monkeypatch.delenv("FLAMBEAU_SHIPPED", raising=False)
    return write(code)


def write(code, words=frozenset(), machine=HERE, cpu=None):
    part, data = code
    kind = cpu or cpus.able()[-1]
    path = archives.FOLDER / f"{kind.name}.kernels"
    index = {archives.interpreter(): {"seven a key": part.symbol}}
    archives.write(path, kind._replace(words=kind.words | words), machine, "22", {part.digest: data}, index)
    return path


def fresh(monkeypatch, tmp_path):
    """As a new process is, with an empty cache; what LLVM was asked for is listed."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(jit, "_settings", [])
    monkeypatch.setattr(jit, "_addresses", {})
    asked, compiled = [], llvm.objects_of

    def noted(target, parts):
        asked.extend([part.symbol for part in parts])
        return compiled(target, parts)

    monkeypatch.setattr(llvm, "objects_of", noted)
    return asked


def call(address):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1)


def test_a_kernel_is_found_by_its_text(written, monkeypatch, tmp_path):
    asked = fresh(monkeypatch, tmp_path)
    monkeypatch.setattr(llvm, "host", lambda: pytest.fail("LLVM was loaded"))
    assert call(jit.compile("seven", TEXT)) == 7 and asked == []
    assert list((tmp_path / "cache").rglob("*.kernel")) == []


def test_what_is_there_runs_without_llvm(written, monkeypatch, tmp_path):
    fresh(monkeypatch, tmp_path)
    monkeypatch.setitem(sys.modules, "llvmlite", None)  # cannot be imported
    monkeypatch.setattr(llvm, "loaded", llvm.loaded.__wrapped__)
    assert call(jit.compile("seven", TEXT)) == 7
    with pytest.raises(ImportError, match=r"neither came with it.* pip install llvmlite"):
        jit.compile("seven", TEXT.replace("6", "7"))


def test_another_text_is_compiled(written, monkeypatch, tmp_path):
    asked = fresh(monkeypatch, tmp_path)
    assert call(jit.compile("seven", TEXT.replace("6", "8"))) == 9 and len(asked) == 1


def test_keys_hold_for_the_files_that_they_were_made_by(written, monkeypatch, tmp_path, code):
    write(code, cpu=cpus.able()[0])
    asked = fresh(monkeypatch, tmp_path)
    assert call(jit.compile_rendered("seven", "a key", lambda: pytest.fail("rendered"))) == 7 and asked == []
    fresh(monkeypatch, tmp_path)
    monkeypatch.setattr(archives, "contents", lambda: "of other files")
    assert call(jit.compile_rendered("seven", "a key", lambda: TEXT.replace("6", "9"))) == 10


def test_keys_hold_for_vectors_of_the_same_width(written, monkeypatch, tmp_path, code):
    """A machine with AVX alone runs code for x86-64-v2, but its tiles have other sizes, on which those who call them count."""
    write(code, cpu=cpus.able()[0])
    asked = fresh(monkeypatch, tmp_path)
    theirs = archives.usable()[0].vectors
    monkeypatch.setattr(cpus, "features", lambda: {"avx": theirs != cpus.vectors({"avx": True})})
    assert call(jit.compile_rendered("seven", "a key", lambda: TEXT.replace("6", "9"))) == 10 and len(asked) == 1
    assert call(jit.compile("seven", TEXT)) == 7 and len(asked) == 1  # the text is the same


def test_it_can_be_switched_off(written, monkeypatch):
    assert len(archives.usable()) == 1
    monkeypatch.setenv("FLAMBEAU_SHIPPED", "0")
    assert archives.usable() == []


def test_damaged_archives_are_not_used(written, monkeypatch, tmp_path, code):
    content, digest = written.read_bytes(), code[0].digest
    assert archives.usable()[0].read(digest) == code[1]
    cut = [content[:n] for n in range(0, len(content), 97)]
    bent = [content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :] for at in range(0, len(content), 41)]
    for damaged in (*cut, *bent, b"", b"\0" * 4096, os.urandom(4096)):
        written.write_bytes(damaged)
        assert all(archive.read(digest) is None for archive in archives.usable())
    asked = fresh(monkeypatch, tmp_path)
    written.write_bytes(bent[-1])
    assert call(jit.compile("seven", TEXT)) == 7 and len(asked) == 1


def test_an_archive_that_shrinks_while_it_is_used(written, monkeypatch, tmp_path):
    asked = fresh(monkeypatch, tmp_path)
    assert len(jit._setting().shelves) == 1
    os.truncate(written, 200)
    assert call(jit.compile("seven", TEXT)) == 7 and len(asked) == 1


@pytest.mark.parametrize("change", [{"words": frozenset(["telepathy"])}, {"machine": "riscv64"}])
def test_archives_for_other_machines_are_not_used(written, code, change):
    written.unlink()
    assert archives.usable() == []
    write(code, **change)
    assert archives.usable() == []


def test_the_ablest_cpu_counts(written, code):
    able = cpus.able()
    assert all(cpu.words <= cpus.words() for cpu in able)
    write(code, cpu=able[0])
    assert archives.usable()[0].cpu == able[0].name


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_archives_that_others_may_write_are_not_used(written, mode):
    os.chmod(written, mode)
    assert archives.usable() == []
    os.chmod(written, 0o644)
    assert len(archives.usable()) == 1
    os.chmod(written.parent, mode | 0o111)
    assert archives.usable() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only the superuser gives files away")
def test_archives_of_other_owners_are_not_used(written):
    os.chown(written, 12345, 12345)
    assert archives.usable() == []


def test_links_and_pipes_are_not_used(written, tmp_path):
    written.rename(tmp_path / "elsewhere")
    written.symlink_to(tmp_path / "elsewhere")
    assert archives.usable() == []
    written.unlink()
    os.mkfifo(written)
    assert archives.usable() == []


@pytest.mark.slow
def test_a_cache_that_cannot_be_written():
    program = "import flambeau as torch; print((torch.arange(4.0) * 2).sum().item())"
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": "/dev/null/nowhere"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("12.0\n", "")


def test_a_list_of_families_holds_for_the_same_files(tmp_path, monkeypatch):
    from flambeau._ops import families

    path = tmp_path / "families"
    monkeypatch.setattr(families, "_waiting", {"sorting": None})
    path.write_text("digest\n sorting msort\nrecords sorting msort_op")
    path.chmod(0o644)
    tables = ("", "records")
    found = families._read(str(path), lambda: "digest", tables)
    assert found == {"": {"msort": "sorting"}, "records": {"msort_op": "sorting"}}
    assert families._read(str(path), lambda: "other", tables) is None
    path.chmod(0o666)
    assert families._read(str(path), lambda: "digest", tables) is None


# -- the tool ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", [pytest.param("neoverse-n1", marks=pytest.mark.slow), "x86-64-v3"])
def test_kernels_are_made_for_another_cpu(tmp_path, cpu):
    """The tool's own way, for a program of one operation; x86 instructions are left out where this machine has none."""
    if HERE == "x86_64" and cpu == "neoverse-n1":
        pytest.skip("an x86 machine makes code for x86 alone")
    program = f"""
import sys; sys.path[:0] = [{str(ROOT / "tools")!r}, {str(ROOT)!r}]
import types; programs = sys.modules["shipped_programs"] = types.ModuleType("shipped_programs")
def run():
    import flambeau as torch
    print((torch.arange(9.0) * 2 + 1).exp().sum().log().item() - 17.145 < 0.1)
programs.PROGRAMS, programs.failed = dict(one=run), []
import ship_kernels, pickle
ship_kernels.work({cpu!r}, "one", "found")
parts, _, index, _ = pickle.load(open("found", "rb"))
from flambeau._kernel.building import jit
made = jit._setting().gathered.objects()
assert made.keys() == parts.keys() and len(made) >= 4 and index
print({{int.from_bytes(data[18:20], "little") for data in made.values()}})
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout == f"True\n{{{62 if cpu.startswith('x86') else 183}}}\n", done.stderr[-2000:]


def test_texts_that_this_machine_cannot_run_compute_nothing():
    native = runpy.run_path(str(ROOT / "tools" / "ship_kernels.py"))["native"]
    harmless = "declare void @llvm.x86.sse2.pause()\ndefine i64 @f(i64 %a) {\n  call void @llvm.x86.sse2.pause()\n  ret i64 %a\n}\n"
    assert native(harmless) == "define i64 @f(i64 %a) {\n  ret i64 %a\n}\n"
    foreign = "define internal void @g(ptr %a) noinline {\n  call void @llvm.x86.tilezero(i8 0)\n  ret void\n}\n" + TEXT
    assert native(foreign).count("  ret void\n") == 1 and native(foreign).count("  ret i64 0\n") == 1


def test_products_read_the_size_of_their_strips(monkeypatch):
    """Of which the code knows nothing, as machines with other caches share it."""
    from flambeau._kernel.products import gemm
    from flambeau._kernel.render import tiles

    text = gemm.render(tiles.Plan("f32", 6), False)
    a, b = torch.rand(40, 300), torch.rand(300, 5000)
    assert torch.allclose(a @ b, (a.double() @ b.double()).float(), atol=1e-3)
    monkeypatch.setattr(tiles, "strip_bytes", lambda: 3 << 20)
    assert gemm.render(tiles.Plan("f32", 6), False) == text and tiles.Plan("f32", 6).strip > 600
