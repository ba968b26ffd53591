"""How tensors and modules look in notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

_MOST = 32  # rows and columns of a heat map
_TEXT = "font-family:monospace;font-size:12px"


def table(head: Sequence[str], body: Sequence[Sequence[str]], foot: str = "") -> str:
    """A table; texts are escaped."""
    cell = lambda text, tag, last: (
        f"<{tag} style='text-align:{'right' if last else 'left'}'>{html.escape(text)}</{tag}>"
    )
    line = lambda row, tag: "<tr>" + "".join(cell(t, tag, i == len(row) - 1) for i, t in enumerate(row)) + "</tr>"
    rows = "".join(line(row, "td") for row in body)
    return f"<table style='{_TEXT}'>{line(head, 'th')}{rows}</table><div style='{_TEXT}'>{html.escape(foot)}</div>"


def tensor_html(t: Any) -> str:
    """What a notebook shows of a tensor: shape, dtype, device, and a heat map of a small matrix, or the printed elements."""
    about = f"Tensor {list(t.shape)} {t.dtype} on {t.device}" + (", requires_grad" if t.requires_grad else "")
    picture = "" if t.is_meta or t.layout.name != "strided" else heat_map(t)
    return f"<div style='{_TEXT}'>{html.escape(about)}</div>" + (picture or f"<pre>{html.escape(repr(t))}</pre>")


def heat_map(t: Any) -> str:
    """A matrix of numbers as colours; empty for anything else."""
    if t.ndim != 2 or not t.numel() > 0 or t.is_complex() or t.is_quantized:
        return ""
    rows, columns = min(t.shape[0], _MOST), min(t.shape[1], _MOST)
    values = t.detach()[:rows, :columns].cpu().double()
    numbers = values.tolist()
    finite = [v for row in numbers for v in row if v == v and abs(v) != float("inf")]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    made = []
    for row in numbers:
        cells = "".join(
            f"<td title='{v:.6g}' style='width:10px;height:10px;padding:0;background:{_colour(v, low, high)}'></td>"
            for v in row
        )
        made.append(f"<tr>{cells}</tr>")
    more = "" if (rows, columns) == tuple(t.shape) else f", the first {rows} x {columns}"
    legend = f"<div style='{_TEXT}'>{low:.4g} to {high:.4g}{more}</div>"
    return f"<table style='border-collapse:collapse'>{''.join(made)}</table>{legend}"


def _colour(v: float, low: float, high: float) -> str:
    """From blue over white to red; grey for what is no number."""
    if v != v or abs(v) == float("inf"):
        return "#888"
    part = (v - low) / (high - low) if high > low else 0.5
    near, far = (int(255 * 2 * part), int(255 * 2 * (1 - part)))
    return f"rgb({min(near, 255)},{min(near, far, 255)},{min(far, 255)})"
