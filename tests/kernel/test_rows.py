"""Programs along rows as machine code: rows, columns, what all rows share, numbers, sums over rows."""

import numpy as np
import pytest

from flambeau._backend.cpu import cpu
from flambeau._kernel.folds.rows import Rows, row_kernel, visits
from flambeau._kernel.loops.keys import described

RANDOM = np.random.default_rng(0)

# the distance of each element from the mean of its row, in units of a number
CENTRED = Rows(
    (("sum", lambda m, x, unit, count: x, lambda m, total, count: m.cast(total / m.cast(count, "f64"), "f32")),),
    lambda m, x, unit, mean, count: (x - mean) / m.cast(unit, "f32"),
    fixed=1,
    numbers=1,
)


def centred(x, dims, unit):
    return (x - x.mean(axis=dims, keepdims=True, dtype=np.float64)) / unit


@pytest.mark.parametrize(
    "shape, dims",
    [
        ((3, 7), (1,)),
        ((2, 1300), (1,)),  # several blocks
        ((70, 9), (0,)),  # columns, more than are summed in their own precision
        ((9, 300), (0,)),  # more columns than are carried along together
        ((5, 4, 3), (1,)),  # few columns
        ((2, 3, 4, 5), (1, 2)),
        ((600, 700), (1,)),  # by all threads
        ((600, 700), (0,)),
        ((0, 3), (1,)),
    ],
)
def test_along_dimensions(shape, dims):
    x = RANDOM.standard_normal(shape).astype(np.float32)
    out = np.full(shape, 9, np.float32)
    cpu.along.run("centred", CENTRED, [x], [out], dims, (0.5,))
    np.testing.assert_allclose(out, centred(x, dims, 0.5), atol=2e-6)


def test_operands_that_do_not_lie_densely():
    x = RANDOM.standard_normal((6, 5)).astype(np.float32)
    out = np.empty((5, 6), np.float32)
    cpu.along.run("centred", CENTRED, [x.T], [out], (1,), (2.0,))
    np.testing.assert_allclose(out, centred(x.T, 1, 2.0), atol=1e-6)


def test_dimensions_that_are_no_neighbours():
    total = Rows((("sum", lambda m, x, count: x),), lambda m, total, count: total, each=False)
    x, out = RANDOM.standard_normal((3, 4, 5)), np.empty(4)
    cpu.along.run("total", total, [x], [out], (0, 2))
    np.testing.assert_allclose(out, x.sum((0, 2)))


def test_what_all_rows_share_and_one_number_for_all():
    program = Rows(
        (("sum", lambda m, g, x, count: g * x),), lambda m, g, x, w, total, count: m.cast(total, "f32") + g * w, late=1
    )
    g, x, w = np.float32([2]), RANDOM.standard_normal((4, 6)).astype(np.float32), np.arange(6, dtype=np.float32)
    for flat in (np.broadcast_to(g, (4, 6)), np.full((4, 6), 2, np.float32)):
        out = np.empty((4, 6), np.float32)
        cpu.along.run("shared", program, [flat, x, w], [out], (1,))
        np.testing.assert_allclose(out, 2 * x.sum(1, keepdims=True) + 2 * w, rtol=1e-5, atol=1e-5)


def test_places_picked_and_told():
    picked = Rows(
        (("max", lambda m, x, place, own, count: x - own),), lambda m, place, own, gap, count: (gap, own + gap),
        each=False, fixed=1, picks=((0, 0),),
    )  # fmt: skip
    x, place = RANDOM.standard_normal((3, 5)), np.array([4, 0, 2])
    gap, high = np.empty(3), np.empty(3)
    cpu.along.run("picked", picked, [x, place], [gap, high], (1,))
    np.testing.assert_array_equal(gap, x.max(1) - x[range(3), place])
    turned = np.ascontiguousarray(np.repeat(x, 4, 0).T)  # columns, which are carried along together
    gaps, highs = np.empty(12), np.empty(12)
    cpu.along.run("picked", picked, [turned, np.repeat(place, 4)], [gaps, highs], (0,))
    np.testing.assert_array_equal(gaps, np.repeat(gap, 4))
    told = Rows((), lambda m, x, place, count, i: m.where(i == place, 0.0, x), fixed=1, indexed=True)
    cpu.along.run("told", told, [x, place], [out := np.empty((3, 5))], (1,))
    assert (out == np.where(np.arange(5) == place[:, None], 0, x)).all()
    others = Rows(
        (("sum", lambda m, x, place, count, i: m.where(i == place, 0.0, x)),), lambda m, place, total, count: total,
        each=False, fixed=1, indexed=True,
    )  # fmt: skip
    cpu.along.run("others", others, [x, place], [sums := np.empty(3)], (1,))
    np.testing.assert_allclose(sums, x.sum(1) - x[range(3), place], rtol=1e-12)


def test_what_the_last_stage_lifted_is_used_again():
    program = Rows(
        (("peak", lambda m, x, count: x), ("sum", lambda m, x, high, count: m.decay(x - high))),
        lambda m, e, high, total, count: e / m.cast(total, e.type),
        reused=True,
    )
    for shape, dim in (((3, 6), 1), ((6, 30), 0)):
        for d, error in ((np.float32, 1e-6), (np.float16, 1e-3)):
            x = RANDOM.standard_normal(shape).astype(d)
            wanted = np.exp(x.astype(float)) / np.exp(x.astype(float)).sum(dim, keepdims=True)
            np.testing.assert_allclose(cpu.along.map("share", program, [x], dim), wanted, atol=error)


def test_stages_that_do_not_need_each_other_are_one_visit():
    first, second = ("sum", lambda m, x, count: x), ("sum", lambda m, x, total, count: x * x)
    third = ("sum", lambda m, x, total, squares, count: x * m.cast(total, x.type))
    assert visits(Rows((first, second), max), ["f32"]) == [[0, 1]]
    assert visits(Rows((first, second, third), max), ["f32"]) == [[0, 1], [2]]


def test_past_the_caches_it_computes_the_same():
    x = RANDOM.standard_normal((5, 333)).astype(np.float32)
    unit, made = np.asarray(0.5), []
    for stream in (False, True):
        out = np.empty_like(x)
        cpu.kernel(row_kernel("centred", CENTRED, ("n", "", "n"), 2), ("f32", "f64", "f32"), stream=stream)(
            x, unit, out
        )
        made.append(out)
    np.testing.assert_array_equal(*made)


def test_programs_are_known_by_their_text_and_constants():
    def made(number):
        return lambda m, x: x + number

    assert described(made(1)) == described(made(1)) != described(made(2))
    assert described(lambda m, x: x) != described(lambda m, x: -x)
    assert described(made(object())) is None
    one, two = made(1), made(2)
    assert described(lambda m, f=one: f) != described(lambda m, f=two: f)
    assert described(one, "flambeau.") is None  # files that nobody looks at


@pytest.mark.parametrize("count", [3, 150, 3000])  # the last by all threads
def test_sums_over_all_rows_come_with_a_program(count):
    program = Rows(
        (("sum", lambda m, g, x, level, *rest: g),),
        lambda m, g, x, level, total, n: g * x + level,
        fixed=1,
        down=(lambda m, g, x, level, n: g * x, lambda m, g, x, level, n: x - level),
    )
    x, level = RANDOM.standard_normal((count, 40)).astype(np.float32), RANDOM.standard_normal(count).astype(np.float32)
    for g in (RANDOM.standard_normal(x.shape).astype(np.float32), np.broadcast_to(np.float32(3), x.shape)):
        out = np.empty_like(x)
        products, distances = cpu.along.run_down("sums", program, [g, x, level], out, np.dtype(np.float64))
        np.testing.assert_allclose(out, g * x + level[:, None], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(products, (g * x).sum(0, dtype=float), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(distances, (x - level[:, None]).sum(0, dtype=float), rtol=1e-4, atol=1e-3)
