"""x[key], x[key] = value and index_put against NumPy, with views, histories and errors."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck


def tensor(values, **named):
    return torch.from_numpy(np.array(values, **named))


def numbers(*shape):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape))


def equal(t, array):
    assert t.detach().numpy().shape == np.shape(array)
    np.testing.assert_array_equal(t.detach().numpy(), array)


# -- keys that NumPy reads the same way ----------------------------------------------------------------------------


@st.composite
def array_and_key(draw, only_arrays=False):
    """A (possibly permuted, strided) array and a basic key, or index arrays among full slices."""
    array = draw(
        hn.arrays(
            np.float64, hn.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4), elements=st.floats(-9, 9)
        )
    )
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    if draw(st.booleans()):
        array = array[tuple(slice(draw(st.integers(0, 1)), None, draw(st.integers(1, 2))) for _ in array.shape)]
    assume(array.size)
    if not only_arrays and draw(st.booleans()):
        key = draw(hn.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))
        parts = key if isinstance(key, tuple) else (key,)
        forward = [slice(p.start, p.stop, p.step and abs(p.step)) if isinstance(p, slice) else p for p in parts]
        return array, tuple(forward) if isinstance(key, tuple) else forward[0]
    common = draw(hn.array_shapes(min_dims=1, max_dims=2, max_side=3))
    key = []
    for n in array.shape:
        kind = draw(st.sampled_from("iI" if only_arrays else "siI"))
        if kind == "s":
            key.append(slice(None))
        else:
            shape = tuple(draw(st.sampled_from((k, 1))) for k in common) if kind == "i" else common
            key.append(draw(hn.arrays(np.int64, shape, elements=st.integers(-n, n - 1))))
    assume(any(isinstance(p, np.ndarray) for p in key))
    return array, tuple(key)


def as_key(key):
    parts = key if isinstance(key, tuple) else (key,)
    made = tuple(torch.from_numpy(p) if isinstance(p, np.ndarray) else p for p in parts)
    return made if isinstance(key, tuple) else made[0]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(array_and_key())
def test_reads_as_numpy(case):
    array, key = case
    x = torch.from_numpy(array)
    found = x[as_key(key)]
    equal(found, array[key])
    if any(isinstance(p, np.ndarray) for p in (key if isinstance(key, tuple) else (key,))):
        assert not np.shares_memory(found.numpy(), array)
    elif found.numel():
        assert np.shares_memory(found.numpy(), array)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(array_and_key(), st.booleans())
def test_writes_as_numpy(case, one_number):
    array, key = case
    expected = np.array(array)
    value = 7.5 if one_number else np.arange(expected[key].size, dtype=float).reshape(expected[key].shape)
    expected[key] = value
    x = torch.from_numpy(np.array(array))
    x[as_key(key)] = value if one_number else torch.from_numpy(value)
    equal(x, expected)
    base = torch.from_numpy(np.array(array)).requires_grad_()
    tracked = base * 1
    tracked[as_key(key)] = value if one_number else torch.from_numpy(value)
    equal(tracked, expected)
    tracked.sum().backward()
    kept = np.ones(array.shape)
    kept[key] = 0
    equal(base.grad, kept)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(array_and_key())
def test_gradient_counts_reads(case):
    array, key = case
    x = torch.from_numpy(np.array(array)).requires_grad_()
    x[as_key(key)].sum().backward()
    expected = np.zeros(array.shape)
    np.add.at(expected, key, 1.0)
    equal(x.grad, expected)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(array_and_key(only_arrays=True), st.integers(0, 3))
def test_index_put_accumulates(case, left_out):
    array, key = case
    key = key[: max(len(key) - left_out, 1)]
    values = np.arange(array[key].size, dtype=float).reshape(array[key].shape)
    expected = np.array(array)
    np.add.at(expected, key, values)
    made = torch.from_numpy(array).index_put(as_key(key), torch.from_numpy(values), accumulate=True)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12, atol=1e-12)


# -- PyTorch's own rules -------------------------------------------------------------------------------------------


def test_shapes_that_differ_from_numpy():
    x = numbers(2, 3, 4)
    rows = tensor([0, 1])
    assert x[0, :, rows].shape == (3, 2)  # a number is no index array
    assert x[rows, :, 0].shape == (2, 3)
    assert x[:, rows, None, rows].shape == (2, 2, 1)
    assert x[True].shape == (1, 2, 3, 4)
    assert x[False].shape == (0, 2, 3, 4)
    assert x[True, rows].shape == (2, 3, 4)
    assert x[tensor(True)].shape == (1, 2, 3, 4)
    assert x[tensor(1)].shape == (3, 4)
    assert x[tensor(1)]._view is not None
    assert x[..., ...].shape == (2, 3, 4)
    assert x[()].shape == x.shape
    assert x[[]].shape == (0, 3, 4)
    assert x[range(2)].shape == (2, 3, 4)
    assert x[np.array([0, 1])].shape == (2, 3, 4)
    assert x[np.int64(1)].shape == (3, 4)
    assert x[tensor(0) : tensor(1)].shape == (1, 3, 4)
    with pytest.warns(UserWarning):
        assert x[[[0, 1], [0, 1]]].shape == (2, 4)
    with pytest.warns(UserWarning):
        assert x[tensor([1, 0], dtype=np.uint8)].shape == (1, 3, 4)


def test_masks():
    x = numbers(4, 5)
    mask = x > 0
    equal(x[mask], x.numpy()[mask.numpy()])
    rows = tensor([True, False, True, True])
    equal(x[rows], x.numpy()[rows.numpy()])
    equal(x[rows, 1:], x.numpy()[rows.numpy(), 1:])
    equal(x[:, tensor([True, False, False, False, True])], x.numpy()[:, [0, 4]])
    with pytest.raises(IndexError, match=r"shape of the mask \[3\] at index 0 does not match"):
        x[tensor([True, False, True])]
    with pytest.raises(IndexError):
        x[tensor([True, False, True])] = 1.0
    x[mask] = 0.0
    assert not bool((x > 0).any())


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.complex128, np.float16, np.int8])
def test_large_selections(dtype):
    """Sizes at which the work is split over threads."""
    generator = np.random.default_rng(1)
    array = (generator.standard_normal((600, 500)) * 3).astype(dtype)
    x = torch.from_numpy(array)
    rows = generator.integers(-600, 600, 700)
    equal(x[torch.from_numpy(rows)], array[rows])
    equal(x.t()[torch.from_numpy(rows[:400] % 500)], array.T[rows[:400] % 500])
    equal(x[:, torch.from_numpy(rows % 500)], array[:, rows % 500])
    equal(x[torch.from_numpy(rows), torch.from_numpy(rows % 500)], array[rows, rows % 500])
    grid = generator.integers(0, 600, (50, 20))
    equal(x[torch.from_numpy(grid)], array[grid])
    mask = generator.random(array.shape) < 0.3
    equal(x[torch.from_numpy(mask)], array[mask])


def test_views_write_through():
    x = numbers(4, 5)
    base = x.numpy()
    x[1:3, ::2][0, 1] = 42.0
    assert base[1, 2] == 42.0
    view = x[2]
    view[tensor([0, 1])] = 5.0
    assert base[2, 0] == base[2, 1] == 5.0
    version = x._version
    x[0] = 1.0
    assert x._version > version


def test_write_history_reaches_the_value():
    x = numbers(3, 4).requires_grad_()
    value = numbers(4).requires_grad_()
    y = x * 1
    y[1:] = value
    y[tensor([0]), tensor([0])] = value[0]
    (y * y).sum().backward()
    expected = 4 * value.detach().numpy()
    expected[0] += 2 * value.detach().numpy()[0]
    np.testing.assert_allclose(value.grad.numpy(), expected)
    kept = 2 * x.detach().numpy()
    kept[1:] = 0
    kept[0, 0] = 0
    np.testing.assert_allclose(x.grad.numpy(), kept)


@pytest.mark.parametrize(
    "key", [(0,), (slice(None), [0, 0, 2]), ([1, 0], slice(None), [0, 3]), (None, [0, 1], [2, 2])], ids=str
)
def test_derivatives(key):
    x = numbers(2, 3, 4).requires_grad_()
    assert gradcheck(lambda x: x[key] * x[key], (x,))
    assert gradgradcheck(lambda x: x[key] * x[key], (x,))
    if any(isinstance(part, list) and len(set(part)) < len(part) for part in key) and len(key) == 2:
        return  # which of two values written to one element wins has no derivative

    def written(x, v):
        y = x * x
        y[key] = v * v
        return y

    value = numbers(1).requires_grad_()
    assert gradcheck(written, (x, value))
    assert gradgradcheck(written, (x, value))


def test_index_put_derivatives():
    for accumulate in (False, True):
        index = (tensor([0, 0, 2]), tensor([1, 1 if accumulate else 0, 0]))
        values = numbers(1).requires_grad_()
        x = numbers(3, 2).requires_grad_()
        call = lambda x, v: x.index_put(index, v * v, accumulate=accumulate)
        assert gradcheck(call, (x, values))
        assert gradgradcheck(call, (x, values))


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, error, text",
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        ([5], IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((slice(None), [1, -9]), IndexError, "index -9 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (1.5, IndexError, "valid indices"),
        ({}, IndexError, "valid indices"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast"),
        (1 << 70, ValueError, "Overflow"),
    ],
)
def test_bad_keys(key, error, text):
    x = numbers(2, 3)
    with pytest.raises(error, match=text):
        x[key]
    before = x.numpy().copy()
    with pytest.raises(error, match=text):
        x[key] = 1.0
    equal(x, before)  # nothing was written


def test_large_bad_index_writes_nothing():
    x = torch.from_numpy(np.zeros((1000, 300)))
    rows = np.zeros(1000, np.int64)
    rows[-1] = 1000
    with pytest.raises(IndexError, match="index 1000 is out of bounds for dimension 0 with size 1000"):
        x[torch.from_numpy(rows)]
    for accumulate in (False, True):
        with pytest.raises(IndexError):
            x.index_put_((torch.from_numpy(rows),), tensor(1.0), accumulate=accumulate)
    assert not x.numpy().any()


def test_other_errors():
    x = numbers(2, 3)
    with pytest.raises(IndexError, match="0-dim tensor"):
        tensor(1.0)[0]
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        x[tensor([1.0])]
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        x[tensor([1], dtype=np.int16)]
    with pytest.raises(TypeError):
        x["a"]
    with pytest.raises(TypeError, match="can't assign a list"):
        x[0] = [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[[0, 1]] = tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[[0, 1]] = tensor([1, 2, 3])
    with pytest.raises(RuntimeError, match="without overflow"):
        tensor([1, 2])[0] = float("nan")
    with pytest.raises(RuntimeError, match="single memory location"):
        y = numbers(6)
        y[1:] = y[:-1]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        numbers(3).requires_grad_()[0] = 1.0
    with pytest.raises(TypeError, match="must be Tensor"):
        x.index_put((tensor([0]),), 1.0)


def test_empty_dimensions():
    x = torch.from_numpy(np.zeros((0, 3)))
    assert x[tensor([], dtype=np.int64)].shape == (0, 3)
    with pytest.raises(IndexError, match="size 0"):
        x[tensor([0])]
    assert torch.from_numpy(np.zeros((3, 0)))[tensor([0, 0])].shape == (2, 0)
    assert numbers(2, 3)[torch.from_numpy(np.zeros((2, 0), np.int64))].shape == (2, 0, 3)


def test_assigning_other_dtypes():
    x = tensor([1, 2, 3])
    x[0] = 7.9
    x[1:] = tensor([2.5, 3.5])  # a view takes any dtype
    equal(x, [7, 2, 3])
    y = tensor([1.0, 2.0])
    y[0] = np.float32(4)
    equal(y, [4.0, 2.0])


@pytest.mark.parametrize("shape", [(5, 6), (600, 700)])
def test_gradient_through_a_whole_mask(shape):
    x, mask = numbers(*shape).requires_grad_(), numbers(*shape) > 0.3
    kept = mask.numpy().copy()
    chosen = x[mask]
    mask.fill_(True)  # the history has its own
    equal(chosen, x.detach().numpy()[kept])
    weights = torch.arange(chosen.numel(), dtype=torch.float64)
    (chosen * weights).sum().backward()
    expected = np.zeros(shape)
    expected[kept] = weights.numpy()
    equal(x.grad, expected)


def test_second_derivatives_through_a_whole_mask():
    mask = tensor([[True, False, True], [False, True, True]])
    x = numbers(2, 3).requires_grad_()
    assert gradcheck(lambda x: x[mask] ** 3, (x,)) and gradgradcheck(lambda x: x[mask] ** 3, (x,))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
def test_pairs_of_indices(dtype):
    x = (np.random.default_rng(0).standard_normal((30, 40)) * 50).astype(dtype)
    rows, columns = np.random.default_rng(1).integers(-30, 30, 99), np.random.default_rng(2).integers(-40, 40, 99)
    for a, b, c in ((x, rows, columns), (x.T, columns, rows), (x[:, ::2], rows[::3], columns[::3] // 2)):
        equal(torch.from_numpy(a)[torch.from_numpy(b), torch.from_numpy(c)], a[b, c])
    for wrong in ((30, 0), (0, 40), (-31, 0), (0, -41)):
        with pytest.raises(IndexError, match="out of bounds"):
            torch.from_numpy(x)[tuple(tensor([0, n]) for n in wrong)]


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0), (0, 0), (2, 0, 3), (2, 3, 4)])
def test_indices_of_tensors_without_elements(shape):
    """Values and shapes as NumPy's; an index into a dimension of no elements is refused as PyTorch refuses it."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    none, two = np.zeros(0, np.int64), np.array([0, 1])
    keys = [
        (none,), (two,), (none, none), (two, two), (slice(None), none), (slice(None), two), (two[:, None], none), (none[:, None], two),
        (np.zeros((0, 2), np.int64),), (np.zeros(shape, bool),), (np.ones(shape, bool),), (np.ones(shape[0], bool),), (two, slice(0, 0)),
        (np.zeros((2, 0), np.int64), none),
    ]  # fmt: skip
    for key in keys:
        given = tuple(torch.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)
        try:
            expected = x[key]
        except IndexError:
            with pytest.raises(IndexError):
                torch.from_numpy(x)[given]
            continue
        made = torch.from_numpy(x)[given]
        assert made.shape == expected.shape and made.tolist() == expected.tolist()
    for dim in [d for d, n in enumerate(shape) if n == 0]:
        with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
            torch.from_numpy(x)[(slice(None),) * dim + (torch.tensor([0]),)]
        with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
            torch.from_numpy(x)[tuple(torch.tensor([0]) for _ in shape)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_adding_where_a_mask_is_set(dtype):
    x, mask = torch.arange(6).reshape(2, 3), torch.tensor([[True, False, True], [False, True, False]])
    for values in (torch.tensor([10, 20, 30]), torch.tensor([10])):
        made = x.to(dtype).index_put((mask,), values.to(dtype), accumulate=True)
        expected = x.numpy().copy()
        expected[mask.numpy()] += np.broadcast_to(values.numpy(), 3)
        assert made.dtype is dtype and made.tolist() == torch.from_numpy(expected).to(dtype).tolist()
    with pytest.raises(RuntimeError, match="dtypes match"):
        x.to(dtype).index_put((mask,), torch.tensor([1, 2, 3], dtype=torch.int16), accumulate=True)
    with pytest.raises((RuntimeError, IndexError), match="shape mismatch"):
        x.to(dtype).index_put((mask,), torch.ones(2).to(dtype), accumulate=True)


def test_numbers_slices_and_one_tensor_of_places_together():
    x = torch.arange(24.0).reshape(4, 6).clone()
    rows = torch.tensor([3, 0, -1])
    assert x[rows, :2].tolist() == [[18, 19], [0, 1], [18, 19]]
    assert x[rows, :2].stride() == (2, 1)
    assert x[torch.tensor(1), rows].tolist() == [9, 6, 11]
    assert x[1:, rows].tolist() == [[9, 6, 11], [15, 12, 17], [21, 18, 23]]
    assert x.T[1, rows].tolist() == [19, 1, 19]
    assert x[torch.tensor(2), 1:3]._base is x
    with pytest.raises(IndexError, match="out of bounds"):
        x[torch.tensor([4]), :2]


def test_positions_of_one_dimension_lie_side_by_side():
    assert [t.stride() for t in torch.where(torch.ones(2, 3, 2))] == [(1,)] * 3
    assert [t.tolist() for t in torch.tensor([[0, 1], [2, 3]]).nonzero(as_tuple=True)] == [[0, 1, 1], [1, 0, 1]]


def test_meta_tensors_take_masks_that_have_elements():
    x, mask = torch.empty(3, 4, device="meta"), torch.tensor([True, False, True])
    assert x[mask].shape == (2, 4) and x[mask, 1].shape == (2,) and x[None, mask].shape == (1, 2, 4)
    assert x[torch.ones(3, 4, dtype=torch.bool)].shape == (12,) and x[mask].is_meta
    x[mask] = 1.0
    with pytest.raises(NotImplementedError):
        x[mask.to("meta")]


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_places_from_the_end_are_added_to_as_those_from_the_front(kind):
    x, given = torch.zeros(200, 300), torch.arange(500.0)
    i, j = torch.arange(500) % 200, torch.arange(500) * 7 % 300
    wanted = np.zeros((200, 300), np.float32)
    np.add.at(wanted, (i.numpy(), j.numpy()), given.numpy())
    for rows, columns in [(i, j), (i - 200, j), (i, torch.where(j % 2 > 0, j, j - 300))]:
        made = x.clone().index_put_((rows.to(kind), columns.to(kind)), given, accumulate=True)
        assert np.array_equal(made.numpy(), wanted)
    with pytest.raises(IndexError, match="index -201 is out of bounds for dimension 0"):
        x.index_put_((i - 201, j), given, accumulate=True)


def test_whole_slices_beside_index_tensors_are_no_views():
    x, index = torch.randn(3, 4, 5, requires_grad=True), torch.tensor([2, 0])
    for key in ((slice(None), index), (Ellipsis, index), (slice(None), slice(None), index)):
        made = x[key]
        assert made.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    assert x[:, index].detach().equal(torch.stack([x.detach()[:, 2], x.detach()[:, 0]], 1))
    assert x[:] is not x and x[:, None, index].shape == (3, 1, 2, 5)


def test_one_element_under_a_mask_is_a_number():
    """Its dtype need not be the one of what is written, as PyTorch has it; its gradient comes back in its own."""
    mask = torch.tensor([True, False, True])
    for value in (torch.tensor(2.5, dtype=torch.float64), torch.tensor([[2]]), torch.tensor(True)):
        for d in (torch.float32, torch.int64, torch.bfloat16):
            x, y = torch.zeros(3, dtype=d), torch.zeros(3, dtype=d)
            x[mask] = value
            y.index_put_((mask,), value)
            made = torch.index_put(torch.zeros(3, dtype=d), (mask,), value)
            number = value.to(d).item()
            assert x.tolist() == y.tolist() == made.tolist() == [number, 0, number]
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[mask] = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[torch.tensor([0])] = torch.tensor(1.0, dtype=torch.float64)
    w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(3)
    y[mask] = w
    y.sum().backward()
    assert w.grad == 2 and w.grad.dtype is torch.float64


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 1, 3, 2, 2), (0, 3, 2), (2, 0, 3)])
def test_places_of_nonzero_elements(shape):
    x = torch.arange(math.prod(shape)).view(shape) % 3
    for marks in (x, x != 0, x.transpose(0, -1), x.float().flip(0)):
        made, wanted = marks.nonzero(), np.argwhere(marks.numpy())
        assert made.tolist() == wanted.tolist() and (not len(wanted) or made.stride() == (1, len(wanted)))
        assert [t.tolist() for t in torch.where(marks)] == wanted.T.tolist()


def test_parts_are_written_into_others_of_the_same_memory():
    def written(key, given):
        x = torch.arange(24).view(4, 6)
        version = x._version
        x[key] = x[given]
        assert x._version > version
        return x.tolist()

    rows = torch.arange(24).view(4, 6).tolist()
    assert written(0, 1) == [rows[1], *rows[1:]]
    assert written((..., 0), (..., 5)) == [[row[5], *row[1:]] for row in rows]
    assert written(None, None) == written((slice(2, 3),), slice(2, 3)) == rows
    assert written((0, slice(0, 3)), (0, slice(3, 6)))[0] == [3, 4, 5, 3, 4, 5]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        written((0, slice(0, 4)), (0, slice(2, 6)))
