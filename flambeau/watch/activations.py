"""What modules give during one forward pass: histograms, and units that stay at zero."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._observe.arrays import alive, flat, histogram, host
from .._tensor import Tensor

_MOST = 200  # modules of a pass
_ELEMENTS = 1 << 18  # of a result that are looked at
_LOOKS = 8  # after so many looks in a row at zero a unit counts as dead


class Activations:
    """Results of the innermost modules, by name. Calls of modules go through `call` while a pass is looked at."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.numbers: dict[str, float] = {}
        self.histograms: list[tuple[str, Any]] = []
        self.lines: set[str] = set()  # lines that were looked at
        self.idle: dict[str, Any] = {}  # looks since each unit was last alive

    def begin(self, roots: list[Any]) -> None:
        self.numbers, self.histograms, self.names, self.lines = {}, [], {}, set()
        several = len(roots) > 1
        for root in roots:
            for path, module in root.named_modules():
                if not module._modules:
                    name = f"{type(root).__name__}.{path}" if several and path else path or type(root).__name__
                    self.names.setdefault(id(module), name)

    def note(self, module: Any, out: Any) -> None:
        """Looks at what a module gave; of several calls at the first."""
        name = self.names.pop(id(module), None)
        if name is not None:
            self._look(name, out[0] if isinstance(out, tuple) and out else out)

    def note_line(self, place: tuple[str, int], out: Any) -> None:
        """Looks at what a line of the program made by calling relu itself."""
        name = f"relu, {os.path.basename(place[0])}:{place[1]}"
        if name not in self.lines:
            self.lines.add(name)
            self._look(name, out)

    def _look(self, name: str, out: Any) -> None:
        if not isinstance(out, Tensor) or len(self.histograms) >= _MOST:
            return
        array = host(out)
        if array is None:
            return
        if array.size > _ELEMENTS and array.ndim > 1:
            array = array[: max(1, _ELEMENTS * len(array) // array.size)]
        counted = histogram(flat(array))
        if counted is not None:
            self.histograms.append(("activations/" + name, counted))
            if counted[0] == 0.0 and array.ndim >= 2:
                self._units(name, alive(array))

    def _units(self, name: str, seen: Any) -> None:
        idle = self.idle.get(name)
        if idle is None or idle.shape != seen.shape:
            idle = self.idle[name] = np.zeros(seen.shape, np.int32)
        idle += 1
        idle[seen] = 0
        self.numbers["dead/" + name] = float((idle >= _LOOKS).mean())
