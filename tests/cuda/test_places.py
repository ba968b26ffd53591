"""Elements by index on a GPU, by kernels that the CPU runs."""

import os

import numpy as np
import pytest

import flambeau as torch
from flambeau._core.state import CUDA
from flambeau._tensor import storage_of, wrap

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

F = torch.nn.functional
INDEX = torch.tensor([4, 0, 0, 2, 3, 1, 4])
NATIVE = os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0"


def turned(t):
    """The same tensor with its dimensions the other way round in memory."""
    order = list(range(t.ndim))[::-1]
    there = on_gpu(t.permute(order).contiguous())
    return wrap(there._array.transpose(order), t.dtype, CUDA)


def moved(x):
    return on_gpu(x) if isinstance(x, torch.Tensor) else type(x)(map(moved, x)) if isinstance(x, (list, tuple)) else x


def same(got, expected):
    got, expected = (got, expected) if isinstance(got, (list, tuple)) else ([got], [expected])
    for a, b in zip(got, expected, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        a, b = back(a), b.detach()
        if b.dtype.is_floating_point or b.dtype.is_complex:
            assert torch.allclose(a, b, rtol=1e-2 if b.element_size() == 2 else 1e-6, equal_nan=True), (a, b)
        else:
            assert a.equal(b), (a, b)


def by_plan(function, *args, launches=None):
    """Results as on the CPU, and from the third call on by machine code."""
    there, expected = [moved(a) for a in args], function(*args)
    for _ in range(4):
        before = Kernel.natively
        got = function(*there)
        same(got, expected)
    if NATIVE:
        assert Kernel.natively > before
        assert launches is None or Kernel.natively - before == launches
    return there


def writes_by_plan(function, x, *rest, launches=None):
    """The same of a function that writes to its first argument."""
    rest_there, n = [moved(a) for a in rest], 0
    for make in (on_gpu, turned) if x.ndim > 1 else (on_gpu,):
        expected = x.clone()
        function(expected, *rest)
        for _ in range(4):
            target = make(x)
            storage_of(target)  # as what programs write to often has one
            before = Kernel.natively
            made = function(target, *rest_there)
            n = Kernel.natively - before
            assert (made is None or made is target) and target._version == 1
            same(target, expected)
        if NATIVE:
            assert n and (launches is None or n == launches)


@pytest.mark.parametrize("d", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("shape, dim", [((5,), 0), ((2, 5, 4), 1)])
def test_rows_are_gathered(gpu, shape, dim, d):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 9).to(d)
    for i in (INDEX, INDEX.int()) if d is torch.float32 else (INDEX,):
        by_plan(lambda x, i: torch.index_select(x, dim, i), x, i, launches=1)


@pytest.mark.parametrize(
    "shape, d",
    [((5, 20), torch.float32), ((5, 2, 35), torch.uint8), ((5, 9), torch.complex128)],  # words of 16 bytes, or not
    ids=str,
)
def test_rows_of_many_bytes_are_moved_whole(gpu, shape, d):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 9).to(d)
    take = lambda x, i: torch.index_select(x, 0, i)
    by_plan(take, x, INDEX, launches=1)
    by_plan(lambda x, i: take(x[1:], i), x, INDEX.clamp(max=3))
    by_plan(lambda x, i: take(x, i), x, INDEX.int())
    same(moved(x)[moved(INDEX - 5)], x[INDEX - 5])  # from the end
    by_plan(lambda x, i: take(x[..., 1:], i), x, INDEX)  # which do not lie side by side
    take(on_gpu(x), on_gpu(torch.tensor([5])))
    with pytest.raises(IndexError, match="index out of range"):
        gpu.errors.check()


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


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool, torch.complex64]


def numbers(shape, d):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 9).round()
    return x > 0 if d is torch.bool else x.to(d)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_elements_along_a_dimension(gpu, d):
    x, index = numbers((4, 5, 3), d), torch.randint(0, 4, (2, 5, 2))
    for dim in range(3):
        by_plan(lambda x, i: x.gather(dim, i), x, index % x.shape[dim] % 3, launches=1)
    same(turned(x).gather(2, on_gpu(index % 3)), x.gather(2, index % 3))
    by_plan(lambda x, i: torch.take_along_dim(x, i, 1), x, index[:1, :, :1] - 2)
    same(on_gpu(x[0, 0, 0]).gather(0, on_gpu(torch.tensor([0, 0]))), x[0, 0, 0].gather(0, torch.tensor([0, 0])))
    same(on_gpu(x).gather(0, on_gpu(index[:0])), x.gather(0, index[:0]))
    gpu.errors.check()


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_elements_are_written_along_a_dimension(gpu, d):
    x, source = numbers((4, 5, 3), d), numbers((4, 5, 3), d).flip(0)
    index = torch.tensor([[[2], [0], [4]], [[1], [2], [3]], [[0], [1], [2]], [[4], [2], [0]]])
    writes_by_plan(lambda x, i, s: x.scatter_(1, i, s), x, index, source)
    writes_by_plan(lambda x, i: x.scatter_(2, i % 3, 1), x, index)
    twice = torch.tensor([[[0], [1], [0]]] * 4)
    writes_by_plan(lambda x, i, s: x.scatter_add_(1, i, s), x, twice, source)
    if d is not torch.complex64:
        for how in ("prod", "amax", "amin"):
            same(
                on_gpu(x).scatter_reduce(1, on_gpu(twice), on_gpu(source), how), x.scatter_reduce(1, twice, source, how)
            )
    by_plan(lambda x, i, s: x.scatter(1, i, s), x, index, source)
    by_plan(lambda x, i, s: x.scatter_add(1, i, s), x, twice, source)
    gpu.errors.check()


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_rows_are_written(gpu, d):
    x, source = numbers((4, 5, 3), d), numbers((4, 2, 3), d).flip(0)
    index = torch.tensor([3, 1])
    writes_by_plan(lambda x, i, s: x.index_copy_(1, i, s), x, index, source, launches=1)
    writes_by_plan(lambda x, i: x.index_fill_(1, i - 4, 1), x, index)
    twice = torch.tensor([1, 1])
    writes_by_plan(lambda x, i, s: x.index_add_(1, i, s), x, twice, source)
    by_plan(lambda x, i, s: x.index_add(1, i, s), x, twice, source)
    by_plan(lambda x, i, s: x.index_copy(1, i, s), x, index, source)
    gpu.errors.check()


def gradients(function, *tensors):
    """Gradients by tensors of floats as on the CPU, and derivatives that machine code carries out."""
    wanted = [i for i, t in enumerate(tensors) if t.dtype.is_floating_point]
    here = [t.clone().requires_grad_(t.dtype.is_floating_point) for t in tensors]
    there = [on_gpu(t, t.dtype.is_floating_point) for t in tensors]
    made = function(*here)
    torch.manual_seed(1)
    g = torch.randn(made.shape).to(made.dtype)
    expected = torch.autograd.grad(made, [here[i] for i in wanted], g)
    for _ in range(4):
        got = function(*there)
        before = Kernel.natively
        same(torch.autograd.grad(got, [there[i] for i in wanted], on_gpu(g)), expected)
    assert Kernel.natively > before or not NATIVE


def test_derivatives_add_up_what_was_read_twice(gpu):
    torch.manual_seed(0)
    x, table = torch.randn(4, 5, 3), torch.randn(6, 4)
    names = torch.tensor([[5, 0, 5], [2, 2, 1]])
    gradients(lambda x, i: x.gather(1, i), x, torch.tensor([[[0], [4], [0]]]))
    gradients(lambda x, i: x.index_select(1, i), x, INDEX)
    gradients(lambda x, i: x[:, i], x, names % 5)
    gradients(lambda x, i, j: x[i, j], x, names % 4, names % 5 - 1)
    gradients(lambda x, i, j: x[i, :, j], x, names % 4, names % 3)
    gradients(lambda table, i: F.embedding(i, table), table, names)
    gradients(lambda table, i: F.embedding(i, table, padding_idx=2), table, names)
    gradients(lambda table, i: F.embedding(i, table), table.bfloat16(), names)
    gradients(lambda x, i, s: x.index_add(1, i, s), x, torch.tensor([1, 1]), x[:, :2])
    gradients(lambda x, i, s: x.index_copy(1, i, s), x, torch.tensor([3, 1]), x[:, :2])
    gradients(lambda x, i, s: x.scatter(1, i, s), x, torch.tensor([[[0], [4]]] * 4), x[:, :2, :1])
    gpu.errors.check()


@pytest.mark.parametrize("d", [torch.float32, torch.uint8, torch.complex128], ids=str)
def test_indices_at_several_dimensions(gpu, d):
    x = numbers((4, 5, 3), d) if d is not torch.uint8 else numbers((4, 5, 3), torch.int64).abs().to(d)
    i, j = torch.tensor([[0, -1, 3]]), torch.tensor([[1], [4]])
    keys = [
        lambda x, i, j: x[i, j],
        lambda x, i, j: x[:, j, i % 3],
        lambda x, i, j: x[i, :, j % 3],
        lambda x, i, j: x[i],
    ]
    for key in keys:
        expected = key(x, i, j)
        for there in (on_gpu(x), turned(x)):
            same(key(there, on_gpu(i), on_gpu(j)), expected)
        assert (
            key(turned(x), on_gpu(i), on_gpu(j)).stride()
            == key(x.permute(2, 1, 0).contiguous().permute(2, 1, 0), i, j).stride()
        )
    values = numbers((2, 3, 3), torch.int64).abs().to(d)
    writes_by_plan(lambda x, i, j, v: x.index_put_((i, j), v), x, i, j, values)
    writes_by_plan(lambda x, i, j, v: x.index_put_((i * 0, j), v, accumulate=True), x, i, j, values)
    gpu.errors.check()
    on_gpu(x)[on_gpu(i), on_gpu(j + 1)]
    with pytest.raises(IndexError, match="index out of range"):
        gpu.errors.check()


def test_sums_in_order_are_the_same_every_time(gpu):
    torch.manual_seed(0)
    x, source, index = torch.randn(6, 3), torch.randn(40, 3), torch.randint(0, 6, (40,))
    flat = index.view(8, 5)
    expected = x.index_add(0, index, source), x.index_put((flat,), source.view(8, 5, 3), accumulate=True)
    complexes = torch.randn(6, 3, dtype=torch.complex128)
    product = complexes.scatter(0, index[:2, None] * 0, complexes[:2], reduce="multiply")
    torch.use_deterministic_algorithms(True)
    try:
        made = on_gpu(x).index_add(0, on_gpu(index), on_gpu(source))
        put = on_gpu(x).index_put((on_gpu(flat),), on_gpu(source.view(8, 5, 3)), accumulate=True)
        assert back(made).equal(expected[0]) and back(put).equal(expected[1])
    finally:
        torch.use_deterministic_algorithms(False)
    same(on_gpu(complexes).scatter(0, on_gpu(index[:2, None] * 0), on_gpu(complexes[:2]), reduce="multiply"), product)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_copies_in_another_arrangement(gpu, d):
    x = numbers((2, 5, 7), d)
    for diagonal in (-9, -2, 0, 3, 9):
        by_plan(lambda x: x.tril(diagonal), x, launches=1)
        by_plan(lambda x: x.triu(diagonal), x, launches=1)
    same(turned(x).tril(), x.tril())
    by_plan(lambda x: x.roll((1, -2), (0, 2)), x)
    by_plan(lambda x: x.repeat(2, 1, 3, 1), x, launches=1)
    by_plan(lambda x: torch.diag(x), x[0, 0], launches=2)
    by_plan(lambda x: F.pad(x, (1, 2, -1, 1)), x, launches=2)
    by_plan(lambda x: F.pad(x, (1, 2), value=1), x, launches=2)


def test_flipped_copies(gpu):
    x = torch.arange(24.0).view(2, 3, 4)
    by_plan(lambda x: x.flip(0, 2), x)
    there = on_gpu(x)
    turned = there.flip(1)
    assert (
        turned.stride() == x.flip(1).stride()
        and there.transpose(0, 2).flip(0).stride() == x.transpose(0, 2).flip(0).stride()
    )
    turned.zero_()
    assert back(there).equal(x)


def test_wrong_rows_that_are_written_are_told_of(gpu):
    x, row, wrong = on_gpu(torch.zeros(3, 2)), on_gpu(torch.ones(1, 2)), on_gpu(torch.tensor([3]))
    for write in (
        lambda: x.index_copy_(0, wrong, row),
        lambda: x.index_add_(0, wrong, row),
        lambda: x.index_fill_(0, wrong, 1),
    ):
        for block in (False, True):
            torch.use_deterministic_algorithms(block)
            write()
            torch.use_deterministic_algorithms(False)
            with pytest.raises(IndexError, match="index out of range"):
                gpu.errors.check()
    assert not back(x).any()


def test_codes(gpu):
    by_plan(lambda x: F.one_hot(x, 6), torch.tensor([[5, 0], [2, 2]]), launches=2)
    for wrong in (6, -1):
        F.one_hot(on_gpu(torch.tensor([wrong])), 6)
        with pytest.raises(IndexError, match="index out of range"):
            gpu.errors.check()


def test_writes_into_views_are_planned(gpu):
    cache, row, place = on_gpu(torch.zeros(2, 4, 3)), on_gpu(torch.ones(1, 3)), on_gpu(torch.tensor([2]))
    for block in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with block():
            part = cache[1]
            for _ in range(4):
                before, version = Kernel.natively, cache._version
                part.index_copy_(0, place, row)
                assert cache._version == version + 1
        assert Kernel.natively > before or not NATIVE
    assert back(cache)[1].tolist() == [[0] * 3, [0] * 3, [1] * 3, [0] * 3]
    with torch.inference_mode():
        inside = cache.clone()
        for _ in range(4):
            before = Kernel.natively
            inside[0].index_copy_(0, place, row)
        assert Kernel.natively > before or not NATIVE
    leaf = on_gpu(torch.zeros(4, 3), requires_grad=True)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[:2].index_copy_(0, place - 1, row)
    with pytest.raises(RuntimeError, match="inference"):
        inside.index_copy_(1, place, row[None].repeat(2, 1, 1))


def test_planned_writes_refuse_memory_that_overlaps(gpu):
    x, place = on_gpu(torch.arange(6.0)), on_gpu(torch.tensor([3, 4, 5]))
    for _ in range(4):
        x.index_copy_(0, place, on_gpu(torch.ones(3)))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a single memory location"):
            x.index_copy_(0, place, x[1:4])
    assert back(x).tolist() == [0, 1, 2, 1, 1, 1]


def test_numbers_of_the_cpu_in_arrays_of_another_class(gpu):
    """As memory-mapped files have them."""

    class Derived(np.ndarray):
        pass

    x, place = on_gpu(torch.arange(6.0).view(2, 3)), on_gpu(torch.tensor([1]))
    number = torch.as_tensor(np.asarray(7.0, np.float32).view(Derived))
    for _ in range(4):
        assert back(x.index_fill(0, place, number)).tolist() == [[0, 1, 2], [7, 7, 7]]
        assert back(torch.where(x > 1, x, number)).tolist() == [[7, 7, 2], [3, 4, 5]]


def test_every_element_of_a_long_row_has_an_index_of_its_own(gpu):
    """Which is not one for the row, whatever a row's elements lie like."""
    torch.manual_seed(0)
    x = torch.randn(6, 40, 3)
    for rows in (1, 4, 6):
        index = torch.randint(0, 6, (rows, 40, 3))
        by_plan(lambda x, i: x.gather(0, i), x, index)
        by_plan(lambda x, i: torch.take_along_dim(x, i, 0), x, index)
    by_plan(lambda x, i: x.gather(0, i), x, torch.randint(0, 6, (2, 20, 3)))  # parts of rows


def test_values_lie_with_what_is_written(gpu):
    """Only a value without dimensions may lie on another device, as PyTorch has it; indices may."""
    masks = torch.tensor([True, True, False])
    for index in (torch.tensor([0, 1]), masks, on_gpu(masks)):
        set_item = lambda x, v, i=index: x.__setitem__(i, v)
        put = lambda x, v, i=index: x.index_put_((i,), v)
        add = lambda x, v, i=index: x.index_put_((i,), v, accumulate=True)
        for write in (set_item, put, add):
            x = on_gpu(torch.zeros(3))
            with pytest.raises(RuntimeError, match="same device"):
                write(x, torch.ones(2))
            one = torch.ones(1)
            if write is set_item or (write is put and index.dtype is torch.bool):
                write(x, one)
            else:
                with pytest.raises(RuntimeError, match="same device"):
                    write(x, one)
                write(x, torch.tensor(1.0))
            assert back(x).tolist() == [1, 1, 0]
        with pytest.raises(RuntimeError, match="same device"):
            torch.index_put(x, (index,), torch.ones(2))
    x = torch.zeros(3)
    x[torch.tensor([0, 1])] = on_gpu(torch.tensor(1.0))
    assert x.tolist() == [1, 1, 0]
    with pytest.raises(RuntimeError, match="same device"):
        x[torch.tensor([0, 1])] = on_gpu(torch.ones(2))


def test_sparse_tensors_stay_on_the_cpu(gpu):
    x, index = on_gpu(torch.eye(3)), torch.zeros(1, 1, dtype=torch.int64)
    makers = (
        lambda: torch.sparse.mm(x.to_sparse(), x),
        lambda: x.to_sparse_csr(),
        lambda: torch.sparse_coo_tensor(on_gpu(index), x[0, :1], (2,)),
        lambda: torch.sparse_coo_tensor(index, x[0, :1], (2,)),
    )
    for make in makers:
        with pytest.raises(NotImplementedError, match="only implemented on the CPU: move"):
            make()
