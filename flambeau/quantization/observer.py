"""The older place of `ao.quantization.observer`."""

from ..ao.quantization.observer import *  # noqa: F403
