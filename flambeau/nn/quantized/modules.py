"""The older place of `ao.nn.quantized.modules`."""

from ...ao.nn.quantized.modules import *  # noqa: F403
