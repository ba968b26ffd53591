"""Errors of graph capture. `Unsupported` (with `fullgraph`), `BackendCompilerFailed` and `FailOnRecompileLimitHit` are raised here, the
others are for programs that catch them."""

from __future__ import annotations

from typing import Any

from ..compiler import InvalidBackend

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend", "RecompileError",
    "TorchDynamoException",
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
    """A backend that somebody wrote has raised, or was given what it cannot compile."""

    def __init__(self, backend_fn: Any, inner_exception: Exception):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        kind = type(inner_exception).__name__
        super().__init__(
            f"backend={self.backend_name!r} raised:\n{kind}: {inner_exception}\n\n"
            "Mend the backend, or set torch._dynamo.config.suppress_errors = True to run such functions eagerly."
        )


class FailOnRecompileLimitHit(TorchDynamoException):
    """A function was compiled too often."""


class RecompileError(TorchDynamoException):
    """A function would be compiled again, and must not be (`config.error_on_recompile`)."""
