"""The older place of `ao.nn.intrinsic`."""

from ...ao.nn.intrinsic import *  # noqa: F403
