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
SIGNIFICAND_BITS = {
    np.dtype(np.float16): 11,
    BFLOAT16: 8,
    np.dtype(np.float32): 24,
    np.dtype(np.float64): 53,
}

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

_U11, _U7, _U15, _U18 = (np.uint32(shift) for shift in (11, 7, 15, 18))
_TEMPER_B, _TEMPER_C = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_LOW_24 = np.uint32((1 << 24) - 1)
_LOW_53 = np.uint64((1 << 53) - 1)
_SHIFT_32 = np.uint64(32)


kernels: Any = None  # machine code for the hot loops, once `random_native.install` has been called


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


def _temper(words: Array, scratch: Array) -> None:
    """The output function of mt19937, in place."""
    np.right_shift(words, _U11, out=scratch)
    np.bitwise_xor(words, scratch, out=words)
    np.left_shift(words, _U7, out=scratch)
    np.bitwise_and(scratch, _TEMPER_B, out=scratch)
    np.bitwise_xor(words, scratch, out=words)
    np.left_shift(words, _U15, out=scratch)
    np.bitwise_and(scratch, _TEMPER_C, out=scratch)
    np.bitwise_xor(words, scratch, out=words)
    np.right_shift(words, _U18, out=scratch)
    np.bitwise_xor(words, scratch, out=words)


class MersenneState:
    """An mt19937 stream seeded, saved and restored as PyTorch's CPU generator does.

    NumPy's bit generator holds the words; the cached second sample of a normal pair stands beside
    it. One engine must not be used by two threads at once: callers hold `lock`.
    """

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._bits = np.random.MT19937(0)
        self._seeder = np.random.RandomState(self._bits)
        self._address = self._bits.ctypes.state_address
        memory = (ctypes.c_uint32 * (BLOCK + 1)).from_address(self._address)
        self._memory = np.frombuffer(memoryview(memory), np.uint32)  # NumPy's own state: 624 words, position
        self._key = self._memory[:BLOCK]
        self.lock = threading.RLock()
        self.seed(seed)

    def seed(self, seed: int) -> None:
        seed = operator.index(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(f"manual_seed: Overflow when unpacking long long: the seed {seed} does not fit in 64 bits")
        self.initial_seed = seed % (1 << 64)
        self._seeder.seed(self.initial_seed & 0xFFFFFFFF)
        self._exhausted_next = 0  # PyTorch's `next` while no word of the block is left
        self.cached_normal: float | None = None
        self.cached_float_normal: float | None = None

    def get_state(self) -> Array:
        """The state as PyTorch's 5056 bytes."""
        raw = np.zeros(STATE_BYTES, np.uint8)
        record = raw.view(_STATE_LAYOUT)[0]
        position = int(self._memory[BLOCK])
        exhausted = position == BLOCK
        record["seed"] = self.initial_seed
        record["left"] = BLOCK + 1 - position
        record["seeded"] = 1
        record["next"] = self._exhausted_next if exhausted else position
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
        self._memory[BLOCK] = BLOCK + 1 - left
        self._exhausted_next = following
        self.cached_normal = float(record["normal"]) if record["normal_valid"] else None
        self.cached_float_normal = float(record["float_normal"]) if record["float_normal_valid"] else None

    def clone(self) -> MersenneState:
        other = MersenneState()
        other.set_state(self.get_state())
        return other

    def words(self, count: int) -> Array:
        """The next `count` raw words as uint32."""
        if count <= (4 * BLOCK if kernels is None else 64):
            if count:
                self._exhausted_next = BLOCK
            return self._bits.random_raw(count).astype(np.uint32)
        out = empty(count, np.uint32)
        self.fill(out)
        return out

    def fill(self, out: Array) -> None:
        """Write the next words into a contiguous uint32 array.

        One word is asked of NumPy per block, only to make it twist; the block is then copied out
        raw and tempered in large passes, which is faster than asking for each word.
        """
        if kernels is not None:
            kernels.fill(self._address, kernels.address(out), out.size)
            self._exhausted_next = BLOCK if out.size else self._exhausted_next
            return
        scratch = np.empty(min(out.size, CHUNK), np.uint32)
        for start in range(0, out.size, CHUNK):
            piece = out[start : start + CHUNK]
            self._fill_raw(piece)
            _temper(piece, scratch[: piece.size])

    def _fill_raw(self, out: Array) -> None:
        memory, key, twist = self._memory, self._key, self._bits.random_raw
        position = int(memory[BLOCK])
        done = min(BLOCK - position, out.size)
        out[:done] = key[position : position + done]
        memory[BLOCK] = position + done
        whole = (out.size - done) // BLOCK
        for row in out[done : done + whole * BLOCK].reshape(whole, BLOCK):
            memory[BLOCK] = BLOCK
            twist(None, False)
            row[:] = key
        if whole:
            memory[BLOCK] = BLOCK
        done += whole * BLOCK
        rest = out.size - done
        if rest:
            memory[BLOCK] = BLOCK
            twist(None, False)
            out[done:] = key[:rest]
            memory[BLOCK] = rest
        if out.size:
            self._exhausted_next = BLOCK

    def words64(self, count: int) -> Array:
        """The next `count` 64-bit words, each made of two raw words, the high one first."""
        pairs = self.words(2 * count).view(np.uint64)
        high = np.left_shift(pairs, _SHIFT_32)
        np.right_shift(pairs, _SHIFT_32, out=pairs)
        np.bitwise_or(pairs, high, out=pairs)
        return pairs

    def doubles(self, count: int, low: float = 0.0, high: float = 1.0) -> Array:
        """The next `count` float64 in [low, high), of 53 bits each."""
        out = empty(count, np.float64)
        step = CHUNK // 2
        for start in range(0, count, step):
            piece = out[start : start + step]
            if kernels is not None:
                words = self.words(2 * piece.size)
                kernels.doubles(address(words), address(piece), piece.size, low, high)
                continue
            bits = self.words64(piece.size)
            np.bitwise_and(bits, _LOW_53, out=bits)
            np.multiply(bits.view(np.int64), 2.0**-53, out=piece)
            _stretch(piece, low, high)
        return out

    def floats(self, count: int, low: float = 0.0, high: float = 1.0) -> Array:
        """The next `count` float32 in [low, high), of 24 bits each."""
        out = empty(count, np.float32)
        if self.write_floats(out, low, high):
            return out
        for start in range(0, count, CHUNK):
            piece = out[start : start + CHUNK]
            bits = self.words(piece.size)
            np.bitwise_and(bits, _LOW_24, out=bits)
            np.copyto(piece, bits.view(np.int32), casting="unsafe")
            np.multiply(piece, np.float32(2.0**-24), out=piece)
            _stretch(piece, low, high)
        return out

    def write_floats(self, out: Array, low: float = 0.0, high: float = 1.0) -> bool:
        """Fills dense writable float32 memory as `floats` does; False if there is no machine code for it."""
        if kernels is None:
            return False
        count = out.size
        if count:
            kernels.floats(self._address, kernels.address(out), count, low, high)
            self._exhausted_next = BLOCK
        return True

    def snapshot(self) -> tuple[Array, int, float | None]:
        """A cheap copy of the position in the stream, for `rewind`."""
        return self._memory.copy(), self._exhausted_next, self.cached_normal

    def rewind(self, saved: tuple[Array, int, float | None], skip: int = 0) -> None:
        """Go back to a snapshot and drop `skip` words from there."""
        self._memory[:], self._exhausted_next, self.cached_normal = saved
        if skip:
            self._bits.random_raw(skip, False)
            self._exhausted_next = BLOCK


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


def two_product(a: Array, b: Array | float) -> tuple[Array, Array]:
    """a * b in float64 and its exact rounding error (Dekker)."""
    product = a * b
    split = 134217729.0 * a
    a_high = split - (split - a)
    a_low = a - a_high
    split_b = 134217729.0 * b
    b_high = split_b - (split_b - b)
    b_low = b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def multiply_add(values: Array, scale: Any, shift: Any) -> Array:
    """values * scale + shift rounded once, which is how PyTorch's builds evaluate it."""
    out: Array
    if shift == 0.0:
        out = values if scale == 1.0 else values * values.dtype.type(scale)
        return out
    if scale == 1.0:
        out = values + values.dtype.type(shift)
        return out
    if kernels is not None and values.dtype == np.float64 and values.flags.c_contiguous:
        out = np.empty_like(values)
        kernels.affine(address(values), address(out), values.size, scale, shift)
        return out
    if values.dtype == np.float32:
        wide = np.multiply(values, float(scale), dtype=np.float64)
        return np.add(wide, float(shift), out=wide).astype(np.float32)
    product, error = two_product(values, scale)
    total = product + shift
    back = total - product
    rounding = (product - (total - back)) + (shift - back)
    out = total + (rounding + error)
    return out


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type of the parts of complex numbers; None for other types."""
    if dtype == complex32.numpy:
        return np.dtype(np.float16)
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else None


def check_floating(name: str, dtype: np.dtype[Any]) -> None:
    if dtype not in SIGNIFICAND_BITS:
        raise NotImplementedError(f"{name}: not implemented for {dtype}")


def _stretch(values: Array, low: float, high: float) -> None:
    """Take [0, 1) to [low, high) in place; what rounding takes to the open end becomes `low`."""
    if (low, high) != (0.0, 1.0):
        low_value, high_value = values.dtype.type(low), values.dtype.type(high)
        values[...] = multiply_add(values, high_value - low_value, low_value)
        values[values == high_value] = low_value
