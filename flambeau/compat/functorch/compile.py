"""The names that `functorch.compile` has."""

from ..._functorch import config
from ..._functorch.aot_autograd import (
    aot_function,
    aot_module,
    aot_module_simplified,
    compiled_function,
    compiled_module,
    make_boxed_compiler,
    make_boxed_func,
    nop,
)  # fmt: skip
from ..._functorch.partitioners import default_partition, draw_graph, min_cut_rematerialization_partition

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "config", "default_partition",
    "draw_graph", "make_boxed_compiler", "make_boxed_func", "min_cut_rematerialization_partition", "nop",
]  # fmt: skip
