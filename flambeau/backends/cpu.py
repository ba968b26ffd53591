"""Facts about the CPU."""

from __future__ import annotations

from functools import cache


@cache
def get_cpu_capability() -> str:
    """The widest vector instructions of this CPU, by PyTorch's names; kernels are made for the CPU they run on."""
    try:
        with open("/proc/cpuinfo") as file:
            words = next((line.split() for line in file if line.startswith(("flags", "Features"))), [])
    except OSError:
        words = []
    if "avx512f" in words and "avx512bw" in words:
        return "AVX512"
    if "avx2" in words:
        return "AVX2"
    return "SVE256" if "sve" in words else "DEFAULT"
