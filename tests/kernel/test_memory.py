"""Aligned allocation: large arrays begin at a cache line, own their memory, and NumPy's own allocator stays in place."""

import sys

import numpy as np
import pytest

from flambeau._backend import memory  # noqa: F401 (puts the allocator in place)
from flambeau._core.allocation import empty

handler_name = np._core.multiarray.get_handler_name


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="plain NumPy elsewhere")
def test_large_arrays_are_aligned_and_own_their_memory():
    before = handler_name()
    for count in (1 << 15, 100_003, 1 << 21):
        made = empty((count,), np.dtype("f4"))
        assert made.ctypes.data % 64 == 0 and made.base is None and made.flags.owndata
        made[:] = 1
        assert made.copy().sum() == count
    assert handler_name() == before


def test_arrays_can_be_resized_and_freed_in_any_order():
    kept = [empty((n, 1000), np.dtype("f8")) for n in range(20, 40)]
    for i, array in enumerate(kept):
        array[:] = i
    del kept[::2]
    kept[0].resize((5, 1000), refcheck=False)
    assert (kept[0] == 1).all() and (kept[1] == 3).all()
    small = empty((3, 0), np.dtype("f4"))
    assert small.shape == (3, 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="plain NumPy elsewhere")
def test_blocks_of_freed_results_are_used_again_and_stay_few():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    first = empty((10_000_000,), np.dtype("f4"))
    first[:] = 1
    place = first.ctypes.data
    del first
    again = empty((9_500_000,), np.dtype("f4"))
    assert again.ctypes.data == place and again.shape == (9_500_000,)
    del again
    before = resident()
    for millions in (*range(9, 40, 3), *range(39, 9, -4)):  # sizes that do not fit into each other
        made = empty((millions * 1_000_000,), np.dtype("f4"))
        made[::1024] = 1
        del made
    assert resident() - before < 300 << 20
