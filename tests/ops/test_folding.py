"""Dimensions moved for folds, and how threads share what is left."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._ops.folds import folding


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_dimension_to_the_end_and_back(axis):
    x = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(folding.to_last(x, axis), np.moveaxis(x, axis, -1))
    np.testing.assert_array_equal(folding.from_last(folding.to_last(x, axis), axis), x)


@pytest.mark.slow
@pytest.mark.parametrize("worthwhile", [1, 1 << 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_one_thread_and_several_find_the_same(monkeypatch, worthwhile, dtype):
    """Extrema, sums, scans and orders along every dimension of small operands that threads share, or that no work is worth sharing for."""
    monkeypatch.setattr("flambeau._backend.threads.WORTHWHILE", worthwhile)
    monkeypatch.setattr("flambeau._backend.threads._pool.size", 3)
    generator = torch.Generator().manual_seed(0)
    folding._plans.clear()
    for shape in ((70,), (300,), (5, 200), (200, 5), (3, 70, 130), (130, 2, 9)):
        whole = torch.randint(-9, 9, shape, generator=generator)
        for given in (whole, whole.flip(0), whole.transpose(0, -1)):
            x, reference = given.to(dtype), given.numpy()
            for d in range(len(shape)):
                for sign, name in ((1, "max"), (-1, "min")):
                    values, places = getattr(x, name)(d)
                    np.testing.assert_array_equal(values.long().numpy(), getattr(reference, name)(d))
                    np.testing.assert_array_equal(places.numpy(), (reference * sign).argmax(d))
                np.testing.assert_array_equal(x.amax(d).long().numpy(), reference.max(d))
                np.testing.assert_array_equal(x.cummax(d).values.long().numpy(), np.maximum.accumulate(reference, d))
                np.testing.assert_array_equal(x.sort(d).values.long().numpy(), np.sort(reference, d))
                order = np.argsort(reference, d, kind="stable")
                np.testing.assert_array_equal(x.sort(d, stable=True).indices.numpy(), order)
                if dtype is not torch.bfloat16:
                    np.testing.assert_array_equal(x.sum(d).long().numpy(), reference.sum(d))
                    np.testing.assert_array_equal(x.cumsum(d).long().numpy(), reference.cumsum(d))
    folding._plans.clear()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_sums_down_columns(dtype):
    """Real and imaginary parts are added up side by side, whatever dimensions go and however the rows lie."""
    real = torch.arange(4 * 6 * 5 * 7, dtype=torch.float64).reshape(4, 6, 5, 7).sin()
    x = torch.complex(real, real.flip(0) * 2).to(dtype)
    views = [x, x[::2], x[:, 1:, ::2], x.transpose(0, 1), x[..., 1:], x[..., ::2], x[..., :1], x.transpose(1, 3)]
    for y in views:
        for dims in ((0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (3,), (1, 3)):
            for keepdim in (False, True):
                made = y.sum(dims, keepdim=keepdim)
                parts = torch.complex(y.real.contiguous().sum(dims, keepdim), y.imag.contiguous().sum(dims, keepdim))
                assert made.dtype is dtype and made.shape == parts.shape
                torch.testing.assert_close(made, parts)
                torch.testing.assert_close(y.mean(dims, keepdim=keepdim), made / (y.numel() // made.numel()))


@pytest.mark.parametrize("base", [(1, 1, 1), (4, 1, 1), (1, 5, 1), (1, 1, 6), (4, 5, 1), (1, 5, 6), (4, 1, 6)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod"])
def test_what_is_repeated_is_folded_once(base, name):
    whole = torch.arange(1.0, 1.0 + np.prod(base)).view(base).expand(4, 5, 6)
    for dim in range(3):
        for keep in (False, True):
            made = getattr(whole, name)(dim, keep)
            exact = getattr(whole.clone().numpy().astype("f8"), {"amax": "max"}.get(name, name))(dim, keepdims=keep)
            np.testing.assert_allclose(made.numpy(), exact, rtol=1e-6)
            assert made.is_contiguous()
            made += 1  # memory of its own


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.bool_])
@pytest.mark.parametrize("name", ["max", "min", "amax", "prod", "any", "cummax"])
def test_rows_with_gaps_are_folded_as_dense_ones(name, dtype):
    """Blocks of such rows are put side by side first."""
    dense = np.random.RandomState(0).standard_normal((4, 1100)).astype(dtype)
    if dtype in (np.float32, np.float16):
        dense[1, 700], dense[2, 3], dense[2, 4], dense[3] = np.nan, -0.0, 0.0, np.sort(dense[3])
    for count in (1100, 512, 129, 64, 3):
        apart = np.repeat(dense[:, :count], 2, 1)
        made, wanted = (getattr(torch.from_numpy(a), name)(1) for a in (apart[:, ::2], dense[:, :count].copy()))
        for a, b in zip(*[(r,) if torch.is_tensor(r) else r for r in (made, wanted)], strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_extrema_along_the_last_dimension_of_columns():
    """They are found down the columns that lie side by side."""
    x = torch.randn(70, 40).T
    assert x.max(1).values.equal(x.contiguous().max(1).values)
    assert x.argmin(1).equal(x.contiguous().argmin(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logarithmic_sums_of_numbers_far_apart(dtype):
    """Blocks whose sums would vanish beside the largest element are added up in order."""
    x = torch.tensor([0.0, 1000.0, -3.0, 1000.0] + [-2000.0] * 100 + [999.0] * 64, dtype=dtype)
    made = torch.logcumsumexp(x, 0)
    assert made[:2].tolist() == [0.0, 1000.0]
    torch.testing.assert_close(made, torch.from_numpy(np.logaddexp.accumulate(x.double().numpy())).to(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("width", [9, 16, 31, 100])
def test_rows_that_are_folded_together(width, dtype):
    """Their last elements are not joined twice, NaN is in all that it is in, and rows may have gaps."""
    wide = np.random.RandomState(0).randint(1, 3, (37, width + 3)).astype(dtype)
    if dtype is not np.uint8:
        wide[5, 0] = wide[7, width - 1] = wide[36, width // 2] = np.nan
    for x in (wide[:, :width].copy(), wide[:, :width]):
        made = torch.from_numpy(x)
        for name in ("max", "min"):
            np.testing.assert_array_equal(getattr(torch, "a" + name)(made, 1), getattr(x, name)(1))
        np.testing.assert_allclose(made.double().prod(1), x.astype("f8").prod(1))
        if dtype is not np.uint8:
            np.testing.assert_allclose(made.norm(dim=1), np.sqrt((x.astype("f8") ** 2).sum(1)), rtol=1e-6)
            np.testing.assert_allclose(made.prod(1), x.astype("f8").prod(1).astype(dtype), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.bool_])
@pytest.mark.parametrize(
    "shape, dim",
    [((150, 1), 1), ((2, 3, 130), 1), ((130, 5), 1), ((150, 8), 1), ((37, 9), 1), ((20, 40), 1), ((4, 70, 3), 1)],
)
def test_extrema_of_rows_that_are_searched_together(shape, dim, dtype):
    """The first of equal ones is found, and the first NaN."""
    x = np.random.RandomState(0).randint(0, 4, shape).astype(dtype)
    if dtype in (np.float32, np.float64):
        x[x == 3] = -0.0
        x[np.random.RandomState(1).rand(*shape) < 0.05] = np.nan
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2]):
        made = torch.from_numpy(given)
        for name in ("max", "min"):
            values, places = getattr(made, name)(dim)
            np.testing.assert_array_equal(places, getattr(x, "arg" + name)(dim))
            np.testing.assert_array_equal(values, getattr(x, name)(dim))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(128, 1), (2, 71, 3), (200, 7), (200, 8)])
def test_running_sums_of_many_short_rows(shape, dtype):
    """They are added up as long rows are."""
    x = (np.random.RandomState(0).rand(*shape) * 9).astype(dtype)
    made, wide = torch.from_numpy(x), torch.from_numpy(np.repeat(x, 2, -1))[..., ::2]
    for name in ("cumsum", "cumprod"):
        found = getattr(made, name)(-1)
        assert torch.equal(found, getattr(wide, name)(-1)) and found.is_contiguous()
        np.testing.assert_allclose(found, getattr(np, name)(x.astype("f8"), -1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_programs_along_many_short_rows(monkeypatch, dtype):
    """They are turned into columns, some at a time, and give what each row gives."""
    monkeypatch.setattr("flambeau._backend.cpu_rows._TURNED", 300)
    x = torch.randn(140, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[3, 1], x[4, 2], x[5] = float("nan"), float("inf"), -float("inf")
    targets = torch.arange(140) % 5
    for call in (
        lambda x, t: x.logsumexp(-1),
        lambda x, t: x.var(-1),
        lambda x, t: torch.nn.functional.cross_entropy(x, t, reduction="none"),
    ):
        rows = [call(row, t) for row, t in zip(x.split(1), targets.split(1))]
        torch.testing.assert_close(call(x, targets), torch.cat(rows), equal_nan=True)
