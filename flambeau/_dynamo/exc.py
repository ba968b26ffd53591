"""Errors of graph capture. `Unsupported` (with `fullgraph`) and `FailOnRecompileLimitHit` are raised here, the others are for programs
that catch them."""

from __future__ import annotations

from ..compiler import InvalidBackend

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend", "TorchDynamoException",
    "TorchRuntimeError", "UncapturedHigherOrderOpError", "Unsupported", "UserError",
]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """Any of them."""


class InternalTorchDynamoError(TorchDynamoException):
    """An error of the capture itself."""


class Unsupported(TorchDynamoException):
    """A program does something that no graph can hold."""


class UserError(Unsupported):
    """A program uses the capture wrongly."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A function given to an operation could not be captured."""


class TorchRuntimeError(TorchDynamoException):
    """An operation failed while it was captured."""


class BackendCompilerFailed(TorchDynamoException):
    """A compiler failed."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """A function was compiled too often."""
