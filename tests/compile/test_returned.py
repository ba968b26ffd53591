"""Numbers that a function reads only to return them are results of its program; all others end the recording."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.exc import Unsupported

seen = []


def _read(t):
    return t.item()


def _in_with(t):
    with torch.no_grad():
        return (t * 2).item()


def _kept(t):
    number = t.item()
    return number, (t + 1).item()


RETURNED = {
    "bare": lambda t: t.item(),
    "by float": lambda t: float(t.detach()),
    "in a tuple": lambda t: (t.item(), 3, t),
    "in a list": lambda t: [t.item(), t.detach().item()],
    "in a dict": lambda t: {"loss": t.item(), "count": 2},
    "in dicts": lambda t: {"a": {"b": (t.item(),)}, "c": (t * 2).item()},
    "by another function": _read,
    "by several": lambda t: (_read(t), _read(t * 3)),
    "in with": _in_with,
    "by a variable": _kept,
    "a whole number": lambda t: (t * 100).long().item(),
    "arithmetic": lambda t: t.item() * 2,
    "of another function": lambda t: _read(t) + 1,
    "rounded": lambda t: round(t.item(), 3),
    "operand": lambda t: t * t.item(),
    "whole numbers side by side": lambda t: ((t * 100).long().item(), 40),
}
DECIDING = {  # a program for each answer
    "a truth value": lambda t: (t > 0.5).item(),
    "comparison": lambda t: t.item() > 0.5,
    "branch": lambda t: 1 if t.item() > 0.5 else t.item(),
}
USED = {
    "text": lambda t: f"{t.item():.3f}",
    "old text": lambda t: "%.3f" % t.item(),  # noqa: UP031
    "list": lambda t: (seen.append(t.item()), seen[-1])[1],
}


def _step(read):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return read(loss)

    return step


def shown(out):
    return str(torch.utils._pytree.tree_map(lambda a: a.item() if isinstance(a, torch.Tensor) else a, out))


@pytest.mark.parametrize("name", [*RETURNED, *DECIDING, *USED])
def test_numbers_are_those_of_each_call(name):
    read = {**RETURNED, **DECIDING, **USED}[name]
    eager, compiled = _step(read), torch.compile(_step(read))
    x = torch.arange(12.0).view(4, 3) / 10
    for i in range(4):
        assert shown(compiled(x + i)) == shown(eager(x + i))
    assert len(compiled._region.entries) == (name in RETURNED) + 2 * (name in DECIDING)


def test_a_number_that_is_read_before_a_write_is_that_from_before():
    def f(x):
        y = x * 2
        return y.item(), y.zero_()

    compiled = torch.compile(f)
    for i in range(3):
        number, y = compiled(torch.tensor(float(i)))
        assert (number, y.item()) == (2.0 * i, 0.0)


def test_numbers_of_what_was_there_before():
    w = torch.tensor(1.0)
    compiled = torch.compile(lambda x: (w.item(), x + w))
    for i in range(3):
        w.fill_(i)
        number, out = compiled(torch.tensor(1.0))
        assert (number, out.item()) == (i, 1.0 + i)


def test_fullgraph_takes_them_but_no_branches_on_them():
    compiled = torch.compile(lambda x: (x * 2).item() + 1, fullgraph=True)
    assert [compiled(torch.tensor(float(i))) for i in range(4)] == [1.0, 3.0, 5.0, 7.0]
    assert len(compiled._region.entries) == 1
    with pytest.raises(Unsupported, match=r"reads elements.*torch\.cond"):
        torch.compile(lambda x: x if (x * 2).item() > 1 else -x, fullgraph=True)(torch.tensor(1.0))
