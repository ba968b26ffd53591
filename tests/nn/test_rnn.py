"""Recurrent modules, cells and packed sequences."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn.utils.rnn import (
    PackedSequence,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

NETWORKS = ("RNN", "GRU", "LSTM")


def first(state):
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters(name):
    m = getattr(torch.nn, name)(3, 4, num_layers=2, bidirectional=True)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name] * 4
    shapes = {n: tuple(p.shape) for n, p in m.named_parameters()}
    assert list(shapes)[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]
    assert shapes["weight_ih_l0"] == (gates, 3) and shapes["weight_ih_l1_reverse"] == (gates, 8)
    assert shapes["weight_hh_l1"] == (gates, 4) and shapes["bias_hh_l1"] == (gates,)
    assert all(p.abs().max() <= 0.5 for p in m.parameters())
    assert [len(w) for w in m.all_weights] == [4] * 4 and m.all_weights[1][0] is m.weight_ih_l0_reverse
    assert all(a is b for a, b in zip(m._flat_weights, m.parameters()))
    m.flatten_parameters()
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        x = torch.randn(5, 2, 3)
        assert torch.equal(other(x)[0], m(x)[0]) and other._flat_weights[0] is other.weight_ih_l0
    m.weight_ih_l0 = torch.nn.Parameter(torch.zeros(gates, 3))
    assert m._flat_weights[0] is m.weight_ih_l0
    assert m.double()._flat_weights[0].dtype is torch.float64


def test_projected_lstm():
    m = torch.nn.LSTM(3, 6, 2, bidirectional=True, proj_size=2)
    assert m.weight_hr_l0.shape == (2, 6) and m.weight_ih_l1.shape == (24, 4) and m.weight_hh_l0.shape == (24, 2)
    out, (h, c) = m(torch.randn(5, 4, 3))
    assert out.shape == (5, 4, 4) and h.shape == (4, 4, 2) and c.shape == (4, 4, 6)
    out.sum().backward()
    assert m.weight_hr_l0.grad.abs().max() > 0


def test_repr():
    m = torch.nn.LSTM(3, 4, 2, bias=False, batch_first=True, dropout=0.3, bidirectional=True, proj_size=2)
    assert (
        repr(m)
        == "LSTM(3, 4, proj_size=2, num_layers=2, bias=False, batch_first=True, dropout=0.3, bidirectional=True)"
    )
    assert repr(torch.nn.RNN(3, 4, 1, "relu")) == "RNN(3, 4)"
    assert repr(torch.nn.RNNCell(3, 4, False, "relu")) == "RNNCell(3, 4, bias=False, nonlinearity=relu)"
    assert repr(torch.nn.GRUCell(3, 4)) == "GRUCell(3, 4)"


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_forms_of_input(name, batch_first):
    torch.manual_seed(0)
    m = getattr(torch.nn, name)(3, 4, num_layers=2, bidirectional=True, batch_first=batch_first)
    x = torch.randn(5, 2, 3)
    given = x.transpose(0, 1) if batch_first else x
    out, last = m(given)
    zeros = torch.zeros(4, 2, 4)
    again = m(given, (zeros, zeros) if name == "LSTM" else zeros)
    assert torch.equal(out, again[0]) and torch.equal(first(last), first(again[1]))
    alone, state = m(x[:, 0])
    expected = out[0] if batch_first else out[:, 0]
    assert alone.shape == (5, 8) and torch.allclose(alone, expected, atol=1e-6)
    assert torch.allclose(first(state), first(last)[:, 0], atol=1e-6)
    with_state = m(x[:, 0], (zeros[:, 0], zeros[:, 0]) if name == "LSTM" else zeros[:, 0])
    assert torch.equal(with_state[0], alone)


@pytest.mark.parametrize("name", NETWORKS)
def test_packed_sequences(name):
    """Unsorted sequences: each as if alone, with states in the caller's order."""
    torch.manual_seed(1)
    m = getattr(torch.nn, name)(3, 4, num_layers=2, bidirectional=True)
    parts = [torch.randn(n, 3) for n in (2, 5, 1, 5)]
    state = torch.randn(4, 4, 4)
    packed = pack_sequence(parts, enforce_sorted=False)
    out, last = m(packed, (state, state) if name == "LSTM" else state)
    assert isinstance(out, PackedSequence) and out.batch_sizes is packed.batch_sizes
    for i, (part, found) in enumerate(zip(parts, unpack_sequence(out))):
        own = state[:, i : i + 1].contiguous()
        expected, end = m(part[:, None], (own, own) if name == "LSTM" else own)
        assert torch.allclose(found, expected[:, 0], atol=1e-6)
        assert torch.allclose(first(last)[:, i], first(end)[:, 0], atol=1e-6)
    assert torch.allclose(
        first(m(packed)[1]), first(m(packed, (0 * state, 0 * state) if name == "LSTM" else 0 * state)[1])
    )


def test_functional_call_and_hooks_see_other_weights():
    m = torch.nn.GRU(3, 4)
    zeros = {n: torch.zeros_like(p) for n, p in m.named_parameters()}
    assert (torch.func.functional_call(m, zeros, (torch.randn(5, 2, 3),))[0] == 0).all()
    assert (m(torch.randn(5, 2, 3))[0] != 0).any()


def test_options_are_checked():
    for options, error in (
        ({"hidden_size": 0}, ValueError), ({"hidden_size": 4.0}, TypeError), ({"input_size": 0}, ValueError),
        ({"num_layers": 0}, ValueError), ({"dropout": 2.0}, ValueError), ({"dropout": True}, ValueError),
        ({"bias": 0}, TypeError), ({"batch_first": 1}, TypeError), ({"proj_size": -1}, ValueError),
        ({"proj_size": 4}, ValueError), ({"unknown": 1}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            torch.nn.LSTM(**{"input_size": 3, "hidden_size": 4, **options})
    for kind in (torch.nn.GRU, torch.nn.RNN):
        with pytest.raises(ValueError, match="only supported for LSTM"):
            kind(3, 4, proj_size=2)
    with pytest.raises(ValueError, match="Unknown nonlinearity"):
        torch.nn.RNN(3, 4, nonlinearity="sine")
    with pytest.raises(ValueError, match="Unrecognized RNN mode"):
        torch.nn.RNNBase("SINE", 3, 4)
    with pytest.raises(NotImplementedError):
        torch.nn.RNNBase("LSTM", 3, 4)(torch.randn(2, 2, 3))
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        torch.nn.GRU(3, 4, dropout=0.5)


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_are_checked(name):
    m = getattr(torch.nn, name)(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(5, 2, 3)
    state = lambda *shape: (torch.zeros(shape), torch.zeros(shape)) if name == "LSTM" else torch.zeros(shape)
    for bad in (x[0, 0], x[None], x.double(), x.long()):
        with pytest.raises(ValueError):
            m(bad)
    with pytest.raises(RuntimeError, match="Expected 3, got 4"):
        m(torch.randn(5, 2, 4))
    with pytest.raises(RuntimeError, match="sequence length"):
        m(torch.randn(0, 2, 3))
    for bad in (state(3, 2, 4), state(4, 3, 4), state(4, 2, 5)):
        with pytest.raises(RuntimeError, match="Expected hidden"):
            m(x, bad)
    with pytest.raises(RuntimeError, match="3-D"):
        m(x, state(4, 4))
    with pytest.raises(RuntimeError, match="2-D"):
        m(x[:, 0], state(4, 2, 4))
    with pytest.raises(RuntimeError):
        m(pack_sequence([x[:, 0]]), state(4, 3, 4))
    assert m(torch.randn(3, 0, 3))[0].shape == (3, 0, 8)


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(name):
    torch.manual_seed(2)
    cell, network = getattr(torch.nn, name)(3, 4), getattr(torch.nn, name[:-4])(3, 4)
    network.load_state_dict({n + "_l0": p for n, p in cell.named_parameters()})
    x = torch.randn(2, 3)
    h = torch.randn(2, 4)
    given = (h, h) if name == "LSTMCell" else h
    found = cell(x, given)
    expected = network(x[None], tuple(t[None] for t in given) if name == "LSTMCell" else given[None])[1]
    assert torch.allclose(first(found), first(expected)[0], atol=1e-6)
    alone = cell(x[0], tuple(t[0] for t in given) if name == "LSTMCell" else given[0])
    assert first(alone).shape == (4,) and torch.allclose(first(alone), first(found)[0], atol=1e-6)
    assert torch.equal(first(cell(x)), first(cell(x, (0 * h, 0 * h) if name == "LSTMCell" else 0 * h)))
    with pytest.raises(ValueError):
        cell(x[None])
    with pytest.raises(ValueError):
        cell(x, (h[None], h[None]) if name == "LSTMCell" else h[None])
    with pytest.raises(RuntimeError):
        cell(torch.randn(2, 5))


# -- packing -------------------------------------------------------------------------------------------------------


def test_pack_and_pad():
    x = torch.arange(24.0).view(4, 3, 2)
    packed = pack_padded_sequence(x, torch.tensor([2, 4, 1]), enforce_sorted=False)
    assert packed.data[:, 0].tolist() == [2.0, 0.0, 4.0, 8.0, 6.0, 14.0, 20.0]
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1] and packed.sorted_indices.tolist() == [1, 0, 2]
    padded, lengths = pad_packed_sequence(packed)
    keep = torch.arange(4)[:, None] < torch.tensor([2, 4, 1])
    assert lengths.tolist() == [2, 4, 1] and torch.equal(padded, x * keep[..., None])
    other, _ = pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=6)
    assert other.shape == (3, 6, 2) and torch.equal(other[:, :4][keep.t()], x.transpose(0, 1)[keep.t()])
    assert (other[:, 4:] == -1).all() and other.is_contiguous()
    turned = pack_padded_sequence(x.transpose(0, 1), [2, 4, 1], batch_first=True, enforce_sorted=False)
    assert torch.equal(turned.data, packed.data)
    with pytest.raises(ValueError):
        pad_packed_sequence(packed, total_length=3)


def test_packing_is_differentiable():
    x = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)

    def there_and_back(x):
        return pad_packed_sequence(pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False))[0]

    assert torch.autograd.gradcheck(there_and_back, (x,))
    parts = [torch.randn(n, 2, dtype=torch.float64, requires_grad=True) for n in (2, 3, 1)]
    assert torch.autograd.gradcheck(lambda *p: pad_sequence(p, batch_first=True, padding_side="left"), parts)


@pytest.mark.parametrize("lengths", [[4, 2, 0], [4, 2, -1], [4, 2], [2, 4, 1], [5, 2, 1]])
def test_lengths_that_do_not_fit(lengths):
    with pytest.raises(RuntimeError):
        pack_padded_sequence(torch.randn(4, 3, 2), torch.tensor(lengths))


def test_other_refusals():
    with pytest.raises(RuntimeError, match="empty"):
        pack_padded_sequence(torch.zeros(4, 0, 2), [])
    with pytest.raises(RuntimeError, match="1D"):
        pack_padded_sequence(torch.randn(4, 3, 2), torch.tensor([[4, 2, 1]]))
    with pytest.raises(IndexError):
        pack_padded_sequence(torch.randn(4), [4])
    with pytest.raises(RuntimeError):
        pad_packed_sequence(PackedSequence(torch.randn(3, 2), torch.tensor([2, 2])))
    for bad, error in (
        ([], RuntimeError),
        (5, RuntimeError),
        ([1, 2], TypeError),
        ([torch.ones(2, 3), torch.ones(2, 4)], RuntimeError),
        ([torch.tensor(1.0)], RuntimeError),
    ):
        with pytest.raises(error):
            pad_sequence(bad)
    with pytest.raises(RuntimeError, match="padding_side"):
        pad_sequence([torch.ones(2)], padding_side="top")
    with pytest.raises(ValueError):
        unpad_sequence(torch.ones(2, 4), torch.tensor([1]), batch_first=True)
    with pytest.raises(AssertionError):
        PackedSequence(torch.ones(3))
    with pytest.raises(ValueError, match="CPU"):
        PackedSequence(torch.ones(3), torch.ones(3, device="meta"))


def test_sequences_of_all_kinds():
    parts = [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([4, 5, 6])]
    assert pad_sequence(parts, True).tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    assert pad_sequence(iter(parts)).t().tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    assert pad_sequence(parts, True, -1, "left").tolist() == [[-1, 1, 2], [-1, -1, 3], [4, 5, 6]]
    assert [t.tolist() for t in unpad_sequence(pad_sequence(parts), torch.tensor([2, 1, 3]))] == [
        t.tolist() for t in parts
    ]
    assert [t.tolist() for t in unpack_sequence(pack_sequence(parts, False))] == [t.tolist() for t in parts]
    rng = np.random.default_rng(0)
    order = torch.tensor(rng.permutation(50))
    assert order[invert_permutation(order)].tolist() == list(range(50)) and invert_permutation(None) is None


def test_packed_sequence_converts():
    packed = pack_sequence([torch.ones(2, 3), torch.ones(1, 3)], enforce_sorted=False)
    assert packed.double().data.dtype is torch.float64 and packed.long().data.dtype is torch.int64
    assert packed.to("cpu") is packed and packed.float() is packed and packed.cpu() is packed
    assert packed.to(torch.float16).batch_sizes is packed.batch_sizes
    assert not packed.is_cuda and not packed.is_pinned()
    meta = packed.to("meta")
    assert (
        meta.data.device.type == "meta"
        and meta.batch_sizes.device.type == "cpu"
        and meta.sorted_indices.device.type == "meta"
    )
    data, sizes, *_ = packed
    assert data is packed.data and isinstance(packed, tuple) and PackedSequence((data, sizes)).batch_sizes is sizes
    assert packed._replace(data=data * 2).__class__ is PackedSequence


@pytest.mark.parametrize(("total", "rows"), [(3, 3), (5, 5), (None, 3)])
def test_length_of_padded_sequences(total, rows):
    packed = pack_padded_sequence(torch.arange(6.0).reshape(3, 2, 1), torch.tensor([3, 2]))
    padded, lengths = pad_packed_sequence(packed, padding_value=-1.0, total_length=total)
    assert padded.flatten().tolist() == [0, 1, 2, 3, 4, -1] + [-1] * 2 * (rows - 3) and lengths.tolist() == [3, 2]
    with pytest.raises(ValueError, match="at least the length of the longest sequence"):
        pad_packed_sequence(packed, total_length=2)
