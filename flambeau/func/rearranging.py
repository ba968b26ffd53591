"""`rearrange`: dimensions named in a pattern are reordered, joined and split."""

from __future__ import annotations

import math
import re
from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor

__all__ = ["rearrange"]

_TOKEN = re.compile(r"\s*(\.\.\.|\(|\)|[A-Za-z_]\w*|1(?!\w))")


_REST = ["..."]  # an ellipsis that stands alone


def _parsed(side: str) -> list[list[str]]:
    """The dimensions of one side of a pattern, each a list of the names that it is made of; `_REST` itself for many."""
    groups: list[list[str]] = []
    inside, place = False, 0
    side = side.rstrip()
    while place < len(side):
        found = _TOKEN.match(side, place)
        if found is None:
            raise ValueError(f"rearrange: cannot read {side[place:]!r}")
        token, place = found.group(1), found.end()
        if token == "(" and not inside:
            groups.append([])
        elif token in "()":
            if (token == ")") is not inside:
                raise ValueError(f"rearrange: parentheses do not match in {side!r}")
        elif token != "1" and inside:
            groups[-1].append(token)
        elif not inside:
            groups.append([] if token == "1" else _REST if token == "..." else [token])
        inside = token == "(" or (inside and token != ")")
    if inside:
        raise ValueError(f"rearrange: parentheses do not match in {side!r}")
    return groups


def _checked(left: list[list[str]], right: list[list[str]], lengths: dict[str, int]) -> None:
    before, after = ([name for group in side for name in group] for side in (left, right))
    for names in (before, after):
        if len(set(names)) != len(names):
            raise ValueError(f"rearrange: a name occurs twice among {names}")
    if set(before) != set(after):
        raise ValueError(f"rearrange: names on one side only: {sorted(set(before) ^ set(after))}")
    if not lengths.keys() <= set(before):
        raise ValueError(f"rearrange: lengths of unknown names: {sorted(lengths.keys() - set(before))}")
    if any("..." in group and group is not _REST for group in left):
        raise ValueError("rearrange: an ellipsis on the left stands alone")


def _sizes(left: list[list[str]], shape: tuple[int, ...], lengths: dict[str, int]) -> dict[str, Any]:
    """The length of every name; of the ellipsis, a tuple."""
    rest = len(shape) - (len(left) - (_REST in left))
    if rest < 0 or (rest and _REST not in left):
        raise ValueError(f"rearrange: the pattern has {len(left)} dimensions, the tensor {len(shape)}")
    sizes: dict[str, Any] = dict(lengths)
    place = 0
    for group in left:
        if group is _REST:
            sizes["..."] = tuple(shape[place : place + rest])
            place += rest
            continue
        unknown = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1:
            raise ValueError(f"rearrange: give the lengths of all but one of {group}")
        if unknown:
            sizes[unknown[0]] = shape[place] // known if known else 0
        if math.prod(sizes[name] for name in group) != shape[place]:
            raise ValueError(f"rearrange: a dimension of {shape[place]} is not {' * '.join(group) or 1}")
        place += 1
    return sizes


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Tensor:
    """Reorders, joins (in parentheses on the right) and splits (on the left) the dimensions that a pattern names.

    >>> import flambeau as torch
    >>> torch.func.rearrange(torch.zeros(2, 12, 5), "batch (head width) step -> batch head step width", head=3).shape
    torch.Size([2, 3, 5, 4])
    """
    if not isinstance(tensor, Tensor):
        tensor = ops.stack(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: expected a pattern with one '->', got {pattern!r}")
    left, right = (_parsed(side) for side in sides)
    _checked(left, right, axes_lengths)
    sizes = _sizes(left, tuple(tensor._array.shape), axes_lengths)
    # every name becomes a dimension of its own, the ellipsis as many as it stands for
    places: dict[str, list[int]] = {}
    split: list[int] = []
    for name in (name for group in left for name in group):
        length = sizes[name] if name == "..." else (sizes[name],)
        places[name] = list(range(len(split), len(split) + len(length)))
        split += length
    order = [place for group in right for name in group for place in places[name]]
    shape: list[int] = []
    for group in right:
        if group is _REST:
            shape += sizes["..."]
        else:
            shape.append(math.prod(math.prod(sizes[n]) if n == "..." else sizes[n] for n in group))
    return ops.reshape(ops.permute(ops.reshape(tensor, split), order), shape)
