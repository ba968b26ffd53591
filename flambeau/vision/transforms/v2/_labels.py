"""Where the labels of a sample are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def labels_of(inputs: Any, getter: Callable[[Any], Any] | str | None) -> Any:
    """The labels of a sample: by a function, by a key, or ("default") where they usually are."""
    if callable(getter):
        return getter(inputs)
    if getter is None:
        return None
    if getter == "default":
        return _found(inputs)
    if isinstance(getter, str) and isinstance(inputs, Mapping):
        return inputs[getter]
    raise ValueError(f"labels_getter should either be 'default', a callable, or None, but got {getter}.")


def _found(inputs: Any) -> Any:
    if isinstance(inputs, (tuple, list)):
        inputs = inputs[1]
    if not isinstance(inputs, Mapping):
        return inputs
    exact = [key for key in inputs if isinstance(key, str) and key.lower() in ("label", "labels")]
    close = [key for key in inputs if isinstance(key, str) and "label" in key.lower()]
    if not (exact or close):
        raise ValueError("no key of the sample says 'labels'; give a labels_getter")
    return inputs[(exact or close)[0]]
