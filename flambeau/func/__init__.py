"""Function transforms: derivatives and vectorisation of ordinary Python functions."""

from .._functorch.vmap import vmap
from . import batched_ops as batched_ops
from . import custom_functions as custom_functions
from . import randomness as randomness
from .functionalization import debug_unwrap, functionalize, replace_all_batch_norm_modules_
from .module_calls import functional_call, stack_module_state
from .rearranging import rearrange
from .transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
