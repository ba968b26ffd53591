"""Tensors and numbers written into tensors on a GPU, whole ones and parts, by kernels that the CPU runs."""

import os

import pytest

import flambeau as torch
from flambeau._core.layouts import pieces

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

NATIVE = os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0"
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool, torch.complex64]


def numbers(shape, d):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 9).round()
    return x > 0 if d is torch.bool else x.to(d)


def by_plan(write, x, *rest, launches=1):
    """Writes the same as on the CPU, soon by one launch of machine code."""
    there, others = on_gpu(x), [on_gpu(t) for t in rest]
    for call in range(5):  # a full table wants one call more
        before, version = Kernel.natively, there._version
        write(there, *others)
        write(x, *rest)
        assert there._version == version + 1
        assert call < 4 or not NATIVE or Kernel.natively == before + launches
        assert back(there).equal(x)


KEYS = [
    (slice(1, 3),), (1,), (slice(None), 2), (..., 1), (slice(None), slice(None, None, 2)), (slice(0, 0),), (None, 1, slice(2)),
]  # fmt: skip


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_parts_are_written(gpu, d):
    for key in KEYS:
        x, write = numbers((3, 4, 5), d), lambda x, y, key=key: x.__setitem__(key, y)
        part = x[key]
        turned = numbers(part.shape[::-1], d).permute(*range(part.ndim)[::-1])
        by_plan(write, x, turned, launches=bool(part.numel()))
        by_plan(write, x, numbers(part.shape[-1:], d), launches=bool(part.numel()))
        if not d.is_complex:
            by_plan(lambda x, write=write: write(x, 1), x, launches=bool(part.numel()))


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_copies_are_cast_on_the_way(gpu, d, source):
    with pytest.warns() if source.is_complex and not (d.is_complex or d is torch.bool) else torch.no_grad():
        by_plan(lambda x, y: x.copy_(y), numbers((3, 4), d), numbers((4,), source))


def test_numbers_and_tensors_of_one_element(gpu):
    for d in DTYPES[:-1]:
        by_plan(lambda x: x.fill_(1), numbers((3, 4), d))
        by_plan(lambda x, y: x.fill_(y), numbers((3, 4), d), numbers((), d))
        by_plan(lambda x: x.t().fill_(True), numbers((3, 4), d))
    x, value = on_gpu(torch.zeros(2, 3)), torch.tensor(7.5)
    x[1] = value
    x[0, :2] = 2
    x[:, 2].fill_(-1e30)
    assert back(x).equal(torch.tensor([[2.0, 2.0, -1e30], [7.5, 7.5, -1e30]]))
    with pytest.raises(RuntimeError, match="overflow"):
        on_gpu(torch.zeros(3).half()).fill_(1e9)


def test_elements_that_share_memory(gpu):
    for shape, key in (((1,), ...), ((3, 1), slice(1, 2)), ((1, 1), ...)):
        whole = on_gpu(torch.zeros(5, 4))
        part = whole[: shape[0], : shape[-1]] if len(shape) > 1 else whole[0, :1]
        wide = part.expand(*shape[:-1], 6)
        for number in range(1, 5):
            wide.fill_(number)
            assert back(part).unique().tolist() == [number] and back(whole).sum() == number * part.numel()
            wide[key] = number + 0.5
            assert back(wide[key]).unique().tolist() == [number + 0.5]
            wide.fill_(number)


def test_between_devices(gpu):
    x = on_gpu(torch.zeros(2, 3))
    for _ in range(3):
        x[:, 1] = torch.tensor([1.0, 2.0])
        x[0].copy_(torch.tensor([3]))
    here = torch.ones(2, 3).copy_(x)
    assert here.tolist() == back(x).tolist() == [[3, 3, 3], [0, 2, 0]]


def test_rows_of_one_tensor_between_each_other(gpu):
    x = torch.arange(60.0).view(3, 4, 5)
    by_plan(lambda x: x[:, 2].copy_(x[:, 3]), x)
    by_plan(lambda x: x.__setitem__((slice(None), slice(2)), x[:, 2:]), x)
    by_plan(lambda x: x[..., 1].copy_(x[..., 4]), x)
    by_plan(lambda x: x[1].copy_(x[1]), x)


def test_memory_that_overlaps_is_read_first(gpu):
    for _ in range(4):
        here, there = torch.arange(24.0).view(4, 6), on_gpu(torch.arange(24.0).view(4, 6))
        for x in (here, there):
            x[:, 1:4] = x[:, 2:5]
            x[:] = x[1]
            x.t()[:4].copy_(x[:, :4])
        assert back(there).equal(here)
    flat = on_gpu(torch.arange(6.0))
    with pytest.raises(RuntimeError, match="a single memory location"):
        flat[1:].copy_(flat[:-1])
    with pytest.raises(RuntimeError, match="a single memory location"):
        flat[:1].expand(4).copy_(flat[:4])


def test_history(gpu):
    found = []
    for move in (lambda t: t.clone().requires_grad_(), lambda t: on_gpu(t, True)):
        for _ in range(4):
            x, y = move(torch.arange(6.0).view(2, 3)), move(torch.ones(3))
            z = x * 2
            z[0] = y * 3
            z[1, 1] = 5
            z[:, 2].copy_(y[:2])
            by = torch.autograd.grad(z.square().sum(), (x, y))
        found.append([back(t).tolist() if t._k & 2 else t.tolist() for t in by])
    assert found[0] == found[1]
    leaf = on_gpu(torch.zeros(3), True)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[0] = 1
        with torch.no_grad():
            leaf[0] = 1
            leaf.copy_(on_gpu(torch.ones(3)))


def test_pieces():
    assert pieces((8, 256), (131072, 4), 4) == (131072, 1024)
    assert pieces((4, 5), (40, 8), 4) == (8, 4)
    assert pieces((4, 5), (20, 4), 4) == pieces((), (), 4) == pieces((3,), (0,), 4) == (0, 0)
    assert pieces((2, 3, 4), (96, 32, 8), 8) == (0, 0) and pieces((2, 3, 4), (192, 32, 8), 8) == (192, 96)
