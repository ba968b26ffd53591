"""The engine of quantized operations. All names are known; the arithmetic is the same for each."""

from __future__ import annotations

from typing import Any

from ._flags import switch, with_switches

supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]


def _an_engine(name: str, value: Any) -> Any:
    if value not in (*supported_engines, "none"):
        raise RuntimeError(
            f"{value} is not a valid value for quantized engine; known are {', '.join(supported_engines)}"
        )
    return value


with_switches(__name__, engine=switch("engine", "x86", _an_engine))
