"""Questions about sizes, tracing by other tracers, splitting and wrappers: what is real, and what says that it is missing."""

import importlib.util

import pytest

import flambeau as torch
from flambeau.fx.experimental import proxy_tensor, symbolic_shapes
from flambeau.fx.passes import graph_drawer, splitter_base
from flambeau.utils import _python_dispatch


def test_sizes_are_numbers():
    assert symbolic_shapes.create_contiguous((2, 3, 4)) == [12, 4, 1]
    assert symbolic_shapes.create_contiguous(()) == []
    assert symbolic_shapes.sym_eq((1, (2, 3)), (1, (2, 3))) and not symbolic_shapes.sym_eq((1, 2), (1, 2, 3))
    assert symbolic_shapes.sym_and(True, True) and not symbolic_shapes.sym_and(True, False)
    assert symbolic_shapes.sym_or(False, True) and not symbolic_shapes.sym_or(False, False)
    assert [symbolic_shapes.guard_scalar(a) for a in (True, 3, 2.5)] == [True, 3, 2.5]
    assert symbolic_shapes.ConvertIntKey().get(True) == 1
    with pytest.raises(AssertionError, match="unrecognized scalar"):
        symbolic_shapes.guard_scalar("x")


def test_values_stay_as_they_were():
    symbolic_shapes.check_consistent(torch.ones(2), torch.zeros(2))
    with pytest.raises(RuntimeError, match=r"torch.Size\(\[3\]\) != torch.Size\(\[2\]\)"):
        symbolic_shapes.check_consistent(torch.ones(2), torch.ones(3))
    with pytest.raises(RuntimeError, match="3 != 2"):
        symbolic_shapes.check_consistent(2, 3)


def test_tracing():
    class Leafy(torch.fx.Tracer):
        def is_leaf_module(self, m, name):
            return False

    made = proxy_tensor.dispatch_trace(torch.nn.Sequential(torch.nn.ReLU()), Leafy())
    assert [n.op for n in made.graph.nodes] == ["placeholder", "call_function", "output"]
    assert made(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    with pytest.raises(NotImplementedError):
        symbolic_shapes.ShapeEnv()


def test_inputs_of_parts():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Sequential(torch.nn.ReLU()))
    found = splitter_base.generate_inputs_for_submodules(model, (torch.ones(1, 1),), ["1", "1.0"])
    assert set(found) == {"1", "1.0"} and torch.equal(found["1"][0], model[0](torch.ones(1, 1)))
    assert not model[1]._forward_pre_hooks


def test_pictures_need_pydot():
    if importlib.util.find_spec("pydot"):
        pytest.skip("pydot is installed")
    with pytest.raises(RuntimeError, match="pydot"):
        graph_drawer.FxGraphDrawer(torch.fx.symbolic_trace(torch.nn.ReLU()), "x")


class _Pair(torch.Tensor):
    """A wrapper of two tensors."""

    @staticmethod
    def of(first, second):
        made = (first + second).as_subclass(_Pair)
        made.first, made.second = first, second
        return made

    def __tensor_flatten__(self):
        return ["first", "second"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return _Pair.of(inner["first"], inner["second"])


def test_wrappers_around_other_tensors():
    made = _python_dispatch.transform_subclass(_Pair.of(torch.ones(2), torch.zeros(2)), lambda name, t: t + 1)
    assert (made.first.tolist(), made.second.tolist()) == ([2.0, 2.0], [1.0, 1.0])
    with pytest.raises(AssertionError, match="same shape"):
        _python_dispatch.transform_subclass(made, lambda name, t: t[:1])
    x, out = torch.ones(1), torch.zeros(1)
    aliasing = _python_dispatch.return_and_correct_aliasing
    assert aliasing(torch.ops.aten.add_.Tensor, (x, 1), {}, out) is x
    assert aliasing(torch.ops.aten.add.Tensor, (x, 1), {}, out) is out
    assert aliasing(torch.ops.aten.add.Tensor, (x, 1), {"out": x}, out) is x


def test_whether_a_mode_below_autograd_is_on():
    assert not _python_dispatch.is_in_torch_dispatch_mode()
    with _python_dispatch.BaseTorchDispatchMode():
        assert _python_dispatch.is_in_torch_dispatch_mode()
    with torch._subclasses.FakeTensorMode():
        assert _python_dispatch.is_in_torch_dispatch_mode()
        assert not _python_dispatch.is_in_torch_dispatch_mode(include_infra_modes=False)
        with _python_dispatch.TorchDispatchMode():
            assert _python_dispatch.is_in_torch_dispatch_mode(include_infra_modes=False)


def test_what_is_said_of_sizes_is_kept():
    from flambeau.fx.experimental import symbolic_shapes as S

    context = S.StatelessSymbolicContext([S.DimDynamic.DYNAMIC, S.DimDynamic.STATIC])
    assert context.dynamic_strides == [S.DimDynamic.INFER_STRIDE] * 2 and context.constraint_sizes == [None, None]
    with pytest.raises(AssertionError, match="strides"):
        S.StatelessSymbolicContext([S.DimDynamic.STATIC], [S.DimDynamic.STATIC])
    inner = S.SubclassSymbolicContext([], tensor_source="x", inner_contexts={"a": context})
    assert isinstance(inner, S.StatefulSymbolicContext) and inner.inner_contexts["a"] is context
    assert S.SymIntEqByExpr(3) == S.SymIntEqByExpr(3) != S.SymIntEqByExpr(4)


def test_nodes_for_an_accelerator(tmp_path, capsys):
    import operator

    from flambeau.fx.passes.splitter_base import FxNetAccNodesFinder, NodeEventTracker

    class Supported:
        def is_node_supported(self, submodules, node):
            return node.op == "call_method" or node.target in (torch.relu, operator.mul, operator.add)

    def function(x):
        return torch.sin(torch.relu(x) * x.size(0)) + 1

    traced = torch.fx.symbolic_trace(function)
    names = lambda found: sorted(node.name for node in found)
    assert names(FxNetAccNodesFinder(traced, Supported(), True)()) == ["add", "mul", "relu", "size"]
    assert names(FxNetAccNodesFinder(traced, Supported(), False)()) == []  # nothing says what nodes give
    for node in traced.graph.nodes:
        node.meta["type"] = int if node.name == "size" else torch.Tensor
    assert names(FxNetAccNodesFinder(traced, Supported(), False)()) == ["add", "mul", "relu", "size"]
    tracker, nodes = NodeEventTracker(1, str(tmp_path / "x")), list(traced.graph.nodes)
    tracker.add(nodes[1], "moved", nodes[0])
    assert tracker.to_dict() == {"relu": ["relu: moved x"]}
    tracker.dump()
    assert (tmp_path / "x_events.txt").read_text() == "Node: relu:\n  relu: moved x\n"
