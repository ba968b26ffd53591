"""`lobpcg` against `eigh`."""

import pytest

import flambeau as torch


def matrix(n=30, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    a = torch.randn(n, n, dtype=dtype)
    return a @ a.T + torch.eye(n, dtype=dtype)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_eigenpairs(largest, dtype, tolerance):
    a = matrix(dtype=dtype)
    values, vectors = torch.lobpcg(a, k=3, largest=largest)
    expected = torch.linalg.eigvalsh(a)
    expected = expected[-3:].flip(0) if largest else expected[:3]
    assert torch.allclose(values, expected, rtol=tolerance)
    assert torch.allclose(a @ vectors, vectors * values, atol=2e-2 if dtype is torch.float32 else 1e-4)
    assert torch.allclose(vectors.T @ vectors, torch.eye(3, dtype=dtype), atol=1e-4)


def test_generalised_problem_sparse_matrix_and_batches():
    a = matrix()
    b = torch.diag(torch.arange(1.0, 31.0, dtype=torch.float64))
    values, vectors = torch.lobpcg(a, k=2, B=b)
    root = torch.diag(torch.diagonal(b) ** -0.5)
    assert torch.allclose(values, torch.linalg.eigvalsh(root @ a @ root)[-2:].flip(0))
    assert torch.allclose(a @ vectors, (b @ vectors) * values, atol=1e-3)
    assert torch.allclose(torch.lobpcg(a.to_sparse(), k=2)[0], torch.linalg.eigvalsh(a)[-2:].flip(0))
    both = torch.stack([a, matrix(seed=1)])
    values, vectors = torch.lobpcg(both, k=2)
    assert values.shape == (2, 2) and vectors.shape == (2, 30, 2)
    assert torch.allclose(values, torch.linalg.eigvalsh(both)[:, -2:].flip(1))


@pytest.mark.slow
def test_gradient():
    a = matrix(12)

    def function(a):
        a = (a + a.T) / 2
        values, vectors = torch.lobpcg(a, k=2, tol=1e-14)
        return values, vectors**2  # the sign of a vector is free

    a.requires_grad_()
    assert torch.autograd.gradcheck(function, (a,), atol=1e-5, nondet_tol=1e-6)


def test_errors():
    with pytest.raises(ValueError, match="a third"):
        torch.lobpcg(matrix(), k=11)
    with pytest.raises(AssertionError, match="square"):
        torch.lobpcg(torch.ones(3, 4))
    with pytest.raises(ValueError, match="float32 or float64"):
        torch.lobpcg(torch.eye(9, dtype=torch.int64))


def test_what_would_have_no_effect_is_refused():
    with pytest.raises(NotImplementedError, match="tracker"):
        torch.lobpcg(torch.eye(12), 2, tracker=print)
    with pytest.raises(NotImplementedError, match="main memory"):
        torch.from_file("unused", size=1, pin_memory=True)
