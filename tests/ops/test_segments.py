"""`segment_reduce`: values, what empty segments give, gradients, refusals."""

import math

import pytest

import flambeau as torch

DATA = [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("reduce", "plain", "with_initial"),
    [
        ("sum", [3, 0, 12], [4.5, 1.5, 13.5]), ("mean", [1.5, math.nan, 4], [2.25, 1.5, 4.5]),
        ("max", [2, -math.inf, 5], [2, 1.5, 5]), ("min", [1, math.inf, 3], [1, 1.5, 1.5]),
        ("prod", [2, 1, 60], [3, 1.5, 90]),
    ],
)  # fmt: skip
def test_values(reduce, plain, with_initial):
    lengths, x = torch.tensor([2, 0, 3]), torch.tensor(DATA)
    assert torch.segment_reduce(x, reduce, lengths=lengths).tolist() == pytest.approx(plain, nan_ok=True)
    made = torch.segment_reduce(x, reduce, offsets=torch.tensor([0, 2, 2, 5]), initial=1.5)
    assert made.tolist() == with_initial


def test_rows_have_their_own_lengths():
    x = torch.arange(20.0).reshape(2, 5, 2)
    made = torch.segment_reduce(x, "sum", lengths=torch.tensor([[2, 3], [1, 4]]), axis=1)
    assert made.tolist() == [[[2, 4], [18, 21]], [[10, 11], [60, 64]]]


@pytest.mark.parametrize(
    ("reduce", "gradient"),
    [("max", [0, 1, 0, 0.5, 0.5]), ("prod", [2, 1, 20, 15, 12]), ("mean", [0.5, 0.5, 1 / 3, 1 / 3, 1 / 3])],
)
def test_gradients(reduce, gradient):
    x = torch.tensor([1.0, 2.0, 3.0, 5.0, 5.0] if reduce == "max" else DATA, requires_grad=True)
    torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 3])).sum().backward()

    assert x.grad.tolist() == pytest.approx(gradient)


def test_refusals():
    x = torch.tensor(DATA)
    with pytest.raises(RuntimeError, match=r"sum to data\.size"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 2]))
    assert torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 2]), unsafe=True).tolist() == [3, 7]
    with pytest.raises(RuntimeError, match="longer than"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 9]), unsafe=True)
    with pytest.raises(RuntimeError, match="Either lengths or offsets"):
        torch.segment_reduce(x, "sum")
    with pytest.raises(RuntimeError, match="negative"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([-1, 6]))
    with pytest.raises(NotImplementedError, match="Long"):
        torch.segment_reduce(torch.tensor([1]), "sum", lengths=torch.tensor([1]))


@pytest.mark.parametrize("reduce, without", [("max", 1), ("min", 0)])
def test_a_nan_is_the_extremum_and_gets_the_gradient(reduce, without):
    nan = float("nan")
    x = torch.tensor([1.0, 2.0, 3.0, nan, 0.0, nan], requires_grad=True)
    made = torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 0, 3, 1]))
    assert made.isnan().tolist() == [False, False, True, True]
    made.backward(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    expected = [0.0, 0.0, 0.0, 3.0, 0.0, 4.0]
    expected[without] = 1.0
    assert x.grad.tolist() == expected


def test_offsets_outside_of_the_data():
    """PyTorch reads and writes there."""
    x = torch.arange(3.0)
    assert torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 2, 3])).tolist() == [1, 2]
    for offsets in ([-1, 2, 3], [0, 2, 4], [-1, 2, 4], [0, 2**40, 3], [0, -1, 3]):
        with pytest.raises(RuntimeError, match="expected offsets from 0 to 3"):
            torch.segment_reduce(x, "sum", offsets=torch.tensor(offsets))
    for offsets, message in (([1, 2, 3], "begin with 0"), ([0, 3, 2], "negative"), ([], "expected offsets")):
        with pytest.raises(RuntimeError, match=message):
            torch.segment_reduce(x, "sum", offsets=torch.tensor(offsets, dtype=torch.int64))


def test_an_element_that_equals_the_initial_value_has_the_whole_gradient():
    for reduce in ("max", "min"):
        x = torch.tensor([1.0, 5.0, 5.0], requires_grad=True)
        made = torch.segment_reduce(x, reduce, lengths=torch.tensor([1, 2, 0]), initial=1.0)
        assert made.tolist() == ([1.0, 5.0, 1.0] if reduce == "max" else [1.0, 1.0, 1.0])
        made.sum().backward()
        assert x.grad.tolist() == ([1.0, 0.5, 0.5] if reduce == "max" else [1.0, 0.0, 0.0])


def test_gradients_of_products_with_missing_elements():
    nan = float("nan")
    x = torch.tensor([[1.0, 2.0], [nan, 3.0], [3.0, nan], [nan, 4.0], [5.0, 5.0]], requires_grad=True)
    made = torch.segment_reduce(x, "prod", lengths=torch.tensor([1, 2, 2, 0]), initial=2.0)
    assert str(made.tolist()) == str([[2.0, 4.0], [nan, nan], [nan, 40.0], [2.0, 2.0]])
    made.sum().backward()
    assert str(x.grad.tolist()) == str([[2.0, 2.0], [6.0, nan], [nan, 6.0], [10.0, 10.0], [nan, 8.0]])
    x = torch.tensor([nan, nan, 3.0], requires_grad=True)
    torch.segment_reduce(x, "prod", lengths=torch.tensor([3])).sum().backward()
    assert x.grad.isnan().all()


def test_extrema_under_their_longer_names():
    x, lengths = torch.tensor([1.0, 3.0, 2.0]), torch.tensor([2, 1])
    assert torch._segment_reduce(x, "amax", lengths=lengths).tolist() == [3.0, 2.0]
    assert torch._segment_reduce(x, "amin", lengths=lengths).tolist() == [1.0, 2.0]
