"""Looking for the operation whose derivative made a NaN."""

from __future__ import annotations

import warnings
from typing import Any

from .._core.state import ANOMALY, local, modes


class set_detect_anomaly:
    """Switches anomaly detection on or off, at once or for a block.

    While on, every node remembers the line that made it, and a backward that gives NaN raises and shows that line.
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._outer = local.anomaly
        self._set(check_nan if mode else None)

    @staticmethod
    def _set(value: bool | None) -> None:
        if (value is None) != (local.anomaly is None):
            (modes.leave if value is None else modes.enter)(ANOMALY)
        local.anomaly = value

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._set(self._outer)


class detect_anomaly(set_detect_anomaly):
    """A block in which a backward that gives NaN raises and names the operation.

    >>> import flambeau as torch, warnings
    >>> warnings.simplefilter("ignore")
    >>> x = torch.tensor([0.0], requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).sum().backward()
    ...     except RuntimeError as error:
    ...         print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True):
        warnings.warn(
            "Anomaly Detection has been enabled. This mode slows execution; use it only for debugging.", stacklevel=2
        )
        self._wanted = check_nan

    def __enter__(self) -> None:
        self._outer = local.anomaly
        self._set(self._wanted)
