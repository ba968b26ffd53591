"""What transforms refuse: arguments that are not there, results that are no tensors, saved-tensor hooks."""

from __future__ import annotations

from typing import Any

from .._core.state import local
from .._tensor import Tensor
from ..utils._pytree import tree_flatten

HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't support saved tensor hooks: leave them out of what is transformed"
)


def chosen(args: tuple[Any, ...], argnums: Any) -> tuple[int, ...]:
    """The positions of arguments that `argnums` names, counted from the front."""
    return positions(argnums, len(args))


def positions(argnums: Any, count: int) -> tuple[int, ...]:
    """The positions among `count` arguments."""
    if isinstance(argnums, int):
        numbers: tuple[Any, ...] = (argnums,)
    elif isinstance(argnums, tuple):
        numbers = argnums
    else:
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
    found = tuple(n % count for n in numbers)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return found


def hooks() -> None:
    if local.saved_hooks:
        raise RuntimeError(HOOKS)


def with_aux(where: str, out: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) of what a function returned."""
    if not has_aux:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise RuntimeError(
            f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(out).__name__}"
        )
    for t in tree_flatten(out[1])[0]:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(t)}")
    return out


def outputs(where: str, out: Any) -> tuple[list[Tensor], Any]:
    """The tensors that a function returned, and how they were arranged."""
    outs, spec = tree_flatten(out)
    if out is None or not outs:
        raise RuntimeError(f"{where}: Expected f to be a function that has non-empty output (got output = {out})")
    for t in outs:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{where}: expected f(*primals) to return only tensors, got unsupported type {type(t)}")
    return outs, spec


def real(where: str, kind: str, tensors: list[Any]) -> None:
    for i, t in enumerate(tensors):
        if isinstance(t, Tensor) and t.dtype.is_complex:
            raise RuntimeError(
                f"{where}: Expected all {kind}s to be real but received complex tensor at flattened {kind} idx: {i}"
            )


def primals_and_tangents(primals: Any, tangents: Any) -> tuple[list[Tensor], list[Tensor], Any]:
    where = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{where}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals), got {type(primals)}"
        )
    flat, spec = tree_flatten(primals)
    directions, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            f"{where}: Expected primals and tangents to have the same python structure, got {spec} and {other}"
        )
    for name, tensors in (("primals", flat), ("tangents", directions)):
        for t in tensors:
            if not isinstance(t, Tensor):
                raise RuntimeError(f"{where}: {name} should only contain Tensors, got {type(t)}")
        if not tensors:
            raise RuntimeError(f"{where}: Expected {name} to contain at least one Tensor")
    return flat, directions, spec


__all__ = ["chosen", "hooks", "outputs", "positions", "primals_and_tangents", "real", "with_aux"]
