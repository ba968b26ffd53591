"""`loss_parallel`: cross entropy of logits whose classes are divided among processes, which never become whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ....autograd import Function
from ..._collectives import all_reduce
from ..._kinds import ReduceOp
from .._dtensor import DTensor, made
from .._rules import RULES
from .._utils import compute_local_shape_and_global_offset
from ..placement_types import Replicate

__all__ = ["loss_parallel"]


class _CrossEntropy(Function):
    """The losses of rows whose classes from `begin` on are here: the greatest, the sum and the target's logit come from all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, target: Tensor, begin: int, group: Any) -> Tensor:
        most = x.amax(-1)
        all_reduce(most, ReduceOp.MAX, group)
        powers = (x - most[:, None]).exp()
        total, here = powers.sum(-1), (target >= begin) & (target < begin + x.shape[-1])
        place = ops.where(here, target - begin, 0)[:, None]
        own = ops.where(here, x.gather(-1, place)[:, 0] - most, 0.0)
        sums = ops.stack([total, own.to(total.dtype)])
        all_reduce(sums, ReduceOp.SUM, group)
        ctx.save_for_backward(powers / sums[0][:, None], place, here)
        return sums[0].log() - sums[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        shares, place, here = ctx.saved_tensors
        grad = shares.scatter_add(-1, place, -here[:, None].to(shares.dtype))
        return grad * g[:, None], None, None, None


def _divided(func: Any, input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
             reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:  # fmt: skip
    """The rule of `cross_entropy` in the block; what is not divided along classes goes the usual way."""
    places = list(input.placements) if isinstance(input, DTensor) else []
    classes = 1 if isinstance(input, Tensor) and input.dim() > 1 else 0
    cut = [i for i, p in enumerate(places) if p.is_shard(classes)]
    if len(cut) != 1 or any(not p.is_replicate() for i, p in enumerate(places) if i not in cut):
        return _usual(func, input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    if weight is not None or label_smoothing or size_average is not None or reduce is not None:
        raise NotImplementedError(
            "loss_parallel: cross_entropy of divided classes takes no weight and no label_smoothing"
        )
    mesh = input.device_mesh
    begin = compute_local_shape_and_global_offset(input.shape, mesh, places)[1][classes]
    whole = target.to_local() if isinstance(target, DTensor) else target
    rows = input.to_local().movedim(classes, -1)
    valid = (whole != ignore_index).reshape(-1)
    found = _CrossEntropy.apply(rows.reshape(-1, rows.shape[-1]), whole.reshape(-1), begin, mesh.get_group(cut[0]))
    losses = ops.where(valid, found, 0.0)
    out = losses.reshape(whole.shape) if reduction == "none" else losses.sum()
    if reduction == "mean":
        out = out / valid.sum()
    return made(out, mesh, [Replicate()] * mesh.ndim, out.shape)


_usual = RULES["cross_entropy"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which `cross_entropy` of logits that are divided along their classes is computed on the parts."""
    kept, RULES["cross_entropy"] = RULES["cross_entropy"], _divided
    try:
        yield
    finally:
        RULES["cross_entropy"] = kept
