"""What this build is made of."""

from __future__ import annotations

import platform

from ._backend.threads import get_num_threads
from ._version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions and settings, as text."""
    return f"flambeau {__version__}\n  - Python {platform.python_version()} on {platform.machine()}\n  - kernels: LLVM through llvmlite"


def parallel_info() -> str:
    """How many threads compute, as text."""
    return f"threads inside of operations: {get_num_threads()}"


def _cxx_flags() -> str:
    return ""
