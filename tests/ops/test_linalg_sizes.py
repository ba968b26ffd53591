"""Linear algebra at sizes for which there are ways of their own: batches of small matrices, and large ones."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

# NumPy's determinants of complex matrices without imaginary parts divide by zero on some CPUs, and say so.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in (det|slogdet):RuntimeWarning:numpy")

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [
    (300, 2, 2),
    (200, 3, 3),
    (5, 100, 4, 4),
    (64, 17, 17),
    (3, 32, 32),
    (40, 40),
    (100, 100),
    (2, 3, 70, 70),
    (200, 200),
]


def matrices(*shape: int, dtype, seed: int = 0):
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape)
    made = made + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else made
    return made.astype(dtype)


def well(shape, dtype):
    """Matrices with a moderate condition that need pivots."""
    order = np.random.default_rng(1).permutation(shape[-1])
    return (matrices(*shape, dtype=dtype) / (4 * shape[-1]) + np.eye(shape[-1])[order]).astype(dtype)


def tolerance(dtype) -> float:
    return 200 * float(np.finfo(dtype).eps)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_systems(shape, dtype):
    a = well(shape, dtype)
    b = matrices(*shape[:-1], 5, dtype=dtype, seed=2)
    wide, limit = a.astype(np.complex128), tolerance(dtype)
    eye = np.broadcast_to(np.eye(shape[-1]), shape)
    np.testing.assert_allclose(wide @ torch.linalg.inv(torch.from_numpy(a)).numpy(), eye, atol=limit)
    x = torch.linalg.solve(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(wide @ x, b, atol=limit * 10)
    np.testing.assert_allclose(torch.linalg.det(torch.from_numpy(a)).numpy(), np.linalg.det(wide), rtol=limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(200, 6, 6), (100, 4, 7), (100, 7, 4), (5, 300, 1, 1), (60, 60), (100, 37), (37, 100)]
)
def test_lu(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    p, low, high = (t.numpy() for t in torch.linalg.lu(torch.from_numpy(a)))
    np.testing.assert_allclose(p @ low @ high, a, atol=tolerance(dtype))
    assert np.abs(low).max() <= 1 + 1e-6 or np.dtype(dtype).kind == "c"
    if shape[-1] == shape[-2]:
        sign, size = (t.numpy() for t in torch.linalg.slogdet(torch.from_numpy(a)))
        wanted = np.linalg.slogdet(a.astype(np.complex128))
        np.testing.assert_allclose(sign, wanted[0], atol=tolerance(dtype) * 100)
        np.testing.assert_allclose(size, wanted[1], atol=tolerance(dtype) * 100)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(300, 2, 2), (60, 9, 9), (40, 40), (3, 60, 60), (200, 200)])
def test_symmetric(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    a = (a @ a.conj().swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)
    limit = tolerance(dtype) * 10
    low = torch.linalg.cholesky(torch.from_numpy(a)).numpy()
    np.testing.assert_allclose(low @ low.conj().swapaxes(-1, -2), a, atol=limit)
    assert not np.triu(low, 1).any()
    for side, other in (("L", np.tril), ("U", np.triu)):  # the other triangle is not read
        given = torch.from_numpy(other(a).copy())
        values, vectors = torch.linalg.eigh(given, side)
        made = vectors.numpy()
        np.testing.assert_allclose(a @ made, made * values.numpy()[..., None, :], atol=limit * 10)
        np.testing.assert_allclose(torch.linalg.eigvalsh(given, side).numpy(), values.numpy(), atol=limit * 10)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(60, 40), (40, 60), (3, 50, 40), (2, 2, 32, 32), (128, 128), (501, 9), (9, 501), (5, 3)]
)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape, dtype, mode):
    a = matrices(*shape, dtype=dtype)
    q, r = (t.numpy() for t in torch.linalg.qr(torch.from_numpy(a), mode))
    wide = shape[-2] if mode == "complete" else min(shape[-2:])
    assert q.shape == (*shape[:-1], wide) and r.shape == (*shape[:-2], wide, shape[-1])
    limit = tolerance(dtype) * 10
    np.testing.assert_allclose(q @ r, a, atol=limit)
    np.testing.assert_allclose(
        q.conj().swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(wide), (*shape[:-2], wide, wide)), atol=limit
    )
    assert not np.tril(r, -1).any()
    np.testing.assert_allclose(r, np.linalg.qr(a, mode)[1], atol=limit)  # signs, too


@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 3), (3, 5), (80, 70)])
def test_qr_of_which_only_r_is_wanted(shape):
    a = torch.from_numpy(matrices(*shape, dtype=np.float32))
    q, r = torch.linalg.qr(a, mode="r")
    assert q.shape == (0,) and torch.equal(r, torch.linalg.qr(a).R)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_qr_of_extreme_numbers(size):
    a = matrices(40, 20, dtype=np.float32) * np.float32(size)
    a[:, 3] = 0
    q, r = (t.numpy().astype(np.float64) for t in torch.linalg.qr(torch.from_numpy(a)))
    np.testing.assert_allclose(q @ r / size, a / size, atol=1e-5)
    np.testing.assert_allclose(q.T @ q, np.eye(20), atol=1e-5)


@pytest.mark.parametrize("shape", [(400, 3, 3), (100, 8, 8), (50, 50), (3, 40, 40)])
def test_singular(shape):
    a = np.broadcast_to(np.eye(shape[-1]), shape).copy()
    a.reshape(-1, *shape[-2:])[-1, 1] = 0
    given = torch.from_numpy(a)
    for call in (torch.linalg.inv, lambda t: torch.linalg.solve(t, t)):
        with pytest.raises(torch.linalg.LinAlgError):
            call(given)
    assert torch.linalg.inv_ex(given).info.reshape(-1)[-1] == 2
    assert torch.linalg.det(given).reshape(-1)[-1] == 0
    sign, size = torch.linalg.slogdet(given)
    assert sign.reshape(-1)[-1] == 0 and size.reshape(-1)[-1] == -np.inf and sign.reshape(-1)[0] in (0, 1)
    assert torch.linalg.lu_factor_ex(given).info.reshape(-1)[-1] == 2
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(given)


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "matrix_exp"])
def test_gradients_at_size(name):
    """Against differences in a direction."""
    torch.manual_seed(0)
    a = torch.randn(40, 40, dtype=torch.float64) * 0.02
    a = (a @ a.mT + torch.eye(40, dtype=torch.float64)).requires_grad_()
    direction = torch.randn(40, 40, dtype=torch.float64)
    direction = direction + direction.mT
    function = getattr(torch.linalg, name)
    weight = torch.randn(function(a).shape, dtype=torch.float64)
    (g,) = torch.autograd.grad((function(a) * weight).sum(), a)
    h = 1e-6
    with torch.no_grad():
        difference = ((function(a + h * direction) - function(a - h * direction)) * weight).sum() / (2 * h)
    assert float((g * direction).sum()) == pytest.approx(float(difference), rel=1e-5, abs=1e-6)


def test_triangular_on_threads():
    a = np.tril(matrices(200, 200, dtype=np.float64)) / 200 + np.eye(200)
    b = matrices(200, 77, dtype=np.float64, seed=1)
    x = torch.linalg.solve_triangular(torch.from_numpy(a), torch.from_numpy(b), upper=False).numpy()
    np.testing.assert_allclose(a @ x, b, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (3, 50, 40)])
def test_least_squares(shape, dtype):
    a, b = matrices(*shape, dtype=dtype), matrices(*shape[:-1], 3, dtype=dtype, seed=1)
    a[..., -1] = a[..., 0]  # one column counts twice
    wanted = np.linalg.pinv(a.astype(np.complex128), rcond=1e-5) @ b
    limit = tolerance(dtype) * 20
    for driver in ("gelsy", "gelsd"):
        made = torch.linalg.lstsq(torch.from_numpy(a), torch.from_numpy(b), driver=driver)
        np.testing.assert_allclose(made.solution.numpy(), wanted, atol=limit)
        assert (made.rank == min(shape[-2], shape[-1] - 1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 25, 26])
def test_eigenvalues_of_difficult_matrices(n, dtype):
    """Repeated, graded, tiny and huge ones, of which one triangle is read."""
    random = torch.Generator().manual_seed(n)
    a = torch.randn(9, n, n, dtype=torch.float64, generator=random)
    a[1], a[2] = torch.eye(n), torch.ones(n, n)
    a[3] *= 1e-20 ** torch.linspace(0, 1, n)[:, None] * 1e-20 ** torch.linspace(0, 1, n)
    a[4], a[5], a[6], a[7] = a[4] * 1e-37, a[5] * 1e-42, a[6] * 1e36, a[7].diagonal().diag()
    a[8, ::2] = 0
    a = (a.tril() + a.tril(-1).mT).to(dtype)
    hidden = torch.full((n, n), torch.nan, dtype=dtype).triu(1)
    for given, side in ((a + hidden, "L"), (a + hidden.mT, "U")):
        values, vectors = torch.linalg.eigh(given, UPLO=side)
        size = a.abs().amax((-2, -1)).clamp(min=torch.finfo(dtype).tiny)[:, None, None]
        close = 4 * (n + 3) * torch.finfo(dtype).eps
        assert (values.diff(dim=-1) >= 0).all()
        assert ((a / size) @ vectors - vectors * (values[:, None] / size)).abs().max() < close
        assert (vectors.mT @ vectors - torch.eye(n, dtype=dtype)).abs().max() < close
        assert ((torch.linalg.eigvalsh(given, UPLO=side) - values)[:, None].abs() / size).max() < close
    for wrong in (
        (torch.nan, torch.inf) if 2 < n < 26 else ()
    ):  # LAPACK itself finds it in few and in larger ones by chance
        a[2, -1, 0] = wrong
        with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
            torch.linalg.eigh(a)
