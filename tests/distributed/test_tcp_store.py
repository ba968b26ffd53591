"""A store over the network: between connections, threads and processes, and when the other side is missing."""

import socket
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import flambeau as torch

dist = torch.distributed
SHORT = timedelta(milliseconds=200)


@pytest.fixture
def kept():
    return dist.TCPStore("127.0.0.1", 0, 1, True)


def test_connections_share_values(kept):
    other = dist.TCPStore("127.0.0.1", kept.port)
    kept.set("a", b"\x00\xff" * 100_000)
    assert other.get("a") == b"\x00\xff" * 100_000
    other.append("text", "x"), kept.append("text", "y")
    assert other.get("text") == b"xy" and sorted(other.list_keys()) == ["a", "text"]
    assert other.compare_set("text", "xy", "z") == b"z" and kept.compare_set("none", "no", "w") == b"no"
    assert other.delete_key("a") and not other.delete_key("a") and other.clone().get("text") == b"z"
    other.multi_set(["p", "q"], ["1", "2"])
    assert kept.multi_get(["p", "q"]) == [b"1", b"2"]


def test_prefix(kept):
    part = dist.PrefixStore("part", kept)
    part.set("k", "v")
    part.queue_push("line", "1")
    assert kept.get("part/k") == b"v" and "k" in part.list_keys() and part.queue_pop("line") == b"1"
    assert part.num_keys() == kept.num_keys()


def test_waiting(kept):
    other = dist.TCPStore("127.0.0.1", kept.port)
    threading.Timer(0.05, lambda: kept.set("late", "1")).start()
    assert other.get("late") == b"1"
    with pytest.raises(dist.DistStoreError, match="missing"):
        other.wait(["missing"], SHORT)
    with pytest.raises(dist.QueueEmptyError):
        other.queue_pop("line", block=False)
    threading.Timer(0.05, lambda: kept.queue_push("line", "2")).start()
    assert other.queue_pop("line") == b"2"


def test_counting_from_many_threads(kept):
    def count():
        store = dist.TCPStore("127.0.0.1", kept.port)
        for _ in range(50):
            store.add("n", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.add("n", 0) == 200


def test_another_process():
    kept = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    code = f"import flambeau as t; s = t.distributed.TCPStore('127.0.0.1', {kept.port}); s.set('b', s.get('a') + b'!')"
    kept.set("a", "hello")
    subprocess.run([sys.executable, "-c", code], check=True)
    assert kept.get("b") == b"hello!"


def test_missing_sides(kept):
    with pytest.raises(dist.DistNetworkError, match="listen"):
        dist.TCPStore("127.0.0.1", kept.port, 1, True)
    with pytest.raises(dist.DistNetworkError, match="no store answered"):
        dist.TCPStore("127.0.0.1", 1, timeout=SHORT)
    with pytest.raises(dist.DistStoreError, match="1 of 2"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=SHORT)


def test_strangers_do_no_harm(kept):
    for noise in (b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 64, b"\0\0\0\0", b"\0\0\0\1\0\0\0\3abc", b""):
        with socket.create_connection(("127.0.0.1", kept.port)) as stranger:
            stranger.sendall(noise)
    kept.set("a", "b")
    assert kept.get("a") == b"b"
