"""Aligned allocation: arrays begin at a cache line unless they are small, own their memory, and NumPy's own allocator stays in place."""

import gc
import sys
import tracemalloc

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend import memory  # noqa: F401 (puts the allocator in place)
from flambeau._core import allocation
from flambeau._core.allocation import IN_LINES, empty, empty_strided, zeros
from flambeau._kernel.native.site import machine_code

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="plain NumPy elsewhere")
def test_arrays_of_middle_size_begin_at_a_cache_line():
    assert allocation.lines[0]() is not None
    for count in (IN_LINES // 4, 1000, 5000):
        arrays = [empty((count,), np.dtype("f4")), zeros((count,), np.dtype("f4")), zeros((3, count), np.dtype("i8"))]
        arrays.append(empty_strided((4, count), np.dtype("f4"), (1, 4)))
        for array in arrays:
            assert array.ctypes.data % 64 == 0 and array.base is None and array.flags.owndata and array.flags.writeable
        assert not arrays[1].any() and not arrays[2].any()
        assert arrays[3].strides == (4, 16) and arrays[3].flags.f_contiguous and not arrays[3].flags.c_contiguous


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="plain NumPy elsewhere")
def test_results_of_machine_code_begin_at_a_cache_line():
    machine_code()
    x = torch.rand(50, 50)
    kept = []
    for _ in range(20):
        kept += [x + x, x @ x, torch.softmax(x, -1)]
    for made in kept[-3:]:
        array = made._array
        assert array.ctypes.data % 64 == 0 and array.base is None and array.flags.owndata and array.flags.carray
    grown = kept[-3]._array.reshape(-1).copy()
    taken = kept.pop(-3)._array
    taken.resize(10_000, refcheck=False)  # by our function for that: what is there stays
    assert (taken[:2500] == grown).all() and not taken[2500:].any()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="plain NumPy elsewhere")
def test_memory_of_machine_code_can_be_traced_and_does_not_leak():
    x = torch.rand(50, 50)
    for _ in range(20):
        x + x
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = x + x
        assert tracemalloc.get_traced_memory()[0] - before >= made.nbytes
        del made
        for _ in range(100):
            x + x
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < x.nbytes
    finally:
        tracemalloc.stop()
