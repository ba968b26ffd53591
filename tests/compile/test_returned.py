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
    "a list": lambda t: (t * torch.ones(2, 2)).tolist(),
    "lists of truth values": lambda t: {"above": (t > torch.arange(3.0)).tolist(), "n": [3]},
    "an array": lambda t: (t * torch.ones(3)).detach().numpy(),
    "arrays beside": lambda t: [t.detach().reshape(1).numpy(), t, {"a": (t * 2).detach().cpu().numpy()}],
    "a few elements": lambda t: sum((t * torch.arange(3.0)).tolist()),
    "some of a few": lambda t: [a * 2 for a in (t * torch.arange(3.0)).tolist()[1:]],
}
DECIDING = {  # a program for each answer
    "a truth value": lambda t: (t > 0.5).item(),
    "comparison": lambda t: t.item() > 0.5,
    "the largest of a few": lambda t: max(((t - 0.5) * torch.arange(2.0)).tolist()),
    "branch": lambda t: 1 if t.item() > 0.5 else t.item(),
}
USED = {
    "text": lambda t: f"{t.item():.3f}",
    "old text": lambda t: "%.3f" % t.item(),  # noqa: UP031
    "size of a list": lambda t: len((t * torch.ones(40)).tolist()),
    "array": lambda t: (t * torch.ones(3)).detach().numpy().mean(),
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


def test_arrays_share_the_memory_of_what_they_are_of():
    w, kept = torch.eye(2, requires_grad=True), []

    @torch.compile
    def f(x):
        y = x @ w
        kept.append(y.detach().numpy())
        return y, y.detach().numpy(), x.numpy()

    for i in range(4):
        x = torch.full((2, 2), float(i))
        y, out, given = f(x)
        assert out.tolist() == y.tolist() == x.tolist()
        out[0, 0], given[1, 1] = 7.0, 9.0
        assert y[0, 0] == 7 == kept[-1][0, 0] and x[1, 1] == 9
        y.sum().backward()
    assert [a[0, 1] for a in kept] == [0.0, 1.0, 2.0, 3.0] and len(f._region.entries) == 1


def test_an_array_of_what_is_written_later_shows_it():
    def f(x):
        y = x * 2
        out = y.numpy()
        y.add_(1)
        return out

    compiled = torch.compile(f)
    for i in range(3):
        assert compiled(torch.full((2,), float(i))).tolist() == [2.0 * i + 1] * 2


def test_lists_of_lists_and_arrays():
    def run(wrap):
        kept = []

        def f(x):
            y = x * 2
            kept.append(y.tolist())
            kept.append(y.sum(0).numpy())
            print(y.sum(0).tolist(), y.tolist())
            return y

        f = wrap(f)
        for i in range(4):
            f(torch.full((2, 2), float(i)))
        return f, [[*a] if isinstance(a, list) else a.tolist() for a in kept]

    compiled, found = run(torch.compile)
    assert found == run(lambda f: f)[1] and len(compiled._region.entries) == 1
