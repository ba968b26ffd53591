"""Pictures (SVG) of how a tensor lies in memory, and of what a model consists of."""

from __future__ import annotations

import html
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .._tensor import Tensor
from ..nn.modules.module import Module
from .models import Row, summary

_CELL, _STEP, _PAD = 34, 30, 12
_MOST = 96  # elements that are drawn
_FONT = "font-family='monospace' font-size='12'"


class Picture(str):
    """An SVG text, which notebooks show and `save` writes."""

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self)


def draw(what: Tensor | Module, *inputs: Any) -> Picture:
    """A picture of a tensor's memory (which places its elements have, by its strides), or of a model's modules in the order of their calls.

    >>> import flambeau as torch
    >>> picture = draw(torch.arange(6).view(2, 3)[:, ::2])
    >>> "strides (3, 2)" in picture, picture.count("<rect")
    (True, 10)
    """
    if isinstance(what, Tensor):
        return _memory(what)
    if isinstance(what, Module):
        return _model(what, inputs)
    raise TypeError(f"draw() takes a Tensor or a Module, not {type(what).__name__}")


def _memory(t: Tensor) -> Picture:
    shape, strides, start = tuple(t.shape), tuple(t.stride()), t.storage_offset()
    length = t.untyped_storage().nbytes() // t.element_size()
    used: dict[int, tuple[int, ...]] = {}
    for index in itertools.islice(itertools.product(*map(range, shape)), _MOST):
        used.setdefault(start + sum(i * s for i, s in zip(index, strides)), index)
    parts, wide = [], 16
    title = f"{list(shape)} {t.dtype}, strides {strides}, offset {start}, storage of {length}"
    parts.append(_text(_PAD, 20, title))
    for place in range(min(length, _MOST)):
        x, y = _PAD + place % wide * _CELL, 34 + place // wide * _CELL
        parts.append(_box(x, y, _CELL, _CELL, "#fde0a0" if place in used else "none"))
        parts.append(_text(x + 4, y + 13, str(place), "#888", 9))
        if place in used:
            parts.append(_text(x + 4, y + 28, ",".join(map(str, used[place])), size=10))
    below = 34 + -(-min(length, _MOST) // wide) * _CELL + 24
    rows, columns = (shape[-2] if len(shape) > 1 else 1, shape[-1]) if shape else (1, 1)
    if len(shape) <= 2 and rows * columns <= _MOST:
        parts.append(_text(_PAD, below, "element -> place"))
        for i, j in itertools.product(range(rows), range(columns)):
            index = (i, j)[2 - len(shape) :] if shape else ()
            x, y = _PAD + j * _CELL, below + 10 + i * _CELL
            parts.append(_box(x, y, _CELL, _CELL, "#fde0a0"))
            parts.append(_text(x + 6, y + 21, str(start + sum(k * s for k, s in zip(index, strides)))))
        below += 10 + rows * _CELL + 12
    width = max(_PAD * 2 + max(min(length, wide), columns) * _CELL, _PAD * 2 + 8 * len(title))
    return _svg(width, below, parts)


def _model(model: Module, inputs: tuple[Any, ...]) -> Picture:
    rows = [row for row in summary(model, *inputs, depth=1 << 20).rows if row.path]
    leaves = [row for row in rows if not any(other.path.startswith(row.path + ".") for other in rows)]
    if inputs:  # in the order of their calls
        leaves = sorted([row for row in leaves if row.order >= 0], key=lambda row: row.order)
    parts = [_text(_PAD, 20, f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters")]
    width, y = 420, 34
    before = leaves[0].input if leaves else ""
    for row in leaves[:_MOST]:
        if row is not leaves[0] or before:
            parts.append(_text(_PAD + 110, y + 12, before, "#888", 10))
            parts.append(f"<path d='M{_PAD + 100} {y} v16 m-4 -5 l4 5 l4 -5' stroke='#888' fill='none'/>")
            y += 18
        parts.append(_box(_PAD, y, width - 2 * _PAD, _STEP, "#cfe3ff"))
        parts.append(_text(_PAD + 8, y + 19, _label(row)))
        y, before = y + _STEP + 4, row.output
    if before:
        parts.append(_text(_PAD + 110, y + 12, before, "#888", 10))
    return _svg(width, y + 24, parts)


def line_chart(
    xs: Sequence[float],
    ys: Sequence[float],
    smooth: Sequence[float],
    below: str,
    beside: str,
    marks: Mapping[str, float],
) -> Picture:
    """A curve over a logarithmic axis: values, the same smoothed, and places that are marked."""
    width, height, left, bottom, top = 640, 360, 70, 310, 30
    low, high = min(smooth), max(smooth)
    low, high = low - 0.05 * ((high - low) or 1), high + 0.05 * ((high - low) or 1)
    first, last = math.log10(min(xs)), math.log10(max(xs))
    place = lambda x: left + (math.log10(x) - first) / ((last - first) or 1) * (width - left - 20)
    level = lambda y: bottom - (min(max(y, low), high) - low) / (high - low) * (bottom - top)
    path = lambda values: "M" + "L".join(f"{place(x):.1f} {level(y):.1f}" for x, y in zip(xs, values))
    parts = [f"<path d='M{left} {top}V{bottom}H{width - 20}' stroke='#888' fill='none'/>"]
    for power in range(math.ceil(first), math.floor(last) + 1):
        x = round(place(10.0**power))
        parts += [f"<path d='M{x} {bottom}v5' stroke='#888'/>", _text(x - 16, bottom + 20, f"1e{power}", "#888")]
    for value in (low, (low + high) / 2, high):
        parts.append(_text(8, round(level(value)) + 4, f"{value:.3g}", "#888"))
    parts += [_text(width // 2 - 40, height - 10, below), _text(8, 16, beside)]
    parts.append(f"<path d='{path(ys)}' stroke='#1f77b4' stroke-opacity='0.35' fill='none'/>")
    parts.append(f"<path d='{path(smooth)}' stroke='#1f77b4' stroke-width='2' fill='none'/>")
    for i, (name, x) in enumerate(marks.items()):
        at = round(place(x))
        parts.append(f"<path d='M{at} {top}V{bottom}' stroke='#d9480f' stroke-dasharray='4 3'/>")
        parts.append(_text(at + 4, top + 14 + 16 * i, f"{name}: {x:.1e}", "#d9480f"))
    return _svg(width, height, parts)


def _label(row: Row) -> str:
    return f"{row.path}: {row.kind}" + (f"  ({row.parameters:,})" if row.parameters else "")


def _box(x: int, y: int, w: int, h: int, fill: str) -> str:
    return f"<rect x='{x}' y='{y}' width='{w}' height='{h}' fill='{fill}' stroke='#666' rx='2'/>"


def _text(x: int, y: int, text: str, fill: str = "currentColor", size: int = 12) -> str:
    return f"<text x='{x}' y='{y}' {_FONT.replace('12', str(size))} fill='{fill}'>{html.escape(text)}</text>"


def _svg(width: int, height: int, parts: list[str]) -> Picture:
    return Picture(
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>"
        + "".join(parts)
        + "</svg>"
    )
