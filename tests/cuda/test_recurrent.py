"""Recurrent networks on a GPU: values and gradients are those of the CPU."""

import pytest

import flambeau as torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def run(m, x, packed, device):
    m = m.to(device)
    for p in m.parameters():
        p.grad = None
    x = x.clone().to(device).requires_grad_()
    given = torch.nn.utils.rnn.pack_padded_sequence(x, [2, 5, 3], enforce_sorted=False) if packed else x
    out, state = m(given)
    if packed:
        out, lengths = torch.nn.utils.rnn.pad_packed_sequence(out)
        assert lengths.tolist() == [2, 5, 3]
    states = state if isinstance(state, tuple) else (state,)
    (out.sin().sum() + sum((s * s).sum() for s in states)).backward()
    return [t.detach().cpu() for t in (out, *states, x.grad, *[p.grad for p in m.parameters()])]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "name, options", [("RNN", {}), ("GRU", {"bias": False}), ("LSTM", {}), ("LSTM", {"proj_size": 2})]
)
def test_networks(name, options, packed):
    torch.manual_seed(0)
    m = getattr(torch.nn, name)(4, 6, num_layers=2, bidirectional=True, **options)
    x = torch.randn(5, 3, 4)
    here, there = run(m, x, packed, "cpu"), run(m, x, packed, "cuda")
    for a, b in zip(here, there, strict=True):
        assert torch.allclose(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(name):
    torch.manual_seed(0)
    cell, x = getattr(torch.nn, name)(4, 6), torch.randn(3, 4)
    here = cell(x)
    there = cell.to("cuda")(x.to("cuda"))
    for a, b in zip(here if name == "LSTMCell" else (here,), there if name == "LSTMCell" else (there,), strict=True):
        assert torch.allclose(a, b.cpu(), atol=1e-5)
