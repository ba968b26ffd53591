"""How results lie in memory on a GPU, and arrays without elements or with turned dimensions, by kernels that the CPU runs."""

import pytest

import flambeau as torch

from .fake_gpu import back, on_gpu
from .test_places import by_plan, turned

pytestmark = pytest.mark.sweep

F = torch.nn.functional
X = torch.arange(4.0 * 8 * 3 * 8).view(4, 8, 3, 8)


def lies_as_on_the_cpu(function, *args):
    """Values and strides, in the first calls and in those that have a plan."""
    for _ in range(4):
        expected, got = function(*args), function(*map(on_gpu, args))
        assert back(got).equal(expected) and got.stride() == expected.stride()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :1].expand(4, 5, 3, 8).clone(),
        lambda x: x[:, ::2].permute(3, 0, 2, 1).clone(),
        lambda x: x.permute(3, 1, 0, 2) * 2,
        lambda x: x.permute(0, 2, 3, 1).masked_fill(x.permute(0, 2, 3, 1) > 50, 0.0),
        lambda x: x[:, :, :1].permute(0, 3, 2, 1).sin(),
        lambda x: x[:1] + x.transpose(1, 3)[:, :, :, :1],
    ],
    ids=["expanded", "cut", "turned", "masked", "one line", "two"],
)
def test_strides_of_results(gpu, function):
    lies_as_on_the_cpu(function, X)


def test_rows_of_turned_tensors_by_index(gpu):
    for order in ((0, 2, 3, 1), (1, 2, 0, 3), (3, 0, 1, 2)):
        for index in ([1, 0, 2], [[1], [0], [2]]):
            index = torch.tensor(index)
            lies_as_on_the_cpu(lambda x, i, order=order: x.permute(order)[i], X, index)
            lies_as_on_the_cpu(lambda x, i, order=order: x.permute(order)[:, i], X, index)
            lies_as_on_the_cpu(lambda x, i, order=order: x.permute(order)[:, i, :, i], X, index)
    there = turned(X)
    there[torch.tensor([2, 0])] += 1.0  # reads and writes
    expected = X.clone()
    expected[torch.tensor([2, 0])] += 1.0
    assert back(there).equal(expected)


def test_views_of_nothing(gpu):
    x = on_gpu(torch.ones(3, 0, 5))
    for function in (
        lambda x: x.permute(2, 0, 1)[1:],
        lambda x: x[1] * 2,
        lambda x: x[..., 3].exp(),
        lambda x: x.flip(2),
        lambda x: x.narrow(2, 2, 2).clone(),
        lambda x: x.transpose(0, 2)[2].cumsum(0),
        lambda x: torch.cat([x[1:], x[:, :, 1:2].expand(3, 0, 5)]),
    ):
        assert function(x).shape == function(torch.ones(3, 0, 5)).shape


def test_sums_over_no_rows(gpu):
    weight, bias = on_gpu(torch.ones(7), True), on_gpu(torch.ones(7), True)
    for _ in range(4):
        made = F.layer_norm(on_gpu(torch.ones(0, 3, 7)), (7,), weight, bias)
        slopes = torch.autograd.grad(made, (weight, bias), on_gpu(torch.ones(0, 3, 7)))
        assert all(back(g).equal(torch.zeros(7)) for g in slopes)


def test_few_elements_are_joined_in_one_launch(gpu):
    for d in (torch.uint8, torch.bfloat16, torch.float32, torch.int64, torch.complex128):
        x, y = torch.arange(24).view(2, 3, 4).to(d), torch.arange(100, 116).view(2, 2, 4).to(d)
        by_plan(lambda x, y: torch.cat([x, y], 1), x, y, launches=1)
        by_plan(
            lambda x, y: torch.cat([x.transpose(0, 2), y.transpose(0, 2), x[:, :0].transpose(0, 2)], 1),
            x,
            y,
            launches=1,
        )
        by_plan(lambda x: torch.stack([x[0], x[1, :, :1].expand(3, 4), x.flip(2)[0]], 2), x)
        by_plan(lambda x: x.roll(1, 2), x, launches=1)
    x = torch.arange(400_000.0)
    by_plan(lambda x: torch.cat([x, x]), x, launches=2)  # much is copied in larger words
