"""Helpers of launchers and of programs that are started again."""

from .api import macros

__all__ = ["macros"]
