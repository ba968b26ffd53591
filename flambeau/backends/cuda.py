"""Switches of CUDA: how matrices are multiplied, and which kinds of attention are allowed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._backend.placement import cuda_problem
from .._core.config import get_float32_matmul_precision, set_float32_matmul_precision
from .._dispatch import backend_of
from .._ops.layers.attention import kinds
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


class cuFFTPlanCacheAttrContextProp:
    """A number of the cache of FFT plans: read from CuPy's cache of a GPU, and written there if it can be."""

    def __init__(self, getter: Callable[[Any], int], setter: Callable[[Any, int], None]):
        self.getter, self.setter = getter, setter

    def __get__(self, obj: Any, objtype: Any) -> int:
        return self.getter(obj._plans())

    def __set__(self, obj: Any, val: int) -> None:
        self.setter(obj._plans(), val)


def _read_only(plans: Any, value: int) -> None:
    raise RuntimeError(
        ".size is a read-only property showing the number of plans currently in the cache. "
        "To change the cache capacity, set cufft_plan_cache.max_size."
    )


class cuFFTPlanCache:
    """The FFT plans of one GPU, kept by CuPy."""

    size = cuFFTPlanCacheAttrContextProp(lambda plans: int(plans.get_curr_size()), _read_only)
    max_size = cuFFTPlanCacheAttrContextProp(
        lambda plans: int(plans.get_size()), lambda plans, value: plans.set_size(value)
    )

    def __init__(self, device_index: int):
        self.device_index = device_index

    def _plans(self) -> Any:
        problem = cuda_problem()
        if problem is not None:
            raise problem
        import cupy  # an optional dependency, loaded by those who use a GPU

        with cupy.cuda.Device(self.device_index):
            return cupy.fft.config.get_plan_cache()

    def clear(self) -> None:
        """Forgets the plans."""
        self._plans().clear()


class cuFFTPlanCacheManager:
    """The caches of all GPUs by number; without a number, that of the current GPU."""

    def __init__(self) -> None:
        object.__setattr__(self, "caches", [])

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        from .. import cuda

        count, index = cuda.device_count(), cuda._index(device)
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with index {index}"
            )
        return cuFFTPlanCache(index)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of any object needs no GPU
            raise AttributeError(name)
        return getattr(self._current(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._current(), name, value)

    def _current(self) -> cuFFTPlanCache:
        from .. import cuda

        return cuFFTPlanCache(cuda.current_device())


cuBLASModule = _Matmul
matmul = _Matmul()
cufft_plan_cache = cuFFTPlanCacheManager()


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


def preferred_rocm_fa_library(backend: str | None = None) -> str:
    """The library of flash attention on AMD GPUs; only "default" is there."""
    if backend not in (None, "default", "aotriton", "ck"):
        raise RuntimeError(f"Unknown input value {backend!r}; choose from default, aotriton, ck")
    return "default"


def blas_workspace_size(size: int | None = None, backend: str | None = None) -> int:
    """The bytes that cuBLAS may use for itself. CuPy decides that, and does not say."""
    raise NotImplementedError(
        "blas_workspace_size: CuPy chooses the workspace of cuBLAS; it cannot be read or set here"
    )


def cublas_workspace_size(size: int | None = None) -> int:
    """The bytes that cuBLAS may use for itself."""
    return blas_workspace_size(size, "cublas")


def cublaslt_workspace_size(size: int | None = None) -> int:
    """The bytes that cuBLASLt may use for itself."""
    return blas_workspace_size(size, "cublaslt")


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


class SDPAParams:
    """What attention is called with, for the questions below."""

    __slots__ = ("attn_mask", "dropout", "enable_gqa", "is_causal", "key", "query", "value")

    def __init__(
        self, query: Any, key: Any, value: Any, attn_mask: Any, dropout: float, is_causal: bool, enable_gqa: bool
    ):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = float(dropout), bool(is_causal), bool(enable_gqa)


def _no_own_kernel(name: str, debug: bool) -> bool:
    if debug:
        warnings.warn(f"{name} attention has no kernel of its own on GPUs here", stacklevel=3)
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether flash attention on a GPU takes these; with `debug`, warns why not."""
    return _no_own_kernel("flash", debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether memory-efficient attention on a GPU takes these; with `debug`, warns why not."""
    return _no_own_kernel("memory-efficient", debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN's attention takes these; with `debug`, warns why not."""
    q, k, v = params.query, params.key, params.value
    if q.is_cuda and not params.dropout and backend_of(q._k).attention.library.takes(q._array, k._array, v._array):
        return True
    if debug:
        warnings.warn("cuDNN's attention takes 16-bit floats on a GPU, without dropout", stacklevel=2)
    return False


def is_ck_sdpa_available() -> bool:
    """Whether attention of AMD's Composable Kernel is there."""
    return False


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
