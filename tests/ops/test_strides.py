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


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: torch.cat([T, T], 1), (24, 4, 1)),
        (lambda: torch.cat([R, X]), (12, 4, 1)),
        (lambda: torch.cat([L, L], 1), (120, 1, 30, 6)),
        (lambda: torch.cat([L, L.contiguous()], 1), (120, 20, 5, 1)),
        (lambda: torch.cat([E, E], 2), (24, 8, 1)),
        (lambda: torch.stack([T, R], -1), (24, 8, 2, 1)),
        (lambda: torch.stack([T, T]), (24, 12, 4, 1)),
        (lambda: torch.hstack([R, R]), (24, 4, 1)),
        (lambda: T.roll(1, 0), (12, 4, 1)),
        (lambda: L.roll(1, 2), (60, 1, 15, 3)),
        (lambda: torch.sort(T, 1), [(12, 1, 3), (12, 1, 3)]),
        (lambda: torch.sort(L, 1), [(60, 1, 15, 3), (60, 1, 15, 3)]),
        (lambda: torch.argsort(R, 0), (1, 2, 6)),
        (lambda: torch.flip(T, [0, 1]), (12, 1, 3)),
        (lambda: L.flip(3), (60, 1, 15, 3)),
        (lambda: torch.rot90(X), (4, 12, 1)),
        (lambda: torch.rot90(T, 1, [1, 2]), (12, 3, 1)),
        (lambda: T.scatter(0, torch.zeros(1, 3, 4, dtype=torch.int64), 1.0), (12, 4, 1)),
        (lambda: T.index_add(0, I, X), (12, 4, 1)),
        (lambda: T.index_copy(0, I, X), (12, 4, 1)),
        (lambda: T.index_fill(0, I, 2.0), (12, 1, 3)),
        (lambda: R.masked_fill(R > 3, 0.0), (12, 4, 1)),
        (lambda: R.masked_scatter(R > 3, X), (12, 4, 1)),
        (lambda: torch.select_scatter(T, X[0], 0, 1), (12, 1, 3)),
        (lambda: torch.slice_scatter(R, X[:1], 0, 1), (1, 2, 6)),
        (lambda: torch.diagonal_scatter(R[0], torch.ones(3)), (2, 6)),
        (lambda: torch.nonzero(X), (1, 23)),
        (lambda: torch.nonzero(X[0] > 2), (1, 9)),
        (lambda: torch.unique(X, dim=1), (4, 8, 1)),
        (lambda: torch.view_copy(T, (6, 4)), (4, 1)),
    ],
)
def test_copies_keep_or_give_up_the_order(make, strides):
    assert _strides(make()) == strides


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: torch.linalg.cholesky(M), (1, 3)),
        (lambda: torch.linalg.inv(M), (1, 3)),
        (lambda: torch.linalg.inv(M.expand(2, 3, 3)), (9, 1, 3)),
        (lambda: torch.linalg.qr(M[:, :2]), [(1, 3), (1, 2)]),
        (lambda: torch.linalg.svd(M[:, :2], full_matrices=False), [(1, 3), (1,), (1, 2)]),
        (lambda: torch.linalg.eigh(M), [(1,), (1, 3)]),
        (lambda: torch.linalg.solve(M, M[:, :2]), (1, 3)),
        (lambda: torch.linalg.solve(M, M[:, :2].t(), left=False), (3, 1)),
        (lambda: torch.linalg.solve(M.expand(2, 3, 3), M[0]), (1, 2)),
        (lambda: torch.linalg.solve_triangular(M, M[:, :2], upper=True), (1, 3)),
        (lambda: torch.linalg.solve_triangular(M, M[:2], upper=True, left=False), (1, 2)),
        (lambda: torch.linalg.lstsq(M[:, :2], M)[0], (1, 3)),
        (lambda: torch.linalg.ldl_factor(M), [(1, 3), (1,)]),
        (lambda: torch.cholesky_solve(M[:, :2], M), (1, 3)),
        (lambda: torch.geqrf(M), [(1, 3), (1,)]),
        (lambda: torch.linalg.householder_product(M, M[0]), (1, 3)),
        (lambda: torch.linalg.det(torch.eye(2).repeat(3, 4, 1, 1).transpose(0, 1)), (3, 1)),
    ],
)
def test_factors_are_column_major(make, strides):
    assert _strides(make()) == strides


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: torch.fft.fft(R, dim=1), (12, 4, 1)),
        (lambda: torch.fft.rfft2(T), (9, 3, 1)),
        (lambda: torch.fft.irfft(R, dim=0), (12, 4, 1)),
        (lambda: torch.fft.fftshift(T), (12, 4, 1)),
    ],
)
def test_transforms_are_row_major(make, strides):
    assert _strides(make()) == strides
