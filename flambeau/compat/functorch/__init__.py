"""The package `functorch`, which `torch.func` came from."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ... import func as _func
from ..._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)


def _deprecated(name: str) -> Callable[..., Any]:
    """A function of `torch.func` under its older name, with PyTorch's warning."""
    function = getattr(_func, name)

    @functools.wraps(function)
    def older(*args: Any, **named: Any) -> Any:
        warnings.warn(
            f"functorch.{name} is deprecated, as functorch is a part of PyTorch. Please use "
            f"`torch.{'vmap' if name == 'vmap' else 'func.' + name}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **named)

    return older


grad, grad_and_value, vmap = _deprecated("grad"), _deprecated("grad_and_value"), _deprecated("vmap")
hessian, jacfwd, jacrev = _deprecated("hessian"), _deprecated("jacfwd"), _deprecated("jacrev")
jvp, vjp, functionalize = _deprecated("jvp"), _deprecated("vjp"), _deprecated("functionalize")

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp",
    "vmap",
]  # fmt: skip
