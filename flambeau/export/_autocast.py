"""Blocks of `autocast` in PyTorch's archives: their operators are written with the casts that autocast would make."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import BY_NAME, dtype, promote_types
from .._interception.autocast import LOWER, SINGLE, policies_of
from .._library.namespaces import ops
from .._tensor import Tensor
from ..fx import Graph, Node
from ..fx.node import map_arg

Block = tuple[str, dtype]  # the device, and the type for what is computed in few bits


def block_of(device: str, kind: Any, enabled: bool) -> Block | None:
    """A block with these arguments; None for one in which nothing is cast."""
    return (device, kind or BY_NAME["bfloat16" if device == "cpu" else "float16"]) if enabled else None


def with_casts(graph: Graph, block: Block, target: Any, args: Any, named: Any) -> Any:
    """The arguments of an operator in a block, cast where autocast casts them."""
    device, few = block
    policy = policies_of(getattr(target, "_opname", "")).get(device)
    floats: list[dtype] = []

    def looked(x: Node) -> Node:
        val = x.meta.get("val")
        if isinstance(val, Tensor) and val.dtype.is_floating_point and val.dtype.name != "float64":
            floats.append(val.dtype)
        return x

    map_arg((tuple(args), named), looked)
    if policy is None or not floats:
        return args, named
    wanted = few if policy == LOWER else BY_NAME["float32"] if policy == SINGLE else floats[0]
    if policy not in (LOWER, SINGLE):
        for d in floats:
            wanted = promote_types(wanted, d)

    def cast(x: Node) -> Node:
        val = x.meta.get("val")
        if not isinstance(val, Tensor) or val.dtype not in floats or val.dtype is wanted:
            return x
        made = graph.call_function(ops.aten.to.dtype, (x, wanted))
        made.meta = {"val": val.detach().to(wanted), "nn_module_stack": x.meta.get("nn_module_stack", {})}
        return made

    return map_arg(tuple(args), cast), map_arg(named, cast)
