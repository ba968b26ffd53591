"""PowerSGD: gradients travel as products of two thin matrices (Vogels, Karimireddy, Jaggi 2019)."""

from __future__ import annotations

import math
from typing import Any

from ...._ops.making.generator import Generator
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....futures import Future
from ... import _collectives
from ..._groups import current
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """How gradients are compressed, and what is kept between steps: the factors, and what was left out (`error_dict`)."""

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled: the first step of "
                "DistributedDataParallel has other buckets"
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = Generator().manual_seed(random_seed)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[Any, Tensor] = {}
        self.p_memory_dict: dict[Any, Tensor] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer numbers travelled, how many there were, how many travelled."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Counts steps."""
        if bucket.is_last():
            self.iter += 1


def _orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    if epsilon:
        columns: list[Tensor] = []
        for i in range(matrix.shape[1]):
            column = matrix[:, i]
            for other in columns:
                column = column - (other * column).sum() * other
            columns.append(column / (column.norm() + epsilon))
        return ops.stack(columns, 1)
    return ops.linalg_qr(matrix)[0]


def _average(tensors: list[Tensor], group: Any) -> list[Tensor]:
    """The means of tensors over the processes, in one message."""
    flat = ops.cat([t.reshape(-1) for t in tensors]).div_(group.size())
    _collectives.all_reduce(flat, group=group)
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors)]


def _factor(state: PowerSGDState, key: Any, columns: int, rank: int, like: Tensor) -> Tensor:
    """The right factor to begin with: the last one, or random numbers that are the same in all processes."""
    held = state.q_memory_dict.get(key) if state.warm_start else None
    if held is not None:
        return held
    made = ops.randn(columns, rank, generator=state.rng)
    return _orthogonal(made, state.orthogonalization_epsilon).to(like.device, like.dtype)


def _approximate(state: PowerSGDState, matrices: list[tuple[Any, Tensor]], rest: list[Tensor], group: Any) -> None:
    """Replaces matrices by the mean of their approximations over the processes, other tensors by their mean."""
    ranks = [min(*m.shape, state.matrix_approximation_rank) for _, m in matrices]
    right = [_factor(state, key, m.shape[1], r, m) for (key, m), r in zip(matrices, ranks)]
    left = [m @ q for (_, m), q in zip(matrices, right)]
    state.total_numel_after_compression += sum(t.numel() for t in [*left, *right, *rest])
    averaged = _average([*rest, *left], group) if rest or left else []
    for tensor, mean in zip(rest, averaged):
        tensor.copy_(mean)
    if not matrices:
        return
    left = [_orthogonal(p, state.orthogonalization_epsilon) for p in averaged[len(rest) :]]
    right = _average([m.T @ p for (_, m), p in zip(matrices, left)], group)
    for (key, m), p, q in zip(matrices, left, right):
        ops.matmul(p, q.T, out=m)
        if state.warm_start:
            state.q_memory_dict[key], state.p_memory_dict[key] = q.clone(), p


def _hook(state: PowerSGDState, bucket: Any, batched: bool) -> Future:
    group = current(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    flat, index = bucket.buffer(), bucket.index()
    state.total_numel_before_compression += flat.numel()
    error = state.error_dict.get(index)
    if state.use_error_feedback and error is not None:
        flat.add_(error)
    before = flat.clone() if state.use_error_feedback else None
    if batched:
        side = math.ceil(math.sqrt(flat.numel()))
        square = ops.zeros(side * side, dtype=flat.dtype, device=flat.device)
        square[: flat.numel()] = flat
        _approximate(state, [(index, square.view(side, side))], [], group)
        flat.copy_(square[: flat.numel()])
    else:
        matrices, rest = [], []
        for k, g in enumerate(bucket.gradients()):
            m = g.view(g.shape[0], -1) if g.dim() > 1 else None
            rank = state.matrix_approximation_rank
            if m is not None and sum(m.shape) * rank * state.min_compression_rate < m.numel():
                matrices.append(((index, k), m))
            else:
                rest.append(g)
        _approximate(state, matrices, rest, group)
        if before is not None:  # what travelled whole has no error
            left = before.split([g.numel() for g in bucket.gradients()])
            compressed = {key[1] for key, _ in matrices}
            for k, (g, part) in enumerate(zip(bucket.gradients(), left)):
                if k not in compressed:
                    part.copy_(g.reshape(-1))
    if before is not None:
        state.error_dict[index] = before.sub_(flat)
    state.maybe_increase_iter(bucket)
    future = Future()
    future.set_result(flat)
    return future


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Each gradient of a matrix travels as two factors, others as they are."""
    return _hook(state, bucket, False)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Each bucket travels as two factors of one square matrix: faster, and less accurate."""
    return _hook(state, bucket, True)
