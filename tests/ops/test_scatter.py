"""gather, scatter, index_* and take/put, masks, where and searches against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.bool_, np.complex64, np.float16, np.uint8]


def tensor(values, **named):
    return torch.from_numpy(np.array(values, **named))


def numbers(*shape, dtype=np.float64, seed=0):
    array = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3)
    if np.dtype(dtype).kind == "u":
        array = array.astype(np.int64)  # wraps; what a float below zero becomes differs between CPUs
    return torch.from_numpy(array.astype(dtype))


def equal(t, array):
    np.testing.assert_array_equal(t.detach().numpy(), array)


def grid(index, dim):
    """NumPy's fancy index for elements along `dim`."""
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    key[dim] = index
    return tuple(key)


@st.composite
def element_cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dim = draw(st.integers(0, len(shape) - 1))
    size = tuple(draw(st.integers(0, n)) if d != dim else draw(st.integers(0, 6)) for d, n in enumerate(shape))
    seed = draw(st.integers(0, 1 << 16))
    index = np.random.default_rng(seed).integers(0, shape[dim], size)
    order = draw(st.permutations(range(len(shape))))
    back = np.argsort(order)
    x = numbers(*[shape[o] for o in order], seed=seed).numpy().transpose(back)
    return x, dim, index.astype(draw(st.sampled_from((np.int64, np.int32))))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(element_cases())
def test_elements_as_numpy(case):
    x, dim, index = case
    t, i = torch.from_numpy(x), torch.from_numpy(index)
    key = grid(index, dim)
    equal(t.gather(dim, i), x[key])
    source = np.arange(index.size, dtype=float).reshape(index.shape) - 2
    for call, at in [
        (lambda: t.scatter_add(dim, i, torch.from_numpy(source)), np.add),
        (lambda: t.scatter_reduce(dim, i, torch.from_numpy(source), "prod"), np.multiply),
        (lambda: t.scatter_reduce(dim, i, torch.from_numpy(source), "amax"), np.maximum),
        (lambda: t.scatter_reduce(dim, i, torch.from_numpy(source), "amin"), np.minimum),
    ]:
        expected = np.array(x)
        at.at(expected, key, source)
        np.testing.assert_allclose(call().numpy(), expected, rtol=1e-12)
    expected = np.array(x)
    expected[key] = source
    equal(t.scatter(dim, i, torch.from_numpy(source)), expected)
    expected[key] = 1.5
    equal(t.scatter(dim, i, 1.5), expected)
    changed = torch.from_numpy(np.array(x))
    assert changed.scatter_(dim, i, 1.5) is changed
    equal(changed, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_elements_of_every_dtype(dtype, dim):
    x = numbers(400, 410, dtype=dtype)
    index = np.random.default_rng(1).integers(0, 400, (400, 390))
    key = grid(index, dim)
    found = x.gather(dim, torch.from_numpy(index))
    equal(found, x.numpy()[key])
    expected = np.array(x.numpy())
    np.add.at(expected, key, found.numpy())
    np.testing.assert_allclose(
        x.scatter_add(dim, torch.from_numpy(index), found).numpy(), expected, rtol=2e-2 if dtype == np.float16 else 1e-5
    )


def test_scatter_add_is_in_order():
    """Sums with duplicates are those of a loop, bit for bit."""
    source = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    index = np.random.default_rng(1).integers(0, 7, 100_000)
    expected = np.zeros(7, np.float32)
    for k in range(7):
        expected[k] = np.cumsum(source[index == k], dtype=np.float32)[-1]
    made = torch.from_numpy(np.zeros(7, np.float32)).scatter_add_(0, torch.from_numpy(index), torch.from_numpy(source))
    equal(made, expected)
    wide = np.tile(source[:, None], (1, 3))
    rows = torch.from_numpy(np.zeros((7, 3), np.float32)).index_add_(0, torch.from_numpy(index), torch.from_numpy(wide))
    equal(rows, np.tile(expected[:, None], (1, 3)))


def test_bad_indices_write_nothing():
    x = torch.from_numpy(np.zeros((700, 400)))
    index = np.zeros((700, 400), np.int64)
    index[-1, -1] = 400
    i, source = torch.from_numpy(index), numbers(700, 400)
    for call in (
        lambda: x.gather(1, i),
        lambda: x.scatter_(1, i, 1.0),
        lambda: x[600:].scatter_add_(1, i[600:], source),
        lambda: x.scatter_reduce_(1, i, source, "amax"),
    ):
        with pytest.raises(RuntimeError, match="index 400 is out of bounds for dimension 1 with size 400"):
            call()
    rows = torch.from_numpy(index[-1].copy())
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.index_add_(1, rows, source)
    with pytest.raises(IndexError, match="out of bounds"):
        x.index_copy_(1, rows, source)
    with pytest.raises(IndexError, match="out of bounds"):
        x.index_fill_(1, rows, 1.0)
    with pytest.raises(IndexError, match="index out of range in self"):
        x.index_select(1, rows)
    with pytest.raises(IndexError, match="out of range"):
        x.put_(tensor([0, 280_000]), tensor([1.0, 1.0]))
    with pytest.raises(IndexError, match="out of range"):
        x.take(tensor([-280_001]))
    assert not x.numpy().any()
    for write in (x.scatter_, x.scatter_add_):  # many: rows are looked at one by one
        with pytest.raises(RuntimeError, match="index 400 is out of bounds for dimension 1 with size 400"):
            write(1, i, source)
    assert not x[-1].numpy().any() and not x[:, 1:].numpy().any()
    with pytest.raises(RuntimeError, match="index -1 is out of bounds"):
        x.gather(0, tensor([[-1]]))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_derivatives(reduce, include_self):
    index = tensor([[0, 0, 2, 2], [1, 1, 1, 0]])
    x, source = numbers(2, 3).requires_grad_(), numbers(2, 4, seed=3).requires_grad_()
    call = lambda x, s: x.scatter_reduce(1, index, s, reduce, include_self=include_self)
    assert gradcheck(call, (x, source))
    assert gradgradcheck(call, (x, source))


def test_product_with_zeros():
    x = tensor([2.0, 0.0, 3.0]).requires_grad_()
    source = tensor([0.0, 5.0, 4.0, 0.0, 0.0]).requires_grad_()
    x.scatter_reduce(0, tensor([0, 0, 1, 2, 2]), source, "prod").sum().backward()
    equal(x.grad, [0, 4, 0])
    equal(source.grad, [10, 0, 0, 0, 0])


INDEX, ROWS = np.array([[0, 2, 2], [1, 0, 0]]), np.array([1, 1, 0])
MASK = np.array([[True, False, True], [False, True, False]])


@pytest.mark.parametrize(
    "call, shapes",
    [
        (lambda x: x.gather(1, torch.from_numpy(INDEX)), [(2, 3)]),
        (lambda x, s: x.scatter(1, torch.from_numpy(INDEX[:, :2]), s), [(2, 3), (2, 3)]),
        (lambda x, s: x.scatter_add(0, torch.from_numpy(INDEX[1:]), s), [(2, 3), (2, 3)]),
        (lambda x: x.index_select(0, torch.from_numpy(ROWS)), [(2, 3)]),
        (lambda x, s: x.index_add(0, torch.from_numpy(ROWS), s, alpha=2), [(2, 3), (3, 3)]),
        (lambda x, s: x.index_copy(0, torch.from_numpy(ROWS[1:]), s), [(2, 3), (2, 3)]),
        (lambda x, v: x.index_fill(1, torch.from_numpy(ROWS), v), [(2, 3), ()]),
        (lambda x, s: x.index_reduce(0, torch.from_numpy(ROWS), s, "mean"), [(2, 3), (3, 3)]),
        (lambda x, v: x.masked_fill(torch.from_numpy(MASK), v), [(2, 3), ()]),
        (lambda x, s: x.masked_scatter(torch.from_numpy(MASK), s), [(2, 3), (5,)]),
        (lambda x: x.masked_select(torch.from_numpy(MASK[0])), [(2, 3)]),
        (lambda x: x.take(torch.from_numpy(INDEX - 1)), [(2, 3)]),
        (lambda x: x.take_along_dim(torch.from_numpy(INDEX[:1]), 1), [(2, 3)]),
        (lambda x, s: x.put(torch.from_numpy(ROWS), s, True), [(2, 3), (3,)]),
        (lambda x, y: torch.where(torch.from_numpy(MASK), x, y), [(2, 3), (3,)]),
        (lambda w: torch.nn.functional.embedding(torch.from_numpy(INDEX), w), [(3, 2)]),
    ],
)
def test_derivatives(call, shapes):
    inputs = [numbers(*shape, seed=i).requires_grad_() for i, shape in enumerate(shapes)]
    squared = lambda *args: call(*[a * a for a in args])
    assert gradcheck(squared, inputs)
    assert gradgradcheck(squared, inputs)


def test_rows_as_numpy():
    x = numbers(3, 4, 5)
    for dim in range(3):
        rows = np.array([2, 0, 2])
        equal(x.index_select(dim, torch.from_numpy(rows)), x.numpy().take(rows, dim))
        source = numbers(*[3 if d == dim else n for d, n in enumerate((3, 4, 5))], seed=1)
        key = (slice(None),) * dim + (rows,)
        expected = x.numpy().copy()
        np.add.at(expected, key, source.numpy() * 0.5)
        np.testing.assert_allclose(x.index_add(dim, torch.from_numpy(rows), source, alpha=0.5).numpy(), expected)
        expected = x.numpy().copy()
        expected[key] = source.numpy()
        equal(x.index_copy(dim, torch.from_numpy(rows), source), expected)
    equal(tensor(3.0).index_select(0, tensor([0])), 3.0)


def test_self_as_source():
    x = numbers(5)
    before = x.numpy().copy()
    made = x.scatter_add(0, tensor([1, 2, 3, 4, 0]), x)
    np.testing.assert_allclose(made.numpy(), before + np.roll(before, 1))
    with pytest.raises(RuntimeError, match="unsupported operation"):
        x.scatter_add_(0, tensor([1, 2, 3, 4, 0]), x)


# -- where, masks, positions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (400, 400)])
def test_where(dtype, shape):
    x, y = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=2)
    condition = torch.from_numpy(np.asarray(np.random.default_rng(3).random(shape) < 0.5))
    equal(torch.where(condition, x, y), np.where(condition.numpy(), x.numpy(), y.numpy()))
    assert torch.where(condition, x, y).dtype is x.dtype
    equal(torch.where(condition.t() if len(shape) == 2 and shape[0] == shape[1] else condition, x, x), x.numpy())


def test_where_promotes():
    condition, ints = tensor([True, False]), tensor([1, 2])
    assert torch.where(condition, 1, 2).dtype is torch.int64
    assert torch.where(condition, 1.0, 2).dtype is torch.float32
    assert torch.where(condition, ints, 2.5).dtype is torch.float32
    assert torch.where(condition, ints, tensor(2.5)).dtype is torch.float64
    assert torch.where(condition, tensor([1.0, 2.0], dtype=np.float32), tensor(2.5)).dtype is torch.float32
    equal(tensor([5, 6]).where(condition, 0), [5, 0])
    equal(torch.where(condition)[0], [0])
    with pytest.raises(RuntimeError, match="boolean tensor"):
        torch.where(ints, ints, ints)
    with pytest.raises(TypeError):
        torch.where(True, ints, ints)


def test_masks():
    x = numbers(300, 500)
    mask = x > 0
    equal(x.masked_select(mask), x.numpy()[mask.numpy()])
    equal(x.masked_fill(mask, -1.0), np.where(mask.numpy(), -1.0, x.numpy()))
    source = numbers(300, 500, seed=1)
    expected = x.numpy().copy()
    expected[mask.numpy()] = source.numpy().reshape(-1)[: int(mask.numpy().sum())]
    equal(x.masked_scatter(mask, source), expected)
    ints = tensor([1, 2])
    equal(ints.masked_fill(tensor([True, False]), 1.9), [1, 2])
    assert ints.masked_fill(tensor([True, False]), 1.9).dtype is torch.int64
    for value, text in ((1j, "overflow"), (tensor([1]), "0-dimensional")):
        with pytest.raises(RuntimeError, match=text):
            ints.masked_fill(tensor([True, False]), value)
    with pytest.raises(RuntimeError, match="boolean masks"):
        ints.masked_fill(ints, 0)
    with pytest.raises(RuntimeError, match="Number of elements of source"):
        ints.masked_scatter(tensor([True, True]), tensor([1]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=4), st.integers(0, 1 << 16), st.booleans())
def test_nonzero(shape, seed, turned):
    array = np.asarray(np.random.default_rng(seed).integers(0, 3, shape))
    array = array.T if turned else array
    x = torch.from_numpy(array)
    equal(torch.nonzero(x), np.argwhere(array))
    equal(torch.argwhere(x), np.argwhere(array))
    for found, expected in zip(torch.nonzero(x, as_tuple=True), np.atleast_1d(array).nonzero(), strict=True):
        equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(0, 1 << 16))
def test_searchsorted(n, k, right, seed):
    generator = np.random.default_rng(seed)
    bounds, values = np.sort(generator.integers(0, 6, n)), generator.integers(-1, 8, k)
    expected = np.searchsorted(bounds, values, "right" if right else "left")
    equal(torch.searchsorted(torch.from_numpy(bounds), torch.from_numpy(values), right=right), expected)
    equal(torch.bucketize(torch.from_numpy(values.astype(float)), torch.from_numpy(bounds), right=right), expected)
    rows = torch.searchsorted(
        torch.from_numpy(np.stack([bounds, bounds])),
        torch.from_numpy(np.stack([values, values])),
        right=right,
        out_int32=True,
    )
    equal(rows, np.stack([expected, expected]))
    assert rows.dtype is torch.int32
    order = generator.permutation(n)
    shuffled = np.empty_like(bounds)
    shuffled[order] = bounds
    found = torch.searchsorted(
        torch.from_numpy(shuffled), torch.from_numpy(values), right=right, sorter=torch.from_numpy(order)
    )
    equal(found, expected)


def test_searchsorted_with_as_many_values_as_bounds():
    bounds = np.arange(200_000)
    equal(torch.searchsorted(torch.from_numpy(bounds), torch.from_numpy(bounds)), bounds)
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        torch.searchsorted(tensor([1, 2]), tensor([1]), sorter=tensor([0, 2]))


def test_take_and_put():
    x = numbers(3, 4)
    equal(x.t().take(tensor([[0, -1], [5, 6]])), x.numpy().T.ravel()[[[0, -1], [5, 6]]])
    y = x.clone()
    y.t().put_(tensor([1, -1]), tensor([7.0, 8.0]))
    expected = x.numpy().T.copy()
    expected.ravel()[[1, -1]] = 7.0, 8.0
    equal(y.t(), expected)
    equal(torch.zeros(2).put(tensor([0, 0]), tensor([1.0, 2.0], dtype=np.float32), accumulate=True), [3.0, 0.0])


def test_isin_and_unravel():
    equal(torch.isin(tensor([1, 2, 3]), tensor([2, 9])), [False, True, False])
    equal(torch.isin(tensor([1.5, 2.0]), 2, invert=True), [True, False])
    rows, columns = torch.unravel_index(tensor([3, 5, 0]), (2, 3))
    equal(rows, [1, 1, 0])
    equal(columns, [0, 2, 0])
    with pytest.raises(TypeError):
        torch.unravel_index(tensor([1.0]), (2, 3))


def test_embedding():
    weight = numbers(5, 3).requires_grad_()
    index = tensor([[1, 4], [1, 1]])
    equal(torch.nn.functional.embedding(index, weight), weight.detach().numpy()[index.numpy()])
    torch.nn.functional.embedding(index, weight, scale_grad_by_freq=True).sum().backward()
    equal(weight.grad, np.array([0, 1, 0, 0, 1])[:, None] * np.ones(3))
    weight.grad = None
    torch.nn.functional.embedding(index, weight, padding_idx=-1).sum().backward()
    equal(weight.grad, np.array([0, 3, 0, 0, 0])[:, None] * np.ones(3))
    with pytest.raises(IndexError):
        torch.nn.functional.embedding(tensor([5]), weight)
    long = numbers(3, 4)
    short = torch.nn.functional.embedding(tensor([0, 0]), long, max_norm=0.5)
    assert np.allclose(np.linalg.norm(short.numpy(), axis=1), 0.5)
    equal(long[0], short.numpy()[0])


def test_an_index_without_dimensions_names_one_element():
    x = torch.arange(5.0).requires_grad_()
    i, one = torch.tensor(3), torch.tensor(7.0)
    picked = x.gather(0, i)
    assert picked.shape == () and picked.item() == 3
    assert torch.autograd.grad(picked, x)[0].tolist() == [0, 0, 0, 1, 0]
    zeros = torch.zeros(5)
    for made in (zeros.scatter(0, i, one), zeros.scatter_add(0, i, one), zeros.scatter_reduce(0, i, one, "sum")):
        assert made.tolist() == [0, 0, 0, 7, 0]


@pytest.mark.parametrize("function", [torch.scatter_reduce, torch.index_reduce])
def test_second_derivatives_of_products_with_several_zeros_are_refused(function):
    x, index = torch.ones(1, dtype=torch.float64, requires_grad=True), torch.tensor([0, 0])
    src = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(function, (x, 0, index, src, "prod"))
    with pytest.raises(RuntimeError, match="Double backward is unsupported for"):
        gradgradcheck(function, (x, 0, index, src, "prod"))
    src = torch.tensor([0.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(function, (x, 0, index, src, "prod"))


@pytest.mark.parametrize("dtype, rounded, exact", [(torch.bfloat16, 256, 3008), (torch.float16, 2048, 3000)])
def test_half_precision_is_added_up_in_float32(dtype, rounded, exact):
    """Which operations round after every addition is as PyTorch has it."""
    n = 3000
    ones, zeros = torch.ones(n, 2, dtype=dtype), torch.zeros(n, 2, dtype=torch.int64)
    row, start = zeros[:, 0].contiguous(), torch.zeros(1, 2, dtype=dtype)
    for made in (
        start.scatter_add(0, zeros, ones), start.scatter(0, zeros, ones, reduce="add"), start.clone().scatter_add_(0, zeros, ones),
        start.t().scatter_add(1, zeros.t(), ones.t()).t(), start.scatter_reduce(0, zeros, ones, "sum"),
        start.scatter_reduce(0, zeros, ones, "sum", include_self=False), start.index_add(0, row, ones),
    ):  # fmt: skip
        assert made.dtype is dtype and made.tolist() == [[exact, exact]]
    for call in (lambda w: w.gather(0, zeros), lambda w: w.index_select(0, row)):
        w = start.clone().requires_grad_()
        call(w).sum().backward()
        assert w.grad.tolist() == [[exact, exact]]
    assert start.index_add(0, row, ones, alpha=2).tolist() == [[2 * rounded, 2 * rounded]]
    assert start[0].index_add(0, row, ones[:, 0]).tolist() == [rounded, 0]
    assert start.index_put((row,), ones, accumulate=True).tolist() == [[rounded, rounded]]
    grown = torch.full((50,), 1.004, dtype=dtype)
    powers = {torch.bfloat16: (1.4765625, 1.390625), torch.float16: (1.21484375, 1.2119140625)}[dtype]
    assert torch.ones(1, dtype=dtype).scatter_reduce(0, row[:50], grown, "prod").item() == powers[0]
    assert torch.ones(1, dtype=dtype).index_reduce(0, row[:50], grown, "prod").item() == powers[1]


def test_rows_are_reduced_into_a_single_element():
    x, index = torch.tensor(3.0), torch.tensor([0])
    assert x.index_reduce(0, index, torch.tensor(2.0), "prod").item() == 6
    with pytest.raises(IndexError, match="out of range"):
        x.index_reduce(0, index + 1, torch.tensor(2.0), "prod")


def test_reductions_that_a_dtype_has_not():
    at, x = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.complex64)
    with pytest.raises(NotImplementedError, match="reduce_amin"):
        x.scatter_reduce(0, at, x, "amin")
    with pytest.raises(NotImplementedError, match="reduce_mean"):
        x.bool().scatter_reduce(0, at, x.bool(), "mean")
    with pytest.raises(NotImplementedError, match="index_func_"):
        x.index_reduce(0, at, x, "prod")
