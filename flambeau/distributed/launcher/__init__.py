"""Launching processes from programs; `flambeau launch` and `python -m torch.distributed.run` do so from a shell."""

from .api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
