"""`torch._C._special`: the functions of `torch.special` under the names that pickles have for them."""

from __future__ import annotations

from typing import Any

from .. import special as _special


def __getattr__(name: str) -> Any:
    if not name.startswith("special_"):
        raise AttributeError(name)
    return getattr(_special, name.removeprefix("special_"))
