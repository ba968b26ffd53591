"""Loops around bodies: the inner loop of a pointwise ufunc, specialised on how its operands lie in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..building import archives, jit
from ..building.llvm import NoCompiler
from ..render.llvm import Llvm, NoVectors
from ..render.streaming import AHEAD, LINES, lines_from, prefetch, prepare, width, write_lines
from ..render.symbols import Complex, symbols
from ..render.tiles import vectors
from ..render.value import PART, SIZE, Value
from ..threads import pool
from . import chains
from .gathering import gathered
from .keys import described
from .ufunc import make_ufunc

_BLOCK = 512  # elements that are searched for rare cases together: few, so that memory and arithmetic overlap

LONG = 16  # instructions of a body that is written once for all layouts
_LIGHT = 16  # instructions that take no longer than an element comes from memory
_WHOLE = 64  # elements that vectors take side by side
_FOUR = 4  # vectors of a short body that are computed side by side
_NARROW = ("f16", "bf16", "f32")

Way = Callable[
    [], AbstractContextManager[None]
]  # whether values are single ones or vectors, while elements are written

recipes: dict[Any, tuple[Any, ...]] = {}  # what each ufunc was made from: name, body, inputs, outputs, compute

_PARAMETERS = ["ptr noalias %args", "ptr noalias %dims", "ptr noalias %steps", "ptr %data"]


def load(r: Any, pointer: str, type: str) -> Any:
    part = PART.get(type)
    if part is None:
        return r.load(pointer, type)
    second = r.address(pointer, r.constant("i64", SIZE[part]))
    return Complex(r.load(pointer, part), r.load(second, part))


def store(r: Any, pointer: str, type: str, value: Any) -> None:
    part = PART.get(type)
    if part is None:
        r.store(pointer, type, symbols.cast(value, type) if isinstance(value, Complex) else value)
        return
    value = symbols.cast(value, type)
    r.store(pointer, part, value.re)
    r.store(r.address(pointer, r.constant("i64", SIZE[part])), part, value.im)


def _word(r: Llvm, base: str, index: int) -> Value:
    return r.load(r.address(base, r.constant("i64", 8 * index)), "i64")


def _pointer(r: Llvm, base: str, index: int) -> str:
    address = r.address(base, r.constant("i64", 8 * index))
    return r.value(f"load ptr, ptr {address}, align 8", "i64").name


def _has_numbers(inputs: Sequence[str]) -> bool:
    """Whether doubles at the end are numbers, as operands have one type."""
    return inputs[0] in _NARROW and inputs[-1] == "f64"


def _layouts(inputs: Sequence[str], moves: bool) -> list[tuple[bool, ...]]:
    """Which inputs are single values in each special loop; the others are contiguous. What only `moves` also fills."""
    count = len(inputs)
    if _has_numbers(inputs):
        return [tuple([t == "f64" for t in inputs])]
    if count == 1:
        return [(True,)] if moves else []
    if count == 2:
        return [(False, True), (True, False)]
    # numbers come last: one or two operands before them (a gradient and an operand), or a single number
    dense = sorted({1, 2, count - 1})
    return [(False,) * k + (True,) * (count - k) for k in dense]


def _known_layout(types: Sequence[str], inputs: int, steps: Sequence[int]) -> list[tuple[bool, ...]]:
    """The one special loop for operands that lie so far apart, if there is one."""
    dense = [s == SIZE[t] for s, t in zip(steps, types)]
    fits = all([d or (i < inputs and s == 0) for i, (d, s) in enumerate(zip(dense, steps))])
    return [tuple([not d for d in dense[:inputs]])] if fits else []


def _any_elements(r: Llvm, types: Sequence[str]) -> list[Any]:
    return [
        Complex(Value(r, "%a", PART[t]), Value(r, "%a", PART[t])) if t in PART else Value(r, "%a", t) for t in types
    ]


def survey(body: Callable[..., Any], compute: Sequence[str]) -> tuple[bool, bool, int]:
    """Whether the body leaves a slow form for rare elements (`m.rare`), whether that would do for all elements, and how
    many instructions the body has without it."""
    r = Llvm("trial", [])
    r.rare_conditions = []
    body(symbols, *_any_elements(r, compute))
    return bool(r.rare_conditions), r.slow_everywhere, len(r.lines)


def has_vectors(body: Callable[..., Any], compute: Sequence[str]) -> bool:
    """Whether all that the body does can be written in vectors."""
    r = Llvm("trial", [])
    try:
        with r.vectors(2):
            body(symbols, *_any_elements(r, compute))
            r.rare_conditions = []
            body(symbols, *_any_elements(r, compute))
    except NoVectors:
        return False
    return True


def is_constant(body: Callable[..., Any], compute: Sequence[str]) -> bool:
    """Whether the body has one result, the same for all elements, as `isnan` of integers has."""
    r = Llvm("trial", [])
    made = body(symbols, *_any_elements(r, compute))
    return isinstance(made, Value) and not r.lines and not made.name.startswith("%")


class _Loop:
    """The loop of a body in the making: what it reads and writes, and forms of it for elements that lie side by side.

    `single` has the operands that are one value for all elements, by number. A body with rare cases has a fast form, which says under which
    conditions it is not right, and a slow one.
    """

    def __init__(
        self, r: Llvm, body: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str], compute: Sequence[str],
        stream: bool,
    ):  # fmt: skip
        self.stream = stream  # whether its only result goes past the caches
        self.r, self.body, self.inputs, self.outputs, self.compute = r, body, inputs, outputs, compute
        self.types = [*inputs, *outputs]
        self.pointers = [_pointer(r, "%args", i) for i in range(len(self.types))]
        self.steps = [_word(r, "%steps", i) for i in range(len(self.types))]
        if is_constant(body, compute):  # operands are not read: it makes no difference how they lie
            self.steps[: len(inputs)] = [r.constant("i64", SIZE[t]) for t in inputs]
        self.count = _word(r, "%dims", 0)
        self.zero = r.constant("i64", 0)
        self.rare, self.everywhere, self.length = survey(body, compute)
        self.abreast = chains.abreast(self.length)
        self.lines = chains.lines(self.abreast, [*compute, *self.types]) if self.abreast else LINES
        self.group = width(self.types[-1], self.lines)
        # vectors so wide have masks, but not for elements that are two numbers
        self.masks = vectors()[0] == 64 and not stream and not any(t in PART for t in self.types)
        # Such loops are written in vectors, as the compiler takes long to find them; otherwise it makes them.
        r.as_written = self.masks and has_vectors(body, compute)
        self.one = vectors()[0] // max(SIZE[t] for t in (*self.types, *compute))  # lanes of a vector
        self.several = self.one * (self.abreast or (_FOUR if self.length < LONG else 1))

    def number(self, k: int, place: str) -> Any:
        """An operand's element at a place, in the type in which it enters the body."""
        return symbols.cast(load(self.r, place, self.inputs[k]), self.compute[k])

    def evaluate(self, single: dict[int, Any], offsets: Callable[[int], Value], way: Way) -> tuple[Any, ...]:
        """The results of an element, or of several in vectors."""
        count = len(self.inputs)
        places = ["" if k in single else self.r.address(self.pointers[k], offsets(k)) for k in range(count)]
        with way():
            spread = self.r.in_lanes if self.r.wide else lambda value: value
            values = [spread(single[k]) if k in single else self.number(k, places[k]) for k in range(count)]
            results = self.body(symbols, *values)
        return results if isinstance(results, tuple) else (results,)

    def save(self, results: tuple[Any, ...], offsets: Callable[[int], Value], way: Way) -> None:
        places = [self.r.address(self.pointers[k], offsets(k)) for k in range(len(self.inputs), len(self.types))]
        with way():
            for place, t, value in zip(places, self.outputs, results):
                store(self.r, place, t, value)

    def each(self, single: dict[int, Any], i: Value, fast: bool, way: Way = nullcontext) -> list[Value]:
        """Computes the results of an element; gives the conditions under which its fast form is not right."""
        self.r.rare_conditions = [] if fast else None

        def offsets(k: int) -> Value:
            return i * SIZE[self.types[k]]

        self.save(self.evaluate(single, offsets, way), offsets, way)
        return self.r.rare_conditions or []

    def wherever(self, i: Value) -> None:
        """The same of operands that lie anyhow."""

        def offsets(k: int) -> Value:
            return i * self.steps[k]

        self.save(self.evaluate({}, offsets, nullcontext), offsets, nullcontext)

    def find_rare(self, single: dict[int, Any], start: Value, stop: Value) -> Value:
        """Whether no element asks for the slow form; the compiler drops all else of the body here."""
        r = self.r
        found = self._none_found()

        def look(i: Value, way: Way = nullcontext) -> None:
            r.rare_conditions = []
            self.evaluate(single, lambda k: i * SIZE[self.types[k]], way)
            self._count(found, r.rare_conditions, way)

        if r.as_written:
            self.in_vectors(start, stop, False, look)
        else:
            with r.loop(start, stop, independent=True) as i:
                look(i)
        return r.read(found, "i32") == 0

    def _none_found(self) -> str:
        """A variable that counts elements which ask for the slow form."""
        found = self.r.variable("i32")
        self.r.write(found, "i32", self.r.constant("i32", 0))
        return found

    def _count(self, found: str, conditions: list[Value], way: Way) -> None:
        for condition in conditions:
            with way():
                one = self.r.any(condition) if self.r.wide else condition
            self.r.write(found, "i32", self.r.read(found, "i32") + symbols.cast(one, "i32"))

    def whole(self, start: Value, stop: Value) -> Value:
        """Where the part of a range ends that consists of whole groups."""
        return start + ((stop - start) & -self.group)

    # -- ways through elements that lie side by side -------------------------------------------------------------------

    def in_vectors(self, start: Value, stop: Value, seldom: bool, do: Callable[[Value, Way], Any]) -> None:
        """do(place, way) for several vectors at a time, and for what is left of them; what is `seldom` done is written once."""
        r, middle = self.r, start
        if not seldom:
            middle = start + ((stop - start) & -self.several)
            with r.loop(start, middle, self.several) as i:
                do(i, functools.partial(r.vectors, self.several))
        with r.loop(middle, stop, self.one) as i:
            do(i, functools.partial(r.vectors, self.one, r.lane_mask(stop - i, self.one)))
        r.rare_conditions = None

    def plain(self, single: dict[int, Any], start: Value, stop: Value, fast: bool) -> None:
        if self.r.as_written:
            self.in_vectors(start, stop, self.rare and not fast, lambda i, way: self.each(single, i, fast, way))
            return
        parts = [(start, stop, 0, False)]
        if self.masks and self.rare and not fast:  # is seldom run: one copy will do
            parts = [(start, stop, 1, True)]
        elif self.masks:  # what is left of the vectors that go side by side is not done one by one
            middle = start + ((stop - start) & -_WHOLE)
            parts = [(start, middle, 0, False), (middle, stop, 1, True)]
        for low, high, count, masked in parts:
            with self.r.loop(low, high, independent=True, abreast=count, masked=masked) as i:
                self.each(single, i, fast)
            self.r.rare_conditions = None

    def tried(self, single: dict[int, Any], start: Value, stop: Value) -> None:
        """The fast form of all elements; if one of them asks for the slow form, that follows. Operands are still there, then."""
        r = self.r
        found = self._none_found()

        def one(i: Value, way: Way = nullcontext) -> None:
            self._count(found, self.each(single, i, self.rare, way), way)

        if r.as_written:
            self.in_vectors(start, stop, False, one)
        else:
            last = self.whole(start, stop) if self.abreast else start
            parts = [self._groups(start, last)] if self.abreast else []
            for part in [*parts, r.loop(last, stop, independent=True, abreast=4)]:
                with part as i:
                    one(i)
        r.rare_conditions = None
        with r.when(r.read(found, "i32") != 0):
            self.plain(single, start, stop, fast=False)

    def contiguous(self, single: dict[int, Any], start: Value, stop: Value) -> None:
        if self.abreast and not single and not self.r.as_written:
            last = self.whole(start, stop)
            with self._groups(start, last) as i:
                self.each(single, i, self.rare)
            self.r.rare_conditions = None
            start = last
        self.plain(single, start, stop, self.rare)

    def _groups(self, start: Value, stop: Value) -> Any:
        return chains.groups(self.r, start, stop, self.types[-1], self.lines, self.abreast)

    def streamed(self, single: dict[int, Any], start: Value, stop: Value) -> None:
        """Whole cache lines are made in a local array, which becomes registers, and written as such."""
        r, kind = self.r, self.types[-1]
        size, part = SIZE[kind], PART.get(kind, kind)
        first, last = lines_from(r, r.address(self.pointers[-1], start * size), start, stop, kind, self.lines)
        made = r.local_array(part, width(part, self.lines))
        self.plain(single, start, first, self.rare)
        with r.loop(first, last, self.group) as block:
            for k, t in enumerate(self.inputs):
                if k not in single:
                    prefetch(r, r.address(self.pointers[k], block * SIZE[t] + AHEAD), self.group * SIZE[t])
            with chains.lanes(r, self.group, self.abreast) as i:
                r.rare_conditions = [] if self.rare else None
                (result,) = self.evaluate(single, lambda k: (block + i) * SIZE[self.types[k]], nullcontext)
                store(r, r.address(made, i * size), kind, result)
            r.rare_conditions = None
            write_lines(r, r.address(self.pointers[-1], block * size), made, self.lines)
        self.plain(single, last, stop, self.rare)

    # -- whole loops ---------------------------------------------------------------------------------------------------

    def write_once(self) -> None:
        """One loop for all layouts: blocks of operands that do not lie side by side are gathered first."""
        r = self.r
        given = self.types, len(self.inputs), self.pointers, self.steps, self.count
        with gathered(r, *given, _BLOCK if self.rare else 0) as (places, count):
            self.pointers = places
            after = r.label()
            with r.when(self.find_rare({}, self.zero, count)) if self.rare else nullcontext():
                self.contiguous({}, self.zero, count)
                r.branch(after)
                r.start_block(r.label())
            if self.rare:
                self.plain({}, self.zero, count, fast=False)
            r.branch(after)
            r.start_block(after)

    def write_by_layout(self, layouts: Sequence[tuple[bool, ...]], certain: bool, apart: bool) -> None:
        """A loop for each layout, of which each call takes the first that fits, and one for all others; only one if that is `certain`.

        The one for all others takes contiguous operands where they are, too, if it can gather the rest."""
        r = self.r
        gathers = not self.rare and not self.stream and not _has_numbers(self.inputs)
        way = self.streamed if self.stream else self.tried if apart else self.contiguous

        def leave() -> None:
            if not certain:
                r.branch(end)
                r.start_block(r.label())  # unreachable; `when` closes it

        with r.loop(self.zero, self.count, _BLOCK) if self.rare else nullcontext(self.zero) as start:
            stop = symbols.minimum(start + _BLOCK, self.count) if self.rare else self.count
            end = r.label()
            for layout in layouts:
                wanted = [0 if one else SIZE[t] for one, t in zip([*layout, *[False] * len(self.outputs)], self.types)]
                fits = functools.reduce(lambda a, b: a & b, (s == w for s, w in zip(self.steps, wanted)))
                with nullcontext() if certain else r.when(fits):
                    single = {k: self.number(k, self.pointers[k]) for k, one in enumerate(layout) if one}
                    with r.when(self.find_rare(single, start, stop)) if self.rare and not apart else nullcontext():
                        way(single, start, stop)
                        leave()
                    if self.rare and self.everywhere and not apart:
                        self.plain(single, start, stop, fast=False)
                        leave()
            if not certain and gathers:
                self.gathered()
            elif not certain:
                with r.loop(start, stop, brief=True) as i:
                    self.wherever(i)
            r.branch(end)
            r.start_block(end)

    def gathered(self) -> None:
        """One loop for all layouts: what does not lie side by side is copied there first, a block at a time."""
        given = self.types, len(self.inputs), self.pointers, self.steps, self.count
        with gathered(self.r, *given) as (self.pointers, count):
            self.contiguous({}, self.zero, count)


def render_pointwise(
    name: str,
    body: Callable[..., Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Sequence[str],
    stream: bool = False,
    known: Sequence[int] | None = None,
    apart: bool = False,
) -> str:
    """LLVM text of a ufunc loop. `compute` says in which type each input enters the body, `known` how far apart the elements of
    each operand lie, in bytes, if that is known; `apart` that results are in other memory than operands.

    A body with rare cases is run in blocks: unless a block has such an element, it takes the fast form. With `stream`
    the loop's only result goes past the caches, which could not keep it: that saves reading its memory first.
    """
    r = Llvm(name, _PARAMETERS)
    loop = _Loop(r, body, inputs, outputs, compute, stream)
    if known is not None and is_constant(body, compute):
        known = [*[SIZE[t] for t in inputs], *known[len(inputs) :]]
    if known is None and not stream and (loop.rare or loop.length >= LONG):
        loop.write_once()
    else:
        apart = apart and loop.rare and not stream
        layouts = _layouts(inputs, not loop.length) if known is None else _known_layout(loop.types, len(inputs), known)
        if stream and known is None and not _has_numbers(inputs):  # nothing is gathered
            layouts = [(False,) * len(inputs), *layouts]
        loop.write_by_layout(layouts, known is not None and bool(layouts) and (apart or not loop.rare), apart)
    r.clear_float_status()
    return r.text()


def _compiled(body: Callable[..., Any], *facts: Any) -> int:
    """The address of a body's loop, whose text is not made if it is known by the body's own: that takes as long as most of these are run."""
    own = described((body, *[tuple(f) if isinstance(f, list) else f for f in facts]), archives.MODULES)

    def render() -> str:
        return render_pointwise("kernel", body, *facts)

    return (
        jit.compile("kernel", render()) if own is None else jit.compile_rendered("kernel", ("pointwise", own), render)
    )


def pointwise_ufunc(
    name: str, body: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str], compute: Sequence[str]
) -> Any:
    """A NumPy ufunc made from a body over scalars."""
    made = _made(name, body, inputs, outputs, compute)
    recipes[made] = (name, body, inputs, outputs, compute)
    return made


def _made(
    name: str,
    body: Callable[..., Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Sequence[str],
    stream: bool = False,
) -> Any:
    address = _compiled(body, inputs, outputs, compute, stream)
    weight = 1 + survey(body, compute)[2] // _LIGHT
    address, data = pool.splitting(address, len(inputs) + len(outputs), 1, weight, len(outputs))
    return make_ufunc(name, address, inputs, outputs, "", data)


def is_light(ufunc: Any) -> bool:
    """Whether a pointwise ufunc computes so little that it waits for memory."""
    _, body, _, _, compute = recipes[ufunc]
    return survey(body, compute)[2] < _LIGHT


@functools.cache
def past_caches(ufunc: Any) -> Any:
    """The pointwise ufunc that writes its result past the caches; the same one if it has several, or there is no compiler."""
    name, body, inputs, outputs, compute = recipes[ufunc]
    if len(outputs) != 1:
        return ufunc
    try:
        made = _made(name, body, inputs, outputs, compute, stream=True)
    except NoCompiler:
        return ufunc
    recipes[made] = recipes[ufunc]
    return made


def pointwise_loop(
    body: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str], compute: Sequence[str], steps: Sequence[int],
    stream: bool, apart: bool,
) -> tuple[int, int, Any]:  # fmt: skip
    """The loop of a body for operands that lie so many bytes apart: its address, and address and data of the loop that splits itself.

    If results are in other memory than operands, that is said by `apart`."""
    address = _compiled(body, inputs, outputs, compute, stream, steps, apart)
    weight = 1 + survey(body, compute)[2] // _LIGHT
    return address, *pool.splitting(address, len(inputs) + len(outputs), 1, weight, len(outputs))


@functools.cache
def fill_loop(type: str) -> int:
    """The address of a ufunc loop that writes its first operand's one value to all places of the second, which is dense."""
    r = Llvm("fill", _PARAMETERS)
    value, target = r.load(_pointer(r, "%args", 0), type), _pointer(r, "%args", 1)
    zero, n, size, group = r.constant("i64", 0), _word(r, "%dims", 0), SIZE[type], width(type, 4)
    whole = n & -group

    def write(start: Value, stop: Value, first: Value) -> None:
        with r.loop(start, stop, independent=True) as i:
            r.store(r.address(target, (first + i) * size), type, value)

    with r.loop(zero, whole, group) as block:
        prepare(r, r.address(target, block * size), group * size)
        write(zero, r.constant("i64", group), block)
    write(whole, n, zero)
    return jit.compile("fill", r.text())
