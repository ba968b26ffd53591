"""Programs that use what Python has: classes, closures, containers, strings, contexts. Compiled results are the eager ones."""

import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import operator
import types

import pytest
from user_programs import Programs, compare, x

import flambeau as torch
from flambeau import nn

F = nn.functional
PROGRAMS = Programs()
program = PROGRAMS.program


@program
def dataclass_config(wrap):
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0
        layers: list = dataclasses.field(default_factory=lambda: [1, 2])

    config = Config()
    f = wrap(lambda t: t * config.scale + sum(config.layers))
    yield f(x())
    config.scale = 3.0
    yield f(x())
    config.layers.append(5)
    yield f(x())
    config.layers = [0]
    yield f(x())


@program
def frozen_dataclass_replaced(wrap):
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: float = 2.0

    holder = types.SimpleNamespace(config=Config())
    f = wrap(lambda t: t * holder.config.scale)
    yield f(x())
    holder.config = dataclasses.replace(holder.config, scale=5.0)
    yield f(x())


@program
def dataclass_with_slots(wrap):
    @dataclasses.dataclass
    class P:
        __slots__ = ("a", "b")
        a: float
        b: float

    p = P(1.0, 2.0)
    f = wrap(lambda t: t * p.a + p.b)
    yield f(x())
    p.b = 7.0
    yield f(x())


@program
def property_over_private(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self._s = 2.0

        @property
        def s(self):
            return self._s * 2

        def forward(self, t):
            return t * self.s

    m = M()
    f = wrap(m)
    yield f(x())
    m._s = 3.0
    yield f(x())
    M.s = property(lambda self: 10.0)
    yield f(x())


@program
def enum_mode(wrap):
    class Mode(enum.Enum):
        ADD = 1
        MUL = 2

    state = {"mode": Mode.ADD}

    @wrap
    def f(t):
        return t + 1 if state["mode"] is Mode.ADD else t * 2

    yield f(x())
    state["mode"] = Mode.MUL
    yield f(x())


@program
def enum_flags(wrap):
    class Opt(enum.Flag):
        A = 1
        B = 2

    flags = Opt.A
    box = [flags]
    f = wrap(lambda t: t + (1 if Opt.A in box[0] else 0) + (2 if Opt.B in box[0] else 0))
    yield f(x())
    box[0] = Opt.A | Opt.B
    yield f(x())


@program
def nested_closures(wrap):
    def outer():
        k = 2.0

        def middle():
            def inner(t):
                return t * k

            return inner

        def change(v):
            nonlocal k
            k = v

        return middle(), change

    inner, change = outer()
    f = wrap(lambda t: inner(t) + 1)
    yield f(x())
    change(9.0)
    yield f(x())


GLOBAL_SCALE = 2.0
GLOBAL_TABLE = {"k": [1.0]}


def _set_global(v):
    global GLOBAL_SCALE
    GLOBAL_SCALE = v


@program
def global_changed_by_function(wrap):
    f = wrap(lambda t: t * GLOBAL_SCALE)
    yield f(x())
    _set_global(4.0)
    yield f(x())
    _set_global(2.0)
    yield f(x())


@program
def global_table_changed_deeply(wrap):
    f = wrap(lambda t: t * GLOBAL_TABLE["k"][-1])
    yield f(x())
    GLOBAL_TABLE["k"].append(3.0)
    yield f(x())
    GLOBAL_TABLE["k"].pop()
    yield f(x())


@program
def mutable_default(wrap):
    def f(t, seen=[], table={"n": 0}):  # noqa: B006
        seen.append(1)
        table["n"] += 1
        return t * len(seen) + table["n"]

    f = wrap(f)
    for _ in range(4):
        yield f(x())


@program
def class_attributes(wrap):
    class Base:
        gain = 1.0
        table = [1.0]

    class M(Base):
        def __call__(self, t):
            return t * self.gain + self.table[0] + type(self).gain

    m = M()
    f = wrap(lambda t: m(t))
    yield f(x())
    Base.gain = 2.0
    yield f(x())
    M.gain = 3.0
    yield f(x())
    m.gain = 4.0
    yield f(x())
    Base.table[0] = 9.0
    yield f(x())
    M.__call__ = lambda self, t: t - 1
    yield f(x())


@program
def context_variable(wrap):
    var = contextvars.ContextVar("scale", default=1.0)
    f = wrap(lambda t: t * var.get())
    yield f(x())
    token = var.set(5.0)
    yield f(x())
    var.reset(token)
    yield f(x())
    context = contextvars.copy_context()
    context.run(var.set, 7.0)
    yield context.run(f, x())


@program
def string_format(wrap):
    settings = types.SimpleNamespace(name=types.SimpleNamespace(kind="relu"))

    @wrap
    def f(t):
        return F.relu(t - 3) if "{a.name.kind}".format(a=settings) == "relu" else torch.tanh(t)  # noqa: UP032

    yield f(x())
    settings.name.kind = "tanh"
    yield f(x())
    settings.name = types.SimpleNamespace(kind="relu")
    yield f(x())


@program
def string_format_attribute_nobody_names(wrap):
    class Thing:
        pass

    thing = Thing()
    setattr(thing, "zz" + "top", 1)
    key = "{0." + "zz" + "top}"

    @wrap
    def f(t):
        return t * int(key.format(thing))

    yield f(x())
    setattr(thing, "zz" + "top", 3)
    yield f(x())


@program
def f_string(wrap):
    state = {"n": 1}
    table = {"k1": 2.0, "k2": 5.0}
    f = wrap(lambda t: t * table[f"k{state['n']}"])
    yield f(x())
    state["n"] = 2
    yield f(x())
    table["k2"] = 6.0
    yield f(x())


@program
def operator_replaced_on_class(wrap):
    class V:
        def __init__(self, t):
            self.t = t

        def __add__(self, other):
            return V(self.t + other.t)

    f = wrap(lambda t: (V(t) + V(t)).t)
    yield f(x())
    V.__add__ = lambda self, other: V(self.t * other.t)
    yield f(x())


@program
def defaultdict_factory(wrap):
    table = collections.defaultdict(lambda: 2.0)

    @wrap
    def f(t, k):
        return t * table[k]

    yield f(x(), "a")
    table.default_factory = lambda: 5.0
    yield f(x(), "b")
    yield f(x(), "a")
    table["a"] = 3.0
    yield f(x(), "a")
    table.clear()
    yield f(x(), "a")


@program
def ordered_dict_moves(wrap):
    table = collections.OrderedDict(a=1.0, b=2.0)

    @wrap
    def f(t):
        for v in table.values():
            t = t * v + 1
        return t

    yield f(x())
    table.move_to_end("a")
    yield f(x())


@program
def counter_and_chainmap(wrap):
    counts = collections.Counter(a=2)
    chain = collections.ChainMap({"k": 1.0}, {"k": 2.0, "z": 3.0})
    f = wrap(lambda t: t * counts["a"] + chain["k"] + chain["z"])
    yield f(x())
    counts.update("aa")
    yield f(x())
    del chain.maps[0]["k"]
    yield f(x())


@program
def itertools_state(wrap):
    count = itertools.count()
    f = wrap(lambda t: t + next(count))
    for _ in range(4):
        yield f(x())


@program
def iterator_kept(wrap):
    values = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    f = wrap(lambda t: t * next(values))
    for _ in range(4):
        yield f(x())


@program
def partial_keywords_changed(wrap):
    base = functools.partial(lambda t, k: t * k, k=2.0)
    box = [base]
    f = wrap(lambda t: box[0](t))
    yield f(x())
    base.keywords["k"] = 4.0
    yield f(x())
    box[0] = functools.partial(base.func, k=6.0)
    yield f(x())


@program
def lru_cached(wrap):
    state = {"v": 1.0}

    @functools.lru_cache
    def lookup(key):
        return state["v"]

    f = wrap(lambda t: t * lookup("a"))
    yield f(x())
    state["v"] = 2.0
    yield f(x())
    lookup.cache_clear()
    yield f(x())
    yield f(x())
    state["v"] = 3.0
    lookup.cache_clear()
    lookup("b")
    yield f(x())


@program
def containers_that_are_given_change(wrap):
    def extends(parts, table):
        parts.append(parts[0] * 2)
        table["calls"] = table.get("calls", 0) + 1
        table["inner"][0] = parts[-1] + 1
        return sum(parts)

    for grad in (False, True):
        f, table = wrap(extends), {"inner": [x()]}
        parts = [x().requires_grad_(grad) * 3]
        first = parts[0]
        for _ in range(3):
            yield f(parts, table).detach()
        yield torch.tensor([len(parts), table["calls"], float(parts[0] is first)])
        yield table["inner"][0].detach()


@program
def layouts_of_results(wrap):
    f = wrap(
        lambda t: (
            torch.empty_strided((2, 3), (1, 2)).zero_() + t,
            torch.empty_strided((2, 3), (10, 2)).fill_(1),
            t.t() + 1,
        )
    )
    for _ in range(3):
        for out in f(x()):
            yield out, torch.tensor(out.stride())


@program
def lru_cached_object(wrap):
    @functools.cache
    def settings():
        return {"scale": 1.0, "shift": [2.0]}

    f = wrap(lambda t: t * settings()["scale"] + settings()["shift"][0])
    for scale in (1.0, 2.0, 2.0, 3.0):
        settings()["scale"] = scale
        yield f(x())
        yield f(x())
    settings()["shift"].insert(0, 5.0)
    yield f(x())


@program
def cached_property_reset(wrap):
    class M:
        k = 2.0

        @functools.cached_property
        def twice(self):
            return self.k * 2

    m = M()
    f = wrap(lambda t: t * m.twice)
    yield f(x())
    m.k = 5.0
    yield f(x())
    del m.twice
    yield f(x())


@program
def attribute_by_operator(wrap):
    thing = types.SimpleNamespace(inner=types.SimpleNamespace(v=2.0))
    get = operator.attrgetter("inner.v")
    f = wrap(lambda t: t * get(thing))
    yield f(x())
    thing.inner.v = 3.0
    yield f(x())


@program
def getattr_hook(wrap):
    class Lazy:
        def __init__(self):
            self.data = {"v": 2.0}

        def __getattr__(self, name):
            return self.data[name]

    thing = Lazy()
    f = wrap(lambda t: t * thing.v)
    yield f(x())
    thing.data["v"] = 4.0
    yield f(x())
    thing.v = 8.0
    yield f(x())


@program
def descriptor(wrap):
    class D:
        value = 2.0

        def __get__(self, owner, kind):
            return self.value

    class M:
        d = D()

    m = M()
    f = wrap(lambda t: t * m.d)
    yield f(x())
    D.value = 3.0
    yield f(x())
    M.__dict__["d"].value = 5.0
    yield f(x())


@program
def metaclass_attribute(wrap):
    class Meta(type):
        k = 2.0

    class C(metaclass=Meta):
        pass

    f = wrap(lambda t: t * C.k)
    yield f(x())
    Meta.k = 3.0
    yield f(x())
    C.k = 4.0
    yield f(x())


@program
def class_of_instance_changed(wrap):
    class A:
        def g(self, t):
            return t + 1

    class B:
        def g(self, t):
            return t + 2

    thing = A()
    f = wrap(lambda t: thing.g(t))
    yield f(x())
    thing.__class__ = B
    yield f(x())


@program
def set_membership(wrap):
    chosen = {"a"}
    f = wrap(lambda t: t * (2 if "b" in chosen else 1))
    yield f(x())
    chosen.add("b")
    yield f(x())
    chosen.clear()
    yield f(x())


@program
def exceptions_depend_on_state(wrap):
    state = {"ok": True}

    @wrap
    def f(t):
        if not state["ok"]:
            raise KeyError("no")
        return t * 2

    yield f(x())
    state["ok"] = False
    with pytest.raises(KeyError):
        f(x())
    state["ok"] = True
    yield f(x())


@program
def try_except_inside(wrap):
    table = {}

    @wrap
    def f(t):
        try:
            return t * table["k"]
        except KeyError:
            return t - 1

    yield f(x())
    table["k"] = 3.0
    yield f(x())
    del table["k"]
    yield f(x())


@program
def with_statement_of_the_user(wrap):
    class Scaled:
        depth = 0

        def __enter__(self):
            Scaled.depth += 1
            return Scaled.depth

        def __exit__(self, *error):
            Scaled.depth -= 1

    @wrap
    def f(t):
        with Scaled() as d:
            return t * d

    yield f(x())
    Scaled.depth = 4
    yield f(x())


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_do_what_they_do_eagerly(name):
    compare(PROGRAMS[name])
