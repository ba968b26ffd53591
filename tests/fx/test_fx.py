"""Tracing, graphs, code, interpreters and rewriting."""

import copy
import functools
import math
import operator
import pickle
import threading
from collections import namedtuple

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.nn import functional as F

Pair = namedtuple("Pair", "first second")
fx.wrap("triple")
fx.wrap("len")


def triple(x):
    return x * 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.scale = nn.Parameter(torch.ones(3, 4))
        self.register_buffer("offset", torch.zeros(5))
        self.tail = nn.Sequential(nn.Linear(5, 5), nn.ReLU())
        self.unused = nn.Linear(2, 2)

    def forward(self, x, factor=2.0):
        h = self.linear(x + self.scale).clamp(min=0.0)
        h = self.tail(h) * factor - self.offset
        return torch.cat([h, F.relu(h)], dim=1)


def body(module):
    return [line.strip() for line in module.code.strip().split("\n")[1:]]


def test_module_code_and_result():
    net, x = Net(), torch.randn(3, 4)
    traced = fx.symbolic_trace(net)
    assert body(traced) == [
        "scale = self.scale",
        "add = x + scale;  x = scale = None",
        "linear = self.linear(add);  add = None",
        "clamp = linear.clamp(min = 0.0);  linear = None",
        'tail_0 = getattr(self.tail, "0")(clamp);  clamp = None',
        'tail_1 = getattr(self.tail, "1")(tail_0);  tail_0 = None',
        "mul = tail_1 * factor;  tail_1 = factor = None",
        "offset = self.offset",
        "sub = mul - offset;  mul = offset = None",
        "relu = torch.nn.functional.relu(sub, inplace = False)",
        "cat = torch.cat([sub, relu], dim = 1);  sub = relu = None",
        "return cat",
    ]
    assert traced.code.strip().startswith("def forward(self, x, factor = 2.0):")
    assert torch.equal(traced(x), net(x))
    assert torch.equal(traced(x, 3.0), net(x, 3.0))
    assert sorted(traced.state_dict()) == sorted(k for k in net.state_dict() if "unused" not in k)
    assert type(traced).__name__ == "Net"
    traced(x).sum().backward()
    assert net.scale.grad is not None


def test_graph_text():
    graph = fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    assert str(graph) == (
        "graph():\n    %x : [num_users=1] = placeholder[target=x]\n"
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, 1), kwargs = {})\n    return add"
    )


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: 2 / x[:, 1:3], "getitem = x[(slice(None, None, None), slice(1, 3, None))];  x = None"),
        (lambda x: x.foo.bar, "getattr_1 = x.foo;  x = None"),
        (lambda x: x.to(torch.float64), "to = x.to(torch.float64);  x = None"),
        (lambda x: x + float("inf"), "add = x + inf;  x = None"),
        (lambda x: torch.exp(x).sum(dim=0), "sum_1 = exp.sum(dim = 0);  exp = None"),
        (lambda x: x + torch.ones(2), "_tensor_constant0 = self._tensor_constant0"),
        (lambda x: math.sqrt(x), "sqrt = math_sqrt(x);  x = None"),
        (lambda x: triple(x), "triple = "),
        (lambda x: len(x), "len_1 = len(x);  x = None"),
        (lambda x: F.gelu(x), "gelu = torch.nn.functional.gelu(x);  x = None"),
        (lambda x: -x @ ~x, "neg = -x"),
        (lambda x: Pair(x, 2), "pair = "),
    ],
)
def test_recorded_operations(function, expected):
    assert any(line.startswith(expected) for line in body(fx.symbolic_trace(function)))


def test_wrapped_functions_run_and_are_marked():
    traced = fx.symbolic_trace(lambda x: triple(x))
    assert 'torch.fx._symbolic_trace.wrap("' in traced.code
    assert traced(torch.tensor(2.0)).item() == 6
    assert triple(2) == 6 and math.sqrt(4.0) == 2.0  # nothing stays patched


def test_what_a_trace_cannot_hold():
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: [y for y in x])
    with pytest.raises(NotImplementedError, match="argument of type"):
        fx.symbolic_trace(lambda x: x.foo(object()))
    with pytest.raises(NameError, match="parameter is not a member"):
        fx.symbolic_trace(lambda x: x + nn.Parameter(torch.ones(1)))
    assert nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)  # patches are undone after errors


def test_unpacking_and_starred_arguments():
    def unpack(x):
        a, b = x
        return a + b

    assert fx.symbolic_trace(unpack)([1, 2]) == 3

    def starred(*args, **named):
        return args[0] + named["k"]

    assert fx.symbolic_trace(starred)(1, k=2) == 3
    assert fx.symbolic_trace(lambda x, *, k=1: x * k)(3, k=5) == 15


def test_concrete_arguments():
    traced = fx.symbolic_trace(lambda x, flag: x if flag else -x, concrete_args={"flag": True})
    assert traced(3, True) == 3
    with pytest.raises(AssertionError, match="specialized"):
        traced(3, False)
    nested = fx.symbolic_trace(lambda x, d: (x + d["a"], {"q": d["b"]}), concrete_args={"d": {"a": fx.PH, "b": 1}})
    assert nested(1, {"a": 2, "b": 1}) == (3, {"q": 1})


def test_tracer_choices():
    class Deep(fx.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, nn.ReLU)

    graph = Deep().trace(Net())
    assert [n.target for n in graph.nodes if n.op == "get_attr"] == [
        "scale", "linear.weight", "linear.bias", "tail.0.weight", "tail.0.bias", "offset",
    ]  # fmt: skip
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["tail.1"]
    known = fx.Tracer(param_shapes_constant=True).trace(Net())
    assert [n.name for n in known.nodes][-1] == "output"


def test_editing():
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.neg, (x,))
    out = graph.output(first)
    with graph.inserting_after(x):
        second = graph.call_function(torch.sigmoid, (x,))
    assert [n.name for n in graph.nodes] == ["x", "sigmoid", "neg", "output"]
    assert list(x.users) == [first, second] and second < first and first > x
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(first)
    assert first.replace_all_uses_with(second) == [out]
    graph.erase_node(first)
    graph.lint()
    assert len(graph.nodes) == 3 and [n.name for n in reversed(graph.nodes)] == ["output", "sigmoid", "x"]
    second.args, second.kwargs = (x,), {"out": None}
    assert second.kwargs == {"out": None}
    with pytest.raises(TypeError, match="mutation"):
        second.kwargs["a"] = 1
    graph.call_function(torch.sin, (x,))
    assert graph.eliminate_dead_code() and not graph.find_nodes(op="call_function", target=torch.sin)
    out.prepend(graph.call_function(torch.cos, (second,)))
    second.append(x)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    with pytest.raises(ValueError, match="Callable is expected"):
        graph.create_node("call_function", "x")


def test_names_are_unique_and_legal():
    graph = fx.Graph()
    x = graph.placeholder("input")
    names = [graph.call_function(torch.relu, (x,), name=n).name for n in ("relu_7", "relu", "relu", "def", "a b", "1a")]
    assert x.name == "input_1" and names == ["relu_7", "relu", "relu_8", "def_1", "a_b", "_1a"]


def test_copies_and_files(tmp_path):
    net, x = Net(), torch.randn(3, 4)
    traced = fx.symbolic_trace(net)
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert other.code == traced.code and other.linear is not traced.linear
        assert torch.equal(other(x), net(x))
    shallow = copy.copy(traced)
    assert shallow.linear is traced.linear
    traced.to_folder(tmp_path / "saved", "Saved")
    assert "class Saved(torch.nn.Module)" in (tmp_path / "saved" / "module.py").read_text()


def test_submodules():
    traced = fx.symbolic_trace(Net())
    assert traced.add_submodule("extra.deep", nn.ReLU()) and isinstance(traced.extra.deep, nn.ReLU)
    assert traced.delete_submodule("extra.deep") and not traced.delete_submodule("nothing")
    traced.delete_all_unused_submodules()
    assert [n for n, _ in traced.named_children()] == ["linear", "tail"]
    with pytest.raises(RuntimeError, match="not provided"):
        graph = fx.Graph()
        graph.output(graph.call_module("missing"))
        fx.GraphModule({}, graph)


def test_interpreter_and_transformer():
    net, x = Net(), torch.randn(3, 4)
    traced = fx.symbolic_trace(net)
    assert torch.equal(fx.Interpreter(traced).run(x), net(x))
    with pytest.raises(RuntimeError, match="While executing"):
        fx.Interpreter(traced).run(torch.ones(7, 7))

    class Other(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return torch.add(*args) if target is operator.sub else super().call_function(target, args, kwargs)

    changed = Other(traced).transform()
    assert any(n.target is torch.add for n in changed.graph.nodes)
    assert torch.equal(changed(x), net(x))  # the offset is zero


def test_shapes():
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(torch.randn(3, 4))
    shapes = {n.name: tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes if "tensor_meta" in n.meta}
    assert shapes["cat"] == (3, 10) and shapes["scale"] == (3, 4)
    assert next(n for n in traced.graph.nodes if n.name == "linear").meta["nn_module_stack"]


def test_replace_pattern():
    traced = fx.symbolic_trace(lambda x, y: torch.relu((torch.relu(x) + 1) * y) + 1)
    found = fx.replace_pattern(traced, lambda x: torch.relu(x) + 1, lambda x: torch.sigmoid(x))
    assert len(found) == 2
    assert body(traced)[-1] == "return sigmoid_1" and not any("relu" in line for line in body(traced))
    x = torch.randn(4)
    assert torch.allclose(traced(x, x), torch.sigmoid(torch.sigmoid(x) * x))
    leaking = fx.symbolic_trace(lambda a: (lambda s: torch.relu(s) * s)(torch.sigmoid(a)))
    assert not fx.replace_pattern(leaking, lambda x: torch.relu(torch.sigmoid(x)), lambda x: x)


def test_proxies_by_hand():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = torch.where(x > 0, F.dropout(x, 0.5), torch.stack([x, x])[0])
    graph.output(y.node)
    assert [n.name for n in graph.nodes] == ["x", "gt", "dropout", "stack", "getitem", "where", "output"]
    assert repr(x) == "Proxy(x)" and repr(x.shape) == "Proxy(getattr_1)"


def test_tracing_leaves_no_switch_on():
    from flambeau._core.state import modes

    before = modes.overrides
    fx.symbolic_trace(Net())
    assert modes.overrides == before


def test_fuse_and_remove_dropout():
    from flambeau.fx.experimental.optimization import fuse, optimize_for_inference

    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Dropout(), torch.nn.Flatten(), torch.nn.Linear(27, 4),
        torch.nn.BatchNorm1d(4),
    )  # fmt: skip
    model(torch.randn(8, 2, 5, 5))
    model.eval()
    x = torch.randn(4, 2, 5, 5)
    assert torch.allclose(fuse(model)(x), model(x), atol=1e-5) and len(model) == 6
    kinds = [type(m).__name__ for m in optimize_for_inference(model).modules()]
    assert "BatchNorm2d" not in kinds and "BatchNorm1d" not in kinds
    assert torch.allclose(optimize_for_inference(model)(x), model(x), atol=1e-5)


def test_types_of_our_own_layers():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    linear = nn.Linear(2, 2)
    graph = Whole().trace(linear)
    assert "%input_1 : torch.Tensor [num_users=1]" in str(graph)
    assert "def forward(self, input : torch.Tensor) -> torch.Tensor:" in fx.GraphModule(linear, graph).code
    traced = fx.symbolic_trace(nn.Sequential(linear, nn.ReLU()))
    assert "def forward(self, input):" in traced.code and "%input_1 : [num_users=1]" in str(traced.graph)


def test_other_threads_call_modules_meanwhile():
    """A trace changes what modules do: for its own thread, and others that trace wait for it."""
    inside, layer, called = threading.Event(), nn.Linear(2, 2), []

    class Waits(nn.Module):
        def forward(self, x):
            inside.set()
            other.join(0.2)
            return x + 1

    def call():
        inside.wait(5)
        called.append(layer(torch.ones(1, 2)).shape)
        called.append([n.op for n in fx.symbolic_trace(nn.Sequential(nn.ReLU())).graph.nodes])

    other = threading.Thread(target=call)
    other.start()
    graph = fx.symbolic_trace(Waits()).graph
    other.join()
    assert called == [(1, 2), ["placeholder", "call_module", "output"]]
    assert [n.op for n in graph.nodes] == ["placeholder", "call_function", "output"]
    assert layer(torch.ones(1, 2)).shape == (1, 2)


def test_names_of_modules_in_capitals():
    names = {"blocks.PascalCase": "blocks_pascal_case", "blocks.ALL_CAPS": "blocks_all_caps", "Conv2D_3": "conv2d_3"}
    graph = torch.fx.Graph()
    assert [graph.create_node("call_module", target).name for target in names] == list(names.values())


class Couple(metaclass=torch.fx.ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right

    def add(self, other):
        return Couple(self.left + other.left, self.right + other.right)


def test_instances_made_of_proxies():
    traced = torch.fx.symbolic_trace(lambda x, y: x.add(Couple(y, 2 * y)))
    assert [node.op for node in traced.graph.nodes].count("call_function") == 2
    made = traced(Couple(1, 2), 10)
    assert (type(made), made.left, made.right) == (Couple, 11, 22)
    traced = torch.fx.symbolic_trace(lambda x: (x, Couple(1, 2)))
    x, pair = traced(torch.ones(1))
    assert pair.right == 2 and traced(x)[1] is pair


def test_what_is_around_a_function_is_traced():
    def doubled(function):
        @functools.wraps(function)
        def around(*args, **kwargs):
            return torch.relu(function(*args, **kwargs)) * 2

        return around

    class Wrapped(torch.nn.Module):
        @doubled
        def forward(self, x, y=1):
            return x + y

        other = doubled(lambda self, x: x - 1)

    module, x = Wrapped(), torch.tensor([-3.0, 2.0])
    assert torch.fx.symbolic_trace(module)(x).tolist() == module(x).tolist() == [0.0, 6.0]
    tracer = torch.fx.Tracer()
    tracer.traced_func_name = "other"
    assert torch.fx.GraphModule(module, tracer.trace(module))(x).tolist() == [0.0, 2.0]
    tracer.traced_func_name = "nothing"
    with pytest.raises(AssertionError, match="doesn't exist in Wrapped"):
        tracer.trace(module)


def test_lists_of_arguments_have_the_length_that_the_graph_wants():
    interpreter = torch.fx.Interpreter(torch.fx.symbolic_trace(lambda x: x + 1))
    for wrong, message in (([], "missing"), ([1, 2], "extra")):
        with pytest.raises(RuntimeError, match=f"{message} arguments"):
            interpreter.boxed_run(list(wrong))
