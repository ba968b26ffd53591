"""Tensors that come to life in a recorded run, from numbers: each run makes them anew."""

from __future__ import annotations

import numpy as np

from .._core.state import CUDA, GRAD
from .._dispatch import backend_of
from .._tensor import Tensor, wrap


class Born:
    """Makes a tensor anew from the elements that it was born with."""

    name = "made"

    def __init__(self, t: Tensor):
        array, self.even = t._array, is_even(t)
        if self.even:
            first = np.array(backend_of(t._k).asnumpy(array.reshape(-1)[:1])[0])  # in memory that nobody writes to
            self.array = np.broadcast_to(first, array.shape)
        else:
            self.array = array.copy()
        self.dtype, self.strides, self.k = t.dtype, array.strides, t._k & ~GRAD

    def __call__(self) -> Tensor:
        if not self.even or not self.k & CUDA:
            return wrap(self.array.copy(order="C"), self.dtype, self.k)
        backend = backend_of(self.k)
        made = backend.empty(self.array.shape, self.array.dtype)
        backend.copy(np.array(self.array.reshape(-1)[0]), made)
        return wrap(made, self.dtype, self.k)


def is_even(t: Tensor) -> bool:
    """Whether all elements are the same."""
    array = backend_of(CUDA).asnumpy(t._array) if t._k & CUDA else t._array
    return isinstance(array, np.ndarray) and bool(array.size) and bool((array == array.reshape(-1)[0]).all())
