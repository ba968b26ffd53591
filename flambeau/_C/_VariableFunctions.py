"""The functions of the top namespace where PyTorch's compiled core keeps them."""

from .._ops.registry import functions
from .._VF import __getattr__ as __getattr__


def __dir__() -> list[str]:
    return [name for name in functions if "." not in name]
