"""How tensors read as text, where PyTorch keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._core.printing import PRINT_OPTIONS as PRINT_OPTS
from ._core.printing import _array_text, _element_texts, _with_suffixes, set_printoptions
from ._ops.registry import ops
from ._tensor import Tensor

__all__ = ["PRINT_OPTS", "printoptions", "set_printoptions"]


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """A block in which tensors are printed with other options."""
    before = {
        name: getattr(PRINT_OPTS, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    }
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(PRINT_OPTS, name, value)


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers of a tensor in brackets."""
    plain = self.detach().cpu().resolve_conj().resolve_neg()
    return _array_text(plain.numpy(), indent)


def get_summarized_data(self: Tensor) -> Tensor:
    """A tensor with only the elements that are shown of a long one: those at both ends of each dimension."""
    edge = PRINT_OPTS.edgeitems
    for d in range(self.dim()):
        if self.size(d) > 2 * edge:
            parts = (self.narrow(d, 0, edge), self.narrow(d, self.size(d) - edge, edge))
            self = ops.cat(parts, d)
    return self


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Text with dtype, device and so on behind it."""
    return _with_suffixes(tensor_str, suffixes, indent)


def _str(self: Tensor, *, tensor_contents: Any = None) -> str:
    """The text of a tensor, with other words for its values if they are given."""
    return Tensor.__repr__(self, tensor_contents=tensor_contents)


_str_intern = _str


class _Formatter:
    """Writes numbers as they stand in a printed tensor."""

    def __init__(self, tensor: Tensor):
        self._shown = tensor.detach().cpu().numpy()

    def width(self) -> int:
        """The width of the tensor's columns."""
        return _element_texts(self._shown)[1]

    def format(self, value: Any) -> str:
        """The text of one of its elements, as wide as the column."""
        texts, width = _element_texts(np.append(self._shown, self._shown.dtype.type(value)))
        return texts[-1].strip().rjust(width)
