"""Ways in which functions, closures, classes and objects change between two calls. Each must be seen by guards; others must not."""

import collections
import contextvars
import copy
import dataclasses
import functools
import operator
import types
import weakref

import pytest
from changes import Block, check_compiled, check_seen, guards_of, net, x

import flambeau as torch
from flambeau import nn

WAYS, QUIET = {}, {}


def way(make):
    """A change that must be seen: `make` gives (function, arguments, change[, undo])."""
    WAYS[make.__name__] = make
    return make


def quiet(make):
    """A change that has nothing to do with the run."""
    QUIET[make.__name__] = make
    return make


NUMBER, NAMES, WORLD = 3, ["a", "b"], types.ModuleType("world")
WORLD.level, WORLD.inner = 1, types.ModuleType("inner")
WORLD.inner.depth = 2


def helper(h):
    return h * 2


def uses_globals(h):
    return helper(h) * NUMBER * len(NAMES) * WORLD.level * WORLD.inner.depth


def global_change(**new):
    def make():
        before = {name: globals()[name] for name in new}
        return uses_globals, (x(),), lambda: globals().update(new), lambda: globals().update(before)

    return make


WAYS["global_number"] = global_change(NUMBER=4)
WAYS["global_number_type"] = global_change(NUMBER=3.0)
WAYS["global_function"] = global_change(helper=lambda h: h)
WAYS["global_list"] = global_change(NAMES=["a"])
WAYS["shadowed_builtin"] = lambda: (
    uses_globals, (x(),), lambda: globals().update(len=lambda a: 7), lambda: globals().pop("len")
)  # fmt: skip


@way
def global_list_item():
    return uses_globals, (x(),), lambda: NAMES.append("c"), lambda: NAMES.pop()


@way
def attribute_of_a_module():
    return uses_globals, (x(),), lambda: setattr(WORLD, "level", 2), lambda: setattr(WORLD, "level", 1)


@way
def attribute_of_an_inner_module():
    return uses_globals, (x(),), lambda: setattr(WORLD.inner, "depth", 3), lambda: setattr(WORLD.inner, "depth", 2)


@way
def code_of_a_global_function():
    before = helper.__code__
    return (
        uses_globals, (x(),), lambda: setattr(helper, "__code__", (lambda h: h).__code__),
        lambda: setattr(helper, "__code__", before),
    )  # fmt: skip


@way
def closure_cell():
    factor = 2

    def f(h):
        return h * factor

    def change():
        nonlocal factor
        factor = 3

    return f, (x(),), change


@way
def cell_of_a_called_function():
    factor = 2

    def inner(h):
        return h * factor

    def change():
        nonlocal factor
        factor = 3

    return lambda h: inner(h) + 1, (x(),), change


@way
def list_in_a_closure():
    factors = [1, 2]
    return lambda h: h * factors[1], (x(),), lambda: factors.__setitem__(1, 4)


@way
def tensor_in_a_closure():
    weight = [torch.ones(4)]
    return lambda h: h * weight[0], (x(),), lambda: weight.__setitem__(0, torch.zeros(4))


@way
def default_argument():
    def f(h, scale=2):
        return h * scale

    return f, (x(),), lambda: setattr(f, "__defaults__", (3,))


@way
def keyword_default():
    def f(h, *, scale=2):
        return h * scale

    return f, (x(),), lambda: f.__kwdefaults__.update(scale=3)


@way
def mutable_default():
    def f(h, scales=[2]):  # noqa: B006
        return h * scales[0]

    return f, (x(),), lambda: f.__defaults__[0].append(3)


@way
def attribute_of_a_function():
    def f(h):
        return h * f.scale

    f.scale = 2
    return f, (x(),), lambda: setattr(f, "scale", 3)


@way
def partial():
    options = {"scale": 2}

    def f(options, h):
        return h * options["scale"]

    return functools.partial(f, options), (x(),), lambda: options.update(scale=3)


@way
def bound_method():
    model = Block()
    return model.helper, (x(),), lambda: setattr(model, "count", 5)


@way
def callable_object():
    class Scale:
        def __init__(self):
            self.by = 2

        def __call__(self, h):
            return h * self.by

    scale = Scale()
    return scale, (x(),), lambda: setattr(scale, "by", 3)


@way
def object_with_slots():
    class Scale:
        __slots__ = ("by",)

    scale = Scale()
    scale.by = 2
    return lambda h: h * scale.by, (x(),), lambda: setattr(scale, "by", 3)


@way
def decorated():
    calls = {"scale": 2}

    def times(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * calls["scale"]

        return wrapper

    @times
    def f(h):
        return h + 1

    return f, (x(),), lambda: calls.update(scale=3)


@way
def by_a_computed_name():
    class Settings:
        def __init__(self):
            self.width_0, self.width_1 = 1, 2

    settings = Settings()

    def f(h):
        for i in range(2):
            h = h * getattr(settings, f"width_{i}")
        return h

    return f, (x(),), lambda: setattr(settings, "width_1", 3)


@way
def through_vars():
    class Settings:
        def __init__(self):
            self.width = 1

    settings = Settings()
    return lambda h: h * sum(vars(settings).values()), (x(),), lambda: setattr(settings, "width", 3)


@way
def through_its_dictionary():
    class Settings:
        def __init__(self):
            self.width = 1

    settings = Settings()
    return lambda h: h * settings.__dict__["width"], (x(),), lambda: setattr(settings, "width", 3)


@way
def through_its_own_dictionary():
    class Settings:
        def __init__(self):
            self.width = 1

        def total(self):
            return sum(self.__dict__.values())

    settings = Settings()
    return lambda h: h * settings.total(), (x(),), lambda: setattr(settings, "width", 3)


@way
def through_a_copy():
    class Settings:
        def __init__(self):
            self.values = [1, 2]

    settings = Settings()
    return lambda h: h * copy.deepcopy(settings).values[0], (x(),), lambda: settings.values.__setitem__(0, 3)


@way
def through_a_kept_function():
    class Settings:
        def __init__(self):
            self.width = 1

    settings, ask, name = Settings(), getattr, "wid"
    return lambda h: h * ask(settings, name + "th"), (x(),), lambda: setattr(settings, "width", 3)


@way
def through_attrgetter():
    class Settings:
        def __init__(self):
            self.width = 1

    settings, name = Settings(), "wid"
    return lambda h: h * operator.attrgetter(name + "th")(settings), (x(),), lambda: setattr(settings, "width", 3)


@way
def context_variable():
    variable = contextvars.ContextVar("variable", default=1)
    return lambda h: h * variable.get(), (x(),), lambda: variable.set(2)


@way
def class_pattern():
    class Settings:
        __match_args__ = ("width",)

        def __init__(self):
            self.width = 1

    settings = Settings()

    def f(h):
        match settings:
            case Settings(w):
                return h * w

    return f, (x(),), lambda: setattr(settings, "width", 3)


@way
def missing_attribute_appears():
    class Settings:
        pass

    settings = Settings()
    return lambda h: h * getattr(settings, "width", 1), (x(),), lambda: setattr(settings, "width", 3)


@way
def getattr_of_a_class():
    class Settings:
        def __init__(self):
            self.values = {"width": 2}

        def __getattr__(self, name):
            return self.values[name]

    settings = Settings()
    return lambda h: h * settings.width, (x(),), lambda: settings.values.update(width=3)


@way
def operator_of_a_class():
    class Scale:
        by = 2

        def __rmul__(self, h):
            return h * self.by

    scale = Scale()
    return lambda h: 3 * scale, (x(),), lambda: setattr(Scale, "__rmul__", lambda self, h: h)


@way
def entries_of_a_mapping():
    widths = {"a": 1, "b": 2}

    def f(h):
        for name, width in widths.items():
            h = h * width + len(name)
        return h

    return f, (x(),), lambda: (widths.pop("a"), widths.update(a=1))  # the order


@way
def ordered_dictionary():
    widths = collections.OrderedDict(a=1, b=2)
    return lambda h: h * next(iter(widths.values())), (x(),), lambda: widths.move_to_end("a")


@way
def data_class():
    @dataclasses.dataclass
    class Settings:
        width: int = 2

    settings = Settings()
    return lambda h: h * settings.width, (x(),), lambda: setattr(settings, "width", 3)


@way
def weak_reference():
    model = [Block()]
    reference = weakref.ref(model[0])
    return lambda h: h if reference() is None else h * reference().count, (x(),), lambda: setattr(model[0], "count", 5)


@way
def inherited_method():
    class Base:
        def run(self, h):
            return h

    class Derived(Base):
        pass

    thing = Derived()
    return lambda h: thing.run(h), (x(),), lambda: setattr(Derived, "run", lambda self, h: h * 2)


@way
def bases_of_a_class():
    class Base:
        def run(self, h):
            return h

    class Other:
        def run(self, h):
            return h * 2

    class Derived(Base):
        pass

    thing = Derived()
    return lambda h: thing.run(h), (x(),), lambda: setattr(Derived, "__bases__", (Other,))


@way
def class_of_an_object_with_slots():
    class Scale:
        __slots__ = ("by",)

    class Other:
        __slots__ = ("by",)

    scale = Scale()
    scale.by = 2
    return lambda h: h * scale.by, (x(),), lambda: setattr(scale, "__class__", Other)


@way
def generator_in_the_run():
    widths = [1, 2]
    return lambda h: h * sum(w * 2 for w in widths), (x(),), lambda: widths.__setitem__(0, 3)


@way
def not_a_number():
    settings = {"limit": float("nan")}
    return lambda h: h * settings["limit"], (x(),), lambda: settings.update(limit=1.0)


@way
def negative_zero():
    settings = {"limit": 0.0}
    return lambda h: h * settings["limit"], (x(),), lambda: settings.update(limit=-0.0)


@way
def attribute_put_on_an_argument():
    t = x()
    return lambda t: t * getattr(t, "scale", 1.0), (t,), lambda: setattr(t, "scale", 2.0)


@way
def attribute_put_on_a_parameter():
    m = nn.Linear(4, 3)
    return lambda t: m(t) * (2 if hasattr(m.weight, "hot") else 1), (x(),), lambda: setattr(m.weight, "hot", True)


@way
def attribute_in_a_format():
    thing = types.SimpleNamespace(inner=types.SimpleNamespace(kind="a"))
    text = "{0.in" + "ner.kind}"
    return lambda t: t + len(text.format(thing)), (x(),), lambda: setattr(thing.inner, "kind", "long")


@way
def method_of_tensors():
    before = torch.Tensor.__dict__["tanh"]
    change = lambda: setattr(torch.Tensor, "tanh", lambda self: self)
    return lambda t: t.tanh(), (x(),), change, lambda: setattr(torch.Tensor, "tanh", before)


@way
def factory_of_a_defaultdict():
    table = collections.defaultdict(lambda: 2.0, a=1.0)
    return lambda t: t * table["a"], (x(),), lambda: setattr(table, "default_factory", lambda: 3.0)


@way
def attribute_of_a_metaclass():
    class Meta(type):
        gain = 2.0

    class Kind(metaclass=Meta):
        pass

    return lambda t: t * Kind.gain, (x(),), lambda: setattr(Meta, "gain", 3.0)


@way
def attribute_of_a_descriptor():
    class Constant:
        value = 2.0

        def __get__(self, owner, kind):
            return self.value

    class Kind:
        gain = Constant()

    thing = Kind()
    return lambda t: t * thing.gain, (x(),), lambda: setattr(Constant, "value", 3.0)


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("name", WAYS)
def test_a_change_is_seen(name, compared):
    check_seen(WAYS[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WAYS)
def test_a_compiled_function_gives_what_the_function_gives_now(name):
    check_compiled(WAYS[name])


# -- what does not matter --------------------------------------------------------------------------------------------


@quiet
def unused_attribute():
    model = Block()
    model.unrelated = 1
    return model, (x(),), lambda: setattr(model, "unrelated", 2)


@quiet
def unused_global():
    return uses_globals, (x(),), lambda: globals().update(UNRELATED=2), lambda: globals().pop("UNRELATED")


@quiet
def values_of_parameters():
    model = Block()
    return model, (x(),), lambda: [p.data.add_(1) for p in model.parameters()]


@quiet
def equal_values():
    model = Block()
    return model, (x(),), lambda: (setattr(model, "text", "".join(["re", "lu"])), setattr(model, "ratio", 1.0 / 2))


@quiet
def random_numbers():
    return net(), (x(),), lambda: torch.manual_seed(1)


@quiet
def tensors_elsewhere():
    return net(), (x(),), lambda: [net()(x()) for _ in range(3)]


@pytest.mark.parametrize("name", QUIET)
def test_what_does_not_matter_is_not_guarded(name, compared):
    function, args, change, *undo = QUIET[name]()
    guards = guards_of(function, *args)
    assert guards.check(args, {})
    change()
    try:
        assert guards.check(args, {}), guards.reason(args, {})
    finally:
        for one in undo:
            one()


def test_what_changes_all_the_time_without_mattering(compared):
    model, settings = Block(), {"unused": 0}
    model.unrelated = 0
    guards = guards_of(lambda h: uses_globals(model(h)) * len(settings), x())
    for i in range(20):
        model.unrelated = i
        globals()["UNRELATED"] = i
        assert guards.check((x(),), {}), guards.reason((x(),), {})
    globals().pop("UNRELATED")
    assert guards.check((x(),), {})
    model.count += 1
    assert not guards.check((x(),), {})
    model.count -= 1
    assert guards.check((x(),), {})
    globals()["len"] = lambda a: 3
    try:
        assert not guards.check((x(),), {})
    finally:
        del globals()["len"]
    assert guards.check((x(),), {})
