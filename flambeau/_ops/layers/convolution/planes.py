"""Planes of results, (images, channels, …), with a number added to each channel, if there are such: a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._backend.cpu import cpu
from ...._kernel.images.columns import copy_rows, raise_all
from .description import CODES


def add_bias(out: Any, bias: Any) -> None:
    """Adds the bias to dense results (images, channels, *size)."""
    if bias is None or not out.size:
        return
    code = CODES[out.dtype]
    cpu.sized(out.size, raise_all, (code, code))(bias, out.reshape(*out.shape[:2], -1))


def copy(source: Any, target: Any, bias: Any) -> None:
    """target[...] = source + bias, for (images, channels, positions)."""
    code, number = CODES[source.dtype], np.zeros((), source.dtype) if bias is None else bias
    call = cpu.sized(target.size, copy_rows, (code,) * 3, added=bias is not None)
    call(source, number, target)
