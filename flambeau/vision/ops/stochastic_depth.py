"""Stochastic depth: whole residual branches left out at random while training."""

from __future__ import annotations

from ... import nn
from ..._ops.registry import ops
from ..._tensor import Tensor


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zeroes the input with probability `p` and scales what is kept: as a whole ("batch") or sample by sample ("row")."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    kept = 1.0 - p
    first = input.shape[0] if mode == "row" else 1
    noise = ops.empty([first] + [1] * (input.ndim - 1), dtype=input.dtype, device=input.device).bernoulli_(kept)
    if kept > 0.0:
        noise.div_(kept)
    return input * noise


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a layer.

    >>> StochasticDepth(0.2, "row")
    StochasticDepth(p=0.2, mode=row)
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"
