"""`torch.cpu.amp.autocast`, as programs before PyTorch 2.4 spell it."""

from __future__ import annotations

import warnings

from ..._core.dtypes import bfloat16, dtype
from ...amp import autocast_mode

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):
    """autocast("cpu", ...)."""

    def __init__(self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True):
        warnings.warn(
            "torch.cpu.amp.autocast(args...) is deprecated; use torch.amp.autocast('cpu', args...)",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)
