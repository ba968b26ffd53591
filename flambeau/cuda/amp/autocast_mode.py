"""`torch.cuda.amp.autocast` and the decorators, as programs before PyTorch 2.4 spell them."""

from __future__ import annotations

import warnings
from typing import Any

from ..._core.dtypes import dtype, float16
from ...amp import autocast_mode

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(autocast_mode.autocast):
    """autocast("cuda", ...)."""

    def __init__(self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True):
        warnings.warn(
            "torch.cuda.amp.autocast(args...) is deprecated; use torch.amp.autocast('cuda', args...)",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: dtype | None = None) -> Any:
    """amp.custom_fwd for device_type="cuda"."""
    warnings.warn(
        "torch.cuda.amp.custom_fwd is deprecated; use torch.amp.custom_fwd(device_type='cuda')",
        FutureWarning,
        stacklevel=2,
    )
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """amp.custom_bwd for device_type="cuda"."""
    warnings.warn(
        "torch.cuda.amp.custom_bwd is deprecated; use torch.amp.custom_bwd(device_type='cuda')",
        FutureWarning,
        stacklevel=2,
    )
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
