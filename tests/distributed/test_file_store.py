"""A store in a file: it holds data only, is shared by processes, and survives those that are killed."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

import flambeau as torch

dist = torch.distributed


class Trap:
    def __reduce__(self):
        return print, ("the file was executed",)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store")


@pytest.mark.parametrize("content", [pickle.dumps({"a": Trap()}), b"text", b"flambeau store 0\n", b"\0" * 100])
def test_other_files_are_refused_and_not_executed(path, content, capsys):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(dist.DistStoreError, match="is no store"):
        dist.FileStore(path).get("a")
    with open(path, "rb") as file:
        assert file.read() == content
    assert not capsys.readouterr().out


def test_a_change_that_was_cut_short_is_lost_and_nothing_else(path):
    store = dist.FileStore(path)
    store.set("a", "1")
    whole = os.path.getsize(path)
    store.set("b", b"x" * 100)
    store.queue_push("line", "first")
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        content = file.read()
    for end in (*range(whole), whole, whole + 5, whole + 60, size - 1):
        with open(path, "wb") as file:
            file.write(content[:end])
        again = dist.FileStore(path)
        assert again.check(["a"]) == (end >= whole) and not again.queue_len("line")
        again.set("c", "2")
        assert dist.FileStore(path).get("c") == b"2" and dist.FileStore(path).check(["a"]) == (end >= whole)


def test_damaged_bytes_do_not_pass(path):
    store = dist.FileStore(path)
    store.set("key", b"value")
    with open(path, "rb") as file:
        content = bytearray(file.read())
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x41
        with open(path, "wb") as file:
            file.write(damaged)
        with contextlib.suppress(dist.DistStoreError):
            assert not dist.FileStore(path).check(["key"])


def test_a_new_file_in_the_place_of_the_old_one_is_noticed(path):
    store = dist.FileStore(path)
    store.set("a", "1")
    os.unlink(path)
    assert not store.check(["a"])
    store.set("b", "2")
    assert dist.FileStore(path).list_keys() == ["b"]


_ADD = """
import sys, flambeau as torch
store = torch.distributed.FileStore(sys.argv[1])
print("ready", flush=True)
for i in range(int(sys.argv[2])):
    store.add("count", 1)
    store.set(f"key {i % 20}", "x" * 3000)
"""


def _start(path, count):
    process = subprocess.Popen([sys.executable, "-c", _ADD, path, str(count)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_processes_count_together(path):
    processes = [_start(path, 100) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert dist.FileStore(path).get("count") == b"200"


@pytest.mark.slow
def test_killed_processes_leave_a_whole_table(path):
    dist.FileStore(path).set("before", "1")
    last = 0
    for _ in range(4):
        process = _start(path, 1_000_000)
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = dist.FileStore(path)
        now = store.add("count", 0)
        assert store.get("before") == b"1" and now >= last
        last = now
    assert last > 0
