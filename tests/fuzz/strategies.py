"""What the fuzz tests draw from: shapes, dtypes, values and tensors that lie in memory in every possible way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import flambeau as torch

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
INTEGERS = DTYPES[1:6]
FLOATS = DTYPES[6:10]
REAL = DTYPES[1:10]
NUMPY = {name: np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name) for name in DTYPES}
# relative error that a correctly rounded result of a few operations may have
TOLERANCE = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 2e-5,
    "float64": 1e-10,
    "complex64": 5e-5,
    "complex128": 1e-10,
}

seeds = st.integers(0, 2**32 - 1)


def sides(most: int = 4) -> Any:
    return st.one_of(st.integers(1, most), st.integers(0, most))


def shapes(least: int = 0, most: int = 5, side: int = 4) -> Any:
    return st.lists(sides(side), min_size=least, max_size=most).map(tuple)


@st.composite
def broadcastable(draw: Any, count: int, most: int = 4) -> list[tuple[int, ...]]:
    """Shapes that broadcast with each other: some have fewer dimensions, some extents are 1."""
    full = draw(shapes(0, most))
    made = []
    for _ in range(count):
        cut = draw(st.integers(0, len(full)))
        ones = draw(st.lists(st.booleans(), min_size=len(full) - cut, max_size=len(full) - cut))
        made.append(tuple(1 if one else n for one, n in zip(ones, full[cut:])))
    return made


def values(seed: int, shape: tuple[int, ...], dtype: str, special: bool = False) -> np.ndarray:
    """An array of moderate numbers; with `special`, some of them are extreme."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype in INTEGERS:
        made = np.asarray(rng.integers(0 if dtype == "uint8" else -6, 7, shape))
        if special:
            info = np.iinfo(dtype)
            made = np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max], shape), made)
        return np.asarray(made).astype(dtype)
    made = np.asarray(rng.normal(0, 2, shape))
    if special:
        made = np.where(rng.random(shape) < 0.2, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], shape), made)
    if dtype.startswith("complex"):
        made = made + 1j * rng.normal(0, 2, shape)
    return np.asarray(made).astype(NUMPY[dtype])


class Placed:
    """A tensor over a part of a larger buffer, with the same part as a NumPy array in a copy of the buffer."""

    def __init__(self, shape: Any, strides: Any, offset: int, slack: int, dtype: str, seed: int, special: bool = False):
        reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        self.buffer = values(seed, (offset + reach + slack,), dtype, special)  # what the tensor lies in
        self.expected = self.buffer.copy()
        self.tensor = torch.from_numpy(self.buffer).as_strided(shape, strides, offset)
        size = self.buffer.itemsize
        bytes_ = [s * size for s in strides]
        self.array = np.lib.stride_tricks.as_strided(self.expected[offset:], shape, bytes_)

    def check(self, message: str = "") -> None:
        """The tensor's memory, all of it, is what the array's is."""
        np.testing.assert_array_equal(self.buffer.view(np.uint8), self.expected.view(np.uint8), message)


@st.composite
def placed(draw: Any, shape: Any = None, dtype: Any = None, overlap: bool = True, special: bool = False) -> Placed:
    """A tensor that is dense, permuted, stepped, expanded or a window, somewhere in its storage."""
    shape = draw(shapes()) if shape is None else shape
    dtype = draw(st.sampled_from(DTYPES)) if dtype is None else dtype
    kinds = ["dense", "permuted", "stepped"] + (["expanded", "window"] if overlap else [])
    kind = draw(st.sampled_from(kinds))
    order = list(range(len(shape)))[::-1]
    if kind != "dense":
        order = draw(st.permutations(order))
    strides, step = [0] * len(shape), draw(st.integers(1, 3)) if kind == "stepped" else 1
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1) + (draw(st.integers(0, 1)) if kind == "stepped" else 0)
    if kind == "expanded":
        strides = [0 if draw(st.booleans()) else s for s in strides]
    elif kind == "window":
        strides = [draw(st.integers(1, 2)) for _ in strides]
    return Placed(shape, strides, draw(st.integers(0, 3)), draw(st.integers(0, 3)), dtype, draw(seeds), special)


def as_numpy(t: Any) -> np.ndarray:
    return t.float().numpy() if t.dtype is torch.bfloat16 else t.detach().resolve_conj().numpy()


def wide(array: np.ndarray) -> np.ndarray:
    """An array in the precision that reference results are computed in."""
    if array.dtype.kind in "fV":
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else array


def same(t: Any, expected: Any, tolerance: float | None = None, message: Any = "") -> None:
    """A tensor equals an array: shape, dtype (where the array has one of ours) and values."""
    expected = np.asarray(expected)
    assert tuple(t.shape) == expected.shape, (message, tuple(t.shape), expected.shape)
    found = as_numpy(t)
    if tolerance is None:
        tolerance = TOLERANCE.get(str(t.dtype).removeprefix("torch."), 0)
    if expected.dtype.kind == "V":
        expected = expected.astype(np.float32)
    if tolerance:
        with np.errstate(all="ignore"):
            expected = expected.astype(found.dtype)
        np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=str(message))
    else:
        np.testing.assert_array_equal(found, expected, str(message))


def tensor(array: np.ndarray) -> Any:
    """A tensor of its own with the values of an array."""
    return torch.from_numpy(np.array(array, order="C"))
