"""The CPU random engine: PyTorch's mt19937 stream and its saved state, and the arithmetic that the
distributions share. They stand in `random_draws`, `random_transforms` and `random_samplers`.
"""

from __future__ import annotations

import ctypes
import operator
import threading
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from .allocation import empty
from .dtypes import complex32

Array = np.ndarray[Any, Any]
Shape = int | tuple[int, ...]

DEFAULT_SEED = 67280421310721
STATE_BYTES = 5056
BLOCK = 624  # words of state, produced by one twist
CHUNK = 32 * 1024  # words per pass: the passes over one chunk stay in the second-level cache

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SIGNIFICAND_BITS = {np.dtype(np.float16): 11, BFLOAT16: 8, np.dtype(np.float32): 24, np.dtype(np.float64): 53}

_STATE_LAYOUT = np.dtype(
    {
        "names": [
            "seed", "left", "seeded", "next", "state",
            "normal", "normal_valid", "float_normal", "float_normal_valid",
        ],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", BLOCK), "<f8", "<i4", "<f4", "u1"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040, 5048, 5052],
        "itemsize": STATE_BYTES,
    }
)  # fmt: skip


FEW = 256  # words of a draw that needs no memory of its own
kernels: Any = (
    None  # machine code for the loops, from `_kernel/random/stream.py`: `_ops/making/generator.py` hands it over
)


def use_kernels(compiled: Any) -> None:
    global kernels
    kernels = compiled


def address(array: Array) -> int:
    """Where a contiguous array's memory begins."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # an empty array, or a type that buffers do not know: the slow way
        place: int = array.__array_interface__["data"][0]
        return place


class MersenneState:
    """An mt19937 stream seeded, saved and restored as PyTorch's CPU generator does.

    The cached second sample of a normal pair stands beside the words. One engine must not be used by two threads at once:
    callers hold `lock`.
    """

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        # The words, and the position of the next one; from BLOCK on there is none: what is missing to 2 BLOCK is PyTorch's `next` then.
        self._memory = np.empty(BLOCK + 1, np.uint32)
        self._address, self._key = address(self._memory), self._memory[:BLOCK]
        self._spare = np.zeros(2)  # whether there is a second normal of a pair, and that
        self._spare_at = address(self._spare)
        self._few, self._few_pairs = np.empty(FEW, np.uint32), np.empty(FEW // 2)  # memory for small draws
        self._few_at, self._pairs_at = address(self._few), address(self._few_pairs)
        self.lock = threading.RLock()
        self.seed(seed)

    def seed(self, seed: int) -> None:
        seed = operator.index(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(f"manual_seed: Overflow when unpacking long long: the seed {seed} does not fit in 64 bits")
        self.initial_seed = seed % (1 << 64)
        kernels.seed(self._address, self._few_at, BLOCK, self.initial_seed & 0xFFFFFFFF)
        self._memory[BLOCK] = 2 * BLOCK
        self.cached_normal = None
        self.cached_float_normal: float | None = None

    @property
    def cached_normal(self) -> float | None:
        return float(self._spare[1]) if self._spare[0] else None

    @cached_normal.setter
    def cached_normal(self, value: float | None) -> None:
        self._spare[:] = (0, 0) if value is None else (1, value)

    def get_state(self) -> Array:
        """The state as PyTorch's 5056 bytes."""
        raw = np.zeros(STATE_BYTES, np.uint8)
        record = raw.view(_STATE_LAYOUT)[0]
        position = int(self._memory[BLOCK])
        exhausted = position >= BLOCK
        record["seed"] = self.initial_seed
        record["left"] = 1 if exhausted else BLOCK + 1 - position
        record["seeded"] = 1
        record["next"] = 2 * BLOCK - position if exhausted else position
        record["state"] = self._key
        if self.cached_normal is not None:
            record["normal"], record["normal_valid"] = self.cached_normal, 1
        if self.cached_float_normal is not None:
            record["float_normal"], record["float_normal_valid"] = self.cached_float_normal, 1
        return raw

    def set_state(self, state: Array) -> None:
        if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
            raise TypeError("set_state: the random state must be a tensor of bytes (uint8)")
        if state.size != STATE_BYTES:
            raise RuntimeError(f"set_state: expected a random state of {STATE_BYTES} bytes, got {state.size}")
        record = np.ascontiguousarray(state).reshape(-1).view(_STATE_LAYOUT)[0]
        left, following = int(record["left"]), int(record["next"])
        consistent = 1 <= left <= BLOCK and (left == 1 or following == BLOCK + 1 - left)
        if not record["seeded"] or not consistent or following > BLOCK:
            raise RuntimeError("set_state: invalid mt19937 state")
        self.initial_seed = int(record["seed"])
        self._key[:] = record["state"].astype(np.uint32)
        self._memory[BLOCK] = 2 * BLOCK - following if left == 1 else BLOCK + 1 - left
        self.cached_normal = float(record["normal"]) if record["normal_valid"] else None
        self.cached_float_normal = float(record["float_normal"]) if record["float_normal_valid"] else None

    def clone(self) -> MersenneState:
        other = MersenneState()
        other.set_state(self.get_state())
        return other

    def kept(self) -> tuple[Any, ...]:
        """All that a draw changes, for `put_back`."""
        return self._memory.copy(), self.cached_normal, self.cached_float_normal

    def put_back(self, kept: tuple[Any, ...]) -> None:
        self._memory[:], self.cached_normal, self.cached_float_normal = kept

    def words(self, count: int) -> Array:
        """The next `count` raw words as uint32."""
        out = empty(count, np.uint32)
        self.fill(out)
        return out

    def fill(self, out: Array) -> None:
        """Write the next words into a contiguous uint32 array."""
        if out.size:
            kernels.fill(self._address, kernels.address(out), out.size)

    def few(self, count: int) -> int:
        """The address of the next words, at most FEW, which stay there until the next small draw."""
        kernels.fill(self._address, self._few_at, count)
        return self._few_at

    def normal_pairs(self, pairs: int) -> Array:
        """Normals one after the other, two of each pair of uniforms; a few are the stream's own until the next small draw."""
        if 4 * pairs <= FEW:
            kernels.pairs(self.few(4 * pairs), self._pairs_at, pairs)
            return self._few_pairs[: 2 * pairs]
        both, words = np.empty(2 * pairs), self.words(4 * pairs)
        kernels.pairs(address(words), address(both), pairs)
        return both

    def words64(self, count: int) -> Array:
        """The next `count` 64-bit words, each made of two raw words, the high one first."""
        pairs = self.words(2 * count).view(np.uint64)
        high = np.left_shift(pairs, np.uint64(32))
        np.right_shift(pairs, np.uint64(32), out=pairs)
        np.bitwise_or(pairs, high, out=pairs)
        return pairs

    def word64(self) -> int:
        """The next such word as a number."""
        self.few(2)
        high, low = self._few[:2].tolist()
        return int(high << 32 | low)

    def doubles(self, count: int, low: float = 0.0, high: float = 1.0) -> Array:
        """The next `count` float64 in [low, high), of 53 bits each."""
        out = empty(count, np.float64)
        step = CHUNK // 2
        for start in range(0, count, step):
            piece = out[start : start + step]
            words = self.words(2 * piece.size)
            kernels.doubles(address(words), address(piece), piece.size, low, high)
        return out

    def floats(self, count: int, low: float = 0.0, high: float = 1.0) -> Array:
        """The next `count` float32 in [low, high), of 24 bits each."""
        out = empty(count, np.float32)
        self.write_floats(out, low, high)
        return out

    def write_floats(self, out: Array, low: float = 0.0, high: float = 1.0) -> bool:
        """Fills dense writable float32 memory as `floats` does; that is always one step."""
        if out.size:
            kernels.floats(self._address, kernels.address(out), out.size, low, high)
        return True

    def snapshot(self) -> tuple[Array, float | None]:
        """A cheap copy of the position in the stream, for `rewind`."""
        return self._memory.copy(), self.cached_normal

    def rewind(self, saved: tuple[Array, float | None], skip: int = 0) -> None:
        """Go back to a snapshot and drop `skip` words from there."""
        self._memory[:], self.cached_normal = saved
        if skip:
            self.words(skip)


def element_count(shape: Shape) -> int:
    return shape if isinstance(shape, int) else prod(shape)


def narrow(values: Array, dtype: np.dtype[Any]) -> Array:
    """Cast floats as PyTorch does: to 16 bits by way of float32, to integers by way of int64."""
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.kind in "iub":
            return values.astype(np.int64).astype(dtype)
        if dtype.itemsize == 2 and values.dtype != np.float32:
            values = values.astype(np.float32)
        return values.astype(dtype)


def multiply_add(values: Array, scale: float, shift: float) -> Array:
    """float64 values * scale + shift rounded once, which is how PyTorch's builds evaluate it."""
    if scale == 1.0 and shift == 0.0:
        return values
    values = np.ascontiguousarray(values)
    out = np.empty_like(values)
    kernels.affine(address(values), address(out), values.size, scale, shift)
    return out


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type of the parts of complex numbers; None for other types."""
    if dtype == complex32.numpy:
        return np.dtype(np.float16)
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else None


def check_floating(name: str, dtype: np.dtype[Any]) -> None:
    if dtype not in SIGNIFICAND_BITS:
        raise NotImplementedError(f"{name}: not implemented for {dtype}")
