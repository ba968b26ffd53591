"""A model cut into stages: its exported graph, taken apart where `pipe_split` was called."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from ..._core.state import local
from ..._tensor import Tensor
from ...export._export import exported
from ...export._recording import Recorder
from ...export.exported_program import ExportedProgram
from ...export.graph_signature import InputKind
from ...export.unflatten import Program, _Scope, _tensor_of
from ...fx import Graph, GraphModule, Node
from ...nn.modules.module import Module
from ...utils._pytree import tree_flatten

__all__ = ["Pipe", "SplitPoint", "annotate_split_points", "pipe_split", "pipeline"]


class SplitPoint(enum.Enum):
    """Where a model is cut: before a submodule, or after it."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """In a `forward`: what follows belongs to the next stage. Nothing happens unless `pipeline` looks at the model."""
    mode = local.function_modes[-1] if local.function_modes else None
    if isinstance(mode, Recorder):
        mode.part += 1


def annotate_split_points(mod: Module, spec: dict[str, SplitPoint]) -> list[Any]:
    """Has submodules begin or end a stage; gives the handles that take this back."""
    handles = []
    for path, point in spec.items():
        part = mod.get_submodule(path)
        if point is SplitPoint.BEGINNING:
            handles.append(part.register_forward_pre_hook(lambda *_: pipe_split()))
        elif point is SplitPoint.END:
            handles.append(part.register_forward_hook(lambda *_: pipe_split()))
        else:
            raise ValueError("Unknown split point type.")
    return handles


class PipeInfo(NamedTuple):
    """What a process knows of stages that are not its own."""

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool
    links: tuple[tuple[tuple[int, int], ...], ...] = ()


class Pipe(Module):
    """A model in stages, `submod_pp_0`, `submod_pp_1`, …; called, it runs them one after the other.

    `links` says for each stage where its inputs come from: (stage, which of its results), with -1 for the model's arguments.
    """

    def __init__(
        self, split_gm: GraphModule, num_stages: int, has_loss_and_backward: bool = False, loss_spec: Any = None
    ):
        super().__init__()
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec
        self.links: tuple[tuple[tuple[int, int], ...], ...] = ()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the last stage."""
        return self.split_gm(*tree_flatten((args, kwargs))[0])

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of one stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        found: Module = getattr(self.split_gm, f"submod_pp_{stage_idx}")
        return found

    def info(self) -> PipeInfo:
        """What `build_stage` needs besides the module of a stage."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward, self.links)

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> Any:
        """One stage, for this process."""
        from .stage import build_stage  # the stage's file imports this one

        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def __str__(self) -> str:
        return str(self.split_gm)

    __repr__ = __str__


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:
    """A model in stages, for parts of batches like the example. It is cut where `split_spec` says (paths of submodules), or
    where its `forward` calls `pipe_split`.

    >>> import flambeau as torch
    >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> pipe = pipeline(net, (torch.ones(4, 2),), split_spec={"1": SplitPoint.BEGINNING})
    >>> pipe.num_stages, sorted(pipe.get_stage_module(1).state_dict())
    (2, ['2.bias', '2.weight'])
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    if split_policy is not None:
        raise NotImplementedError(
            "pipeline: split_policy changes graphs of PyTorch's; give split_spec, or call pipe_split"
        )
    with ExitStack() as stack:
        for handle in annotate_split_points(module, split_spec or {}):
            stack.callback(handle.remove)
        program = exported(module, tuple(mb_args), mb_kwargs)
    return _cut(program, module)


def _cut(ep: ExportedProgram, module: Module) -> Pipe:
    specs = {s.arg.name: s for s in ep.graph_signature.input_specs}
    placeholders = [n for n in ep.graph.nodes if n.op == "placeholder"]
    leaves = [n for n in placeholders if specs[n.name].kind is InputKind.USER_INPUT]
    state = {
        n: (str(specs[n.name].target), _tensor_of(ep, specs[n.name])) for n in placeholders if n not in set(leaves)
    }
    results = list(ep.graph.output_node().args[0])
    nodes = [n for n in ep.graph.nodes if n.op == "call_function"]
    home = {n: n.meta.get("part", 0) for n in nodes}
    count = max(home.values(), default=0) + 1
    last = count - 1
    for leaf in leaves:
        home[leaf] = -1
    uses: dict[Node, set[int]] = {n: {home[u] for u in n.users if u in home} for n in home}
    for result in results:
        if isinstance(result, Node):
            uses[result].add(last)
    for node, (path, _) in state.items():
        places = sorted({home[u] for u in node.users if u in home})
        if len(places) > 1 and specs[node.name].kind is InputKind.PARAMETER:
            warnings.warn(f"pipeline: {path} is used by stages {places}: each trains a copy of its own", stacklevel=3)
    graph, made, links = Graph(), dict[Node, Any](), list[Any]()
    whole: dict[str, Module] = {}
    for leaf in leaves:
        made[leaf] = graph.placeholder(leaf.name)
    sources = {leaf: (-1, i) for i, leaf in enumerate(leaves)}
    for stage in range(count):
        own = [n for n in nodes if home[n] == stage]
        wanted = [n for n in own if any(s > stage for s in uses[n])]
        if stage == 0:  # the model's arguments are given to the first stage alone, which passes them on
            wanted += [leaf for leaf in leaves if any(s > 0 for s in uses[leaf])]
        if stage == last:
            wanted = list(dict.fromkeys(r for r in results if isinstance(r, Node)))
        scope = _Scope(Program(state, {}, {}), "", 1, own, wanted)
        if stage == 0:  # it takes all arguments, in their order
            _takes(scope, leaves)
        if len(wanted) == 1:
            scope.graph.output_node().args = (scope.graph.output_node().args[0][0],)
        scope.module.recompile()
        scope.module.train(module.training)
        name = f"submod_pp_{stage}"
        whole[name] = scope.module
        links.append(tuple(sources[n] for n in scope.inputs))
        call = graph.create_node("call_module", name, tuple(made[n] for n in scope.inputs), name=name)
        for i, out in enumerate(wanted):
            made[out] = call if len(wanted) == 1 else graph.call_function(_item, (call, i))
            sources[out] = (stage, i)
    graph.output(tuple(made[r] if isinstance(r, Node) else r for r in results))
    pipe = Pipe(GraphModule(whole, graph), count)
    pipe.links = tuple(links)
    return pipe


def _takes(scope: _Scope, leaves: list[Node]) -> None:
    """Gives a stage's graph a placeholder for every argument of the model, in their order."""
    for leaf in leaves:
        scope.value(leaf)
    scope.inputs = list(leaves)
    first = next(iter(scope.graph.nodes))
    for leaf in leaves:
        made = scope.made[leaf]
        if made is first:
            first = first.next
        else:
            first.prepend(made)


def _item(values: Any, i: int) -> Any:
    return values[i]


def tensors(value: Any) -> list[Tensor]:
    """What a stage gives to others: its result, or the tensors in it."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]
