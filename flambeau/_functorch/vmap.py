"""`vmap` step by step, under the names that PyTorch's private module has for the steps.

A library whose containers hold tensors (tensordict) puts its own functions in the place of the three that know what an
argument or a result is: `_process_batched_inputs`, `_create_batched_inputs` and `_unwrap_batched` are looked up here at every call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._core.steps import followed
from .._ops.making.generator import default_generator
from .._ops.registry import ops
from .._tensor import Tensor
from ..func.batched import Batched, make_batched, opened, rewrapped, unwrap
from ..utils._pytree import _broadcast_to_and_flatten, broadcast_prefix, tree_flatten, tree_unflatten

__all__ = [
    "Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_create_batched_inputs", "_get_name", "_maybe_remove_batch_dim",
    "_process_batched_inputs", "_remove_batch_dim", "_unwrap_batched", "restore_vmap", "tree_flatten", "tree_unflatten",
    "unwrap_batched", "vmap", "wrap_batched",
]  # fmt: skip


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `func` over dimension `in_dims` of its tensor arguments.

    >>> import flambeau as torch
    >>> torch.func.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    return mapping(func, in_dims, out_dims, randomness, lambda size: chunk_size)


def mapping(
    func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_of: Callable[[int], int | None]
) -> Callable[..., Any]:
    """`vmap` with a chunk size that may depend on the batch's."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @followed
    @functools.wraps(func)
    def mapped(*args: Any, **named: Any) -> Any:
        size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
        chunk_size = chunk_of(size)
        if chunk_size is not None and chunk_size < size:
            return _in_chunks(func, flat, dims, spec, named, size, chunk_size, out_dims, randomness)
        return _run(func, flat, dims, spec, named, size, out_dims, randomness)

    return mapped


def _run(func: Any, flat: Any, dims: Any, spec: Any, named: Any, size: int, out_dims: Any, randomness: str) -> Any:
    with opened(size, randomness) as level:
        out = func(*_create_batched_inputs(dims, flat, level, spec), **named)
        return _unwrap_batched(out, out_dims, level, size, func)


def _in_chunks(
    func: Any, flat: Any, dims: Any, spec: Any, named: Any, size: int, chunk: int, out_dims: Any, randomness: str
) -> Any:
    parts = []
    state = default_generator.get_state() if randomness == "same" else None
    pieces = [None if d is None else a.split(chunk, d) for a, d in zip(flat, dims)]
    for start in range(0, size, chunk):
        if state is not None:
            default_generator.set_state(state)
        piece = [a if p is None else p[start // chunk] for a, p in zip(flat, pieces)]
        parts.append(_run(func, piece, dims, spec, named, min(chunk, size - start), out_dims, randomness))
    leaves, out_spec = zip(*[tree_flatten(p) for p in parts])
    wanted = broadcast_prefix(out_dims, parts[0])
    joined = [ops.cat(list(ts), d) if d is not None else ts[0] for ts, d in zip(zip(*leaves), wanted)]
    return tree_unflatten(joined, out_spec[0])


# -- arguments -------------------------------------------------------------------------------------------------------


def _get_name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _process_batched_inputs(in_dims: Any, args: Any, func: Any) -> tuple[int, list[Any], list[Any], Any]:
    """(size of the batch, dimension of each argument, the arguments, their structure)."""
    flat, spec = tree_flatten(args)
    where = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not flat:
        raise ValueError(
            f"{where}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no inputs."
        )
    try:
        dims = broadcast_prefix(in_dims, args)
    except ValueError:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        ) from None
    return _batch_size(where, flat, dims), dims, flat, spec


def _batch_size(where: str, flat: list[Any], dims: list[Any]) -> int:
    """The size that mapped arguments have in common; `dims` are counted from the front after it."""
    sizes = set()
    for i, (a, d) in enumerate(zip(flat, dims)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(
                f"{where}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(a, Tensor):
            raise ValueError(
                f"{where}: Got in_dim={d} for an input but the input is of type {type(a)}. We cannot vmap over non-Tensor "
                "arguments, please use None as the respective in_dim"
            )
        rank = a._array.ndim
        if not -rank <= d < rank:
            raise ValueError(
                f"{where}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {rank} so expected "
                f"in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        dims[i] = d % rank
        sizes.add(a._array.shape[dims[i]])
    if not sizes:
        raise ValueError(f"{where}: expected at least one Tensor to vmap over, got none: every in_dim is None")
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sorted(sizes)} for the mapped dimension"
        )
    return sizes.pop()


def _create_batched_inputs(flat_in_dims: list[Any], flat_args: list[Any], vmap_level: int, args_spec: Any) -> Any:
    """The arguments as the function sees them: samples of batches."""
    given = [a if d is None else make_batched(a, d, vmap_level) for a, d in zip(flat_args, flat_in_dims)]
    return tree_unflatten(given, args_spec)


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    return make_batched(tensor, in_dim % tensor.ndim, level)


# -- results ---------------------------------------------------------------------------------------------------------


def _unwrap_batched(batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Any) -> Any:
    """The results of the function with the batch where `out_dims` wants it."""
    leaves, spec = tree_flatten(batched_outputs)
    name = _get_name(func)
    _check_out_dims(name, out_dims)
    if isinstance(batched_outputs, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        (out_dims,) = out_dims
    try:
        wanted = broadcast_prefix(tuple(out_dims) if isinstance(out_dims, list) else out_dims, batched_outputs)
    except ValueError:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of `outputs`"
        ) from None
    out = [_maybe_remove_batch_dim(name, t, vmap_level, batch_size, d) for t, d in zip(leaves, wanted)]
    return tree_unflatten(out, spec)


def _check_out_dims(name: str, out_dims: Any) -> None:
    for d in tree_flatten(out_dims)[0]:
        if d is not None and not isinstance(d, int):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
                "ints representing where in the outputs the vmapped dimension should appear."
            )


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result without its batch; `out_dim` None for one that has none."""
    if out_dim is None:
        if isinstance(batched_output, Batched) and batched_output.level == vmap_level:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}; with an out_dim of "
            "None other values may be returned"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    value, dim = unwrap(tensor, level)
    if dim is None:
        value, dim = ops.expand(ops.unsqueeze(value, 0), (batch_size, *value._array.shape)), 0
    rank = value._array.ndim
    if not -rank <= out_dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {out_dim})"
        )
    return value if dim == out_dim % rank else ops.movedim(value, dim, out_dim)


# -- functions that give the places of their batches -----------------------------------------------------------------


def restore_vmap(func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str) -> Callable[..., Any]:
    """A function like `vmap`'s that gives (results, where each has its batch), as they came: None for those without."""

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with opened(batch_size, randomness) as level:
            return unwrap_batched(func(*wrap_batched(args, in_dims, level), **kwargs), level)

    return inner


def wrap_batched(args: Any, bdims: Any, level: int) -> Any:
    """Arguments as the samples of a batch at a level."""
    flat, spec = tree_flatten(args)
    return tree_unflatten([rewrapped(a, d, level) for a, d in zip(flat, broadcast_prefix(bdims, args))], spec)


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """(values, where each has its batch)."""
    flat, spec = tree_flatten(args)
    if not flat:
        return args, ()
    values, dims = zip(*[unwrap(a, level) for a in flat])
    return tree_unflatten(list(values), spec), tree_unflatten(list(dims), spec)
