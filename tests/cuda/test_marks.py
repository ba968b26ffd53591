"""Elements that a mask marks, places of what is not zero and distinct values on a GPU, by kernels that the CPU runs."""

import os

import pytest

import flambeau as torch
from flambeau._kernel.cuda import marks

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

NATIVE = os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0"
DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.complex128]


def numbers(shape, d=torch.float32):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 2).round()
    return x > 0 if d is torch.bool else x.to(d)


def agree(function, *tensors, strides=True):
    """Results as on the CPU, strides included (unless NumPy chose them); what comes before their number is known is one native call the second time."""
    expected, there = function(*tensors), [on_gpu(t) for t in tensors]
    several = isinstance(expected, (tuple, list))
    for call in range(3):
        before = Kernel.natively
        got = function(*there)
        assert call < 2 or not NATIVE or Kernel.natively > before
        for a, b in zip(got if several else (got,), expected if several else (expected,), strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape and (not strides or a.stride() == b.stride())
            assert back(a).equal(b)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_marked_elements(gpu, d):
    x, mask = numbers((4, 5, 3), d), numbers((4, 5, 3)) > 0
    agree(lambda x, mask: x[mask], x, mask)
    agree(lambda x, mask: x[mask], x, mask[:, :, 0])
    agree(lambda x, mask: x[:, mask], x, mask[0])
    agree(lambda x, mask: x[:, mask], x, mask[0, :, 0])
    agree(lambda x, mask: x[..., mask], x, mask[0, 0])
    agree(torch.masked_select, x, mask)


def test_marks_of_any_kind(gpu):
    x, mask = numbers((4, 6)), numbers((4, 6)) > 0
    agree(lambda x, mask: x[mask.t()], x.t().contiguous(), mask)
    agree(lambda x, mask: x.t()[mask.t()], x, mask)
    agree(lambda x, mask: x.t()[mask[0]], x, mask)
    agree(lambda x, mask: x[:, ::2][mask[:, 1::2]], x, mask)
    agree(lambda x, mask: x[mask[0, :4], 1:3], x, mask)
    agree(lambda x, mask: torch.masked_select(x, mask[:1]), x, mask)
    for none in (torch.zeros(4, 6, dtype=torch.bool), torch.ones(4, 6, dtype=torch.bool)):
        agree(lambda x, mask: x[mask], x, none)
        agree(lambda x: x.nonzero(), none)
    empty = torch.zeros(0, 3, dtype=torch.bool)
    there = on_gpu(empty)
    assert there.nonzero().shape == (0, 2) and on_gpu(torch.ones(0, 3))[there].shape == (0,)
    assert on_gpu(torch.ones(0, 3, 2))[there].shape == (0, 2)
    with pytest.raises(IndexError, match="shape of the mask"):
        on_gpu(x)[on_gpu(mask[:2])]


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_places_of_what_is_not_zero(gpu, d):
    for shape in ((7,), (3, 5), (2, 3, 4), (2, 1, 3, 2)):
        agree(lambda x: x.nonzero(), numbers(shape, d))
        agree(lambda x: x.nonzero(as_tuple=True), numbers(shape, d), strides=False)
    agree(lambda x: x.t().nonzero(), numbers((3, 5), d))
    for number in (0, 1):
        assert on_gpu(torch.tensor(number).to(d)).nonzero().shape == (number, 0)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_marked_elements_are_written(gpu, d):
    x, mask, source = numbers((4, 5), d), numbers((4, 5)) > 0, numbers((6, 4), d)
    agree(lambda x, mask, source: x.masked_scatter(mask, source), x, mask, source)
    agree(lambda x, mask, source: x.masked_scatter(mask[0], source.t()), x, mask, source)
    agree(lambda x, mask, source: x.t().clone().masked_scatter_(mask.t(), source), x, mask, source)
    agree(lambda x, mask, source: x.masked_scatter(mask & False, source), x, mask, source)
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        on_gpu(x).masked_scatter(on_gpu(mask), on_gpu(source[:1, :2]))
    if d.is_floating_point:
        here, there = x.clone().requires_grad_(), on_gpu(x, True)
        expected = torch.autograd.grad(torch.masked_select(here, mask).square().sum(), here)[0]
        got = torch.autograd.grad(torch.masked_select(there, on_gpu(mask)).square().sum(), there)[0]
        assert back(got).equal(expected)


def test_long_masks(gpu):
    mask = numbers((40, 1000)) > 0
    agree(lambda mask: mask.nonzero(), mask)
    agree(lambda mask: mask.view(-1).nonzero(), mask)
    agree(lambda x, mask: x[mask], numbers((40, 1000)), mask)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_tiles_that_begin_anywhere(gpu, d):
    tile = marks.tile(d.code)
    for size in (tile - 1, tile, tile + 1, 3 * tile + 7):
        for begin in (0, 1, 3):
            agree(lambda x: x[begin:].nonzero(), numbers((size + begin,), d))
    x, mask = numbers((tile, 3)), numbers((tile, 3), d)
    agree(lambda x, mask: x[mask != 0], x, mask)
    agree(lambda x, mask: x[:, 1][(mask != 0)[:, 2]], x, mask)
    agree(lambda x, mask: x[(mask != 0)[:, 0]], x, mask)
    agree(lambda x, mask: x.masked_scatter(mask != 0, -x), x, mask)
    agree(lambda x, mask: x[:, 0].masked_scatter((mask != 0)[:, 0], x[:, 1]), x, mask)
    if d in (torch.float32, torch.int8, torch.int64):
        agree(lambda x: torch.unique(x, return_inverse=True, return_counts=True), numbers((2 * tile + 5,), d))
        agree(lambda x: torch.unique(x), torch.arange(tile + 1).to(d))


def test_gradients_by_marked_elements(gpu):
    x, mask = numbers((4, 5, 3)), numbers((4, 5)) > 0
    for function in (lambda x, mask: x[mask], lambda x, mask: x[:, mask[0]]):
        here, there = x.clone().requires_grad_(), on_gpu(x, True)
        expected = torch.autograd.grad(function(here, mask).square().sum(), here)[0]
        for _ in range(3):
            got = torch.autograd.grad(function(there, on_gpu(mask)).square().sum(), there)[0]
            assert back(got).equal(expected)


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
def test_distinct_values(gpu, d):
    for x in (numbers((5, 7)).abs().to(d), torch.ones(9).to(d), torch.arange(50).flip(0).to(d), torch.ones(1).to(d)):
        for inverse in (False, True):
            for counts in (False, True):
                agree(lambda x: torch.unique(x, return_inverse=inverse, return_counts=counts), x)
    nans = torch.tensor([float("nan"), 1.0, float("nan"), -0.0, 0.0])
    found, inverse, counts = torch.unique(on_gpu(nans), return_inverse=True, return_counts=True)
    assert back(found)[:2].tolist() == [0, 1] and found.shape == (4,) and back(counts).tolist() == [2, 1, 1, 1]
    agree(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.arange(9000) % 77)


def test_few_marks_are_one_launch(gpu):
    x = on_gpu(numbers((6, 50)))
    for count, function in ((1, lambda: x.nonzero()), (2, lambda: torch.unique(x))):  # after a sort
        for turn in range(4):
            before = Kernel.natively
            made = function()
            assert turn < 2 or not NATIVE or Kernel.natively == before + count
        assert made.untyped_storage().nbytes() == made.nbytes and made.is_contiguous() == (count > 1)


def test_a_wrong_index_before_is_told_to_who_waits(gpu):
    torch.nn.functional.embedding(on_gpu(torch.tensor([7])), on_gpu(torch.ones(3, 2)))
    with pytest.raises(IndexError, match="index out of range"):
        on_gpu(torch.ones(3)).nonzero()
    assert on_gpu(torch.ones(3)).nonzero().shape == (3, 1)
