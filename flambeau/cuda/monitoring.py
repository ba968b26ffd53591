"""What the driver says of GPUs: load, temperature, power, clocks, processes. Read through nvidia-ml-py (`pynvml`)."""

from __future__ import annotations

from typing import Any

__all__ = [
    "clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw", "temperature", "utilization",
]  # fmt: skip


def _driver(device: Any) -> tuple[Any, Any]:
    """(pynvml, its handle of a GPU)."""
    try:
        import pynvml  # an optional dependency of those who ask
    except ModuleNotFoundError:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.") from None
    from . import _index, get_device_properties

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_DriverNotLoaded as error:
        raise RuntimeError("cuda driver can't be loaded, is cuda enabled?") from error
    index = _index(device)
    identity = getattr(get_device_properties(index), "uuid", None)
    if identity is not None:  # programs may see fewer GPUs than the driver does
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(identity)
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)


def utilization(device: Any = None) -> int:
    """Percent of the last sampling time during which kernels ran."""
    pynvml, handle = _driver(device)
    return int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def memory_usage(device: Any = None) -> int:
    """Percent of the last sampling time during which memory was read or written."""
    pynvml, handle = _driver(device)
    return int(pynvml.nvmlDeviceGetUtilizationRates(handle).memory)


def device_memory_used(device: Any = None) -> int:
    """Bytes of a GPU's memory that are in use, by all processes."""
    pynvml, handle = _driver(device)
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def temperature(device: Any = None) -> int:
    """Degrees Celsius on the chip."""
    pynvml, handle = _driver(device)
    return int(pynvml.nvmlDeviceGetTemperature(handle, 0))


def power_draw(device: Any = None) -> int:
    """Milliwatts drawn on average over the last moments."""
    pynvml, handle = _driver(device)
    return int(pynvml.nvmlDeviceGetPowerUsage(handle))


def clock_rate(device: Any = None) -> int:
    """The clock of the multiprocessors in MHz."""
    pynvml, handle = _driver(device)
    return int(pynvml.nvmlDeviceGetClockInfo(handle, 1))


def list_gpu_processes(device: Any = None) -> str:
    """A text with the processes on a GPU and the memory that each holds."""
    try:
        pynvml, handle = _driver(device)
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    except RuntimeError as error:
        return str(error)
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    lines = [f"process {p.pid:>10} uses {(p.usedGpuMemory or 0) / 2**20:>12.3f} MB GPU memory" for p in running]
    return "\n".join(lines) or "no processes are running"
