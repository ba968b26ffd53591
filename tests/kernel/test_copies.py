"""Copies between arrays of any strides, shared by the cores: every order, direction, gap and broadcast dimension."""

import itertools
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend import copies

ORDERS = list(itertools.permutations(range(3)))
SLICES = [slice(None), slice(None, None, -1), slice(1, None, 2), slice(None, None, -3)]


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(copies, "SHARED", 1)


def array(shape, dtype):
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("order", ORDERS)
def test_copies_of_any_strides(dtype, order):
    x = array((13, 34, 67), dtype)
    for key in itertools.product(SLICES, repeat=3):
        part = x[key].transpose(order)
        made = copies.row_major(part)
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(made, part)
        same = copies.duplicate(part)
        assert same.strides == part.copy("K").strides
        np.testing.assert_array_equal(same, part)


@pytest.mark.parametrize("shape", [(100_000,), (2, 50_000), (2, 49_999), (1021, 97), (3, 1, 70_001), (0, 5), ()])
def test_copies_of_any_shape(shape):
    x = array(shape, "float32")
    for part in (x, x[..., ::-1] if x.ndim else x, x[::-1] if x.ndim else x):
        np.testing.assert_array_equal(copies.row_major(part), part)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64", "complex64"])
def test_turned_matrices(dtype, threads):
    """Blocks of them are turned in registers; what is left at the edges is not."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape in ((128, 128), (129, 131), (1000, 17), (15, 1100), (3, 5, 70, 33), (2, 96, 7, 31), (64, 1, 300)):
            x = array(shape, dtype)
            for order in itertools.permutations(range(len(shape))):
                part = x.transpose(order)
                np.testing.assert_array_equal(copies.row_major(part), part)
                wide = np.zeros((*part.shape[:-1], part.shape[-1] + 3), dtype)
                copies.place(wide[..., :-3], part)
                np.testing.assert_array_equal(wide[..., :-3], part)
                assert not wide[..., -3:].any()
                copies.place(wide[..., ::-1][..., 3:], part)
                np.testing.assert_array_equal(wide[..., ::-1][..., 3:], part)
            grown = np.repeat(x, 2, 0)[::2].swapaxes(0, -1)
            np.testing.assert_array_equal(copies.row_major(grown), grown)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_few_lines_in_turn(count, dtype, threads):
    """Colours of pixels to images and back, blocks of pixels to channels and back."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape in ((2, 37, 41, count), (200, count), (1, 64, 128, count), (3, 2, 5, count, 7, count)):
            x = array(shape, dtype)
            order = (0, 1, 3, 5, 2, 4) if x.ndim == 6 else (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
            part = x.transpose(order)
            apart = copies.row_major(part)
            np.testing.assert_array_equal(apart, part)
            np.testing.assert_array_equal(copies.row_major(apart.transpose(np.argsort(order))), x)
            np.testing.assert_array_equal(copies.row_major(part[..., 1:]), part[..., 1:])
            np.testing.assert_array_equal(copies.row_major(part[..., ::-1]), part[..., ::-1])
    finally:
        torch.set_num_threads(before)


def test_written_into_a_part():
    whole, x = np.zeros((70, 90), np.float32), array((60, 40), "float32")
    copies.place(whole[5:-5, 7:87:2], x)
    expected = np.zeros_like(whole)
    expected[5:-5, 7:87:2] = x
    np.testing.assert_array_equal(whole, expected)
    copies.place(whole.T, np.float32(3) + np.zeros(70, np.float32))
    assert (whole == 3).all()


def test_broadcast_sources():
    x = array((300, 5), "int64")
    np.testing.assert_array_equal(torch.from_numpy(x).repeat(3, 4).numpy(), np.tile(x, (3, 4)))
    wide = np.broadcast_to(x[:, :, None], (300, 5, 4))
    np.testing.assert_array_equal(copies.row_major(wide), wide)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "bool"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_large_casts_are_those_of_small_ones(source, dtype):
    ends = [0.0, -0.0, 1.5, -1.5, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 3e9, 6e4, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        x = np.concatenate([ends, np.random.default_rng(0).standard_normal(300_000) * 50]).astype(source)
    made = torch.from_numpy(x).to(getattr(torch, dtype))
    few = [torch.from_numpy(part).to(getattr(torch, dtype)) for part in np.array_split(x, 100)]
    np.testing.assert_array_equal(made.numpy(), torch.cat(few).numpy())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "shape", [(1024, 257), (7, 300, 301), (5, 6, 70, 80), (3, 200_000), (600_000,), (64, 64, 17, 9)]
)
def test_copies_from_the_end_on(shape, threads):
    a = np.random.default_rng(0).integers(0, 100, shape).astype(np.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.from_numpy(a)
        for dims in ((0,), (-1,), tuple(range(len(shape)))):
            assert np.array_equal(x.flip(dims).numpy(), np.flip(a, dims))
            assert np.array_equal(x.transpose(0, -1).flip(dims).numpy(), np.flip(np.swapaxes(a, 0, -1), dims))
        assert np.array_equal(x.double().flip(0).numpy(), np.flip(a.astype(np.float64), 0))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_short_runs(dtype, threads):
    """Runs of as many bytes as another type has are copied as elements of that type, also where they are not aligned to it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for run in (2, 3, 4, 8, 16):
            x = array((2, 3, 10, 21 * run + 1), dtype)
            for part in (x[..., 1:], x[..., :-1], x[:, ::-1, ::2, 1:]):
                split = part.reshape(2, 3, -1, 21, run)
                for order in ((0, 1, 2, 3), (1, 3, 0, 2), (0, 2, 3, 1), (3, 2, 1, 0)):
                    turned = split.transpose(*order, 4)
                    np.testing.assert_array_equal(copies.row_major(turned), turned)
                    wide = np.zeros((*turned.shape[:-1], run + 1), x.dtype)
                    copies.place(wide[..., 1:], turned)
                    np.testing.assert_array_equal(wide[..., 1:], turned)
                    assert not wide[..., 0].any()
    finally:
        torch.set_num_threads(before)


def test_a_copy_of_many_dimensions_has_a_plan():
    x = array((2, 3, 8, 64, 64), "float32").reshape(2, 3, 4, 2, 16, 4, 16, 4).transpose(0, 2, 4, 6, 1, 3, 5, 7)
    assert copies._plan(4, 1, x.shape, x.strides, np.empty(x.shape, "f4").strides) is not None
    np.testing.assert_array_equal(copies.row_major(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(
    ("shape", "expanded"),
    [
        ((300, 1), (300, 200)),
        ((64, 1, 64), (64, 8, 64)),
        ((9, 11, 1, 1), (9, 11, 33, 7)),
        ((300, 70, 1), (300, 70, 3)),
        ((1,), (40000,)),
    ],
)
def test_values_that_are_repeated(dtype, shape, expanded):
    x = (torch.arange(math.prod(shape)).reshape(shape) % 2).to(dtype).expand(expanded)
    turned = tuple(range(len(expanded)))[::-1]
    made = [x.contiguous(), x.clone(), torch.empty(expanded, dtype=dtype).copy_(x)]
    made.append(torch.zeros(expanded[::-1], dtype=dtype).permute(turned).copy_(x))
    wide = dtype if dtype is not torch.bfloat16 else torch.float32
    for y in made:
        assert (y.to(wide).numpy() == x.to(wide).numpy()).all()
