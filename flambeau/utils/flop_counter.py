"""Counts the floating-point operations of matrix products, convolutions and attention, by module."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .._autograd.node import sequence
from .._core.sizes import Size
from .._library.namespaces import OpOverloadPacket
from .._library.namespaces import ops as torch_ops
from .._ops.records.facts import aten_name
from .._tensor import Tensor
from ..nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ..profiler._flops import flops_of, is_product
from ..profiler._recorder import Watcher
from ._pytree import tree_map

__all__ = ["FlopCounterMode", "register_flop_formula"]

# Further formulas by operation, such as torch.ops.aten.exp: formula(*operands with shapes for tensors, out_shape=...) -> count
flop_registry: dict[Any, Callable[..., int]] = {}


def _named(formulas: dict[Any, Callable[..., int]]) -> dict[str, Callable[..., int]]:
    """Formulas by the names that operations have when they run: without a namespace those of ours."""
    return {str(target).removeprefix("aten.").replace(".", "::"): formula for target, formula in formulas.items()}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Gives operations (`torch.ops.mylib.foo`, one or several) a formula of the shapes of their operands and of `out_shape`; with `get_raw`
    of the tensors themselves and of `out_val`."""
    several = targets if isinstance(targets, (list, tuple)) else (targets,)

    def decorate(formula: Any) -> Any:
        for target in several:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), got "
                    f"{target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = _Raw(formula) if get_raw else formula
        return formula

    return decorate


class _Raw:
    """A formula of tensors instead of their shapes."""

    _get_raw = True

    def __init__(self, formula: Callable[..., int]):
        self.formula = formula

    def __call__(self, *args: Any, out_val: Any, **named: Any) -> int:
        return self.formula(*args, out_val=out_val, **named)


def _packet(name: str) -> Any:
    """What stands for an operation under `torch.ops`, by its name with the namespace; the name where there is none."""
    namespace, _, own = name.partition("::")
    return getattr(getattr(torch_ops, namespace), own, name.replace("::", "."))


class _Counter(Watcher):
    """Adds up operations while they run, for every module they belong to."""

    def __init__(self, formulas: dict[str, Callable[..., int]]):
        self.formulas = formulas
        self.counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.names: dict[int, str] = {}
        self.inside: list[tuple[str, int]] = []  # modules that run, with the number of the first node made in them
        self.finished: list[tuple[str, int, int]] = []  # modules that ran, with the first and the last number
        self.again: list[str] = []  # modules whose derivatives run
        self.behind = 0  # in how many derivatives
        self.running: Any = None  # the operator of a library that runs
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
        outer, self.behind = self.again, self.behind + 1
        made = -node._sequence_nr()  # the engine may have given it another `seq`
        self.again = [name for name, first, last in self.finished if first > made > last]  # numbers fall
        try:
            return super().backward(node, g, create_graph)
        finally:
            self.again = outer
            self.behind -= 1

    def compute(self, op: Any, args: tuple[Any, ...], k: int) -> Any:
        out = super().compute(op, args, k)
        name = op.name
        formula = self.formulas.get(name)
        if formula is not None:
            count = _by(formula, args, {}, out)
        else:
            if not is_product(name):
                return out
            count = flops_of(name, args, out)
        shown = aten_name(name)
        if name in ("linear", "matmul", "mm", "bmm"):
            shown = _product(name, args)
        if name == "convolution_weight" or (name == "convolution" and self.behind):
            shown = "convolution_backward"
        self._add(_packet("aten::" + shown), count)
        return out

    def call(self, function: Any, args: Any, named: Any) -> Any:
        """Runs an operator of a library that has a formula, and other functions as they are."""
        packet = getattr(function, "overloadpacket", None)
        formula = None if packet is None else self.formulas.get(packet._qualified_op_name)
        if formula is None or self.running is function:
            return super().call(function, args, named)
        self.running = function
        try:
            out = function(*args, **named)
        finally:
            self.running = None
        self._add(packet, _by(formula, args, named, out))
        return out

    def _add(self, packet: Any, count: int) -> None:
        for module in dict.fromkeys(("Global", *(name for name, _ in self.inside), *self.again)):
            self.counts[module][packet] += count


def _by(formula: Callable[..., int], args: Any, named: Any, out: Any) -> int:
    """What a formula says of a call."""
    if getattr(formula, "_get_raw", False):
        return formula(*args, **named, out_val=out)
    return formula(*tree_map(_shape, args), **tree_map(_shape, named), out_shape=tree_map(_shape, out))


def _product(name: str, args: Any) -> str:
    """What PyTorch calls a product of matrices: one of a batch by one matrix is that of two matrices."""
    if name == "linear":
        return "mm" if args[2] is None else "addmm"
    ranks = [len(a._array.shape) for a in args[:2]]
    return "bmm" if min(ranks) > 2 else "mm" if min(ranks) == 2 else "mv" if max(ranks) > 1 else "dot"


def _shape(a: Any) -> Any:
    return Size(a._array.shape) if isinstance(a, Tensor) else a


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
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.formulas = _named({**flop_registry, **(custom_mapping or {})})
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

    @property
    def flop_counts(self) -> dict[str, dict[Any, int]]:
        """Counts by the module's name ("Global" for all) and then by operation (`torch.ops.aten.mm`); 0 for all others."""
        return self._counter.counts

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """The same without defaults."""
        return {name: dict(counts) for name, counts in self._counter.counts.items()}

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
