"""`make_fx`: the operators that a function runs below autograd."""

import pytest

import flambeau as torch
from flambeau.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

F = torch.nn.functional


def step(x, w):
    y = F.relu(x @ w).softmax(-1).log().sum()
    (g,) = torch.autograd.grad(y, w)
    return y, g


def write(x):
    y = x.clone()
    y[0] = 1
    y.add_(2)
    return y, x.view(-1)


CASES = {
    "pointwise": (lambda x: torch.relu(x) * 2 + x.sum(1, keepdim=True), [(2, 3)], ["relu", "mul", "sum", "add"]),
    "step": (step, [(2, 3), (3, 4)], None),
    "write": (write, [(2, 3)], ["clone", "select", "fill_", "add_", "view"]),
    "containers": (lambda x, d: {"r": x + d["a"]}, [(3,), {"a": (3,)}], ["add"]),
}


def made(shape):
    if isinstance(shape, dict):
        return {k: made(v) for k, v in shape.items()}
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).view(shape) / 7


def called(graph):
    return [n.target._opname for n in graph.nodes if n.op == "call_function" and hasattr(n.target, "_opname")]


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", CASES)
def test_graphs_do_what_functions_do(name, mode):
    function, shapes, operators = CASES[name]
    args = [made(s) for s in shapes]
    if name == "step":
        args[1].requires_grad_()
    graph = make_fx(function, tracing_mode=mode)(*args)
    if operators is not None:
        assert called(graph.graph) == operators
    wanted, got = function(*args), graph(*args)
    torch.testing.assert_close(got, wanted)
    assert all(
        n.meta["val"].shape is not None for n in graph.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)
    )


def test_parameters_and_literals_are_attributes():
    layer = torch.nn.Linear(3, 2)
    graph = make_fx(lambda x: layer(x) * torch.tensor(2.0))(torch.ones(1, 3))
    names = [n.target for n in graph.graph.nodes if n.op == "get_attr"]
    assert names == ["_param_constant0", "_param_constant1", "_tensor_constant0"]
    assert graph._param_constant0 is layer.weight
    torch.testing.assert_close(graph(torch.ones(1, 3)), layer(torch.ones(1, 3)) * 2)


def test_operators_are_decomposed_by_a_table():
    aten = torch.ops.aten
    graph = make_fx(lambda x: torch.relu(x) + 1, {aten.relu.default: lambda x: torch.clamp(x, min=0.0)})(torch.ones(2))
    assert "relu" not in called(graph.graph) and graph(torch.tensor([-1.0, 1.0])).tolist() == [1.0, 2.0]


def test_what_cannot_be_traced_says_so():
    with pytest.raises(NotImplementedError, match="dynamic_shapes"):
        make_fx(lambda x: x, tracing_mode="symbolic")
    with pytest.raises(AssertionError, match="Unexpected tracing mode"):
        make_fx(lambda x: x, tracing_mode="other")
    seen = []
    make_fx(lambda x: seen.append(get_proxy_mode()) or x + 1)(torch.ones(1))
    assert seen[0] is not None and get_proxy_mode() is None


def test_graphs_are_decomposed_where_they_are_run():
    from flambeau.fx.experimental.proxy_tensor import DecompositionInterpreter, selective_decompose

    traced = make_fx(lambda x: torch.addcmul(x, x, x) * 2 + torch.addcmul(x, x, x))(torch.ones(2))
    table = {torch.ops.aten.addcmul.default: lambda a, b, c, value=1: a + b * c}
    graph = torch.fx.Graph()
    assert DecompositionInterpreter(traced, graph, table).run(torch.ones(2)).tolist() == [6, 6]
    assert [n.name for n in graph.nodes] == ["x_1", "mul", "add", "mul_1", "mul_2", "add_1", "add_2", "output"]
    first = next(n for n in traced.graph.nodes if n.op == "call_function")
    some = selective_decompose(
        traced, torch.ones(2), decomposition=table, should_decompose=lambda node: node is first, trace_joint_graph=False
    )
    assert [n.name for n in some.graph.nodes] == ["x_1", "mul", "add", "mul_1", "addcmul", "add_1", "output"]
    assert some(torch.ones(2)).tolist() == [6, 6]


def test_a_tracer_that_goes_into_modules():
    from flambeau.fx.experimental.proxy_tensor import PythonKeyTracer, dispatch_trace, handle_sym_dispatch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    traced = dispatch_trace(model, PythonKeyTracer())
    assert not any(node.op == "call_module" for node in traced.graph.nodes)
    assert torch.equal(traced(torch.ones(1, 2)), model(torch.ones(1, 2)))
    with pytest.raises(AssertionError, match="nothing records"):
        handle_sym_dispatch(max, (1, 2), {})


def shown(f, *args, mode="real"):
    """The operators of a function with what is no tensor among their arguments."""
    nodes = [n for n in make_fx(f, tracing_mode=mode)(*args).graph.nodes if n.op == "call_function"]
    return [(str(n.target), *[a for a in n.args if not isinstance(a, torch.fx.Node)], *n.kwargs.items()) for n in nodes]


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda x: x**3, [("aten.pow.Tensor_Scalar", 3)]),
        (lambda x: x**-0.5, [("aten.pow.Tensor_Scalar", -0.5)]),
        (lambda x: 2 / x, [("aten.reciprocal.default",), ("aten.mul.Tensor", 2)]),
        (lambda x: x % 2, [("aten.remainder.Scalar", 2)]),
        (lambda x: x * 2, [("aten.mul.Tensor", 2)]),
        (lambda x: torch.div(x, 2, rounding_mode="trunc"), [("aten.div.Tensor_mode", 2, ("rounding_mode", "trunc"))]),
        (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), [("aten.gelu.default", ("approximate", "tanh"))]),
        (lambda x: x.tril(), [("aten.tril.default",)]),
        (lambda x: x.argmax(), [("aten.argmax.default",)]),
        (lambda x: x.amax(1, True), [("aten.amax.default", [1], True)]),
        (lambda x: x > x, [("aten.gt.Tensor",)]),
        (lambda x: x[..., None], [("aten.unsqueeze.default", 2)]),
        (lambda x: x[..., 1], [("aten.select.int", 1, 1)]),
        (lambda x: x[..., 1:], [("aten.slice.Tensor", 1, 1, 2**63 - 1)]),
    ],
)
def test_operators_have_pytorchs_overloads_and_arguments(f, wanted):
    assert shown(f, torch.ones(2, 3)) == wanted == shown(f, torch.ones(2, 3), mode="fake")


def test_shapes_alone_show_products_in_parts():
    linear = torch.nn.functional.linear
    for f in (lambda x: linear(x, x[0, :2], x[0, 0, :2]), lambda x: x @ x.transpose(1, 2), lambda x: x[0, 1:]):
        x = torch.randn(2, 5, 3)
        assert shown(f, x) == shown(f, x, mode="fake") and len(shown(f, x)) > 1
        assert torch.equal(make_fx(f, tracing_mode="fake")(x)(x), f(x))


def test_leaves_of_an_argument_are_arguments_of_their_own():
    def f(params, x):
        return {"y": torch.nn.functional.linear(x, params["w"], params["b"])}

    params, x = {"w": torch.ones(3, 2), "b": torch.arange(3.0)}, torch.ones(4, 2)
    made = make_fx(f)(params, x)
    assert [n.target for n in made.graph.nodes if n.op == "placeholder"] == ["params_1", "params_2", "x_1"]
    assert "def forward(self, params, x):" in made.code
    assert torch.equal(made(params, x)["y"], f(params, x)["y"])


@pytest.mark.parametrize(
    "write",
    [
        lambda y, w: y.__setitem__((torch.tensor([1, 0]), torch.tensor([0, 1])), w[0]), lambda y, w: y.clamp_(0, 2),
        lambda y, w: y.__setitem__(torch.tensor([1, 0]), w), lambda y, w: y.lerp_(w, 0.3), lambda y, w: y.addcmul_(w, w),
        lambda y, w: y.scatter_(0, torch.tensor([[1, 0], [0, 1]]), w), lambda y, w: y.index_fill_(0, torch.tensor([1]), 3.0),
        lambda y, w: torch.add(y, w, out=y), lambda y, w: torch.mm(w, w, out=y), lambda y, w: y.t().tril_(),
    ],
)  # fmt: skip
def test_writes_are_recorded(write):
    def f(x, w):
        y = x * 1
        write(y, w)
        return y * 2, y

    x, w = torch.tensor([[1.0, 2.0], [3.0, -4.0]]), torch.tensor([[2.0, 0.5], [-1.0, 1.0]])
    made = make_fx(f)(torch.ones(2, 2), torch.ones(2, 2))
    for a, b in zip(made(x, w), f(x, w), strict=True):
        assert torch.equal(a, b)


def test_recorded_functions_run_again_with_objects_that_have_no_text():
    x, layer = torch.randn(3, 4), torch.nn.LSTM(4, 4)
    again = make_fx(lambda x: layer(x)[0])(x)
    assert torch.allclose(again(2 * x), layer(2 * x)[0])
    dropped = make_fx(lambda x: torch.nn.functional.dropout(x, 0.5))(x)
    for seed in (1, 2):
        torch.manual_seed(seed)
        found = dropped(x)
        torch.manual_seed(seed)
        assert torch.equal(found, torch.nn.functional.dropout(x, 0.5))
