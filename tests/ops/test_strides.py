"""Strides are part of a result's shape: as PyTorch's for operands in any memory order (values observed there)."""

import pytest

import flambeau as torch

X = torch.arange(24.0).reshape(2, 3, 4)
T = torch.arange(24.0).reshape(2, 4, 3).permute(0, 2, 1)  # the last two exchanged
R = torch.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0)  # all reversed
E = torch.arange(12.0).reshape(3, 4).expand(2, 3, 4)
L = torch.arange(120.0).reshape(2, 4, 5, 3).permute(0, 3, 1, 2)  # channels last, as images
V = torch.arange(240.0).reshape(2, 2, 4, 5, 3).permute(0, 4, 1, 2, 3)  # channels last, as volumes
G = torch.arange(120.0).reshape(2, 3, 4, 5).permute(1, 0, 3, 2)
I = torch.tensor([1, 0])
M = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])


def _strides(made):
    return made.stride() if isinstance(made, torch.Tensor) else [t.stride() for t in made]


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: T.exp(), (12, 1, 3)),
        (lambda: T + R, (12, 1, 3)),
        (lambda: R * T, (1, 2, 6)),
        (lambda: T + X, (12, 1, 3)),
        (lambda: X + T, (12, 4, 1)),
        (lambda: X + R.contiguous(), (12, 4, 1)),
        (lambda: E + 1, (12, 4, 1)),
        (lambda: E * T, (12, 4, 1)),
        (lambda: E.clone(), (12, 4, 1)),
        (lambda: E.double(), (12, 4, 1)),
        (lambda: E.to(torch.int32), (12, 4, 1)),
        (lambda: R[:, ::2].clone(), (1, 2, 4)),
        (lambda: T.double() + R, (12, 1, 3)),
        (lambda: R.half() * T, (1, 2, 6)),
        (lambda: L + torch.ones(3, 1, 1), (60, 1, 15, 3)),
        (lambda: torch.ones(3, 1, 1) + L, (60, 1, 15, 3)),
        (lambda: L[:, :, :1] + torch.ones(4, 5), (60, 1, 3, 12)),
        (lambda: torch.where(T > 3, T, R), (12, 1, 3)),
        (lambda: torch.lerp(R, T, X), (1, 2, 6)),
        (lambda: torch.frexp(R), [(1, 2, 6), (1, 2, 6)]),
        (lambda: torch.ones(2, 1, 4).transpose(0, 2) + torch.ones(3, 2), (1, 4, 12)),
        (lambda: R.bfloat16() + R.bfloat16(), (1, 2, 6)),
        (lambda: torch.empty_like(E), (12, 4, 1)),
        (lambda: torch.zeros_like(T[:, ::2]), (8, 1, 2)),
    ],
)
def test_pointwise_results_lie_as_their_operands(make, strides):
    assert _strides(make()) == strides


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: T.sum(0), (4, 1)),
        (lambda: R.sum(1), (4, 1)),
        (lambda: R.mean(1, keepdim=True), (4, 4, 1)),
        (lambda: R.std(1), (4, 1)),
        (lambda: T.var(0), (4, 1)),
        (lambda: R.amax(1), (4, 1)),
        (lambda: R.amin(2), (3, 1)),
        (lambda: R.prod(1), (4, 1)),
        (lambda: R.any(1), (4, 1)),
        (lambda: T.all(0), (4, 1)),
        (lambda: R.norm(dim=1), (4, 1)),
        (lambda: R.norm(1, 2), (3, 1)),
        (lambda: R.logsumexp(2), (3, 1)),
        (lambda: R.count_nonzero(1), (4, 1)),
        (lambda: R.argmax(2), (3, 1)),
        (lambda: R.max(2), [(3, 1), (3, 1)]),
        (lambda: R.median(2), [(3, 1), (3, 1)]),
        (lambda: torch.aminmax(R, dim=1), [(4, 1), (4, 1)]),
        (lambda: torch.var_mean(R, 1), [(4, 1), (4, 1)]),
        (lambda: E.sum(1), (4, 1)),
        (lambda: L.mean(2), (15, 5, 1)),
        (lambda: L.sum((0, 2)), (5, 1)),
        (lambda: torch.nansum(R, 1), (4, 1)),
        (lambda: torch.linalg.vector_norm(R, dim=1), (4, 1)),
    ],
)
def test_reductions_are_row_major(make, strides):
    assert _strides(make()) == strides
