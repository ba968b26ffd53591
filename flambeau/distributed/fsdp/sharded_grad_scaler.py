"""`ShardedGradScaler`: scaled losses for `FullyShardedDataParallel`."""

from __future__ import annotations

from typing import Any

from ...amp import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """`GradScaler`, which looks at the parts of all processes anyway: an overflow in one of them is one in all.

    >>> from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> ShardedGradScaler("cpu", init_scale=8.0).get_scale()
    8.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ):
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
