"""The domain `m` of symbols: reading a body with it writes the body down as kernel code.

Real values are `Value`s; complex ones are pairs of them. Elementary functions come from `vecmath`
(real) and `complexmath`, both written over the primitives here.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

from ..._core.state import LOADING, held_over_forks
from .value import PART, Value, is_float, promote

# Modules that register functions of `m`.
_LIBRARIES = ("vecmath", "division", "specialmath", "bessel")
_loading = threading.RLock()
held_over_forks(_loading, LOADING)  # Python's own locks of modules are not
INTEGER_OF = {"f32": "i32", "f64": "i64"}
FLOAT_OF = {"i32": "f32", "i64": "f64"}


class Complex:
    """A complex value as its two parts."""

    __slots__ = ("im", "re")

    def __init__(self, re: Value, im: Any = None):
        self.re = re
        self.im = re.r.constant(re.type, 0.0) if im is None else im

    @property
    def type(self) -> str:
        return "c64" if self.re.type == "f32" else "c128"

    @property
    def r(self) -> Any:
        return self.re.r

    def _other(self, other: Any) -> Complex:
        if isinstance(other, Complex):
            return other
        if isinstance(other, Value):
            return Complex(self.r.cast(other, self.re.type))
        number = complex(other)
        constant = self.r.constant
        return Complex(constant(self.re.type, number.real), constant(self.re.type, number.imag))

    def __add__(self, o: Any) -> Complex:
        o = self._other(o)
        return Complex(self.re + o.re, self.im + o.im)

    def __sub__(self, o: Any) -> Complex:
        o = self._other(o)
        return Complex(self.re - o.re, self.im - o.im)

    def __rsub__(self, o: Any) -> Complex:
        return self._other(o) - self

    def __mul__(self, o: Any) -> Complex:
        if isinstance(o, (int, float)):  # a real factor keeps infinities apart
            return Complex(self.re * float(o), self.im * float(o))
        if isinstance(o, Value):
            return Complex(self.re * o, self.im * o)
        o = self._other(o)
        return Complex(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)

    def __truediv__(self, o: Any) -> Complex:
        if isinstance(o, (int, float, Value)):
            return Complex(self.re / o, self.im / o)
        o = self._other(o)
        # divided by the larger part, so that squares do not overflow
        m = symbols
        c, d = m.real_abs(o.re), m.real_abs(o.im)
        swap = c < d
        large, small = m.where(swap, o.im, o.re), m.where(swap, o.re, o.im)
        nothing = (c == 0.0) & (d == 0.0)
        ratio = m.where(nothing, 0.0, small / large)
        below = m.where(nothing, 0.0, m.fma(small, ratio, large))
        first, second = m.where(swap, ratio, 1.0), m.where(swap, 1.0, ratio)
        re, im = m.fma(self.re, first, self.im * second), m.fma(self.im, first, -self.re * second)
        return Complex(re / below, im / below)

    def __rtruediv__(self, o: Any) -> Complex:
        return self._other(o) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __pos__(self) -> Complex:
        return self

    def __eq__(self, o: Any) -> Any:
        o = self._other(o)
        return (self.re == o.re) & (self.im == o.im)

    def __ne__(self, o: Any) -> Any:
        o = self._other(o)
        return (self.re != o.re) | (self.im != o.im)

    __hash__ = object.__hash__


class Symbols:
    """Primitives and functions of kernel values, as methods; `functions` are added by the math modules."""

    symbolic = True

    def __getattr__(self, name: str) -> Any:
        """Functions are looked up where they are written; those modules are loaded when the first kernel needs one."""
        with _loading:
            for library in _LIBRARIES:
                importlib.import_module(f"..math.{library}", __package__)
        found = type(self).__dict__.get(name)
        if found is None:
            raise AttributeError(f"no kernel function {name!r}; add it to one of {', '.join(_LIBRARIES)}")
        return found.__get__(self)

    # -- types ---------------------------------------------------------------------------------

    def cast(self, x: Any, type: str) -> Any:
        if type in PART:
            part = PART[type]
            if isinstance(x, Complex):
                return Complex(x.r.cast(x.re, part), x.r.cast(x.im, part))
            return Complex(x.r.cast(x, part))
        if isinstance(x, Complex):
            if type == "b1":
                return x != 0.0
            x = x.re
        return x.r.cast(x, type)

    def constant(self, value: Any, like: Any) -> Any:
        """A literal with the type of another value."""
        if isinstance(like, Complex):
            return like._other(value)
        return like.r.constant(like.type, value)

    def zeros_like(self, x: Any) -> Any:
        return self.constant(0, x)

    def ones_like(self, x: Any) -> Any:
        return self.constant(1, x)

    def bits(self, x: Value) -> Value:
        """The bits of a float as a signed integer of the same width."""
        return x.r.bitcast(x, INTEGER_OF[x.type])

    def from_bits(self, x: Value) -> Value:
        return x.r.bitcast(x, FLOAT_OF["i" + x.type[1:]])

    def rounded(self, x: Value, code: str) -> Value:
        """An f32 rounded to the precision of a 16-bit float (its range is not looked at)."""
        dropped = 16 if code == "bf16" else 13
        bits = x.r.bitcast(x, "u32")
        near = (bits + (((bits >> dropped) & 1) + ((1 << (dropped - 1)) - 1))) & (0xFFFFFFFF ^ ((1 << dropped) - 1))
        return self.where(x != x, x, x.r.bitcast(near, "f32"))

    def stored(self, x: Value, code: str) -> Value:
        """What a store and a load of a type make of a value."""
        return x.r.through(x, code)

    # -- choice --------------------------------------------------------------------------------

    def where(self, c: Value, a: Any, b: Any) -> Any:
        if isinstance(a, Complex) or isinstance(b, Complex):
            like = a if isinstance(a, Complex) else b
            a, b = like._other(a), like._other(b)
            return Complex(self.where(c, a.re, b.re), self.where(c, a.im, b.im))
        if not isinstance(a, Value):
            a = self._literal(a, b, c)
        if not isinstance(b, Value):
            b = self._literal(b, a, c)
        common = promote(a.type, b.type)
        return c.r.select(c, c.r.cast(a, common), c.r.cast(b, common))

    def repeat(
        self, count: Any, state: tuple[Any, ...], step: Callable[..., Any], going: Any = None
    ) -> tuple[Any, ...]:
        """state = step(i, *state), `count` times, but only while going(*state) holds: a loop within the body."""
        r = state[0].r
        slots = [(r.variable(v.type), v.type) for v in state]
        for (slot, type), v in zip(slots, state):
            r.write(slot, type, v)
        position = r.variable("i64")
        r.write(position, "i64", r.constant("i64", 0))
        stop = count if isinstance(count, Value) else r.constant("i64", count)
        head, body, end = r.label(), r.label(), r.label()
        r.branch(head)
        r.start_block(head)
        i = r.read(position, "i64")
        current = [r.read(slot, type) for slot, type in slots]
        more = i < r.cast(stop, "i64")
        r.branch_if(more & going(*current) if going is not None else more, body, end)
        r.start_block(body)
        for (slot, type), v in zip(slots, step(i, *current)):
            r.write(slot, type, v)
        r.write(position, "i64", i + 1)
        r.branch(head)
        r.start_block(end)
        return tuple(r.read(slot, type) for slot, type in slots)

    def rare(self, condition: Value, slow: Callable[[], Any], fast: Any, everywhere: bool = False) -> Any:
        """`fast`, but slow() where the condition holds, which hardly ever happens; either may be a tuple.

        Loops over arrays look for such elements first and leave the slow form out where there is none. `everywhere`:
        slow() is right for all elements and not much dearer, so that it serves alone where nobody looks first.
        """
        return condition.r.rare(condition, slow, fast, everywhere)

    def _literal(self, x: Any, like: Any, c: Value) -> Value:
        if isinstance(like, Value) and not (isinstance(x, float) and not is_float(like.type)):
            return c.r.constant(like.type, x)
        if isinstance(x, bool):
            return c.r.constant("b1", x)
        return c.r.constant("f32" if isinstance(x, float) else "i64", x)

    def _two(self, name: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Value):
            a = b.r.constant(b.type, a)
        elif not isinstance(b, Value):
            b = a.r.constant(a.type, b)
        elif a.type != b.type:
            common = promote(a.type, b.type)
            a, b = a.r.cast(a, common), b.r.cast(b, common)
        if a.type == "b1":
            return a & b if name.startswith("min") else a | b
        return a.r.intrinsic(name, a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        """The smaller; NaN if either is NaN."""
        return self._two("minimum", a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return self._two("maximum", a, b)

    def fmin(self, a: Any, b: Any) -> Any:
        """The smaller; NaN counts as missing."""
        if is_float(getattr(a, "type", None) or b.type):
            return self._two("minnum", a, b)
        return self.minimum(a, b)

    def fmax(self, a: Any, b: Any) -> Any:
        if is_float(getattr(a, "type", None) or b.type):
            return self._two("maxnum", a, b)
        return self.maximum(a, b)

    def clamp_min(self, a: Any, b: Any) -> Any:
        return self.maximum(a, b)

    def copysign(self, a: Any, b: Any) -> Any:
        return self._two("copysign", a, b)

    # -- arithmetic that has no operator -------------------------------------------------------

    def _one(self, name: str, x: Value) -> Value:
        return x.r.intrinsic(name, x)

    def real_abs(self, x: Value) -> Value:
        return x if x.type[0] in "ub" else self._one("abs", x)

    def real_sqrt(self, x: Value) -> Value:
        return self._one("sqrt", x)

    def floor(self, x: Value) -> Value:
        return self._one("floor", x) if is_float(x.type) else x

    def ceil(self, x: Value) -> Value:
        return self._one("ceil", x) if is_float(x.type) else x

    def trunc(self, x: Value) -> Value:
        return self._one("trunc", x) if is_float(x.type) else x

    def rint(self, x: Value) -> Value:
        """To the nearest integer, ties to even."""
        return self._one("rint", x) if is_float(x.type) else x

    def fma(self, a: Any, b: Any, c: Any) -> Value:
        like = next(v for v in (a, b, c) if isinstance(v, Value))
        a, b, c = (v if isinstance(v, Value) else like.r.constant(like.type, v) for v in (a, b, c))
        return like.r.intrinsic("fma", a, b, c)

    def loose_add(self, a: Value, b: Any) -> Value:
        """A sum whose order the compiler may change: for accumulators in loops."""
        a, b = a._pair(b)
        return a.r.binary("add", a, b, "reassoc " if is_float(a.type) else "")

    def loose_mul(self, a: Value, b: Any) -> Value:
        a, b = a._pair(b)
        return a.r.binary("mul", a, b, "reassoc " if is_float(a.type) else "")

    def loose_maximum(self, a: Value, b: Value) -> Value:
        """The larger; NaN if either is NaN. Of zeros with different signs it may be either."""
        return a.r.intrinsic("maximum", a, b, flags="nsz ")

    # -- complex parts -------------------------------------------------------------------------

    def complex(self, re: Value, im: Value) -> Complex:
        return Complex(re, im)

    def real(self, x: Any) -> Any:
        return x.re if isinstance(x, Complex) else x

    def imag(self, x: Any) -> Any:
        return x.im if isinstance(x, Complex) else self.constant(0, x)

    def conj(self, x: Any) -> Any:
        return Complex(x.re, -x.im) if isinstance(x, Complex) else x

    def is_complex(self, x: Any) -> bool:
        return isinstance(x, Complex)

    def isnan(self, x: Any) -> Any:
        if isinstance(x, Complex):
            return (x.re != x.re) | (x.im != x.im)
        return x != x if is_float(x.type) else x.r.constant("b1", False)


symbols = Symbols()


def register(real: dict[str, Callable[..., Any]], complex_: dict[str, Callable[..., Any]]) -> None:
    """Adds elementary functions: bodies over real values and over complex ones, by name."""
    for name in real.keys() | complex_.keys():
        setattr(Symbols, name, _choose(name, real.get(name), complex_.get(name)))


def _choose(name: str, real: Any, complex_: Any) -> Callable[..., Any]:
    def function(self: Symbols, *args: Any) -> Any:
        if any(isinstance(a, Complex) for a in args):
            if complex_ is None:
                raise TypeError(f"{name}: no complex form")
            return complex_(self, *args)
        if real is None:
            raise TypeError(f"{name}: no real form")
        first = args[0]
        own = getattr(first.r, "own", None) if isinstance(first, Value) else None
        if own is not None and (name, first.type) in own:
            return first.r.value(f"{own[name, first.type]}({first.name})", first.type)
        return real(self, *args)

    function.__name__ = name
    return function
