"""The older place of `ao.nn.quantized.functional`."""

from ...ao.nn.quantized.functional import *  # noqa: F403
