"""Borders: the first and the last index, bounds that meet, empty operands, operands that broadcast into each other."""

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional
LARGE = 1 << 19  # elements: work that several threads share

# -- indices ---------------------------------------------------------------------------------------------------------

# (whether it counts from the end, call) with a matrix x of `rows` rows and an index of it
BY_ROW = {
    "index_select": (False, lambda x, i: x.index_select(0, i)),
    "index_select of columns": (False, lambda x, i: x.t().index_select(1, i)),
    "embedding": (False, lambda x, i: F.embedding(i, x)),
    "gather": (False, lambda x, i: x.gather(0, i[:, None].expand(len(i), x.shape[1]))),
    "gather in rows": (False, lambda x, i: x.t().contiguous().gather(1, i.expand(x.shape[1], len(i)))),
    "scatter": (False, lambda x, i: x.clone().scatter(0, i[:, None].expand(len(i), x.shape[1]), 0.0)),
    "scatter_add": (False, lambda x, i: x.scatter_add(0, i[:, None].expand(len(i), x.shape[1]), x[: len(i)])),
    "index_add": (False, lambda x, i: x.index_add(0, i, x[: len(i)])),
    "index_fill": (True, lambda x, i: x.index_fill(0, i, 0.0)),
    "index_copy": (False, lambda x, i: x.index_copy(0, i, x[: len(i)])),
    "brackets": (True, lambda x, i: x[i]),
    "pairs in brackets": (True, lambda x, i: x[i, torch.zeros_like(i)]),
    "brackets of columns": (True, lambda x, i: x.t()[:, i]),
    "assignment": (True, lambda x, i: x.clone().index_put((i,), torch.zeros(()))),
    "added in brackets": (True, lambda x, i: x.clone().index_put((i,), torch.ones(()), accumulate=True)),
    "take": (True, lambda x, i: x[:, 0].contiguous().take(i)),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("name", BY_ROW)
@pytest.mark.parametrize("rows, columns", [(7, 1), (7, 5), (LARGE // 8, 8)])
def test_the_last_index_and_the_one_after_it(name, rows, columns, dtype):
    from_end, call = BY_ROW[name]
    x = torch.arange(float(rows * columns)).reshape(rows, columns)
    index = torch.arange(rows, dtype=dtype)
    if dtype is torch.int32 and name in ("take", "index_fill", "index_copy"):
        with pytest.raises((IndexError, RuntimeError), match=r"Expected (dtype int64|a long tensor) for index"):
            call(x, index)
        return
    call(x, index)
    for at in (0, len(index) // 2, -1):
        wrong = [rows, -rows - 1, 2**31 - 1] if from_end else [rows, -1, 2**31 - 1, -(2**31)]
        for value in wrong:
            bad = index.clone()
            bad[at] = value
            with pytest.raises((IndexError, RuntimeError), match=r"out of|range"):
                call(x, bad)
        if from_end:
            good, same = index.clone(), index.clone()
            good[at], same[at] = -rows, 0
            assert torch.equal(call(x, good), call(x, same))


@pytest.mark.parametrize(
    "name", ["index_select", "embedding", "brackets", "pairs in brackets", "take", "index_fill", "assignment"]
)
def test_long_indices_of_few_rows(name):
    """Threads look at them in blocks, and at a rest."""
    from_end, call = BY_ROW[name]
    x = torch.arange(10.0).reshape(5, 2)
    index = torch.arange(LARGE + 77) % 5
    expected = call(x, torch.arange(5))
    made = call(x, index)
    assert torch.equal(made[:5], expected[:5]) and torch.equal(made[-1], made[(LARGE + 76) % 5])
    for at in (0, 1000, LARGE // 2, LARGE - 1, LARGE, LARGE + 1, LARGE + 76):
        for value in (5, -6 if from_end else -1):
            bad = index.clone()
            bad[at] = value
            with pytest.raises((IndexError, RuntimeError), match=r"out of|range"):
                call(x, bad)


@pytest.mark.parametrize("shape, index", [((0,), [0]), ((0, 0), [0]), ((0, 5), [0]), ((5, 0), [[0], [0]])])
@pytest.mark.parametrize("accumulate", [False, True])
def test_nothing_can_be_written_where_there_is_nothing(shape, index, accumulate):
    places = tuple(torch.tensor(i) for i in index) if isinstance(index[0], list) else (torch.tensor(index),)
    with pytest.raises(IndexError, match="dimension with size 0"):
        torch.zeros(shape).index_put(places, torch.tensor(1.0), accumulate=accumulate)
    empty = tuple(torch.zeros(0, dtype=torch.int64) for _ in places)
    assert torch.zeros(shape).index_put(empty, torch.tensor(1.0), accumulate=accumulate).shape == shape


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("count", [50, LARGE // 40 + 1])
@pytest.mark.parametrize("recorded", [True, False])
def test_several_indices_beside_and_apart(count, contiguous, recorded):
    rng = np.random.default_rng(0)
    x = np.arange(60 * 40 * 50, dtype=np.float32).reshape(60, 40, 50)
    t = torch.from_numpy(x.copy() if contiguous else np.asfortranarray(x)).requires_grad_(recorded)
    i, j, k = (rng.integers(-n, n, count) for n in x.shape)
    for key in [
        (i, slice(None), k), (i, j), (slice(None), j[:400], k[:400]), (i, j, k), (slice(None), slice(None), k[:50]),
        (i[:10, None], slice(None), k[None, :10]),
    ]:  # fmt: skip
        made = t[tuple(torch.from_numpy(p) if isinstance(p, np.ndarray) else p for p in key)]
        np.testing.assert_array_equal(made.detach().numpy(), x[key])
        if recorded:
            expected = np.zeros_like(x)
            np.add.at(expected, key, 1)
            np.testing.assert_array_equal(torch.autograd.grad(made.sum(), t)[0].numpy(), expected)


# -- masks -----------------------------------------------------------------------------------------------------------


def test_masks_wider_than_what_they_select_from():
    """Expected values as PyTorch gives them."""
    mask = torch.tensor([True, False, True])
    assert torch.tensor([5.0]).masked_select(mask).tolist() == [5, 5]
    assert torch.tensor([[5.0], [6.0]]).masked_select(mask).tolist() == [5, 5, 6, 6]
    made = torch.tensor([[5.0], [6.0]]).masked_scatter(mask, torch.arange(9.0))
    assert made.tolist() == [[0, 5, 1], [2, 6, 3]]
    x = torch.tensor([[5.0], [6.0]], requires_grad=True)
    x.masked_select(mask).square().sum().backward()
    assert x.grad.tolist() == [[20], [24]]
    with pytest.raises(RuntimeError, match="must match"):
        torch.ones(2).masked_select(mask)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (0, 3)])
def test_places_of_what_is_not_zero(shape):
    x = (np.arange(max(np.prod(shape, dtype=int), 1))[: np.prod(shape, dtype=int)] % 3).reshape(shape)
    for t in (torch.from_numpy(x), torch.from_numpy(np.asfortranarray(x))):
        np.testing.assert_array_equal(t.nonzero().numpy(), np.argwhere(x))
        for made, expected in zip(t.nonzero(as_tuple=True), np.atleast_1d(x).nonzero()):
            np.testing.assert_array_equal(made.numpy(), expected)


# -- bounds that meet ------------------------------------------------------------------------------------------------


def test_gradients_where_bounds_meet_or_cross():
    """Expected values as PyTorch gives them."""
    x = torch.tensor([0.0, 1, 2, 1, 0, 2, 3], requires_grad=True)
    low = torch.tensor([1.0, 1, 1, 1, 2, 2, 2], requires_grad=True)
    high = torch.tensor([1.0, 1, 1, 2, 1, 1, 1], requires_grad=True)
    for call in (torch.clamp, lambda *a: torch.clamp(*[t.double() for t in a])):
        made = torch.autograd.grad(call(x, low, high).sum(), (x, low, high))
        assert [g.tolist() for g in made] == [[0, 1, 0, 1, 0, 0, 0], [0] * 7, [0, 0, 1, 0, 1, 1, 1]]
    (g,) = torch.autograd.grad(x.clamp(1, 2).sum(), x)
    assert g.tolist() == [0, 1, 1, 1, 0, 1, 0]
    made = torch.autograd.grad(torch.clamp(x, min=low).sum(), (x, low))
    assert [g.tolist() for g in made] == [[0, 1, 1, 1, 0, 1, 1], [1, 0, 0, 0, 1, 0, 0]]
    made = torch.autograd.grad(torch.clamp(x, max=high).sum(), (x, high))
    assert [g.tolist() for g in made] == [[1, 1, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0, 1, 1]]


# -- operands that broadcast into each other -------------------------------------------------------------------------

THREE = {
    "where": lambda a, b, c: torch.where(a > 0.5, b, c),
    "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
    "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c + 1, value=0.5),
    "lerp": lambda a, b, c: torch.lerp(a, b, c),
    "clamp": lambda a, b, c: torch.clamp(a, b * 0.5, c + 0.5),
    "mul": lambda a, b, c: a * b - c,
    "pow": lambda a, b, c: (a + 1) ** b / (c + 1),
    "atan2": lambda a, b, c: torch.atan2(a, b + 0.1) * torch.hypot(b, c),
    "logaddexp": lambda a, b, c: torch.logaddexp(torch.logaddexp(a, b), c),
}


@pytest.mark.parametrize("name", THREE)
def test_gradients_of_operands_none_of_which_has_the_shape_of_the_result(name):
    call = THREE[name]
    torch.manual_seed(0)
    parts = [torch.rand(shape, dtype=torch.float64) for shape in [(3, 1, 1), (4, 1), (1, 1, 5)]]
    whole = [t.expand(3, 4, 5).clone() for t in parts]
    made, expected = [], []
    for given, kept in ((parts, made), (whole, expected)):
        given = [t.detach().requires_grad_() for t in given]
        out = call(*given)
        assert out.shape == (3, 4, 5)
        kept += torch.autograd.grad(
            (out * torch.linspace(-1, 1, 60, dtype=torch.float64).view(3, 4, 5)).sum(), given, allow_unused=True
        )
    for g, e, t in zip(made, expected, parts):
        assert (g is None) == (e is None)
        if g is not None:
            assert g.shape == t.shape
            torch.testing.assert_close(g, e.sum_to_size(t.shape))


# -- sizes at which another way begins -------------------------------------------------------------------------------

DTYPES = [
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128, torch.bool, torch.uint8, torch.int8,
    torch.int16, torch.int32, torch.int64,
]  # fmt: skip
NUMBERS = [
    0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    100.25,
    127.0,
    128.0,
    -128.0,
    255.0,
    1000.0,
    -1000.0,
    65504.0,
    7e4,
    -7e4,
]


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("size", [4097, LARGE + 1])
def test_many_elements_are_cast_like_few(source, size):
    few = torch.tensor(NUMBERS, dtype=torch.float64).to(source)
    if source.is_floating_point:
        few = torch.cat([few, torch.tensor([float("nan")], dtype=source)])
    many = few.repeat(size // len(few) + 1)[:size]
    for d in DTYPES:
        expected, made = few.to(d), many.to(d)
        assert made.dtype is d
        whole = expected.repeat(size // len(few) + 1)[:size]
        np.testing.assert_array_equal(
            made.view(torch.uint8).numpy(), whole.view(torch.uint8).numpy(), err_msg=f"{source} to {d}"
        )


# -- sizes of one and of nothing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_dimensions_of_one_element_that_are_not_padded(mode):
    x = torch.arange(3.0)
    ends = {"reflect": [1, 0, 1, 2, 1], "replicate": [0, 0, 1, 2, 2], "circular": [2, 0, 1, 2, 0]}[mode]
    assert F.pad(x.reshape(1, 1, 3, 1), (0, 0, 1, 1), mode=mode).flatten().tolist() == ends
    assert F.pad(x.reshape(1, 1, 1, 3), (1, 1, 0, 0), mode=mode).flatten().tolist() == ends
    assert F.pad(x.reshape(1, 3, 1), (0, 0), mode=mode).flatten().tolist() == [0, 1, 2]


def test_dropout_with_its_mask():
    x = torch.arange(1.0, 9.0)
    made, mask = torch.native_dropout(x, 0.5, False)
    assert torch.equal(made, x) and mask.all() and made is not x
    for train in (True, None):
        torch.manual_seed(0)
        made, mask = torch.native_dropout(x, 0.5, train)
        assert torch.equal(made, torch.where(mask, 2 * x, 0 * x)) and 0 < mask.sum() < 8
        made, mask = torch.native_dropout(x, 1.0, train)
        assert made.eq(0).all() and not mask.any()
        assert [t.shape for t in torch.native_dropout(x[:0], 0.5, train)] == [(0,), (0,)]


def test_bounds_in_an_order_of_their_own():
    bounds, order = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1, 2, 0])
    values = torch.tensor([0.0, 1.0, 1.5, 2.5, 3.0, 9.0])
    assert torch.searchsorted(bounds, values, sorter=order).tolist() == [0, 0, 1, 2, 2, 3]
    assert torch.searchsorted(bounds, values, sorter=order, right=True).tolist() == [0, 1, 1, 2, 3, 3]
    for wrong, message in ((order[:2], "must have the same size"), (order.int(), "must be a tensor of long dtype")):
        with pytest.raises(RuntimeError, match=message):
            torch.searchsorted(bounds, values, sorter=wrong)


def test_second_derivatives_where_the_first_cotangent_is_zero():
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    g = torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(x.logcumsumexp(0), x, g, create_graph=True)
    weights = (x[None] - x.logcumsumexp(0)[:, None]).exp().tril()  # d out[j] / d x[i]
    torch.testing.assert_close(first, g @ weights)
    made = torch.autograd.grad((first * first).sum(), (x, g))
    expected = torch.autograd.grad(((g @ weights) ** 2).sum(), (x, g))
    assert made[0].isfinite().all()
    torch.testing.assert_close(made[0], expected[0])


PADS = [(0, 0), (3, 2), (5, 0), (0, 5), (-2, 4), (1, -3), (-1, -1)]
MODES = ["replicate", "reflect", "circular"]


@pytest.mark.parametrize(  # of a circle, what is cut off comes back at the other end
    ("mode", "pads"), [(m, p) for m in MODES for p in PADS if m != "circular" or min(p) >= 0]
)
def test_lines_within_borders_are_copied_as_a_whole(mode, pads):
    """Along a line most places follow each other; those of the edges do not. Forwards, backwards and by a plan."""
    x = torch.arange(2 * 7 * 9.0).reshape(1, 2, 7, 9)
    low, high = pads
    kept = x[..., max(0, -low) : 9 - max(0, -high)]
    name = {"replicate": "edge", "reflect": "reflect", "circular": "wrap"}[mode]
    wide = np.pad(kept.numpy(), ((0, 0), (0, 0), (1, 2), (max(0, low), max(0, high))), mode=name)
    for _ in range(3):
        given = x.clone().requires_grad_()
        made = torch.nn.functional.pad(given, (low, high, 1, 2), mode=mode)
        np.testing.assert_array_equal(made.detach().numpy(), wide)
        weights = torch.arange(float(made.numel())).reshape(made.shape)
        (by,) = torch.autograd.grad(made, given, weights)
        assert float((made.detach() * weights).sum()) == float((x * by).sum())


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_may_take_all_of_one_dimension_away(mode):
    assert torch.nn.functional.pad(torch.ones(1, 2, 5, 5), (-3, -2, 1, 1), mode=mode).shape == (1, 2, 7, 0)
    with pytest.raises(RuntimeError, match="too small"):
        torch.nn.functional.pad(torch.ones(1, 2, 5, 5), (-3, -3, 1, 1), mode=mode)
