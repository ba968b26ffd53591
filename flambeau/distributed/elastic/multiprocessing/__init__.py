"""Processes that a launcher starts."""

from . import errors

__all__ = ["errors"]
