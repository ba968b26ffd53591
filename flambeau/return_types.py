"""Named results of operations that give several tensors: `torch.return_types.max` and the others.

>>> import flambeau as torch
>>> isinstance(torch.ones(2, 2).max(0), torch.return_types.max)
True
"""

from __future__ import annotations

from typing import Any

from ._core import return_types as _all
from .utils._pytree import register_pytree_node

__all__ = ["all_return_types", "pytree_register_structseq"]

all_return_types: list[Any] = _all.all_kinds()


def pytree_register_structseq(cls: Any) -> None:
    """Makes a class of named results known to `utils._pytree`, as a container of its fields."""
    register_pytree_node(
        cls, lambda given: (list(given), None), lambda values, context: cls(values), serialized_type_name=f"torch.return_types.{cls.__name__}"
    )  # fmt: skip


for _class in all_return_types:
    globals()[_class.__name__] = _class
    __all__.append(_class.__name__)
