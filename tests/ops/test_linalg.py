"""Linear algebra: factorisations give their matrices back, derivatives agree with differences, errors are PyTorch's."""

from __future__ import annotations

import ctypes
import glob
import os

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend import lapack

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def matrices(*shape: int, dtype: object = torch.float64, seed: int = 0):
    torch.manual_seed(seed)
    return torch.randn(shape, dtype=dtype)


def positive(n: int, dtype: object = torch.float64, lead: tuple[int, ...] = ()):
    a = matrices(*lead, n, n, dtype=dtype)
    return a @ a.mH + torch.eye(n, dtype=dtype)


def close(a, b, scale: float = 1.0) -> None:
    tolerance = 1e-4 if a.dtype in (torch.float32, torch.complex64) else 1e-9
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(params=["native", "arrays"])
def routines(request, monkeypatch):
    """With LAPACK's routines, and with the array code that stands in for them."""
    if request.param == "arrays":
        monkeypatch.setattr(lapack, "_routine", lambda *_: None)


# -- factorisations ------------------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6), (2, 3, 5, 5), (0, 3, 3), (40, 40)])
def test_factors_give_the_matrix_back(routines, dtype, shape) -> None:
    a = matrices(*shape, dtype=dtype)
    p, low, high = torch.linalg.lu(a)
    close(p @ low @ high, a, 10)
    close(torch.linalg.qr(a).Q @ torch.linalg.qr(a).R, a, 10)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    close((u * s.unsqueeze(-2)) @ vh, a, 10)
    q = torch.linalg.svd(a).U
    close(q.mH @ q, torch.eye(shape[-2], dtype=dtype).expand(q.shape), 10)
    close(torch.linalg.svdvals(a), s, 10)
    packed, tau = torch.geqrf(a)
    close(torch.ormqr(packed, tau, torch.triu(packed)[..., : shape[-2], :]), a, 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_factors(routines, dtype) -> None:
    a = positive(5, dtype, (2,))
    low = torch.linalg.cholesky(a)
    close(low @ low.mH, a, 10)
    high = torch.linalg.cholesky(a, upper=True)
    close(high.mH @ high, a, 10)
    close(torch.cholesky_inverse(low) @ a, torch.eye(5, dtype=dtype).expand(2, 5, 5), 10)
    b = matrices(5, 2, dtype=dtype)
    close(a @ torch.cholesky_solve(b, low), b.expand(2, 5, 2), 10)
    values, vectors = torch.linalg.eigh(a)
    close((vectors * values.unsqueeze(-2)) @ vectors.mH, a, 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_indefinite_factors(dtype) -> None:
    indefinite, b = positive(5, dtype, (2,)) - 6 * torch.eye(5, dtype=dtype), matrices(5, 2, dtype=dtype)
    for hermitian in (False, True):
        m = indefinite if hermitian or not dtype.is_complex else indefinite + indefinite.mT
        factors = torch.linalg.ldl_factor(m, hermitian=hermitian)
        close(m @ torch.linalg.ldl_solve(*factors, b, hermitian=hermitian), b.expand(2, 5, 2), 100)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors(dtype) -> None:
    a = matrices(3, 6, 6, dtype=dtype)
    values, vectors = torch.linalg.eig(a)
    close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), 10)
    close(torch.linalg.eigvals(a), values, 10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems(routines, dtype, upper, unit) -> None:
    n = 70  # more than one block
    a, b = matrices(2, n, n, dtype=dtype) / n + 2 * torch.eye(n, dtype=dtype), matrices(2, n, 3, dtype=dtype, seed=1)
    full = torch.triu(a) if upper else torch.tril(a)
    if unit:
        full = full - torch.diag_embed(full.diagonal(0, -2, -1)) + torch.eye(n, dtype=dtype)
    close(full @ torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit), b, 10)
    close(torch.linalg.solve_triangular(a, b.mT, upper=upper, left=False, unitriangular=unit) @ full, b.mT, 10)


@pytest.mark.parametrize("adjoint", [False, True])
def test_lu_solve(routines, adjoint) -> None:
    a, b = matrices(3, 4, 4, dtype=torch.complex128), matrices(4, 2, dtype=torch.complex128, seed=1)
    factors = torch.linalg.lu_factor(a)
    m = a.mH if adjoint else a
    close(m @ torch.linalg.lu_solve(*factors, b, adjoint=adjoint), b.expand(3, 4, 2))
    close(torch.linalg.lu_solve(*factors, b.mT, left=False, adjoint=adjoint) @ m, b.mT.expand(3, 2, 4))


def test_native_and_array_lu_agree(monkeypatch) -> None:
    a = np.random.default_rng(0).standard_normal((5, 6, 4))
    native = lapack.lu_factor(np, a)
    monkeypatch.setattr(lapack, "_routine", lambda *_: None)
    for one, other in zip(native, lapack.lu_factor(np, a)):
        np.testing.assert_allclose(one, other, atol=1e-12)


# -- values --------------------------------------------------------------------------------------------------------


def test_known_values() -> None:
    a = torch.tensor([[4.0, 2.0], [2.0, 3.0]])
    assert torch.det(a).item() == pytest.approx(8)
    assert torch.logdet(a).item() == pytest.approx(np.log(8), rel=1e-6)
    assert torch.linalg.matrix_rank(torch.ones(2, 3, 3)).tolist() == [1, 1]
    assert torch.linalg.cond(torch.zeros(2, 2), 1).item() == np.inf
    assert torch.linalg.norm(a, "nuc").item() == pytest.approx(7, rel=1e-6)
    assert torch.linalg.norm(a, 1).item() == 6 and torch.linalg.norm(a, -torch.inf).item() == 5
    close(torch.linalg.matrix_power(a, -2) @ a @ a, torch.eye(2))
    assert torch.linalg.vander(torch.tensor([2, 3]), N=3).tolist() == [[1, 2, 4], [1, 3, 9]]
    assert torch.cross(torch.tensor([[1, 0, 0]]), torch.tensor([[0, 1, 0]]), dim=1).tolist() == [[0, 0, 1]]


def test_matrix_exp() -> None:
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    for angle in (1e-8, 0.3, 3.0, 50.0):
        expected = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        close(torch.matrix_exp(turn * angle), expected)
    assert torch.matrix_exp(torch.full((2, 2), torch.nan)).isnan().all()


def test_least_squares() -> None:
    a, b = matrices(6, 3), matrices(6, 2, seed=1)
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        made = torch.linalg.lstsq(a, b, driver=driver)
        close(a.mT @ (a @ made.solution), a.mT @ b)
        assert made.residuals.shape == ((0,) if driver == "gelsy" else (2,))
        assert made.singular_values.shape == ((3,) if driver in ("gelsd", "gelss") else (0,))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, torch.inf])
def test_distances(p) -> None:
    x, y = matrices(30, 3), matrices(28, 3, seed=1)
    expected = torch.linalg.vector_norm(x[:, None] - y[None], p, -1)
    close(torch.cdist(x, y, p), expected)
    own = torch.cdist(x, x, p, compute_mode="donot_use_mm_for_euclid_dist")
    close(torch.pdist(x, p), own[tuple(torch.triu_indices(30, 30, 1))])


@pytest.mark.slow
def test_low_rank() -> None:
    a = matrices(20, 2) @ matrices(2, 12, seed=1)
    u, s, v = torch.svd_lowrank(a, q=4)
    close((u * s) @ v.mT, a)
    assert torch.pca_lowrank(a, q=3)[0].shape == (20, 3)


# -- derivatives ---------------------------------------------------------------------------------------------------


def _hermitian(x):
    return x + x.mH


CASES = {
    "cholesky": lambda x: torch.linalg.cholesky(_hermitian(x) + 20 * torch.eye(4)),
    "inv": torch.linalg.inv,
    "solve": lambda x: torch.linalg.solve(x, x[..., :2] * 3 + 1),
    "det": torch.linalg.det,
    "slogdet": lambda x: torch.linalg.slogdet(x)[1],
    "lu": lambda x: torch.cat([part.flatten() for part in torch.linalg.lu(x)[1:]]),
    "lu_tall": lambda x: torch.linalg.lu_factor(torch.cat((x, x * x), -2))[0],
    "lu_wide": lambda x: torch.linalg.lu_factor(torch.cat((x, x * x), -1))[0],
    "qr": lambda x: torch.cat([part.flatten() for part in torch.linalg.qr(torch.cat((x, x * x), -2))]).abs(),
    "qr_wide": lambda x: torch.cat([part.flatten() for part in torch.linalg.qr(torch.cat((x, x * x), -1))]).abs(),
    "svd": lambda x: torch.cat([part.abs().flatten() for part in torch.linalg.svd(x[:, :3], full_matrices=False)]),
    "svdvals": torch.linalg.svdvals,
    "eigh": lambda x: torch.linalg.eigh(_hermitian(x)).eigenvectors.abs(),
    "eig": lambda x: torch.linalg.eig(x).eigenvectors.abs(),
    "pinv": lambda x: torch.linalg.pinv(x[:, :3]),
    "lstsq": lambda x: torch.linalg.lstsq(x[:, :3], x[:, 3:] * 2).solution,
    "matrix_exp": torch.linalg.matrix_exp,
    "triangular": lambda x: torch.linalg.solve_triangular(x, x * x, upper=True),
    "householder": lambda x: torch.linalg.householder_product(x[:, :3], x[3, :3]),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 1:]),
    "norm": lambda x: torch.linalg.matrix_norm(x, 2) + torch.linalg.matrix_norm(x, "nuc"),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_agree_with_differences(name, dtype) -> None:
    """Along random directions, of a random linear function of the result; the second derivative likewise."""
    f, x, way = CASES[name], matrices(4, 4, dtype=dtype, seed=3), matrices(4, 4, dtype=dtype, seed=4)
    weights = matrices(*f(x).shape, dtype=f(x).dtype, seed=5)

    def value(at):
        made = f(at) * weights
        return made.real.sum() if made.is_complex() else made.sum()

    def slope(at, create: bool = False):
        at = at.detach().requires_grad_()
        g = torch.autograd.grad(value(at), at, create_graph=create)[0]
        return at, (g.conj() * way).real.sum() if dtype.is_complex else (g * way).sum()

    h = 1e-6
    expected = (value(x + h * way) - value(x - h * way)) / (2 * h)
    assert slope(x)[1].item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
    at, first = slope(x, True)
    second = torch.autograd.grad(first, at)[0]
    second = (second.conj() * way).real.sum() if dtype.is_complex else (second * way).sum()
    expected = (slope(x + h * way)[1] - slope(x - h * way)[1]) / (2 * h)
    assert second.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-4)


def test_gradient_of_a_singular_determinant() -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    torch.det(a).backward()
    close(a.grad, torch.tensor([[4.0, -2.0], [-2.0, 1.0]]))


# -- errors --------------------------------------------------------------------------------------------------------


def test_failures_raise_linalg_error() -> None:
    singular = torch.zeros(3, 3)
    for call in (torch.linalg.inv, torch.linalg.cholesky, torch.linalg.lu_factor, lambda a: torch.linalg.solve(a, a)):
        with pytest.raises(torch.linalg.LinAlgError):
            call(singular)
    assert issubclass(torch.linalg.LinAlgError, RuntimeError)
    batch = torch.stack((torch.eye(2), -torch.eye(2)))
    assert torch.linalg.cholesky_ex(batch).info.tolist() == [0, 1]
    assert torch.linalg.inv_ex(torch.stack((torch.eye(2), torch.zeros(2, 2)))).info.tolist() == [0, 1]


def test_arguments_are_checked() -> None:
    for call in (torch.linalg.inv, torch.linalg.det, torch.linalg.cholesky, torch.linalg.eig, torch.matrix_exp):
        with pytest.raises(RuntimeError):
            call(torch.ones(2, 3))
        with pytest.raises(RuntimeError):
            call(torch.ones(3))
        with pytest.raises(RuntimeError):
            call(torch.ones(2, 2, dtype=torch.int64))
    for call in (torch.linalg.svd, torch.linalg.qr, torch.linalg.inv):
        with pytest.raises(RuntimeError):
            call(torch.ones(2, 2, dtype=torch.bfloat16))
    with pytest.raises(RuntimeError):
        torch.linalg.solve(torch.eye(2), torch.ones(3, 2))
    with pytest.raises(RuntimeError):
        torch.lu_unpack(torch.eye(2), torch.tensor([1, 9], dtype=torch.int32))
    with pytest.raises(RuntimeError):
        torch.linalg.ldl_solve(torch.eye(2), torch.tensor([1, -9], dtype=torch.int32), torch.ones(2, 1))
    with pytest.raises(RuntimeError):
        torch.cdist(torch.ones(2, 3), torch.ones(2, 4))


def test_indefinite_factors_as_lapack_writes_them(monkeypatch):
    made = torch.linalg.ldl_factor_ex(torch.tensor([[1.0, 2, 3], [2, 1, 5], [3, 5, 0]]))
    assert made.pivots.tolist() == [-3, -3, 3] and made.info.item() == 0
    torch.testing.assert_close(
        made.LD, torch.tensor([[1.0, 0, 0], [3, 0, 0], [1.6667, 0.1111, -2.8889]]), atol=1e-4, rtol=0
    )
    assert torch.linalg.ldl_factor_ex(torch.zeros(0, 2, 2)).pivots.shape == (0, 2)
    monkeypatch.setattr(lapack, "_routine", lambda *_: None)
    with pytest.raises(NotImplementedError, match="no LAPACK"):
        torch.linalg.ldl_factor(torch.eye(2))


def test_routines_with_short_integers(monkeypatch):
    """Builds of NumPy over a LAPACK whose integers have 32 bits, as distributions have them: SciPy's wheels bring such a one."""
    scipy = pytest.importorskip("scipy")
    found = glob.glob(os.path.join(os.path.dirname(scipy.__file__) + ".libs", "libscipy_openblas-*"))
    if not found:
        pytest.skip("this SciPy has no library of its own")
    b = matrices(2, 40, 3, dtype=torch.float64)
    a = positive(40, torch.float64, (2,)) - 30 * torch.eye(40, dtype=torch.float64)
    calls = [
        lambda: torch.linalg.solve(a, b), lambda: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b),
        lambda: torch.linalg.eigvalsh(a), lambda: torch.linalg.svdvals(a), lambda: torch.linalg.lstsq(a, b).solution,
    ]  # fmt: skip
    expected = [call() for call in calls]
    for cached in (lapack._routine, lapack._spelling, lapack._lengths):
        cached.cache_clear()
    monkeypatch.setattr(lapack, "_library", lambda: ctypes.CDLL(found[0]))
    monkeypatch.setattr(lapack, "_SPELLINGS", {"scipy_{}_": "i4"})
    try:
        assert lapack.integers(1).dtype == np.int32
        for call, one in zip(calls, expected):
            close(call(), one, 100)
    finally:
        for cached in (lapack._routine, lapack._spelling, lapack._lengths):
            cached.cache_clear()


def test_factors_without_exchanged_rows():
    a = torch.tensor([[1.0, 2.0], [4.0, 3.0]], dtype=torch.float64)
    made, pivots = torch.linalg.lu_factor(a, pivot=False)
    assert pivots.tolist() == [1, 2] and made.tolist() == [[1, 2], [4, -5]]
    assert torch.linalg.lu_factor(a)[1].tolist() == [2, 2]
    many, pivots = torch.linalg.lu_factor(a.expand(300, 2, 2).contiguous(), pivot=False)
    assert pivots.tolist() == [[1, 2]] * 300 and torch.equal(many, made.expand(300, 2, 2))
    _, low, high = torch.linalg.lu(a, pivot=False)
    assert torch.equal(low @ high, a) and low.tolist() == [[1, 0], [4, 1]]


def test_vectors_of_least_squares_have_the_batch_of_their_matrices():
    a = torch.rand(2, 3, 2, dtype=torch.float64)
    b = torch.rand(2, 3, dtype=torch.float64)
    made = torch.linalg.lstsq(a, b).solution
    assert made.shape == (2, 2)
    torch.testing.assert_close(made, torch.linalg.lstsq(a, b[:, :, None]).solution[:, :, 0])
    for shape in ((1, 3), (4, 3), (3, 2), (2, 4)):
        with pytest.raises(RuntimeError, match=r"input.size\(-2\) should match"):
            torch.linalg.lstsq(a, torch.rand(shape, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="should match"):
        torch.linalg.lstsq(a[0], torch.rand(4, dtype=torch.float64))


@pytest.mark.parametrize("name", ["norm", "matrix_norm", "vector_norm"])
def test_norms_in_another_dtype(name):
    function, x = getattr(torch.linalg, name), torch.arange(6.0).reshape(2, 3)
    orders = {
        "norm": [None, 2, 1, "nuc", "fro"],
        "matrix_norm": ["fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf],
        "vector_norm": [2, 1, 0, np.inf],
    }
    for order in orders[name]:
        expected = function(x.double(), order)
        for d in (None, torch.float32, torch.float64):
            made = function(x, order, dtype=d)
            assert made.dtype is (d or torch.float32) and made.item() == pytest.approx(
                expected.item(), rel=1e-5, abs=1e-5
            )
        z = function(x.to(torch.complex64), order, dtype=torch.complex128)
        assert z.dtype is torch.float64 and z.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-5)
        for d in (torch.float16, torch.complex64, torch.int64):
            with pytest.raises(RuntimeError):
                function(x, order, dtype=d)
        with pytest.raises(RuntimeError):
            function(x.to(torch.complex64), order, dtype=torch.float64)


def test_small_complex_triangular_systems_are_exact():
    g = torch.Generator().manual_seed(0)
    a = torch.randn(3, 7, 7, dtype=torch.complex64, generator=g).triu() + 0.1 * torch.eye(7)
    for columns in (1, 3):
        b = torch.randn(3, 7, columns, dtype=torch.complex64, generator=g)
        want = torch.linalg.solve_triangular(a.to(torch.complex128), b.to(torch.complex128), upper=True)
        assert torch.equal(torch.linalg.solve_triangular(a, b, upper=True), want.to(torch.complex64))


def test_arguments_have_the_names_of_pytorch():
    """Older names of functions call their first argument `input`, those of torch.linalg `A`."""
    x = torch.eye(3) * 2
    assert torch.det(input=x) == torch.linalg.det(A=x) == x.det() == 8
    assert torch.inverse(input=x).equal(torch.linalg.inv(A=x)) and x.inverse().equal(torch.eye(3) / 2)
    assert torch.matrix_power(input=x, n=2).equal(torch.linalg.matrix_power(input=x, n=2))
    assert torch.cholesky_solve(input=x, input2=x).equal(torch.cholesky_solve(x, x))
    assert torch.cholesky_inverse(input=x).equal(torch.eye(3) / 4)
    for wrong in (lambda: torch.det(A=x), lambda: torch.inverse(A=x), lambda: torch.linalg.det(input=x)):
        with pytest.raises(TypeError):
            wrong()


def test_routines_refuse_arrays_of_unlike_precision():
    for size in (2, 40):  # by a loop over operands and by the library itself
        given, wide = np.zeros((1, size, size), np.float32), np.zeros((1, size, size))
        with pytest.raises(RuntimeError, match="cannot be given to one routine"):
            lapack.call("getrs", b"T", size, size, given, size, lapack.integers(1, size), wide, size, size=size * size)
    a, b = np.eye(40, dtype=np.float32), np.ones((40, 3))
    np.testing.assert_array_equal(lapack.solve_triangular(np, a, b, True, False), b)


@pytest.mark.parametrize("shape, dim", [((3,), 0), ((7, 3), 1), ((3, 7), 0), ((2, 3, 5, 2), 1), ((2, 4, 3), -1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int8])
def test_cross_products(shape, dim, dtype):
    a, b = ((torch.randn(shape) * 4).to(dtype) for _ in range(2))
    x, y = (t.movedim(dim, 0) for t in (a, b))
    wanted = torch.stack([x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]).movedim(0, dim)
    for _ in range(4):
        assert torch.equal(torch.linalg.cross(a, b, dim=dim), wanted)
