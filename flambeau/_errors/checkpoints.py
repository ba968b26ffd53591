"""A checkpoint that does not fit a model, as a table: what is missing, what is left over, what has another shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .names import nearest

_MOST = 12  # rows


def table(missing: Sequence[str], unexpected: Sequence[str], own: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Rows of the names, their shapes in the model and in the checkpoint, and which may be meant; empty if there is nothing to say."""
    rows: list[tuple[str, ...]] = []
    left = list(unexpected)
    for key in missing:
        like = nearest(key, left)
        rows.append(("missing", key, _shape(own.get(key)), _shape(given.get(like)) if like else "", _like(like)))
    rows += [("unexpected", key, "", _shape(given.get(key)), _like(nearest(key, missing))) for key in unexpected]
    for key, t in own.items():
        other = given.get(key)
        if other is not None and _shape(t) != _shape(other):
            rows.append(("reshaped", key, _shape(t), _shape(other), ""))
    if not rows:
        return ""
    text = _columns([("", "name", "model", "checkpoint", ""), *rows[:_MOST]])
    more = f"\n\t… and {len(rows) - _MOST} more" if len(rows) > _MOST else ""
    return text + more + _advice(missing, unexpected)


def _advice(missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """What is the matter with all names at once, if something is."""
    for prefix in ("module.", "_orig_mod.", "model."):
        if unexpected and all(key.startswith(prefix) for key in unexpected):
            return (
                f"\n\tfix: the names begin with {prefix!r}: {{k.removeprefix({prefix!r}): v for k, v in state.items()}}"
            )
        if missing and all(key.startswith(prefix) for key in missing) and unexpected:
            return f"\n\tfix: the model's names begin with {prefix!r}: {{{prefix!r} + k: v for k, v in state.items()}}"
    return ""


def _like(key: str | None) -> str:
    return f"did you mean {key!r}?" if key else ""


def _shape(t: Any) -> str:
    return str(list(t.shape)) if hasattr(t, "shape") else ""


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n\t".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)
