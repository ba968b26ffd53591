"""Attention over sequences that are divided among processes: `context_parallel`.

Each process has a part of the queries and meets the keys and values of all others, one part after the other. What it has found
so far is kept with the logarithm of its sum of exponentials, by which results over different keys are joined; the same number
gives the gradients for each part of the keys alone.

Where a query sees only earlier keys, a later part of the sequence is more work. So a sequence is cut into twice as many pieces as
there are processes, and each gets an early and a late one (`enable_load_balance`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...._autograd.modes import no_grad
from ...._interception.overrides import TorchFunctionMode
from ...._ops.layers.attention import attention_back, attention_op
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....autograd.function import Function, once_differentiable
from ....nn.functional import scaled_dot_product_attention
from ... import _collectives as calls
from ..._point_to_point import irecv, isend
from ...device_mesh import DeviceMesh
from .._utils import piece

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]

_TAG = 0x0C0FFEE  # of the messages that carry keys and values on


@dataclass
class _Options:
    enable_load_balance: bool = True
    rotate_method: str = "allgather"


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values come to all processes: "allgather" (all at once) or "alltoall" (one part after the other, in less
    memory)."""
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(
            f"Context Parallel does not support using {rotate_method} for kv shards rotation; use 'allgather' or 'alltoall'"
        )
    _cp_options.rotate_method = rotate_method


# -- how a sequence is divided ---------------------------------------------------------------------------------------------


def _balanced(length: int, parts: int) -> bool:
    return _cp_options.enable_load_balance and length % (2 * parts) == 0


def _places(length: int, parts: int, number: int) -> list[tuple[int, int]]:
    """Where the pieces of one process begin, and how long they are."""
    if _balanced(length, parts):
        size = length // (2 * parts)
        return [(number * size, size), ((2 * parts - 1 - number) * size, size)]
    return [piece(length, parts, number)]


def _shard(x: Tensor, dim: int, mesh: DeviceMesh) -> Tensor:
    places = _places(x.shape[dim], mesh.size(), mesh.get_local_rank())
    return ops.cat([x.narrow(dim, begin, length) for begin, length in places], dim)


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: list[Tensor], seq_dims: list[int], load_balancer: Any = None
) -> list[Tensor]:
    """The whole of tensors whose sequences `context_parallel` has divided, in their order, in every process."""
    if load_balancer is not None:
        raise NotImplementedError(
            "context_parallel_unshard: load balancers of one's own are not implemented; leave it None"
        )
    if len(buffers) != len(seq_dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    group, parts, found = mesh.get_group(), mesh.size(), []
    for x, dim in zip(buffers, seq_dims):
        lengths = ops.zeros(parts, dtype=ops.tensor(0).dtype)
        calls.all_gather_into_tensor(lengths, ops.tensor([x.shape[dim]]), group)
        sizes = lengths.tolist()
        moved = x.detach().movedim(dim, 0)
        out = [x.new_empty((n, *moved.shape[1:])) for n in sizes]
        if len(set(sizes)) == 1:
            calls.all_gather(out, moved.contiguous(), group)
        else:
            for root, part in enumerate(out):
                if root == mesh.get_local_rank():
                    part.copy_(moved)
                calls.broadcast(part, group=group, group_src=root)
        pieces = []
        for number, part in enumerate(out):
            places = _places(sum(sizes), parts, number)
            pieces += zip([begin for begin, _ in places], part.split([length for _, length in places]))
        whole = ops.cat([part for _, part in sorted(pieces, key=lambda each: each[0])])
        found.append(whole.movedim(0, dim).contiguous())
    return found


# -- attention -------------------------------------------------------------------------------------------------------------


def _seen(rank: int, owner: int, queries: int, keys: int, causal: bool, balanced: bool) -> tuple[int, int, bool] | None:
    """From which own query on a part of the keys is seen, up to which key, and whether each query sees its own past; None if
    nothing is."""
    if not causal or owner == rank:
        return 0, keys, causal
    if balanced:
        return (0, keys // 2, False) if owner < rank else (queries // 2, keys, False)
    return (0, keys, False) if owner < rank else None


def _passed(tensors: Sequence[Tensor], group: Any) -> tuple[list[Tensor], list[Any]]:
    """Gives tensors to the next process and gets those of the one before; they are there when the works are done."""
    rank, size = group.rank(), group.size()
    got = [x.new_empty(x.shape) for x in tensors]
    works = [irecv(x, group=group, group_src=(rank - 1) % size, tag=_TAG) for x in got]
    return got, works + [isend(x, group=group, group_dst=(rank + 1) % size, tag=_TAG) for x in tensors]


def _met(k: Tensor, v: Tensor, group: Any, rotate: str) -> Iterator[tuple[int, Tensor, Tensor]]:
    """The keys and values of all processes, the own first, with the numbers of their owners."""
    rank, size = group.rank(), group.size()
    if rotate == "allgather":
        parts = [[x.new_empty(x.shape) for _ in range(size)] for x in (k, v)]
        works = [calls.all_gather(out, x, group, True) for out, x in zip(parts, (k, v))]
        yield rank, k, v
        for work in works:
            work.wait()  # type: ignore[union-attr]
        for step in range(1, size):
            owner = (rank - step) % size
            yield owner, parts[0][owner], parts[1][owner]
        return
    for step in range(size):
        coming, works = _passed((k, v), group) if step < size - 1 else ([k, v], [])
        yield (rank - step) % size, k, v
        for work in works:
            work.wait()
        k, v = coming


class _Ring(Function):
    """Attention of the own queries to the keys and values of all processes."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, shared: int, group: Any
    ) -> Tensor:
        ctx.given = scale, causal, shared, group, _cp_options.rotate_method
        ctx.balanced = _cp_options.enable_load_balance and not q.shape[-2] % 2 and not k.shape[-2] % 2
        wide, queries = q.to(q.dtype.wide), q.shape[-2]
        k, v = k.contiguous(), v.contiguous()
        out = wide.new_zeros((*q.shape[:-1], v.shape[-1]))
        total = wide.new_full(q.shape[:-1], -math.inf)
        for owner, key, value in _met(k, v, group, ctx.given[-1]):
            part = _seen(group.rank(), owner, queries, key.shape[-2], causal, ctx.balanced)
            if part is None:
                continue
            begin, end, past = part
            key, value = (x[..., :end, :].to(wide.dtype) for x in (key, value))
            more, its = attention_op(wide[..., begin:, :], key, value, None, None, scale, past, shared, 0.0, None)
            old = total[..., begin:]
            new = ops.logaddexp(old, its)
            kept = out[..., begin:, :]
            kept.mul_((old - new).exp()[..., None]).add_(more * (its - new).exp()[..., None])
            old.copy_(new)
        ctx.save_for_backward(q, k, v, out, total)
        return out.to(q.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        q, k, v, out, total = ctx.saved_tensors
        scale, causal, shared, group, rotate = ctx.given
        wide = out.dtype
        g, query = g.to(wide), q.to(wide)
        by_q = ops.zeros_like(query)
        carried = [
            ops.zeros_like(x, dtype=wide) for x in (k, v)
        ]  # gradients by a part of the keys, which go round with it
        for owner, key, value in _met(k, v, group, rotate):
            part = _seen(group.rank(), owner, q.shape[-2], key.shape[-2], causal, ctx.balanced)
            if part is not None:
                begin, end, past = part
                key, value = (x[..., :end, :].to(wide) for x in (key, value))
                own = slice(begin, None)
                found = attention_back(
                    g[..., own, :], query[..., own, :], key, value, None, None, out[..., own, :], total[..., own],
                    scale, past, shared, 0.0, None,
                )  # fmt: skip
                by_q[..., own, :] += found[0]
                for sum_, more in zip(carried, found[1:]):
                    sum_[..., :end, :] += more
            carried, works = _passed([x.contiguous() for x in carried], group)
            for work in works:
                work.wait()
        return by_q.to(q.dtype), *[sum_.to(x.dtype) for sum_, x in zip(carried, (k, v))], None, None, None, None


class _Divided(TorchFunctionMode):
    """While it is on, attention is that of the whole sequence."""

    def __init__(self, mesh: DeviceMesh):
        self.mesh = mesh

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is scaled_dot_product_attention:
            return self._attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
                is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
        if attn_mask is not None or dropout_p:
            raise NotImplementedError(
                "context_parallel: attention takes no attn_mask and no dropout_p in the block; use is_causal=True"
            )
        if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
            raise ValueError(
                "context_parallel: query, key and value need four dimensions (batch, heads, sequence, width)"
            )
        if is_causal and query.shape[-2] != key.shape[-2]:
            raise ValueError("context_parallel: with is_causal=True there must be as many keys as queries")
        heads, other = query.shape[1], key.shape[1]
        if (heads != other and not (enable_gqa and other and heads % other == 0)) or other != value.shape[1]:
            raise RuntimeError(
                "Number of heads in key and value must divide the number of heads in query (enable_gqa=True)"
            )
        factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
        return _Ring.apply(query, key, value, factor, is_causal, heads // other, self.mesh.get_group())


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """A block in which each process has a part of a sequence: `buffers` are cut along `buffer_seq_dims`, and
    `scaled_dot_product_attention` sees the keys and values of all processes. Afterwards the buffers are whole again, but for
    `no_restore_buffers`.

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor.experimental import context_parallel
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> q = torch.randn(1, 2, 8, 4)
    >>> with context_parallel(mesh, buffers=[q], buffer_seq_dims=[2]):
    ...     out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    >>> torch.allclose(out, torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), atol=1e-6)
    True
    >>> torch.distributed.destroy_process_group()
    """
    buffers, dims, lasting = buffers or [], buffer_seq_dims or [], no_restore_buffers or set()
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel: a mesh with one dimension is needed, got {mesh}: take one by its name")
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if any(all(one is not buffer for buffer in buffers) for one in lasting):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    whole = [buffer.data for buffer in buffers]
    with no_grad():
        for buffer, dim in zip(buffers, dims):
            buffer.data = _shard(buffer.detach(), dim, mesh)
    try:
        with _Divided(mesh):
            yield
    finally:
        for buffer, data in zip(buffers, whole):
            if all(buffer is not one for one in lasting):
                buffer.data = data
