"""Recurrent layers and cells on a GPU, by kernels and products that the CPU runs."""

import copy
import os

import pytest

import flambeau as torch

from . import fake_gpu
from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.skipif(os.environ.get("FLAMBEAU_NATIVE_ENTRY") == "0", reason="there is no native entry")


def moved(module):
    """A copy of a module on the GPU."""
    made = copy.deepcopy(module)
    for name, p in module.named_parameters():
        made._parameters[name] = on_gpu(p.detach(), requires_grad=True)
    return made


def run(m, x, states, cotangents, lengths, to):
    """All results and gradients, in the CPU's memory."""
    x, states = to(x, True), tuple([to(s, True) for s in states])
    given = x if lengths is None else torch.nn.utils.rnn.PackedSequence(x, torch.tensor(lengths))
    out, last = m(given, states if len(states) == 2 else states[0])
    outs = [out if lengths is None else out.data, *(last if len(states) == 2 else (last,))]
    for p in m.parameters():
        p.grad = None
    torch.autograd.backward(outs, [to(g, False) for g in cotangents])
    with torch.no_grad():
        again = m(given, states if len(states) == 2 else states[0])[0]
    outs.append(again if lengths is None else again.data)
    return [*outs, x.grad, *[s.grad for s in states], *[p.grad for p in m.parameters()]]


def here(t, requires_grad):
    return t.clone().requires_grad_(requires_grad)


@pytest.mark.parametrize("lengths", [None, [4, 3, 3, 1]], ids=["padded", "packed"])
@pytest.mark.parametrize(
    "name, options",
    [
        ("RNN", {"nonlinearity": "relu", "bias": False}),
        ("RNN", {"dtype": torch.float64}),
        ("GRU", {"bidirectional": True}),
        ("GRU", {"bias": False, "num_layers": 2}),
        ("LSTM", {"bidirectional": True}),
        ("LSTM", {"proj_size": 2, "bidirectional": True}),
        ("LSTM", {"dtype": torch.bfloat16}),
        ("GRU", {"dtype": torch.float16}),
    ],
)
def test_layers(gpu, name, options, lengths):
    torch.manual_seed(0)
    m = getattr(torch.nn, name)(3, 5, **options)
    d, directions, width = m.weight_ih_l0.dtype, 2 if m.bidirectional else 1, m.proj_size or 5
    new = lambda *shape: torch.randn(*shape, dtype=torch.float64).to(d)
    x = new(4, 4, 3) if lengths is None else new(sum(lengths), 3)
    sizes = (width, 5) if name == "LSTM" else (width,)
    states = [new(directions * m.num_layers, 4, size) for size in sizes]
    cotangents = [new(*x.shape[:-1], directions * width), *[new(*s.shape) for s in states]]
    expected = run(m, x, states, cotangents, lengths, here)
    there, tolerance = moved(m), 2e-2 if d.itemsize == 2 else 1e-5
    for _ in range(2):
        found = run(there, x, states, cotangents, lengths, on_gpu)
        for a, b in zip(expected, found, strict=True):
            assert a.shape == b.shape and a.dtype is b.dtype
            torch.testing.assert_close(a.detach(), back(b), rtol=tolerance, atol=tolerance)


def test_all_steps_are_one_native_call(gpu):
    """Two launches a step, whatever the arrays hold; other lengths have lists of their own."""
    m = moved(torch.nn.LSTM(3, 5))
    gpu.launches.lists.clear()
    for count, length in enumerate((7, 9), 1):
        x = on_gpu(torch.randn(length, 2, 3), requires_grad=True)
        for again in range(3):
            kernels, products = Kernel.natively, len(fake_gpu.products)
            out, _ = m(x)
            assert not again or Kernel.natively - kernels - length in range(8)
            assert len(fake_gpu.products) - products == length + 1
            torch.autograd.backward(out, on_gpu(torch.ones(length, 2, 5)))
            assert len(fake_gpu.products) - products == 2 * length + 4
        assert len([key for (key, *_) in gpu.launches.lists if key[0] in ("forward", "backward")]) == 2 * count


def test_launches_that_fail_are_left_to_python(gpu, monkeypatch):
    m = torch.nn.GRU(3, 5)
    x, there = torch.randn(4, 2, 3), moved(m)
    with torch.no_grad():
        expected = m(x)[0]
        for failing in ([], [1]):
            monkeypatch.setattr(fake_gpu, "failing", failing)
            torch.testing.assert_close(expected, back(there(on_gpu(x))[0]))


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(gpu, name, d):
    torch.manual_seed(0)
    cell = getattr(torch.nn, name)(4, 70, dtype=d)
    new = lambda *shape: torch.randn(*shape).to(d)
    x, states = new(3, 4), tuple([new(3, 70) for _ in range(2 if name == "LSTMCell" else 1)])
    cotangents = [new(3, 70) for _ in states]

    def run(cell, to):
        given = [to(t, True) for t in (x, *states)]
        before = Kernel.natively
        outs = cell(given[0], tuple(given[1:]) if len(states) == 2 else given[1])
        natively = Kernel.natively - before
        outs = outs if len(states) == 2 else (outs,)
        torch.autograd.backward(outs, [to(g, False) for g in cotangents])
        return [*outs, *[t.grad for t in given], *[p.grad for p in cell.parameters()]], natively

    expected, _ = run(cell, here)
    tolerance = 5e-2 if d.itemsize == 2 else 1e-5
    for _ in range(4):
        there = moved(cell)
        found, natively = run(there, on_gpu)
        for a, b in zip(expected, found, strict=True):
            torch.testing.assert_close(a.detach(), back(b), rtol=tolerance, atol=tolerance)
    assert 0 < natively <= 4  # biases, and the gates


def test_a_compiled_layer(gpu):
    m = torch.nn.GRU(3, 5)
    there, x = moved(m), torch.randn(4, 2, 3)
    compiled = torch.compile(lambda x: there(x)[0])
    expected = torch.autograd.grad(m(x)[0].sum(), m.weight_hh_l0)[0]
    for i in range(4):
        before = Kernel.natively
        out = compiled(on_gpu(x))
        assert i < 2 or Kernel.natively - before >= 4
        torch.testing.assert_close(m(x)[0].detach(), back(out))
        there.weight_hh_l0.grad = None
        torch.autograd.backward(out, on_gpu(torch.ones(4, 2, 5)))
        torch.testing.assert_close(expected, back(there.weight_hh_l0.grad))


def test_operands_of_several_devices(gpu):
    m = torch.nn.LSTM(3, 5)
    with pytest.raises(RuntimeError, match="device"):
        m(on_gpu(torch.randn(4, 2, 3)))
