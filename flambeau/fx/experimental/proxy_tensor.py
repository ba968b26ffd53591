"""Tracing by running: the operators of `torch.ops.aten` that a function runs below autograd, as a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..._core.state import local
from ..._core.symbolic import SymBool, SymFloat, SymInt
from ..._interception.torch_dispatch import RecordOperator
from ..._library.namespaces import ops as operators
from ..._library.schema_texts import is_random
from ..._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from ..._tensor import Tensor
from ...jit._tracing import placed_names
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...utils._python_dispatch import TorchDispatchMode
from ...utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from .._codegen import _PyTreeCodeGen, _PyTreeInfo
from .._recorded import add_call
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from ..immutable_collections import immutable_list
from ..interpreter import Interpreter
from ..node import Node
from .functional_recording import Values, functionalized

__all__ = [
    "DecompositionInterpreter", "ProxyTorchDispatchMode", "PythonKeyTracer", "dispatch_trace", "get_innermost_proxy_mode",
    "get_proxy_mode", "handle_sym_dispatch", "make_fx", "maybe_disable_thunkify", "maybe_enable_thunkify", "py_sym_types",
    "selective_decompose",
]  # fmt: skip

py_sym_types = (SymInt, SymFloat, SymBool)
aten = operators.aten


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes the operators that run while it is on into a graph, each with what came out (`node.meta["val"]`)."""

    def __init__(self, graph: Graph, decompositions: dict[Any, Callable[..., Any]] | None = None, fake: Any = None):
        super().__init__()
        self.graph, self.decompositions = graph, decompositions or {}
        self.attributes: dict[str, Tensor] = {}
        self.meta: dict[str, Any] = {}  # of nodes that are made now
        self._fake = fake or FakeTensorMode()
        self.values: Values | None = None  # while writes become values
        self._nodes: dict[int, tuple[Any, Node]] = {}  # by arrays, which detached and saved forms of a tensor share
        self._fixed: set[Node] = set()  # those whose values are the same in every run

    def bind(self, t: Tensor, node: Node) -> None:
        """Says that a tensor is the value of a node."""
        self._nodes[id(t._array)] = t._array, node

    def node_of(self, t: Tensor) -> Node:
        """The node of a tensor; one that was there before becomes an attribute."""
        known = self._nodes.get(id(t._array))
        if known is not None:
            return known[1] if self.values is None else self.values.renewed(t, known[1])
        kind = "_param_constant" if isinstance(t, Parameter) else "_tensor_constant"
        name = f"{kind}{sum(key.startswith(kind) for key in self.attributes)}"
        self.attributes[name] = t
        node = self.graph.create_node("get_attr", name)
        node.meta["val"] = self.described(t)
        self._fixed.add(node)
        self.bind(t, node)
        return node

    def described(self, t: Any) -> Any:
        return self._fake.from_tensor(t) if isinstance(t, Tensor) else t

    def encoded(self, a: Any) -> Any:
        """An argument with nodes for tensors."""
        if isinstance(a, Tensor):
            return self.node_of(a)
        if isinstance(a, (list, tuple)):
            return type(a)([self.encoded(x) for x in a]) if type(a) in (list, tuple) else [self.encoded(x) for x in a]
        return {k: self.encoded(v) for k, v in a.items()} if isinstance(a, dict) else a

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        other = self.decompositions.get(func)
        if other is not None:
            with self:
                return other(*args, **named)
        if func is aten.lift_fresh.default:  # each run of the graph may write into its own
            func = aten.lift_fresh_copy.default
        if func is aten._local_scalar_dense.default:
            self.elements_read(args[0])
            return func(*args)
        given = self.encoded((tuple(args), dict(named)))
        out = func(*args, **named)
        if self.values is None:
            self.add(func, *given, out)
        else:
            self.values.add(func, args, *given, out)
        return out

    def functionalized(self, function: Callable[[], Any], inputs: list[Any], copies: bool) -> Any:
        """What a function gives, whose writes are values in the graph; with `copies` its views are, too."""
        return functionalized(self, function, inputs, copies)

    def add(self, func: Any, given: Any, options: Any, out: Any) -> None:
        """Writes a call with encoded arguments that gave something."""
        several = isinstance(out, (list, tuple))
        val = [self.described(t) for t in out] if several else self.described(out)
        inputs = [a for a in tree_leaves((given, options)) if isinstance(a, Node)]
        fixed = self._fixed.issuperset(inputs) and not is_random(getattr(func, "_opname", ""))
        if not fixed and getattr(getattr(func, "_schema", None), "is_mutable", True):
            self._fixed.clear()  # it may have written into memory of theirs
        for t, node in zip(out if several else [out], add_call(self.graph, func, given, options, val, self.meta)):
            if isinstance(t, Tensor):
                self.bind(t, node)
            if fixed and node is not None:
                self._fixed.add(node)

    def knows(self, t: Tensor) -> bool:
        """Whether a tensor is the value of a node."""
        return id(t._array) in self._nodes

    def elements_read(self, t: Tensor) -> None:
        """Refuses to have the value of a tensor in the graph that other arguments change: nothing there would compute it."""
        known = self._nodes.get(id(t._array))
        if known is None or known[1] in self._fixed:
            return
        if isinstance(t, FakeTensor):
            raise DataDependentOutputException(aten._local_scalar_dense.default)
        raise RuntimeError(
            "It appears that you're trying to get value out of a tracing tensor with aten._local_scalar_dense.default - erroring out! "
            "It's likely that this is caused by data-dependent control flow or similar. Write it with operations on tensors, such as torch.where."
        )

    def refused_by(self, refusal: Any, t: Tensor, *args: Any) -> None:
        """Writes down that elements are checked."""
        if self.knows(t):
            add_call(self.graph, Check(refusal, refusal.name), self.encoded((t, *args)), {}, None, self.meta)


class Check(RecordOperator):
    """A check of elements, which raises or gives nothing."""

    _is_impure = True


def get_proxy_mode() -> Any:
    """The mode that is recording operations now; None if there is none."""
    modes = [mode for mode in local.dispatch_modes if isinstance(mode, ProxyTorchDispatchMode)]
    return modes[-1] if modes else None


get_innermost_proxy_mode = get_proxy_mode


def _argument_names(f: Any, count: int) -> list[str]:
    placed, more = placed_names(f)
    return [f"arg{i}" if more or i >= len(placed) else placed[i] for i in range(count)]


def make_fx(
    f: Callable[..., Any], decomposition_table: dict[Any, Callable[..., Any]] | None = None, tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False, record_module_stack: bool = False,
    _allow_fake_constant: bool = False, _error_on_data_dependent_ops: bool = True, record_stack_traces: bool = False,
    proxy_module_inputs: bool = False, _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., GraphModule]:  # fmt: skip
    """A function that runs `f` on arguments and gives the operators that it ran, with derivatives' ones, as a module.

    `tracing_mode` "fake" runs without elements. Sizes are those of the arguments. What is recorded lies below autograd, whose
    operators have no lines or modules of their own: `record_module_stack` and `record_stack_traces` add nothing, as in PyTorch.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.proxy_tensor import make_fx
    >>> traced = make_fx(lambda x: torch.relu(x) * 2)(torch.ones(3))
    >>> print(traced.code.strip())
    def forward(self, x_1):
        relu = torch.ops.aten.relu.default(x_1);  x_1 = None
        mul = torch.ops.aten.mul.Tensor(relu, 2);  relu = None
        return mul
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing mode: {tracing_mode}")
    if tracing_mode == "symbolic":
        raise NotImplementedError(
            "make_fx: sizes are numbers below autograd; torch.export.export with dynamic_shapes gives graphs whose sizes change"
        )

    if proxy_module_inputs:
        raise NotImplementedError("make_fx: modules among the arguments cannot be proxies; trace a function of tensors")

    def wrapped(*args: Any) -> GraphModule:
        return _traced(f, args, decomposition_table or {}, tracing_mode == "fake")

    return wrapped


def _traced(f: Any, args: tuple[Any, ...], table: dict[Any, Any], fake: bool) -> GraphModule:
    leaves, spec = tree_flatten(args)
    given_mode = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), None)
    graph, mode = Graph(), given_mode or FakeTensorMode(allow_non_fake_inputs=True)
    recorder = ProxyTorchDispatchMode(graph, table, mode)
    names = [name for name, a in zip(_argument_names(f, len(args)), args) for _ in tree_leaves(a)]
    given = []
    for name, leaf in zip(names, leaves):
        node = graph.placeholder(f"{name}_1")
        node.target = node.name  # another one for each leaf of an argument
        if isinstance(leaf, Tensor):
            leaf = mode.from_tensor(leaf) if fake else leaf
            node.meta["val"] = recorder.described(leaf)
            recorder.bind(leaf, node)
        given.append(leaf)
    with mode if fake else contextlib.nullcontext(), recorder:
        out = f(*tree_unflatten(given, spec))
    results, out_spec = tree_flatten(out)
    found = [recorder.node_of(r) if isinstance(r, Tensor) else r for r in results]
    flat_in = all(not isinstance(a, (list, tuple, dict)) for a in args)
    if flat_in and out_spec.is_leaf():
        graph.output(found[0])
    elif flat_in and out_spec.type in (tuple, list) and all(c.is_leaf() for c in out_spec.children_specs):
        graph.output(tuple(found) if out_spec.type is tuple else immutable_list(found))
    else:
        graph.output(found)
        arguments = _argument_names(f, len(args))
        inner = tree_flatten(list(args))[1]
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(arguments, inner, out_spec)))
    name = type(f).__name__ if isinstance(f, Module) else getattr(f, "__name__", "GraphModule")
    return GraphModule(recorder.attributes, graph, name if name.isidentifier() else "GraphModule")


def dispatch_trace(root: Any, tracer: Any, concrete_args: Any = None) -> GraphModule:
    """What a tracer makes of a module or function, as a module.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.proxy_tensor import dispatch_trace
    >>> dispatch_trace(lambda x: x + 1, torch.fx.Tracer())(torch.ones(1))
    tensor([2.])
    """
    graph = tracer.trace(root, concrete_args)
    name = (
        type(root).__name__
        if not callable(getattr(root, "__name__", None)) and hasattr(root, "forward")
        else root.__name__
    )
    return GraphModule(tracer.root, graph, name)


@contextlib.contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """Lets sizes be computed when they are needed; they are numbers already."""
    yield


@contextlib.contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    """Has sizes computed at once; they are numbers already."""
    yield


class PythonKeyTracer(Tracer):
    """A tracer that goes into all modules, and for which parameters are attributes of the graph's module."""

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return False

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return forward(*args, **kwargs)


def handle_sym_dispatch(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function of sizes while operations are recorded: sizes are numbers, so that its value is what counts."""
    if get_proxy_mode() is None:
        raise AssertionError("handle_sym_dispatch: nothing records operations now")
    return func(*args, **kwargs)


class DecompositionInterpreter(Interpreter):
    """Runs a graph and writes what it runs into a new one, operators that a table has in simpler ones.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.proxy_tensor import DecompositionInterpreter, make_fx
    >>> module, graph = make_fx(lambda x: torch.relu(x) * 2)(torch.ones(1)), torch.fx.Graph()
    >>> _ = DecompositionInterpreter(module, graph, {torch.ops.aten.relu.default: lambda x: x * (x > 0)}).run(torch.ones(1))
    >>> [node.name for node in graph.nodes]
    ['x_1', 'gt', 'mul', 'mul_1', 'output']
    """

    def __init__(
        self,
        module: GraphModule,
        new_graph: Graph,
        decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, **kwargs)
        self.new_graph, self.decomposition_table = new_graph, dict(decomposition_table or {})
        self.mode = ProxyTorchDispatchMode(new_graph, self.decomposition_table)

    def _noted(self, value: Any, node: Node) -> Any:
        if isinstance(value, Tensor):
            node.meta["val"] = self.mode.described(value)
            self.mode.bind(value, node)
        return value

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._noted(super().placeholder(target, args, kwargs), self.new_graph.placeholder(target))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._noted(super().get_attr(target, args, kwargs), self.new_graph.get_attr(target))

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        out = super().output(target, args, kwargs)
        self.new_graph.output(self.mode.encoded(out))
        return out

    def run(self, *args: Any, **kwargs: Any) -> Any:
        with self.mode:
            return super().run(*args, **kwargs)


class _Selective(DecompositionInterpreter):
    """Decomposes some nodes."""

    should_decompose: Callable[..., bool]

    def run_node(self, n: Node) -> Any:
        chosen = n.op == "call_function" and self.should_decompose(n)
        self.mode.decompositions = self.decomposition_table if chosen else {}
        return super().run_node(n)


def selective_decompose(
    joint_gm: GraphModule,
    *args: Any,
    decomposition: Mapping[Any, Callable[..., Any]] | None,
    should_decompose: Callable[..., bool],
    trace_joint_graph: bool,
) -> GraphModule:
    """A graph in which the nodes that a function chooses are decomposed by a table; it runs on `args` for that.

    With `trace_joint_graph` the arguments are those of a pass forward and back, `(primals, tangents)`.
    """
    graph = Graph()
    runner = _Selective(joint_gm, graph, decomposition)
    runner.should_decompose = should_decompose
    runner.run(*(tree_leaves(args) if trace_joint_graph else args))
    kept = {node.target: runner.fetch_attr(node.target) for node in joint_gm.graph.nodes if node.op == "get_attr"}
    made = GraphModule({**kept, **runner.mode.attributes}, graph)
    graph.eliminate_dead_code()
    made.recompile()
    return made
