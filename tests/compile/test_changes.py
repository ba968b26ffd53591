"""Ways in which a program changes between two calls. Each must be seen by the guards of the first one."""

import collections
import contextvars
import copy
import dataclasses
import functools
import operator
import types
import weakref

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._compile import words
from flambeau._compile.guards import Trail
from flambeau.nn.utils import prune
from flambeau.utils._pytree import tree_leaves

F = nn.functional
WAYS, QUIET = {}, {}


def way(make):
    """A change that must be seen: `make` gives (function, arguments, change[, undo])."""
    WAYS[make.__name__] = make
    return make


def quiet(make):
    """A change that has nothing to do with the run."""
    QUIET[make.__name__] = make
    return make


def guards_of(function, *args, **kwargs):
    trail = Trail(function, args, kwargs)
    with trail:
        function(*args, **kwargs)
    return trail.guards()


def x():
    return torch.ones(2, 4)


def net():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Sequential(nn.Linear(4, 3), nn.ReLU()))


class Block(nn.Module):
    """A user's module with all sorts of attributes."""

    scale = 2.0
    table = {"a": 1}

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))])
        self.named = nn.ModuleDict({"one": nn.Linear(4, 4)})
        self.register_buffer("mask", torch.ones(4))
        self.register_buffer("none", None)
        self.count, self.text, self.flag, self.ratio = 3, "relu", False, 0.5
        self.sizes = [1, 2, [3, 4]]
        self.options = {"bias": True, "inner": {"depth": 2}}
        self.fixed = (1, [2])
        self.chosen = {"a", "b"}
        self.activation = torch.relu
        self.setting = types.SimpleNamespace(width=4)
        self.queue = collections.deque([1, 2])
        self._hidden = 1.0
        self.plain = torch.ones(4)

    @property
    def hidden(self):
        return self._hidden

    def helper(self, h):
        return h + self.count

    def forward(self, h):
        h = self.helper(self.lin(h)) * self.scale * self.table["a"] * self.mask * self.ratio * self.hidden * self.plain
        for layer in self.layers:
            h = layer(h)
        for gain in self.gains:
            h = h * gain
        h = self.named["one"](h)
        if self.none is not None:
            h = h + self.none
        if self.flag or self.text == "gelu":
            h = F.gelu(h)
        h = h * sum(self.sizes[:2]) * self.sizes[2][0] * self.options["inner"]["depth"] * self.fixed[1][0]
        if self.options["bias"] and "a" in self.chosen:
            h = h + self.setting.width + self.queue[0]
        return self.activation(h)


def changed(change):
    """A way of changing a `Block`."""

    def make():
        model = Block()
        return model, (x(),), lambda: change(model)

    return make


def _set(path, value):
    def change(model):
        *owners, name = path.split(".")
        for owner in owners:
            model = getattr(model, owner)
        setattr(model, name, value)

    return changed(change)


def _run(text):
    return changed(
        lambda model: exec(text, {"model": model, "torch": torch, "nn": nn, "F": F, "types": types, "prune": prune})
    )


MODULE = {
    "training": "model.training = False",
    "eval": "model.eval()",
    "eval_of_a_submodule": "model.lin.eval()",
    "eval_of_an_element": "model.layers[1].eval()",
    "parameter_replaced": "model.lin.weight = nn.Parameter(torch.ones(4, 4))",
    "parameter_none": "model.lin.bias = None",
    "parameter_data": "model.lin.weight.data = torch.ones(4, 4)",
    "parameter_frozen": "model.lin.weight.requires_grad_(False)",
    "module_frozen": "model.requires_grad_(False)",
    "element_of_parameter_list": "model.gains[1] = nn.Parameter(torch.zeros(4))",
    "double": "model.double()",
    "half_of_one": "model.lin.half()",
    "buffer_replaced": "model.mask = torch.zeros(4)",
    "buffer_appears": "model.none = torch.ones(4)",
    "plain_tensor_replaced": "model.plain = torch.zeros(4)",
    "submodule_replaced": "model.lin = nn.Linear(4, 4)",
    "submodule_in_list_replaced": "model.layers[0] = nn.Linear(4, 4)",
    "submodule_appended": "model.layers.append(nn.Linear(4, 4))",
    "submodule_removed": "del model.layers[1]",
    "submodule_in_dict": "model.named['one'] = nn.Linear(4, 4)",
    "identity_in_its_place": "model.layers[1] = nn.Identity()",
    "forward_hook": "model.register_forward_hook(lambda *a: None)",
    "forward_hook_of_a_submodule": "model.lin.register_forward_hook(lambda m, a, out: out * 2)",
    "forward_pre_hook": "model.register_forward_pre_hook(lambda *a: None)",
    "backward_hook": "model.register_full_backward_hook(lambda *a: None)",
    "backward_pre_hook": "model.lin.register_full_backward_pre_hook(lambda *a: None)",
    "integer": "model.count = 4",
    "integer_to_float": "model.count = 3.0",
    "integer_to_bool": "model.flag = 0",
    "float": "model.ratio = 0.25",
    "text": "model.text = 'gelu'",
    "flag": "model.flag = True",
    "list_item": "model.sizes[0] = 5",
    "nested_list_item": "model.sizes[2][0] = 5",
    "list_appended": "model.sizes.append(5)",
    "list_replaced": "model.sizes = [1, 2, [5, 4]]",
    "dict_item": "model.options['bias'] = False",
    "nested_dict_item": "model.options['inner']['depth'] = 3",
    "dict_item_deleted": "del model.options['inner']['depth']",
    "list_in_tuple": "model.fixed[1][0] = 7",
    "set_member": "model.chosen.discard('a')",
    "deque": "model.queue.rotate(1)",
    "namespace": "model.setting.width = 5",
    "function_attribute": "model.activation = torch.tanh",
    "behind_a_property": "model._hidden = 2.0",
    "method_of_the_instance": "model.helper = lambda h: h",
    "forward_of_the_instance": "model.forward = lambda h: h",
    "forward_of_a_submodule": "model.lin.forward = lambda h: h",
    "forward_in_its_dictionary": "model.__dict__['forward'] = lambda h: h",
    "deleted_attribute": "del model.count",
    "class_of_the_instance": "model.__class__ = type('Other', (type(model),), {})",
    "compiled": "model.lin.compile()",
    "swapped_dictionary": "model.__dict__ = {**model.__dict__, 'count': 9}",
    "shadowed_class_attribute": "model.scale = 3.0",
    "parametrized": "nn.utils.parametrize.register_parametrization(model.lin, 'weight', nn.Identity())",
    "pruned": "prune.identity(model.lin, 'weight')",
    "meta": "model.lin.to('meta')",
}
WAYS.update({f"module_{name}": _run(text) for name, text in MODULE.items()})


def _patched(owner, name, value):
    def make():
        before = owner.__dict__.get(name)
        model = Block()
        undo = (lambda: delattr(owner, name)) if name not in owner.__dict__ else (lambda: setattr(owner, name, before))
        return model, (x(),), lambda: setattr(owner, name, value), undo

    return make


WAYS["class_attribute"] = _patched(Block, "scale", 3.0)
WAYS["method_of_the_class"] = _patched(Block, "helper", lambda self, h: h)
WAYS["property_of_the_class"] = _patched(Block, "hidden", property(lambda self: 3.0))
WAYS["forward_of_our_class"] = _patched(nn.Linear, "forward", lambda self, h: h)
WAYS["call_of_our_class"] = _patched(nn.Linear, "__call__", lambda self, h: h)
WAYS["new_getattribute"] = _patched(Block, "__getattribute__", object.__getattribute__)
WAYS["function_of_the_package"] = _patched(torch.nn.functional, "linear", lambda *a: a[0])


@way
def dictionary_of_the_class():
    return Block(), (x(),), lambda: Block.table.update(a=2), lambda: Block.table.update(a=1)


@way
def global_forward_hook():
    handles = []
    add = nn.modules.module.register_module_forward_hook
    return net(), (x(),), lambda: handles.append(add(lambda *a: None)), lambda: handles[0].remove()


@way
def global_forward_pre_hook():
    handles = []
    add = nn.modules.module.register_module_forward_pre_hook
    return net(), (x(),), lambda: handles.append(add(lambda *a: None)), lambda: handles[0].remove()


# -- globals, closures, functions ------------------------------------------------------------------------------------

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


# -- optimizers ------------------------------------------------------------------------------------------------------


def _step(change):
    def make():
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(h):
            optimizer.zero_grad()
            model(h).sum().backward()
            optimizer.step()

        step(x())
        return step, (x(),), lambda: change(model, optimizer)

    return make


WAYS["learning_rate"] = _step(lambda model, optimizer: optimizer.param_groups[0].update(lr=0.01))
WAYS["momentum"] = _step(lambda model, optimizer: optimizer.param_groups[0].update(momentum=0.5))
WAYS["another_group"] = _step(
    lambda model, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
)
WAYS["state_forgotten"] = _step(lambda model, optimizer: optimizer.state.clear())
WAYS["state_replaced"] = _step(
    lambda model, optimizer: optimizer.state[model.weight].update(momentum_buffer=torch.zeros(3, 4))
)
WAYS["step_hook"] = _step(lambda model, optimizer: optimizer.register_step_pre_hook(lambda *a: None))
WAYS["gradient_gone"] = _step(lambda model, optimizer: setattr(model.weight, "grad", None))
WAYS["hook_of_a_parameter"] = _step(lambda model, optimizer: model.weight.register_hook(lambda g: g * 2))
WAYS["hook_after_accumulation"] = _step(
    lambda model, optimizer: model.weight.register_post_accumulate_grad_hook(lambda p: None)
)


# -- the state of the process ----------------------------------------------------------------------------------------


def _switch(change, undo):
    return lambda: (net(), (x(),), change, undo)


WAYS["default_dtype"] = _switch(
    lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
)
WAYS["default_device"] = _switch(lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None))
WAYS["grad_mode"] = _switch(lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True))
WAYS["deterministic"] = _switch(
    lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)
)
WAYS["precision_of_products"] = _switch(
    lambda: torch.set_float32_matmul_precision("high"), lambda: torch.set_float32_matmul_precision("highest")
)


def _block(make):
    entered = []

    def change():
        entered.append(make())
        entered[0].__enter__()

    return _switch(change, lambda: entered.pop().__exit__(None, None, None))


WAYS["autocast"] = _block(lambda: torch.autocast("cpu", dtype=torch.bfloat16))
WAYS["inference_mode"] = _block(lambda: torch.inference_mode())
WAYS["anomaly_detection"] = _block(lambda: torch.autograd.detect_anomaly(check_nan=False))
WAYS["saved_tensors_hooks"] = _block(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
WAYS["function_mode"] = _block(lambda: torch.overrides.TorchFunctionMode())


@way
def number_of_threads():
    before = torch.get_num_threads()
    return net(), (x(),), lambda: torch.set_num_threads(before + 1), lambda: torch.set_num_threads(before)


@pytest.fixture(params=["by words and versions", "by words alone", "by the interpreter"])
def compared(request, monkeypatch):
    """How guards are compared: other interpreters have no versions of dictionaries, or are not known at all."""
    if request.param == "by words alone":
        monkeypatch.setattr(words, "_VERSIONED", False)
    elif request.param == "by the interpreter":
        monkeypatch.setattr(words, "known", lambda: False)


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("name", WAYS)
def test_a_change_is_seen(name, compared):
    function, args, change, *undo = WAYS[name]()
    guards = guards_of(function, *args)
    assert guards.check(args, {}), guards.reason(args, {})
    assert guards.reason(args, {}) == ""
    change()
    try:
        assert not guards.check(args, {})
        assert guards.reason(args, {})
    finally:
        for one in undo:
            one()


def outcome(function, args):
    """What a call gives, in comparable form: values with types, or the type of the error."""
    torch.manual_seed(0)
    try:
        out = function(*args)
    except Exception as error:
        return type(error)
    return [
        (a.dtype, a.device, a.requires_grad, a.detach().double().cpu()) if isinstance(a, torch.Tensor) else a
        for a in tree_leaves(out)
    ]


def alike(a, b):
    if isinstance(a, type) or isinstance(b, type) or len(a) != len(b):
        return a == b
    return all(
        p[:3] == q[:3] and (p[1].type == "meta" or torch.allclose(p[3], q[3], equal_nan=True))
        if isinstance(p, tuple)
        else p == q
        for p, q in zip(a, b)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WAYS)
def test_a_compiled_function_gives_what_the_function_gives_now(name):
    torch.compiler.reset()
    function, args, change, *undo = WAYS[name]()
    compiled = torch.compile(function)
    for _ in range(2):
        outcome(compiled, args)
    change()
    try:
        got = outcome(compiled, args)
        want = outcome(function, args)
        again = outcome(compiled, args)
    finally:
        for one in undo:
            one()
    assert alike(got, want) and alike(again, want)


# -- arguments -------------------------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Batch:
    inputs: torch.Tensor
    name: str = "a"


class Tagged(torch.Tensor):
    pass


def first(*args, **kwargs):
    return None


def tagged(value):
    t = x()
    t.tag = value
    return t


SHARED = torch.ones(2, 4)
LONG = torch.ones(40)
OTHER_ARGUMENTS = {
    "shape": ((x(),), (torch.ones(3, 4),)),
    "rank": ((x(),), (torch.ones(2, 4, 1),)),
    "dtype": ((x(),), (x().double(),)),
    "strides": ((x(),), (torch.ones(4, 2).t(),)),
    "expanded": ((x(),), (torch.ones(1, 4).expand(2, 4),)),
    "requires_grad": ((x(),), (x().requires_grad_(),)),
    "device": ((x(),), (x().to("meta"),)),
    "class": ((x(),), (x().as_subclass(Tagged),)),
    "parameter": ((x().requires_grad_(),), (nn.Parameter(x()),)),
    "layout": ((x(),), (x().to_sparse(),)),
    "conjugate": ((x().cfloat(),), (x().cfloat().conj(),)),
    "aliased": ((x(), x()), (SHARED, SHARED)),
    "no_longer_aliased": ((SHARED, SHARED), (x(), x())),
    "overlapping_views": ((x(), x()), (LONG[:8].view(2, 4), LONG[4:12].view(2, 4))),
    "views_that_overlapped": ((LONG[:8].view(2, 4), LONG[4:12].view(2, 4)), (x(), x())),
    "views_that_overlap_otherwise": ((LONG[:8], LONG[4:12]), (LONG[:8], LONG[2:10])),
    "attribute_of_a_tensor": ((tagged(1),), (tagged(2),)),
    "number_of_arguments": ((x(),), (x(), 1)),
    "none": ((x(), None), (x(), x())),
    "number": ((x(), 2), (x(), 3)),
    "bool_for_a_number": ((x(), 1), (x(), True)),
    "float_for_an_integer": ((x(), 1), (x(), 1.0)),
    "negative_zero": ((x(), 0.0), (x(), -0.0)),
    "text": ((x(), "a"), (x(), "b")),
    "length_of_a_list": (([x()],), ([x(), x()],)),
    "tuple_for_a_list": (([x()],), ((x(),),)),
    "tensor_in_a_list": (([x(), x()],), ([x(), torch.ones(3)],)),
    "keys_of_a_dictionary": (({"a": x()},), ({"b": x()},)),
    "order_of_a_dictionary": (({"a": 1, "b": 2},), ({"b": 2, "a": 1},)),
    "tensor_in_a_dictionary": (({"a": [x()]},), ({"a": [x().double()]},)),
    "named_tuple": ((Pair(x(), 1),), (Pair(x(), 2),)),
    "tuple_for_a_named_tuple": ((Pair(x(), 1),), ((x(), 1),)),
    "field_of_a_data_class": ((Batch(x()),), (Batch(x(), "b"),)),
    "tensor_of_a_data_class": ((Batch(x()),), (Batch(x().double()),)),
    "dtype_as_an_argument": ((x(), torch.float32), (x(), torch.float64)),
    "slice": ((x(), slice(0, 2)), (x(), slice(0, 3))),
    "another_object": ((Block(),), (Block(),)),
}


@pytest.mark.parametrize("name", OTHER_ARGUMENTS)
def test_other_arguments_are_seen(name):
    args, others = OTHER_ARGUMENTS[name]
    guards = guards_of(first, *args)
    assert guards.check(args, {})
    assert not guards.check(others, {})
    assert guards.reason(others, {})


def test_leaves_are_told_from_results_where_code_asks():
    leaf, result = x().requires_grad_(), x().requires_grad_() * 1
    assert guards_of(lambda h: h * 2, leaf).check((result,), {})
    guards = guards_of(lambda h: h * 2 if h.is_leaf else h, leaf)
    assert guards.check((leaf,), {}) and not guards.check((result,), {})
    assert guards.reason((result,), {}) == "h.is_leaf == True"


def test_views_that_do_not_overlap_are_as_good_as_others():
    guards = guards_of(first, x(), x())
    assert guards.check((LONG[:8].view(2, 4), LONG[8:16].view(2, 4)), {})


def test_an_argument_in_the_memory_of_a_parameter():
    weight = torch.ones(2, 4)
    f = lambda h: h * weight
    guards = guards_of(f, x())
    assert guards.check((x(),), {})
    assert not guards.check((weight,), {}) and not guards.check((weight[:],), {})
    assert guards.reason((weight,), {}) == "which arguments lie in the same memory"
    guards = guards_of(f, weight)
    assert guards.check((weight,), {}) and not guards.check((x(),), {})


def test_named_arguments_are_not_positional_ones():
    guards = guards_of(first, x(), scale=2)
    assert guards.check((x(),), {"scale": 2})
    for args, kwargs in (((x(), 2), {}), ((x(),), {"scale": 3}), ((x(),), {"other": 2}), ((x(),), {})):
        assert not guards.check(args, kwargs)
        assert guards.reason(args, kwargs)


def test_other_tensors_that_look_the_same_pass():
    assert guards_of(first, x(), [x(), {"a": x()}], Batch(x()), Pair(1, x())).check(
        (torch.zeros(2, 4), [x(), {"a": torch.zeros(2, 4)}], Batch(x()), Pair(1, x())), {}
    )


# -- what does not matter --------------------------------------------------------------------------------------------


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


def test_there_are_many_ways():
    assert len(WAYS) + len(OTHER_ARGUMENTS) >= 60
