"""Parts of graphs that run in different places: what splitters of a program's own are written with."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...nn.modules.module import Module
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["FxNetSplitterInternalError", "NodeEvent", "SplitResult", "Subgraph", "generate_inputs_for_submodules"]


class FxNetSplitterInternalError(Exception):
    """A splitter made something that cannot be."""


@dataclass
class Subgraph:
    """Nodes that run together, on the accelerator or not."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """A module of parts, the inputs of each, and what the names of those beside the accelerator begin with."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


class NodeEvent:
    """Something that happened to a node, because of another or not."""

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source, self.desc, self.dep = source, desc, dep

    def to_str(self) -> str:
        """The event in one line."""
        return f"{self.source.name}: {self.desc} {'#' if self.dep is None else self.dep.name}"


def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """What submodules get when a model runs on `inputs`, by their names.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.splitter_base import generate_inputs_for_submodules
    >>> model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU())
    >>> generate_inputs_for_submodules(model, (torch.ones(1),), ["1"])
    {'1': (tensor([1.]),)}
    """
    found: dict[str, Any] = {}
    wanted = set(target_submodules)
    handles = []
    for name, part in model.named_modules():
        if name in wanted:

            def keep(module: Module, args: Any, name: str = name) -> None:
                found[name] = copy.deepcopy(args) if deepcopy else args

            handles.append(part.register_forward_pre_hook(keep))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
