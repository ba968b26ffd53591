"""Elements by index on a GPU, by kernels that the CPU runs."""

import pytest

import flambeau as torch

from .emulated import Kernel
from .fake_gpu import back, on_gpu


@pytest.mark.parametrize("d", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("shape, dim", [((5,), 0), ((2, 5, 4), 1)])
def test_rows_are_gathered(gpu, shape, dim, d):
    torch.manual_seed(0)
    x, index = (torch.randn(shape) * 9).to(d), torch.tensor([4, 0, 0, 2, 3, 1, 4])
    for i in (index, index.int()) if d is torch.float32 else (index,):
        for _ in range(3):
            made = torch.index_select(on_gpu(x), dim, on_gpu(i))
            assert back(made).equal(torch.index_select(x, dim, i))


def test_an_embedding_waits_for_nothing(gpu):
    table, names = torch.randn(6, 4), torch.tensor([[5, 0], [2, 2]])
    expected = torch.nn.functional.embedding(names, table)
    there = on_gpu(table), on_gpu(names)
    assert back(torch.nn.functional.embedding(there[1], there[0])).equal(expected)
    gpu.errors.check()


@pytest.mark.parametrize("wrong", [6, -1, 1 << 40])
def test_a_wrong_index_is_told_to_who_waits(gpu, wrong):
    table, names = on_gpu(torch.randn(6, 4)), on_gpu(torch.tensor([0, wrong, 2]))
    torch.nn.functional.embedding(names, table)
    with pytest.raises(IndexError, match="index out of range"):
        gpu.errors.check()
    gpu.errors.check()  # once


def test_a_planned_gather_looks_at_indices_too(gpu):
    x = on_gpu(torch.arange(12.0).reshape(4, 3))
    before = Kernel.natively
    for names in ([1, 0], [3, 3], [2, 1], [0, 0]):
        made = torch.index_select(x, 0, on_gpu(torch.tensor(names)))
    assert back(made).tolist() == [[0.0, 1.0, 2.0]] * 2
    assert Kernel.natively > before
    torch.index_select(x, 0, on_gpu(torch.tensor([0, 4])))
    with pytest.raises(IndexError, match="index out of range"):
        gpu.errors.check()
