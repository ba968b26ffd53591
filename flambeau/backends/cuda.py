"""Switches of CUDA: how matrices are multiplied, and which kinds of attention are allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._backend.placement import cuda_problem
from .._core.config import get_float32_matmul_precision, set_float32_matmul_precision
from .._ops.attention import kinds
from ._flags import a_bool, anything, switch


def is_built() -> bool:
    """Whether GPUs can be used: decided when the program runs, by CuPy and a GPU being there."""
    return cuda_problem() is None


class _Matmul:
    """Switches of matrix products; those of float32 go with `set_float32_matmul_precision`."""

    __slots__ = ("__dict__",)

    allow_fp16_reduced_precision_reduction = switch("allow_fp16_reduced_precision_reduction", True, anything)
    allow_bf16_reduced_precision_reduction = switch("allow_bf16_reduced_precision_reduction", True, anything)
    allow_fp16_accumulation = switch("allow_fp16_accumulation", False, a_bool)

    @property
    def allow_tf32(self) -> bool:
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")

    @property
    def fp32_precision(self) -> str:
        return "tf32" if self.allow_tf32 else "none"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("none", "ieee", "tf32"):
            raise RuntimeError(f"Unknown precision: {value}; known are none, ieee, tf32")
        self.allow_tf32 = value == "tf32"

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError("Unknown attribute " + name)
        object.__setattr__(self, name, value)


class _PlanCache:
    """The cache of FFT plans; CuPy keeps its own."""

    size, max_size = 0, 4096

    def clear(self) -> None:
        """Forgets the plans."""

    def __getitem__(self, device: Any) -> _PlanCache:
        return self


matmul = _Matmul()
cufft_plan_cache = _PlanCache()


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library of decompositions; only "default" is there."""
    if backend not in (None, "default", "cusolver", "magma"):
        raise RuntimeError(f"Unknown input value {backend!r}; choose from default, cusolver, magma")
    return "default"


def preferred_blas_library(backend: str | None = None) -> str:
    """The library of matrix products: cuBLAS."""
    if backend not in (None, "default", "cublas", "cublaslt", "hipblaslt", "ck"):
        raise RuntimeError(f"Unknown input value {backend!r}; choose from default, cublas, cublaslt")
    return "cublas"


# -- attention -----------------------------------------------------------------------------------------------------


def _attention_switch(name: str) -> tuple[Callable[[], bool], Callable[[bool], None]]:
    def enabled() -> bool:
        """Whether this kind of attention may be chosen."""
        return bool(getattr(kinds, name))

    def enable(enabled: bool) -> None:
        """Allows this kind of attention or not."""
        setattr(kinds, name, bool(enabled))

    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _attention_switch("flash")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _attention_switch("memory_efficient")
math_sdp_enabled, enable_math_sdp = _attention_switch("math")
cudnn_sdp_enabled, enable_cudnn_sdp = _attention_switch("cudnn")
_reduced = [False]


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether the `math` kind may sum in 16 bits; kept, without effect."""
    return _reduced[0]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allows the `math` kind to sum in 16 bits; kept, without effect."""
    _reduced[0] = bool(enabled)


def is_flash_attention_available() -> bool:
    """Whether attention without the matrix of scores runs on a GPU."""
    return False


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Chooses the allowed kinds of attention inside a `with` block; newer programs use `nn.attention.sdpa_kernel`."""
    wanted = {
        "flash": enable_flash,
        "math": enable_math,
        "memory_efficient": enable_mem_efficient,
        "cudnn": enable_cudnn,
    }
    before = {name: getattr(kinds, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(kinds, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(kinds, name, value)


def __getattr__(name: str) -> Any:
    if name == "SDPBackend":
        from ..nn.attention import SDPBackend  # loads the layers

        return SDPBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
