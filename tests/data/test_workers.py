"""Worker processes: the same batches, their errors and ends, and nothing left behind."""

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

pytestmark = [
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:DataLoader. .* workers share"),  # on a machine with one core
]
ROOT = Path(torch.__file__).parent.parent
ROWS = TensorDataset(torch.arange(20).reshape(10, 2).float(), torch.arange(10))


class Calls(Dataset):
    """What a function says about each of so many numbers."""

    def __init__(self, function, count=8):
        self.function, self.count = function, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.function(i)


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, self.count, info.num_workers))


def loader(data, **options):
    return DataLoader(data, **{"num_workers": 2, "multiprocessing_context": "fork", **options})


def lists(batches):
    return [b.tolist() for b in batches]


def run_script(source, *, wait=True):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    return process.communicate(timeout=120) if wait else process


# -- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}])
def test_the_same_as_in_one_process(persistent, options):
    results = []
    for workers in ({"num_workers": 0, "multiprocessing_context": None}, {"persistent_workers": persistent}):
        torch.manual_seed(1)
        batches = loader(ROWS, shuffle=True, **workers, **options)
        results.append([[x.tolist() for x in batch] for _ in range(2) for batch in batches])
        if not persistent:
            results[-1].append(torch.get_rng_state().tolist())
    if persistent:  # whose second pass draws no new seed
        half = len(results[0]) // 2
        results = [r[:half] for r in results]
    assert results[0] == results[1]


def test_any_data():
    samples = [
        {"a": None, "b": [1, "x"], "c": np.arange(5000)}, (torch.ones(3, 4).bfloat16(), {2}), "x" * 100_000,
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.arange(100_000).reshape(100, 1000).t(),
        torch.zeros(0, 3), torch.tensor(5), torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(400)),
    ]  # fmt: skip
    a, b, c, d, e, f, g, h, i = loader(samples, batch_size=None, collate_fn=lambda sample: sample)
    assert a["a"] is None and a["b"] == [1, "x"] and a["c"].sum() == 12497500 and a["c"].flags.writeable
    assert b[0].dtype is torch.bfloat16 and b[0].sum() == 12 and b[1] == {2} and c == "x" * 100_000
    assert d.is_contiguous(memory_format=torch.channels_last) and d.shape == (2, 3, 4, 5)
    assert e.stride() == (1, 1000) and e[3, 2] == 2003
    assert f.shape == (0, 3) and g.item() == 5 and h.requires_grad and type(i) is torch.nn.Parameter


def test_batches_in_shared_memory_stay_as_they_are():
    """Memory is used again only when nobody looks at it."""
    x = torch.arange(64 * 5000).reshape(64, 5000)
    batches = loader(TensorDataset(x), batch_size=4, persistent_workers=True)
    kept = [batch for _ in range(6) for (batch,) in batches]
    views = [batch[1:, ::2] for _ in range(6) for (batch,) in batches]
    for _ in batches:
        pass
    assert all(torch.equal(k, x[i % 16 * 4 : i % 16 * 4 + 4]) for i, k in enumerate(kept))
    assert all(torch.equal(v, x[i % 16 * 4 + 1 : i % 16 * 4 + 4, ::2]) for i, v in enumerate(views))
    assert any(k.is_shared() for k in kept)
    kept[0].zero_()  # and can be written to


def test_samples_of_many_parts():
    """The first batch, whose size nobody knows, takes few segments."""
    samples = [{n: torch.full((2000,), i + n) for n in range(300)} for i in range(4)]
    for i, batch in enumerate(loader(samples, batch_size=2)):
        assert all(part.tolist()[1][:2] == [2 * i + 1 + n] * 2 for n, part in batch.items())


def test_a_fork_keeps_the_batches_that_it_sees():
    batches = iter(loader(Calls(lambda i: torch.full((20_000,), i), 40), batch_size=None))
    held = next(batches)
    ready, answer = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.read(ready[0], 1)
        os.write(answer[1], b"y" if bool((held == 0).all()) else b"n")
        os._exit(0)
    del held
    assert len(list(batches)) == 39
    os.write(ready[1], b"x")
    assert os.read(answer[0], 1) == b"y"
    os.waitpid(child, 0)
    for end in (*ready, *answer):
        os.close(end)


def test_iterable_datasets():
    assert lists(loader(Stream(5), batch_size=2)) == [[0, 2], [1, 3], [4]]
    assert list(loader(Stream(5), batch_size=None)) == [0, 1, 2, 3, 4]
    again = loader(Stream(5), batch_size=2, persistent_workers=True)
    assert lists(again) == lists(again) == [[0, 2], [1, 3], [4]]


def test_out_of_order():
    def slow(i):
        time.sleep(0.3 if i == 0 else 0)
        return i

    order = [b.item() for b in loader(Calls(slow), in_order=False)]
    assert sorted(order) == list(range(8)) and order[0] != 0
    assert [b.item() for b in loader(Calls(slow, 4))] == [0, 1, 2, 3]


def test_many_batches_ahead():
    """More requests and answers than the sockets hold."""
    batches = loader(Calls(lambda i: i, 3000), prefetch_factor=1000, num_workers=1)
    assert [b.item() for b in batches] == list(range(3000))
    wide = loader(Calls(lambda i: i, 60_000), batch_size=20_000)
    assert [b.sum().item() for b in wide] == [199990000, 599990000, 999990000]


def test_a_pass_that_is_left_early():
    batches = loader(Calls(lambda i: i), persistent_workers=True)
    for _ in range(3):
        assert next(iter(batches)).item() == 0
    assert [b.item() for b in batches] == list(range(8))


def test_lists_of_keys_and_single_samples_from_any_sampler():
    assert lists(loader(range(9), sampler=[5, 3, 1], batch_size=2)) == [[5, 3], [1]]
    assert lists(loader(range(9), batch_sampler=[[8, 8], [2]])) == [[8, 8], [2]]


# -- workers -----------------------------------------------------------------------------------------------------


def test_seeds_and_information():
    torch.manual_seed(7)

    def tell(i):
        info = get_worker_info()
        return (
            info.id,
            info.num_workers,
            info.seed,
            torch.initial_seed(),
            np.random.rand(),
            random.random(),
            torch.rand(1),
        )

    first, second, _ = loader(Calls(tell, 3), batch_size=None)
    base = 1407639518939636932
    assert first[:4] == [0, 2, base, base] and second[:4] == [1, 2, base + 1, base + 1]
    assert first[4:6] == [0.03541536592796235, 0.9290632898373887] and first[6].item() == pytest.approx(0.11662513)
    assert get_worker_info() is None


def test_worker_init_fn_and_threads():
    seen = []
    batches = loader(
        Calls(lambda i: (seen[0], torch.get_num_threads()), 2), worker_init_fn=seen.append, batch_size=None
    )
    assert list(batches) == [[0, 1], [1, 1]]


def test_errors_come_back_with_their_type():
    def fail(i):
        if i == 3:
            raise ValueError("three")
        if i == 5:
            raise KeyError("five\nlines")
        return i

    batches, seen = iter(loader(Calls(fail), batch_size=2)), []
    while True:
        try:
            seen.append(next(batches).tolist())
        except StopIteration:
            break
        except ValueError as error:
            seen.append("ValueError")
            assert "Caught ValueError in DataLoader worker process 1." in str(error) and "in fail" in str(error)
        except KeyError as error:
            seen.append("KeyError")
            assert "\nOriginal Traceback" in str(error)
    assert seen == [[0, 1], "ValueError", "KeyError", [6, 7]]


def test_errors_that_cannot_be_made_again():
    class Two(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)

    def fail(i):
        raise Two(1, 2)

    with pytest.raises(RuntimeError, match="Caught Two in"):
        list(loader(Calls(fail)))


def test_data_that_cannot_be_sent():
    with pytest.raises(
        (AttributeError, TypeError, RuntimeError, pickle.PicklingError), match="in DataLoader worker process 0"
    ):
        list(loader(Calls(lambda i: lambda: None), batch_size=None))
    grown = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        list(loader(Calls(lambda i: grown), batch_size=None))


def test_errors_at_the_start():
    def fail(worker):
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        next(iter(loader(Calls(lambda i: i), worker_init_fn=fail)))


def test_a_worker_that_is_killed():
    def fall(i):
        if i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    batches = loader(Calls(fall), persistent_workers=True)
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly.*SIGKILL"):
        list(batches)
    assert time.monotonic() - started < 20  # at once, on a loaded machine too
    with pytest.raises(RuntimeError, match="exit code 3"):
        list(loader(Calls(lambda i: os._exit(3))))
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)  # new workers, which fall again


def test_timeout():
    with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds"):
        next(iter(loader(Calls(lambda i: time.sleep(0.8)), timeout=0.2)))


def test_no_prefetching_is_refused():
    with pytest.raises(AssertionError):
        list(loader(range(3), prefetch_factor=0))
    with pytest.warns(UserWarning, match="cores"):
        loader(range(3), num_workers=4096)


# -- what stays --------------------------------------------------------------------------------------------------


def _named():
    """What has a name in shared memory, but for the semaphores of other processes: `multiprocessing` names those for a moment."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


def _held():
    gc.collect()
    tasks = len(os.listdir("/proc/self/task"))
    maps = Path("/proc/self/maps").read_text().count("memfd:flambeau")
    return len(os.listdir("/proc/self/fd")), maps, tasks, len(multiprocessing.active_children())


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts what Linux shows")
def test_nothing_stays_after_many_passes():
    shared = _named()
    data = TensorDataset(torch.randn(32, 3000))
    for _ in loader(data, batch_size=8):
        pass
    before = _held()
    for epoch in range(30):
        for i, _ in enumerate(loader(data, batch_size=8)):
            if epoch % 3 == 0 and i == 1:
                break
    assert _held() == before
    kept = loader(data, batch_size=8, persistent_workers=True)
    for _ in range(5):
        for _ in kept:
            pass
    before = _held()
    for _ in range(300):
        for _ in kept:
            pass
    after = _held()
    assert after[0] == before[0] and after[1] <= before[1] + 8 and after[2:] == before[2:]
    assert _named() == shared


RUNNING = """
    import signal, time, flambeau as torch
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who started the tests may have it ignored
    from flambeau.utils.data import DataLoader, Dataset
    class Slow(Dataset):
        def __len__(self): return 100000
        def __getitem__(self, i):
            time.sleep(0.01)
            return torch.ones(2000) * i
    batches = iter(DataLoader(Slow(), num_workers=2, batch_size=2))
    next(batches)
    print(*[w.pid for w in batches._workers], flush=True)
    {}
"""


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes as Linux shows them")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("end", ["kill", "interrupt", "exit"])
def test_workers_end_with_their_loader(end):
    process = run_script(RUNNING.format("pass" if end == "exit" else "[None for _ in batches]"), wait=False)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    if end == "kill":
        process.kill()
    elif end == "interrupt":
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    _, problem = process.communicate(timeout=30)
    assert ("KeyboardInterrupt" in problem) == (end == "interrupt")
    assert process.returncode == 0 or end != "exit", problem
    deadline = time.monotonic() + 20
    while any(map(_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(_alive, workers))


# -- other ways to start -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods(method, tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent(f"""
        import flambeau as torch
        from flambeau.utils.data import DataLoader, Dataset
        class Rows(Dataset):
            def __init__(self): self.x = torch.arange(6000).reshape(6, 1000)
            def __len__(self): return 6
            def __getitem__(self, i): return self.x[i], self.x.is_shared()
        if __name__ == "__main__":
            loader = DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="{method}")
            print([(x.sum().item(), shared.all().item()) for x, shared in loader])
        """)
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "[(1999000, True), (5999000, True), (9999000, True)]", done.stderr
    assert not done.stderr


def test_waiting_for_a_worker_ends():
    from flambeau.utils.data._utils.channel import pair

    ours, theirs = pair()
    began = time.monotonic()
    assert not ours.wait(0.05)
    assert 0.04 < time.monotonic() - began < 20
    theirs.send(b"x")
    assert ours.wait(5) and ours.wait(None)
    theirs.close()
    ours.socket.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="batches are pinned with a GPU")
def test_memory_is_not_pinned_without_a_gpu():
    with pytest.warns(UserWarning, match="pin_memory"):
        batches = list(DataLoader(TensorDataset(torch.arange(4)), batch_size=2, pin_memory=True))
    assert [b.tolist() for (b,) in batches] == [[0, 1], [2, 3]] and not any(b.is_pinned() for (b,) in batches)
