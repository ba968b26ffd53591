"""Function transforms: derivatives and vectorisation of ordinary Python functions."""

from . import batching as batching
from .module_calls import functional_call, stack_module_state
from .transforms import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from .vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "stack_module_state",
    "vjp", "vmap",
]  # fmt: skip
