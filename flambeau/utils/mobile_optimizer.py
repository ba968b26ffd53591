"""Scripts for phones. Kernels are made for each machine here, so that a frozen script is all there is to gain."""

from __future__ import annotations

import enum
from typing import Any

from ..jit import ScriptModule, freeze

__all__ = ["MobileOptimizerType", "optimize_for_mobile"]


class MobileOptimizerType(enum.Enum):
    """The steps that PyTorch takes, to be named in `optimization_blocklist`."""

    CONV_BN_FUSION = 0
    INSERT_FOLD_PREPACK_OPS = 1
    REMOVE_DROPOUT = 2
    FUSE_ADD_RELU = 3
    HOIST_CONV_PACKED_PARAMS = 4
    VULKAN_AUTOMATIC_GPU_TRANSFER = 5


def optimize_for_mobile(
    script_module: Any, optimization_blocklist: set[MobileOptimizerType] | None = None,
    preserved_methods: list[str] | None = None, backend: str = "CPU",
) -> Any:  # fmt: skip
    """A script in evaluation mode whose parameters are constants.

    >>> import flambeau as torch
    >>> optimize_for_mobile(torch.jit.script(torch.nn.ReLU()))(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(script_module, ScriptModule):
        raise TypeError(f"Got {type(script_module)}, but ScriptModule is expected.")
    if backend.upper() != "CPU":
        raise TypeError(f"Unknown backend {backend!r}: only 'CPU' can be had")
    return freeze(script_module.eval(), preserved_attrs=preserved_methods)
