"""Indexing and selection."""

import pytest

import flambeau as torch


@pytest.fixture
def x():
    return torch.arange(24).reshape(2, 3, 4)


def test_integers_and_slices(x):
    assert x[0].shape == (3, 4) and x[0, 1].tolist() == [4, 5, 6, 7] and x[0, 1, 2] == 6
    assert x[:, 0, :].shape == (2, 4) and x[0:1, :, -1].tolist() == [[3, 7, 11]]
    assert x[None].shape == (1, 2, 3, 4) and x[:, None, 0].shape == (2, 1, 4)
    with pytest.raises(IndexError):
        x[2]


def test_ellipsis_is_a_view(x):
    last = x[..., 0]
    assert last.shape == (2, 3)
    last[0, 0] = -1
    assert x[0, 0, 0] == -1


def test_masks(x):
    chosen = x[x > 10]
    assert chosen.tolist() == list(range(11, 24))
    chosen[0] = 0
    assert x[0, 2, 3] == 11  # the choice was a copy
    x[x > 10] = 0
    assert x.max() == 10


def test_index_lists_and_tensors(x):
    picked = x[:, [0, 2]]
    assert picked.shape == (2, 2, 4) and torch.equal(picked, x[:, torch.tensor([0, 2]), :])
    picked[0, 0, 0] = 99
    assert x[0, 0, 0] == 0
    x[:, [0, 2]] = 7
    assert x[:, 0].unique().tolist() == [7] and x[0, 1].tolist() == [4, 5, 6, 7]


def test_gather():
    scores = torch.tensor([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]], requires_grad=True)
    best = scores.gather(dim=1, index=scores.argmax(dim=1, keepdim=True))
    assert torch.equal(best, torch.tensor([[0.7], [0.4]]))
    best.sum().backward()
    assert scores.grad.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_where(x):
    assert torch.where(x > 10, x, torch.zeros_like(x)).sum() == sum(range(11, 24))
    places = torch.where(x == 23)
    assert [p.tolist() for p in places] == [[1], [2], [3]]


def test_comparisons(x):
    for made in (x > 3, x <= 3, x == 3, x != 3):
        assert made.dtype is torch.bool


def test_assignment_through_a_view(x):
    y = x[0]
    y[0, 0] = 999
    assert x[0, 0, 0] == 999
    z = x[0].clone()
    z[0, 0] = 0
    assert x[0, 0, 0] == 999


def test_causal_masks():
    allowed = torch.tril(torch.ones(3, 3)).bool()
    assert allowed.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    scores = torch.zeros(3, 3).masked_fill(~allowed, float("-inf"))
    assert scores.softmax(-1)[1].tolist() == [0.5, 0.5, 0]
