"""Saving that is interrupted or killed leaves the old file, no other files for long, and no open descriptors."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import flambeau as torch
from flambeau._core.collector import uncollected
from flambeau._serialization import files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.fixture(params=["nameless", "named"])
def way(request, monkeypatch):
    """Files without a name until they are complete, and those of file systems that know no such files."""
    if request.param == "named":
        monkeypatch.setattr(files._Fresh, "_nameless", lambda self: None)
    return request.param


def descriptors():
    return len(os.listdir("/proc/self/fd"))


_SAVE = """
import sys
import flambeau as torch
from flambeau._serialization import files
if sys.argv[2] == "named":
    files._Fresh._nameless = lambda self: None
elif sys.argv[2] == "at once":
    replace = files.os.replace
    def waiting(a, b):  # kernels that are kept on disk come into their places by it as well
        return replace(a, b) if str(b) != sys.argv[1] else print("ready", flush=True) or sys.stdin.read()
    files.os.replace = waiting
x = torch.ones(4_000_000)
if sys.argv[2] != "at once":
    print("ready", flush=True)
while True:
    torch.save(x, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["nameless", "named", "at once"])
def test_what_a_killed_process_left_is_removed(tmp_path, how):
    target = tmp_path / "x.pt"
    torch.save(torch.zeros(3), target)
    for delay in (0.01, 0.05, 0.1) if how != "at once" else (0,):
        process = subprocess.Popen(
            [sys.executable, "-c", _SAVE, str(target), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close(), process.stdout.close()
        left = [name for name in os.listdir(tmp_path) if name != "x.pt"]
        assert len(left) <= 1 and (left or how != "at once")
        assert torch.load(target).numel() in (2, 3, 4_000_000)
        torch.save(torch.ones(2), target)
        assert os.listdir(tmp_path) == ["x.pt"] and torch.load(target).tolist() == [1.0, 1.0]


def test_threads_save_to_one_file(tmp_path, way):
    target = tmp_path / "x.pt"
    errors = []

    def work(number):
        try:
            for _ in range(15):
                torch.save(torch.full((1000,), float(number)), target)
                found = torch.load(target)
                assert float(found.min()) == float(found.max())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and os.listdir(tmp_path) == ["x.pt"]


def test_a_file_in_use_is_not_removed(tmp_path, way):
    target = tmp_path / "x.pt"
    with files.replacing(target) as write:
        write(b"first")
        with files.replacing(target) as other:
            other(b"second")
        assert target.read_bytes() == b"second"
        write(b" and more")
    assert target.read_bytes() == b"first and more" and os.listdir(tmp_path) == ["x.pt"]


class Interrupt(Exception):
    pass


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_leave_no_descriptors(tmp_path, way):
    """An exception at any moment: a timer raises it between two instructions."""
    target, x = tmp_path / "x.pt", torch.ones(300_000)
    torch.save(x, target)

    def strike(*args):
        raise Interrupt

    before, old = descriptors(), signal.signal(signal.SIGALRM, strike)
    try:
        for number in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + number * 4e-6)
                torch.save(x, target)
                torch.load(target)
                torch.load(target, mmap=True)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                pass
            except KeyError as error:  # of `threading`, where the strike met a thread that had just begun
                if not isinstance(error.__context__, Interrupt):
                    raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    gc.collect()  # tracebacks hold frames, and those files
    with uncollected():  # puts collection back where a strike kept another moment from doing so
        pass
    for _ in range(500):  # threads may still be closing some
        if descriptors() <= before:
            break
        time.sleep(0.02)
    assert descriptors() <= before
    torch.save(x, target)
    assert os.listdir(tmp_path) == ["x.pt"] and torch.load(target).shape == (300_000,)


def test_moments_without_collection_survive_interrupts():
    """An exception at any instruction of such a moment: the next one puts collection back."""

    def strike(*args):
        raise Interrupt

    old = signal.signal(signal.SIGALRM, strike)
    struck = 0
    try:
        for number in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + number * 1e-6)
                for _ in range(10_000):
                    with uncollected():
                        pass
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                struck += 1
            with uncollected():
                assert not gc.isenabled()
            assert gc.isenabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert struck > 100
    other = threading.Thread(target=lambda: uncollected().__enter__(), daemon=True)  # over when its object is gone
    other.start()
    other.join(30)
    assert not other.is_alive(), "a strike left the lock of the moments taken"
    with uncollected():
        pass
    assert gc.isenabled()
