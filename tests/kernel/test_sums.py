"""Sums and dot products add in PyTorch's order: the same additions in NumPy give the same bits."""

import platform

import numpy as np
import pytest

import flambeau as torch

ARM = platform.machine().lower() in ("aarch64", "arm64")
VECTOR = 16 if ARM else 32  # bytes that PyTorch's builds sum at a time
LENGTHS = [1, 3, 5, 7, 8, 9, 31, 33, 40, 100, 511, 512, 700, 8192, 10_000]


def down(rows):
    """Sums over the first dimension: sixteen rows in turn, then sixteen of their sums, and so on."""
    levels = [np.zeros(rows.shape[1:], rows.dtype) for _ in range(4)]
    for i, row in enumerate(rows, 1):
        levels[0] = levels[0] + row
        for level in range(1, 4):
            if i % 16**level:
                break
            levels[level] = levels[level] + levels[level - 1]
            levels[level - 1] = np.zeros_like(levels[level - 1])
    return ((levels[0] + levels[1]) + levels[2]) + levels[3]


def by_fours(x):
    """Four accumulators over the first dimension; the rest goes into the first of them."""
    whole = len(x) // 4 * 4
    sums = down(x[:whole].reshape(whole // 4, 4, *x.shape[1:]))
    first = sums[0]
    for row in x[whole:]:
        first = first + row
    return ((first + sums[1]) + sums[2]) + sums[3]


def row_sum(x):
    lanes = VECTOR // x.itemsize
    if len(x) < lanes:
        return by_fours(x)
    whole = len(x) // lanes * lanes
    total = x.dtype.type(0)
    for value in x[whole:]:
        total = total + value
    for value in by_fours(x[:whole].reshape(-1, lanes)):
        total = total + value
    return total


def samples(*shape, dtype):
    return np.random.RandomState(shape[0]).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_rows(n, dtype):
    x = samples(n, dtype=dtype)
    assert torch.from_numpy(x).sum().item() == row_sum(x)
    assert torch.from_numpy(np.stack([x, x])).sum(1)[1].item() == row_sum(x)
    assert torch.from_numpy(x).mean().item() == row_sum(x) / dtype(n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 9, 100, 5000])
def test_rows_with_gaps(n, dtype):
    x = samples(n, 2, dtype=dtype)[:, 0]
    assert torch.from_numpy(x).sum().item() == by_fours(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 6, 16, 65, 300])
@pytest.mark.parametrize("columns", [8, 33, 64, 70])
def test_columns(rows, columns, dtype):
    x = samples(rows, columns, dtype=dtype)
    plain = columns // (4 * VECTOR // x.itemsize) * (4 * VECTOR // x.itemsize)
    expected = np.concatenate([down(x[:, :plain]), by_fours(x[:, plain:])])
    assert (torch.from_numpy(x).sum(0).numpy() == expected).all()


def fused(a, b, c):
    """a * b + c of float32, rounded once (the product is exact in float64, a tie after rounding the sum is rare)."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def vectors(x, y):
    """A dot product with 512-bit vectors: four accumulators, then two, then one."""
    n = len(x)
    sums, start = np.zeros((4, 16), np.float32), 0
    for count in [4] * (n // 64) + [2] * (n % 64 // 32) + [1] * (n % 32 // 16):
        cut = slice(start, start + 16 * count)
        sums[:count] = fused(x[cut].reshape(count, 16), y[cut].reshape(count, 16), sums[:count])
        start += 16 * count
    sums[0, : n - start] = fused(x[start:], y[start:], sums[0, : n - start])
    lanes = (sums[0] + sums[1]) + (sums[2] + sums[3])
    lanes = lanes[:8] + lanes[8:]
    lanes = lanes[:4] + lanes[4:]
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


def blocks(x, y):
    """A dot product on ARM: blocks of 64 in eight accumulators of four, then one element after another."""
    whole = len(x) // 64 * 64
    sums = np.zeros((8, 4), np.float32)
    for start in range(0, whole, 32):
        sums = fused(x[start : start + 32].reshape(8, 4), y[start : start + 32].reshape(8, 4), sums)
    while len(sums) > 1:
        sums = sums[::2] + sums[1::2]
    total = (sums[0, 0] + sums[0, 1]) + (sums[0, 2] + sums[0, 3])
    for i in range(whole, len(x)):
        total = fused(x[i], y[i], total)
    return total


@pytest.mark.parametrize("n", [1, 5, 15, 16, 17, 31, 32, 33, 40, 48, 63, 64, 65, 79, 96, 100, 112, 127, 129, 1000])
def test_dot(n):
    frame = np.full((2, 2 * n + 200), np.nan, np.float32)  # what lies behind the end is not part of the sum
    frame[:, :n] = samples(n, 2, dtype=np.float32).T
    x, y = frame[:, :n]
    expected = (blocks if ARM else vectors)(x, y)
    assert torch.from_numpy(x).dot(torch.from_numpy(y)).item() == expected
