"""What a bug report should say about the machine: `python -m flambeau.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import locale
import os
import platform
import sys
from typing import NamedTuple

from .._backend.placement import cuda_problem
from .._backend.threads import get_num_threads
from .._version import __version__

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str"]

_LIBRARIES = ("numpy", "llvmlite", "ml_dtypes", "cupy-cuda12x", "onnx", "pillow", "tensorboard", "safetensors")


class SystemEnv(NamedTuple):
    """Facts about the package, Python and the machine."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_problem: str
    pip_packages: str
    cpu_info: str


def _libraries() -> str:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return "\n".join(found)


def _cpu() -> str:
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, {get_num_threads()} threads in use"


def get_env_info() -> SystemEnv:
    """Collects the facts.

    >>> from flambeau.utils.collect_env import get_env_info
    >>> get_env_info().is_debug_build
    'False'
    """
    problem = cuda_problem()
    return SystemEnv(
        torch_version=__version__, is_debug_build="False", cuda_compiled_version="None (loaded at run time)",
        os=f"{platform.system()} {platform.release()} ({platform.machine()}), {locale.getpreferredencoding(False)}",
        libc_version="-".join(part for part in platform.libc_ver() if part) or "N/A",
        python_version=f"{sys.version.split()[0]} ({'64' if sys.maxsize > 2**32 else '32'}-bit runtime)",
        python_platform=platform.platform(), is_cuda_available=str(problem is None),
        cuda_problem="N/A" if problem is None else str(problem), pip_packages=_libraries(), cpu_info=_cpu(),
    )  # fmt: skip


def pretty_str(envinfo: SystemEnv) -> str:
    """The facts as text."""
    packages = "\n".join(f"[pip3] {line}" for line in envinfo.pip_packages.splitlines())
    return (
        f"flambeau version: {envinfo.torch_version}\n\nOS: {envinfo.os}\nLibc version: {envinfo.libc_version}\n\n"
        f"Python version: {envinfo.python_version}\nPython platform: {envinfo.python_platform}\n"
        f"Is CUDA available: {envinfo.is_cuda_available}\nCUDA problem: {envinfo.cuda_problem}\n\n"
        f"CPU: {envinfo.cpu_info}\n\nVersions of relevant libraries:\n{packages}"
    )


def get_pretty_env_info() -> str:
    """The facts about this machine as text."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints them."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
