"""Conjugates and negatives as views: bits, memory, writes, gradients, files."""

import copy
import io
import pickle

import pytest

import flambeau as torch


def numbers():
    return torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 2 + 0j]])


def bits(t):
    return t.is_conj(), t.is_neg()


def test_bits_of_views():
    x = numbers()
    c = x.conj()
    for view in (
        c,
        c[0],
        c.t(),
        c.view(-1),
        c.reshape(4),
        c.detach(),
        c.data,
        c.contiguous(),
        c.unbind()[1],
        c.expand(3, 2, 2),
        x.mH,
        x.H,
        x.adjoint(),
    ):
        assert bits(view) == (True, False) and view.data_ptr() in range(x.data_ptr(), x.data_ptr() + 32)
    assert bits(c.conj()) == bits(c.mH) == bits(c.real) == (False, False)
    assert bits(c.imag) == (False, True) and bits(torch._neg_view(x).conj().imag) == (False, False)
    for made in (
        c.clone(),
        c + 1,
        c.resolve_conj(),
        x.conj_physical(),
        c.to(torch.complex128),
        c.t().reshape(-1),
        c.abs(),
        torch.empty_like(c),
        c.imag.resolve_neg(),
        -c.imag,
        copy.deepcopy(c),
    ):
        assert bits(made) == (False, False)
    assert x.resolve_conj() is x and x.real.conj().data_ptr() == x.data_ptr()


def test_values():
    x = numbers()
    c = x.conj()
    expected = [[1 - 2j, 3 + 1j], [-0.5j, 2 + 0j]]
    assert c.tolist() == (c + 0).tolist() == c.clone().tolist() == expected
    assert c[0, 1].item() == 3 + 1j and complex(c[0, 0]) == 1 - 2j
    assert c.imag.tolist() == [[-2.0, 1.0], [-0.5, 0.0]] and c.imag.sum().item() == -1.5
    assert repr(c) == repr(c.resolve_conj()) and repr(c.imag) == repr(c.imag.resolve_neg())
    assert torch.equal(c @ x, c.clone() @ x) and torch.equal(x.mH @ x, x.mH.clone() @ x)
    assert torch.equal(torch.stack([c, x])[0], c) and torch.cat([x, c])[2:].tolist() == expected
    assert torch.where(c.real > 1, c, x)[0].tolist() == [1 + 2j, 3 + 1j]


def test_writes_go_through():
    x = numbers()
    x.conj().mul_(1j)
    assert x[0].tolist() == [(1 - 2j).conjugate() * -1j, (3 + 1j).conjugate() * -1j]
    x = numbers()
    x.conj()[0, 0] = 7 + 1j
    x.mH[0, 1] = 5j
    x.conj().imag[1, 1] = 4
    assert x.tolist() == [[7 - 1j, 3 - 1j], [-5j, 2 - 4j]]
    x.conj().imag.fill_(2)
    assert x.imag.tolist() == [[-2.0, -2.0], [-2.0, -2.0]]
    x.conj().copy_(torch.full((2, 2), 1 + 1j))
    assert x.tolist() == [[1 - 1j] * 2] * 2
    torch.add(x, 1, out=x.conj())
    assert x.tolist() == [[2 + 1j] * 2] * 2
    x.conj().imag.gt_(0)
    assert x.tolist() == [[2 + 0j] * 2] * 2
    x.conj().index_fill_(0, torch.tensor([0]), 1j)
    assert x.tolist() == [[-1j] * 2, [2 + 0j] * 2]


def test_gradients():
    x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = x.conj()
    assert y.is_conj() and type(y.grad_fn).__name__ == "ConjBackward0"
    (y * y).real.sum().backward()
    assert x.grad.tolist() == [2 - 4j, 6 + 2j]
    z = torch.randn(3, 2, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: t.mH @ t, (z,))
    assert torch.autograd.gradcheck(lambda t: t.conj().imag * t.real, (z,))
    assert torch.autograd.gradgradcheck(lambda t: (t.conj() * t * t).imag, (z,))

    def written(t):
        t = t.clone()
        t.conj()[0].mul_(2j)
        t.conj().imag[1].copy_(t.real[2])
        return t

    assert torch.autograd.gradcheck(written, (z,))


def test_what_cannot_be_had():
    c = numbers().conj()
    with pytest.raises(
        RuntimeError, match=r"Can't call numpy\(\) on Tensor that has conjugate bit set. Use tensor.resolve_conj\(\)"
    ):
        c.numpy()
    with pytest.raises(RuntimeError, match=r"has negative bit set. Use tensor.resolve_neg\(\)"):
        c.imag.numpy()
    assert c.numpy(force=True).tolist() == c.tolist()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(c)
    with pytest.raises(RuntimeError, match="not supported for conjugate view tensors"):
        c.view(torch.float32)
    with pytest.raises(BufferError, match="conjugate bit set"):
        c.__dlpack__()


def test_files_keep_the_bit():
    c = numbers().conj()
    again = pickle.loads(pickle.dumps(c))
    assert again.is_conj() and again.tolist() == c.tolist()
    file = io.BytesIO()
    torch.save({"c": c, "n": numbers().conj().imag}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["c"].is_conj() and loaded["n"].is_neg()
    assert loaded["c"].tolist() == c.tolist() and loaded["n"].tolist() == c.imag.tolist()


def test_deep_copies_read_the_same():
    for v in (numbers().conj(), numbers().conj().imag, torch._neg_view(numbers())):
        c = copy.deepcopy(v)
        assert c.tolist() == v.tolist() and not c.is_conj() and not c.is_neg()


def test_expanded_conjugates_are_not_written():
    v = numbers().conj().expand(2, *numbers().shape)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        v.mul_(2)


def test_exchange_refuses_what_is_not_computed():
    with pytest.raises(BufferError, match="conjugate bit set"):
        torch.from_dlpack(numbers().conj())
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(torch.ones(2, requires_grad=True))


def test_parts_of_a_negative():
    v = torch._neg_view(numbers())
    assert torch.view_as_real(v).tolist() == torch.view_as_real(-numbers()).tolist()
    assert torch._conj(numbers()).is_conj()
