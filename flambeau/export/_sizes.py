"""Sizes that change from call to call: which numbers of a program follow them, found by running it with several sizes.

The module is recorded with the example's sizes and with others. The recordings must be the same program: the same operators on
the same values. Numbers that a program computes from sizes are part of the recording; numbers that differ all the same are
expressions of the sizes if one fits all runs. What no expression fits, or what another size makes another program, is no size that
may change. At last the program is run with sizes that no expression was found by. Questions that the module asks about sizes
(`if x.shape[0] > 10:`) limit them.

Numbers that elements decide (`x.item()`, the length of `x[mask]`) change in the same way: recordings have others in their place.
Nobody knows them before the program runs, so a question about them must follow from what the program states of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from .._core.expressions import Expr, fitted, integer, symbol
from .._core.sizes import Size
from .._core.symbolic import SymInt
from .._dynamo.exc import UserError
from .._subclasses.fake_tensor import _without_memory
from .._tensor import Tensor
from ..fx.experimental.symbolic_shapes import ConstraintViolationError
from ..jit._tracer import ARITHMETIC, Node, Value
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from ._conversion import Sizes
from ._found import Found, of_length
from ._known import Known, data_dependent, give_up
from ._recording import recorded
from ._relations import settle, specialized
from .dynamic_shapes import Place, Wish
from .exported_program import ValueRanges


class _Different(Exception):
    """Two recordings are not the same program."""


class Run:
    """A recording with given sizes."""

    def __init__(
        self, mod: Module, leaves: list[Any], spec: Any, sizes: dict[tuple[int, int], int], instead: dict[int, int | float],
        preserved: tuple[str, ...],
    ):  # fmt: skip
        changed = [
            _resized(leaf, i, sizes) if isinstance(leaf, Tensor) else sizes.get((i, -1), leaf)
            for i, leaf in enumerate(leaves)
        ]
        self.args, self.kwargs = tree_unflatten(changed, spec)
        numbers = [i for i, dim in sizes if dim < 0]
        self.recorder, self.inputs, self.results, self.out_spec = recorded(
            mod, self.args, self.kwargs, instead, preserved, numbers, any(a is not b for a, b in zip(changed, leaves))
        )
        self.nodes: list[Node] = list(self.recorder.top.nodes())
        self.places: dict[int, Any] = {id(v): ("input", i) for i, v in enumerate(self.inputs) if isinstance(v, Value)}
        self.places.update((id(v), ("state", name)) for name, (_, v) in self.recorder.state.items())
        for i, node in enumerate(self.nodes):
            self.places.update((id(v), (i, k)) for k, v in enumerate(node.outs))

    def without_elements(self) -> Run:
        """The same recording, of whose results only shapes are kept."""
        for node in self.nodes:
            for value in node.outs:
                if isinstance(value.example, Tensor):
                    value.example = _without_memory(value.example.detach())
        self.recorder._alive.clear()
        return self

    def place(self, value: Value) -> Any:
        found = self.places.get(id(value))
        return ("constant", value.name) if found is None else found


def _resized(leaf: Tensor, number: int, sizes: dict[tuple[int, int], int]) -> Tensor:
    """A tensor with other sizes, filled with the elements of the example, over and over."""
    for dim in range(leaf.dim()):
        leaf = of_length(leaf, dim, sizes.get((number, dim), leaf._array.shape[dim]))
    return leaf


def _compare(first: Run, other: Run) -> dict[Any, tuple[int, int]]:
    """The whole numbers in which two recordings of one program differ: place -> both."""
    found: dict[Any, tuple[int, int]] = {}

    def same(a: Any, b: Any, where: tuple[Any, ...]) -> None:
        if isinstance(a, Value) and isinstance(b, Value):
            if first.place(a) != other.place(b):
                raise _Different("the same operator runs on other values")
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
            for i, (x, y) in enumerate(zip(a, b)):
                same(x, y, (*where, i))
        elif type(a) is int and type(b) is int:
            if a != b:
                found[where] = a, b
        elif type(a) is not type(b) or not (a == b or (a != a and b != b)):
            raise _Different(f"a number becomes {b!r} instead of {a!r}")

    if len(first.nodes) != len(other.nodes):
        raise _Different("the module runs more or fewer operators")
    for i, (m, n) in enumerate(zip(first.nodes, other.nodes)):
        if m.op != n.op or m.named.keys() != n.named.keys() or len(m.outs) != len(n.outs):
            raise _Different(f"the module runs aten::{n.op} instead of aten::{m.op}")
        same(m.args, n.args, (i, "args"))
        for key in m.named:
            same(m.named[key], n.named[key], (i, "named", key))
        for a, b in zip(m.outs, n.outs):
            if a.kind != b.kind or (isinstance(a.example, Tensor) and a.example.dim() != b.example.dim()):
                raise _Different(f"aten::{m.op} gives another kind of result")
    same(first.results, other.results, ("results",))
    return found


class _Symbol:
    """A size that may change: all places where it is, its value in the example, and its limits."""

    def __init__(self, name: str, value: Any, low: int | None, high: int | None, wish: Wish):
        self.name, self.value, self.high, self.wish = name, value, high, wish
        self.places: list[tuple[Place, Expr]] = []
        self.low = low or 0
        self.limits: list[int | None] = [low, high]

    @property
    def label(self) -> str:
        return self.wish.name or self.places[0][0].text

    def takes(self, n: int) -> bool:
        """Whether a value is within the limits that were asked for."""
        return max(self.low, 2) <= n and (self.high is None or n <= self.high)

    def samples(self, count: int) -> list[int]:
        """Other values, near that of the example."""
        return [n for i in (1, 2, 3, 4, 5, -1, -2, -3, -4) if self.takes(n := self.value + i)][:count]

    def vectors(self, count: int) -> list[dict[str, Any]]:
        """Samples as values of symbols."""
        return [{self.name: n} for n in self.samples(count)]


class _FoundSymbol(_Symbol):
    """A number that elements decide, by its number in the recording."""

    def __init__(self, name: str, number: int, found: Found):
        low = None if found.dim is None else 0
        super().__init__(name, found.number, low, None, Wish(None, 1, 0, 0, None, False, name))
        self.number, self.found, self.tried = number, found, list[dict[str, Any]]()

    @property
    def label(self) -> str:
        return self.name

    @property
    def line(self) -> str:
        return self.found.value.node.line

    def vectors(self, count: int) -> list[dict[str, Any]]:
        return self.tried[:count]

    def candidates(self, others: list[_FoundSymbol]) -> Iterator[dict[str, Any]]:
        """Other values, near that of the example: of this number alone, then together with another one, so that both stay equal, or their sum stays."""
        if isinstance(self.value, float):
            yield from ({self.name: self.value + i} for i in (0.5, 1.25, -0.75))
            return
        steps = (
            1,
            2,
            3,
            4,
            5,
            -1,
            -2,
            -3,
            -4,
            self.value,
            2 * self.value,
            3 * self.value,
        )  # `view(-1, n)` takes multiples
        yield from ({self.name: self.value + i} for i in steps if self.found.dim is None or self.value + i >= 2)
        if not self.tried:
            whole = [s for s in others if s is not self and isinstance(s.value, int)]
            equal = [s for s in whole if s.value == self.value]
            yield from ({self.name: self.value + i, s.name: s.value + i} for s in equal for i in (1, 2, 3, -1))
            yield from ({self.name: self.value + i, s.name: s.value - i} for s in whole for i in (1, 2, -1, -2))


class Study:
    """Finds out which sizes may change, and how the program follows them."""

    def __init__(
        self, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any], wishes: list[tuple[Place, Wish]],
        preserved: tuple[str, ...],
    ):  # fmt: skip
        self.mod, self.preserved = mod, preserved
        self.leaves, self.spec = tree_flatten((args, kwargs))
        self.symbols: list[_Symbol] = []
        self.runs: dict[Any, Run] = {}
        for place, wish in wishes:
            self._add(place, wish)
        self.base = self.run({})
        self.found: list[_FoundSymbol] = []
        if self.base.recorder.found:
            self._find()
        settle(self)
        for s in list(self.found):
            self._vary(s)

    # -- symbols ---------------------------------------------------------------------------------------------------------

    def _add(self, place: Place, wish: Wish) -> None:
        leaf = self.leaves[place.leaf]
        size = int(leaf._array.shape[place.dim] if isinstance(leaf, Tensor) else leaf)
        value, rest = divmod(size - wish.offset, wish.factor)
        if rest:
            raise UserError(
                f"Constraints violated ({wish.name or place.text})!\n  - {place.text} = {size} is not of the form {wish.shown}"
            )
        if wish.name and (value < wish.low or (wish.high is not None and value > wish.high)):
            limits = ValueRanges(wish.low, wish.high)
            raise ConstraintViolationError(
                f"{place.text} = {size}: {value} not in range {str(limits).removeprefix('VR')}"
            )
        if value < 2 and isinstance(leaf, Tensor):
            if wish.soft:
                return
            raise specialized(wish.name or place.text, size, wish.name)
        known = next((s for s in self.symbols if wish.name and s.wish.name == wish.name), None)
        if known is None:
            known = _Symbol(f"s{len(self.symbols)}", value, wish.low, wish.high, wish)
            self.symbols.append(known)
        elif known.value != value:
            other = known.places[0][0].text
            raise UserError(
                f"Constraints violated ({wish.name})!\n  - The values of {place.text} = {size} and {other} = {known.value} must "
                f"be equal: both are called {wish.name}"
            )
        known.places.append((place, symbol(known.name) * wish.factor + wish.offset))

    def run(self, values: dict[str, Any], as_found: bool = False) -> Run:
        """A recording with other values of symbols; those that elements decide may be left to them."""
        known = {s.name: s.value for s in self.symbols} | values
        sizes = {(p.leaf, p.dim): e.value(known) for s in self.symbols for p, e in s.places}
        instead = {} if as_found else {s.number: known[s.name] for s in self.symbols if isinstance(s, _FoundSymbol)}
        key = *sorted(sizes.items()), *sorted(instead.items())
        if key not in self.runs:
            run = Run(self.mod, self.leaves, self.spec, sizes, instead, self.preserved)
            self.runs[key] = run.without_elements() if values else run  # one without others becomes the graph
        return self.runs[key]

    def _find(self) -> None:
        """Makes symbols of the numbers that elements decide, and records again with values that are no special ones."""
        found = self.base.recorder.found
        whole = itertools.count()
        broken = itertools.count()
        for i, f in enumerate(found):
            name = f"u{next(whole)}" if isinstance(f.number, int) else f"zuf{next(broken)}"
            self.found.append(_FoundSymbol(name, i, f))
        self.symbols += self.found
        few = [s for s in self.found if isinstance(s.value, int) and s.value < 2]
        for together in (few, *[[s] for s in few]):
            kept = [s.value for s in together]
            for s in together:
                s.value = 2
            try:
                self.base = self.run({})
            except Exception:
                for s, value in zip(together, kept):
                    s.value = value
            else:
                if together is few:
                    break
        self.base = self.run({})
        found = self.base.recorder.found
        if len(found) != len(self.found):
            raise data_dependent(
                "tell what the program reads from elements: that depends on elements itself", self.found[0].line
            )
        for s in self.found:
            s.found = found[s.number]

    def _vary(self, s: _FoundSymbol) -> None:
        """Finds other values of a number that elements decide, for which the module is the same program."""
        for values in s.candidates(self.found):
            if len(s.tried) == (4 if len(self.symbols) < 3 else 2):
                break
            try:
                run = self.run(values)
            except Exception:  # no value that it takes
                continue
            try:
                _compare(self.base, run)
            except _Different as error:
                give_up(f"guard on data-dependent expression {s.name}: with other elements {error}", s.line)
                self._forget(s)
                return
            s.tried.append(values)
        if not s.tried:
            give_up(
                f"follow {s.name}, which elements decide: the program runs with {s.value} in its place only",
                s.found.value.node.line,
            )
            self._forget(s)

    def _forget(self, s: _FoundSymbol) -> None:
        """Takes a number for that of the example."""
        self.symbols.remove(s)
        self.found.remove(s)

    def follows(self, values: dict[str, int]) -> bool:
        """Whether the module is the same program for other sizes."""
        try:
            _compare(self.base, self.run(values))
        except Exception:
            return False
        return True

    # -- expressions -------------------------------------------------------------------------------------------------------

    def finish(self) -> tuple[Run, DynamicSizes, dict[Expr, ValueRanges], Run | None]:
        """(recording, how its numbers follow the sizes, limits, a run that nothing was found by)."""
        if not self.symbols:
            return self.base, DynamicSizes([self.base], []), {}, None
        several = [s.vectors(4 if len(self.symbols) < 3 else 2) for s in self.symbols]
        vectors: list[dict[str, Any]] = [{}, *itertools.chain(*several)]
        if len(self.symbols) > 1:
            joined: dict[str, Any] = {}
            for i, values in enumerate(several):
                chosen = values[i % len(values)]
                joined.update(chosen if len(chosen) == 1 else {})
            if self.found and not self.follows(joined):
                joined = {}
            vectors += [joined] if joined else []
        last = {s.name: (s.samples(5) or [s.value])[-1] for s in self.symbols if s not in self.found}
        runs = [self.base] + [self.run(v) for v in vectors[1:]]
        numbers: dict[Any, list[int]] = {}
        for i, run in enumerate(runs[1:], 1):
            try:
                for where, (a, b) in _compare(self.base, run).items():
                    numbers.setdefault(where, [a] * len(runs))[i] = b
            except _Different as error:
                labels = ", ".join(s.label for s in self.symbols if s.name in vectors[i])
                raise UserError(f"Constraints violated ({labels})!\n  - With other sizes {error}.") from None
        self._vectors = [{s.name: v.get(s.name, s.value) for s in self.symbols} for v in vectors]
        sizes = DynamicSizes(runs, self.symbols, self._vectors)
        limits = {s.name: s.limits for s in self.symbols}
        limits.update((name, [0, None]) for name in sizes.found if name not in limits)
        self._limit(sizes, limits)
        self._replace(numbers, sizes)
        ranges = {symbol(name): ValueRanges(*found) for name, found in limits.items()}
        return self.base, sizes, ranges, self.run(last, as_found=True)

    def _replace(self, numbers: dict[Any, list[int]], sizes: DynamicSizes) -> None:
        """Puts values in the place of plain numbers that follow the sizes."""
        for where, values in numbers.items():
            e = fitted(values, sizes.atoms)
            if e is None:
                labels = ", ".join(s.label for s in self.symbols)
                raise UserError(
                    f"Constraints violated ({labels})!\n  - A number of the program is {sorted(set(values))} for different sizes; it "
                    "cannot be computed from them in the graph."
                )
            if e.symbols & sizes.found.keys():
                own = [] if where[0] == "results" else sizes.operands(self.base.nodes[where[0]], where[0])
                e = next((known for known, found in own if found == values), None)
                if e is None:  # a few values say nothing of all that elements may decide
                    line = "the result" if where[0] == "results" else self.base.nodes[where[0]].line
                    raise data_dependent("extract specialized integer from data-dependent expression", line)
            made = Value("int", values[0])
            sizes.numbers[id(made)] = e
            sizes.alive.append(made)
            if where[0] == "results":
                target, path = self.base.results, where[1:]
            else:
                node = self.base.nodes[where[0]]
                target, path = (node.args, where[2:]) if where[1] == "args" else (node.named, where[2:])
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = made

    def _limit(self, sizes: DynamicSizes, limits: dict[str, list[int | None]]) -> None:
        """Limits the sizes to those for which the module's questions have the answers that they had."""
        known = Known(sizes, limits)
        for fact in self.base.recorder.facts:
            known.add(fact)
        for asked in self.base.recorder.questions:
            op, value, other, answer, line = asked
            if known.decides(asked):
                continue
            e = sizes.of(value) - (sizes.of(other) if isinstance(other, Value) else integer(other))
            linear = e.linear()
            if linear is None or op == "is":
                continue
            name, factor, offset = linear
            s = next(s for s in self.symbols if s.name == name)
            kept = _answers(op, answer, factor, offset)
            if kept is None:  # equal to one number
                if op in ("eq", "ne") and factor and (op == "eq") == answer:
                    raise specialized(s.label, s.value, s.wish.name)
                continue
            low, high = kept
            narrow_low, narrow_high = low > max(s.low, 2), high is not None and (s.high is None or high < s.high)
            if s.wish.name and (narrow_low or narrow_high):
                text = s.places[0][0].text
                guard = f"{max(low, 2)} <= {text}" + (f" and {text} <= {high}" if high is not None else "")
                fixes = ([f"min={low}"] if narrow_low else []) + ([f"max={high}"] if narrow_high else [])
                raise UserError(
                    f'Constraints violated ({s.label})! For more information, run with TORCH_LOGS="+dynamic".\n  - Not all values of '
                    f"{s.label} = {text} in the specified range satisfy the generated guard {guard}\n{line}\nSuggested fixes:\n"
                    f"  {s.label} = Dim('{s.label}', {', '.join(fixes)})"
                )
            if narrow_low:
                s.limits[0] = max(int(s.limits[0] or 0), low)
            if narrow_high:
                s.limits[1] = high if s.limits[1] is None else min(s.limits[1], high)  # type: ignore[type-var]


def _answers(op: str, answer: bool, a: int, b: int) -> tuple[int, int | None] | None:
    """The limits of s for which `a * s + b op 0` has an answer; None where that is no range."""
    if not answer:
        op = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}[op]
    if op in ("eq", "ne"):
        return None
    if a < 0:
        a, b, op = -a, -b, {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}[op]
    if op in ("ge", "gt"):
        return max(0, -(-(-b + (op == "gt")) // a)), None
    return 0, (-b - (op == "lt")) // a


class DynamicSizes(Sizes):
    """The expressions of all sizes of a program."""

    def __init__(self, runs: list[Run], symbols: list[_Symbol], vectors: list[dict[str, int]] | None = None):
        self.runs, self.numbers, self.shapes, self.strides = runs, {}, {}, {}  # type: ignore[var-annotated]
        self.alive: list[Any] = []
        self.atoms = [(symbol(s.name), [v[s.name] for v in vectors or ()]) for s in symbols if isinstance(s.value, int)]
        self.found = {s.name: s.found for s in symbols if isinstance(s, _FoundSymbol)}
        self.origins: dict[Expr, tuple[int, int]] = {}
        self.labels = ", ".join(s.label for s in symbols)
        self.inputs = {(p.leaf, p.dim): e for s in symbols for p, e in s.places}
        for (leaf, dim), e in sorted(self.inputs.items()):
            self.origins.setdefault(e, (leaf, dim))
        if symbols:
            self._propagate()

    def of(self, value: Value) -> Expr:
        """The expression of a number."""
        return self.numbers.get(id(value), integer(value.example))

    def number(self, value: Value) -> Any:
        e = self.numbers.get(id(value))
        return None if e is None or e.constant is not None else e

    def origin(self, expression: Any) -> tuple[int, int] | None:
        return self.origins.get(expression)

    def known(self) -> list[Any]:
        return list(self.origins)

    def shown(self, value: Value, fake: Any) -> Any:
        found = self.shapes.get(id(value))
        if found is not None and any(e.constant is None for e in found):
            shape = value.example._array.shape
            fake.__dict__["_sizes"] = tuple.__new__(Size, [_size(e, n) for e, n in zip(found, shape)])
            fake.__dict__["_strides"] = tuple(
                _size(e, n) for e, n in zip(self.strides[id(value)], value.example.stride())
            )
        return fake

    def _propagate(self) -> None:
        base = self.runs[0]
        for i, value in enumerate(base.inputs):
            if isinstance(value, Value) and value.kind != "Tensor":
                self.numbers[id(value)] = self.inputs.get((i, -1), integer(value.example))
            elif isinstance(value, Value):
                same = [run.inputs[i] for run in self.runs]
                known = [self.inputs.get((i, d), integer(n)) for d, n in enumerate(value.example._array.shape)]
                self._describe(value, same, known, [])
        for i, node in enumerate(base.nodes):
            atoms = [(e, values) for e, values in self.operands(node, i)]
            for k, value in enumerate(node.outs):
                same = [run.nodes[i].outs[k] for run in self.runs]
                if value.kind == "Tensor":
                    known = [self._size_of(value, d, same, atoms, node) for d in range(value.example.dim())]
                    self._describe(value, same, known, atoms)
                elif value.kind == "int":
                    self.numbers[id(value)] = self._number(node, value, same, atoms)
                elif len({v.example for v in same}) > 1 or (value.kind == "bool" and atoms):
                    name = next((s for s, f in self.found.items() if f.value is value), f"{value.kind[0]}{i}")
                    self.numbers[id(value)] = symbol(name)  # computed in the graph; nothing more is known of it

    def _size_of(self, value: Value, dim: int, same: list[Any], atoms: list[Any], node: Node) -> Expr:
        values = [v.example._array.shape[dim] for v in same]
        if not self.found or fitted(values, itertools.chain(atoms, self.atoms)) is not None:
            return self._fit(values, atoms, node)
        e = symbol(
            f"u{sum(name.startswith('u') for name in self.found)}"
        )  # whatever it follows, it is read when the program runs
        self.found[str(e)] = Found(value, values[0], dim)
        self.atoms.append((e, values))
        return e

    def operands(self, node: Node, number: int) -> Iterator[tuple[Expr, list[int]]]:
        """The expressions of the sizes and numbers that a node uses, with their values in all runs."""
        parallel = [[*run.nodes[number].args, *run.nodes[number].named.values()] for run in self.runs]
        yield from self._sizes_in(parallel)

    def _sizes_in(self, parallel: list[Any]) -> Iterator[tuple[Expr, list[int]]]:
        first = parallel[0]
        if isinstance(first, (list, tuple)):
            for parts in zip(*parallel):
                yield from self._sizes_in(list(parts))
        elif isinstance(first, Value):
            if first.kind == "Tensor":
                for d, e in enumerate(self.shapes.get(id(first), ())):
                    yield e, [v.example._array.shape[d] for v in parallel]
            elif id(first) in self.numbers:
                yield self.numbers[id(first)], [v.example for v in parallel]

    def _fit(self, values: list[int], atoms: list[Any], node: Node) -> Expr:
        e = fitted(values, itertools.chain(atoms, self.atoms))
        if e is None:
            raise UserError(
                f"Constraints violated ({self.labels})!\n  - The sizes of aten::{node.op} are {sorted(set(values))} for different sizes of "
                f"the arguments; no expression was found for them.\n{node.line}"
            )
        return e

    def _describe(self, value: Value, same: list[Any], known: list[Expr], atoms: list[Any]) -> None:
        self.shapes[id(value)] = tuple(known)
        dims = [(e, [v.example._array.shape[d] for v in same]) for d, e in enumerate(known)]
        steps = []
        for d in range(len(known)):
            values = [v.example.stride(d) for v in same]
            dense = integer(1)
            for e in known[d + 1 :]:
                dense = dense * e
            numbers = [math.prod(v.example._array.shape[d + 1 :]) for v in same]
            found = dense if values == numbers else fitted(values, [*dims, *atoms, (dense, numbers)])
            steps.append(integer(values[0]) if found is None else found)
        self.strides[id(value)] = tuple(steps)

    def _number(self, node: Node, value: Value, same: list[Any], atoms: list[Any]) -> Expr:
        if node.op == "size":
            return self.shapes.get(id(node.args[0]), [integer(value.example)] * 99)[node.args[1]]
        if node.op in ARITHMETIC:
            args = [self.of(a) if isinstance(a, Value) else a for a in node.args]
            if all(isinstance(a, (Expr, int)) for a in args):
                return ARITHMETIC[node.op](*[integer(a) if isinstance(a, int) else a for a in args])
        return self._fit([v.example for v in same], atoms, node)


def _size(e: Expr, example: int) -> Any:
    return int(example) if e.constant is not None else SymInt(e, int(example))


def studied(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any], wishes: list[tuple[Place, Wish]], preserved: tuple[str, ...] = (),
) -> tuple[Run, DynamicSizes, dict[Expr, ValueRanges], Run | None]:  # fmt: skip
    """Records a module whose sizes change where that is wished."""
    return Study(mod, args, kwargs, wishes, preserved).finish()
