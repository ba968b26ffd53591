"""Kernels of one step of a recurrent layer on a GPU: what the native loops do for one column, a thread for each."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from ..loops.lang import Array, KernelScope
from ..render.value import SIZE, Value
from ..sequences.recurrent import COLUMNS, GATES, forward_column
from .render import KERNEL, Cuda, joined

# Operands as the native loops have them, here from the row of the step on; of each its address and the bytes between its rows follow.
FORWARD = ("gates", "hidden", "cell", "out", "kept", "raw", "sums", "bias")
# `before` has the states of the step before for the first `known` rows of this one, `start` the first states of others.
BACKWARD = ("gates", "kept", "before", "start", "g_out", "g_hidden", "g_cell", "g_gates", "g_sums", "g_raw")
_FLAT = frozenset(("bias",))
THREADS = 64  # few, so that many processors share a small step
_LOOPS = """  for (long long n = blockIdx.y; n < count; n += gridDim.y)
    for (long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x; j < size; j += gridDim.x * (long long)blockDim.x)
      """


@functools.cache
def forward(mode: str, type: str, keep: bool, projected: bool) -> tuple[str, str]:
    """Name and text of the kernel of a step forward: operands are those of FORWARD, then rows and columns."""

    def body(m: Any, a: Any, n: Any, j: Any, size: Any, o: Any) -> None:
        forward_column(m, a, n, n, n, j, size, o)

    return _text(f"{mode}_step", mode, type, FORWARD, body, COLUMNS[mode][0], keep=keep, projected=projected)


@functools.cache
def backward(mode: str, type: str, projected: bool) -> tuple[str, str]:
    """The same of a step back: operands are those of BACKWARD, then rows, columns and `known`."""

    def body(m: Any, a: Any, n: Any, j: Any, size: Any, o: Any) -> None:
        o.column(m, a, a.before, n, n, n, n, j, size, o)

    return _text(f"{mode}_step_back", mode, type, BACKWARD, body, COLUMNS[mode][1], projected=projected)


def _text(
    name: str, mode: str, type: str, operands: tuple[str, ...], body: Any, column: Any, **options: bool
) -> tuple[str, str]:
    parameters = [f"char* x_{a}, long long s_{a}" for a in operands]
    r = Cuda("column", [*parameters, "long long size", "long long n", "long long j"], "__device__")
    element, arrays = r.constant("i64", SIZE[type]), {}
    for a in operands:
        strides = [element] if a in _FLAT else [Value(r, f"s_{a}", "i64"), element]
        arrays[a] = Array(r, f"x_{a}", type, [], strides)  # type: ignore[arg-type]
    chosen = SimpleNamespace(column=column, gates=GATES[mode], relu=mode == "rnn_relu", inside=False, **options)
    size, n, j = (Value(r, a, "i64") for a in ("size", "n", "j"))
    body(KernelScope(r), SimpleNamespace(**arrays), n, j, size, chosen)
    given = [f"x_{a}, s_{a}" for a in operands]
    more = ""
    if "before" in operands:
        place = operands.index("before")
        given[place] = "n < known ? x_before : x_start, n < known ? s_before : s_start"
        more = ", long long known"
    text = f"""{joined([r])}
{KERNEL} void {name}({", ".join(parameters)}, long long count, long long size{more}) {{
{_LOOPS}column({", ".join(given)}, size, n, j);
}}
"""
    return name, text
