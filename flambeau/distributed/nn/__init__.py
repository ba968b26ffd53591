"""Collectives that are part of a graph: gradients go back through them."""

# ruff: noqa: F403 (all public names of the part)
from __future__ import annotations

from typing import Any

from ...nn.modules.module import Module
from . import functional
from .functional import *
from .functional import Function as Function
from .functional import ReduceOp as ReduceOp
from .functional import group as group

__all__ = [*functional.__all__, "RemoteModule"]


class RemoteModule(Module):
    """A module on another machine, through remote calls; not available."""

    def __init__(
        self,
        remote_device: str,
        module_cls: type[Module],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ):
        raise NotImplementedError(
            "RemoteModule: there are no remote calls here; divide the model by torch.distributed.pipelining or fully_shard"
        )
