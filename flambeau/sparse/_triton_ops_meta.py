"""Measured parameters of PyTorch's sparse kernels in Triton, which are not used here: there are none."""

from __future__ import annotations

from typing import Any

__all__ = ["get_meta", "minimize", "update"]


def get_meta(
    op: Any, key: Any, device_name: Any = None, version: Any = (0, "float16", 0.5), exact: bool = False
) -> None:
    """The parameters for a kernel: none were measured."""


def update(op: Any, device_name: Any, version: Any, key: Any, value: Any) -> None:
    raise NotImplementedError("sparse kernels in Triton are not used here: parameters for them would have no effect")


def minimize(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("sparse kernels in Triton are not used here: there is nothing to tune")
