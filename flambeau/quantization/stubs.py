"""The older place of `ao.quantization.stubs`."""

from ..ao.quantization.stubs import *  # noqa: F403
