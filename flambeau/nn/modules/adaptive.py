"""Adaptive softmax: frequent classes in a head, the rest in clusters that are reached through it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from ..._core.dtypes import dtype as DType
from ..._ops.registry import ops
from ..._tensor import Tensor
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


def _check_cutoffs(cutoffs: Sequence[int], classes: int) -> None:
    if len(cutoffs) == 0:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    rising = all(a < b for a, b in zip([0, *cutoffs], [*cutoffs, classes]))
    if not rising or any(int(c) != c for c in cutoffs):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers in increasing order, each between 1 and n_classes-1: "
            f"got {list(cutoffs)} for {classes} classes"
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets among very many classes, sorted by how often they occur.

    The head scores the classes up to `cutoffs[0]` and the clusters that hold the others; a cluster maps its input to
    a size smaller by another `div_value` each before it scores its classes.
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, device=device, dtype=dtype),
                    Linear(inner, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for narrow, scores in self.tail:
            narrow.reset_parameters()
            scores.reset_parameters()

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise RuntimeError(
                    "Input and target should have the same size in the batch dimension, got "
                    f"{input.shape[0]} and {target.shape[0]}."
                )
            if input.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input.shape}"
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input.shape}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        single = target_.dim() == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        if target.numel() and (int(target.min()) < 0 or int(target.max()) >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found. "
            )
        column, parts, rows = target, [], []  # which column of the head each sample takes; what clusters add
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inside = (target >= low) & (target < high)
            chosen = ops.squeeze(ops.nonzero(inside), 1)
            if chosen.numel() == 0:
                continue
            column = ops.masked_fill(column, inside, self.shortlist_size + i)
            logs = F.log_softmax(self.tail[i](ops.index_select(input, 0, chosen)), 1)
            within = ops.unsqueeze(ops.index_select(target, 0, chosen) - low, 1)
            parts.append(ops.squeeze(ops.gather(logs, 1, within), 1))
            rows.append(chosen)
        head = F.log_softmax(self.head(input), 1)
        output = ops.squeeze(ops.gather(head, 1, ops.unsqueeze(column, 1)), 1)
        if parts:
            output = ops.index_add(output, 0, ops.cat(rows), ops.cat(parts))
        loss = ops.mean(-output)
        return _ASMoutput(ops.squeeze(output, 0) if single else output, loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """The log-probabilities of all classes, given the scores of the head."""
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            chance = head[:, self.shortlist_size + i]
            parts.append(F.log_softmax(cluster(input), 1) + ops.unsqueeze(chance, 1))
        return ops.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each sample; clusters are asked only where the head points at one."""
        head = self.head(input)
        output = ops.argmax(head, 1)
        beyond = output >= self.shortlist_size
        if not bool(beyond.any()):
            return output
        rows = ops.squeeze(ops.nonzero(beyond), 1)
        logs = self._get_full_log_prob(ops.index_select(input, 0, rows), ops.index_select(head, 0, rows))
        return ops.index_copy(output, 0, rows, ops.argmax(logs, 1))
