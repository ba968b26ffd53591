"""Tools over graphs: partitioners, matchers, splitters, folded constants, managers of passes, what runs notes."""

import logging
import operator

import pytest

import flambeau as torch
from flambeau.fx import traceback as fx_traceback
from flambeau.fx.experimental import const_fold
from flambeau.fx.passes import graph_manipulation, operator_support, pass_manager, split_utils, tools_common
from flambeau.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from flambeau.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper, this_before_that_pass_constraint
from flambeau.fx.passes.param_fetch import extract_attrs_for_lowering, lift_lowering_attrs_to_nodes
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.fx.passes.utils import compare_graphs, fuser_utils
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from flambeau.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions

symbolic_trace = torch.fx.symbolic_trace


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2))
        self.shift = torch.nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        a = self.first(x) + self.shift
        b = self.inner(y) * (self.shift + 1)
        return (a + b).relu(), a


def test_what_operators_are_supported():
    graph = symbolic_trace(lambda x: torch.tanh(x) + 1).graph
    x, tanh, add, _ = graph.nodes
    support = operator_support.OperatorSupport({"torch.tanh": None, "_operator.add": (((torch.float32,),), {})})
    assert support.is_node_supported({}, x) and support.is_node_supported({}, tanh)
    ShapeProp(graph_module := torch.fx.GraphModule({}, graph)).propagate(torch.ones(2, dtype=torch.float64))
    assert not support.is_node_supported({}, add)
    ShapeProp(graph_module).propagate(torch.ones(2))
    assert support.is_node_supported({}, add)
    refused = operator_support.OpSupports.decline_if_input_dtype(torch.float32)
    named = operator_support.OpSupports.decline_if_node_in_names({"tanh"})
    assert [s.is_node_supported({}, tanh) for s in (refused, named)] == [False, False]
    assert [s.is_node_supported({}, add) for s in (refused, named)] == [False, True]
    assert not operator_support.chain(support, named).is_node_supported({}, tanh)
    assert operator_support.any_chain(support, named).is_node_supported({}, tanh)


def test_names_of_targets():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    calls = {
        torch.relu: "torch.relu",
        operator.add: "_operator.add",
        len: "len",
        torch.ops.aten.add.Tensor: "torch.ops.aten.add.Tensor",
    }
    for function, name in calls.items():
        assert tools_common.get_node_target({}, graph.call_function(function, (x,))) == name
    assert tools_common.get_node_target({}, graph.call_method("relu", (x,))) == "relu"
    module = {"a": torch.nn.Linear(1, 1)}
    assert tools_common.get_node_target(module, graph.call_module("a", (x,))) == "torch.nn.modules.linear.Linear"
    with pytest.raises(AssertionError, match="found placeholder"):
        tools_common.get_node_target({}, x)


def test_nodes_are_put_in_order():
    module = symbolic_trace(lambda x, y: x.relu() + y)
    _, y, relu, add, out = module.graph.nodes
    y.prepend(relu)
    add.prepend(out)
    for sort in (tools_common.stable_topological_sort, tools_common.legalize_graph):
        sort(module).graph.lint()
    assert [n.name for n in module.graph.nodes] == ["x", "y", "relu", "add", "output"]


def adds(nodes=(operator.add, operator.getitem)):
    return operator_support.create_op_support(lambda modules, node: node.target in nodes)


def chained(a, b, c):
    first = a + b
    second = first + b
    third = second + c
    cut = third.relu()
    fourth = second + third
    fifth = second + cut + fourth
    last = fifth.relu() + fifth
    return fifth, last + fifth


def circular(a, b, c):
    first, second = a + 1.0, a + 1.5
    other, another = first.relu(), second.relu()
    return first + another, other + second, second + 1.2


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (chained, [{"add_7", "add_6"}, {"add_5", "add_4", "add_3"}, {"add_2", "add_1", "add"}]),
        (circular, [{"add_2", "add_3", "add_4"}, {"add", "add_1"}]),
        (lambda a, b, c: (a + b, a + c, b + c), [{"add", "add_1", "add_2"}]),
        (lambda a, b, c: torch.max(a, dim=0)[0] + b, [{"add"}]),
    ],
)
def test_partitions(function, expected):
    module = symbolic_trace(function)
    partitioner = CapabilityBasedPartitioner(module, adds(), allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    assert [{n.name for n in p.nodes} for p in partitions] == expected
    args = torch.ones(3), torch.ones(3), torch.ones(3)
    wanted = function(*args)
    fused = partitioner.fuse_partitions(partitions)
    assert str(fused(*args)) == str(wanted) and fused.code.count("self.fused_") == len(expected)
    assert len([n for n in fused.graph.nodes if n.op == "call_module"]) == len(expected)


def test_small_partitions_and_idle_ends():
    module = symbolic_trace(lambda x: (x + 1).relu())
    assert not CapabilityBasedPartitioner(module, adds()).propose_partitions()
    partitioner = CapabilityBasedPartitioner(module, adds(), allowed_single_node_partition_ops=["_operator.add"])
    assert len(partitioner.propose_partitions()) == 1
    module = symbolic_trace(lambda x: torch.neg(torch.neg(x) + 1))
    partitioner = CapabilityBasedPartitioner(module, adds((operator.add, torch.neg)), True, ["torch.neg"])
    partitions = partitioner.propose_partitions()
    assert [p.size() for p in partitions] == [3]
    partitioner.remove_bookend_non_compute_ops(partitions)
    assert [[n.name for n in p.nodes] for p in partitions] == [["add"]]


def test_nodes_become_a_module():
    net = Net()
    module = symbolic_trace(net)
    nodes = {n.name: n for n in module.graph.nodes}
    with pytest.raises(AssertionError, match="cycles"):
        fuser_utils.fuse_as_graphmodule(module, [nodes["first"], nodes["add_2"]], "part")
    chosen = [nodes[n] for n in ("add", "first", "shift")]
    assert [n.name for n in fuser_utils.topo_sort(chosen)] == ["first", "shift", "add"]
    fused = fuser_utils.fuse_by_partitions(module, [dict.fromkeys(chosen), dict.fromkeys([nodes["inner_0"]])])
    x = torch.ones(1, 2)
    assert torch.equal(fused(x, x)[0], net(x, x)[0]) and {n for n, _ in fused.named_children()} >= {
        "fused_0",
        "fused_1",
    }


@pytest.mark.parametrize(
    ("function", "pattern", "options", "count"),
    [
        (lambda x: torch.add(torch.neg(x), torch.neg(x)), lambda a: torch.neg(a), {}, 2),
        (lambda x: torch.neg(x), lambda a: torch.neg(a), {"match_output": True}, 1),
        (lambda x: torch.neg(x) + 1, lambda a: torch.neg(a), {"match_output": True}, 0),
        (lambda x: torch.neg(x.relu()), lambda a: torch.neg(a), {"match_placeholder": True}, 0),
        (lambda x: x.sigmoid().sigmoid().sigmoid(), lambda a: a.sigmoid().sigmoid(), {}, 1),
        (
            lambda x: x.sigmoid().sigmoid().sigmoid(),
            lambda a: a.sigmoid().sigmoid(),
            {"remove_overlapping_matches": False},
            2,
        ),
        (lambda x: x + 1, lambda a: a + 2, {}, 0),
        (lambda x: x + 1, lambda a: a + 2, {"ignore_literals": True}, 1),
        (lambda x: x.view([5, 1]), lambda a, b: a.view([b, 1]), {}, 1),
        (lambda x: x.view([5, 1]), lambda a, b: a.view([b, 1, 1]), {}, 0),
        (lambda x: (x.relu().sum(), x.relu()), lambda a: a.relu().sum(), {}, 1),
        (lambda x: (x.neg().sum(), x.neg().sigmoid()), lambda a: (a.sum(), a.sigmoid()), {}, 0),
        (lambda x: torch.ops.aten.add.Tensor(x, x), lambda a, b: torch.ops.aten.add.Tensor(a, a, alpha=b), {}, 1),
    ],
)
def test_matches(function, pattern, options, count):
    found = SubgraphMatcher(symbolic_trace(pattern).graph, **options).match(symbolic_trace(function).graph)
    assert len(found) == count


def test_what_is_used_outside_does_not_match():
    def function(x):
        inner = x.relu()
        return inner.sum() + inner

    assert not SubgraphMatcher(symbolic_trace(lambda x: x.relu().sum()).graph).match(symbolic_trace(function).graph)
    graphs = [symbolic_trace(f).graph for f in (function, lambda y: y.relu(), lambda z: z.relu())]
    assert compare_graphs(graphs[1], graphs[2]) and not compare_graphs(graphs[0], graphs[1])


def test_named_nodes_of_a_match():
    def pattern(x):
        inner = x.relu()
        return inner.sum(), {"inner": inner}

    (match,) = SubgraphMatcherWithNameNodeMap(symbolic_trace(pattern)).match(
        symbolic_trace(lambda y: y.relu().sum()).graph
    )
    assert match.name_node_map["inner"].name == "relu"


def test_sources():
    graph = symbolic_trace(lambda x: (x + 1).relu().sum()).graph
    _, add, relu, total, _ = graph.nodes
    add.meta["source_fn_stack"] = relu.meta["source_fn_stack"] = [("act", torch.nn.ReLU)]
    total.meta["source_fn_stack"] = [("sum", torch.sum)]
    found = get_source_partitions(graph, [torch.nn.ReLU, torch.sum])
    (act,), (end,) = found[torch.nn.ReLU], found[torch.sum]
    assert act.nodes == [add, relu] and [n.name for n in act.input_nodes] == ["x"] and act.output_nodes == [relu]
    assert check_subgraphs_connected(act, end) and not check_subgraphs_connected(end, act)


def test_parts_by_tags():
    net = Net()
    module = symbolic_trace(net)
    for node in module.graph.nodes:
        node.tag = "a" if node.name in ("first", "add") else "b" if node.name in ("inner_0", "add_1", "mul") else "c"
    for options in ({}, {"return_tuple": True}):
        parts, names = split_utils.split_by_tags(module, ["a", "b", "c"], return_fqn_mapping=True, **options)
        x = torch.ones(1, 2)
        assert torch.equal(parts(x, x)[0], net(x, x)[0]) and torch.equal(parts(x, x)[1], net(x, x)[1])
        assert names == {"first": "a.first", "shift": "b.shift", "inner.0": "b.inner.0"}
        assert [n.name for n in parts.graph.nodes][:4] == ["x", "y", "a", "getitem"] or not options
    with pytest.raises(AssertionError, match="upstream"):
        split_utils.split_by_tags(module, ["c", "a", "b"])
    assert split_utils.getattr_recursive(net, "inner.7.weight") is None
    split_utils.setattr_recursive(net, "inner.0", torch.nn.ReLU())
    assert type(net.inner[0]) is torch.nn.ReLU


def test_folded_constants():
    net = Net()
    folded = const_fold.split_const_subgraphs(net)
    x = torch.ones(1, 2)
    assert folded.const_subgraph_module is not None and not folded.has_folding_been_run
    assert torch.equal(folded(x, x)[0], net(x, x)[0]) and folded.has_folding_been_run
    assert "_FX_CONST_FOLDED_ATTRS" in dict(folded.named_parameters())
    assert const_fold.split_const_subgraphs(net, lambda node: node.op == "call_function").const_subgraph_module is None

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self._FX_CONST_FOLDED_ATTRS = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            kept = self._FX_CONST_FOLDED_ATTRS
            return x * (kept + 1) - kept * 3

    two = const_fold.split_const_subgraphs(Two())
    assert two.fx_const_folded_attrs_name == "_FX_CONST_FOLDED_ATTRS_1"
    assert two(torch.ones(2)).tolist() == [-1.0, -1.0]


class _TanhForRelu(PassBase):
    def call(self, module):
        found = module.graph.find_nodes(op="call_function", target=torch.relu)
        for node in found:
            node.target = torch.tanh
        return PassResult(module, bool(found))


def test_managers_of_passes(caplog):
    manager = PassManager([_TanhForRelu()], steps=3, run_checks_after_each_pass=True)
    checked = []
    manager.add_checks(lambda module: checked.append(module))
    result = manager(symbolic_trace(lambda x: torch.relu(x)))
    assert result.modified and result.graph_module(torch.zeros(1)).item() == 0.0 and len(checked) == 4
    with pytest.raises(TypeError, match="one variable"):
        manager.add_checks(lambda module, other: None)
    with pytest.raises(TypeError, match="PassResult"):
        PassManager([lambda module: None])(result.graph_module)
    assert PassManager([pass_result_wrapper(lambda module: None)])(result.graph_module).modified

    def one(x):
        return x + 1

    def two(x):
        return x * 2

    before = this_before_that_pass_constraint
    solved = PassManager([one, two], [before(two, one)])
    with pytest.raises(RuntimeError, match="constraint violated"):
        solved.validate_constraints()
    solved.solve_constraints()
    assert solved.passes == [two, one]
    with pytest.raises(RuntimeError, match="Circular"):
        PassManager([one, two], [before(two, one), before(one, two)]).solve_constraints()
    older = pass_manager.PassManager([one, two])
    older.replace_pass(two, pass_manager.loop_pass(one, n_iter=3))
    assert older(1) == 5
    older.remove_pass(["one"])
    assert older(1) == 1
    with caplog.at_level(logging.INFO):
        assert pass_manager.log_hook(two)(4) == 8 and "8" in caplog.text
    assert pass_manager.inplace_wrapper(lambda kept: None)(3) == 3


def test_values_computed_twice():
    module = torch.fx.experimental.proxy_tensor.make_fx(lambda x: (x + 1).cos() + (x + 1).cos() + torch.rand(2))(
        torch.ones(2)
    )
    done = CSEPass(banned_ops=get_CSE_banned_ops())(module)
    targets = [str(n.target) for n in done.graph_module.graph.nodes if n.op == "call_function"]
    assert done.modified and targets.count("aten.cos.default") == 1
    assert not CSEPass()(done.graph_module).modified


def test_what_runs_note():
    net = torch.nn.Linear(3, 2)
    module = symbolic_trace(lambda x: (x @ x.T).sum())
    assert FakeTensorProp(module).propagate(torch.ones(4, 3)).shape == ()
    assert [tuple(n.meta["val"].shape) for n in module.graph.nodes][2] == (4, 4)
    module = symbolic_trace(torch.nn.Sequential(net))
    graph_manipulation.get_size_of_all_nodes(module, [torch.ones(5, 3)])
    x, linear, _ = module.graph.nodes
    assert x.size_bytes == (60, 60) and linear.size_bytes == (40, 72)
    with pytest.raises(RuntimeError, match="no tensor metadata"):
        graph_manipulation.get_tensor_meta(next(iter(symbolic_trace(net).graph.nodes)))
    lift_lowering_attrs_to_nodes(module)
    assert set(linear.attrs_for_lowering) == {"name", "weight", "bias"}
    assert set(extract_attrs_for_lowering(torch.nn.ReLU())) == {"name"}
    module = symbolic_trace(lambda x: x.relu())
    graph_manipulation.replace_target_nodes_with(module, "call_method", "relu", "call_method", "neg")
    module.recompile()
    assert module(torch.ones(1)).item() == -1.0


def test_types_of_items():
    graph = torch.fx.Graph()
    kinds = {tuple[int, float]: float, tuple[int, ...]: int, list[str]: str, dict[int, bool]: bool}
    nodes = [graph.call_function(operator.getitem, (graph.placeholder("x", kind), 1)) for kind in kinds]
    annotate_getitem_nodes(graph)
    assert [n.type for n in nodes] == list(kinds.values())


def test_recorded_nodes_take_over_what_is_known():
    module = symbolic_trace(lambda x: x.relu())
    relu = module.graph.find_nodes(op="call_method")[0]
    relu.meta.update(stack_trace="here", quantization_tag=3, mine=1)
    assert not fx_traceback.has_preserved_node_meta()
    with fx_traceback.preserve_node_meta():
        recorded = torch.fx.experimental.proxy_tensor.make_fx(torch.fx.Interpreter(module).run)(torch.ones(2))
        with fx_traceback.annotate({"a": 1}), fx_traceback.annotate({"b": 2}):
            assert fx_traceback.get_current_meta() == {"custom": {"a": 1, "b": 2}}
        with fx_traceback.set_current_meta(relu):
            assert fx_traceback.format_stack() == ["here"]
    node = recorded.graph.find_nodes(op="call_function")[0]
    assert node.meta["quantization_tag"] == 3 and node.stack_trace == "here" and "mine" not in node.meta
    (source,) = node.meta["from_node"]
    assert source.name == "relu" and fx_traceback.NodeSource._from_dict(source.to_dict()) == source
    assert not fx_traceback.get_current_meta()
    assert fx_traceback.annotate_fn({"a": 1})(lambda: dict(fx_traceback.get_current_meta()))() == {"custom": {"a": 1}}
