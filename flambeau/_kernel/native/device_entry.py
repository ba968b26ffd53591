"""The native entry for tensors on a GPU: what `entry` does for those on the CPU.

It is reached from there when a tensor among the arguments is on a GPU, describes the arguments in the same way, and carries
out plans of another kind (`device_plan`): arrays that the GPU's library makes, launches of kernels, calls of libraries.
The interpreter's other threads run meanwhile, as a full queue of launches waits for the GPU.
"""

from __future__ import annotations

import array
import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..loops.dialect import compile_function, inline
from .device_plan import ABOUT, ARGUMENT, ARGUMENTS, CALL, FIRST, PASSED, RESULT, RESULTS, SPAN, SPANS, WRITES
from .entry import (
    HISTORIES,
    KNOWN,
    MARK,
    SLOW,
    as_tensors,
    casting,
    count_write,
    in_tuple,
    of_this_thread,
    plan_of,
    release,
    without_plan,
)
from .interpreter import HEAD, KNOWN_NAMES, TYPE, Offsets
from .plan import ABSENT, DEVICE, FLOAT, INT, LOOPS, PLAN, RETURNED, TOGETHER, VIEWS
from .views import storage_of

_WORDS, _RANK = 128, 8  # at most: of a description, dimensions
# What the machine code must know of the GPU's library, by addresses in this process, and how switches stand.
GPU_NAMES = ("array", "launch", "stream", "choice")
# The words of one launch, or of one call of a library's function (at `address`, or 0), in a program; its arguments follow.
LAUNCH = ("launch", "kernel", "address", "x", "y", "z", "across", "down", "deep", "shared", "stream", "count")


def _pass_words(m: Any, address: Any, slots: Any) -> Any:
    return m.call(address, *[m.word(slots, 8 * j) for j in range(PASSED)])


@inline
def carry_out(m, words, calls, bases, launch, stream):
    """Makes calls, in the words of `device_plan`, over memory at these bases; gives 0, or what is wrong with the first that fails."""
    slots, pointers, place, wrong = m.space(ARGUMENTS), m.space(ARGUMENTS), words, m.number(0)
    for _ in range(calls):
        passed, address = m.word(place, 0), m.word(place, 8)
        for j in range(passed):
            source, value = m.word(place, CALL + j * ARGUMENT), m.word(place, CALL + j * ARGUMENT + 8)
            if source >= 0:
                value = m.word(bases, source) + value
            m.put(slots, j * 8, value)
            m.put(pointers, j * 8, slots + j * 8)
        if wrong == 0:
            if address == 0:
                wrong = 0xFFFFFFFF & m.call(
                    launch, m.word(place, 16), m.word(place, 24), m.word(place, 32), m.word(place, 40), m.word(place, 48),
                    m.word(place, 56), m.word(place, 64), m.word(place, 72), stream, pointers, 0,
                )  # fmt: skip
            else:
                wrong = 0xFFFFFFFF & _pass_words(m, address, slots)
        place = place + CALL + passed * ARGUMENT
    return wrong


@inline
def may_write_to(m, parts, count, bases, inputs, history, plan, at, place_of):
    """Whether a plan may write to its arguments: memory that nobody forbids to write to, whose writes are counted, and that no other
    operand shares unless it is the same. History of what is written to is Python's business."""
    writes, spans = m.word(plan, WRITES), m.word(plan, ABOUT) + SPANS
    allowed, number, inferring = m.number(1), m.number(0), m.number(0)
    if m.word(at.modes, place_of.inferring) != at.none:  # some thread is in inference mode: is it this one?
        meta = m.call("PyObject_Vectorcall", at.mark, parts, 0, 0)
        m.run("Py_DecRef", meta)  # it has another owner
        if m.word(meta, TYPE) == at.inference:
            inferring = 1
        else:
            allowed = 0
    recording = m.call("PyObject_GetAttr", at.local, at.grad)
    m.run("Py_DecRef", recording)
    for i in range(count):
        t = m.word(parts, i * 8 + 8)
        if t >= MARK:
            if (m.word(t, TYPE) == at.tensor) | (m.word(t, TYPE) == at.parameter):
                if ((writes >> i) & 1) != 0:
                    if storage_of(m, t, at, place_of) == 0:
                        allowed = 0
                    if (m.word(t, place_of.view) != at.none) & (recording == at.true):
                        allowed = 0
                    if (m.word(t, place_of.k) != at.two) & (history != 0):
                        allowed = 0
                    if (m.word(m.word(t, place_of.meta), TYPE) == at.inference) & (inferring == 0):
                        allowed = 0
                    own, start = spans + number * SPAN, m.word(bases, number * 8)
                    for j in range(inputs):
                        span, other = spans + j * SPAN, m.word(bases, j * 8)
                        before = other + m.word(span, 8) <= start + m.word(own, 0)
                        after = start + m.word(own, 8) <= other + m.word(span, 0)
                        same = (other == start) & (m.word(span, 16) == m.word(own, 16))
                        if (before | after | same) == 0:
                            apart = m.word(own, 24)
                            if (apart == 0) | (apart != m.word(span, 24)):
                                allowed = 0
                            else:  # one may lie between the pieces of the other
                                away = (other + m.word(span, 0) - start - m.word(own, 0)) % apart
                                if away < 0:
                                    away += apart
                                if (away < m.word(own, 32)) | (away + m.word(span, 32) > apart):
                                    allowed = 0
                number += 1
    return allowed


def _device_entry(m, site, parts, count, args, given, names, gpu, place_of, lies):
    at, there = m.fields(m.word(site, KNOWN), KNOWN_NAMES), m.fields(gpu, GPU_NAMES)
    slow = m.word(site, SLOW)
    # 1. The description, and where operands lie.
    key, bases = m.space(_WORDS), m.space(HISTORIES + RESULTS)
    n, inputs, history = 4, 0, 0
    for i in range(count):
        if (n > _WORDS - 2 * _RANK - 4) | (i >= HISTORIES):
            return m.call("PyObject_Vectorcall", slow, args, given, names)
        a = m.word(parts, i * 8 + 8)
        if a < MARK:  # absent, or the length of a list
            if a == 0:
                m.put(key, n * 8, ABSENT)
            else:
                m.put(key, n * 8, a)
            n += 1
            continue
        kind = m.word(a, TYPE)
        if (kind == at.tensor) | (kind == at.parameter):
            k, own = m.word(a, place_of.k), m.word(a, place_of.array)
            if own == 0:  # a tensor that nobody has made
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            if ((k != at.two) & (k != at.three)) | (m.word(own, TYPE) != there.array):
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            if k == at.three:
                history = history | (m.number(1) << i)
            shape, strides = m.word(own, lies.shape), m.word(own, lies.strides)
            rank = (m.word(own, lies.shape + 8) - shape) >> 3
            if rank > _RANK:
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            m.put(bases, inputs * 8, m.word(m.word(own, lies.data), lies.pointer))
            inputs += 1
            m.put(key, n * 8, m.word(own, lies.dtype))
            m.put(key, n * 8 + 8, rank)
            n += 2
            for d in range(rank):
                m.put(key, n * 8, m.word(shape, d * 8))
                m.put(key, n * 8 + 8, m.word(strides, d * 8))
                n += 2
            continue
        if (a == at.none) | (a == at.true) | (a == at.false) | (kind == at.str) | (kind == at.dtype):
            m.put(key, n * 8, a)  # one object stands for one value; its plan keeps it
            n += 1
            continue
        if kind == at.float:
            m.put(key, n * 8, FLOAT)
            m.put(key, n * 8 + 8, m.word(a, HEAD))
            n += 2
            continue
        if kind != at.int:
            return m.call("PyObject_Vectorcall", slow, args, given, names)
        value = m.call("PyLong_AsLong", a)
        if value == -1:
            if m.call("PyErr_Occurred") != 0:
                m.run("PyErr_Clear")
                return m.call("PyObject_Vectorcall", slow, args, given, names)
        m.put(key, n * 8, INT)
        m.put(key, n * 8 + 8, value)
        n += 2
    history = of_this_thread(m, history, at)
    m.put(key, 0, history | casting(m, at, place_of))
    m.put(key, 8, DEVICE)
    stream = m.call(there.stream)
    m.put(key, 16, stream + there.choice)
    m.put(key, 24, m.word(at.modes, place_of.default))
    # 2. The plan that is kept under it.
    plan, h = plan_of(m, site, key, n)
    if plan == 0:
        return m.call("PyObject_Vectorcall", without_plan(m, site, h, at), args, given, names)
    results, calls = m.word(plan, 0), m.word(plan, LOOPS)
    if results == VIEWS:
        made = m.call(at.device_views, plan, m.word(parts, 8), m.word(site, KNOWN), at.two, at.three)
        if made != 0:
            return made
        results = 0
    writes = m.word(plan, WRITES)
    if (results == 0) & (writes == 0):  # known to have none
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if writes != 0:
        if may_write_to(m, parts, count, bases, inputs, history, plan, at, place_of) == 0:
            return m.call("PyObject_Vectorcall", slow, args, given, names)
    # 3. Arrays for the results, and for what is needed on the way to them.
    objects = m.space(RESULTS + 1)
    for i in range(results):
        if m.word(plan, PLAN + i * RESULT) == 0:  # None in its place
            m.run("Py_IncRef", at.none)
            m.put(objects, i * 8, at.none)
            continue
        made = m.call("PyObject_Vectorcall", m.word(plan, PLAN + i * RESULT), objects, 0, 0)
        if made == 0:  # no memory: Python says so
            release(m, objects, i)
            m.run("PyErr_Clear")
            return m.call("PyObject_Vectorcall", slow, args, given, names)
        m.put(objects, i * 8, made)
        if m.word(plan, PLAN + i * RESULT + 8) == 0:  # a number
            m.put(bases, (inputs + i) * 8, m.call("PyLong_AsUnsignedLongLongMask", made))
        else:
            m.put(bases, (inputs + i) * 8, m.word(m.word(made, lies.data), lies.pointer))
    # 4. What is computed.
    thread = m.call("PyEval_SaveThread")
    wrong = carry_out(m, plan + PLAN + results * RESULT, calls, bases, there.launch, stream)
    m.run("PyEval_RestoreThread", thread)
    if wrong != 0:  # Python finds out what
        release(m, objects, results)
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    for i in range(count):
        if ((writes >> i) & 1) != 0:
            count_write(m, m.word(parts, i * 8 + 8), place_of)
    # 5. Tensors around the arrays, several in a tuple, and their history.
    done = as_tensors(m, site, plan, results, objects, parts, history, at.two, at.three, at, place_of, RESULT, 8)
    if done < 0:
        return 0
    if done == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if writes != 0:
        if m.word(m.word(plan, ABOUT), FIRST) != 0:
            m.run("Py_IncRef", m.word(parts, 8))
            return m.word(parts, 8)
    made, together = m.word(objects, 0), m.word(plan, TOGETHER)
    if together != 0:
        made = in_tuple(m, objects, m.word(plan, RETURNED), together, at)
        if made == 0:
            return 0
    return made


def _carry_out(m, words, calls, bases, launch, stream):
    return carry_out(m, words, calls, bases, launch, stream)


@functools.cache
def carrier() -> Callable[[int, int, int, int, int], int]:
    """The function that does what `carry_out` does: of addresses of words and of bases."""
    made = compile_function("carry_out", _carry_out, ["words", "calls", "bases", "launch", "stream"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(made)


def _launch(m, words, threads):
    """Does what such words say; gives 0, or what is wrong."""
    at, first, pointers = m.fields(words, LAUNCH), words + 8 * len(LAUNCH), m.space(ARGUMENTS)
    if at.address != 0:
        return 0xFFFFFFFF & _pass_words(m, at.address, first)
    for j in range(at.count):
        m.put(pointers, j * 8, first + j * 8)
    return 0xFFFFFFFF & m.call(
        at.launch, at.kernel, at.x, at.y, at.z, at.across, at.down, at.deep, at.shared, at.stream, pointers, 0
    )


@functools.cache
def launcher() -> int:
    """Where the function is that programs call for each launch."""
    return compile_function("launch", _launch, ["words", "threads"])


def launch_words(launch: int, stream: int, call: tuple[int, int, Sequence[int], Sequence[int]]) -> array.array[int]:
    """A kernel's launch, or the call of a function, as (kernel, address, sizes of grid and block, arguments)."""
    kernel, address, sizes, args = call
    if len(args) > (PASSED if address else ARGUMENTS):
        raise ValueError("too many arguments")
    unseen = [0] * (PASSED - len(args))
    return array.array("q", [launch, kernel, address, *sizes, 0, stream, len(args), *args, *unseen])


class Lies:
    """Where the machine code finds what it needs in arrays of the GPU's library; found out with arrays made for it."""

    shape: int
    strides: int
    dtype: int
    data: int
    pointer: int

    def __init__(self, make: Callable[[], Any]) -> None:
        array, other = make(), make()
        words, more = _words_of(array), _words_of(other)
        self.shape = _vector(words, array.shape)
        self.strides = _vector(words, array.strides)
        self.dtype, self.data = words.index(id(array.dtype)) * 8, words.index(id(array.data)) * 8
        self.pointer = _words_of(array.data).index(array.data.ptr) * 8
        held = _vector(more, other.shape) == self.shape and more[self.data // 8] == id(other.data)
        if not held or _words_of(other.data)[self.pointer // 8] != other.data.ptr:
            raise LookupError("arrays of a layout that is not known")


def _words_of(found: Any) -> list[int]:
    """An object's words, the first (its references) left out."""
    size = found.__sizeof__() // 8
    return [0, *[ctypes.c_int64.from_address(id(found) + 8 * i).value for i in range(1, size)]]


def _vector(words: list[int], numbers: tuple[int, ...]) -> int:
    """Where the begin and end of a vector of these numbers stand among words, in bytes."""
    for i, (first, last) in enumerate(itertools.pairwise(words)):
        if first and last - first == 8 * len(numbers):
            if [ctypes.c_int64.from_address(first + 8 * j).value for j in range(len(numbers))] == list(numbers):
                return 8 * i
    raise LookupError("no such vector")


def compile_device_entry(offsets: Offsets, lies: Lies) -> int:
    given = ["site", "parts", "count", "args", "given", "names", "gpu"]
    return compile_function("device_entry", _device_entry, given, place_of=offsets, lies=lies)


def gpu_words(found: dict[str, int]) -> array.array[int]:
    return array.array("q", [found[name] for name in GPU_NAMES])
