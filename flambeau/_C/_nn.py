"""Functions of neural networks where PyTorch's compiled core keeps them."""

from __future__ import annotations

from typing import Any

from .._core.devices import device as _device
from .._library.aten_layers import OF_NN
from .._ops.making.conversion import to_arguments
from .._tensor.methods import install

install(globals(), "nn.functional")
globals().update(OF_NN)


def __getattr__(name: str) -> Any:
    """Other operators of layers (`upsample_nearest2d`), which are `torch.ops.aten`'s."""
    from .._library.schema_texts import operator_of

    found = None if name.startswith("__") else operator_of(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory format from the arguments of `.to()`.

    >>> import flambeau as torch
    >>> _parse_to("cpu", torch.float64, non_blocking=True)
    (device(type='cpu'), torch.float64, True, None)
    """
    flags = [a for a in args if isinstance(a, bool)]
    waits = bool(kwargs.get("non_blocking", flags[0] if flags else False))
    kind, where, _, form = to_arguments(args, dict(kwargs))
    return None if where is None else _device(where), kind, waits, form
