"""The older place of `ao.nn.qat`."""

from ...ao.nn.qat import *  # noqa: F403
