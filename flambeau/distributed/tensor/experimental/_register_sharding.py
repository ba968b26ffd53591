"""`register_sharding`: a program's own rule for how an operator works on divided tensors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ...._ops.registry import ops
from .._dtensor import DTensor, made
from .._rules import RULES, _as, _divided, _same_mesh
from ..placement_types import Replicate


def register_sharding(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function gets the operator's arguments, with descriptions in the place of tensors (`shape`, `ndim`,
    `placements`, `mesh`), and returns pairs (placements of the results, placements of the arguments, None for those that are no
    tensors) that the operator works with, for one dimension of a mesh. Of these the one is taken that moves the least.

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
    >>> from flambeau.distributed.tensor.experimental import register_sharding
    >>> @register_sharding(torch.ops.aten.trace.default)
    ... def whole(x):
    ...     return [([Replicate()], [Replicate()])]
    >>> x = distribute_tensor(torch.eye(4), init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> torch.trace(x).full_tensor()
    tensor(4.)
    >>> torch.distributed.destroy_process_group()
    """
    overloads = list(op) if isinstance(op, (list, tuple)) else [op]

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            name = str(overload._schema.name).rpartition("::")[2]
            rule = _rule_of(function, len(overload._schema.arguments))
            RULES.update({name: rule, name.lstrip("_"): rule, f"{name}.{overload._overloadname}": rule})
        return function

    return declare


def _rule_of(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    def rule(func: Any, *args: Any, **named: Any) -> Any:
        mesh = _same_mesh(_divided(args, named))
        described = [_description(a) if isinstance(a, DTensor) else a for a in args[:count]]
        accepted = [(outs, [*ins, *[None] * len(args)]) for outs, ins in function(*described, **named)]
        if not accepted:
            raise ValueError(f"register_sharding: {function.__name__} accepts no placements")
        chosen = [min(accepted, key=lambda pair: _moves(args, pair[1], dim)) for dim in range(mesh.ndim)]
        local = [
            _as(a, [ins[place] or Replicate() for _, ins in chosen]) if isinstance(a, DTensor) else a
            for place, a in enumerate(args)
        ]
        whole = [ops.empty(tuple(a.shape), dtype=a.dtype, device="meta") if isinstance(a, DTensor) else a for a in args]
        shapes = func(*whole, **named)
        out = func(*local, **named)
        if not isinstance(out, (tuple, list)):
            return made(out, mesh, [outs[0] for outs, _ in chosen], tuple(shapes.shape))
        return type(out)(
            made(part, mesh, [outs[i] for outs, _ in chosen], tuple(shapes[i].shape)) for i, part in enumerate(out)
        )

    return rule


def _description(tensor: DTensor) -> SimpleNamespace:
    meta = SimpleNamespace(shape=tensor.shape, dtype=tensor.dtype)
    return SimpleNamespace(
        mesh=tensor.device_mesh, placements=tensor.placements, shape=tensor.shape, ndim=tensor.dim(), tensor_meta=meta
    )


def _moves(args: tuple[Any, ...], wanted: list[Any], dim: int) -> int:
    """How many arguments would have to be placed otherwise along a dimension of the mesh."""
    return sum(isinstance(a, DTensor) and a.placements[dim] != (w or Replicate()) for a, w in zip(args, wanted))
