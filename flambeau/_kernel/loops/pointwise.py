"""Loops around bodies: the inner loop of a pointwise ufunc, specialised on how its operands lie in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from ..building import jit
from ..building.llvm import NoCompiler
from ..render.llvm import Llvm
from ..render.streaming import AHEAD, LINES, lines_from, prefetch, prepare, width, write_lines
from ..render.symbols import Complex, symbols
from ..render.tiles import vectors
from ..render.value import PART, SIZE, Value
from ..threads import pool
from . import chains
from .gathering import gathered
from .ufunc import make_ufunc

_BLOCK = 512  # elements that are searched for rare cases together: few, so that memory and arithmetic overlap

_LONG = 16  # instructions of a body that is written once for all layouts
_LIGHT = 16  # instructions that take no longer than an element comes from memory
_WHOLE = 64  # elements that vectors take side by side

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


def _layouts(count: int, moves: bool) -> list[tuple[bool, ...]]:
    """Which inputs are single values in each special loop; the others are contiguous. What only `moves` also fills."""
    none = (False,) * count
    if count == 1:
        return [none, (True,)] if moves else [none]
    if count == 2:
        return [none, (False, True), (True, False)]
    # numbers come last: one or two operands before them (a gradient and an operand), or a single number
    dense = sorted({1, 2, count - 1})
    return [none, *[(False,) * k + (True,) * (count - k) for k in dense]]


def _known_layout(types: Sequence[str], inputs: int, steps: Sequence[int]) -> list[tuple[bool, ...]]:
    """The one special loop for operands that lie so far apart, if there is one."""
    dense = [s == SIZE[t] for s, t in zip(steps, types)]
    fits = all([d or (i < inputs and s == 0) for i, (d, s) in enumerate(zip(dense, steps))])
    return [tuple([not d for d in dense[:inputs]])] if fits else []


def survey(body: Callable[..., Any], compute: Sequence[str]) -> tuple[bool, bool, int]:
    """Whether the body leaves a slow form for rare elements (`m.rare`), whether that would do for all elements, and how
    many instructions the body has without it."""
    r = Llvm("trial", [])
    r.rare_conditions = []
    arguments = [
        Complex(Value(r, "%a", PART[t]), Value(r, "%a", PART[t])) if t in PART else Value(r, "%a", t) for t in compute
    ]
    body(symbols, *arguments)
    return bool(r.rare_conditions), r.slow_everywhere, len(r.lines)


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
    types = [*inputs, *outputs]
    pointers = [_pointer(r, "%args", i) for i in range(len(types))]
    steps = [_word(r, "%steps", i) for i in range(len(types))]
    n = _word(r, "%dims", 0)
    zero = r.constant("i64", 0)
    rare, everywhere, length = survey(body, compute)
    abreast = chains.abreast(length)
    lines = chains.lines(abreast, [*compute, *types]) if abreast else LINES
    group = width(types[-1], lines)
    # vectors so wide have masks, but not for elements that are two numbers
    masks = vectors()[0] == 64 and not stream and not any(t in PART for t in types)

    def evaluate(single: dict[int, Any], offsets: Callable[[int], Value]) -> tuple[Any, ...]:
        values = [
            single[k] if k in single else symbols.cast(load(r, r.address(pointers[k], offsets(k)), t), compute[k])
            for k, t in enumerate(inputs)
        ]
        results = body(symbols, *values)
        return results if isinstance(results, tuple) else (results,)

    def save(results: tuple[Any, ...], offsets: Callable[[int], Value]) -> None:
        for k, (t, value) in enumerate(zip(outputs, results), len(inputs)):
            store(r, r.address(pointers[k], offsets(k)), t, value)

    def find_rare(single: dict[int, Any], start: Value, stop: Value) -> Value:
        """Whether any element asks for the slow form; the compiler drops all else of the body here."""
        found = r.variable("i32")
        r.write(found, "i32", r.constant("i32", 0))
        with r.loop(start, stop, independent=True) as i:
            r.rare_conditions = []
            evaluate(single, lambda k: i * SIZE[types[k]])
            for condition in r.rare_conditions:
                r.write(found, "i32", r.read(found, "i32") + symbols.cast(condition, "i32"))
        return r.read(found, "i32") == 0

    def whole(start: Value, stop: Value) -> Value:
        """Where the part of a range ends that consists of whole groups."""
        return start + ((stop - start) & -group)

    def each(single: dict[int, Any], i: Value, fast: bool = rare) -> list[Value]:
        """Computes the results of an element; gives the conditions under which its fast form is not right."""
        r.rare_conditions = [] if fast else None
        save(evaluate(single, lambda k: i * SIZE[types[k]]), lambda k: i * SIZE[types[k]])
        return r.rare_conditions or []

    def plain(single: dict[int, Any], start: Value, stop: Value, fast: bool = rare) -> None:
        parts = [(start, stop, 0, False)]
        if masks:  # what is left of the vectors that go side by side is not done one by one
            middle = start + ((stop - start) & -_WHOLE)
            parts = [(start, middle, 0, False), (middle, stop, 1, True)]
        for low, high, count, masked in parts:
            with r.loop(low, high, independent=True, abreast=count, masked=masked) as i:
                each(single, i, fast)
            r.rare_conditions = None

    def tried(single: dict[int, Any], start: Value, stop: Value) -> None:
        """The fast form of all elements; if one of them asks for the slow form, that follows. Operands are still there, then."""
        found = r.variable("i32")
        r.write(found, "i32", r.constant("i32", 0))
        last = whole(start, stop) if abreast else start
        parts = [chains.groups(r, start, last, types[-1], lines, abreast)] if abreast else []
        for part in [*parts, r.loop(last, stop, independent=True, abreast=4)]:
            with part as i:
                for condition in each(single, i):
                    r.write(found, "i32", r.read(found, "i32") + symbols.cast(condition, "i32"))
        r.rare_conditions = None
        with r.when(r.read(found, "i32") != 0):
            plain(single, start, stop, fast=False)

    def contiguous(single: dict[int, Any], start: Value, stop: Value) -> None:
        if abreast and not single:
            last = whole(start, stop)
            with chains.groups(r, start, last, types[-1], lines, abreast) as i:
                each(single, i)
            r.rare_conditions = None
            start = last
        plain(single, start, stop)

    def streamed(single: dict[int, Any], start: Value, stop: Value) -> None:
        """Whole cache lines are made in a local array, which becomes registers, and written as such."""
        kind = types[-1]
        size, part = SIZE[kind], PART.get(kind, kind)
        first, last = lines_from(r, r.address(pointers[-1], start * size), start, stop, kind, lines)
        made = r.local_array(part, width(part, lines))
        plain(single, start, first)
        with r.loop(first, last, group) as block:
            for k, t in enumerate(inputs):
                if k not in single:
                    prefetch(r, r.address(pointers[k], block * SIZE[t] + AHEAD), group * SIZE[t])
            with chains.lanes(r, group, abreast) as i:
                r.rare_conditions = [] if rare else None
                (result,) = evaluate(single, lambda k: (block + i) * SIZE[types[k]])
                store(r, r.address(made, i * size), kind, result)
            r.rare_conditions = None
            write_lines(r, r.address(pointers[-1], block * size), made, lines)
        plain(single, last, stop)

    if known is None and not stream and (rare or length >= _LONG):
        with gathered(r, types, len(inputs), pointers, steps, n, _BLOCK if rare else 0) as (places, count):
            pointers = places
            after = r.label()
            with r.when(find_rare({}, zero, count)) if rare else nullcontext():
                contiguous({}, zero, count)
                r.branch(after)
                r.start_block(r.label())
            if rare:
                plain({}, zero, count, fast=False)
            r.branch(after)
            r.start_block(after)
        r.clear_float_status()
        return r.text()
    layouts = _layouts(len(inputs), not length) if known is None else _known_layout(types, len(inputs), known)
    apart = apart and rare and not stream
    certain = known is not None and bool(layouts) and (apart or not rare)  # then there is no other loop

    def leave() -> None:
        if not certain:
            r.branch(end)
            r.start_block(r.label())  # unreachable; `when` closes it

    with r.loop(zero, n, _BLOCK) if rare else nullcontext(zero) as start:
        stop = symbols.minimum(start + _BLOCK, n) if rare else n
        end = r.label()
        for layout in layouts:
            wanted = [0 if single else SIZE[t] for single, t in zip([*layout, *[False] * len(outputs)], types)]
            fits = functools.reduce(lambda a, b: a & b, (s == w for s, w in zip(steps, wanted)))
            with nullcontext() if certain else r.when(fits):
                single = {
                    k: symbols.cast(load(r, pointers[k], inputs[k]), compute[k]) for k, s in enumerate(layout) if s
                }
                with r.when(find_rare(single, start, stop)) if rare and not apart else nullcontext():
                    (streamed if stream else tried if apart else contiguous)(single, start, stop)
                    leave()
                if rare and everywhere and not apart:
                    plain(single, start, stop, fast=False)
                    leave()
        if not certain:
            with r.loop(start, stop, brief=True) as i:
                save(evaluate({}, lambda k: i * steps[k]), lambda k: i * steps[k])
        r.branch(end)
        r.start_block(end)
    r.clear_float_status()
    return r.text()


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
    text = render_pointwise("kernel", body, inputs, outputs, compute, stream)
    weight = 1 + survey(body, compute)[2] // _LIGHT
    address, data = pool.splitting(jit.compile("kernel", text), len(inputs) + len(outputs), 1, weight, len(outputs))
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
    address = jit.compile("kernel", render_pointwise("kernel", body, inputs, outputs, compute, stream, steps, apart))
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
