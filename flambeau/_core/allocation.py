"""Fresh arrays on the CPU. The backend puts its own allocator for large ones here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LARGE = 1 << 17  # bytes from which the place in memory matters
_empty = np.empty
allocator: list[Callable[[Any, Any], Any]] = [_empty]


def empty(shape: Any, dtype: Any) -> Any:
    """`np.empty`, but a large result may come from the backend's allocator."""
    out = _empty(shape, dtype)
    if out.nbytes < LARGE:
        return out
    del out  # nobody has touched its pages
    return allocator[0](shape, dtype)
