"""Ways in which gradients of `DistributedDataParallel` travel: `model.register_comm_hook(state, hook)`."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from . import debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks by name."""

    ALLREDUCE = partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(default_hooks.bf16_compress_hook)
    POWER_SGD = partial(powerSGD_hook.powerSGD_hook)
    BATCHED_POWER_SGD = partial(powerSGD_hook.batched_powerSGD_hook)
    POST_LOCAL_SGD = partial(post_localSGD_hook.post_localSGD_hook)
    NOOP = partial(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Registers a hook by its name."""
    model.register_comm_hook(state, comm_hook_type.value)
