"""Masked reductions: what is masked out must not count, not even when it is NaN."""

import pytest

import flambeau as torch

NAN = float("nan")
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [NAN, 7.0, 8.0]])
MASK = torch.tensor([[True, False, True], [False, False, False], [False, True, False]])
INF = float("inf")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", [4.0, 0.0, 7.0]),
        ("prod", [3.0, 1.0, 7.0]),
        ("mean", [2.0, NAN, 7.0]),
        ("median", [1.0, NAN, 7.0]),
        ("amax", [3.0, -INF, 7.0]),
        ("amin", [1.0, INF, 7.0]),
        ("argmax", [2.0, 0.0, 1.0]),
        ("argmin", [0.0, 0.0, 1.0]),
        ("logsumexp", [3.126928, -INF, 7.0]),
    ],
)
def test_reductions_see_only_the_mask(name, expected):
    result = getattr(torch.masked, name)(X, 1, mask=MASK)
    assert torch.allclose(result, torch.tensor(expected), equal_nan=True)


@pytest.mark.parametrize(
    ("order", "expected"), [(0, [2, 0, 1]), (1, [4, 0, 7]), (2, [10**0.5, 0, 7]), (INF, [3, 0, 7]), (-INF, [1, INF, 7])]
)
def test_norm(order, expected):
    result = torch.masked.norm(X, order, 1, mask=MASK)
    assert torch.allclose(result, torch.tensor([float(v) for v in expected]))


def test_variance():
    assert torch.allclose(torch.masked.var(X, 1, False, mask=MASK), torch.tensor([1.0, NAN, 0.0]), equal_nan=True)
    assert torch.allclose(torch.masked.std(X, 1, mask=MASK), torch.tensor([2**0.5, NAN, NAN]), equal_nan=True)
    with pytest.raises(AssertionError):
        torch.masked.var(X, 1, True, correction=1)


def test_softmax_family():
    half = torch.tensor([0.5, 0.0, 0.5])
    row, mask = torch.tensor([1.0, NAN, 1.0]), torch.tensor([True, False, True])
    assert torch.allclose(torch.masked.softmax(row, 0, mask=mask), half)
    assert torch.allclose(torch.masked.softmin(row, 0, mask=mask), half)
    assert torch.allclose(torch.masked.log_softmax(row, 0, mask=mask), half.log())
    assert torch.masked.softmax(X, 1, mask=MASK)[1].isnan().all()


def test_scans_and_normalize():
    assert torch.masked.cumsum(X, 1, mask=MASK).tolist() == [[1, 1, 4], [0, 0, 0], [0, 7, 7]]
    assert torch.masked.cumprod(X, 1, mask=MASK).tolist() == [[1, 1, 3], [1, 1, 1], [1, 7, 7]]
    assert torch.masked.normalize(X, 2.0, 1, mask=MASK)[1:].tolist() == [[0, 0, 0], [0, 1, 0]]


def test_dtypes():
    whole = torch.tensor([[1, 2]], dtype=torch.int32)
    assert torch.masked.sum(whole, 1).dtype is torch.int64
    assert torch.masked.cumsum(whole, 1).dtype is torch.int32
    assert torch.masked.amax(whole, 1, mask=torch.tensor([False])).tolist() == [-(2**31)]
    assert torch.masked.var(torch.ones(2, dtype=torch.bfloat16), correction=1.5).dtype is torch.bfloat16
    with pytest.raises(ValueError):
        torch.masked.mean(whole, 1)


def test_mask_must_broadcast_to_the_input():
    with pytest.raises(IndexError):
        torch.masked.sum(X, 1, mask=torch.ones(2, 3, 3, dtype=torch.bool))
    with pytest.raises(RuntimeError):
        torch.masked.sum(X, 1, mask=torch.ones(2, dtype=torch.bool))


def test_masked_out_elements_get_no_gradient():
    x = X.clone().requires_grad_()
    torch.masked.mean(x, mask=MASK).backward()
    assert torch.allclose(x.grad, MASK / 3.0)


def test_a_product_over_no_dimensions_keeps_the_elements():
    x, mask = torch.tensor([[2.0, 3.0]]), torch.tensor([[True, False]])
    assert torch.masked.prod(x, dim=(), mask=mask).tolist() == [[2, 1]]
    assert torch.masked.sum(x, dim=(), mask=mask).item() == 2  # which folds all


def test_examples_find_the_functions_where_they_are_in_pytorch():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    mask = torch.tensor([[True, False], [True, True]])
    assert torch.masked._ops.sum(x, 1, mask=mask).tolist() == [1.0, 7.0]
