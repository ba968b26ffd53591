"""Sizes as expressions: polynomials with whole coefficients over symbols and over quotients of such polynomials."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

_QUOTIENTS: dict[str, Callable[[int, int], int]] = {
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "Max": max,
    "Min": min,
}
_QUOTIENTS_OF_PYTHON = {"FloorDiv": operator.floordiv, "Mod": operator.mod, "Max": max, "Min": min}
_MOST_PARTS = 10_000  # of an expression in a file


class _Atom:
    """What a product is made of: a symbol, or an operation on two expressions."""

    __slots__ = ("args", "key", "name")

    def __init__(self, name: str, args: tuple[Expr, ...] = ()):
        self.name, self.args = name, args
        self.key: tuple[Any, ...] = (name, *[a.key for a in args])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def value(self, known: Mapping[str, int]) -> int:
        if not self.args:
            return known[self.name]
        a, b = [e.value(known) for e in self.args]
        return _QUOTIENTS[self.name](a, b)

    def __str__(self) -> str:
        if not self.args:
            return self.name
        a, b = [_grouped(e) for e in self.args]
        if self.name == "FloorDiv":
            return f"({a}//{b})"
        return (
            f"Mod({self.args[0]}, {self.args[1]})"
            if self.name == "Mod"
            else f"{self.name}({self.args[0]}, {self.args[1]})"
        )

    def source(self) -> str:
        if not self.args:
            kind = "positive=True, integer=True" if not self.name.startswith("u") else "integer=True"
            return f"Symbol('{self.name}', {kind})"
        return f"{self.name}({', '.join(e.source() for e in self.args)})"


_Product = tuple[tuple[_Atom, int], ...]


class Expr:
    """A whole number that depends on symbols; equal expressions have equal normal forms.

    >>> s = symbol("s0")
    >>> print(2 * s + 1, s * s - s, (s + 3) // 2, (2 * s) // 2)
    2*s0 + 1 s0**2 - s0 ((s0 + 3)//2) s0
    >>> (2 * s + 1).value({"s0": 5}), read((2 * s + 1).source()) == 1 + s * 2
    (11, True)
    """

    __slots__ = ("key", "terms")

    def __init__(self, terms: Mapping[_Product, int]):
        self.terms: dict[_Product, int] = {p: c for p, c in terms.items() if c}
        self.key: tuple[Any, ...] = tuple(sorted((tuple((a.key, n) for a, n in p), c) for p, c in self.terms.items()))

    @property
    def symbols(self) -> set[str]:
        """The names of all symbols."""
        found: set[str] = set()
        for product in self.terms:
            for atom, _ in product:
                found |= {atom.name} if not atom.args else set().union(*[e.symbols for e in atom.args])
        return found

    @property
    def constant(self) -> int | None:
        """The number that the expression is; None if it depends on symbols."""
        return None if any(self.terms) else self.terms.get((), 0)

    @property
    def is_symbol(self) -> bool:
        ((product, c),) = list(self.terms.items()) if len(self.terms) == 1 else [((), 0)]
        return c == 1 and len(product) == 1 and product[0][1] == 1 and not product[0][0].args

    def linear(self) -> tuple[str, int, int] | None:
        """(symbol, a, b) of a * symbol + b; None for all others."""
        rest = {p: c for p, c in self.terms.items() if p}
        if len(rest) != 1:
            return None
        ((product, c),) = rest.items()
        if len(product) != 1 or product[0][1] != 1 or product[0][0].args:
            return None
        return product[0][0].name, c, self.terms.get((), 0)

    def value(self, known: Mapping[str, int]) -> int:
        """The number for given values of the symbols."""
        return sum(c * math.prod(a.value(known) ** n for a, n in p) for p, c in self.terms.items())

    def computed(self, known: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        """The expression computed step by step: `call(function, a, b)` does one step."""
        total: Any = None
        for product, c in sorted(self.terms.items(), key=lambda item: not item[0]):
            made: Any = None
            for atom, n in product:
                if atom.args:
                    given = [e.computed(known, call) for e in atom.args]
                    one = call(_QUOTIENTS_OF_PYTHON[atom.name], *given)
                else:
                    one = known[atom.name]
                for _ in range(n):
                    made = one if made is None else call(operator.mul, made, one)
            made = c if made is None else made if c == 1 else call(operator.mul, made, c)
            total = made if total is None else call(operator.add, total, made)
        return 0 if total is None else total

    def replaced(self, by: Mapping[str, Expr]) -> Expr:
        """The expression with others in the place of symbols."""
        total = integer(0)
        for product, c in self.terms.items():
            made = integer(c)
            for atom, n in product:
                if atom.args:
                    one = _quotient(atom.name, *[e.replaced(by) for e in atom.args])
                else:
                    one = by.get(atom.name, Expr({((atom, 1),): 1}))
                for _ in range(n):
                    made = made * one
            total = total + made
        return total

    def __eq__(self, other: object) -> bool:
        other = _expression(other)
        return isinstance(other, Expr) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Any) -> Expr:
        other, terms = _given(other), dict(self.terms)
        for product, c in other.terms.items():
            terms[product] = terms.get(product, 0) + c
        return Expr(terms)

    def __neg__(self) -> Expr:
        return Expr({p: -c for p, c in self.terms.items()})

    def __sub__(self, other: Any) -> Expr:
        return self + -_given(other)

    def __rsub__(self, other: Any) -> Expr:
        return _given(other) - self

    def __mul__(self, other: Any) -> Expr:
        terms: dict[_Product, int] = {}
        for p, c in self.terms.items():
            for q, d in _given(other).terms.items():
                powers: dict[_Atom, int] = dict(p)
                for atom, n in q:
                    powers[atom] = powers.get(atom, 0) + n
                product = tuple(sorted(powers.items(), key=lambda item: str(item[0])))
                terms[product] = terms.get(product, 0) + c * d
        return Expr(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Any) -> Expr:
        return _quotient("FloorDiv", self, _given(other))

    def __rfloordiv__(self, other: Any) -> Expr:
        return _quotient("FloorDiv", _given(other), self)

    def __mod__(self, other: Any) -> Expr:
        return _quotient("Mod", self, _given(other))

    def __rmod__(self, other: Any) -> Expr:
        return _quotient("Mod", _given(other), self)

    def __str__(self) -> str:
        def order(item: tuple[_Product, int]) -> Any:
            return -sum(n for _, n in item[0]), [str(a) for a, _ in item[0]]

        text = ""
        for product, c in sorted(self.terms.items(), key=order):
            factors = [f"{a}**{n}" if n > 1 else str(a) for a, n in product]
            factors = ([str(abs(c))] if abs(c) != 1 or not factors else []) + factors
            sign = ("-" if c < 0 else "") if not text else " - " if c < 0 else " + "
            text += sign + "*".join(factors)
        return text or "0"

    __repr__ = __str__

    def source(self) -> str:
        """The expression as constructors of a computer algebra system write it."""
        parts = []
        for product, c in self.terms.items():
            factors = [f"Integer({c})"] if c != 1 or not product else []
            factors += [f"Pow({a.source()}, Integer({n}))" if n > 1 else a.source() for a, n in product]
            parts.append(factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})")
        return "Integer(0)" if not parts else parts[0] if len(parts) == 1 else f"Add({', '.join(parts)})"


def integer(n: int) -> Expr:
    """A number as an expression."""
    return Expr({(): int(n)})


def symbol(name: str) -> Expr:
    """A symbol as an expression."""
    return Expr({((_Atom(name), 1),): 1})


def _expression(x: Any) -> Any:
    return integer(x) if isinstance(x, int) else x


def _given(x: Any) -> Expr:
    found = _expression(x)
    if not isinstance(found, Expr):
        raise TypeError(f"sizes are computed from whole numbers, got {type(x).__name__}")
    return found


def _grouped(e: Expr) -> str:
    return f"({e})" if len(e.terms) > 1 else str(e)


def _quotient(name: str, a: Expr, b: Expr) -> Expr:
    x, y = a.constant, b.constant
    if x is not None and y is not None and (y or name in ("Max", "Min")):
        return integer(_QUOTIENTS[name](x, y))
    if name in ("FloorDiv", "Mod") and y:
        if all(c % y == 0 for c in a.terms.values()):
            return Expr({p: c // y for p, c in a.terms.items()}) if name == "FloorDiv" else integer(0)
    if name == "FloorDiv" and len(b.terms) == 1 and len(a.terms) == 1 and (found := _divided(a, b)) is not None:
        return found
    if a == b and name in ("Max", "Min"):
        return a
    return Expr({((_Atom(name, (a, b)), 1),): 1})


def _divided(a: Expr, b: Expr) -> Expr | None:
    """The quotient of two products, if there is no remainder."""
    ((p, c),), ((q, d),) = a.terms.items(), b.terms.items()
    powers = dict(p)
    for atom, n in q:
        powers[atom] = powers.get(atom, 0) - n
    if c % d or min(powers.values(), default=0) < 0:
        return None
    return Expr({tuple((atom, n) for atom, n in powers.items() if n): c // d})


def _folded(step: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    def call(first: Expr, *rest: Expr) -> Expr:
        for e in rest:
            first = step(first, e)
        return first

    return call


def _power(base: Expr, exponent: Expr) -> Expr:
    n = exponent.constant
    if n is None or not 0 <= n <= 16:
        raise ValueError("the expression of a size has a power that is not a small number")
    made = integer(1)
    for _ in range(n):
        made = made * base
    return made


_CALLS: dict[str, Callable[..., Expr]] = {
    "Add": _folded(lambda a, b: a + b),
    "Mul": _folded(lambda a, b: a * b),
    "Pow": _power,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "Max": _folded(lambda a, b: _quotient("Max", a, b)),
    "Min": _folded(lambda a, b: _quotient("Min", a, b)),
}


_SIGNS: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: _power,
}  # fmt: skip


def read(text: str) -> Expr:
    """The expression that `source` wrote, or one with signs (`2*s0 + 1`); nothing of the text is executed."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not the expression of a size: {text[:80]!r}") from error
    parts = sum(1 for _ in ast.walk(tree))
    if parts > _MOST_PARTS:
        raise ValueError(f"the expression of a size has {parts} parts")
    return _read(tree)


def _number(node: Any) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _read(node: Any) -> Expr:
    n = _number(node)
    if n is not None:
        return integer(n)
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_read(node.left), _read(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name, args = node.func.id, node.args
        if (
            name == "Symbol"
            and len(args) == 1
            and isinstance(args[0], ast.Constant)
            and str(args[0].value).isidentifier()
        ):
            return symbol(str(args[0].value))
        if name == "Integer" and len(args) == 1 and (n := _number(args[0])) is not None:
            return integer(n)
        if name in _CALLS and args:
            return _CALLS[name](*map(_read, args))
    raise ValueError(f"sizes are not computed by {ast.unparse(node)[:80]!r} here")


def fitted(values: list[int], atoms: Iterable[tuple[Expr, list[int]]]) -> Expr | None:
    """The simplest expression over others that has these values in all samples; None if none is found.

    `atoms` are (expression, its values). Quotients are only found where the samples leave no doubt about the remainder.
    """
    if len(set(values)) == 1:
        return integer(values[0])
    known: dict[Expr, list[int]] = {}
    for e, found in atoms:
        if e.constant is None:
            known.setdefault(e, found)
    for form in (_affine, _combined, _divided_fit, _of_shifted, _clipped):
        made = form(values, list(known.items()))
        if made is not None:
            return made
    return None


def _affine(values: list[int], atoms: list[tuple[Expr, list[int]]]) -> Expr | None:
    for e, x in atoms:
        pairs = sorted(set(zip(x, values)))
        if len({a for a, _ in pairs}) != len(pairs) or len(pairs) < 2:
            continue
        (x0, y0), (x1, y1) = pairs[:2]
        factor, rest = divmod(y1 - y0, x1 - x0)
        if not rest and factor and all(y == y0 + factor * (a - x0) for a, y in pairs):
            return e * factor + (y0 - factor * x0)
    return None


def _combined(values: list[int], atoms: list[tuple[Expr, list[int]]]) -> Expr | None:
    """Sums and products of two or three, and exact quotients."""
    for i, (e, x) in enumerate(atoms):
        for f, y in atoms[i:]:
            for made, z in (
                (e * f, [a * b for a, b in zip(x, y)]),
                (e + f, [a + b for a, b in zip(x, y)]),
                (e - f, [a - b for a, b in zip(x, y)]),
                (f - e, [b - a for a, b in zip(x, y)]),
            ):
                if len(set(z)) > 1 and (found := _affine(values, [(made, z)])) is not None:
                    return found
            if all(x) and all(y) and values == [a // b for a, b in zip(x, y)]:
                return e // f
            for g, w in atoms:
                z = [a * b * c for a, b, c in zip(x, y, w)]
                if len(set(z)) > 1 and (found := _affine(values, [(e * f * g, z)])) is not None:
                    return found
    return None


def _of_shifted(values: list[int], atoms: list[tuple[Expr, list[int]]]) -> Expr | None:
    """Products of two affine numbers, as `(h - 1) * (w - 1)`: how many windows an image has."""
    for i, (e, x) in enumerate(atoms):
        for f, y in atoms[i + 1 :]:
            table = np.array([[1, a, b, a * b] for a, b in zip(x, y)])
            distinct = len(set(zip(x, y)))
            if distinct <= 4:  # any four values would do
                continue
            factors, _, rank, _ = np.linalg.lstsq(table, np.array(values), rcond=None)
            whole = np.rint(factors).astype(int)
            if rank == 4 and (table @ whole).tolist() == values:
                a, b, c, d = whole.tolist()
                return e * f * d + e * b + f * c + a
    return None


def _clipped(values: list[int], atoms: list[tuple[Expr, list[int]]]) -> Expr | None:
    """Affine numbers with a limit, as `x[:n]` has rows."""
    for e, x in atoms:
        for limit, clip, name in ((max(values), min, "Min"), (min(values), max, "Max")):
            free = [(a, y) for a, y in zip(x, values) if y != limit]
            if len(set(free)) < 2 or len({a for a, y in zip(x, values) if y == limit}) < 2:
                continue
            line = _affine([y for _, y in free], [(e, [a for a, _ in free])])
            if line is None or len(line.symbols) != 1:
                continue
            known = [line.replaced({str(e): integer(a)}).constant for a in x] if e.is_symbol else [None]
            if None not in known and [clip(y, limit) for y in known] == values:  # type: ignore[type-var]
                return _quotient(name, line, integer(limit))
    return None


def _divided_fit(values: list[int], atoms: list[tuple[Expr, list[int]]]) -> Expr | None:
    for e, x in atoms:
        for step in (2, 3, 4, 5, 6, 7, 8):
            if len({a % step for a in x}) < step:
                continue  # the remainders would be guessed
            low = max(y * step - a for a, y in zip(x, values))
            high = min(y * step - a + step - 1 for a, y in zip(x, values))
            if low == high:
                whole = low // step
                return (e + (low - whole * step)) // step + whole
    return None
