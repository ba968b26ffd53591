"""Kernels kept on disk: only what this user wrote, and only what is whole."""

import ctypes
import os
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from flambeau._kernel.building import cache, jit
from flambeau._kernel.building.cache import Cache
from flambeau._kernel.loops import pointwise

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import flambeau as torch
    x = torch.arange(10.0)
    found = [round(float(v), 4) for v in ((x * 2 + 1).sum(), x.exp()[1], torch.softmax(x, 0).sum())]
assert found == [100.0, 2.7183, 1.0], found
print(len([w for w in caught if "compiled again" in str(w.message)]), "told", flush=True)
"""


def program(path, **more):
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(path), **more}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "own"))
    return tmp_path / "own" / "kernels"


def test_what_is_written_is_read(folder):
    kept = Cache.open()
    assert kept.path == str(folder) and kept.read("abc") is None
    kept.write("abc", b"code")
    assert Cache.open().read("abc") == b"code"
    assert [f.name for f in folder.iterdir()] == ["abc.kernel"]
    assert stat.S_IMODE((folder / "abc.kernel").stat().st_mode) == 0o600


def _damages(content):
    yield from (content[:n] for n in range(0, len(content), 7))
    for at in range(0, len(content), 5):
        yield content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]
    yield content + b"\0"
    yield b""
    yield content[50:] + content[:50]


def test_damaged_files_are_not_read_and_this_is_said_once(folder):
    kept = Cache.open()
    kept.write("abc", bytes(range(100)))
    file = folder / "abc.kernel"
    content = file.read_bytes()
    for number, damaged in enumerate(_damages(content)):
        file.write_bytes(damaged)
        if number:
            assert kept.read("abc") is None
        else:
            with pytest.warns(UserWarning, match="its checksum is false"):
                assert kept.read("abc") is None
    file.write_bytes(content)
    assert kept.read("abc") == bytes(range(100))


def test_a_file_under_another_name_is_not_read(folder):
    kept = Cache.open()
    kept.write("abc", b"code")
    os.rename(folder / "abc.kernel", folder / "def.kernel")
    with pytest.warns(UserWarning, match="checksum"):
        assert kept.read("def") is None


@posix
@pytest.mark.parametrize("mode", [0o666, 0o622, 0o602])
def test_files_that_others_may_write_are_not_read(folder, mode):
    kept = Cache.open()
    kept.write("abc", b"code")
    os.chmod(folder / "abc.kernel", mode)
    with pytest.warns(UserWarning, match="may write to it"):
        assert kept.read("abc") is None


@posix
def test_pipes_and_links_are_not_read(folder, tmp_path):
    kept = Cache.open()
    kept.write("abc", b"code")
    os.rename(folder / "abc.kernel", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder / "abc.kernel")
    os.mkfifo(folder / "def.kernel")
    with pytest.warns(UserWarning):
        assert kept.read("abc") is None
    assert kept.read("def") is None  # and does not wait for a writer


@posix
@pytest.mark.parametrize("which", ["kernels", "own", "above"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_folders_that_others_may_write_are_not_used(tmp_path, monkeypatch, which, mode):
    root = tmp_path / "above" / "own"
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(root))
    monkeypatch.setattr(cache, "_private_group", lambda group: False)
    # a group of its own, as the superuser's may write everywhere anyway
    assert Cache.open() is not None
    place = {"kernels": root / "kernels", "own": root, "above": tmp_path / "above"}[which]
    os.chmod(place, mode)
    if mode == 0o775 and os.getuid() == 0:
        os.chown(place, 0, 12345)
    with pytest.warns(UserWarning, match="is not private"):
        assert Cache.open() is None


@posix
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only the superuser gives files away")
def test_foreign_owners_are_refused(folder):
    kept = Cache.open()
    kept.write("abc", b"code")
    os.chown(folder / "abc.kernel", 12345, 12345)
    with pytest.warns(UserWarning, match="belongs to user 12345"):
        assert kept.read("abc") is None
    os.chown(folder.parent, 12345, 12345)
    with pytest.warns(UserWarning, match="is not private"):
        assert Cache.open() is None


def test_a_folder_in_one_for_everybody_is_used(tmp_path, monkeypatch):
    os.chmod(tmp_path, 0o1777)
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "own"))
    assert Cache.open() is not None


@pytest.mark.parametrize("value", ["", "relative/path", "."])
def test_relative_places_are_ignored(tmp_path, monkeypatch, value):
    """As the XDG rules have it: nothing is written into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLAMBEAU_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Cache.open().path == str(tmp_path / "home" / ".cache" / "flambeau" / "kernels")
    monkeypatch.setenv("HOME", "")
    assert not [f for f in os.listdir(tmp_path) if f != "home"]


def test_what_killed_processes_left_is_removed(folder):
    kept = Cache.open()
    old, new = folder / "abc.12.34.tmp", folder / "abc.56.78.tmp"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    kept.write("abc", b"code")
    assert sorted(f.name for f in folder.iterdir()) == ["abc.56.78.tmp", "abc.kernel"]


def test_the_kernels_that_were_not_used_for_longest_make_room(folder, monkeypatch):
    kept = Cache.open()
    for age, name in enumerate(("new", "read", "older", "oldest")):
        kept.write(name, bytes(1000))
        os.utime(folder / f"{name}.kernel", (1e9 - 1e6 * age,) * 2)
    assert Cache.open().read("read") == bytes(1000)  # which counts as a use
    monkeypatch.setattr(cache, "MOST", 3500)
    looked = folder.with_name("kernels.looked")
    Cache.open().write("more", b"")
    assert len(list(folder.iterdir())) == 5  # somebody has looked within the hour
    os.utime(looked, (time.time() - 4000,) * 2)
    Cache.open().write("more", bytes(500))
    assert sorted(f.stem for f in folder.iterdir()) == ["more", "new", "older", "read"]
    monkeypatch.setattr(cache, "MOST", 2500)
    looked.unlink()
    again = Cache.open()
    again.write("last", b"")
    again.write("over", bytes(5000))  # a process looks once
    assert sorted(f.stem for f in folder.iterdir()) == ["last", "more", "over", "read"]


@pytest.mark.slow
def test_programs_compile_again_what_is_damaged(tmp_path):
    assert program(tmp_path) == "0 told"
    files = sorted((tmp_path / "kernels").iterdir())
    whole = [f.read_bytes() for f in files]
    assert len(files) > 2
    for number, file in enumerate(files):
        content = bytearray(whole[number])
        content[len(content) // 2] ^= 255
        file.write_bytes(content if number % 2 else content[:70])
    assert program(tmp_path) == "1 told"
    assert [f.read_bytes() for f in files] == whole
    assert program(tmp_path) == "0 told"


def test_texts_are_made_only_if_nothing_is_known_by_their_key(folder, monkeypatch):
    made = []

    def render():
        made.append(len(made))
        return f"define i64 @seven(i64 %a) {{\n  ret i64 {7 + made[-1]}\n}}\n"

    monkeypatch.setattr(jit._setting(), "cache", Cache.open())
    monkeypatch.setattr(jit, "_addresses", {})  # as a new process has it
    first = jit.compile_rendered("seven", "a key", render)
    assert _call(first) == 7 and made == [0]
    jit._addresses.clear()
    again = jit.compile_rendered("seven", "a key", render)
    assert _call(again) == 7 and made == [0] and again != first
    assert _call(jit.compile_rendered("seven", "another", render)) == 8 and made == [0, 1]
    jit._addresses.clear()
    for file in folder.iterdir():  # what is damaged is made again
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is not used"):
        assert _call(jit.compile_rendered("seven", "a key", render)) == 9


@pytest.mark.parametrize("home, times", [("flambeau._ops.some", 1), ("a_program", 2)])
def test_bodies_of_files_that_are_watched_are_known_without_their_text(folder, monkeypatch, home, times):
    made, render = [], pointwise.render_pointwise
    monkeypatch.setattr(pointwise, "render_pointwise", lambda *facts: made.append(facts) or render(*facts))
    monkeypatch.setattr(jit._setting(), "cache", Cache.open())
    monkeypatch.setattr(jit, "_addresses", {})

    def doubled(factor):
        body = lambda m, x: x * factor
        body.__module__ = home
        return pointwise.pointwise_ufunc("scaled", body, ("f32",), ("f32",), ("f32",))(np.float32(3))

    assert doubled(2.0) == 6 and len(made) == 1
    jit._addresses.clear()
    assert doubled(2.0) == 6 and len(made) == times
    assert doubled(3.0) == 9 and len(made) == times + 1  # what is closed over is part of it


def _call(address):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1)
