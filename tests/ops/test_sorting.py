"""Orderings: stability, NaN, every dtype and layout, parts of the order, distinct values."""

import math

import numpy as np
import pytest

import flambeau as torch

NAN = math.nan
DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "float16"]


def array(shape, dtype="float32", seed=0):
    x = np.random.default_rng(seed).standard_normal(shape) * 20
    return (np.abs(x) if dtype == "uint8" else x).astype(dtype)


@pytest.mark.parametrize("shape", [(1,), (17,), (5, 33), (3, 4, 50), (300, 500), (70000,)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(shape, dtype, descending):
    x = array(shape, dtype)
    for dim in range(x.ndim):
        made = torch.sort(torch.from_numpy(x), dim, descending)
        key = -x.astype(np.float64) if descending else x
        places = np.argsort(key, dim, kind="stable")
        assert np.array_equal(made.indices.numpy(), places)
        assert np.array_equal(made.values.numpy(), np.take_along_axis(x, places, dim))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("spread", [1, 50, 2**40, 2**62, 2**64 - 1], ids=str)
def test_integers_near_to_each_other_and_far_apart(spread, descending):
    """Words have room for a key and a place up to some spread, which does not show."""
    rng = np.random.default_rng(0)
    for shape in ((700,), (30, 90), (40, 3, 20)):
        low = -(2**63) if spread > 2**62 else -spread // 2
        numbers = rng.integers(low, low + spread, shape, np.int64, endpoint=True)
        numbers.flat[:2] = low, low + spread
        x = torch.from_numpy(numbers)
        for dim in range(len(shape)):
            values, places = x.sort(dim, descending=descending, stable=True)
            order = np.argsort(~numbers if descending else numbers, dim, kind="stable")
            assert (places.numpy() == order).all()
            assert (values.numpy() == np.take_along_axis(numbers, order, dim)).all()
            found, at = x.kthvalue(2, dim)
            assert (found.numpy() == np.sort(numbers, dim).take(1, dim)).all()
            assert torch.equal(x.gather(dim, at.unsqueeze(dim)).squeeze(dim), found)


def test_strided_input():
    x = array((40, 60))[::2, ::3]
    made = torch.sort(torch.from_numpy(x.copy()).t(), 0)
    assert np.array_equal(made.values.numpy(), np.sort(x.T, 0))
    assert np.array_equal(torch.msort(torch.from_numpy(x.copy())).numpy(), np.sort(x, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nan_is_last_and_zeros_are_equal(dtype):
    x = torch.tensor([0.0, NAN, -0.0, -math.inf, math.inf], dtype=dtype)
    assert torch.argsort(x).tolist() == [3, 0, 2, 4, 1]
    assert torch.argsort(x, descending=True).tolist() == [1, 4, 0, 2, 3]
    values = torch.sort(x).values
    assert math.copysign(1, float(values[2])) == -1.0  # the sign of zero is kept


def test_bool_and_scalars():
    assert torch.sort(torch.tensor([True, False, True])).indices.tolist() == [1, 0, 2]
    made = torch.sort(torch.tensor(3.0))
    assert made.values.item() == 3.0 and made.indices.item() == 0
    assert torch.sort(torch.zeros(0, 3), 0).values.shape == (0, 3)


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in (1, 10, 100, 1000, 5000) for k in (1, 2, 10, 64, 65) if k <= n])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
def test_topk(n, k, dtype):
    x = array((20, n), dtype)
    for largest in (True, False):
        made = torch.topk(torch.from_numpy(x), k, 1, largest)
        key = -x.astype(np.float64) if largest else x
        places = np.argsort(key, 1, kind="stable")[:, :k]
        assert np.array_equal(made.values.numpy(), np.take_along_axis(x, places, 1))
        assert np.array_equal(np.take_along_axis(x, made.indices.numpy(), 1), made.values.numpy())
        turned = torch.topk(torch.from_numpy(np.ascontiguousarray(x.T)), k, 0, largest)
        assert np.array_equal(turned.values.numpy().T, made.values.numpy())


def test_topk_counts_nan_as_largest():
    x = torch.tensor([1.0, NAN, 0.0])
    assert torch.topk(x, 2).indices.tolist() == [1, 0]
    assert torch.topk(x, 2, largest=False).indices.tolist() == [2, 0]
    long = torch.arange(1000.0)
    long[500] = NAN
    assert torch.topk(long, 2).indices.tolist() == [500, 999]
    with pytest.raises(RuntimeError):
        torch.topk(x, 4)


@pytest.mark.parametrize("n", [1, 2, 5, 100, 101])
def test_medians_and_kth_values(n):
    x = array((6, n))
    made = torch.median(torch.from_numpy(x), 1)
    assert np.array_equal(made.values.numpy(), np.sort(x, 1)[:, (n - 1) // 2])
    assert np.array_equal(np.take_along_axis(x, made.indices.numpy()[:, None], 1)[:, 0], made.values.numpy())
    kth = torch.kthvalue(torch.from_numpy(x), n, 1, keepdim=True)
    assert np.array_equal(kth.values.numpy(), x.max(1, keepdims=True))


def test_medians_with_nan():
    x = torch.tensor([[1.0, NAN, 3.0, 2.0], [4.0, 3.0, 2.0, 1.0], [NAN, NAN, NAN, NAN]])
    made = torch.median(x, 1)
    assert torch.isnan(made.values).tolist() == [True, False, True]
    assert made.indices[0].item() == 1
    made = torch.nanmedian(x, 1)
    assert made.values[:2].tolist() == [2.0, 2.0] and torch.isnan(made.values[2])


def test_mode():
    x = torch.tensor([[1, 2, 2, 1], [3, 3, 3, 0]])
    made = torch.mode(x)
    assert made.values.tolist() == [1, 3]
    assert made.indices.tolist() == [3, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(dtype):
    x = array((30, 40), dtype).round()
    values, inverse, counts = torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True)
    expected = np.unique(x, return_counts=True)
    assert np.array_equal(values.numpy(), expected[0]) and np.array_equal(counts.numpy(), expected[1])
    assert np.array_equal(values.numpy()[inverse.numpy()], x)


def test_unique_slices():
    x = np.random.default_rng(0).integers(0, 2, (40, 4, 2))
    for dim in range(3):
        values, inverse, counts = torch.unique(torch.from_numpy(x), dim=dim, return_inverse=True, return_counts=True)
        assert np.array_equal(values.numpy(), np.unique(x, axis=dim))
        assert np.array_equal(np.take(values.numpy(), inverse.numpy(), dim), x)
        assert counts.sum().item() == x.shape[dim]


def test_unique_consecutive():
    x = torch.tensor([1, 1, 2, 1, 1])
    values, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 1] and inverse.tolist() == [0, 0, 1, 2, 2] and counts.tolist() == [2, 1, 2]
    assert len(torch.unique(torch.tensor([NAN, NAN]))) == 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: torch.sort(torch.tensor([1j])), RuntimeError),
        (lambda: torch.sort(torch.zeros(3), 1), IndexError),
        (lambda: torch.kthvalue(torch.zeros(3), 4), RuntimeError),
        (lambda: torch.kthvalue(torch.zeros(0), 1), IndexError),
        (lambda: torch.mode(torch.zeros(0)), IndexError),
        (lambda: torch.median(torch.tensor([True])), NotImplementedError),
        (lambda: torch.topk(torch.tensor([True]), 1), RuntimeError),
        (lambda: torch.unique(torch.zeros(3, 0), dim=0), RuntimeError),
        (lambda: torch.quantile(torch.zeros(3), 1.5), RuntimeError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8", "float32", "float64"])
@pytest.mark.parametrize("spread", [100, 1_000_000])
@pytest.mark.parametrize("size", [5000, 270_001])
def test_many_distinct_elements(dtype, spread, size):
    x = np.random.default_rng(0).integers(-spread, spread, size).astype(dtype)
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    given = torch.from_numpy(x)
    np.testing.assert_array_equal(torch.unique(given).numpy(), values)
    made = torch.unique(given, return_inverse=True, return_counts=True)
    for got, expected in zip(made, (values, inverse, counts), strict=True):
        np.testing.assert_array_equal(got.numpy(), expected)
    np.testing.assert_array_equal(torch.unique(given, return_counts=True)[1].numpy(), counts)


def test_distinct_elements_from_end_to_end():
    x = np.array([-(2**63), 2**63 - 1] * 4000)
    values, inverse = torch.unique(torch.from_numpy(x), return_inverse=True)
    assert values.tolist() == [-(2**63), 2**63 - 1]
    np.testing.assert_array_equal(inverse.numpy(), x > 0)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("size", [33, 1000, 20_000, 300_001])
def test_many_are_counted(dtype, size):
    x = np.random.default_rng(0).integers(0, 200, size).astype(dtype)
    np.testing.assert_array_equal(torch.bincount(torch.from_numpy(x)).numpy(), np.bincount(x))
    np.testing.assert_array_equal(
        torch.bincount(torch.from_numpy(x)[::2], minlength=999).numpy(), np.bincount(x[::2], minlength=999)
    )


@pytest.mark.parametrize("size", [40, 20_000, 300_001])
def test_many_negative_numbers_are_not_counted(size):
    x = torch.ones(size, dtype=torch.int64)
    x[-1] = -1
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [20_000, 300_001])
def test_many_in_bins(dtype, size):
    x = np.random.default_rng(0).standard_normal(size).astype(dtype)
    x[:3] = NAN, -1.0, 1.0
    few = sum(torch.histc(torch.from_numpy(part), 37, -1, 1).numpy() for part in np.array_split(x, 300))
    np.testing.assert_array_equal(torch.histc(torch.from_numpy(x), 37, -1, 1).numpy(), few)


def test_unique_rows_with_nan_are_all_kept():
    nan = float("nan")
    rows, inverse, counts = torch.unique(
        torch.tensor([[1, nan], [1, nan], [0, 2], [0, 2]]), dim=0, return_inverse=True, return_counts=True
    )
    assert str(rows.tolist()) == "[[0.0, 2.0], [1.0, nan], [1.0, nan]]"
    assert inverse.tolist() == [1, 2, 0, 0] and counts.tolist() == [2, 1, 1]
    assert torch.unique(torch.full((3, 1), nan), dim=0).shape == (3, 1)


def test_forms_of_unique_with_all_their_results():
    x = torch.tensor([3.0, 1.0, 3.0], requires_grad=True)
    values, inverse, counts = torch._unique2(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 3] and inverse.tolist() == [1, 0, 1] and counts.tolist() == [1, 2]
    assert values.requires_grad and not inverse.requires_grad
    for found in (torch._unique2(x), torch._unique2(x, return_counts=True), torch._VF.unique_dim(x, 0)):
        assert found[0].tolist() == [1, 3] and found[1].shape == (0,)
    assert torch._unique2(x, return_counts=True)[2].tolist() == [1, 2]
    assert [t.tolist() for t in torch._unique(x, return_inverse=True)] == [[1, 3], [1, 0, 1]]
    assert torch._VF.unique_dim(x, 0, return_counts=True)[2].tolist() == [1, 2]


def test_planned_results_lie_as_the_operand_does():
    x = torch.arange(12.0).reshape(3, 4)
    for _ in range(4):
        values, places = torch.sort(x.t(), -1)
        assert values.stride() == places.stride() == (1, 4)
        assert torch.argsort(x.t(), 0).stride() == (1, 4)


def test_unique_takes_no_number_for_a_flag():
    with pytest.raises(TypeError, match="'sorted' must be bool, not int"):
        torch.unique(torch.tensor([[1, 2], [1, 2]]), 0)  # dim was meant


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
def test_distinct_ones_of_a_few(dtype):
    for n in (1, 4, 31, 32, 33, 60):
        x = torch.from_numpy(np.random.default_rng(n).integers(0, 9, (n, 1))).to(dtype)
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        wanted = np.unique(x.numpy(), return_inverse=True, return_counts=True)
        assert values.dtype is dtype and values.tolist() == wanted[0].tolist() and counts.tolist() == wanted[2].tolist()
        assert inverse.shape == x.shape and inverse.flatten().tolist() == wanted[1].reshape(-1).tolist()
        assert x.unique().tolist() == wanted[0].tolist() and counts.dtype is inverse.dtype is torch.int64
        flat = x.flatten()
        assert flat.bincount().tolist() == np.bincount(x.numpy().reshape(-1)).tolist()
        assert flat.bincount(minlength=12).tolist() == np.bincount(x.numpy().reshape(-1), minlength=12).tolist()
    with pytest.raises(RuntimeError):
        torch.tensor([1, -1]).bincount()
    with pytest.raises(RuntimeError):
        torch.tensor([1, 2]).bincount(minlength=-1)
    with pytest.raises(RuntimeError):
        torch.tensor([[1, 2]]).bincount()


@pytest.mark.parametrize("dim", [0, 1])
def test_cores_share_rows_of_medians(dim):
    x = torch.randn(300, 400)
    expected = x.sort(dim)[0]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for (values, places), at in ((x.median(dim), (x.shape[dim] - 1) // 2), (x.kthvalue(7, dim), 6)):
                assert torch.equal(values, expected.select(dim, at))
                assert torch.equal(x.gather(dim, places.unsqueeze(dim)).squeeze(dim), values)
    finally:
        torch.set_num_threads(before)


def test_large_unsigned_integers():
    """Those beyond the signed ones of their size, among more than are sorted by one call."""
    values = [3_000_000_000, 1, 1 << 31, 0, (1 << 32) - 1, *range(500)]
    x = torch.tensor(values, dtype=torch.uint32)
    assert x.sort()[0].tolist() == sorted(values)
    assert x.sort(descending=True)[0].tolist() == sorted(values, reverse=True)
    assert x.topk(3)[0].tolist() == sorted(values, reverse=True)[:3]
    assert x.topk(5, largest=False)[0].tolist() == sorted(values)[:5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize(
    "shape, dim", [((150, 3), 1), ((2, 4, 130), 1), ((5, 150), 0), ((140, 4, 2), 1), ((170, 1), 1)]
)
def test_a_few_elements_of_many_rows(shape, dim, dtype):
    """They are ordered by exchanges: as longer rows are, with equal elements, zeros and NaN among them."""
    x = torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    if dtype.is_floating_point:
        x[x == 2] = math.nan
        x[x == 1] = -0.0
    for given in (x, x.transpose(0, dim).contiguous().transpose(0, dim)):
        rows = given.movedim(dim, 0).reshape(shape[dim], -1)
        for descending in (False, True):
            values, places = given.sort(dim, descending)
            one_by_one = [row.sort(0, descending) for row in rows.T[:9]]
            for made, single in ((values, [v for v, _ in one_by_one]), (places, [p for _, p in one_by_one])):
                made = made.movedim(dim, 0).reshape(shape[dim], -1)[:, :9].T
                assert torch.equal(made.double().nan_to_num(9), torch.stack(single).double().nan_to_num(9))
            if dtype is torch.bool:
                continue
            for k in range(1, shape[dim] + 1):
                top = given.topk(k, dim, largest=descending)
                assert torch.equal(top.indices, places.narrow(dim, 0, k))
                if not descending:
                    assert torch.equal(given.kthvalue(k, dim).indices, places.select(dim, k - 1))
        if dtype is torch.bool:
            continue
        numbers = (given == given).sum(dim, keepdim=True)
        places = given.argsort(dim)
        lower = (shape[dim] - 1) // 2
        at = torch.where(numbers < shape[dim], numbers, lower)
        assert torch.equal(given.median(dim, keepdim=True).indices, places.gather(dim, at))
        assert torch.equal(given.nanmedian(dim).indices, places.gather(dim, (numbers - 1).clamp(0) // 2).squeeze(dim))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_distinct_integers_are_counted(dtype):
    random = np.random.default_rng(0)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for count in (33, 700, 70_000):
        for first, last in ((0, 9), (low, high), (high - 3, high), (low, low + 4), (max(low, -40), 40), (7, 7)):
            x = random.integers(first, last, (count // 3, 3), dtype=dtype, endpoint=True)
            wanted = np.unique(x, return_inverse=True, return_counts=True)
            made = torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True)
            for a, b in zip(made, wanted):
                np.testing.assert_array_equal(a.numpy().reshape(b.shape), b)
            assert made[0].numpy().dtype == dtype and made[1].shape == x.shape
            np.testing.assert_array_equal(torch.unique(torch.from_numpy(x)[:, 1:]).numpy(), np.unique(x[:, 1:]))
