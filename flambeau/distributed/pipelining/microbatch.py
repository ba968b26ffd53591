"""A batch in parts: arguments are cut along a dimension, results joined again."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]

DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """Along which dimension a tensor is cut, or joined again.

    >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
    >>> TensorChunkSpec(1), TensorChunkSpec.from_dict({"mask": 0})["mask"].split_dim
    (TensorChunkSpec(1), 0)
    """

    def __init__(self, split_dim: int):
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    __str__ = __repr__

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """The specs of positional arguments, by their dimensions."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """The specs of named arguments, by their dimensions."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """Every part of the batch gets the whole value."""


class _CustomReducer:
    """The values of all parts become one by a function, which begins with a first value."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    pass


sum_reducer = _LossReducer(0.0, operator.add)


def _is_spec(value: Any) -> bool:
    return isinstance(value, (TensorChunkSpec, _CustomReducer)) or value is _Replicate or isinstance(value, _Replicate)


def _default(leaf: Any) -> Any:
    return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(leaf, Tensor) else _Replicate


def _specs(value: Any, spec: Any) -> list[Any]:
    """A spec for every leaf of a value; one spec for all of its leaves, or one for each."""
    leaves = tree_flatten(value)[0]
    if spec is None:
        return [_default(leaf) for leaf in leaves]
    found = tree_flatten(spec, is_leaf=_is_spec)[0]
    if len(found) == 1:
        return found * len(leaves)
    if len(found) != len(leaves):
        raise ValueError(f"Structure of chunk spec {spec} does not match the argument, which has {len(leaves)} leaves")
    return found


def _cut(leaf: Any, spec: Any, chunks: int) -> list[Any]:
    if not isinstance(leaf, Tensor) or not isinstance(spec, TensorChunkSpec):
        return [leaf] * chunks
    return list(ops.tensor_split(leaf, chunks, spec.split_dim))


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The arguments of each part of a batch. Tensors are cut along their first dimension unless a spec says otherwise; all
    else goes to every part.

    >>> import flambeau as torch
    >>> from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((torch.arange(4), 7), None, 2)[0]
    [(tensor([0, 1]), 7), (tensor([2, 3]), 7)]
    """
    named = kwargs or {}
    if args_chunk_spec is not None and len(args_chunk_spec) != len(args):
        raise AssertionError(f"args_chunk_spec has {len(args_chunk_spec)} entries for {len(args)} arguments")
    if kwargs_chunk_spec is not None and set(kwargs_chunk_spec) != set(named):
        raise AssertionError(f"kwargs_chunk_spec names {sorted(kwargs_chunk_spec)}, the arguments are {sorted(named)}")
    args_specs = args_chunk_spec or (None,) * len(args)
    named_specs = kwargs_chunk_spec or {}
    specs = [s for value, spec in zip(args, args_specs) for s in _specs(value, spec)]
    specs += [s for name, value in named.items() for s in _specs(value, named_specs.get(name))]
    leaves, structure = tree_flatten((tuple(args), dict(named)))
    sizes = [
        leaf.shape[s.split_dim]
        for leaf, s in zip(leaves, specs)
        if isinstance(leaf, Tensor) and isinstance(s, TensorChunkSpec)
    ]
    chunks = min([chunks, *sizes])  # a batch of fewer rows has fewer parts
    parts = [_cut(leaf, spec, chunks) for leaf, spec in zip(leaves, specs)]
    made = [tree_unflatten([part[i] for part in parts], structure) for i in range(chunks)]
    return [each[0] for each in made], [each[1] for each in made]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """One value of those of all parts: tensors are joined along the dimension that their spec says, or the first."""
    structure = tree_flatten(chunks[0])[1]
    columns = list(zip(*[tree_flatten(chunk)[0] for chunk in chunks]))
    specs = _specs(chunks[0], chunk_spec)
    return tree_unflatten([_joined(list(column), spec) for column, spec in zip(columns, specs)], structure)


def _joined(values: list[Any], spec: Any) -> Any:
    if isinstance(spec, _CustomReducer):
        total = spec.init_value
        for value in values:
            total = spec.reduce_fn(total, value)
        return total
    if isinstance(spec, TensorChunkSpec) and isinstance(values[0], Tensor):
        return ops.cat(values, spec.split_dim)
    if any(value is not values[0] and not isinstance(value, Tensor) and value != values[0] for value in values):
        raise ValueError(f"Cannot merge chunks with different values that are not tensors: {values}")
    return values[0]
