"""The native thread pool: every part of the work is done once, whatever the cut, the thread and the process."""

import ctypes
import os
import threading

import numpy as np
import pytest

from flambeau._kernel.building import jit
from flambeau._kernel.loops import pointwise
from flambeau._kernel.loops.dialect import compile_function
from flambeau._kernel.threads import pool

TYPES = ["f32", "f32"]


@pytest.fixture(scope="module")
def add():
    text = pointwise.render_pointwise("kernel", lambda m, x, y: x + y, TYPES, ["f32"], TYPES)
    return jit.compile("kernel", text)


def place(array):
    return array.__array_interface__["data"][0]


def run(add, a, b, out, threads, jobs):
    pool.drive(add, threads, jobs, [place(a), place(b), place(out)], out.size, [4, 4, 4])


@pytest.mark.parametrize("jobs", [1, 2, 3, 7, 64, 5000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_element_is_computed(add, threads, jobs):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4099)).astype("f")
    out = np.full(4099, np.nan, "f")
    run(add, a, b, out, threads, jobs)
    np.testing.assert_array_equal(out, a + b)


def test_outer_dimensions_and_broadcast_operands(add):
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 7, 11)).astype("f").transpose(1, 0, 2)
    row = rng.standard_normal(11).astype("f")
    out = np.full((7, 5, 11), np.nan, "f")
    strides = [a.strides[:2], (0, 0), out.strides[:2]]
    pool.drive(add, 3, 6, [place(a), place(row), place(out)], 11, [4, 4, 4], (), (7, 5), strides)
    np.testing.assert_array_equal(out, a + row)


def test_threads_that_come_together_both_get_their_results(add):
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        a, b = rng.standard_normal((2, 20_000)).astype("f")
        out = np.empty_like(a)
        for _ in range(200):
            out.fill(0)
            run(add, a, b, out, 3, 8)
            if not np.array_equal(out, a + b):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer Pythons warn of forking beside threads
def test_a_forked_child_starts_its_own_threads(add):
    a = np.ones(10_000, "f")
    out = np.zeros_like(a)
    run(add, a, a, out, 3, 8)
    child = os.fork()
    if child == 0:
        out.fill(0)
        run(add, a, a, out, 3, 8)
        os._exit(0 if (out == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_calls_side_by_side(add):
    arrays = [np.full(100, i, "f") for i in range(20)]
    outs = [np.empty(100, "f") for _ in arrays]
    calls = [(add, [place(a), place(a), place(o)], [100], [4, 4, 4]) for a, o in zip(arrays, outs)]
    pool.run_calls(calls, 4)
    for i, o in enumerate(outs):
        np.testing.assert_array_equal(o, np.full(100, 2 * i, "f"))


def _mark(m, counts, i):
    m.add(counts + i * 8, 1)


def _alternate(m, run, function, counts, times):
    for _ in range(times):
        m.run(run, function, counts, 16, 16)
        m.run(run, function, counts, 8, 2)


def test_a_worker_that_comes_late_to_work_of_many_does_not_join_that_of_few():
    mark = compile_function("pool_test_mark", _mark, ["counts", "i"])
    alternate = compile_function("pool_test_alternate", _alternate, ["run", "function", "counts", "times"])
    counts = np.zeros(128, np.int64)
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(alternate)(pool.runner(), mark, place(counts), 20_000)
    assert counts.tolist() == [40_000] * 8 + [20_000] * 8 + [0] * 112
