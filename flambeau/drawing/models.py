"""Tables of models: what every module takes, gives and holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._autograd.modes import no_grad
from .._ops.registry import ops
from .._tensor import Tensor
from ..nn.modules.module import Module
from ..random import fork_rng


@dataclass
class Row:
    """A module: where it is, what it takes and gives, and how many elements its parameters have."""

    path: str
    kind: str
    depth: int
    parameters: int
    trained: int
    input: str = ""
    output: str = ""
    order: int = -1  # of its first call; -1 if it was not called


@dataclass
class Summary:
    """The table of a model; `rows` holds what it shows."""

    rows: list[Row] = field(default_factory=list)
    parameters: int = 0
    trained: int = 0
    nbytes: int = 0

    def __str__(self) -> str:
        head = ("module", "input", "output", "parameters")
        body = [(_name(r), r.input, r.output, f"{r.parameters:,}") for r in self.rows]
        widths = [max(len(line[i]) for line in (head, *body)) for i in range(4)]
        widths[0] += 2
        lines = [_columns(line, widths) for line in (head, *body)]
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, self.total()])

    __repr__ = __str__

    def total(self) -> str:
        return f"{self.parameters:,} parameters, {self.trained:,} trained, {_bytes(self.nbytes)}"

    def _repr_html_(self) -> str:
        from .html import table

        body = [("\u2003" * r.depth + _name(r).strip(), r.input, r.output, f"{r.parameters:,}") for r in self.rows]
        return table(("module", "input", "output", "parameters"), body, self.total())


def summary(model: Module, *inputs: Any, depth: int = 3) -> Summary:
    """A table of a model's modules. With inputs (tensors, or shapes of such) the model runs once, for the shapes between its modules; its mode, its
    buffers and the random streams are left as they were.

    >>> import flambeau as torch
    >>> found = summary(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten()), (1, 3, 6, 6))
    >>> found.rows[1].output, found.parameters
    ('[1, 8, 4, 4]', 224)
    """
    rows: dict[int, Row] = {}
    for path, module in model.named_modules():
        own = list(module.parameters())
        rows[id(module)] = Row(
            path, type(module).__name__, path.count(".") + 1 if path else 0,
            sum(p.numel() for p in own), sum(p.numel() for p in own if p.requires_grad),
        )  # fmt: skip
    if inputs:
        _run(model, [ops.ones(tuple(a)) if not isinstance(a, Tensor) else a for a in inputs], rows)
    parameters = list(model.parameters())
    top = rows[id(model)]
    shown = [row for row in rows.values() if row.depth <= depth]
    return Summary(shown, top.parameters, top.trained, sum(p.numel() * p.element_size() for p in parameters))


def _run(model: Module, inputs: Sequence[Any], rows: dict[int, Row]) -> None:
    count = iter(range(1 << 62))

    def note(module: Any, args: Any, out: Any) -> None:
        row = rows.get(id(module))
        if row is not None and row.order < 0:
            row.order, row.input, row.output = next(count), shapes(args), shapes(out)

    handles = [module.register_forward_hook(note) for module in model.modules()]
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # statistics of batches are not to change
    try:
        with no_grad(), fork_rng(devices=[]):
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training


def shapes(value: Any) -> str:
    """The shapes of the tensors in what a module takes or gives."""
    found = list(tensors_of(value))
    return ", ".join(str(list(t.shape)) for t in found[:3]) + (", …" if len(found) > 3 else "")


def tensors_of(value: Any) -> Iterator[Any]:
    """The tensors in what a module takes or gives."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_of(part)


def _name(row: Row) -> str:
    own = row.path.rpartition(".")[2]
    return "  " * row.depth + (f"{own}: {row.kind}" if own else row.kind)


def _columns(line: Sequence[str], widths: Sequence[int]) -> str:
    left = [cell.ljust(w) for cell, w in zip(line[:3], widths)]
    return "  ".join([*left, line[3].rjust(widths[3])])


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
