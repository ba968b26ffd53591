"""Names of backends. "gloo" and "mpi" are the same engine here (`_mpi.py`); "nccl" is NCCL through CuPy (`_nccl.py`)."""

from __future__ import annotations

import os
from typing import Any

from .._core.devices import device as _device
from . import _mpi, _nccl

__all__ = [
    "Backend", "BackendConfig", "get_default_backend_for_device", "get_node_local_rank", "is_available",
    "is_backend_available", "is_gloo_available", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available",
]  # fmt: skip


class Backend(str):
    """The name of a backend, in small letters."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name: str, func: Any, extended_api: bool = False, devices: Any = None) -> None:
        """Makes the name of a backend known."""
        setattr(cls, name.upper(), name.lower())
        cls.backend_list.append(name.lower())


class BackendConfig:
    """Which backend serves which device: "gloo", or "cpu:gloo,cuda:nccl".

    >>> BackendConfig("gloo"), BackendConfig("cpu:gloo,cuda:nccl").get_device_backend_map()["cuda"]
    (cpu:gloo,cuda:gloo, 'nccl')
    """

    def __init__(self, backend: str):
        self.device_backend_map: dict[str, Backend] = {}
        name = str(backend).lower()
        if ":" in name:
            for pair in name.split(","):
                kind, colon, one = pair.partition(":")
                if not colon or ":" in one or not kind or not one:
                    raise ValueError(
                        f"Invalid device:backend pairing: {pair}. The device to backend configuration has to be of the form "
                        "'device1:backend1,device2:backend2'"
                    )
                if kind in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {kind} in backend string: {backend}")
                self.device_backend_map[kind] = Backend(one)
        elif name == Backend.UNDEFINED:
            self.device_backend_map = {k: Backend(v) for k, v in Backend.default_device_backend_map.items()}
        else:
            kinds = ("cuda",) if name == Backend.NCCL else ("cpu", "cuda")
            self.device_backend_map = dict.fromkeys(kinds, Backend(name))
        for one in self.device_backend_map.values():
            if one not in Backend.backend_list:
                raise ValueError(
                    f"Unknown c10d backend type {str(one).upper()}; known are {', '.join(Backend.backend_list)}"
                )

    def get_device_backend_map(self) -> dict[str, Backend]:
        """Backends by device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())


def is_available() -> bool:
    """Whether this package can be used: yes."""
    return True


def is_gloo_available() -> bool:
    """Whether the backend "gloo" can be named."""
    return True


def is_nccl_available() -> bool:
    """Whether NCCL is installed (with CuPy)."""
    return _nccl.installed()


def is_mpi_available() -> bool:
    """Whether MPI is installed (mpi4py)."""
    return _mpi.installed()


def is_ucc_available() -> bool:
    """Whether the backend "ucc" can be used: no."""
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be named in `init_process_group`."""
    found = {"gloo": is_gloo_available, "nccl": is_nccl_available, "mpi": is_mpi_available}.get(backend.lower())
    return found() if found else backend.lower() in Backend.backend_list and backend.lower() not in ("ucc", "xccl")


def get_default_backend_for_device(device: Any) -> str:
    """The backend that serves a device."""
    kind = _device(device).type
    found = Backend.default_device_backend_map.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, which launchers leave in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment; give fallback_rank")
