"""The older place of `ao.quantization.fake_quantize`."""

from ..ao.quantization.fake_quantize import *  # noqa: F403
