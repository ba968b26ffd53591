"""Kernels written as Python functions are read from their files when they are first used."""

import importlib.util
import math

import numpy as np
import pytest

from flambeau._backend.cpu import cpu
from flambeau._kernel.building.llvm import AS_WRITTEN
from flambeau._kernel.folds import sort
from flambeau._kernel.loops.lang import independent, kernel

SOURCE = """
from flambeau._kernel.loops.lang import kernel


@kernel("(n)->(n)")
def twice(m, x, out):
    for i in range(x.n):
        out[i] = x[i] * 2.0


@kernel("(n)->(n)")
def thrice(m, x, out):
    for i in range(x.n):
        out[i] = x[i] * 3.0


@kernel("(n)->(n)")
def more(m: object, x: object, out: object) -> None:
    for i in range(x.n):
        out[i] = x[i] + 1
"""


def test_a_file_that_is_replaced_while_the_program_runs(tmp_path):
    path = tmp_path / "some_kernels.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("some_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert cpu.kernel(module.twice, ("f32", "f32"))(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    path.write_text(SOURCE.replace("thrice", "other").replace("twice", "thrice").replace("other", "twice"))
    with pytest.raises(RuntimeError, match=r"thrice .* has changed since it was imported; start the program again"):
        cpu.kernel(module.thrice, ("f32", "f32"))
    path.write_text(SOURCE.replace("3.0", "5.0"))
    with pytest.raises(RuntimeError, match=r"thrice .* has changed since it was imported"):
        cpu.kernel(module.thrice, ("f32", "f32"))
    path.write_text(SOURCE)
    assert cpu.kernel(module.thrice, ("f32", "f32"))(np.ones(3, np.float32)).tolist() == [3, 3, 3]
    path.write_text(SOURCE.replace("+ 1", "+ 2"))
    with pytest.raises(RuntimeError, match=r"more .* has changed since it was imported"):
        cpu.kernel(module.more, ("f32", "f32"))
    path.write_text(SOURCE)  # annotations have code of their own from Python 3.14 on
    assert cpu.kernel(module.more, ("f32", "f32"))(np.ones(3, np.float32)).tolist() == [2, 2, 2]


ODD = """
from flambeau._kernel.loops.lang import kernel


@kernel("(n)->(n)")
def twice(m, x, out):
    '''The text of this one
goes on here.'''
    for i in range(x.n):
        out[i] = x[i] * 2.0
"""


def test_text_that_is_not_indented_as_usual_is_read_word_by_word(tmp_path):
    path = tmp_path / "odd_kernels.py"
    path.write_text(ODD)
    spec = importlib.util.spec_from_file_location("odd_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert cpu.kernel(module.twice, ("f32", "f32"))(np.ones(3, np.float32)).tolist() == [2, 2, 2]


@kernel("(n)->(n)")
def _logarithms(m, x, out, side_by_side):
    for i in independent(x.n, when=side_by_side, abreast=2):
        out[i] = m.library("log", x[i])


@pytest.mark.parametrize("side_by_side", [False, True])
def test_functions_of_the_c_library_and_loops_that_are_independent_on_a_condition(side_by_side):
    x = np.array([0.1, 0.7, 3.0, 1e300])
    assert _logarithms(("f64", "f64"), side_by_side=side_by_side)(x).tolist() == [math.log(v) for v in x]
    text = _logarithms.render(("f64", "f64"), {"side_by_side": side_by_side})
    assert ("llvm.loop.parallel_accesses" in text) is side_by_side


@kernel("(n)->()")
def _total(m, x, out):
    total = m.value(0, x.type)
    for i in range(x.n):
        total = total + x[i]
    out[()] = total


def test_a_caller_who_knows_how_operands_lie_gets_one_loop():
    types = ("f32", "f32")
    both, dense, apart = [_total.render(types, options) for options in ({}, {"adjacent": True}, {"adjacent": False})]
    assert [text.count("fadd") for text in (both, dense, apart)] == [2, 1, 1]
    x = np.arange(8, dtype=np.float32)
    assert _total(types)(x) == _total(types, adjacent=True)(x) == 28
    assert _total(types)(x[::2]) == _total(types, adjacent=False)(x[::2]) == 12
    assert _total(types, adjacent=False)(x) == 28


def test_kernels_without_vectors_are_compiled_as_they_are_written():
    """Elements that are merged follow from each other: passes that look for vectors take long, and copies of loops make it slower."""
    types = ("f64", "f64", "i64", "i64", "i64", "i64")
    text = sort.merge_sort.render(types, {"descending": False, "adjacent": True})
    assert AS_WRITTEN in text and AS_WRITTEN not in sort.top.render(("f32", "f32", "i64"), {"smallest": False})
