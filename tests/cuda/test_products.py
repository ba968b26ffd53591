"""Products of matrices on a GPU, by NumPy in the place of cuBLAS: what it is asked for, and plans."""

import pytest

import flambeau as torch

from . import fake_gpu
from .fake_gpu import back, on_gpu
from .test_device_entry import in_python

pytestmark = pytest.mark.sweep

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]


def tensors(shapes, d):
    torch.manual_seed(0)
    return [torch.randn(s, dtype=d if d.is_complex else None).to(d) for s in shapes]


def agree(function, here, d=torch.float32):
    """The values of the CPU; from the third call on by a plan, without a function of the package."""
    there = [on_gpu(t) for t in here]
    expected = function(*here)
    limit = 4e-2 if d is torch.bfloat16 else 1e-4
    with torch.no_grad():
        for _ in range(4):
            before = len(fake_gpu.products)
            got, calls = in_python(lambda: function(*there))
            assert len(fake_gpu.products) == before + 1
            assert got.shape == expected.shape and got.stride() == expected.stride()
            assert torch.allclose(back(got), expected, limit, limit)
    assert calls == 0


@pytest.mark.parametrize("d", DTYPES, ids=str)
@pytest.mark.parametrize("c", [(), (5,), (4, 1), (4, 5)])
def test_addmm(gpu, c, d):
    c, x, y = tensors([c, (4, 3), (3, 5)], d)
    agree(lambda c, x, y: torch.addmm(c, x, y), [c, x, y], d)
    agree(lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=-2.0), [c, x, y], d)
    assert back(torch.addmm(on_gpu(c * torch.nan), on_gpu(x), on_gpu(y), beta=0)).isfinite().all()
    agree(lambda c, x, y: torch.addmm(c, x.t(), y.t(), alpha=2), [c, *tensors([(3, 4), (5, 3)], d)], d)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_baddbmm_and_vectors(gpu, d):
    agree(lambda c, x, y: torch.baddbmm(c, x, y, beta=2, alpha=0.5), tensors([(2, 4, 5), (2, 4, 3), (2, 3, 5)], d), d)
    agree(lambda c, x, y: torch.baddbmm(c, x, y), tensors([(5,), (2, 4, 3), (2, 3, 5)], d), d)
    agree(lambda c, x, y: torch.addmv(c, x, y, beta=2, alpha=0.5), tensors([(4,), (4, 3), (3,)], d), d)
    agree(lambda c, x, y: torch.addmv(c, x, y), tensors([(), (4, 3), (3,)], d), d)
    agree(lambda x, y: torch.dot(x, y), tensors([(7,), (7,)], d), d)
    agree(lambda x, y: torch.mv(x, y), tensors([(4, 7), (7,)], d), d)
    agree(lambda x, y: x @ y, tensors([(7,), (2, 7, 4)], d), d)


@pytest.mark.parametrize("d", DTYPES[:2], ids=str)
def test_distances(gpu, d):
    agree(lambda x, y: torch.cdist(x, y), tensors([(30, 4), (7, 4)], d), d)
    agree(lambda x, y: torch.cdist(x, y), tensors([(2, 5, 30, 4), (5, 7, 4)], d), d)


def test_nothing_is_multiplied(gpu):
    c = torch.randn(4, 5)
    made = torch.addmm(c, torch.zeros(4, 0), torch.zeros(0, 5), beta=0.5)
    assert made.equal(c * 0.5)


OPERANDS = {
    "heads": lambda x, y: (x.transpose(1, 2), y.transpose(1, 2).transpose(2, 3)),  # of (2, 6, 3, 4): copied
    "one batch": lambda x, y: (x[:1].transpose(1, 2), y[:1].transpose(1, 2).transpose(2, 3)),
    "lines": lambda x, y: (x, y.transpose(2, 3)),
    "steps": lambda x, y: (x[..., ::2], y[..., ::2].transpose(2, 3)),
    "repeated": lambda x, y: (x, y[0, 0].t()),
    "batches repeated": lambda x, y: (x, y[:1].transpose(2, 3)),
    "unevenly": lambda x, y: (x[:, :1], y[:1].transpose(2, 3)),
    "one for all": lambda x, y: (x.expand(2, 6, 3, 4), y[1, :].transpose(1, 2)),
    "turned rows": lambda x, y: (x.transpose(2, 3), y[0, 0]),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_lie_anyhow(gpu, name):
    x, y = tensors([(2, 6, 3, 4), (2, 6, 3, 4)], torch.float32)
    (a, b), (c, d) = OPERANDS[name](x, y), OPERANDS[name](on_gpu(x), on_gpu(y))
    expected = a @ b
    for _ in range(4):
        got, calls = in_python(lambda: torch.matmul(c, d))
        assert torch.allclose(back(got), expected, 1e-5, 1e-5) and got.stride() == expected.stride()
    assert calls == 0
