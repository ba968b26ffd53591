"""What one thread makes of operands, several make, too: small operands, with every call worth many threads or none."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site

F = torch.nn.functional


@pytest.fixture(params=[2, 1 << 40], ids=["shared", "alone"])
def worth(monkeypatch, request):
    """Work from which threads pay: the least that there is, or more than there is."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr("flambeau._backend.threads.WORTHWHILE", request.param)
    with site.switched_off():  # plans were made for other numbers
        yield request.param
    torch.set_num_threads(before)


DTYPES = [torch.float32, torch.int64, torch.uint8, torch.bfloat16]
SHAPES = [(70,), (5, 40), (40, 5), (3, 20, 50)]


def _numbers(shape, d, most=9):
    count = int(np.prod(shape))
    return torch.from_numpy((np.arange(count) * 7919 % most).reshape(shape)).to(d)


def _equal(made, wanted):
    np.testing.assert_array_equal(made.double().numpy(), np.asarray(wanted, np.float64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_elements_by_index(worth, shape, dtype):
    x = _numbers(shape, dtype)
    plain = x.double().numpy()
    for dim in range(len(shape)):
        index = _numbers(shape, torch.int64, shape[dim])
        _equal(x.gather(dim, index), np.take_along_axis(plain, index.numpy(), dim))
        wanted = plain.copy()
        order = torch.from_numpy(np.argsort(plain, dim, kind="stable"))
        np.put_along_axis(wanted, order.numpy(), plain[::-1], dim)
        _equal(x.clone().scatter_(dim, order, x.flip(0)), wanted)
        wanted = np.zeros_like(plain)
        np.add.at(wanted, tuple(index.numpy() if d == dim else g for d, g in enumerate(np.indices(shape))), plain % 2)
        _equal(torch.zeros(shape, dtype=dtype).scatter_add_(dim, index, (x % 2).to(dtype)), wanted)
        for wrong in (shape[dim], -1):
            index.reshape(-1)[-1] = wrong
            with pytest.raises((RuntimeError, IndexError)):
                x.gather(dim, index)
            with pytest.raises((RuntimeError, IndexError)):
                x.clone().scatter_(dim, index, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_by_index(worth, shape, dtype):
    x = _numbers(shape, dtype)
    plain = x.double().numpy()
    for dim in range(len(shape)):
        index = _numbers((2 * shape[dim],), torch.int64, shape[dim])
        picked = x.index_select(dim, index)
        _equal(picked, plain.take(index.numpy(), dim))
        wanted = np.moveaxis(plain.copy(), dim, 0)
        np.add.at(wanted, index.numpy(), np.moveaxis(plain.take(index.numpy(), dim), dim, 0))
        _equal(x.clone().index_add_(dim, index, picked) if dtype is not torch.uint8 else picked,
               np.moveaxis(wanted, 0, dim) if dtype is not torch.uint8 else plain.take(index.numpy(), dim))  # fmt: skip
        once = torch.from_numpy(np.arange(shape[dim])[::-1].copy())
        _equal(x.clone().index_copy_(dim, once, x), np.flip(plain, dim))
        index[3] = shape[dim]
        with pytest.raises((RuntimeError, IndexError)):
            x.index_select(dim, index)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_masks_pairs_and_triangles(worth, shape, dtype):
    x = _numbers(shape, dtype)
    plain = x.double().numpy()
    for mask in (x > 4, x > 100, x >= 0):
        _equal(x[mask], plain[mask.numpy()])
        y = x.clone().float().requires_grad_()
        y[mask].sum().backward()
        _equal(y.grad, mask.numpy())
    if len(shape) > 1:
        _equal(x.tril(1), np.tril(plain, 1))
    if len(shape) == 2:
        rows, columns = (_numbers((90,), torch.int64, n) for n in shape)
        _equal(x[rows, columns - shape[1]], plain[rows.numpy(), columns.numpy()])
        rows[80] = shape[0]
        with pytest.raises(IndexError):
            x[rows, columns]
    bounds = torch.arange(0, 9, 2).to(dtype)
    _equal(torch.searchsorted(bounds, x), np.searchsorted(bounds.double().numpy(), plain))
    _equal(x.reshape(-1).long().bincount(), np.bincount(plain.astype(np.int64).reshape(-1)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_into_memory(worth, dtype):
    """Casts, copies and pointwise results into memory that lies in some way."""
    for shape in SHAPES:
        x = _numbers(shape, dtype)
        plain = x.double().numpy()
        for other in (torch.float64, torch.int16, torch.float16):
            _equal(x.to(other), plain)
            target = torch.zeros(*reversed(shape), dtype=other).permute(*reversed(range(len(shape))))
            _equal(target.copy_(x), plain)
        _equal(torch.empty_like(x).copy_(x.flip(0).flip(0)), plain)
        _equal(x.clone().mul_(2), plain * 2)
        _equal(x.clone().add_(x.reshape(-1)[-1]), plain + plain.reshape(-1)[-1])
        _equal(x.flip(0) + x[:1], plain[::-1] + plain[:1])


def test_gradients_of_parts(worth):
    x = torch.arange(60.0).reshape(6, 10).requires_grad_()
    sum(((x[i] * i).sum() for i in range(6)), torch.zeros(())).backward()
    _equal(x.grad, np.repeat(np.arange(6.0), 10).reshape(6, 10))
    y = torch.linspace(-2, 2, 40).reshape(4, 10).requires_grad_()
    F.glu(y, 1).sum().backward()
    a, b = y.detach()[:, :5].double(), y.detach()[:, 5:].double()
    wanted = torch.cat([b.sigmoid(), a * b.sigmoid() * (1 - b.sigmoid())], 1)
    torch.testing.assert_close(y.grad.double(), wanted, rtol=1e-5, atol=1e-6)
    z = torch.arange(24.0).reshape(4, 6).requires_grad_()
    z.mean(0).sum().backward()
    _equal(z.grad, np.full((4, 6), 0.25))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_products(worth, dtype):
    x, y = _numbers((200, 3), dtype), _numbers((3, 4), dtype)
    _equal(x @ y, x.double().numpy() @ y.double().numpy())
    wide = _numbers((30, 70), dtype)
    _equal(wide.T @ wide, wide.double().numpy().T @ wide.double().numpy())
    if dtype is not torch.int64:
        sparse = (wide * (wide > 6)).to_sparse_csr()
        _equal(sparse @ wide.T.contiguous(), (wide * (wide > 6)).double().numpy() @ wide.double().numpy().T)
        index = _numbers((50, 4), torch.int64, 30)
        _equal(F.embedding_bag(index, wide, mode="sum"), wide.double().numpy()[index.numpy()].sum(1))
