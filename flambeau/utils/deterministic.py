"""`torch.utils.deterministic`: whether memory that nobody wrote is filled in deterministic mode."""

from __future__ import annotations

import sys
import types

from .._core.config import config as _config


class _Deterministic(types.ModuleType):
    """The module itself, whose switch checks what it is given."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `torch.empty` and the like are filled while deterministic algorithms are demanded."""
        return _config.fill_uninitialized_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        _config.fill_uninitialized_memory = mode


sys.modules[__name__].__class__ = _Deterministic
