"""What is known of numbers that elements decide: their limits, and what the program states of them (`torch._check`)."""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any

from .._core.expressions import Expr, integer
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..jit._tracer import Value

given_up: ContextVar[list[str] | None] = ContextVar("given_up", default=None)  # the errors that a draft goes on after
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NOT = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def data_dependent(what: str, line: str) -> GuardOnDataDependentSymNode:
    """The error for a program that goes by elements."""
    return GuardOnDataDependentSymNode(
        f"Could not {what}. The elements of a tensor decide what the program does, and a graph holds one way only. Use torch.cond, "
        f"torch.where, or torch._check to state what is known.\n\nThe following call raised this error:\n{line}"
    )


def give_up(what: str, line: str) -> None:
    """Raises that error; a draft notes it and goes on as in the example."""
    error, reasons = data_dependent(what, line), given_up.get()
    if reasons is None:
        raise error
    reasons.append(str(error))


def shown(op: str, left: Any, right: Any) -> str:
    """A comparison in words."""
    return f"{'Eq' if op == 'eq' else 'Ne'}({left}, {right})" if op in ("eq", "ne") else f"{left} {_SIGNS[op]} {right}"


class Known:
    """Expressions that are not negative: from limits of symbols, which statements narrow, and from statements about several."""

    def __init__(self, sizes: Any, limits: dict[str, list[Any]]):
        self.sizes, self.limits, self.facts = sizes, limits, list[Expr]()

    def _sides(self, asked: Any) -> tuple[Any, Any]:
        """The sides of a comparison as expressions, or as numbers."""
        return self._side(asked[1]), self._side(asked[2])

    def _side(self, x: Any) -> Any:
        if not isinstance(x, Value):
            return x if isinstance(x, float) else integer(x)
        e = self.sizes.number(x)
        return e if e is not None else x.example if isinstance(x.example, float) else integer(x.example)

    def add(self, asked: Any) -> None:
        """Takes a statement for granted."""
        left, right = self._sides(asked)
        if not isinstance(left, Expr) or not isinstance(right, Expr):
            return
        for e in _not_negative(asked[0], left - right):
            self.facts.append(e)
            linear = e.linear()
            if linear is None or linear[0] not in self.sizes.found:
                continue
            name, a, b = linear
            limits = self.limits[name]
            if a > 0:
                low = -(b // a)
                limits[0] = low if limits[0] is None else max(limits[0], low)
            else:
                high = b // -a
                limits[1] = high if limits[1] is None else min(limits[1], high)

    def decides(self, asked: Any) -> bool:
        """Whether a question is one about elements, and what is known answers it; raises if nothing does."""
        op, _, _, answer, line = asked
        left, right = self._sides(asked)
        decided = {name for side in (left, right) if isinstance(side, Expr) for name in side.symbols}
        if all(name in self.limits and name not in self.sizes.found for name in decided):
            return False
        if op == "is":
            give_up(f"extract specialized number from data-dependent expression {left}", line)
            return True
        if isinstance(left, Expr) and isinstance(right, Expr):
            wanted = op if answer else _NOT[op]
            d = left - right
            if wanted == "ne":
                if self.holds(d - 1) or self.holds(-d - 1):
                    return True
            elif all(self.holds(e) for e in _not_negative(wanted, d)):
                return True
        give_up(f"guard on data-dependent expression {shown(op, left, right)}", line)
        return True

    def holds(self, e: Expr) -> bool:
        """Whether an expression is never negative, as far as is known."""
        return any(self._least(e - f) >= 0 for f in (integer(0), *self.facts))

    def _least(self, e: Expr) -> float:
        total = 0.0
        for product, c in e.terms.items():
            low = high = 1.0
            for atom, n in product:
                limits = self.limits.get(atom.name) if not atom.args else None
                if limits is None or limits[0] is None or limits[0] < 0:
                    if len(product) > 1 or n > 1 or limits is None:
                        return -math.inf
                    low, high = (
                        -math.inf if limits[0] is None else limits[0],
                        math.inf if limits[1] is None else limits[1],
                    )
                    continue
                low *= limits[0] ** n
                high = math.inf if limits[1] is None else high * limits[1] ** n
            total += c * (low if c > 0 else high)
        return total


def _not_negative(op: str, d: Expr) -> list[Expr]:
    """What is not negative if `d op 0`."""
    return {"ge": [d], "gt": [d - 1], "le": [-d], "lt": [-d - 1], "eq": [d, -d], "ne": []}[op]
