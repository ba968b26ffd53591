"""Counts the floating-point operations of matrix products, convolutions and attention, by module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .._autograd.node import sequence
from .._ops.records.facts import aten_name
from .._tensor import Tensor
from ..nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ..profiler._flops import flops_of, is_product
from ..profiler._recorder import Watcher

__all__ = ["FlopCounterMode", "register_flop_formula"]

# Further formulas by the operation's name: formula(*operands with shapes for tensors, out_shape=...) -> count
flop_registry: dict[str, Callable[..., int]] = {}


def _name(target: Any) -> str:
    text = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return text.removeprefix("aten.").removeprefix("aten::")


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Gives operations, by name, a formula of the shapes of their operands and of `out_shape`."""

    def decorate(formula: Any) -> Any:
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            flop_registry[_name(target)] = formula
        return formula

    return decorate


class _Counter(Watcher):
    """Adds up operations while they run, for every module they belong to."""

    def __init__(self, formulas: dict[str, Callable[..., int]]):
        self.formulas = formulas
        self.counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.names: dict[int, str] = {}
        self.inside: list[tuple[str, int]] = []  # modules that run, with the number of the first node made in them
        self.finished: list[tuple[str, int, int]] = []  # modules that ran, with the first and the last number
        self.again: list[str] = []  # modules whose derivatives run
        self.kept: list[Any] = []  # modules, so that no other object gets their id

    def enter(self, module: Module, args: Any) -> None:
        if id(module) not in self.names:
            root = type(module).__name__
            for path, part in module.named_modules():
                self.names.setdefault(id(part), f"{root}.{path}" if path else root)
                self.kept.append(part)
        self.inside.append((self.names[id(module)], sequence()))

    def leave(self, module: Module, args: Any, out: Any) -> None:
        if self.inside:
            name, first = self.inside.pop()
            self.finished.append((name, first, sequence()))

    def backward(self, node: Any, g: Any, create_graph: bool) -> Any:
        outer = self.again
        made = -node._sequence_nr()  # the engine may have given it another `seq`
        self.again = [name for name, first, last in self.finished if first > made > last]  # numbers fall
        try:
            return super().backward(node, g, create_graph)
        finally:
            self.again = outer

    def compute(self, op: Any, args: tuple[Any, ...], k: int) -> Any:
        out = super().compute(op, args, k)
        name = op.name
        formula = self.formulas.get(name)
        if formula is not None:
            shapes = [tuple(a._array.shape) if isinstance(a, Tensor) else a for a in args]
            count = formula(*shapes, out_shape=tuple(out._array.shape) if isinstance(out, Tensor) else None)
        else:
            if not is_product(name):
                return out
            count = flops_of(name, args, out)
        shown = "mm" if name == "linear" and args[2] is None else aten_name(name)
        if name == "convolution_weight" or (name == "convolution" and self.again):
            shown = "convolution_backward"
        for module in dict.fromkeys(("Global", *(name for name, _ in self.inside), *self.again)):
            self.counts[module]["aten." + shown] += count
        return out


class FlopCounterMode:
    """Counts operations inside a `with` block, in total and by module; prints a table at the end if `display`.

    >>> import flambeau as torch
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self,
        mods: Module | list[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self.formulas = {**flop_registry, **{_name(key): f for key, f in (custom_mapping or {}).items()}}
        self._counter = _Counter(self.formulas)
        self._handles: list[Any] = []

    def __enter__(self) -> FlopCounterMode:
        counter = self._counter = _Counter(self.formulas)
        self._handles = [
            register_module_forward_pre_hook(counter.enter),
            register_module_forward_hook(counter.leave, always_call=True),
        ]
        counter.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._counter.stop()
        for handle in self._handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """All that was counted."""
        return sum(self._counter.counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Counts by the module's name ("Global" for all) and then by the operation's ("aten.mm")."""
        return {name: dict(counts) for name, counts in self._counter.counts.items() if counts}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: a row for each module down to `depth`, and for the operations in it."""
        depth = self.depth if depth is None else depth
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        for module, counts in sorted(self.get_flop_counts().items(), key=lambda item: item[0] != "Global"):
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            rows.append((" " * level + module, *_shares(sum(counts.values()), total)))
            rows += [(" " * level + f" - {op}", *_shares(count, total)) for op, count in counts.items()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)


def _shares(count: int, total: int) -> tuple[str, str]:
    """A count in the unit that suits the total, and its share of it."""
    share = f"{count / total:.2%}" if total else "0%"
    for size, suffix in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if total >= size:
            return f"{count / size:.3f}{suffix}", share
    return str(count), share
