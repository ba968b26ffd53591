"""`__torch_function__`: subclasses, classes that are no tensors, and modes."""

import sys

import pytest

import flambeau as torch
from flambeau._core.state import modes
from flambeau.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, is_tensor_like


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    log: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "duck", func.__name__


class Recorder(TorchFunctionMode):
    def __init__(self):
        self.log = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_results_are_of_the_subclass():
    x = torch.ones(2).as_subclass(Plain)
    for made in (x + 1, 1 + x, x.sum(), x[0], x.split(1)[0], torch.stack([x, x]), x.detach(), x.data, x.view(2, 1)):
        assert type(made) is Plain
    assert type(x.shape) is torch.Size
    assert repr(x) == "Plain([1., 1.])"
    assert type(Plain([1, 2])) is Plain
    with pytest.raises(TypeError):
        torch.ones(1).as_subclass(int)


def test_results_that_somebody_has_keep_their_class():
    plain, other = torch.ones(3), torch.ones(3).as_subclass(Plain)
    ask = torch.Tensor.__torch_function__.__func__
    result = ask(Plain, lambda a, b: a, (Plain,), (plain, other))
    assert type(result) is Plain and type(plain) is torch.Tensor
    results = ask(Plain, lambda a, b: [a, b], (Plain,), (plain, other))
    assert [type(r) for r in results] == [Plain, Plain] and type(plain) is torch.Tensor


def test_parameters_give_plain_tensors():
    assert type(torch.nn.Parameter(torch.ones(2)) + 1) is torch.Tensor


def test_subclass_sees_calls_attributes_and_writes():
    x = torch.ones(2).as_subclass(Logged)
    Logged.log.clear()
    x.add_(1)
    x[0] = 3
    x.shape, x.size(), x.requires_grad
    y = torch.exp(x)
    assert Logged.log == ["add_", "__setitem__", "__get__", "size", "__get__", "exp"]
    assert type(y) is Logged


def test_gradients_do_not_ask_the_class():
    leaf = torch.ones(2, requires_grad=True)
    loss = (leaf.as_subclass(Logged) * 3).sum()
    Logged.log.clear()
    loss.backward()
    assert Logged.log == ["backward"] or Logged.log == []
    assert type(leaf.grad) is torch.Tensor and leaf.grad.tolist() == [3.0, 3.0]


def test_writes_keep_history():
    leaf = torch.full((2,), 2.0, requires_grad=True)
    y = (leaf * 1).as_subclass(Plain)
    y.pow_(3)
    y.sum().backward()
    assert leaf.grad.tolist() == [12.0, 12.0]


def test_classes_that_are_no_tensors():
    duck = Duck()
    assert torch.sum(duck) == ("duck", "sum")
    assert torch.exp(duck) == ("duck", "exp")
    assert torch.matmul(torch.ones(2), duck) == ("duck", "matmul")
    assert torch.cat([torch.ones(2), duck]) == ("duck", "cat")
    assert is_tensor_like(duck) and not is_tensor_like(3)
    assert handle_torch_function(torch.add, (duck,), duck, 1) == ("duck", "add")


def test_unrelated_subclasses_do_not_mix():
    class A(torch.Tensor):
        pass

    class B(torch.Tensor):
        pass

    a, b = torch.ones(1).as_subclass(A), torch.ones(1).as_subclass(B)
    with pytest.raises(TypeError, match="NotImplemented"):
        torch.add(a, b)
    with pytest.raises(TypeError, match="unsupported operand"):
        a + b


def test_modes_nest_and_end():
    with Recorder() as outer:
        x = torch.ones(2)
        y = x + 1
        with Recorder() as inner:
            torch.sin(y)
    torch.cos(y)
    assert outer.log == ["ones", "add", "sin"]
    assert inner.log == ["sin"]


def test_mode_replaces_results():
    class Zero(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 0 if func is torch.add else func(*args, **(kwargs or {}))

    with Zero():
        assert torch.add(torch.ones(1), 1) == 0


def test_disabled():
    x = torch.ones(2).as_subclass(Logged)
    with torch.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
        assert not has_torch_function((x,))
    assert has_torch_function((x,))


@pytest.mark.slow
def test_nothing_is_asked_before_a_subclass_exists():
    import subprocess
    import sys

    code = "import flambeau; from flambeau._core.state import modes; assert modes.overrides == 0 == modes.on"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert modes.on == 0


class _Record(TorchFunctionMode):
    """Keeps what is called with which arguments."""

    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "positional", "given", "expected"),
    [
        ("relu", (), {"inplace": True}, {"inplace": True}),
        ("gelu", (), {"approximate": "tanh"}, {"approximate": "tanh"}),
        ("elu", (0.5,), {}, {"alpha": 0.5, "inplace": False}),
        ("selu", (), {}, {"inplace": False}),
        ("celu", (2.0,), {}, {"alpha": 2.0, "inplace": False}),
        ("relu6", (), {}, {"inplace": False}),
        ("hardtanh", (-2.0, 2.0), {}, {"min_val": -2.0, "max_val": 2.0, "inplace": False}),
        ("softsign", (), {}, {}),
        ("tanhshrink", (), {}, {}),
    ],
)
def test_modes_see_activations_as_they_were_called(name, positional, given, expected):
    function = getattr(torch.nn.functional, name)
    x = torch.tensor([-1.0, 0.5, 3.0])
    plain = function(x.clone(), *positional, **given)
    with _Record() as mode:
        result = function(x, *positional, **given)
    ((seen, args, named),) = mode.seen
    assert seen is function and args == (x,) and named == expected
    assert torch.equal(result, plain)


def test_modes_see_functions_by_their_names():
    x = torch.ones(2, 3)
    with _Record() as mode:
        torch.nn.functional.softmax(x, dim=-1)
        torch.nn.functional.threshold(x, 0.1, 20.0)
        torch.add(x, x, alpha=2)
        2 / x
        x**2
    assert [func.__name__ for func, _, _ in mode.seen] == ["softmax", "threshold", "add", "__rdiv__", "pow"]
    assert mode.seen[2][2] == {"alpha": 2} and mode.seen[4][1] == (x, 2)


def test_as_subclass_asks_nobody():
    Logged.log.clear()
    x = torch.ones(2).as_subclass(Logged)
    assert type(x) is Logged and type(x.as_subclass(torch.Tensor)) is torch.Tensor
    assert Logged.log == []


def test_functions_have_the_names_that_programs_know():
    x = torch.ones(1).as_subclass(Logged)
    Logged.log.clear()
    x.dim(), x.numel(), x.element_size(), len(x), bool(x), repr(x)
    assert Logged.log[:5] == ["dim", "numel", "element_size", "__len__", "__bool__"] and "__repr__" in Logged.log


def test_attributes_of_subclasses_do_not_meet_ours():
    class Annotated(torch.Tensor):
        pass

    x = torch.ones(2, requires_grad=True).as_subclass(Annotated)
    x._meta = {"affine": 1}
    (x * 2).sum().backward()
    assert x._meta == {"affine": 1} and (x * 3).requires_grad


def test_operands_of_einsum_in_a_list():
    given = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.einsum:
                given.append([type(a) for a in args])
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Watched)
    assert torch.einsum("i,i->", [x, x]).item() == 2.0 and given == [[str, Watched, Watched]]


def _seen(function, kind=_Record):
    x = torch.randn(3, 3)
    with kind() as mode:
        function(x)
    return [func for func, _, _ in mode.seen]


T = torch.Tensor
SHOWN = {
    "shape": (lambda x: x.shape, [T.shape.__get__]), "device": (lambda x: x.device, [T.device.__get__]),
    "grad": (lambda x: x.grad, [T.grad.__get__]), "T": (lambda x: x.T, [T.T.__get__]), "mT": (lambda x: x.mT, [T.mT.__get__]),
    "data": (lambda x: x.data, [T.data.__get__]), "real": (lambda x: x.real, [T.real.__get__]),
    "requires_grad =": (lambda x: setattr(x, "requires_grad", True), [T.requires_grad.__set__]),
    "size": (lambda x: x.size(), [T.size]), "dim": (lambda x: x.dim(), [T.dim]), "stride": (lambda x: x.stride(0), [T.stride]),
    "item": (lambda x: x.sum().item(), [T.sum, T.item]), "bool": (lambda x: bool(x.sum()), [T.sum, T.__bool__]),
    "float": (lambda x: float(x.sum()), [T.sum, T.__float__]), "len": (lambda x: len(x), [T.__len__]),
    "repr": (lambda x: repr(x), [T.__repr__]), "contains": (lambda x: 1.0 in x, [T.__contains__]),
    "add": (lambda x: x.add(x), [T.add]), "+": (lambda x: x + x, [T.add]), "-": (lambda x: 1 - x, [T.__rsub__]),
    "**": (lambda x: x**2, [T.__pow__]), "//": (lambda x: x // 2, [T.__floordiv__]), "==": (lambda x: x == 1, [T.__eq__]),
    "&": (lambda x: (x > 0) & (x < 1), [T.gt, T.lt, T.__and__]), "~": (lambda x: ~(x > 0), [T.gt, T.__invert__]),
    "reshape": (lambda x: x.reshape(-1), [T.reshape]), "torch.reshape": (lambda x: torch.reshape(x, (-1,)), [torch.reshape]),
    "chunk": (lambda x: x.chunk(2), [T.chunk]), "flatten": (lambda x: x.flatten(), [T.flatten]),
    "contiguous": (lambda x: x.contiguous(), [T.contiguous]), "where": (lambda x: x.where(x > 0, x), [T.gt, T.where]),
    "requires_grad_": (lambda x: x.requires_grad_(), [T.requires_grad_]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_modes_are_given_what_programs_know(name):
    function, expected = SHOWN[name]
    assert _seen(function) == expected


@pytest.mark.parametrize("name", SHOWN)
def test_classes_are_given_what_programs_know(name):
    function, expected = SHOWN[name]
    seen = []

    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    function(torch.randn(3, 3).as_subclass(Seeing))
    assert seen == expected


def test_modes_see_backward_and_not_what_it_runs():
    w = torch.randn(3, 3, requires_grad=True)
    assert _seen(lambda x: (x * w).sum().backward()) == [T.mul, T.sum, T.backward]
    assert _seen(lambda x: torch.autograd.grad((x * w).sum(), w)) == [T.mul, T.sum, torch.autograd.grad]
    assert w.grad is not None


def test_attributes_are_as_before_when_the_last_mode_ends():
    before = T.item.__code__, T.shape.fget.__code__
    with _Record():
        with _Record() as inner:
            assert torch.ones(2).shape == (2,)
        assert (T.item.__code__, T.shape.fget.__code__) != before
    assert (T.item.__code__, T.shape.fget.__code__) == before
    assert T.shape.__get__ in [func for func, _, _ in inner.seen]


def test_operators_whose_records_take_more_than_their_functions():
    x = torch.arange(6.0).reshape(2, 3)
    with Recorder():
        out = torch.ops.aten.contiguous.default(x.t())
    assert out.is_contiguous() and torch.equal(out, x.t())
    compiled = torch.compile(lambda x: torch.ops.aten.contiguous.default(x.t()) * 2, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x), x.t() * 2) and compiled(x).is_contiguous()


def test_views_are_shown_as_they_were_called():
    """Sizes are worked out after the class was asked, as PyTorch does it: it may have another idea of them."""
    seen = []

    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, args[1:]))
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.arange(6.0).as_subclass(Seen)
    assert x.view(2, -1).shape == (2, 3)
    x.view(torch.int32)
    x.expand(2, -1)
    with pytest.raises(RuntimeError, match="invalid for input of size 6"):
        x.view(4, -1)
    torch.ops.aten.alias(x)
    views = [("view", (2, -1)), ("view", (torch.int32,)), ("expand", (2, -1)), ("view", (4, -1)), ("alias", ())]
    assert [s for s in seen if s[0] in ("view", "expand", "alias")] == views


def test_redispatching_skips_one_level():
    from flambeau.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, redispatch_function

    seen = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if has_torch_function((a, b)):
            return handle_torch_function(scaled, (a, b), a, b)
        return torch.mul(a, b) + 1

    out = scaled(torch.tensor([3.0]).as_subclass(Loud), torch.tensor([4.0]).as_subclass(Loud))
    assert type(out) is torch.Tensor and out.tolist() == [13]
    assert seen[-2:] == ["scaled", "mul"] and "add" not in seen

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            with self:
                return redispatch_function(func, types, args, kwargs)

    seen.clear()
    with Mode():
        assert scaled(torch.tensor([3.0]), torch.tensor([4.0])).tolist() == [13]
    assert [name.strip("_") for name in seen if name != "tensor" and name != "tolist"] == ["scaled", "mul", "add"]


def test_activations_without_an_inplace_form_are_seen_as_themselves():
    class Names(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function, args[1:], kwargs

    fn = torch.nn.functional
    x = torch.ones(2).as_subclass(Names)
    assert fn.softplus(x, 2.0) == (fn.softplus, (2.0, 20), {})
    assert fn.logsigmoid(x) == (fn.logsigmoid, (), {})
    assert fn.softshrink(x) == (fn.softshrink, (0.5,), {})
    assert fn.hardshrink(x) == (fn.hardshrink, (0.5,), {})


def test_a_debugger_may_look_at_what_modes_are_asked_in():
    """Frames of attributes that ask modes have all variables that their code names."""

    class Asked(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    def look(frame, event, argument):
        if event == "call":
            seen.append(set(frame.f_locals))

    seen, x = [], torch.tensor([1.0, 2.0])
    before = sys.getprofile()
    with Asked():
        sys.setprofile(look)
        try:
            made = [x.__radd__(2.0), x.__rsub__(2.0), x.__floordiv__(2.0), x.type(), x.is_floating_point()]
        finally:
            sys.setprofile(before)
    assert seen and made[0].tolist() == [3.0, 4.0] and made[1].tolist() == [1.0, 0.0]


def test_names_of_what_classes_are_given():
    asked = []

    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(torch.overrides.resolve_name(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Told)
    x.shape, len(x), x == 1, x**2, 2 - x, x.size(), x.clone(), bool(x[0]), torch.sin(x), repr(x)
    assert asked == [
        "torch.Tensor.shape.__get__", "torch.Tensor.__len__", "torch.Tensor.__eq__", "torch.Tensor.__pow__", "torch.Tensor.__rsub__",
        "torch.Tensor.size", "torch.Tensor.clone", "torch.Tensor.__getitem__", "torch.Tensor.__bool__", "torch.sin", "torch.Tensor.__repr__",
    ]  # fmt: skip


def test_parts_that_loops_give_are_of_the_subclass():
    x = torch.ones(2, 3, requires_grad=True).as_subclass(Logged)
    Logged.log.clear()
    assert [type(row) for row in x] == [Logged, Logged]
    assert Logged.log == ["dim", "unbind"]
    first, _ = x
    assert type(first) is Logged
    Logged.log.clear()
    del x.grad
    assert Logged.log == ["__delete__"]
    with Recorder() as mode:
        list(torch.ones(2))
    assert mode.log == ["ones", "dim", "unbind", "__len__"]


class Foreign:
    """No tensor, but it knows what to do with functions of tensors."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, sorted(kwargs or {})


def test_foreign_objects_are_asked_for_writes_and_out():
    it, x = Foreign(), torch.ones(2)
    for function in (torch.log_, torch.relu_, torch.nan_to_num_, torch.ldexp_):
        assert function(it, *[x] * (function is torch.ldexp_))[0] is function
    for function, args in ((torch.sigmoid, (x,)), (torch.add, (x, x)), (torch.sum, (x,)), (torch.matmul, (x, x))):
        assert function(*args, out=it) == (function, ["out"])
    assert torch.sort(x, out=(it, it)) == (torch.sort, ["out"]) and torch.fft.fft(x, out=it) == (torch.fft.fft, ["out"])
    assert torch.where(x > 0, x, other=it) == (torch.where, ["other"])
    with pytest.raises(TypeError, match="argument 'out' must be Tensor"):
        torch.sigmoid(x, out=3)
    with pytest.raises(TypeError, match="'input' must be Tensor"):
        torch.log_(3)


def test_operators_are_shown_as_what_was_called():
    seen = []

    class Log(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2)
    with Log():
        torch.ops.aten.add.Tensor(x, 1)
        torch.ops.aten.relu(x)
    out = torch.ops.aten.cat.default([x, x.as_subclass(Own)])
    assert type(out) is Own
    called = torch.ops.aten.add.Tensor, torch.ops.aten.relu, torch.ops.aten.cat.default
    assert [f for f in seen if f in called] == list(called) == seen
    graph = torch.fx.symbolic_trace(lambda x: torch.ops.aten.relu(torch.ops.aten.add.Tensor(x, 1))).graph
    assert [n.target for n in graph.nodes][1:3] == [torch.ops.aten.add.Tensor, torch.ops.aten.relu]
    assert [n.name for n in graph.nodes][1:3] == ["add_tensor", "relu"]
    traced = torch.jit.trace(torch.ops.aten.add.Tensor, (x, x))  # those of flambeau know functions
    assert torch.equal(traced(x, x), x + x) and torch.compile(torch.ops.aten.relu.default)(x).tolist() == [1.0, 1.0]


def test_properties_are_found_as_they_are_shown():
    overridable = torch.overrides.get_overridable_functions()[torch.Tensor]
    assert torch.Tensor.T.__get__ in overridable and torch.Tensor.real.__get__ in overridable
    assert not any(isinstance(function, property) for function in overridable)
