"""The package `functorch`, which `torch.func` came from."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ... import func as _func
from ..._functorch import make_functional as _older
from ..._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers


def _deprecated(name: str, instead: str = "") -> Callable[..., Any]:
    """A function under its older name, with PyTorch's warning; `instead`: what of `torch.func` does the same."""
    function = getattr(_older if instead else _func, name)

    @functools.wraps(function)
    def older(*args: Any, **named: Any) -> Any:
        warnings.warn(
            f"functorch.{name} is deprecated: PyTorch has integrated functorch as torch.func. Please use "
            f"`torch.{'vmap' if name == 'vmap' else 'func.' + (instead or name)}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **named)

    return older


grad, grad_and_value, vmap = _deprecated("grad"), _deprecated("grad_and_value"), _deprecated("vmap")
hessian, jacfwd, jacrev = _deprecated("hessian"), _deprecated("jacfwd"), _deprecated("jacrev")
jvp, vjp, functionalize = _deprecated("jvp"), _deprecated("vjp"), _deprecated("functionalize")
make_functional = _deprecated("make_functional", "functional_call")
make_functional_with_buffers = _deprecated("make_functional_with_buffers", "functional_call")
combine_state_for_ensemble = _deprecated("combine_state_for_ensemble", "stack_module_state")

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp",
    "vmap",
]  # fmt: skip
