"""The older place of `ao.nn.quantized`."""

from ..._core.submodules import submodule as _submodule
from ...ao.nn.quantized import *  # noqa: F403


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return _submodule(__name__, name)
