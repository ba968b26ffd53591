"""Gradients of random samples by the parameters of their distribution: gamma and Dirichlet."""

from __future__ import annotations

from typing import Any

from ..._kernel.math import implicitgradients as implicitgradients  # registers functions of `m`
from ..records.batching import leading
from ..records.declare import pointwise
from ..records.primitive import primitive
from ..records.rules import narrow
from ..records.shape_rules import same
from ..registry import ops

_HOW = "How samples move with the parameter that they were drawn for."
gamma_grad_op = pointwise(
    "_standard_gamma_grad", lambda m, x, y: m.standard_gamma_grad(x, y), narrow, method=False, inplace=False, doc=_HOW
)
dirichlet_grad_op = pointwise(
    "_dirichlet_grad", lambda m, x, y, z: m.dirichlet_grad(x, y, z), narrow, method=False, inplace=False, doc=_HOW
)


def _through_dirichlet(g: Any, x: Any, out: Any) -> Any:
    total = ops.expand_as(ops.sum(x, -1, keepdim=True), x)
    return ops._dirichlet_grad(out, x, total) * (g - ops.sum(out * g, -1, keepdim=True))


@primitive(
    batch=leading,
    meta=lambda x, drawn: same(drawn),
    grad={"x": lambda g, x, out: g * ops._standard_gamma_grad(x, out)},
    tensors=2,
    name="standard_gamma",
)
def drawn_gamma(backend: Any, x: Any, drawn: Any) -> Any:
    """Samples as a function of their concentrations `x`."""
    return drawn


@primitive(
    batch=leading, meta=lambda x, drawn: same(drawn), grad={"x": _through_dirichlet}, tensors=2, name="sample_dirichlet"
)
def drawn_dirichlet(backend: Any, x: Any, drawn: Any) -> Any:
    return drawn


SCHEMAS = """
_standard_gamma_grad(Tensor self, Tensor output) -> Tensor
_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor
"""
