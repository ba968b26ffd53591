"""The older place of `ao.quantization.quantization_mappings`."""

from ..ao.quantization.quantization_mappings import *  # noqa: F403
