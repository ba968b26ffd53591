"""The switch for checks of sparse tensors, and solving with a sparse matrix."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._core.layouts import sparse_csr
from .._ops.registry import ops
from .._tensor import Tensor


class check_sparse_tensor_invariants:
    """Whether a program asks for checks of new sparse tensors: at once, for a `with` block or in a function.

    Indices out of range are always an error here, since kernels rely on them; the switch is kept for programs that ask.

    >>> import flambeau as torch
    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    _state = False

    @staticmethod
    def is_enabled() -> bool:
        """Whether checks were asked for."""
        return check_sparse_tensor_invariants._state

    @staticmethod
    def enable() -> None:
        """Asks for checks from now on."""
        check_sparse_tensor_invariants._state = True

    @staticmethod
    def disable() -> None:
        """Asks for no checks from now on."""
        check_sparse_tensor_invariants._state = False

    def __init__(self, enable: bool = True):
        self._wanted = enable
        self._outer: bool | None = None

    def __enter__(self) -> None:
        if self._outer is not None:
            raise RuntimeError("This context manager is already activated; make another instance for a nested block")
        self._outer = self.is_enabled()
        check_sparse_tensor_invariants._state = self._wanted

    def __exit__(self, *error: Any) -> None:
        assert self._outer is not None
        check_sparse_tensor_invariants._state, self._outer = self._outer, None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            with type(self)(self._wanted):
                return function(*args, **named)

        return checked


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """The solution of input @ x = other (or x @ input = other) with a square matrix of layout CSR.

    >>> import flambeau as torch
    >>> torch.sparse.spsolve((2 * torch.eye(2)).to_sparse_csr(), torch.ones(2))
    tensor([0.5000, 0.5000])
    """
    if input.layout is not sparse_csr:
        raise RuntimeError(f"spsolve: expected a matrix of layout torch.sparse_csr, got {input.layout}")
    if other._array.ndim not in (1, 2):
        raise RuntimeError(f"spsolve: the right side must be a vector or a matrix, got {other._array.ndim} dimensions")
    from ..linalg import solve

    return solve(ops.to_dense(input), other, left=left)
