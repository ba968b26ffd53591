"""Objects that are given to functions as arguments, and functions that read and change them in many ways (`WAYS`)."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import types
from abc import ABC, abstractmethod
from collections import OrderedDict, UserDict, namedtuple

import flambeau as torch
from flambeau import nn


class State:
    """A plain object."""

    kind = "state"

    def __init__(self, i, **more):
        self.a = torch.arange(3.0) + i
        self.b = torch.arange(3.0) * i - 1
        self.log, self.table, self.seen = [], {}, 0
        self.__dict__.update(more)

    def both(self):
        return self.a + 2 * self.b


class Named(State):
    @property
    def b(self):
        return self.a * 10

    @b.setter
    def b(self, value):
        self.__dict__["hidden"] = value


class Other(State):
    def both(self):
        return self.a - self.b


class Stepping(State):
    def step(self, other, x):
        self.a = self.a + other.b * x
        other.a = other.a + 1
        return other.a * 2


class Slotted:
    __slots__ = ("a", "b", "c")

    def __init__(self, i, c=None):
        self.a, self.b = torch.arange(3.0) + i, torch.arange(3.0) * i
        if c is not None:
            self.c = c


class SlottedToo(Slotted):
    def __init__(self, i, **more):
        super().__init__(i)
        self.__dict__.update(more)


class Layer(ABC):
    def __init__(self, i):
        self.keys, self.initialized = None, False
        self.start = i

    @abstractmethod
    def update(self, x): ...


class Growing(Layer):
    def update(self, x):
        if not self.initialized:
            self.keys, self.initialized = x[:0], True
        self.keys = torch.cat([self.keys, x])
        return self.keys


class Fixed(Layer):
    def update(self, x):
        if not self.initialized:
            self.keys, self.length, self.initialized = torch.zeros(6, 3), torch.tensor(0), True
            self.dtype, self.device = x.dtype, x.device
        self.keys.index_copy_(0, torch.arange(len(x)) + self.length, x)
        self.length.add_(len(x))
        return self.keys


class Cache:
    def __init__(self, layers=(), kind=Growing):
        self.layers, self.kind, self.seen = list(layers), kind, 0

    def update(self, x, i):
        while len(self.layers) <= i:
            self.layers.append(self.kind(i))
        self.seen += len(x)
        return self.layers[i].update(x)


@dataclasses.dataclass
class Record:
    a: torch.Tensor
    b: torch.Tensor
    state: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: torch.Tensor
    b: torch.Tensor


class Data(UserDict):
    pass


class Asking(State):
    def __getattr__(self, name):
        if name != "b":
            raise AttributeError(name)
        return self.a * self.factor


@dataclasses.dataclass
class Output(OrderedDict):
    """As the outputs of models are in some libraries: fields that are there by key, too."""

    a: torch.Tensor | None = None
    b: torch.Tensor | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if self.__dict__[field.name] is not None:
                super().__setitem__(field.name, self.__dict__[field.name])

    def __setattr__(self, name, value):
        if "b" in self.__dict__ and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __getitem__(self, key):
        return tuple(self.values())[key] if isinstance(key, int) else super().__getitem__(key)


class Hashed(State):
    def __hash__(self):
        return hash((type(self), self.seen))

    def __eq__(self, other):
        return type(other) is type(self) and other.seen == self.seen


Pair = namedtuple("Pair", "first second")
shared = State(7)
holder = types.SimpleNamespace(state=None)
memory, found = {}, []
linear, identity = nn.Linear(3, 3), nn.Identity()


def shape_of(a, names):
    """A form of nested objects that can be compared: what they hold, and which of them are one."""
    if isinstance(a, (list, tuple, dict, torch.Tensor)) or hasattr(a, "__dict__") or hasattr(a, "__slots__"):
        if callable(a) or a is shared:
            return getattr(a, "__name__", id(a))
        if id(a) in names:
            return names[id(a)]
        names[id(a)] = f"#{len(names)}"
    if isinstance(a, torch.Tensor):
        return (
            names[id(a)],
            a.tolist(),
            a.dtype,
            a.requires_grad,
            a.is_leaf,
            shape_of(a.grad if a.is_leaf else None, names),
        )
    if isinstance(a, dict):
        return type(a), [(shape_of(key, names), shape_of(value, names)) for key, value in a.items()]
    if isinstance(a, (list, tuple)):
        return type(a), [shape_of(b, names) for b in a]
    if hasattr(a, "__dict__") or hasattr(a, "__slots__"):
        slots = [(n, getattr(a, n)) for n in getattr(type(a), "__slots__", ()) if hasattr(a, n)]
        return type(a), [(n, shape_of(b, names)) for n, b in (*slots, *getattr(a, "__dict__", {}).items())]
    return a


def rebinds(s, x):
    s.a = s.both() + x
    return s.a.sum()


def appends(s, x):
    s.log.append(s.a * x)
    return sum(s.log) + s.b


def counts(s, x):
    s.seen += 2
    s.a = s.a + x
    return s.a


def adds(s, x):
    s.total = s.total + s.a.sum().item()
    s.seen += len(s.log) + 1
    return s.a * s.seen + x


def decides(s, x):
    s.seen += 1
    return s.a * x if s.seen % 3 == 0 else s.a + x


def writes(s, x):
    s.a.mul_(x)
    s.b[0] = s.a.sum()
    return s.both()


def swaps(s, x):
    s.a, s.b = s.b, s.a
    return s.a - x


def keeps_table(s, x):
    s.table["last"] = s.both() * x
    s.table["n"] = s.table.get("n", 0) + 1
    return s


def sets_new(s, x):
    s.fresh, s.note = s.a + x, "new"
    return s.fresh * 2


def makes_parts(s, x):
    s.part = types.SimpleNamespace(t=s.a * x, of=s)
    s.log.append([s.a + x, {"x": s.b}])
    return s


def of_two(s, t, x):
    s.a = s.a + t.b * x
    t.b = t.b + 1
    return (s.a, t, s is t)


def with_global(s, x):
    s.a = s.a + x
    return shared.a * 2 + s.a, s is shared


def reads_another(s, x):
    s.log.append(x * 2)
    return sum(s.old) + s.a


def with_list(items, x):
    found.append(x * 2)
    return sum(items) + x


def extends(items, x):
    items.append(items[0])
    items.append(items[0] * x)
    return items[0] + 1


def returns_list(s, x):
    s.made = [s.a * x]
    return s.log, s.made, s.a + x


def returns_given(items, x):
    items.append(items[0] * x)
    return items, items[0] + x


def keeps(s, x):
    s.c = s.a
    s.log.append(s.a)
    return s.c * x


def with_holder(s, x):
    s.a = s.a * x
    return holder.state.a + s.a if holder.state is not None else s.a


def into_global(s, x):
    holder.state = s
    return s.a * x


def as_key(s, x):
    return memory.get(s, 0) + s.a * x


def as_hash(s, x):
    return s.a * (hash(s) % 1000 + 1)


def as_text(s, x):
    return repr(s), s.a * x


def read(s, x):
    return s.both() * x


def of_slots(s, x):
    out = s.a + s.b * x
    s.b = out
    return (out + s.c if hasattr(s, "c") else out), s


def reorders(s, x):
    s.table["a"] = s.table.pop("a") * x
    return s


def changes_class(s, x):
    s.__class__ = Other
    return s.a * x


def copies(s, x):
    made = copy.deepcopy(s)
    made.a = made.b + x
    return made


def attributes(s, x):
    return sum([value for name, value in vars(s).items() if name[0] in "ab"]) * x


def named(s, x):
    return sum([getattr(s, name) for name in ("a", "b")]) + x


def decodes(s, x):
    for i in range(2):
        x = s.update(x, i).sum(0, keepdim=True) + x
    return x, s


def decodes_some(s, x):
    return decodes(s, x * s.seen if s.seen < 100 else x)


def cyclic(s, x):
    s.me = s
    return s.me.a + x


def trains(s, x):
    loss = (linear(s.a) * x).sum()
    linear.zero_grad()
    loss.backward()
    s.a = s.a.detach() + linear.weight.grad.sum(0)
    return loss.detach()


def carries(s, x):
    s.a = linear(s.a) * x
    return s.a.sum()


def hooked(s, x):
    y = linear(s.a * x)
    y.register_hook(lambda g: s.log.append(g.detach()))
    y.sum().backward()
    return y.detach()


def deletes(s, x):
    del s.b
    return s.a * x


def pops(s, x):
    return s.log.pop() * x + s.a


def fails(s, x):
    s.a = s.a + x
    if s.seen == 2:
        raise KeyError("seen")
    return s.a


def nested(s, x):
    s.inner.a = s.inner.both() + s.a * x
    return s.inner.a


def keyed(s, x):
    return sum([value * (i + 1) for i, value in enumerate(s.table.values())]) + x


def of_list(states, x):
    for s in states:
        s.a = s.a + x
    return [s.both() for s in states]


def of_output(o, x):
    first = o[0] + x
    o.b = o.a * x
    return first, o


def of_record(r, x):
    r.b = r.a + x
    return r, r.b * 2


def leaf(s, x):
    s.a.requires_grad_()
    (s.a * x).sum().backward()
    return s.a.grad * 2


def optional(s, x):
    return s.a + x if s.b is None else s.both() + x


def clears(s, x):
    y, s.b = s.both(), None
    return y * x


def cached(s, x):
    if "_memo" not in s.__dict__:
        s._memo = s.both() * 2
    return s._memo + x


def _with(state, **more):
    for name, value in more.items():
        setattr(state, name, value)
    return state


def _other_part(i):
    out = Output(torch.ones(3) * i, torch.ones(3) * i)
    out.__dict__["b"] = torch.ones(3) * 2 * i
    return out


def _cycle(i):
    state = State(i)
    state.me = state
    return state


def _same_tensor(i):
    state = State(i)
    state.b = state.a
    return state


def _view(i):
    state = State(i)
    state.b = state.a[:]
    return state


def _history(i):
    state = State(i)
    state.a = linear(state.a)
    return state


def _one_list(i):
    state = State(i, log=[torch.ones(3)])
    state.old = state.log
    return state


def _found(i):
    """An object that a global knows, too."""
    holder.state = State(i)
    return holder.state


def _forgotten(i):
    holder.state = None
    return State(i)


def _key(i):
    state = State(i)
    memory.clear()
    memory[state] = i
    return state


# By name: the function, and what makes the object, or the arguments before the last, from the number of the call.
WAYS = {
    "read": (read, [State]),
    "rebound": (rebinds, [State]),
    "appended": (appends, [State]),
    "counted": (counts, [lambda i: State(i, seen=i)]),
    "numbers": (adds, [lambda i: State(i, seen=i, total=0.5 * i)]),
    "numbers that decide": (decides, [lambda i: State(i, seen=i)]),
    "written in place": (writes, [State]),
    "swapped": (swaps, [State]),
    "table": (keeps_table, [lambda i: State(i, table={"n": i})]),
    "new attributes": (sets_new, [State]),
    "objects inside that the run makes": (makes_parts, [State]),
    "order changed": (reorders, [lambda i: State(i, table={k: torch.ones(3) * i for k in "abc"})]),
    "class changed by the run": (changes_class, [State]),
    "copied": (copies, [lambda i: State(i, inner=State(i))]),
    "attribute added": (attributes, [State, lambda i: State(i, bb=torch.ones(3) * i)]),
    "attribute removed": (named, [State, lambda i: (s := State(i), delattr(s, "log"))[0]]),
    "class changed": (read, [State, Other]),
    "class assigned": (read, [State, lambda i: _with(State(i), __class__=Other)]),
    "property in a subclass": (read, [State, Named]),
    "property that is written": (clears, [State, Named]),
    "method of an instance": (read, [State, lambda i: (s := State(i, both=lambda: s.a), s)[1]]),
    "two attributes one tensor": (writes, [State, _same_tensor]),
    "two attributes one memory": (writes, [State, _view]),
    "list grown": (appends, [State, lambda i: State(i, log=[torch.ones(3)] * i)]),
    "list of one tensor": (appends, [lambda i: State(i, log=[torch.ones(3), torch.ones(3)]), lambda i: State(i, log=[torch.ones(3)] * 2)]),
    "list shrunk": (pops, [lambda i: State(i, log=[torch.ones(3) * i] * (1 + i % 3))]),
    "dictionary reordered": (keyed, [lambda i: State(i, table={k: torch.full((3,), float(ord(k))) for k in ("ab", "ba")[i % 2]})]),
    "dictionary of another class": (keyed, [lambda i: State(i, table=(dict, OrderedDict)[i % 2](a=torch.ones(3) * i))]),
    "tensor or None": (optional, [State, lambda i: State(i, b=None)]),
    "tensor replaced by None": (clears, [State]),
    "requires grad": (read, [State, lambda i: State(i, a=torch.ones(3, requires_grad=True))]),
    "made to require grad": (leaf, [State]),
    "another size": (read, [State, lambda i: State(i, a=torch.ones(1, 3) * i)]),
    "another dtype": (read, [State, lambda i: State(i, a=torch.ones(3, dtype=torch.float64) * i)]),
    "another stride": (read, [State, lambda i: State(i, a=torch.arange(6.0)[::2] * i)]),
    "text": (lambda s, x: s.a * len(s.name) + x, [lambda i: State(i, name="n" * (i % 3))]),
    "number": (lambda s, x: s.a * s.scale + x, [lambda i: State(i, scale=i % 3), lambda i: State(i, scale=float(i % 3))]),
    "truth": (lambda s, x: s.a if s.flag else x, [lambda i: State(i, flag=bool(i % 2)), lambda i: State(i, flag=i % 2)]),
    "function": (lambda s, x: s.f(s.a) + x, [lambda i: State(i, f=torch.exp), lambda i: State(i, f=torch.sin), lambda i: State(i, f=lambda t: t * i)]),
    "unread": (read, [lambda i: State(i, when=State.both, ids=list(range(i)))]),
    "slots": (of_slots, [Slotted, lambda i: Slotted(i, torch.ones(3)), lambda i: Slotted(i, i % 2)]),
    "slots and attributes": (of_slots, [SlottedToo, lambda i: SlottedToo(i, d=torch.ones(3))]),
    "all attributes": (attributes, [lambda i: State(i, bc=i % 3)]),
    "object inside": (nested, [lambda i: State(i, inner=State(i + 1)), lambda i: State(i, inner=Other(i + 1))]),
    "object inside that stays": (nested, [lambda i: State(i, inner=State(1), of=shared)]),
    "cycle": (cyclic, [_cycle, State]),
    "the same twice": (of_two, [lambda i: (State(i), State(i + 1)), lambda i: (s := State(i), s)]),
    "parts of two": (of_two, [lambda i: (State(i), State(i + 1)), lambda i: (s := State(i), State(i, b=s.a))]),
    "two classes": (of_two, [lambda i: (State(i), Other(i)), lambda i: (Other(i), State(i))]),
    "a global": (with_global, [State, lambda i: shared]),
    "an object that a global holds": (with_holder, [_forgotten, _found]),
    "a list that is two": (reads_another, [lambda i: State(i, log=[torch.ones(3)], old=[torch.ones(3)]), _one_list]),
    "a list that a global is": (with_list, [lambda i: [torch.ones(3)], lambda i: found]),
    "list of an argument": (extends, [lambda i: [torch.ones(3) * i], lambda i: [linear(torch.ones(3) * i)]]),
    "lists that are returned": (returns_list, [State, lambda i: State(i, log=[torch.ones(3)])]),
    "list that is returned": (returns_given, [lambda i: [torch.ones(3) * i], lambda i: [linear(torch.ones(3) * i)]]),
    "history that is kept": (keeps, [_history, State]),
    "history that is swapped": (swaps, [_history, State]),
    "put into a global": (into_global, [State]),
    "key": (as_key, [State, _key]),
    "hash of its own": (lambda s, x: {s: 1}[s] + s.a * x, [lambda i: Hashed(i, seen=i % 2)]),
    "text of an object": (lambda s, x: f"{s.seen}{s.kind}", [lambda i: State(i, seen=i)]),
    "class attribute": (lambda s, x: s.a * len(s.kind), [State, lambda i: (setattr(State, "kind", "k" * (i % 4)), State(i))[1]]),
    "computed attributes": (read, [lambda i: (s := Asking(i, factor=i % 3), delattr(s, "b"))[0]]),
    "namespaces": (read_of := lambda n, x: n.a * n.b + x, [lambda i: types.SimpleNamespace(a=torch.ones(3) * i, b=i % 3)]),
    "parsed arguments": (read_of, [lambda i: argparse.Namespace(a=torch.ones(3) * i, b=i % 3)]),
    "class over a dictionary": (lambda d, x: d["a"] + x, [lambda i: Data(a=torch.ones(3) * i), lambda i: Data(b=x, a=x) if (x := torch.ones(3)) is not None else 0]),
    "data class": (of_record, [lambda i: Record(torch.ones(3) * i, torch.ones(3))]),
    "frozen data class": (lambda r, x: (r.a * x, r), [lambda i: Frozen(torch.ones(3) * i, torch.ones(3))]),
    "dictionary with attributes": (of_output, [lambda i: Output(torch.ones(3) * i), lambda i: Output(torch.ones(3), torch.ones(3))]),
    "dictionary whose parts differ": (lambda o, x: o["a"] + o.b * x, [lambda i: _other_part(i)]),
    "object in a data class": (lambda r, x: (rebinds(r.state, x), r), [lambda i: Record(torch.ones(3), torch.ones(3), State(i))]),
    "object in a tuple": (lambda p, x: (rebinds(p.first, x), p), [lambda i: Pair(State(i), i % 2)]),
    "list of objects": (of_list, [lambda i: [State(i), State(i + 1)], lambda i: [s := State(i), s], lambda i: [State(i)] * (i % 3)]),
    "cache that grows": (decodes, [lambda i: Cache()]),
    "cache that is filled": (decodes, [lambda i: _filled(Growing, i)]),
    "cache of fixed size": (decodes, [lambda i: Cache(kind=Fixed), lambda i: _filled(Fixed, 1)]),
    "cache that counts": (decodes_some, [lambda i: _with(Cache([Fixed(0), Fixed(1)]), seen=i)]),
    "cache of both": (decodes, [lambda i: Cache([Fixed(0), Growing(1)]), lambda i: Cache([Growing(0), Fixed(1)])]),
    "gradients": (trains, [State]),
    "history": (carries, [State, _history]),
    "hook": (hooked, [State]),
    "deleted": (deletes, [State]),
    "error": (fails, [lambda i: State(i, seen=i % 3)]),
    "kept result": (cached, [State, lambda i: State(i, _memo=torch.ones(3) * i)]),
    "module inside": (lambda s, x: s.net(s.a) + x, [lambda i: State(i, net=linear), lambda i: State(i, net=identity)]),
}  # fmt: skip


def _filled(kind, i):
    cache = Cache(kind=kind)
    decodes(cache, torch.ones(1 + i % 2, 3))
    return cache


def seen(function, make, i):
    """What a call gives, and what is left of its arguments, or the error."""
    torch.manual_seed(i)
    shared.__dict__.update(State(7).__dict__)
    linear.requires_grad_(True).zero_grad()
    State.kind, holder.state, found[:] = "state", None, [torch.ones(3)]
    made = make(i)
    given = made if type(made) is tuple else (made,)
    x = torch.full((1, 3) if isinstance(made, Cache) else (3,), 1.0 + i)
    try:
        out = function(*given, x)
    except Exception as error:
        out = type(error), str(error)
    grads = [p.grad for p in linear.parameters()]
    return shape_of((out, given, x, shared, holder.state, grads, shape_of(shared.__dict__, {})), {})
