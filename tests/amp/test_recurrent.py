"""Recurrent networks under autocast on the CPU: the types of their results, and values close to those in float32."""

import pytest

import flambeau as torch
from flambeau import nn

F32, LOW = torch.float32, torch.bfloat16


def results(made):
    return [t for part in made for t in results(part)] if isinstance(made, (tuple, list)) else [made]


def run(module, *args):
    with torch.autocast("cpu", dtype=LOW):
        return results(module(*args))


X = torch.linspace(-1, 1, 60).reshape(5, 3, 4)
STATE = torch.zeros(1, 3, 6)
CASES = {
    "gru": (lambda: nn.GRU(4, 6), (X,), [F32] * 2),
    "gru of two layers": (lambda: nn.GRU(4, 6, 2, bidirectional=True), (X,), [F32] * 2),
    "gru with a state": (lambda: nn.GRU(4, 6), (X, STATE), [F32] * 2),
    "gru with a short state": (lambda: nn.GRU(4, 6), (X, STATE.to(LOW)), [LOW] * 2),
    "gru of short inputs": (lambda: nn.GRU(4, 6), (X.to(LOW),), [LOW] * 2),
    "gru of short inputs, wide state": (lambda: nn.GRU(4, 6), (X.to(LOW), STATE), [F32] * 2),
    "gru in double": (lambda: nn.GRU(4, 6).double(), (X.double(),), [torch.float64] * 2),
    "lstm": (lambda: nn.LSTM(4, 6), (X,), [LOW] * 3),
    "projected lstm": (lambda: nn.LSTM(4, 6, proj_size=2), (X,), [LOW, LOW, F32]),
    "rnn": (lambda: nn.RNN(4, 6), (X,), [LOW] * 2),
    "gru cell": (lambda: nn.GRUCell(4, 6), (X[0],), [F32]),
    "lstm cell": (lambda: nn.LSTMCell(4, 6), (X[0],), [F32] * 2),
    "lstm cell of short inputs": (lambda: nn.LSTMCell(4, 6), (X[0].to(LOW),), [LOW] * 2),
    "rnn cell": (lambda: nn.RNNCell(4, 6), (X[0],), [LOW]),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] if case == "gru in double" else []) for case in CASES]
)
def test_types(case):
    torch.manual_seed(0)
    make, args, expected = CASES[case]
    module = make()
    made = run(module, *args)
    assert [t.dtype for t in made] == expected
    made[0].float().sum().backward()
    assert all(p.grad.dtype == p.dtype for p in module.parameters())
    if all(a.dtype is F32 for a in args):
        for got, wanted in zip(made, results(module(*args))):
            torch.testing.assert_close(got.float(), wanted, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("kind, expected", [("GRU", F32), ("LSTM", F32), ("RNN", LOW)])
def test_packed(kind, expected):
    packed = nn.utils.rnn.pack_padded_sequence(X, [5, 4, 2])
    with torch.autocast("cpu", dtype=LOW):
        out, state = getattr(nn, kind)(4, 6)(packed)
    assert [t.dtype for t in results((out.data, state))] == [expected] * (3 if kind == "LSTM" else 2)
