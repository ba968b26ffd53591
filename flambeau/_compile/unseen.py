"""What is done while a block is recorded, and is no part of it."""

from __future__ import annotations

import sys
from typing import Any

from .._backend.meta import empty_meta
from .._core.state import CAPTURE, FUNCTION_MODE, META, local, modes
from .._ops.records.primitive import Primitive
from .._ops.records.shape_rules import DataDependent
from .._tensor import Tensor, wrap
from .standing import with_others
from .whole import tensors_in


class Unseen:
    """A moment in which nothing is recorded."""

    def __enter__(self) -> None:
        self.profile = sys.getprofile()
        sys.setprofile(None)
        self.captures, local.captures = local.captures, ()
        self.function_modes, local.function_modes = local.function_modes, ()
        self.seen = [CAPTURE] * bool(self.captures) + [FUNCTION_MODE] * len(self.function_modes)
        for bit in self.seen:
            modes.leave(bit)

    def __exit__(self, *error: Any) -> None:
        for bit in self.seen:
            modes.enter(bit)
        local.captures, local.function_modes = self.captures, self.function_modes
        sys.setprofile(self.profile)


def shape_is_known(function: Any, args: Any, named: Any) -> bool:
    """Whether the results of a function look the same for other elements."""
    if not tensors_in((args, named)):
        return True

    def without(t: Tensor) -> Tensor:
        return wrap(empty_meta(t._array.shape, t.dtype), t.dtype, META)

    with Unseen():
        try:
            function(*with_others(tuple(args), without), **with_others(named, without))
        except Exception as error:
            return isinstance(function, Primitive) and not isinstance(error, DataDependent)
    return True
