"""The older place of `ao.quantization.quantize_fx`."""

from ..ao.quantization.quantize_fx import *  # noqa: F403
