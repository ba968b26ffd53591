"""The older spellings of mixed precision on the CPU; `flambeau.amp` has the same for all devices."""

from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
