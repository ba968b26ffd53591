"""The older place of `ao.quantization.qconfig`."""

from ..ao.quantization.qconfig import *  # noqa: F403
