"""Tensors on a GPU: results and gradients agree with the CPU's, errors between devices, streams, random numbers.

`tools/gpu_check.py` runs every record; here are the paths of the backend itself.
"""

import copy

import numpy as np
import pytest

import flambeau as torch
from flambeau._core.state import CUDA
from flambeau._dispatch import backend_of
from flambeau._kernel.folds.reduce import fold_rows

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def real(*shape, dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(len(shape)).normal(size=shape)).to(dtype)


def same(there, here, rtol=1e-5):
    assert there.is_cuda and there.dtype is here.dtype and there.shape == here.shape
    np.testing.assert_allclose(
        there.detach().cpu().double().numpy(), here.detach().double().numpy(), rtol=rtol, atol=rtol
    )


def test_moves_keep_values_dtypes_and_strides():
    for x in (
        real(3, 4),
        real(3, 4).t(),
        real(2, 3, 4).permute(1, 2, 0),
        real(3, 4, dtype=torch.bfloat16),
        torch.arange(6),
        real(0, 3),
        real(),
    ):
        y = x.cuda()
        assert y.is_cuda and y.device == torch.device("cuda:0") and y.stride() == x.stride()
        assert y.cpu().equal(x) and y.cpu().stride() == x.stride()
    x = real(4, 4)[:, ::2]
    assert x.cuda().cpu().equal(x) and x.cuda().is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [0, 1, 7, 64, 1025, 100003])
def test_packs_and_tails(dtype, length):
    x, y = real(length, dtype=dtype), real(length, dtype=dtype) + 1
    same(x.cuda() * y.cuda() + 0.5, x * y + 0.5, 1e-2 if dtype.itemsize == 2 else 1e-6)
    if length > 1:  # addresses that are not aligned
        same(x.cuda()[1:] + y.cuda()[1:], x[1:] + y[1:], 1e-2 if dtype.itemsize == 2 else 1e-6)


def test_layouts():
    u, v = real(3, 4, 5, 6), real(6)
    a, b = u.cuda(), v.cuda()
    for f in (
        lambda u, v: u + v, lambda u, v: u.permute(3, 1, 0, 2) * 2, lambda u, v: u[:, ::2, :, 1::2] + v[1::2],
        lambda u, v: u.permute(0, 2, 3, 1).exp(), lambda u, v: u[:1].expand(3, 4, 5, 6) * u, lambda u, v: v[0] + u, lambda u, v: u[..., None] + v,
        lambda u, v: u.transpose(0, 3) - u.transpose(0, 3), lambda u, v: torch.where(u > 0, u, v),
    ):  # fmt: skip
        same(f(a, b), f(u, v))
        assert f(a, b).stride() == f(u, v).stride()
    deep = real(2, 3, 2, 3, 2, 3, 2)
    order = (6, 0, 5, 1, 4, 2, 3)
    same(
        deep.cuda().permute(order) + deep.cuda().permute(order)[..., :1],
        deep.permute(order) + deep.permute(order)[..., :1],
    )


def test_numbers_and_zero_dimensional_cpu_tensors():
    x, z = real(5), torch.tensor([1 + 2j, 3 - 1j])
    same(x.cuda() * torch.tensor(2.5), x * 2.5)
    same(2 ** x.cuda(), 2**x)
    same(z.cuda().real * 2, z.real * 2)
    assert (z.cuda() * (1 + 1j)).cpu().equal(z * (1 + 1j))
    same(x.cuda().to(torch.bfloat16) * 0.1, x.to(torch.bfloat16) * 0.1, 1e-2)


@pytest.mark.parametrize("shape", [(7,), (3, 5000), (5000, 3), (40, 50, 60), (1, 100000), (2, 0, 3)])
def test_folds(shape):
    x = real(*shape)
    for dims in [None, 0, -1, tuple(range(len(shape)))]:
        for f in (torch.sum, torch.mean) if dims is not None else (torch.sum,):
            given = () if dims is None else (dims,)
            same(f(x.cuda(), *given), f(x, *given))
    if x.numel():
        same(x.cuda().amax(0), x.amax(0))
        same(torch.softmax(x.cuda(), -1), torch.softmax(x, -1))
        same(torch.log_softmax(x.cuda(), 0), torch.log_softmax(x, 0))
    same(x.cuda().t().sum(0) if len(shape) == 2 else x.cuda().sum(0), x.t().sum(0) if len(shape) == 2 else x.sum(0))


@pytest.mark.parametrize(
    "shape, dim",
    [((9000,), 0), ((3, 100_001), 1), ((1, 9_000_000), 1), ((2, 50_000, 3), 1), ((300, 20_000), 1)],
    ids=str,
)
def test_running_folds_of_long_rows(shape, dim):
    """Blocks of a row wait for each other: many times, as that goes another way each time."""
    x, whole = real(*shape), torch.arange(torch.Size(shape).numel()).reshape(shape) * 7 % 1013 - 500
    there, whole_there = x.cuda(), whole.cuda()
    for d in (torch.int8, torch.int64):
        for _ in range(5):
            assert whole_there.to(d).cumsum(dim).cpu().equal(whole.to(d).cumsum(dim))
    for _ in range(5):
        same(there.cumsum(dim), x.cumsum(dim))
        same(there.double().cumsum(dim), x.double().cumsum(dim), 1e-9)
        for got, expected in zip(whole_there.cummax(dim), whole.cummax(dim)):
            assert got.cpu().equal(expected)
        assert there.t().contiguous().t().cumsum(dim).cpu().allclose(x.cumsum(dim), 1e-5, 1e-4) if x.ndim == 2 else True


@pytest.mark.parametrize("size", [1, 4096, 4097, 100_001, 5_000_000])
@pytest.mark.parametrize("d", [torch.bool, torch.bfloat16, torch.float32, torch.int64, torch.complex128], ids=str)
def test_marks_and_distinct_values(size, d):
    generator = np.random.default_rng(size)
    x = torch.from_numpy(generator.integers(0, 3, size)).to(d)
    there = x.cuda()
    for part, here in ((there, x), (there[1:], x[1:]), (there[::3], x[::3])):
        assert part.nonzero().cpu().equal(here.nonzero())
        mask, mask_here = part != 0, here != 0
        assert part[mask].cpu().equal(here[mask_here])
        assert part.masked_scatter(mask, part.flip(0)).cpu().equal(here.masked_scatter(mask_here, here.flip(0)))
    if size > 4000:
        rows, rows_here = there[:3000].view(100, 30), x[:3000].view(100, 30)
        assert rows.nonzero().cpu().equal(rows_here.nonzero())
        assert rows[rows[:, 0] != 0].cpu().equal(rows_here[rows_here[:, 0] != 0])
        assert rows[:, rows[0] != 0].cpu().equal(rows_here[:, rows_here[0] != 0])
    if not d.is_complex:
        values = torch.from_numpy(generator.integers(0, max(size // 3, 1), size)).to(d)
        for got, expected in zip(
            torch.unique(values.cuda(), return_inverse=True, return_counts=True),
            torch.unique(values, return_inverse=True, return_counts=True),
        ):
            assert got.cpu().equal(expected)
        assert torch.unique(values.cuda()).cpu().equal(torch.unique(values))


def test_a_long_sum_is_accurate():
    x = torch.full((10_000_001,), 0.1, device="cuda")
    assert abs(x.sum().item() - 1000000.1) < 0.5  # eight units in the last place


def test_kernels_of_the_language():
    x = real(6, 33)
    call = backend_of(CUDA).kernel(fold_rows, ("f32", "f32"), fold="squares", how="root")
    np.testing.assert_allclose(backend_of(CUDA).asnumpy(call(x.cuda()._array)), x.norm(dim=1).numpy(), rtol=1e-6)
    turned = call(x.cuda()._array[::2].reshape(3, 3, 11))
    assert turned.shape == (3, 3)


def test_a_training_step():
    def losses(device):
        torch.manual_seed(0)
        x, y = real(32, 8).to(device), real(32, 1).to(device)
        w, v = real(8, 16).to(device).requires_grad_(), real(16, 1).to(device).requires_grad_()
        found = []
        for _ in range(5):
            loss = ((torch.tanh(x @ w) @ v - y) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                for p in (w, v):
                    p -= 0.1 * p.grad
                    p.grad = None
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses("cuda"), losses("cpu"), rtol=1e-4)


def test_in_place_and_views():
    x = real(4, 5).cuda()
    y = x.clone()
    y.t()[1:3].add_(1)
    assert torch.equal(y[:, 1:3], x[:, 1:3] + 1) and torch.equal(y[:, 0], x[:, 0])
    assert y._version == 1
    w = x.clone().requires_grad_()
    z = w * 2
    z[0] = 7.0
    z.sum().backward()
    assert w.grad[0].sum().item() == 0 and w.grad[1].tolist() == [2.0] * 5


def test_devices_do_not_mix():
    x, y = real(3), real(3).cuda()
    for f in (
        lambda: x + y,
        lambda: torch.cat([x, y]),
        lambda: x.add_(y),
        lambda: torch.where(x > 0, y, y),
        lambda: y @ x,
    ):
        with pytest.raises(RuntimeError, match="same device"):
            f()
    with pytest.raises(TypeError, match="cpu"):
        y.numpy()
    with pytest.raises(RuntimeError):
        torch.add(y, y, out=torch.empty(3))


def test_random_numbers_repeat():
    torch.cuda.manual_seed_all(7)
    state = torch.cuda.get_rng_state()
    first = [
        torch.rand(1000, device="cuda"),
        torch.randn(1000, device="cuda"),
        torch.nn.functional.dropout(torch.ones(1000, device="cuda")),
    ]
    torch.cuda.set_rng_state(state)
    again = [
        torch.rand(1000, device="cuda"),
        torch.randn(1000, device="cuda"),
        torch.nn.functional.dropout(torch.ones(1000, device="cuda")),
    ]
    assert all(a.equal(b) for a, b in zip(first, again)) and not first[0].equal(torch.rand(1000, device="cuda"))


def test_distributions():
    torch.cuda.manual_seed_all(1)
    n = 1_000_000
    u, z = torch.rand(n, device="cuda"), torch.randn(n, device="cuda", dtype=torch.float64)
    assert (
        u.min().item() >= 0
        and u.max().item() < 1
        and abs(u.mean().item() - 0.5) < 2e-3
        and abs(u.var().item() - 1 / 12) < 1e-3
    )
    assert abs(z.mean().item()) < 5e-3 and abs(z.std().item() - 1) < 5e-3 and abs((z**4).mean().item() - 3) < 0.05
    k = torch.randint(-3, 4, (n,), device="cuda")
    assert k.min().item() == -3 and k.max().item() == 3
    kept = torch.nn.functional.dropout(torch.ones(n, device="cuda"), 0.25)
    assert abs((kept > 0).float().mean().item() - 0.75) < 3e-3


def test_streams_and_events():
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        x = torch.ones(1000, device="cuda") * 3
    torch.cuda.current_stream().wait_stream(stream)
    assert x.sum().item() == 3000


def test_copies_and_printing():
    x = real(2, 2).cuda()
    assert copy.deepcopy(x).equal(x) and copy.deepcopy(x).is_cuda
    assert repr(torch.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"
    assert torch.ones(2, device="cuda").tolist() == [1.0, 1.0] and torch.ones((), device="cuda").item() == 1.0


def test_a_scalar_of_numpy_goes_by_value_not_as_an_address():
    x = real(4, 5)
    same(torch.renorm(x.cuda(), 2, 0, 1.5), torch.renorm(x, 2, 0, 1.5))
    double = backend_of(CUDA).pointwise("twice", lambda m, x, y: x * y, ("f32", "f32"), ("f32",), ("f32", "f32"))
    for number in (np.float32(2), np.array(2, np.float32)):
        made = double(x.cuda()._array, number)
        np.testing.assert_array_equal(made.get(), 2 * x.numpy())
