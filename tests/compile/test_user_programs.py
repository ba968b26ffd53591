"""Small programs as users write them, called several times with changes in between: compiled results are the eager ones."""

import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import operator
import random
import types

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils._pytree import tree_leaves

F = nn.functional
PROGRAMS = {}


def program(run):
    """A program: `run(wrap)` yields results; `wrap` is `torch.compile` or nothing."""
    PROGRAMS[run.__name__] = run
    return run


def x(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape or (2, 3)).numel()).view(shape or (2, 3))


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


@program
def generator_of_layers(wrap):
    layers = [nn.Linear(3, 3), nn.Linear(3, 3)]

    @wrap
    def f(t):
        for layer in (m for m in layers if m.training):
            t = layer(t)
        return t

    yield f(x())
    layers[0].eval()
    yield f(x())
    layers.append(nn.Linear(3, 2))
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
def hook_added_later(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    f = wrap(m)
    yield f(x())
    handle = m[0].register_forward_hook(lambda mod, args, out: out * 10)
    yield f(x())
    handle.remove()
    yield f(x())
    m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    yield f(x())


@program
def backward_hook_added_later(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    seen = []
    for i in range(4):
        m.zero_grad()
        f(x().requires_grad_()).sum().backward()
        yield m.weight.grad.clone()
        if i == 1:
            m.weight.register_hook(lambda g: g * 2)
        if i == 2:
            m.register_full_backward_hook(lambda mod, gi, go: seen.append(len(gi)))
    yield torch.tensor(len(seen))


@program
def buffer_replaced(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(3))

        def forward(self, t):
            return t + self.b

    m = M()
    f = wrap(m)
    yield f(x())
    m.b = torch.full((3,), 4.0)
    yield f(x())
    m.b.mul_(2)
    yield f(x())
    m.register_buffer("b", torch.zeros(1))
    yield f(x())
    m.b = None
    m.b = torch.ones(2, 1)
    yield f(x())


@program
def state_dict_loaded(wrap):
    m, other = nn.Linear(3, 2), nn.Linear(3, 2)
    f = wrap(m)
    yield f(x())
    m.load_state_dict(other.state_dict())
    yield f(x())
    m.load_state_dict(nn.Linear(3, 2).state_dict(), assign=True)
    yield f(x())


@program
def to_dtype(wrap):
    m = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    f = wrap(m)
    yield f(x())
    m.double()
    yield f(x().double())
    m.to(torch.bfloat16)
    yield f(x().bfloat16())
    m.float()
    yield f(x())


@program
def requires_grad_toggled(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    f = wrap(m)
    for i in range(5):
        m.zero_grad()
        m[0].weight.requires_grad_(i % 2 == 0)
        f(x()).sum().backward()
        yield [p.grad if p.grad is not None else torch.zeros(1) for p in m.parameters()]


@program
def train_eval(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    f = wrap(m)
    for mode in (True, False, True, True, False):
        m.train(mode)
        yield f(x())
    m[2].train()
    yield f(x())


@program
def tying_changes(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, t):
            return self.b(self.a(t))

    m = M()
    f = wrap(m)
    for i in range(4):
        m.zero_grad()
        f(x()).sum().backward()
        yield [p.grad.clone() for p in m.parameters()]
        if i == 0:
            m.b.weight = m.a.weight
        if i == 1:
            m.b = m.a
        if i == 2:
            m.b = nn.Linear(3, 3)


@program
def list_of_tensors_grows(wrap):
    history = []

    @wrap
    def f(t):
        history.append(t * 2)
        return sum(history)

    for i in range(5):
        yield f(x() + i)
    yield history


@program
def list_argument_grows(wrap):
    f = wrap(lambda ts: torch.stack(ts).sum(0))
    ts = []
    for i in range(4):
        ts.append(x() + i)
        yield f(ts)


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
def autocast_toggled(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    yield f(x())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield f(x())
    with torch.autocast("cpu", enabled=False):
        yield f(x())
    with torch.autocast("cpu", dtype=torch.float16):
        yield f(x())
    yield f(x())


@program
def default_dtype(wrap):
    f = wrap(lambda t: torch.zeros(3) + torch.tensor(1.5) + t)
    yield f(x())
    torch.set_default_dtype(torch.float64)
    try:
        yield f(x())
    finally:
        torch.set_default_dtype(torch.float32)
    yield f(x())


@program
def default_device(wrap):
    f, given = wrap(lambda t: (t * 2, torch.zeros(3))[1]), x()
    yield torch.tensor(f(given).is_meta)
    with torch.device("meta"):
        found = f(given).is_meta
    yield torch.tensor(found), torch.tensor(f(given).is_meta)


def _trained(wrap, change, optimizer=torch.optim.SGD, steps=5, **options):
    m = nn.Linear(3, 2)
    o = optimizer(m.parameters(), **options)

    @wrap
    def step(t):
        o.zero_grad()
        loss = m(t).square().sum()
        loss.backward()
        o.step()
        return loss

    for i in range(steps):
        yield step(x()), [p.detach().clone() for p in m.parameters()]
        change(i, m, o)


@program
def lr_changed_by_hand(wrap):
    def change(i, m, o):
        for group in o.param_groups:
            group["lr"] *= 0.5

    yield from _trained(wrap, change, lr=0.1)


@program
def momentum_changed(wrap):
    def change(i, m, o):
        if i == 2:
            o.param_groups[0]["momentum"] = 0.9

    yield from _trained(wrap, change, lr=0.01)


@program
def betas_changed(wrap):
    def change(i, m, o):
        if i == 1:
            o.param_groups[0]["betas"] = (0.5, 0.9)

    yield from _trained(wrap, change, torch.optim.Adam, lr=0.01)


@program
def param_group_added(wrap):
    extra = nn.Parameter(torch.ones(2))

    def change(i, m, o):
        if i == 1:
            o.add_param_group({"params": [extra], "lr": 1.0})
            extra.grad = torch.ones(2)
        if i == 3:
            extra.grad = torch.ones(2) * 2

    yield from _trained(wrap, change, lr=0.01)
    yield extra.detach()


@program
def optimizer_state_loaded(wrap):
    import copy

    saved = []

    def change(i, m, o):
        if i == 1:
            saved.append(copy.deepcopy(o.state_dict()))
        if i == 3:
            o.load_state_dict(saved[0])

    yield from _trained(wrap, change, torch.optim.AdamW, lr=0.01, steps=6)


@program
def parameter_data_swapped(wrap):
    def change(i, m, o):
        if i == 1:
            m.weight.data = torch.ones(2, 3)
        if i == 2:
            with torch.no_grad():
                m.weight.copy_(torch.full((2, 3), 0.5))
        if i == 3:
            m.weight = nn.Parameter(torch.ones(2, 3))

    yield from _trained(wrap, change, lr=0.01)


@program
def gradient_accumulates(wrap):
    m = nn.Linear(3, 2)

    @wrap
    def f(t):
        m(t).sum().backward()

    for i in range(4):
        f(x())
        yield m.weight.grad.clone()
        if i == 1:
            m.weight.grad = None
        if i == 2:
            m.weight.grad.zero_()


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
def attribute_on_an_input(wrap):
    @wrap
    def f(t):
        return t * getattr(t, "scale", 1.0)

    for i in range(4):
        t = x()
        if i % 2:
            t.scale = 2.0 + i
        yield f(t)


@program
def attribute_on_a_parameter(wrap):
    m = nn.Linear(3, 2)

    @wrap
    def f(t):
        return m(t) * (2.0 if hasattr(m.weight, "is_hot") else 1.0)

    yield f(x())
    m.weight.is_hot = True
    yield f(x())
    del m.weight.is_hot
    yield f(x())


@program
def tensor_method_replaced(wrap):
    f = wrap(lambda t: t.relu() + 1)
    yield f(x() - 3)
    before = torch.Tensor.__dict__["relu"]
    torch.Tensor.relu = lambda self: self * 100
    try:
        yield f(x() - 3)
    finally:
        torch.Tensor.relu = before
    yield f(x() - 3)


@program
def torch_function_replaced(wrap):
    f = wrap(lambda t: torch.tanh(t) + 1)
    yield f(x())
    before = torch.tanh
    torch.tanh = lambda t: t * 7
    try:
        yield f(x())
    finally:
        torch.tanh = before
    yield f(x())


@program
def functional_replaced(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    f = wrap(lambda t: F.softmax(m(t), -1))
    yield f(x())
    before = F.softmax
    F.softmax = lambda t, dim: t * 5
    try:
        yield f(x())
    finally:
        F.softmax = before
    yield f(x())


@program
def forward_replaced_on_instance(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    yield f(x())
    m.forward = lambda t: t.sum(1)
    yield f(x())
    del m.forward
    yield f(x())


@program
def forward_replaced_on_class(wrap):
    class M(nn.Module):
        def forward(self, t):
            return t + 1

    m = M()
    f = wrap(m)
    yield f(x())
    M.forward = lambda self, t: t + 2
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
def aliasing_arguments(wrap):
    def f(a, b):
        a = a * 1
        b.add_(1)
        return a + b

    f = wrap(f)
    one, two = x(), x()
    yield f(one, two)
    yield f(one, one)
    base = torch.zeros(3, 3)
    yield f(base[:2], base[1:]), base
    yield f(x(), x())


@program
def strides_change(wrap):
    f = wrap(lambda t: t.reshape(-1) * torch.arange(6))
    yield f(x())
    yield f(x(3, 2).t())
    yield f(x(1, 3).expand(2, 3))


@program
def view_of_weight_outside(wrap):
    m = nn.Linear(3, 2)
    row = m.weight.detach()[0]
    f = wrap(m)
    yield f(x())
    row.fill_(2.0)
    yield f(x())


@program
def no_grad_toggled(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    yield f(x()).requires_grad + torch.zeros(1)
    with torch.no_grad():
        yield f(x()).requires_grad + torch.zeros(1)
    with torch.inference_mode():
        yield torch.tensor(float(f(x()).is_inference()))
    yield f(x()).requires_grad + torch.zeros(1)


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


@program
def module_list_reordered(wrap):
    m = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])

    @wrap
    def f(t):
        for layer in m:
            t = layer(t)
        return t

    yield f(x())
    m[0], m[1] = m[1], m[0]
    yield f(x())
    m.insert(0, nn.ReLU())
    yield f(x())


@program
def module_dict_changed(wrap):
    m = nn.ModuleDict({"a": nn.Linear(3, 3)})
    f = wrap(lambda t: sum(layer(t) for layer in m.values()))
    yield f(x())
    m["b"] = nn.Linear(3, 3)
    yield f(x())
    m["a"] = nn.Identity()
    yield f(x())


@program
def numbers_of_other_types(wrap):
    f = wrap(lambda t, k: t * k)
    for k in (2, 2.0, True, torch.tensor(2), 1, 0.0, -0.0):
        yield f(x(), k)


@program
def counter_attribute(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, t):
            self.calls += 1
            return t * self.calls

    m = M()
    f = wrap(m)
    for _ in range(12):
        yield f(x())
    yield torch.tensor(m.calls)


@program
def random_between_calls(wrap):
    f = wrap(lambda t: F.dropout(t, 0.5) + torch.randn(3))
    for i in range(4):
        yield f(x())
        torch.randn(5 * i + 1)


@program
def python_random_numbers(wrap):
    generator = random.Random(3)
    draw, state = generator.random, {"draws": False}
    f = wrap(lambda t: t * (draw() if state["draws"] else 2.0))
    yield f(x())
    state["draws"] = True
    for _ in range(3):
        yield f(x())


@program
def weight_norm_and_parametrization(wrap):
    m = nn.Linear(3, 2)
    f = wrap(lambda t: m(t))
    yield f(x())
    nn.utils.parametrizations.weight_norm(m)
    yield f(x())
    with torch.no_grad():
        m.parametrizations.weight.original0.mul_(2)
    yield f(x())
    nn.utils.parametrize.remove_parametrizations(m, "weight")
    yield f(x())


@program
def kwargs_order_and_presence(wrap):
    f = wrap(lambda t, **k: t * k.get("a", 1) + k.get("b", 0))
    yield f(x())
    yield f(x(), a=2)
    yield f(x(), b=2)
    yield f(x(), b=3, a=2)
    yield f(x(), a=2, b=3)


@program
def threads_and_deterministic(wrap):
    f = wrap(lambda t: t.cumsum(0) * torch.get_num_threads())
    yield f(x())
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield f(x())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_do_what_they_do_eagerly(name):
    global GLOBAL_SCALE
    found = []
    for wrap in (lambda f: f, torch.compile):
        GLOBAL_SCALE = 2.0
        torch.manual_seed(7)
        found.append([tree_leaves(part) for part in PROGRAMS[name](wrap)])
    eager, compiled = found
    assert len(eager) == len(compiled)
    for i, (expected, got) in enumerate(zip(eager, compiled)):
        assert len(expected) == len(got), (name, i)
        for a, b in zip(expected, got):
            assert a.dtype is b.dtype and torch.equal(a, b), (name, i, a, b)
