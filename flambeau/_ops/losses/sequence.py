"""Connectionist temporal classification: the loss of a sequence of labels whose places in time are not known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.dtypes import BY_NUMPY, INTEGER, float32, float64, int64
from ..._core.state import CUDA, META
from ..._core.steps import only_shapes
from ..._kernel.training.ctc import LANES, ctc_backward, ctc_forward
from ..._tensor import Tensor, wrap
from ..records.batching import merged, parted, stacked
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dtype_of, same
from ..registry import ops, public
from .elements import check_reduction


def _grad(gs: Any, outs: Any, logs: Any, targets: Any, steps: Any, counts: Any, blank: int, zero: bool) -> Any:
    return ctc_back(gs[0], logs, targets, steps, counts, outs[0], outs[1], blank, zero), None, None, None


def _ctc_shapes(logs: Any, targets: Any, *rest: Any) -> list[Any]:
    time, batch, _ = logs.shape
    places = -(-(2 * targets.shape[1] + 1) // LANES) * LANES
    return [((batch,), dtype_of(logs)), ((batch, time, places), dtype_of(logs))]


def _of_batch(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """A batch joins the sequences: the second dimension of the log-probabilities, the first of all others."""
    names = op.names[: op.tensors]
    given = [merged(stacked(t, m, size), int(n == "logs")) for n, t, m in zip(names, args, mapped)]
    made = op(*given, *args[op.tensors :])
    return tuple([parted(t, size) for t in made]) if isinstance(made, tuple) else parted(made, size, 1)


@primitive(batch=_of_batch, meta=_ctc_shapes, tensors=4, name="ctc_loss", grad=_grad, backward_name="CtcLossBackward0")
def ctc_op(backend: Any, logs: Any, targets: Any, steps: Any, counts: Any, blank: int, zero: bool) -> Any:
    """Losses (N) of log-probabilities (T, N, C) with targets (N, S), and what backward needs."""
    time, batch, _ = logs.shape
    code = BY_NUMPY[logs.dtype].code
    loss = np.empty(batch, logs.dtype)
    places = -(-(2 * targets.shape[1] + 1) // LANES) * LANES
    alpha = np.empty((batch, time, places), logs.dtype)
    call = cpu.sized(alpha.size * 16, ctc_forward, (code, "i64", "i64", "i64", "i64", code, code))
    arrays = [logs.transpose(1, 0, 2), targets, steps, counts, np.broadcast_to(np.int64(blank), batch)]
    call(*arrays, loss, alpha)
    return loss, alpha


@primitive(
    batch=_of_batch, meta=lambda cotangent, logs, *rest: same(logs), tensors=7, name="ctc_loss_backward", grad=None
)
def ctc_back(
    backend: Any, cotangent: Any, logs: Any, targets: Any, steps: Any, counts: Any, loss: Any, alpha: Any, blank: int,
    zero: bool,
) -> Any:  # fmt: skip
    code = BY_NUMPY[logs.dtype].code
    out = np.empty(logs.shape, logs.dtype)
    room = np.empty((logs.shape[1], 3, alpha.shape[2]), logs.dtype)
    call = cpu.sized(alpha.size * 16, ctc_backward, (code, "i64", "i64", "i64", "i64", code, code, code, code, code))
    batch = logs.shape[1]
    arrays = [
        logs.transpose(1, 0, 2), targets, steps, counts, np.broadcast_to(np.int64(blank), batch), alpha, loss, cotangent,
    ]  # fmt: skip
    call(*arrays, out.transpose(1, 0, 2), room)
    if zero:
        out[:, np.isinf(loss)] = 0
    return out


def _lengths(given: Any, name: str, batch: int) -> Any:
    values = np.asarray(
        given._array if isinstance(given, Tensor) else list(given) if isinstance(given, (tuple, list)) else [given]
    )
    if values.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral")
    values = values.reshape(-1).astype(np.int64)
    if values.size != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    if (values < 0).any():
        raise RuntimeError(f"Expected {name} to have non-negative values")
    return values


def _padded_targets(targets: Tensor, counts: Any, batch: int) -> Any:
    """Targets as a matrix (N, S), from one or from all targets in a row."""
    values = targets._array.astype(np.int64)
    longest = max(int(counts.max()) if counts.size else 0, 1)
    if values.ndim == 1:
        if values.size != counts.sum() and values.size < counts.sum():
            raise RuntimeError("Expected the targets to hold as many labels as target_lengths say")
        made = np.zeros((batch, longest), np.int64)
        made[np.arange(longest) < counts[:, None]] = values[: int(counts.sum())]
        return made
    if values.ndim != 2 or values.shape[0] != batch:
        raise RuntimeError(f"Expected tensor to have size {batch} at dimension 0, but got {list(values.shape)}")
    if counts.size and values.shape[1] < counts.max():
        raise RuntimeError(
            f"Expected tensor to have size at least {int(counts.max())} at dimension 1, but got size {list(values.shape)}"
        )
    return np.ascontiguousarray(values[:, :longest]) if values.shape[1] else np.zeros((batch, 1), np.int64)


@public("nn.functional.ctc_loss", method=False)
def functional_ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability of the targets, summed over all ways to place them in time with blanks between.

    `log_probs` is (T, N, C) or (T, C), the result of log_softmax; `targets` is (N, S) or all labels in a row.

    >>> import flambeau as torch
    >>> logs = torch.log_softmax(torch.zeros(2, 1, 2), 2)
    >>> torch.nn.functional.ctc_loss(logs, torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    check_reduction(reduction)
    if log_probs._k & CUDA:  # the kernels are the CPU's
        given = [t.cpu() if isinstance(t, Tensor) else t for t in (log_probs, targets, input_lengths, target_lengths)]
        return functional_ctc_loss(*given, blank, reduction, zero_infinity).to(log_probs.device)
    if log_probs.dtype is not float32 and log_probs.dtype is not float64:
        raise not_implemented("ctc_loss_cpu", log_probs.dtype)
    if targets.dtype.category != INTEGER:
        targets = ops.to_dtype(targets, int64)
    single = log_probs._array.ndim == 2
    logs = ops.unsqueeze(log_probs, 1) if single else log_probs
    time, batch, classes = logs._array.shape
    if not log_probs._array.size:
        raise RuntimeError(
            f"ctc_loss: log_probs tensor must not be empty, but has shape {list(log_probs._array.shape)}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if log_probs._k & META:
        only_shapes("ctc_loss")
        return ops.new_empty(log_probs, (batch,) if reduction == "none" and not single else ())
    steps, counts = _lengths(input_lengths, "input_lengths", batch), _lengths(target_lengths, "target_lengths", batch)
    if steps.size and steps.max() > time:
        raise RuntimeError(f"Expected input_lengths to have value at most {time}, but got value {int(steps.max())}")
    if single and targets._array.ndim == 2:
        raise RuntimeError("Expected 1-D targets with log_probs of two dimensions")
    labels = _padded_targets(targets, counts, batch)
    used = np.arange(labels.shape[1]) < counts[:, None]
    if ((labels < 0) | (labels >= classes))[used].any():
        raise RuntimeError("target labels must be in label range")
    labels = np.where(used, labels, blank)
    given = [wrap(a, int64) for a in (labels, steps, counts)]
    losses, _ = ctc_op(ops.contiguous(logs), *given, blank, zero_infinity)
    if zero_infinity:
        losses = ops.where(losses == float("inf"), ops.zeros_like(losses), losses)
    if reduction == "mean":
        return ops.mean(losses / ops.clamp_min(ops.to_dtype(given[2], losses.dtype), 1))
    if reduction == "sum":
        return ops.sum(losses)
    return ops.squeeze(losses, 0) if single else losses


@public("ctc_loss", method=False)
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`nn.functional.ctc_loss` with a number for the reduction."""
    kind = ("none", "mean", "sum")[reduction]
    return functional_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity)


SCHEMAS = """
ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor  # autocast=single
ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor
"""
