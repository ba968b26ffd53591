"""Which libraries compute, and the switches that PyTorch has for them; most are kept without effect."""

from __future__ import annotations

from . import (
    cpu,
    cuda,
    cudnn,
    cusparselt,
    kleidiai,
    mha,
    miopen,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
    quantized,
)  # fmt: skip
from ._flags import a_precision, switch, with_switches

__all__ = [
    "cpu", "cuda", "cudnn", "cusparselt", "flags_frozen", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack",
    "openmp", "opt_einsum", "quantized",
]  # fmt: skip


def flags_frozen() -> bool:
    """Whether switches may no longer be set; never."""
    return False


def disable_global_flags() -> None:
    """Would forbid to set switches; they stay open here."""


with_switches(__name__, fp32_precision=switch("fp32_precision", "none", a_precision))
