"""What a device must do. A backend hands out arrays with NumPy's interface and callables made from kernel bodies."""

from __future__ import annotations

from typing import Any, Protocol


class Backend(Protocol):
    """One kind of device. Ops reach array functions as `backend.xp.…` and never import NumPy for them."""

    name: str
    xp: Any
    attention: Any  # attention of arrays by kernels of the device's own, or None

    def pointwise(self, name: str, body: Any, inputs: Any, outputs: Any, compute: Any) -> Any:
        """A callable over arrays that broadcasts, takes `out=`, and is cheap for small arrays."""

    def kernel(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Any:
        """A callable over arrays made from a `lang.Kernel` (a generalized ufunc: core dimensions last)."""

    def empty(self, shape: Any, dtype: Any) -> Any: ...

    def convolves(self, dtype: Any) -> bool:
        """Whether a library of the device convolves arrays of a NumPy dtype."""
