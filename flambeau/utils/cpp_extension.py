"""Names of PyTorch's C++ extension builder, each of which says what to use here instead."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths", "library_paths", "load",
    "load_inline",
]  # fmt: skip

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None


def _refuse(name: str) -> RuntimeError:
    return RuntimeError(
        f"cpp_extension.{name}: there is no C++ interface here, so C++ and CUDA extensions of PyTorch cannot be built or "
        "loaded. Write the operation with tensors or as an autograd.Function over NumPy (CuPy) arrays"
    )


class BuildExtension:
    """Cannot build anything here."""

    def __init__(self, *args: Any, **named: Any) -> None:
        raise _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> Any:
        """Raises RuntimeError."""
        raise _refuse("BuildExtension")


def CppExtension(name: str, sources: Any, *args: Any, **named: Any) -> Any:
    """Raises RuntimeError."""
    raise _refuse("CppExtension")


def CUDAExtension(name: str, sources: Any, *args: Any, **named: Any) -> Any:
    """Raises RuntimeError."""
    raise _refuse("CUDAExtension")


def load(name: str, sources: Any, *args: Any, **named: Any) -> Any:
    """Raises RuntimeError."""
    raise _refuse("load")


def load_inline(name: str, cpp_sources: Any, *args: Any, **named: Any) -> Any:
    """Raises RuntimeError."""
    raise _refuse("load_inline")


def include_paths(device_type: str = "cpu") -> list[str]:
    """Raises RuntimeError: there are no headers."""
    raise _refuse("include_paths")


def library_paths(device_type: str = "cpu") -> list[str]:
    """Raises RuntimeError: there are no libraries."""
    raise _refuse("library_paths")


def is_ninja_available() -> bool:
    """False: nothing is built."""
    return False


def verify_ninja_availability() -> None:
    """Raises RuntimeError."""
    raise _refuse("verify_ninja_availability")
