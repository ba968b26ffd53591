"""The memory of programs: blocks that values lie in, and one arena for those that live only while a program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Where a block comes from: an argument, a tensor that the program knows, what Python made in a step, a native loop's results.
INPUT, CONSTANT, GIVEN, MADE = range(4)
_LINE = 64  # blocks begin at cache lines


class Memory:
    """A block of memory. Offsets in it count from `address`, where its array begins; it reaches from `low` to `high`."""

    __slots__ = ("address", "array", "first", "fresh", "high", "kind", "last", "low", "number", "offset", "source")

    def __init__(self, kind: int, array: Any, source: Any = None):
        low, high = np.lib.array_utils.byte_bounds(array)
        self.kind, self.array, self.source = kind, array, source
        self.address = address_of(array)
        self.low, self.high = low - self.address, high - self.address
        self.number = 0  # among the operands of the program
        self.fresh = False  # whether each run makes it anew, because others keep it
        self.first, self.last, self.offset = -1, -1, 0  # when it is used, and where it lies in the arena

    @property
    def nbytes(self) -> int:
        return self.high - self.low

    def holds(self, address: int) -> bool:
        return self.low <= address - self.address < self.high

    def part(self, offset: int, shape: Any, strides: Any, d: Any) -> Any:
        """An array in a block that a loop made."""
        return np.ndarray(shape, d, self.array.reshape(-1).view(np.uint8), offset, strides)


def address_of(array: Any) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def placed(blocks: Sequence[Memory]) -> int:
    """Gives blocks, each of which is used from its `first` to its `last` step, places in an arena; how large that is.

    The largest first, each at the lowest place that is free during its time.
    """
    there: list[Memory] = []
    size = 0
    for block in sorted(blocks, key=lambda b: (-b.nbytes, b.first)):
        need, start = -(-block.nbytes // _LINE) * _LINE, 0
        for other in sorted(
            [o for o in there if o.first <= block.last and block.first <= o.last], key=lambda o: o.offset
        ):
            if start + need <= other.offset:
                break
            start = max(start, other.offset + -(-other.nbytes // _LINE) * _LINE)
        block.offset = start
        there.append(block)
        size = max(size, start + need)
    return size
