"""Strides are part of a result's shape: as PyTorch's for operands in any memory order (values observed there)."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F

X = torch.arange(24.0).reshape(2, 3, 4)
T = torch.arange(24.0).reshape(2, 4, 3).permute(0, 2, 1)  # the last two exchanged
R = torch.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0)  # all reversed
E = torch.arange(12.0).reshape(3, 4).expand(2, 3, 4)
L = torch.arange(120.0).reshape(2, 4, 5, 3).permute(0, 3, 1, 2)  # channels last, as images
V = torch.arange(240.0).reshape(2, 2, 4, 5, 3).permute(0, 4, 1, 2, 3)  # channels last, as volumes
G = torch.arange(120.0).reshape(2, 3, 4, 5).permute(1, 0, 3, 2)
I = torch.tensor([1, 0])
ALL = slice(None)
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


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: T[I], (12, 1, 3)),
        (lambda: R[I], (12, 1, 3)),
        (lambda: R[:, I], (1, 2, 4)),
        (lambda: G[:, I, :, I], (15, 5, 1)),
        (lambda: R[I, I], (4, 1)),
        (lambda: X[:, I], (8, 4, 1)),
        (lambda: R[torch.tensor([True, False])], (12, 1, 3)),
    ],
)
def test_indexed_results_lie_as_what_is_indexed(make, strides):
    assert _strides(make()) == strides


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: F.max_pool2d(L, 2), (12, 1, 6, 3)),
        (lambda: F.max_pool3d(V, 2), (12, 1, 12, 6, 3)),
        (lambda: F.avg_pool2d(L, 2), (12, 1, 6, 3)),
        (lambda: F.avg_pool3d(V, 2), (12, 4, 4, 2, 1)),
        (lambda: F.adaptive_avg_pool2d(L, 2), (12, 1, 6, 3)),
        (lambda: F.adaptive_max_pool3d(V, 2), (24, 8, 4, 2, 1)),
        (lambda: F.group_norm(L, 3), (60, 1, 15, 3)),
        (lambda: F.instance_norm(L), (60, 20, 5, 1)),
        (lambda: F.batch_norm(L, None, None, training=True), (60, 1, 15, 3)),
        (lambda: F.max_unpool2d(*F.max_pool2d(L[..., :4], 2, return_indices=True), 2), (48, 1, 12, 3)),
        (lambda: F.conv2d(L, torch.ones(2, 3, 2, 2)), (24, 1, 8, 2)),
        (lambda: F.pad(L, (1, 1)), (84, 1, 21, 3)),
        (lambda: F.pad(L, (1, 1, 1, 1), mode="circular"), (126, 42, 7, 1)),
        (lambda: F.interpolate(L, scale_factor=2.0), (240, 1, 30, 3)),
        (lambda: F.channel_shuffle(L, 3), (60, 1, 15, 3)),
        (lambda: F.logsigmoid(R), (12, 4, 1)),
        (lambda: F.rrelu(R), (12, 4, 1)),
    ],
)
def test_image_operations_keep_channels_last(make, strides):
    assert _strides(make()) == strides


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: torch.add(R, R, out=torch.empty(0)), (1, 2, 6)),
        (lambda: torch.exp(L, out=torch.empty(0)), (60, 1, 15, 3)),
        (lambda: torch.sum(R, 0, out=torch.empty(0)), (4, 1)),
        (lambda: torch.exp(X, out=torch.empty(4, 3, 2).permute(2, 1, 0)), (1, 2, 6)),
        (lambda: torch.linalg.inv(M, out=torch.empty(0)), (1, 3)),
        (lambda: torch.cat([L, L], out=torch.empty(0)), (60, 1, 15, 3)),
    ],
)
def test_arrays_given_as_out_take_the_order_of_results(make, strides):
    assert _strides(make()) == strides


def test_views_of_reductions():
    assert torch.randn(2, 3, 4).permute(0, 2, 1).sum(0).view(-1).shape == (12,)


def test_cat_into_memory_beside_an_operand():
    x = torch.arange(6.0)
    torch.cat([x[4:6], torch.ones(2)], out=x[:4])
    assert x.tolist() == [4, 5, 1, 1, 4, 5]
    with pytest.raises(RuntimeError, match="cannot refer to any of the output memory"):
        torch.cat([x[1:3], torch.ones(2)], out=x[:4])


@pytest.mark.filterwarnings("ignore:Use of index_put_ on expanded")
def test_masks_write_to_expanded_tensors():
    x = torch.zeros(3).expand(2, 3)
    x[torch.tensor([[True, False, True], [False, False, False]])] = 1
    assert x.tolist() == [[1, 0, 1], [1, 0, 1]]
    x = torch.zeros(1).expand(3)
    x[torch.tensor([0])] = 5.0
    assert x.tolist() == [5, 5, 5]


def test_numbers_in_odd_places():
    assert F.pad(torch.tensor(3.0), []).item() == 3
    with pytest.raises(RuntimeError, match="Padding length should be less than or equal to two times"):
        F.pad(torch.tensor(3.0), [0, 0])
    assert (torch.tensor([True, False]) ** True).tolist() == [True, False]
    assert (torch.tensor([True, False]) ** False).tolist() == [True, True]
    assert torch.ones(2, 3).sum(dim=torch.tensor(1)).tolist() == [3, 3]
    assert torch.sum(a=torch.ones(2, 3)).item() == 6


def test_sizes_that_no_memory_has():
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        torch.zeros(0).resize_([0, 4, 1 << 61])
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.zeros(2).as_strided([1], [1], (1 << 63) - 1)
    with pytest.raises(ValueError, match="negative length"):
        torch.broadcast_shapes((2, -1))


def test_ravel_and_resize_as():
    assert torch.ravel(torch.arange(6.0)[::2]).stride() == (1,)
    x = torch.zeros(0).resize_as_(R, memory_format=torch.preserve_format)
    assert x.shape == R.shape and x.stride() == R.stride()


def test_values_that_do_not_fit_a_mask():
    x = torch.arange(4)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[x > -1] = torch.tensor([])
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[x > -1] = torch.ones(4)


def test_exact_comparison_of_float8():
    x = torch.tensor([1.0, float("nan")]).to(torch.float8_e4m3fn)
    assert torch.isclose(x, x, rtol=0, atol=0, equal_nan=True).tolist() == [True, True]


S = torch.zeros(1, 4, 1, 3)
C = torch.zeros(2, 3, 1, 1).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: C, (3, 1, 3, 3)),
        (lambda: torch.zeros(2, 3, 1, 1).contiguous(memory_format=torch.channels_last), (3, 1, 1, 1)),
        (lambda: C.clone(), (3, 1, 3, 3)),
        (lambda: torch.empty_like(C), (3, 1, 3, 3)),
        (lambda: C.double(), (3, 1, 3, 3)),
        (lambda: torch.cat([C, C], 1), (6, 1, 6, 6)),
        (lambda: C.flatten(1), (3, 1)),
        (lambda: S.transpose(0, 1), (3, 12, 3, 1)),
        (lambda: S.permute(3, 2, 1, 0), (1, 3, 3, 12)),
        (lambda: S[:, 1:2], (12, 3, 3, 1)),
        (lambda: S[:, ::2, :, :1:2], (12, 6, 3, 2)),
        (lambda: S[:, None, 1:], (12, 12, 3, 3, 1)),
        (lambda: S.select(1, 0), (12, 3, 1)),
        (lambda: S.chunk(2, 1)[1], (12, 3, 3, 1)),
        (lambda: S.mT.squeeze(0), (3, 1, 3)),
        (lambda: S.unfold(3, 3, 2), (12, 3, 3, 2, 1)),
        (lambda: S.diagonal(0, 0, 2), (3, 1, 15)),
        (lambda: S.transpose(0, 1).unsqueeze(2), (3, 12, 3, 3, 1)),
        (lambda: S.transpose(0, 3).view(3, 1, 4), (1, 12, 3)),
        (lambda: S.transpose(0, 1).reshape(4, 3, 1), (3, 1, 1)),
        (lambda: torch.zeros(3, 1).t().view(3, 1), (1, 1)),
        (lambda: torch.zeros(()).expand(1), (0,)),
        (lambda: torch.zeros(3).expand(1, 3), (3, 1)),
        (lambda: torch.zeros(3)[None], (3, 1)),
        (lambda: torch.zeros(2, 3).t()[..., None], (1, 3, 1)),
        (lambda: torch.empty_strided((1, 2), (7, 1)), (7, 1)),
        (lambda: torch.zeros(5).as_strided((1, 1), (3, 2)), (3, 2)),
        (lambda: torch.zeros(0, 3), (3, 1)),
        (lambda: torch.zeros(0, 3).permute(1, 0), (1, 3)),
        (lambda: torch.zeros(2, 3)[2:], (3, 1)),
        (lambda: torch.zeros(2, 3)[:, 1:1:2], (3, 2)),
        (lambda: torch.zeros(1, 4).expand(0, 4), (0, 1)),
    ],
)
def test_dimensions_of_one_element_or_none_keep_their_strides(make, strides):
    for _ in range(4):  # later ones by a plan
        assert make().stride() == strides


def test_where_an_empty_part_begins():
    x = torch.zeros(4, 3)
    assert [x[2:2].storage_offset(), x.narrow(0, 4, 0).storage_offset(), x[:, 1:1].storage_offset()] == [6, 12, 1]
    assert x[9:].storage_offset() == 12


def test_a_format_is_kept_or_made_by_how_strides_look():
    x = torch.zeros(2, 3).t()
    assert x.to(memory_format=torch.contiguous_format) is x
    assert x.to(torch.float64, memory_format=torch.contiguous_format).is_contiguous()
    y = torch.zeros(2, 1, 4, 5)
    assert y.contiguous(memory_format=torch.channels_last) is y
    assert y.to(memory_format=torch.channels_last).stride() == (20, 1, 5, 1)
    assert not torch.zeros(()).is_contiguous(memory_format=torch.channels_last)
    assert not torch.zeros(2, 3, 0, 3).is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="must be 1 to view"):
        torch.zeros(2, 1, 2).transpose(1, 2)[:, :1].view(torch.uint8)


@pytest.mark.parametrize(
    ("equation", "strides"),
    [
        ("ij,jk->ik", (4, 1)),
        ("ij,jk->ki", (2, 1)),
        ("ij,jk->k", (1,)),
        ("ij,kl->ilkj", (36, 3, 9, 1)),
        ("ij,jk->jik", (4, 12, 1)),
        ("ijk,jl->ilk", (12, 1, 3)),
        ("lj,ijk->ilk", (4, 8, 1)),
        ("mjk,jl->mlk", (12, 4, 1)),
        ("imk,ml->ilk", (12, 4, 1)),
    ],
)
def test_results_of_einsum_lie_as_they_are_written(equation, strides):
    sizes = {"i": 2, "j": 3, "k": 4, "l": 3, "m": 1}
    shapes = [[sizes[k] for k in term] for term in equation.split("->")[0].split(",")]
    assert torch.einsum(equation, *[torch.zeros(shape) for shape in shapes]).stride() == strides


def test_selected_elements_lie_as_the_index():
    x, index = torch.arange(120).reshape(2, 3, 4, 5), torch.tensor([[0, 1, 1], [1, 0, 0]])
    for made, strides in (
        (x[index.t()], (60, 180, 20, 5, 1)),
        (x[:, index.t()], (120, 20, 60, 5, 1)),
        (x[index.t(), index.t()], (20, 60, 5, 1)),
        (x[..., index.t()], (72, 24, 6, 1, 3)),
        (x[index], (180, 60, 20, 5, 1)),
    ):
        assert made.stride() == strides
    assert torch.equal(x[index.t()], x[index].transpose(0, 1))
    assert torch.equal(x[:, index.t()], x[:, index].transpose(1, 2))


def test_tensors_of_arrays_lie_as_the_arrays():
    array = np.arange(6.0).reshape(2, 3)
    made = torch.tensor(array.T)
    assert made.stride() == (1, 3)
    array[:] = 0
    assert made.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert torch.tensor(array[:, ::2]).stride() == (2, 1)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (None, (1, 2, 3)), ((None, ...), (1, 2, 3)), ((ALL, None), (2, 1, 3)), ((..., None), (2, 3, 1)), ((..., None, ALL), (2, 1, 3)),
        ((ALL, ALL, None), (2, 3, 1)), ((ALL, ..., None, ALL), (2, 1, 3)), ((None, ALL, None), (1, 2, 1, 3)), ((0, None), (1, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_new_dimensions_by_index(key, shape):
    x = torch.arange(6.0).reshape(2, 3).clone().requires_grad_()
    y = x[key]
    assert (
        y.shape == shape
        and y.flatten().tolist() == x[0 if isinstance(key, tuple) and 0 in key else ...].flatten().tolist()
    )
    assert y._base is x and y.stride() == y.clone().stride() and y.is_contiguous()


@pytest.mark.parametrize(
    "key", [(None, ALL, ALL, ALL), (ALL, None, ALL, ..., ALL), (..., ALL, ALL, ALL, None)], ids=str
)
def test_new_dimensions_beside_too_many_indices(key):
    with pytest.raises(IndexError, match="too many indices"):
        torch.zeros(2, 3)[key]
