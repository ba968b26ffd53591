"""Numbers that are read from tensors and kept, and numbers that change from call to call, are computed again by compiled programs."""

import collections
import datetime
import decimal
import enum
import functools
import json
import math
import operator
import statistics
from types import SimpleNamespace

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._compile import numbers

F = nn.functional


class Trainer:
    """A training step in an object that keeps numbers."""

    def __init__(self, keep):
        torch.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.last, self.total, self.average, self.log, self.table = 0.0, 0.0, 0.0, [], {"loss": 0.0}
        self.keep = keep

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return self.keep(self, loss, x)


def _last(self, loss, x):
    self.last = loss.item()


def _total(self, loss, x):
    self.total += loss.item() * x.size(0)


def _moving(self, loss, x):
    self.average = 0.9 * self.average + 0.1 * loss.item()
    return loss.detach()


def _table(self, loss, x):
    self.table["loss"] += loss.item()
    self.table["best"] = -loss.item()


def _several(self, loss, x):
    self.last = number = loss.item()
    self.log.append(number / 2)
    return {"loss": number, "twice": [2 * number, self.last - 1]}


def _noted(self, value, weight):
    self.last = value
    self.total += value * weight
    self.average = self.total / weight


def _passed_on(self, loss, x):
    _noted(self, loss.item(), len(x))


KEPT = [_last, _total, _moving, _table, _several, _passed_on]


def _state(trainer):
    return trainer.last, trainer.total, trainer.average, list(trainer.log), dict(trainer.table)


def _data(count=6):
    torch.manual_seed(1)
    return [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEPT)
def test_numbers_that_steps_keep(keep):
    eager, other = Trainer(keep), Trainer(keep)
    compiled = torch.compile(other.step)
    for i, (x, y) in enumerate(_data(8)):
        if i == 5:  # a new epoch
            eager.total = other.total = 0.0
            eager.log, other.log = [], []
        a, b = eager.step(x, y), compiled(x, y)
        assert repr(a) == repr(b)
        assert _state(eager) == _state(other)
        kept = [other.last, other.total, other.average, *other.log, *other.table.values()]
        assert [type(number) for number in kept] == [float] * len(kept)
    assert compiled._region.problem is None and 1 <= len(compiled._region.entries) <= 2
    assert torch.equal(eager.model.weight, other.model.weight)


def test_totals_of_an_epoch():
    def of(wrap):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        count = 0.0

        def epoch(batches):
            nonlocal count
            total = 0.0
            for x, y in batches:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                count += 1.0
            return total / len(batches)

        run = wrap(epoch)
        return [(run(_data(3)), count) for _ in range(4)], run

    (eager, _), (found, compiled) = of(lambda f: f), of(torch.compile)
    assert found == eager and compiled._region.problem is None and len(compiled._region.entries) == 1


def test_numbers_in_globals():
    spaces = {"__name__": "somewhere"}
    exec(
        "last = total = 0.0\ndef f(x):\n    global last, total\n    y = (x * 2).sum()\n    last = y.item()\n    total += last\n    return y",
        spaces,
    )
    compiled = torch.compile(spaces["f"])
    total = 0.0
    for i in range(5):
        compiled(torch.full((2,), float(i)))
        total += 4.0 * i
        assert (spaces["last"], spaces["total"]) == (4.0 * i, total)
    assert compiled._region.problem is None and len(compiled._region.entries) == 1


@pytest.mark.slow
def test_a_number_that_decides_something_is_guarded():
    class Owner:
        rate = 0.0

    owner = Owner()
    owner.rate, owner.seen = 0.5, 0.0

    def f(x):
        owner.seen += 1.0
        owner.rate *= 0.5
        return x * owner.rate if owner.seen < 3.5 else x

    compiled = torch.compile(f)
    rate = 0.5
    for i in range(7):
        rate *= 0.5
        assert compiled(torch.tensor(8.0)).item() == (8.0 * rate if i < 3 else 8.0)
        assert (owner.rate, owner.seen) == (rate, i + 1.0)


class Box:
    kept = None


box = Box()


def _text(x, v):
    box.kept = json.dumps({"a": [v]})


def _exact(x, v):
    of = decimal.Decimal
    box.kept = str(of(v))


def _class(x, v):
    box.kept = v.__class__ is float and isinstance(v, float)


def _tuple(x, v):
    box.kept = (v, (v * 2, 1))


def _held(x, v):
    root = math.sqrt
    box.kept = root(abs(v))


def _branch(x, v):
    return x if v > 0 else -x


def _method(x, v):
    box.kept = v.is_integer(), v.hex()


def _key(x, v):
    box.kept = {v: 1}.get(v)


def _written(x, v):
    y = torch.zeros(3)
    y[1] = v
    return y.fill_(v / 2) + y


READ = {
    "json": _text, "decimal": _exact, "class": _class, "tuple": _tuple, "square root": _held, "branch": _branch, "method": _method,
    "key": _key, "written": _written,
    "old text": lambda x, v: setattr(box, "kept", "%.3f" % v),  # noqa: UP031
    "text": lambda x, v: setattr(box, "kept", f"{v:.3f}"),
    "format": lambda x, v: setattr(box, "kept", "{:.2f}".format(v)),  # noqa: UP032
    "numpy": lambda x, v: setattr(box, "kept", np.float32(v)),
    "array": lambda x, v: setattr(box, "kept", np.array([v]).sum().item()),
    "complex": lambda x, v: setattr(box, "kept", complex(v)),
    "rounded": lambda x, v: setattr(box, "kept", round(v, 2)),
    "largest": lambda x, v: setattr(box, "kept", max(v, 0.0)),
    "integer": lambda x, v: setattr(box, "kept", int(v)),
    "full": lambda x, v: torch.full((2,), v),
    "tensor": lambda x, v: torch.tensor([v, 1.0]),
    "operand": lambda x, v: v * x + x / v,
    "alpha": lambda x, v: torch.add(x, x, alpha=v),
    "root of an operand": lambda x, v: x * math.sqrt(abs(v)),
    "NumPy's root of an operand": lambda x, v: x * np.sqrt(abs(v)),
    "NumPy's maximum": lambda x, v: setattr(box, "kept", np.maximum(v, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_else_is_done_with_a_number(name):
    read = READ[name]

    def f(x):
        y = x * 3
        return read(y, y.sum().item()), y

    compiled = torch.compile(f)
    torch.manual_seed(0)
    for _ in range(5):
        x, found = torch.randn(3), []
        for run in (f, compiled):
            box.kept = None
            out, _ = run(x)
            found.append((out.tolist() if isinstance(out, torch.Tensor) else out, box.kept, type(box.kept)))
            assert not isinstance(box.kept, tuple) or type(box.kept[0]) in (float, bool)
        assert found[0] == found[1]


WHOLE = {
    "json": lambda n: len(json.dumps({"count": n, "all": [n, 2]})),
    "json in a print": lambda n: print(json.dumps([n])),
    "mean": lambda n: statistics.mean([n, 2]),
    "class": lambda n: type(n) is int,
    "decimal": lambda n: float(decimal.Decimal(n)),
    "days": lambda n: datetime.timedelta(days=n).days,
    "power": lambda n: pow(n, 2, 5),
    "cosine": lambda n: float(np.cos(n)),
    "array": lambda n: np.array([n, 1]).tolist(),
    "list that stays": lambda n: (lambda kept: (json.dumps(kept), kept.append(n), kept)[2])([n]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_done_with_a_whole_number(name, capsys):
    def f(x):
        box.kept = WHOLE[name]((x > 0).sum().item())
        return x * 2

    compiled = torch.compile(f)
    for i in range(5):
        found = []
        for run in (f, compiled):
            box.kept = None
            run(torch.arange(4.0) - i % 3)
            found.append((repr(box.kept), capsys.readouterr().out))
        assert found[0] == found[1]


def test_numpy_functions_of_sizes_are_parts_of_programs():
    scaled = torch.compile(lambda x: x / np.sqrt(x.shape[-1]) + float(np.log2(x.shape[0])), fullgraph=True)
    for n in (4, 4, 16):
        x = torch.randn(8, n)
        assert torch.equal(scaled(x), x / np.sqrt(n) + 3.0)


class Counting(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.calls, self.seen, self.read = 0, 10, read

    def forward(self, x):
        self.calls += 1
        self.seen -= x.shape[0]
        return self.read(self, x * 2)


def _count(self):
    return self.calls


def _name(self):
    return "calls"


COUNTED = {
    "only": (lambda self, y: y, True),
    "in a branch": (lambda self, y: y if self.calls % 2 else -y, False),
    "as an operand": (lambda self, y: y * self.calls, False),
    "by another function": (lambda self, y: y * _count(self), False),
    "by a computed name": (lambda self, y: y * getattr(self, _name(self)), False),
    "among all": (lambda self, y: y * vars(self)["calls"], False),
    "as a result": (lambda self, y: (y, self.seen), False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_integers_that_count(name):
    read, alone = COUNTED[name]
    eager, other = Counting(read), Counting(read)
    compiled = torch.compile(other)
    for i in range(6):
        if i == 4:
            eager.calls = other.calls = 40
        x = torch.full((2,), float(i))
        assert repr(compiled(x)) == repr(eager(x))
        assert (other.calls, other.seen) == (eager.calls, eager.seen) and type(other.calls) is int
    if alone:
        assert len(compiled._region.entries) == 1
    other.calls = 1.5
    assert repr(compiled(x)) and other.calls == 2.5


def test_a_function_that_is_loaded_when_it_is_named():
    import flambeau.special as module

    def f(x):
        return module.xlog1py(x, x)

    compiled = torch.compile(f)
    x = torch.ones(2)
    assert torch.equal(compiled(x), f(x)) and torch.equal(compiled(x), f(x))
    before = module.xlog1py
    try:
        module.xlog1py = lambda a, b: a + b
        assert torch.equal(compiled(x), x + x)
    finally:
        module.xlog1py = before


class _Kind(enum.IntEnum):
    ONE = 1


def _counted(form):
    """A step that counts its calls and gives what a form makes of the count."""
    own = SimpleNamespace(n=0)
    names = {"own": own, "torch": torch, "math": math, "operator": operator, "functools": functools, "_Kind": _Kind}
    names |= {"np": np, "F": F, "timedelta": datetime.timedelta}
    names |= {"statistics": statistics, "Decimal": decimal.Decimal, "deque": collections.deque}
    exec(f"def step(x):\n    own.n += 1\n    return {form.replace('#', 'own.n')}\n", names)
    return names["step"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        "x * (0.5 + #)", "x * (0.5 * #)", "0.25 * # * x", "x * (0.1 / (1 + 0.5 * #))", "x * (1 - 0.9 ** #)", "x * (True + #)", "x * (True * #)",
        "x * (True - #)", "x * (True << #)", "x * (True / #)", "x * (_Kind.ONE + #)", "x * functools.reduce(operator.add, [True, #])",
        "x * list(enumerate([0], #))[0][0]", "x * divmod(7.5, #)[1]", "x * (7.5 // #)", "x * (7.5 % #)", "x * math.cos(math.pi * # / 10)",
        "x * (2 if 2.5 < # else 1)", "x * (2 if 3.0 == # else 1)", "x * max(2.5, #)", "x * sum([0.5, #])", "x * pow(2, #, 1000)",
        "x * math.ldexp(1.0, #)", "x * float(Decimal(#))", "x * len(deque(range(9), maxlen=#))", "torch.full((2,), #).sum() * x",
        "x * (torch.tensor(#).dtype == torch.int64)", "(torch.tensor([20]) // #).sum()", "x * [10, 20, 30, 40, 50, 60, 70, 80][#]", "x * abs(1j * #)", "x * abs(1j * (0.5 * #))", "x * statistics.mean([#, 2])", "x * type(#)(2.5)",
        "x * (2 if type(#) is int else 1)", "x * timedelta(days=#).days", "x * float(np.cos(#))", "x * float(np.maximum(#, 3))", "x * np.clip(#, 2, 4)",
        "x * (np.float32(2) * #).itemsize", "x * len(np.arange(20)[#:])", "F.one_hot(torch.tensor(1), # + 2).sum(0)",
    ],
)  # fmt: skip
def test_counts_beside_numbers_of_other_kinds(form):
    """Floats and truth values on the left of an integer would compute with its value alone: a later call must see its own count."""
    compiled, eager = torch.compile(_counted(form)), _counted(form)
    x = torch.ones(1)
    for _ in range(7):
        torch.testing.assert_close(compiled(x), eager(x), rtol=0, atol=0)


def test_numbers_that_only_others_hold_are_not_searched_for(monkeypatch):
    searched, search = [], numbers.referrers
    monkeypatch.setattr(numbers, "referrers", lambda held: (searched.append(len(held)), search(held))[1])
    state = SimpleNamespace(average=1.0)

    @torch.compile
    def step(x):
        state.average = 0.75 * state.average + 0.25 * x.sum().item()

    for _ in range(3):
        step(torch.ones(4))
    assert state.average == 1 + 3 * (1 - 0.75**3) and type(state.average) is float
    assert searched and set(searched) == {1}  # that in `state`: what it was computed from is gone with it
