"""Pointwise calls on operands in any order give what NumPy gives."""

import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.loops import pointwise
from flambeau._kernel.native import walks
from flambeau._kernel.threads import pool

F32 = np.dtype(np.float32)
BASE = np.random.default_rng(0).standard_normal((6, 10, 8, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def add():
    return pointwise.pointwise_ufunc("walked_add", lambda m, x, y: x + y, ("f32", "f32"), ("f32",), ("f32", "f32"))


VIEWS = {
    "dense": BASE, "turned": BASE.transpose(3, 1, 2, 0).transpose(3, 1, 2, 0), "channels last": np.ascontiguousarray(BASE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "columns": np.asfortranarray(BASE), "backwards": BASE[::-1, :, ::-1, :], "one": BASE[:1, :1, :1, :1], "row": BASE[0, 0, :1], "rows": BASE[:, :, :, :1],
    "planes": BASE[:, :1], "spread": np.broadcast_to(BASE[:1], BASE.shape), "reversed line": BASE[..., ::-1],
    "wide": np.repeat(BASE, 2, 3)[..., ::2], "scalar": BASE[0, 0, 0, 0, ...], "float": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("left, right", list(itertools.product(VIEWS, VIEWS)))
def test_all_pairs_of_layouts(add, left, right):
    x, y = VIEWS[left], VIEWS[right]
    if left == "float":
        return
    made = walks.arranged(add, (x, y), (F32,))
    np.testing.assert_array_equal(made, np.add(x, np.float32(y)))
    arrays = [a for a in (x, y) if isinstance(a, np.ndarray)]
    shape, strides = walks.arrangement(arrays, False)
    if not all(a.flags.c_contiguous for a in arrays):
        assert (made.shape, made.strides) == (shape, tuple(4 * s for s in strides))


def test_operands_of_other_kinds_are_refused(add):
    x = BASE[:, :, :, ::2]
    crooked = np.zeros(BASE.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(BASE.shape)[:, :, :, ::2]
    np.testing.assert_array_equal(walks.arranged(add, (x, crooked), (F32,)), x)
    with pytest.raises(TypeError):
        walks.arranged(add, (x, x.view(np.int32)), (F32,))


@pytest.mark.parametrize("threads", [1, 3])
def test_much_work_is_shared(add, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = np.random.default_rng(1).standard_normal((501, 403)).astype(np.float32)
        assert x.size >= pool.WORTHWHILE
        for y in (x[:, ::-1], x[:1], x[:, :1]):
            np.testing.assert_array_equal(walks.arranged(add, (x, y), (F32,)), x + y)
        with pytest.raises(TypeError):
            walks.arranged(add, (x, x[:, ::-1].view(np.int32)), (F32,))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.complex64])
def test_tensors_of_other_dtypes(dtype):
    x = torch.arange(7 * 30 * 20).reshape(7, 30, 20).to(dtype)
    for y in (
        x[:, :1],
        x[..., :1],
        x.flip(0),
        x.transpose(0, 2).contiguous().transpose(0, 2),
        x[:, 1:, :-1][:, :1, :1],
    ):
        dense = y.expand_as(x).contiguous()
        assert torch.equal(x + y, x + dense) and torch.equal(y * x, dense * x)


def test_nine_dimensions():
    x = torch.arange(2**9 * 3.0).reshape(*[2] * 9, 3).permute(8, 0, 6, 2, 4, 9, 1, 3, 5, 7)
    y = x.contiguous()
    assert torch.equal(x + x[:, :1, :, :1, :, :, :1], y + y[:, :1, :, :1, :, :, :1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_beside_short_floats_have_plans_that_round_as_calls_do(dtype):
    for x in (torch.randn(9, 7).to(dtype), torch.randn(7, 9).to(dtype).t()):
        for number in (2.0, 0.1, -3.3, 5, 1e-3):
            for call in (
                torch.mul,
                torch.div,
                torch.add,
                torch.sub,
                lambda a, n: n / a,
                lambda a, n: a.clone().mul_(n),
            ):
                first, *others = [call(x, number) for _ in range(4)]
                assert all(torch.equal(first, made) and first.stride() == made.stride() for made in others)
            x.requires_grad_()
            nodes = [torch.mul(x, number).grad_fn for _ in range(4)]
            assert len({(type(n), n.name()) for n in nodes}) == 1
            grads = [torch.autograd.grad(torch.mul(x, number).sum(), x)[0] for _ in range(4)]
            assert all(torch.equal(grads[0], g) for g in grads)
            x.requires_grad_(False)


@pytest.mark.sweep
@pytest.mark.parametrize("m, n", [(512, 512), (1024, 512), (520, 1600)])
@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.int32])
def test_operands_that_lie_across_the_result_are_turned_first(m, n, d):
    from flambeau._backend.cpu import better_turned

    a, b = (torch.arange(m * n).reshape(m, n).remainder(p).to(d) for p in (997, 1009))
    x, y = a.numpy().copy(), b.numpy().copy()
    across = b.t().contiguous().t()
    assert better_turned([(z.shape, z.strides, z.itemsize) for z in (a._array, across._array, a._array)]) == [1]
    for _ in range(4):  # planned, if it were to be
        np.testing.assert_array_equal((a + across).numpy(), x + y)
        made = across - a
        np.testing.assert_array_equal(made.numpy(), y - x)
        assert made.stride() == across.stride()
        np.testing.assert_array_equal(torch.where(a > across, a, across).numpy(), np.maximum(x, y))
    out = torch.empty(n, m, dtype=d).t()
    torch.mul(a, across, out=out)
    np.testing.assert_array_equal(out.numpy(), x * y)
    a.add_(across)
    np.testing.assert_array_equal(a.numpy(), x + y)


def test_a_square_is_written_while_it_is_read_across():
    a = torch.arange(1024.0 * 1024).reshape(1024, 1024)
    x = a.numpy().copy()
    batch = torch.stack([a, a + 1]).transpose(1, 2)
    np.testing.assert_array_equal((batch + a).numpy(), np.stack([x.T + x, x.T + x + 1]))
    a.add_(a.t().clone())
    np.testing.assert_array_equal(a.numpy(), x + x.T)


SHORT = [((900, 5), (5,)), ((2500, 3), (3,)), ((40, 6, 7, 4), (4,)), ((70, 20, 5), (20, 1)), ((60, 90, 2, 2), (90, 1, 1)), ((3, 700, 5), (3, 1, 5)),
         ((613, 7), (613, 1)), ((9, 1, 8, 11), (7, 1, 11)), ((40, 33), (33,))]  # fmt: skip


@pytest.mark.parametrize("kinds", [(torch.float32, torch.float32), (torch.float64, torch.float32), (torch.bfloat16, torch.bfloat16),
                                   (torch.uint8, torch.int64), (torch.complex64, torch.complex64)])  # fmt: skip
@pytest.mark.parametrize("shapes", SHORT)
def test_operands_that_begin_anew_after_a_few_elements(shapes, kinds):
    x, y = ((torch.rand(s) * 9).to(d) for s, d in zip(shapes, kinds))
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    apart = torch.empty(*y.shape[:-1], 2 * y.shape[-1], dtype=y.dtype)[..., ::2].copy_(y)
    shape = torch.broadcast_shapes(*shapes)
    dense = x.expand(shape).contiguous(), y.expand(shape).contiguous()
    for a in (x, turned):
        for b in (y, apart):
            for op in (torch.mul, torch.eq, torch.sub):
                wanted = op(*dense)
                for _ in range(4):  # planned, then
                    assert torch.equal(op(a, b), wanted)
            for _ in range(4):
                assert torch.equal(torch.where(b.real > 4, a, b), torch.where(dense[1].real > 4, *dense))
    if x.shape == shape and x.dtype is y.dtype:
        for _ in range(4):
            assert torch.equal(x.clone().sub_(y), dense[0] - dense[1])
    compiled = torch.compile(lambda a, b: (a * b + b, a - b))
    for _ in range(3):
        for made, wanted in zip(compiled(x, y), (dense[0] * dense[1] + dense[1], dense[0] - dense[1])):
            assert torch.equal(made, wanted)


@pytest.mark.parametrize("threads", [1, 3])
def test_long_work_over_short_rows(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, means = torch.rand(3, 30_011, 3), torch.rand(3)
        columns, cubes = torch.rand(30_011, 1), torch.rand(7, 31, 5, 11, 13)
        for _ in range(3):
            np.testing.assert_array_equal((x - means).numpy(), x.numpy() - means.numpy())
            np.testing.assert_array_equal((x * columns).numpy(), x.numpy() * columns.numpy())
            np.testing.assert_array_equal(
                (cubes[:, :, ::2] + cubes[:, :1, :1, :, :1]).numpy(),
                cubes.numpy()[:, :, ::2] + cubes.numpy()[:, :1, :1, :, :1],
            )
    finally:
        torch.set_num_threads(before)


def test_where_rows_are_short_operands_are_repeated():
    def found(shape, *others, results=1):
        ways = walks.ways_of([(o, np.empty(o).strides) for o in (*others, shape)], shape)
        return walks.in_long_rows(shape, ways, [8] * (len(others) + 1), results)

    repeated, (rows, rest) = found((8001, 5), (8001, 5), (5,))
    assert [(r.number, r.times, r.block, r.elements) for r in repeated] == [(1, 102, [5], 510)]
    assert (rows.length, rows.steps, rows.outer) == (510, [8, 8, 8], [78])
    assert (rest.length, rest.outer, rest.begin) == (8001 * 5 - 78 * 510, [], [78 * 510 * 8, 0, 78 * 510 * 8])
    repeated, (rows,) = found((32, 512, 2, 2), (32, 512, 2, 2), (512, 1, 1))
    assert (repeated[0].times, repeated[0].block, rows.length, rows.outer) == (1, [512, 4], 2048, [32])
    none, (rows, rest) = found((4, 1000, 5), (4, 1000, 5), (4, 1000, 1))
    assert none == [] and (rows.length, rows.steps, rows.outer) == (256, [40, 8, 40], [15, 5])
    assert (rest.length, rest.outer, rest.begin) == (160, [5], [3840 * 40, 3840 * 8, 3840 * 40])
    few = ((20, 5), (5,)), ((8000, 64), (64,)), ((8000, 20), (8000, 1)), ((100, 20, 9), (100, 1, 9)), ((50_000, 3), ())
    assert all(found(shape, shape, other) is None for shape, other in few)
