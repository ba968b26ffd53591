"""Backends of `torch.compile` by name."""

from .. import list_backends, lookup_backend, register_backend

__all__ = ["list_backends", "lookup_backend", "register_backend"]
