"""What a backend needs to know of the layers that a graph calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn.modules import batchnorm, conv, linear, pooling
from ...nn.modules.module import Module
from ..graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The name of an attribute in a version of a layer: the same."""
    return name


_CONV = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
# The version of a layer, its attributes, and how these are called in another version.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    linear.Linear: (1, ["weight", "bias"], default_matching),
    conv.Conv2d: (1, _CONV, default_matching),
    batchnorm.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    pooling.AdaptiveAvgPool2d: (1, [], default_matching),
    pooling.MaxPool2d: (
        1,
        ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
        default_matching,
    ),
}


def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """The attributes of a layer and the name of its class."""
    attrs: dict[str, Any] = {"name": f"{type(mod).__module__}.{type(mod).__name__}"}
    if type(mod) not in module_fetch_book:
        return attrs
    version, names, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {type(mod)} version {mod._version}, please upgrade the module_fetch_book"
        )
    attrs.update((name, getattr(mod, matching(name, mod._version))) for name in names)
    return attrs


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Writes `node.attrs_for_lowering` for all calls of modules, also inside of graph modules."""
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        module = fx_module.get_submodule(str(node.target))
        if isinstance(module, GraphModule):
            lift_lowering_attrs_to_nodes(module)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(module)
