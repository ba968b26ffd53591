"""Tensors between processes: one memory for both sides."""

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.multiprocessing as mp

pytestmark = [
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
fork = mp.get_context("fork") if "fork" in multiprocessing.get_all_start_methods() else None


def sent(t):
    return pickle.loads(ForkingPickler.dumps(t))


def _add_one(asked, answered):
    t = asked.get()
    t.add_(1)
    answered.put((t.is_shared(), t.tolist(), type(t).__name__))


def through_a_queue(t):
    asked, answered = fork.Queue(), fork.Queue()
    process = fork.Process(target=_add_one, args=(asked, answered))
    process.start()
    asked.put(t)
    result = answered.get(timeout=30)
    process.join()
    return result


def test_both_sides_see_writes():
    x = torch.zeros(4)
    view = x[1:3]
    assert through_a_queue(x) == (True, [1.0] * 4, "Tensor")
    assert x.tolist() == [1.0] * 4 and view.tolist() == [1.0, 1.0] and x.is_shared() and view.is_shared()
    assert through_a_queue(view)[1] == [2.0, 2.0] and x.tolist() == [1.0, 2.0, 2.0, 1.0]


def test_a_view_takes_its_base_along():
    x = torch.zeros(2, 3)
    through_a_queue(x[1])
    assert x.tolist() == [[0.0] * 3, [1.0] * 3] and x.is_shared() and x.untyped_storage().is_shared()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "bool", "float64"])
def test_dtypes_and_strides(dtype):
    x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).t()
    other = sent(x)
    assert other.dtype is x.dtype and other.stride() == x.stride() and torch.equal(other, x)
    assert other.data_ptr() == x.data_ptr()  # received where it came from


def test_parameters_and_modules():
    p = sent(torch.nn.Parameter(torch.zeros(2)))
    assert type(p) is torch.nn.Parameter and p.requires_grad and p.is_shared()
    model = torch.nn.Linear(2, 2)
    assert all(q.is_shared() for q in model.share_memory().parameters())


def test_what_cannot_be_sent():
    with pytest.raises(RuntimeError, match="detach"):
        ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)
    assert sent(torch.zeros(0, 3)).shape == (0, 3)


def test_share_memory_keeps_values_gradients_and_views():
    x = torch.arange(4.0).requires_grad_()
    y = torch.arange(4.0)
    flat = y.view(2, 2)
    assert x.share_memory_() is x and x.requires_grad and x.tolist() == [0, 1, 2, 3]
    y.share_memory_()
    y[0] = 7
    assert flat[0, 0] == 7 and flat.is_shared() and not (y + 1).is_shared() and not y.clone().is_shared()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 4
    assert torch.empty(0).share_memory_().is_shared()
    storage = torch.UntypedStorage._new_shared(5)
    assert storage.is_shared() and storage.tolist() == [0] * 5


def test_strategies():
    assert mp.get_sharing_strategy() == "file_descriptor" and "file_system" in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("nothing")


def _fail(index):
    if index == 1:
        raise ValueError("one")
    signal.pause()


def _leave(index, how):
    if index == 0:
        sys.exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def _fill(index, x):
    x[index] = index + 1


def test_start_processes():
    x = torch.zeros(3).share_memory_()
    assert mp.start_processes(_fill, (x,), nprocs=3, start_method="fork") is None
    assert x.tolist() == [1.0, 2.0, 3.0]
    running = mp.start_processes(_fill, (x,), nprocs=1, join=False, start_method="fork")
    assert len(running.pids()) == 1 and running.join(timeout=30) and running.join()


def test_no_folder_is_left_to_the_collector():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        mp.start_processes(_fill, (torch.zeros(1).share_memory_(),), nprocs=1, start_method="fork")
        gc.collect()
    assert not [w for w in told if "TemporaryDirectory" in str(w.message)]


def test_errors_of_processes():
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: one") as raised:
        mp.start_processes(_fail, nprocs=2, start_method="fork")
    assert raised.value.error_index == 1 and pickle.loads(pickle.dumps(raised.value)).error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="exit code 3") as left:
        mp.start_processes(_leave, ("exit",), nprocs=2, start_method="fork")
    assert left.value.exit_code == 3 and left.value.signal_name is None
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL") as killed:
        mp.start_processes(_leave, ("kill",), nprocs=2, start_method="fork")
    assert killed.value.signal_name == "SIGKILL" and killed.value.exit_code == -9
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_spawn(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent("""
        import flambeau as torch, flambeau.multiprocessing as mp
        def fill(index, x, queue, taken):
            x[index] = index + 1
            queue.put(torch.full((2,), index))
            taken.wait()  # what was sent lives here until it is received
        if __name__ == "__main__":
            context = mp.get_context("spawn")
            x, queue, taken = torch.zeros(2), context.Queue(), context.Event()
            running = mp.spawn(fill, (x, queue, taken), nprocs=2, join=False)
            got = sorted(queue.get(timeout=60).tolist() for _ in range(2))
            taken.set()
            while not running.join():
                pass
            print(x.tolist(), got)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parent.parent)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[1.0, 2.0] [[0, 0], [1, 1]]", done.stderr


def test_a_worker_that_ends_at_once_is_heard():
    queue = fork.Queue()
    process = fork.Process(target=_put, args=(queue,))
    process.start()
    process.join(0.2)
    assert queue.get().tolist() == [1, 2, 3]
    process.join(10)
    assert process.exitcode == 0


def _put(queue):
    queue.put(torch.tensor([1, 2, 3]))


def test_receivers_find_a_worker_that_ends():
    here, there = fork.Pipe()
    process = fork.Process(target=_begin_to_end, args=(there,))
    process.start()
    assert pickle.loads(here.recv_bytes()).tolist() == [1, 2, 3]
    process.join(10)
    assert process.exitcode == 0


def _begin_to_end(pipe):
    data = ForkingPickler.dumps(torch.tensor([1, 2, 3]))
    util._run_finalizers(0)  # the first of what multiprocessing does at exit: sockets go, queues are not flushed yet
    pipe.send_bytes(data)


def test_memory_that_may_go():
    x, other = torch.ones(3), torch.ones(3)
    refs = [mp.reductions.StorageWeakRef(t.untyped_storage()) for t in (x, x.view(3, 1), x[1:], other)]
    assert len(set(refs)) == 2 and refs[0] == refs[2] != refs[3]
    part = x[1:]
    del x
    assert not refs[0].expired()
    del part
    assert refs[0].expired() and refs[0] == refs[1] and not refs[3].expired()
