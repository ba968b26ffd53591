"""The older place of `ao.nn.quantized`."""

from ...ao.nn.quantized import *  # noqa: F403
