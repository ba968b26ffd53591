"""Derivatives of functions and functions of batches where tensors lie on a GPU, by kernels that the CPU runs."""

import pytest

import flambeau as torch

from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

X = torch.tensor([0.2, 0.5, -0.4, 0.1])


@pytest.mark.parametrize(
    "function",
    [
        torch.func.jacrev(lambda z: z.sin() * z.sum()),
        torch.func.jacfwd(lambda z: z.exp() * z.sum()),
        torch.func.hessian(lambda z: (z**3).sum() * z.sum()),
        lambda x: torch.autograd.functional.jacobian(lambda z: z.sin() * 2, x),
        lambda x: torch.autograd.functional.jacobian(lambda z: z.sin() * 2, x, vectorize=True),
        lambda x: torch.autograd.functional.hessian(lambda z: (z**3).sum(), x),
        lambda x: torch.func.vmap(lambda p: p + torch.ones(2, device=p.device))(x.reshape(2, 2)),
        lambda x: torch.func.vmap(lambda p: p[[1, 0]] * 2)(x.reshape(2, 2)),
    ],
    ids=["jacrev", "jacfwd", "hessian", "jacobian", "vectorized", "functional hessian", "device", "places"],
)
def test_as_on_the_cpu(gpu, function):
    got = function(on_gpu(X))
    assert got.is_cuda and torch.allclose(back(got), function(X), rtol=1e-6, atol=1e-7)
