"""Which libraries compute, and switches that PyTorch has for them."""

from __future__ import annotations

from typing import Any

from .._backend.placement import cuda_problem


class _Flags:
    """A named group of switches. Most have no effect here: they are kept so that programs can set and read them."""

    def __init__(self, available: Any, **flags: Any):
        self.__dict__.update(flags, _available=available, enabled=flags.get("enabled", True))

    def is_available(self) -> bool:
        return bool(self._available())

    def is_built(self) -> bool:
        return bool(self._available())

    def version(self) -> int | None:
        return None

    def flags(self, **wanted: Any) -> _Setting:
        """Sets switches for the time of a `with` block."""
        return _Setting(self, wanted)


class _Setting:
    def __init__(self, group: _Flags, wanted: dict[str, Any]):
        self.group, self.wanted = group, wanted

    def __enter__(self) -> None:
        self.before = {name: getattr(self.group, name, None) for name in self.wanted}
        self.group.__dict__.update(self.wanted)

    def __exit__(self, *error: Any) -> None:
        self.group.__dict__.update(self.before)


def _has_gpu() -> bool:
    return cuda_problem() is None


def _never() -> bool:
    return False


cuda = _Flags(_has_gpu, matmul=_Flags(_has_gpu, allow_tf32=False, fp32_precision="none", allow_fp16_reduced_precision_reduction=True,
              allow_bf16_reduced_precision_reduction=True))  # fmt: skip
cudnn = _Flags(_has_gpu, benchmark=False, deterministic=False, allow_tf32=True, benchmark_limit=10)
mps = _Flags(_never)
mkl = _Flags(_never)
mkldnn = _Flags(_never)
openmp = _Flags(_never)
opt_einsum = _Flags(_never, strategy=None)
xeon = _Flags(_never)


class _AttentionSwitches:
    """The kinds of attention that `scaled_dot_product_attention` may choose among."""

    flash = memory_efficient = math = cudnn = True


_attention = _AttentionSwitches()


def _attention_switch(name: str) -> tuple[Any, Any]:
    def enabled() -> bool:
        return bool(getattr(_attention, name))

    def enable(enabled: bool) -> None:
        setattr(_attention, name, bool(enabled))

    return enabled, enable


cuda.flash_sdp_enabled, cuda.enable_flash_sdp = _attention_switch("flash")  # type: ignore[attr-defined]
cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp = _attention_switch("memory_efficient")  # type: ignore[attr-defined]
cuda.math_sdp_enabled, cuda.enable_math_sdp = _attention_switch("math")  # type: ignore[attr-defined]
cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp = _attention_switch("cudnn")  # type: ignore[attr-defined]


class cpu:
    """Facts about the CPU."""

    @staticmethod
    def get_cpu_capability() -> str:
        """The widest vector instructions in use; our kernels are made for the CPU they run on."""
        return "DEFAULT"
