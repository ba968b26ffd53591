"""Factorisations and transforms of few elements: by plans they give the bits that they give without, and fail as they do."""

import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.loops.ufunc import adopted, loops
from flambeau._kernel.native import site
from flambeau._kernel.threads import pool
from flambeau._ops.plans import watching
from flambeau._ops.plans.pointwise_plan import add_loop

CALLS = {
    "cholesky": lambda a, s: torch.linalg.cholesky(s),
    "cholesky upper": lambda a, s: torch.linalg.cholesky(s, upper=True),
    "cholesky_ex": lambda a, s: torch.linalg.cholesky_ex(s),
    "cholesky_solve": lambda a, s: torch.cholesky_solve(a, torch.linalg.cholesky(s)),
    "cholesky_inverse": lambda a, s: torch.cholesky_inverse(torch.linalg.cholesky(s)),
    "solve": lambda a, s: torch.linalg.solve(s, a),
    "solve vector": lambda a, s: torch.linalg.solve(s, a[..., 0]),
    "inv": lambda a, s: torch.linalg.inv(a),
    "det": lambda a, s: torch.linalg.det(a),
    "slogdet": lambda a, s: torch.linalg.slogdet(a),
    "logdet": lambda a, s: torch.logdet(s),
    "lu_factor": lambda a, s: torch.linalg.lu_factor(a),
    "lu": lambda a, s: torch.linalg.lu(a),
    "qr": lambda a, s: torch.linalg.qr(a),
    "qr tall": lambda a, s: torch.linalg.qr(a[..., :2]),
    "qr wide": lambda a, s: torch.linalg.qr(a[..., :2, :]),
    "qr complete": lambda a, s: torch.linalg.qr(a[..., :2], mode="complete"),
    "svd": lambda a, s: torch.linalg.svd(a),
    "svd thin": lambda a, s: torch.linalg.svd(a[..., :2], full_matrices=False),
    "svdvals": lambda a, s: torch.linalg.svdvals(a),
    "eigh": lambda a, s: torch.linalg.eigh(s),
    "eigvalsh": lambda a, s: torch.linalg.eigvalsh(s),
    "triangular": lambda a, s: torch.linalg.solve_triangular(s, a, upper=True),
    "unit triangular": lambda a, s: torch.linalg.solve_triangular(s, a, upper=False, unitriangular=True),
    "lstsq": lambda a, s: torch.linalg.lstsq(a, s),
    "fft": lambda a, s: torch.fft.fft(a),
    "fft2": lambda a, s: torch.fft.fft2(a),
    "ifft down": lambda a, s: torch.fft.ifft(a, dim=-2, norm="ortho"),
}


def matrices(n, dtype, seed, lead=()):
    random = torch.Generator().manual_seed(seed)
    a = torch.randn(*lead, n, n, dtype=dtype, generator=random)
    return a, a @ a.mH + n * torch.eye(n, dtype=dtype)


def parts(out):
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("n", [3, 4, 7])
@pytest.mark.parametrize("name", CALLS)
def test_plans_give_the_same_bits(name, n, dtype):
    call = CALLS[name]
    for lead in ((), (2,)):
        for _ in range(4):  # with other numbers than those that it was planned with
            call(*matrices(n, dtype, 0, lead))
        a, s = matrices(n, dtype, 1, lead)
        with site.switched_off():
            expected = parts(call(a, s))
        for made, wanted in zip(parts(call(a, s)), expected):
            assert made.dtype is wanted.dtype and made.stride() == wanted.stride()
            np.testing.assert_array_equal(made.numpy(), wanted.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_factors_give_the_matrix_back(dtype):
    for _ in range(4):
        a, s = matrices(5, dtype, 2)
        close = torch.testing.assert_close
        lower = torch.linalg.cholesky(s)
        close(lower @ lower.mH, s)
        close(a @ torch.linalg.inv(a), torch.eye(5, dtype=dtype), atol=1e-4, rtol=0)
        close(s @ torch.linalg.solve(s, a), a, atol=1e-4, rtol=1e-4)
        p, low, high = torch.linalg.lu(a)
        close(p @ low @ high, a)
        q, r = torch.linalg.qr(a)
        close(q @ r, a)
        u, v, vh = torch.linalg.svd(a)
        close(u @ torch.diag(v).to(dtype) @ vh, a)
        values, vectors = torch.linalg.eigh(s)
        close(vectors @ torch.diag(values).to(dtype) @ vectors.mH, s)
        sign, size = torch.linalg.slogdet(a)
        close(sign * size.exp(), torch.linalg.det(a), rtol=1e-4, atol=1e-4)


def test_failures_after_plans():
    good, zeros = torch.eye(4) * 2, torch.zeros(4, 4)
    for _ in range(4):
        (
            torch.linalg.inv(good),
            torch.linalg.solve(good, good),
            torch.linalg.cholesky(good),
            torch.linalg.lu_factor(good),
        )
    for call in (
        torch.linalg.inv, torch.linalg.cholesky, lambda a: torch.linalg.solve(a, good), torch.linalg.lu_factor,
        lambda a: torch.linalg.svd(a + torch.nan), lambda a: torch.linalg.eigh(a + torch.nan),
    ):  # fmt: skip
        for _ in range(3):
            with pytest.raises(torch.linalg.LinAlgError):
                call(zeros)
    for _ in range(4):
        assert torch.linalg.cholesky_ex(zeros).info == 1 and torch.linalg.inv_ex(zeros).info == 1
        assert torch.linalg.cholesky_ex(good).info == 0 and torch.linalg.det(zeros) == 0
        assert torch.linalg.slogdet(zeros).sign == 0 and torch.linalg.slogdet(zeros).logabsdet == -torch.inf
        assert torch.linalg.slogdet(zeros + torch.nan).sign.isnan()


def test_libraries_leave_no_warnings_behind():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1e-30, 1.0, 1e30):
            for _ in range(4):
                a = matrices(4, torch.float32, 3)[0] * scale
                torch.linalg.svd(a), torch.linalg.svdvals(a), torch.linalg.qr(a), torch.linalg.eigh(a + a.T)


def test_pivots_that_are_no_rows():
    packed, pivots = torch.linalg.lu_factor(torch.rand(3, 3))
    for _ in range(4):
        torch.lu_unpack(packed, pivots)
    with pytest.raises(RuntimeError, match="must be between 1 and"):
        torch.lu_unpack(packed, pivots + 3)


@pytest.mark.skipif(not isinstance(getattr(torch.exp, "__self__", None), site.Site), reason="without the native entry")
@pytest.mark.parametrize("lead", [(), (5,)])
def test_systems_that_are_not_small_are_planned(lead, monkeypatch):
    a, s = matrices(40, torch.float64, 0, lead)
    torch.testing.assert_close(torch.linalg.inv(s) @ a, torch.linalg.solve(s, a))
    site.forget_all()  # other tests may have planned these calls, or many
    for call in (CALLS["solve"], CALLS["inv"], CALLS["cholesky"]):
        with site.switched_off():
            expected = call(a, s)
        found = []
        monkeypatch.setattr(watching, "add_loop", lambda *given: found.append(given) or add_loop(*given))
        for _ in range(4):
            assert torch.equal(call(a, s), expected)
        monkeypatch.undo()
        weights = [(pool.weight(*loops[given[1]]), given[2]) for given in found]
        assert found and (not lead or any(w * np.prod(dims) > pool.WORTHWHILE for w, dims in weights))  # by all cores


def test_gradients_with_plans():
    for name in ("cholesky", "solve vector", "inv", "det", "slogdet", "qr", "svdvals", "eigh", "lu"):

        def gradient(x, name=name):
            _, s = x, x @ x.mT + 4 * torch.eye(4)
            return torch.autograd.grad(sum(t.abs().sum() for t in parts(CALLS[name](x, s)) if t.requires_grad), x)[0]

        for _ in range(4):
            gradient(matrices(4, torch.float64, 4)[0].requires_grad_())
        x = matrices(4, torch.float64, 5)[0].requires_grad_()
        with site.switched_off():
            expected = gradient(x)
        torch.testing.assert_close(gradient(x), expected, msg=name)


def test_loops_of_numpy_are_adopted():
    fft = pytest.importorskip("numpy.fft._pocketfft_umath")
    own = adopted(fft.rfft_n_even, "ff->F")
    x, made = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32), np.empty((3, 5), np.complex64)
    own(x, np.float32(1), made)
    assert own in loops and np.allclose(made, np.fft.rfft(x), atol=1e-5)
    assert adopted(fft.rfft_n_even, "ee->F") is fft.rfft_n_even and adopted(np.add, "ff->f") is np.add


@pytest.mark.parametrize("name", ["fft", "fft2", "ifft down", "svdvals", "qr", "eigh", "inv", "lu"])
def test_parts_of_compiled_programs(name):
    def total(a, s):
        return sum(t.abs().sum() for t in parts(CALLS[name](a * 2, s + 1)))

    compiled = torch.compile(total)
    for seed in range(3):
        a, s = matrices(4, torch.float64, seed)
        first, second = a.clone().requires_grad_(), a.clone().requires_grad_()
        made, wanted = compiled(first, s), total(second, s)
        torch.testing.assert_close(made, wanted)
        if wanted.requires_grad:
            made.backward(), wanted.backward()
            torch.testing.assert_close(first.grad, second.grad)
