"""Generated matrix products against NumPy: every element type, layout, edge of a tile and bound of a block."""

import ctypes
import functools
import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from flambeau._backend import blas, threads
from flambeau._kernel.building import jit
from flambeau._kernel.loops.ufunc import addresses
from flambeau._kernel.products import gemm, gemm_bf16
from flambeau._kernel.render import tiles

TYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u1"]
SHAPES = [(1, 1, 1), (2, 3, 4), (14, 16, 32), (15, 17, 33), (70, 300, 37), (33, 31, 97), (5, 0, 3)]
_BEYOND = 1 << 20
TOLERANCE = {np.dtype("f4"): 1e-4, np.dtype("f8"): 1e-12, np.dtype("f2"): 2e-3, np.dtype(ml_dtypes.bfloat16): 1.6e-2}


def lay(array, layout):
    """The same values in another memory layout."""
    if layout == "transposed":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)
        wide[::2, ::3] = array
        return wide[::2, ::3]
    if layout == "reversed":
        return array[::-1, ::-1].copy()[::-1, ::-1]
    return array


def values(rng, shape, dtype):
    made = rng.standard_normal(shape)
    return (made * 20).astype("i8").astype(dtype) if np.dtype(dtype).kind in "iu" else made.astype(dtype)


def check(made, expected, dtype):
    assert made.dtype == np.dtype(dtype) and made.shape == expected.shape
    if np.dtype(dtype).kind in "iu":
        np.testing.assert_array_equal(made, expected)
    else:
        limit = TOLERANCE[np.dtype(dtype)]
        np.testing.assert_allclose(made.astype("f8"), expected, rtol=limit, atol=limit)


def reference(x, y):
    if x.dtype.kind in "iu":
        return np.matmul(x, y)
    return np.matmul(x.astype("f8"), y.astype("f8"))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("left", ["plain", "transposed", "strided", "reversed"])
@pytest.mark.parametrize("right", ["plain", "transposed", "strided"])
def test_every_type_and_layout(dtype, left, right):
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        x, y = lay(values(rng, (m, k), dtype), left), lay(values(rng, (k, n), dtype), right)
        check(blas.product(x, y), reference(x, y), dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"], ids=str)
@pytest.mark.parametrize("left", ["plain", "transposed"])
def test_batches_whose_right_operands_are_read_where_they_lie(dtype, left):
    """They are as wide as a tile, so packing would leave them as they are, or small; those of the next product are asked for."""
    rng = np.random.default_rng(5)
    for items, m, k in [(3, 130, 2 * tiles.depth() + 5), (4, 128, 128), (2, 130, tiles.depth())]:
        n = blas._tile({"f4": "f32", "f8": "f64"}[dtype], m, 64)[1] * tiles.vectors()[0] // np.dtype(dtype).itemsize
        x, y = values(rng, (items, m, k), dtype), values(rng, (items, k, n), dtype)
        if left == "transposed":
            x = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        check(blas.product(x, y), reference(x, y), dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"], ids=str)
@pytest.mark.parametrize("cores", [1, 2])
def test_turned_left_operands_are_kept_for_all_strips(dtype, cores, monkeypatch):
    code = {"f4": "f32", "f8": "f64", "i4": "i32"}[dtype]
    monkeypatch.setattr(threads._pool, "size", cores)
    rng = np.random.default_rng(6)
    for m, k in [(131, tiles.depth() + 7), (500, 70)]:
        n = 2 * cores * tiles.strip_bytes() // (tiles.depth() * np.dtype(dtype).itemsize) + 9
        assert gemm.kept(code, *blas._tile(code, m, n), m, n)
        x, y = values(rng, (k, m), dtype).T, values(rng, (k, n), dtype)
        check(blas.product(x, y), reference(x, y), dtype)
        check(blas.product(x[3:], y), reference(x[3:], y), dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"], ids=str)
@pytest.mark.parametrize("cores", [1, 2])
def test_nothing_is_written_beyond_the_scratch(dtype, cores, monkeypatch):
    """Also not by the lanes of a vector that no panel of few rows has a place for, where panels are kept for all strips."""
    monkeypatch.setattr(threads._pool, "size", cores)
    rooms = []

    def take(size):
        rooms.append(np.full(size + _BEYOND, 0xA5, np.uint8))
        return rooms[-1][:size]

    monkeypatch.setattr(blas.workspace, "take", take)
    rng = np.random.default_rng(8)
    k, n = 600, 2 * cores * tiles.strip_bytes() // (tiles.depth() * np.dtype(dtype).itemsize) + 9
    for m in (1, 3, 5, 17, 23, 31, 113):
        x, y = values(rng, (k, m), dtype).T, values(rng, (k, n), dtype)
        for left, right in ((x, y), (x.copy(), y), (x, np.asfortranarray(y)), (x.copy(), np.asfortranarray(y))):
            check(blas.product(left, right), reference(x, y), dtype)
            size = len(rooms[-1]) - _BEYOND
            assert (rooms[-1][size:] == 0xA5).all(), (m, left.strides, right.strides)


@pytest.mark.parametrize("dtype", ["f4", ml_dtypes.bfloat16], ids=str)
def test_blocks_of_depth_rows_and_columns(dtype):
    rng = np.random.default_rng(1)
    for m, k, n in [(3, 2 * tiles.depth() + 5, 7), (700, 40, 9), (9, 40, 1500)]:
        x, y = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
        np.testing.assert_allclose(blas.product(x, y).astype("f8"), reference(x, y), rtol=2e-2, atol=0.3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"], ids=str)
def test_some_rows_take_dense_rows_of_the_right_operand_in_short_blocks(dtype):
    """From one panel of rows to the last that is not worth packing for, over whole tiles and a rest, in blocks of each length."""
    rng = np.random.default_rng(9)
    for n in (256, 333, 1024, 1025):
        for m, k in ((17, 31), (40, 70), (64, 300), (65, 300)):
            x, y = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
            check(blas.product(x, y), reference(x, y), dtype)
            turned = np.ascontiguousarray(x.T).T
            check(blas.product(turned, y), reference(x, y), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 16])
def test_few_rows_leave_the_right_operand_where_it_lies(dtype, rows):
    """Every width of the last tile, ends of the depth, and rows so long that their sums are cut."""
    rng = np.random.default_rng(9)
    for k in (1, 7, 64, 4200):
        x = values(rng, (rows, k), dtype)
        for n in (1, 2, 5, 31, 130, 700):
            weight, bias = values(rng, (n, k), dtype), values(rng, n, dtype)
            expected = reference(x, weight.T)
            for y in (weight.T, np.ascontiguousarray(weight.T)):
                limit = 0 if dtype == "i8" else 1e-3
                np.testing.assert_allclose(blas.product(x, y), expected, rtol=limit, atol=limit)
                added = blas.add_product(bias, x, y, 2, 3)
                np.testing.assert_allclose(added, 3 * expected + 2 * bias, rtol=limit, atol=4 * limit)


def test_infinities_beyond_the_depth_are_not_seen():
    """The end of the depth is read by a mask, not by vectors that are later multiplied with zeros."""
    wide = np.full((4, 9), np.inf, np.float32)
    wide[:, :7] = 1
    x = np.ones((3, 9), np.float32)[:, :7]
    np.testing.assert_array_equal(blas.product(x, wide[:, :7].T), np.full((3, 4), 7))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((200, 300), (300,)), ((300,), (300, 200)), ((3000, 900), (900,)), ((900,), (900, 3000)), ((5, 3, 4), (5, 4, 1)),
        ((7, 1, 64), (7, 64, 300)), ((40, 500, 300), (40, 300, 1)), ((4, 1, 6, 5), (3, 5, 1)), ((6, 5), (2, 5, 1)),
        ((3, 0), (0, 1)), ((0, 3), (3,)), ((1, 3000), (3000, 1)), ((1, 0), (0, 1)), ((70000,), (70000,)),
    ],
)  # fmt: skip
def test_vectors_and_single_columns(x, y):
    rng = np.random.default_rng(10)
    x, y = (values(rng, shape, "f4") for shape in (x, y))
    made, expected = blas.product(x, y), reference(x, y)
    assert made.shape == expected.shape and made.flags.c_contiguous
    np.testing.assert_allclose(made, expected, rtol=1e-3, atol=1e-2)
    if x.ndim > 1:
        c = values(rng, expected.shape, "f4")
        np.testing.assert_allclose(blas.add_product(c, x, y, 2, 3), 3 * expected + 2 * c, rtol=1e-3, atol=3e-2)


@pytest.mark.parametrize(
    "dtype", ["f4", "f8", "f2", ml_dtypes.bfloat16, "i8", pytest.param("u1", marks=pytest.mark.slow)], ids=str
)
def test_added(dtype):
    rng = np.random.default_rng(2)
    for m, k, n in [(2, 3, 4), (15, 17, 33), (20, 600, 64)]:
        x, y, c = values(rng, (m, k), dtype), values(rng, (k, n), dtype), values(rng, n, dtype)
        wide = np.dtype("f8") if x.dtype.kind not in "iu" else x.dtype
        expected = (3 * reference(x, y) + 2 * c.astype(wide)).astype(wide)
        made = blas.add_product(c, x, y, 2, 3)
        limit = 0 if x.dtype.kind in "iu" else TOLERANCE[x.dtype] * 4
        np.testing.assert_allclose(made.astype("f8"), expected.astype("f8"), rtol=limit, atol=limit * 4)


def test_beta_of_zero_leaves_nan_unread():
    for dtype in ("f4", "f8", "f2", ml_dtypes.bfloat16):
        x = np.eye(5).astype(dtype)
        made = blas.add_product(np.full((5, 5), np.nan).astype(dtype), x, x, 0, 2)
        np.testing.assert_array_equal(made.astype("f8"), 2 * np.eye(5))


def test_nothing_is_written_outside_the_result():
    rng = np.random.default_rng(3)
    for dtype in ("f4", "f8", "i2"):
        frame = np.full((80, 80), 7, dtype)
        x, y = values(rng, (17, 9), dtype), values(rng, (9, 35), dtype)
        function, size = gemm.gemm({"f4": "f32", "f8": "f64", "i2": "i16"}[dtype], tiles.height(17), False)
        for part in (frame[3:20, 5:40], frame.T[3:20, 5:40], frame[3:37:2, 5:75:2]):
            function(x, y, np.empty(size, np.uint8), part)
            check(part, reference(x, y), dtype)
            part[...] = 7
            assert (frame == 7).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", pytest.param("i4", marks=pytest.mark.slow)])
def test_operands_that_lie_depth_by_depth(dtype):
    """As the input and the weight of a layer do; few columns are then multiplied the other way round."""
    rng = np.random.default_rng(8)
    better = functools.partial(blas._better_turned, "f32")
    assert better(64, 512) and not better(512, 64) and not better(2, 512) and better(512, 2)
    for m, k, n in [(64, 300, 512), (33, 530, 200), (31, 150, 601)]:
        x, weight = values(rng, (m, k), dtype), values(rng, (n, k), dtype)
        limit = 0 if dtype == "i4" else TOLERANCE[np.dtype(dtype)]
        np.testing.assert_allclose(blas.product(x, weight.T), reference(x, weight.T), rtol=limit, atol=limit)
        for c in (values(rng, n, dtype), values(rng, (m, n), dtype), values(rng, (m, 1), dtype)):
            made, expected = blas.add_product(c, x, weight.T, 2, 3), 3 * reference(x, weight.T) + 2 * c
            assert made.flags.c_contiguous
            np.testing.assert_allclose(made, expected, rtol=limit, atol=4 * limit)


WITHOUT = pytest.param(None, marks=pytest.mark.skip(reason="this CPU has no instructions for pairs of bfloat16"))
PAIRS = {"tiles": ["tiles", "dots"], "dots": ["dots"], None: [WITHOUT]}[gemm_bf16.instructions()]


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_write_nothing_outside_the_result(kind):
    rng = np.random.default_rng(4)
    x, y = values(rng, (37, 50), ml_dtypes.bfloat16), values(rng, (50, 45), ml_dtypes.bfloat16)
    frame = np.full((60, 70), 3, np.uint16)
    for part in (frame[5:42, 4:49], frame.T[5:42, 4:49]):  # row-major and column-major
        function, size = gemm_bf16.gemm(kind, False, 50)
        function(x.view("u2"), y.view("u2"), np.empty(size, np.uint8), part)
        check(part.view(ml_dtypes.bfloat16), reference(x, y), ml_dtypes.bfloat16)
        part[...] = 3
        assert (frame == 3).all()


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("threads_", [1, 2, 5])
@pytest.mark.parametrize("left", ["plain", "transposed", "strided", "reversed"])
def test_pairs_in_pieces(kind, threads_, left, request):
    """Last rows, columns and depths; several slices of the depth, chunks of rows and threads that share the pieces."""
    rng, before = np.random.default_rng(8), threads.get_num_threads()
    request.addfinalizer(lambda: threads.set_num_threads(before))
    threads.set_num_threads(threads_)
    sizes = [
        (64, 64, 64),
        (33, 33, 33),
        (47, 1, 16),
        (16, 560, 130),
        (600, 1100, 65),
        (1500, 560, 200),
        (100, 31, 700),
        (4200, 3, 5),
        (5, 0, 3),
    ]
    for m, k, n in sizes:
        x, y = lay(values(rng, (m, k), ml_dtypes.bfloat16), left), values(rng, (k, n), ml_dtypes.bfloat16)
        function, size = gemm_bf16.gemm(kind, True, k, threads_)
        room, guard = np.full(size + 64, 0xAB, np.uint8), np.full(64, 0xAB, np.uint8)
        c, factor, made = values(rng, (m, n), ml_dtypes.bfloat16), np.float32(2), np.empty((m, n), np.uint16)
        for right in (y, np.asfortranarray(y)):
            operands = (x.view("u2"), right.view("u2"), c.view("u2"), np.float32(1), factor, room[:size])
            function(*operands, made)
            exact = reference(x, y) + 2 * c.astype("f8")
            np.testing.assert_allclose(made.view(ml_dtypes.bfloat16).astype("f8"), exact, rtol=8e-3, atol=2e-2)
        np.testing.assert_array_equal(room[size:], guard)


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_do_not_read_beyond_rows(kind):
    """What lies behind the end of the depth, after the last row or between rows is not part of any sum."""
    for m, k in [(32, 33), (40, 40), (17, 64), (64, 31)]:
        frame = np.full((m + 40, 128), np.nan, np.float32).astype(ml_dtypes.bfloat16)
        frame[:m, :k] = 1
        y = np.ones((k, 40), ml_dtypes.bfloat16)
        for x in (frame[:m, :k], frame.T[:k, :m].T):
            function, size = gemm_bf16.gemm(kind, False, k, 2)
            made = np.empty((m, 40), np.uint16)
            function(x.view("u2"), y.view("u2"), np.empty(size, np.uint8), made)
            assert (made.view(ml_dtypes.bfloat16).astype("f4") == k).all()


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_keep_infinities_and_nan(monkeypatch, kind):
    monkeypatch.setattr(gemm_bf16, "instructions", lambda: kind)
    x = np.ones((70, 600), ml_dtypes.bfloat16)
    x[3, 599], x[40, 0], x[69, 32] = np.inf, np.nan, -np.inf
    made = blas.product(x, np.ones((600, 90), ml_dtypes.bfloat16)).astype("f4")
    assert (made[3] == np.inf).all() and np.isnan(made[40]).all() and (made[69] == -np.inf).all()
    assert (np.delete(made, [3, 40, 69], 0) == 600).all()


@pytest.mark.parametrize("kind", PAIRS)
def test_scratch_of_pairs_is_bounded(kind):
    for k in (1, 512, gemm_bf16.DEPTH):
        assert gemm_bf16.gemm(kind, False, k, 2)[1] < 20 << 20


@pytest.mark.parametrize("kind", [*[kind for kind in PAIRS if kind is not WITHOUT], None])
@pytest.mark.parametrize("right", ["plain", "transposed", "strided"])
def test_bfloat16_is_rounded_once(monkeypatch, kind, right):
    monkeypatch.setattr(gemm_bf16, "instructions", lambda: kind)
    rng = np.random.default_rng(5)
    for m, k, n in [(20, 700, 33), (1, 3, 1), (45, 32, 16), (300, 1100, 40), (40, 1100, 600)]:
        x, y = values(rng, (m, k), ml_dtypes.bfloat16), lay(values(rng, (k, n), ml_dtypes.bfloat16), right)
        for left in (x, np.asfortranarray(x)):
            made, exact = blas.product(left, y).astype("f8"), reference(x, y)
            assert (made == exact.astype(ml_dtypes.bfloat16).astype("f8")).mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_any_number_of_threads(count):
    rng = np.random.default_rng(6)
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    try:
        for shape, other in [((300, 200), (200, 500)), ((5, 3, 60, 90), (3, 90, 200)), ((1, 300, 300), (40, 300, 50))]:
            x, y = rng.standard_normal(shape), rng.standard_normal(other)
            np.testing.assert_allclose(blas.product(x, y), np.matmul(x, y), atol=1e-10)
            c = rng.standard_normal(other[-1])
            np.testing.assert_allclose(blas.add_product(c, x, y, 1, 1), np.matmul(x, y) + c, atol=1e-10)
    finally:
        threads.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "registers"), [(16, 16), (16, 32), (32, 16)])
def test_narrower_vectors(monkeypatch, width, registers):
    """The tiles of other CPUs: LLVM makes do with what there is. They are not taken for this one's, which are kept on disk, too."""
    own, usual = tiles.vectors(), addresses[gemm.gemm.__wrapped__("f32", 8, False, wide=2)[0]]
    monkeypatch.setattr(tiles, "vectors", lambda: (width, registers))
    other = addresses[gemm.gemm.__wrapped__("f32", 8, False, wide=2)[0]]
    assert (other != usual) == (own[0] != width)
    rng = np.random.default_rng(7)
    for code, dtype in (("f32", "f4"), ("f64", "f8")):
        for m, k, n in [(15, 17, 33), (30, 70, 20)]:
            x, y = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
            for wide in (2, 3, 4) if registers == 32 else (2,):
                function, size = gemm.gemm.__wrapped__(code, tiles.height(m, wide), False, wide=wide)
                for left in (x, np.asfortranarray(x)):
                    check(function(left, y, np.empty(size, np.uint8)), reference(x, y), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_tiny_matrices_beside_many_rows(dtype):
    rng = np.random.default_rng(5)
    for batch in ((), (3,), (2, 5)):
        for m, k, n in itertools.product((64, 97, 4096), (1, 2, 3, 4), (1, 2, 3, 4)):
            wide = (rng.standard_normal((*batch, m, 2 * k)) * 10).astype(dtype)
            y = (rng.standard_normal((*batch, k, n)) * 10).astype(dtype)
            turned = np.ascontiguousarray(wide[..., :k].swapaxes(-1, -2)).swapaxes(-1, -2)
            for x in (np.ascontiguousarray(wide[..., :k]), wide[..., ::2], wide[..., :k], turned, wide[..., ::-1, k:]):
                for right in (y, np.ascontiguousarray(y.swapaxes(-1, -2)).swapaxes(-1, -2)):
                    np.testing.assert_allclose(blas.product(x, right), np.matmul(x, right), rtol=1e-4, atol=1e-3)
            spread = np.broadcast_to(wide[..., :1, :k], (*batch, m, k))
            np.testing.assert_allclose(blas.product(spread, y), np.matmul(spread, y), rtol=1e-4, atol=1e-3)


def test_products_with_nothing_in_between():
    x, y = np.ones((100, 0), np.float32), np.ones((0, 3), np.float32)
    assert (blas.product(x, y) == 0).all() and blas.product(x.T[:, :0], y[:, :0].T[:0]).shape == (0, 0)
    assert blas.product(np.ones((2, 70, 3), np.float32), np.ones((2, 3, 0), np.float32)).shape == (2, 70, 0)


@pytest.mark.parametrize("grid", [(1, 2, 1), (1, 1, 3), (2, 1, 2)])
@pytest.mark.parametrize("code", ["f32", "f64", "i32"])
def test_every_thread_has_scratch_of_its_own(code, grid):
    alone = gemm.gemm(code, tiles.height(17), False)[1]
    for count in (2, 3):
        whole = gemm.gemm(code, tiles.height(17), False, grid, threads=count)[1]
        assert whole % count == 0 and whole // count >= alone


def test_threads_share_more_parts_than_they_are():
    rng = np.random.default_rng(6)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 150, 200), (3, 200, 260)))
    plain, size = gemm.gemm("f32", 6, False, wide=4)
    expected = plain(x, y, np.empty(size, np.uint8))
    function, size = gemm.gemm("f32", 6, False, (3, 4, 2), 4, threads=3)

    def compute(_):
        return all((function(x, y, np.empty(size, np.uint8)) == expected).all() for _ in range(20))

    with ThreadPoolExecutor(3) as several:
        assert all(several.map(compute, range(6)))


def test_large_products_are_cut_into_parts_that_are_worth_it():
    assert blas.cells(1024, 1024, 2) in ((2, 4), (4, 2)) and blas.cells(1024, 1024, 16) == (8, 8)
    assert blas.cells(256, 256, 2) == (2, 2) and blas.cells(128, 128, 2) in ((1, 2), (2, 1))
    assert blas.cells(64, 2048, 2) == (1, 8)
    assert blas.cells(4, 4096, 2) == (1, 2)  # rows of the right operand stay long


@pytest.mark.parametrize("number", [1, 2, 3, 6, 7, 14, 30, 48, 96, 128])
def test_numbers_are_divided_by_shares(number):
    r = tiles.Vectors("divided", ["ptr %args", "i64 %x", "i64 %share"], tiles.Plan("f32", 6))
    r.store("%args", "i64", gemm._divided(r, r.i64("%x"), "%share"))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64)(
        jit.compile("divided", r.text())
    )
    made = ctypes.c_int64()
    bounds = [n for b in (0, number, 1 << 20, 1 << 32, 1 << 50, (1 << 63) // number) for n in (b - 1, b, b + 1)]
    for x in [n for n in bounds if 0 <= n < (1 << 63) // number]:
        function(ctypes.addressof(made), x, gemm._share(number))
        assert made.value == x // number


_ON_THE_STACK = """
import platform, re, sys
machine, cpu = sys.argv[1:]
platform.machine = lambda: machine  # before the renderers ask
from flambeau._kernel.building import cpus, jit, llvm
target = cpus.named(cpu).target(llvm.host().llvm)
jit.gather(target, str)
from flambeau._kernel.products import gemm
from flambeau._kernel.render import tiles
for type in ("f32", "f64"):
    for wide in (w for w in (2, 3, 4) if w in tiles._MOST_ROWS[tiles.vectors()[1]]):
        context, made = llvm.loaded().create_context(), llvm._machine(target)
        text = gemm.render(tiles.Plan(type, tiles.tile(wide, type), wide), False)
        text = re.sub(".* asm sideeffect .msr .*", "", text)  # outside of the loop; parsed on machines of its kind alone
        module = llvm.improved(target, text, context, made)
        text = made.emit_assembly(module)
        module.close()
        tile = text[text.index("\\ntile:") :].partition(".Lfunc_end")[0]
        loop = max(re.split(r"\\n\\.L\\w+:", tile), key=lambda block: len(re.findall("fmadd|fmla", block)))
        moved = re.findall(r"[xyz]mm\\d+[^\\n]*\\(%rsp\\)|\\(%rsp\\)[^\\n]*[xyz]mm|[qdv]\\d+[^\\n]*\\[sp", loop)
        print(type, wide, len(re.findall("fmadd|fmla", loop)), len(moved))
"""


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "neoverse-n1"])
def test_operands_of_a_tile_hardly_leave_registers(cpu):
    machine = "aarch64" if cpu.startswith("neo") else "x86_64"
    done = subprocess.run([sys.executable, "-c", _ON_THE_STACK, machine, cpu], capture_output=True, text=True)
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) >= 2, done.stderr
    for type, wide, products, moved in found:
        assert int(products) >= 32 and int(moved) * 6 <= int(products), (type, wide, products, moved)


_PAIRS = """
import platform, re, sys
platform.machine = lambda: "x86_64"  # before the renderers ask
from flambeau._kernel.building import cpus, jit, llvm
target = cpus.named("x86-64-v4").target(llvm.host().llvm)
target = target._replace(features=target.features + ",+avx512bf16,+amx-bf16,+amx-tile")
jit.gather(target, str)
from flambeau._kernel.products import gemm_bf16
for kind in ("tiles", "dots"):
    context, made = llvm.loaded().create_context(), llvm._machine(target)
    module = llvm.improved(target, gemm_bf16._kernel.__wrapped__.__wrapped__(kind, True), context, made)
    text = made.emit_assembly(module)
    module.close()
    print(kind, text.count("tdpbf16ps"), text.count("vdpbf16ps"), text.count("ldtilecfg"), text.count("tilerelease"))
"""


@pytest.mark.slow
def test_pairs_are_made_for_other_machines():
    done = subprocess.run([sys.executable, "-c", _PAIRS], capture_output=True, text=True)
    (_, *tiles_), (_, *dots) = [line.split() for line in done.stdout.splitlines()] or [done.stderr, ""]
    tiles_, dots = [*map(int, tiles_)], [*map(int, dots)]
    assert tiles_[0] >= 9 and tiles_[1:] == [0, 1, 1]  # tiles of all heights and widths, opened and closed once
    assert dots[0] == 0 and dots[1] >= 8 and dots[2:] == [0, 0]
