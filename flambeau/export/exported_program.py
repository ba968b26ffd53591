"""`ExportedProgram`: the graph of a module with its parameters, buffers and constants, and modules that run it."""

from __future__ import annotations

import copy
import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from .._core.expressions import Expr
from .._core.symbolic import SymInt
from .._library.namespaces import ops
from .._tensor import Tensor
from ..fx import Graph, GraphModule
from ..fx import Node as FxNode
from ..fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..utils._pytree import TreeSpec, tree_flatten, tree_map
from .graph_signature import ArgumentSpec, ConstantArgument, ExportGraphSignature, InputKind, OutputKind

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """Arguments and results of the call of a submodule."""

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original: str, new: str) -> None:
        """Gives a node another name."""
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original:
                arg.name = new


@dataclasses.dataclass
class ModuleCallEntry:
    """A submodule whose operators are in the graph, and its signature if it was asked for."""

    fqn: str
    signature: ModuleCallSignature | None = None


class CallSpec(NamedTuple):
    """The structure of arguments and results."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


class ValueRanges(NamedTuple):
    """The smallest and the largest value of a number; None is no limit."""

    lower: int | None
    upper: int | None = None

    def __repr__(self) -> str:
        return (
            f"VR[{'-int_oo' if self.lower is None else self.lower}, {'int_oo' if self.upper is None else self.upper}]"
        )


class _CodeGen(_PyTreeCodeGen):
    """Takes arguments by position and by name apart along the structure of those that were exported."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names = [name.partition(":")[0].partition("=")[0].strip() for name in free_vars]
        given = self.pytree_info.orig_args
        by_name = self.pytree_info.in_spec.child(1).context
        placed = given[: len(given) - len(by_name)]
        head = f"def {self._func_name}({', '.join(['self', *given])}){maybe_return_annotation}:"
        if not names:
            return head
        keywords = ", ".join(f"{k!r}:{k}" for k in by_name)
        tree = f"([{', '.join(placed)}], {{{keywords}}})"
        return f"{head}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec({tree}, self._in_spec)"


class GuardsFn(Module):
    """Checks that arguments are such as the graph was made for."""

    _is_impure = True  # it is no dead code

    def __init__(self, checks: list[tuple[str, Any]]):
        super().__init__()
        self.checks = checks

    def forward(self, *args: Any) -> None:
        for text, holds in self.checks:
            if not holds(args):
                raise AssertionError(f"Guard failed: {text}")


class ExportedProgram:
    """The graph of a module: operators of `torch.ops.aten` over parameters, buffers, constants and arguments.

    >>> import flambeau as torch
    >>> ep = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> [str(node.target) for node in ep.graph.nodes if node.op == "call_function"]
    ['aten.linear.default']
    >>> ep.module()(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, graph_signature: ExportGraphSignature, state_dict: dict[str, Any],
        range_constraints: dict[Any, ValueRanges], module_call_graph: list[ModuleCallEntry], example_inputs: Any = None,
        constants: dict[str, Any] | None = None, *, verifiers: Any = None,
    ):  # fmt: skip
        self._graph_module = GraphModule(root, graph)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints, self._module_call_graph = range_constraints, module_call_graph
        self._example_inputs, self._constants = example_inputs, constants or {}
        self._guards: list[str] = []
        self._dialect = "TRAINING"

    # -- parts -----------------------------------------------------------------------------------------------------------

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module whose arguments are all inputs of the signature."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the inputs and outputs of the graph are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by their paths."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Constants and buffers that are not part of the state, by their names."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """The constants that are tensors."""
        return self._constants

    @property
    def range_constraints(self) -> dict[Any, ValueRanges]:
        """The limits of sizes that change."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The submodules whose operators are in the graph, beginning with the whole."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> Any:
        """The arguments that the module was exported with: (args, kwargs)."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        if value is not None and not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict)):
            raise ValueError(f"example_inputs should be a tuple of (args, kwargs), got {type(value).__name__}")
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """The structure of arguments and results."""
        signature = self._module_call_graph[0].signature if self._module_call_graph else None
        return CallSpec(None, None) if signature is None else CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self) -> str:
        """Which operators the graph may have: "TRAINING" or "ATEN"."""
        return self._dialect

    def parameters(self) -> Iterator[Any]:
        """The parameters."""
        for _, p in self.named_parameters():
            yield p

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters with their paths."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Any]:
        """The buffers."""
        for _, b in self.named_buffers():
            yield b

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """The buffers with their paths."""
        for name in self.graph_signature.buffers:
            yield name, self.state_dict[name] if name in self.state_dict else self.constants[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).rstrip("\n")
        code = textwrap.indent(code, "    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n{code}\n\nGraph signature: {signature}\nRange constraints: {self.range_constraints}\n"
        )

    # -- modules that run it -----------------------------------------------------------------------------------------------

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that takes the arguments of the one that was exported and does the same; its state is the program's."""
        return _unlifted(self, check_guards)

    def run_decompositions(
        self, decomp_table: dict[Any, Any] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """The program in simpler operators that write to no input: new values of buffers and arguments are outputs.

        >>> import flambeau as torch
        >>> ep = torch.export.export(torch.nn.BatchNorm1d(2), (torch.ones(3, 2),)).run_decompositions()
        >>> list(ep.graph_signature.buffers_to_mutate.values())
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        from ._decompositions import decomposed  # which makes programs

        return decomposed(self, default_decompositions() if decomp_table is None else decomp_table)

    def validate(self) -> None:
        """Raises unless graph and signature fit together."""
        self.graph.lint()
        names = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        if names != [s.arg.name for s in self.graph_signature.input_specs]:
            raise RuntimeError("the inputs of the graph are not those of its signature")

    _validate = validate

    def _update(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature, **changed: Any
    ) -> ExportedProgram:
        made = ExportedProgram(
            graph_module, copy.deepcopy(graph_module.graph), graph_signature, changed.get("state_dict", self.state_dict),
            dict(self.range_constraints), copy.deepcopy(self.module_call_graph), self.example_inputs,
            changed.get("constants", self.constants),
        )  # fmt: skip
        made._guards, made._dialect = self._guards, self._dialect
        return made


def default_decompositions() -> dict[Any, Any]:
    """The operators that `run_decompositions` takes apart, with the rules by which it does; what is removed stays whole."""
    from ._decompositions import TABLE  # which makes programs

    return dict(TABLE)


# -- the graph over attributes -------------------------------------------------------------------------------------------------


def _unlifted(ep: ExportedProgram, check_guards: bool) -> GraphModule:
    graph, copies, root = Graph(), {}, Module()
    specs = {s.arg.name: s for s in ep.graph_signature.input_specs}
    signature = ep.module_call_graph[0].signature
    assert signature is not None
    leaves: list[FxNode] = []
    for node in ep.graph.nodes:  # arguments come first
        if node.op == "placeholder" and specs[node.name].kind is InputKind.USER_INPUT:
            copies[node] = graph.node_copy(node)
            copies[node].name = copies[node].target = node.name
            leaves.append(node)
    for node in ep.graph.nodes:
        if node.op == "placeholder" and node not in copies:
            path = specs[node.name].target
            _place(root, path, ep, specs[node.name])
            copies[node] = graph.create_node("get_attr", path, name=path.replace(".", "_"))
            copies[node].meta = dict(node.meta)
    if check_guards:
        root.add_module("_guards_fn", GuardsFn(guards_of(ep, leaves)))
        graph.create_node("call_module", "_guards_fn", tuple(copies[n] for n in leaves))
    for node in ep.graph.nodes:
        if node.op == "output":
            graph.output(_written_back(ep, graph, [copies.get(n, n) for n in node.args[0]], copies))
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    names = signature.forward_arg_names
    if names is None:
        names = [f"arg_{i}" for i in range(signature.in_spec.child(0).num_children)] + list(
            signature.in_spec.child(1).context
        )
    graph.set_codegen(_CodeGen(_PyTreeInfo(names, signature.in_spec, signature.out_spec)))
    made = GraphModule(root, graph)
    if check_guards:
        made.add_module("_guards_fn", root._guards_fn)
    made.register_forward_pre_hook(_checked_structure(signature.in_spec, names), with_kwargs=True)
    for name in ("train", "eval"):
        object.__setattr__(made, name, _unsupported(name))
    return made


def _unsupported(name: str) -> Any:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return refuse


def _place(root: Module, path: str, ep: ExportedProgram, spec: Any) -> None:
    """Puts a parameter, buffer or constant at its path."""
    *way, last = path.split(".")
    value = ep.state_dict[path] if path in ep.state_dict else ep.constants[path]
    for name in way:
        if name not in root._modules:
            root.add_module(name, Module())
        root = root._modules[name]
    if isinstance(value, Parameter):
        root.register_parameter(last, value)
    elif isinstance(value, Tensor):
        root.register_buffer(last, value, persistent=spec.kind is InputKind.BUFFER and bool(spec.persistent))
    else:
        setattr(root, last, value)


def _written_back(ep: ExportedProgram, graph: Graph, outputs: list[Any], copies: dict[Any, Any]) -> tuple[Any, ...]:
    """Writes outputs that are new values of buffers and arguments to these; gives the others."""
    targets = {s.target: s.arg.name for s in ep.graph_signature.input_specs if s.target is not None}
    nodes = {n.name: n for n in ep.graph.nodes if n.op == "placeholder"}
    kept = []
    for spec, out in zip(ep.graph_signature.output_specs, outputs):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            target = copies[nodes[targets[spec.target]]]
            if spec.kind is OutputKind.PARAMETER_MUTATION:  # gradients were off where it was written
                target = graph.call_function(ops.aten.detach.default, (target,))
            graph.call_function(ops.aten.copy_.default, (target, out))
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            graph.call_function(ops.aten.copy_.default, (copies[nodes[str(spec.target)]], out))
        else:
            kept.append(out)
    return tuple(kept)


def _checked_structure(in_spec: TreeSpec, names: list[str]) -> Any:
    by_name = list(in_spec.child(1).context)
    placed = names[: len(names) - len(by_name)]

    def check(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        given = list(args)
        kwargs = dict(kwargs)
        for name in placed[len(given) :]:  # by position when exported, by name now
            if name in kwargs:
                given.append(kwargs.pop(name))
        if set(kwargs) != set(by_name):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {by_name}"
            )
        kwargs = {k: kwargs[k] for k in by_name}
        try:
            in_spec.flatten_up_to((tuple(given), kwargs))
        except ValueError:
            found = tree_flatten((tuple(given), kwargs))[1]
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{in_spec}\nbut actually got inputs with tree spec "
                f"of: \n{found}.\nPlease check that the inputs have the same number and type of args and kwargs as the ones you "
                "used when tracing."
            ) from None
        return tuple(given), kwargs

    return check


# -- what arguments must be like -------------------------------------------------------------------------------------------------


def guards_of(ep: ExportedProgram, leaves: list[FxNode]) -> list[tuple[str, Any]]:
    """(text, check of the arguments' leaves) for everything that the graph takes for granted of its arguments."""
    checks: list[tuple[str, Any]] = []
    where: dict[str, tuple[int, int, str]] = {}  # symbols that are sizes of arguments
    derived: list[tuple[int, int, str, Expr]] = []
    specs = {s.arg.name: s.arg for s in ep.graph_signature.input_specs}
    for i, leaf in enumerate(leaves):
        val, arg = leaf.meta.get("val"), specs[leaf.name]
        if isinstance(arg, ConstantArgument):
            if arg.value is not None and isinstance(arg.value, (int, float, str)):
                checks.append((f"{leaf.name} == {arg.value!r}", lambda a, i=i, v=arg.value: a[i] == v))
            continue
        if isinstance(val, SymInt):
            where.setdefault(str(val.node), (i, -1, leaf.name))
        if not isinstance(val, Tensor):
            continue
        for d, size in enumerate(val.shape):
            text = f"{leaf.name}.size()[{d}]"
            e = size.node if isinstance(size, SymInt) else None
            if not isinstance(e, Expr):
                checks.append((f"{text} == {int(size)}", lambda a, i=i, d=d, n=int(size): _size(a[i], d) == n))
            elif e.is_symbol and str(e) not in where:
                where[str(e)] = i, d, text
            else:
                derived.append((i, d, text, e))
        rank = val.dim()
        checks.append((f"{leaf.name}.dim() == {rank}", lambda a, i=i, r=rank: a[i].dim() == r))

    def known(a: Any) -> dict[str, int]:
        return {name: _size(a[i], d) for name, (i, d, _) in where.items()}

    for name, (i, d, text) in where.items():
        limits = ep.range_constraints.get(_key(ep, name))
        if limits is None:
            continue
        if limits.lower is not None and limits.lower > 2:  # sizes 0 and 1 are tried, as in PyTorch
            checks.append((f"{text} >= {limits.lower}", lambda a, i=i, d=d, n=limits.lower: _size(a[i], d) >= n))
        if limits.upper is not None:
            checks.append((f"{text} <= {limits.upper}", lambda a, i=i, d=d, n=limits.upper: _size(a[i], d) <= n))
    for i, d, text, e in derived:
        if not e.symbols <= where.keys():
            solved = _solved(e, i, d, where)
            if solved is None:
                continue
            checks.append((f"{text} % {solved[1]} == {solved[2]}", solved[0]))
            continue
        shown = str(e)
        for name in sorted(e.symbols, key=len, reverse=True):
            shown = shown.replace(name, where[name][2])
        checks.append((f"{text} == {shown}", lambda a, i=i, d=d, e=e: _size(a[i], d) == e.value(known(a))))
    return checks


def _key(ep: ExportedProgram, name: str) -> Any:
    return next((k for k in ep.range_constraints if str(k) == name), None)


def _size(t: Any, dim: int) -> int:
    if not isinstance(t, Tensor):
        return t if dim < 0 and isinstance(t, int) else -1
    return int(t._array.shape[dim]) if dim < t._array.ndim else -1


def _solved(e: Expr, i: int, d: int, where: dict[str, tuple[int, int, str]]) -> Any:
    """For a size a * s + b, where s is no size itself: what is left when a size is divided by a."""
    linear = e.linear()
    if linear is None or linear[1] <= 0:
        return None
    _, factor, offset = linear
    return (lambda a: (_size(a[i], d) - offset) % factor == 0), factor, offset % factor


def with_examples(ep: ExportedProgram, change: Any) -> Any:
    """The example arguments with every tensor changed."""
    return tree_map(lambda x: change(x) if isinstance(x, Tensor) else x, ep.example_inputs)
