"""The older place of `ao.nn.quantized.dynamic`."""

from ...ao.nn.quantized.dynamic import *  # noqa: F403
