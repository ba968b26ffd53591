"""Datasets and loaders."""

import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import flambeau as torch

D = torch.utils.data


class Numbers(D.Dataset):
    def __init__(self, count=1000):
        self.x = torch.arange(count)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], os.getpid()


def test_datasets_need_two_methods():
    with pytest.raises(NotImplementedError):
        D.Dataset()[0]
    assert [b.tolist() for b in D.DataLoader([1, 2, 3], batch_size=2)] == [[1, 2], [3]]


def test_batches():
    loader = D.DataLoader(Numbers(), batch_size=32, shuffle=True)
    sizes = [len(x) for x, _ in loader]
    assert len(loader) == 32 and sizes == [32] * 31 + [8]
    assert len(D.DataLoader(Numbers(), batch_size=32, drop_last=True)) == 31
    first, second = ([x for b, _ in loader for x in b.tolist()] for _ in range(2))
    assert first != second and sorted(first) == sorted(second) == list(range(1000))


def test_workers_are_processes():
    assert D.DataLoader(Numbers()).num_workers == 0
    batches = list(D.DataLoader(Numbers(40), batch_size=10, num_workers=2))
    assert torch.cat([x for x, _ in batches]).tolist() == list(range(40))
    processes = {int(p) for _, ids in batches for p in ids}
    assert len(processes) == 2 and os.getpid() not in processes


class Slow(D.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        start = time.monotonic()
        time.sleep(0.1)
        return torch.tensor([os.getpid(), start, time.monotonic()], dtype=torch.float64)


@pytest.mark.slow
def test_slow_samples_overlap():
    spans = torch.cat(list(D.DataLoader(Slow(), batch_size=4, num_workers=2))).tolist()
    assert any(p != q and a < d and c < b for p, a, b in spans for q, c, d in spans)


class Broken(Numbers):
    def __getitem__(self, index):
        raise KeyError("no such sample")


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_keep_their_type(workers):
    with pytest.raises(KeyError, match="no such sample"):
        next(iter(D.DataLoader(Broken(), num_workers=workers)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="batches are pinned there")
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
def test_pin_memory_gives_the_same_batches():
    pinned, plain = (list(D.DataLoader(range(10), 4, pin_memory=p)) for p in (True, False))
    assert all(torch.equal(a, b) for a, b in zip(pinned, plain)) and not pinned[0].is_pinned()


def test_collating():
    assert D.default_collate([torch.zeros(2), torch.ones(2)]).shape == (2, 2)
    mixed = D.default_collate([{"a": np.zeros(2), "b": 1, "c": "x"}, {"a": np.ones(2), "b": 2, "c": "y"}])
    assert mixed["a"].shape == (2, 2) and mixed["b"].tolist() == [1, 2] and mixed["c"] == ["x", "y"]
    with pytest.raises(TypeError):
        D.default_collate([object()])
    ragged = [torch.ones(n) for n in (1, 3, 2)]
    pad = torch.nn.utils.rnn.pad_sequence
    assert next(iter(D.DataLoader(ragged, 3, collate_fn=lambda batch: pad(batch, batch_first=True)))).shape == (3, 3)


def test_generators_and_worker_info():
    orders = [
        list(D.DataLoader(range(9), None, shuffle=True, generator=torch.Generator().manual_seed(3))) for _ in range(2)
    ]
    assert orders[0] == orders[1] != list(range(9))
    assert D.get_worker_info() is None
    list(D.DataLoader(Numbers(2), num_workers=1, worker_init_fn=check_worker, timeout=30))


def check_worker(worker_id):
    info = D.get_worker_info()
    assert (info.id, info.num_workers, len(info.dataset)) == (worker_id, 1, 2)


SCRIPT = """
import flambeau as torch
class Squares(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return i * i
def main():
    loader = torch.utils.data.DataLoader(Squares(), 2, num_workers=1, multiprocessing_context="spawn")
    print([b.tolist() for b in loader])
"""


@pytest.mark.slow
@pytest.mark.parametrize("guard, works", [("if __name__ == '__main__':\n    main()\n", True), ("main()\n", False)])
def test_the_main_guard(tmp_path, guard, works):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT) + guard)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=environment())
    assert (done.returncode == 0) is works, done.stderr
    if works:
        assert done.stdout.strip() == "[[0, 1], [4, 9]]"


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_tensor_datasets():
    data = D.TensorDataset(torch.arange(6).reshape(3, 2), torch.arange(3))
    assert len(data) == 3 and [t.tolist() for t in data[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError):
        D.TensorDataset(torch.zeros(3), torch.zeros(2))


def test_random_split():
    data = Numbers()
    parts = D.random_split(data, [700, 150, 150], generator=torch.Generator().manual_seed(42))
    assert [len(p) for p in parts] == [700, 150, 150]
    assert sorted(i for p in parts for i in p.indices) == list(range(1000))
    again = D.random_split(data, [0.7, 0.15, 0.15], generator=torch.Generator().manual_seed(42))
    assert [p.indices for p in again] == [p.indices for p in parts]
    assert all(p.dataset is data for p in parts)
    with pytest.raises(ValueError):
        D.random_split(data, [700, 150])


def test_subsets():
    part = D.Subset(["a", "b", "c"], [2, 0])
    assert list(part) == ["c", "a"] and len(part) == 2
