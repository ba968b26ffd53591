"""Rewrites of traced modules for inference: layers that can be one are made one."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ... import nn
from ...nn.modules.module import Module
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph_module import GraphModule
from ..node import Node

__all__ = [
    "fuse", "fuse_conv_bn_eval", "fuse_linear_bn_eval", "matches_module_pattern", "optimize_for_inference", "remove_dropout",
    "replace_node_module",
]  # fmt: skip

_PAIRS = [
    ((nn.Conv1d, nn.BatchNorm1d), fuse_conv_bn_eval),
    ((nn.Conv2d, nn.BatchNorm2d), fuse_conv_bn_eval),
    ((nn.Conv3d, nn.BatchNorm3d), fuse_conv_bn_eval),
    ((nn.Linear, nn.BatchNorm1d), fuse_linear_bn_eval),
]
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Module]) -> bool:
    """Whether a node and its first input are calls of modules of exactly these classes, in the order of their run."""
    first, second = pattern
    if not node.args or not isinstance(node.args[0], Node):
        return False
    for kind, call in ((first, node.args[0]), (second, node)):
        if call.op != "call_module" or type(modules.get(str(call.target))) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Puts a module in the place of the one that a node calls."""
    parent, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """The model in evaluation, with batch normalisations taken into the layers before them.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2)).eval()
    >>> [type(layer).__name__ for layer in fuse(model).children()]
    ['Conv2d']
    """
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for pair, join in _PAIRS:
        for node in list(traced.graph.nodes):
            if not matches_module_pattern(pair, node, modules):
                continue
            before = node.args[0]
            layer, norm = modules[before.target], modules[node.target]
            if len(before.users) > 1 or not norm.track_running_stats:
                continue
            replace_node_module(before, modules, join(layer, norm))  # type: ignore[operator]
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def remove_dropout(model: Module) -> Module:
    """The model without its dropout layers."""
    tracer = Tracer()
    graph = tracer.trace(model)
    modules = dict(model.named_modules())
    for node in list(graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], _DROPOUTS):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(model, graph)


def optimize_for_inference(model: Module, pass_config: dict[str, Any] | None = None, tracer: Any = Tracer) -> Module:
    """The model with dropout removed and batch normalisations fused, each unless `pass_config` switches it off."""
    chosen = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if chosen["conv_bn_fuse"]:
        model = fuse(model)
    return remove_dropout(model) if chosen["remove_dropout"] else model
