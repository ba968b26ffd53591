"""`pointwise(...)`: declares a pointwise record and derives its public forms from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..registry import functions, methods, ops
from .inplace import pointwise_in_place_form
from .pointwise_op import Pointwise
from .rules import Rule, arithmetic


def pointwise(
    name: str,
    body: Callable[..., Any],
    rule: Rule = arithmetic,
    grad: dict[str, Callable[..., Any]] | None = None,
    *,
    public: bool = True,
    method: bool = True,
    inplace: bool = True,
    out: bool = True,
    paths: Iterable[str] = (),
    aliases: Iterable[str] = (),
    **options: Any,
) -> Pointwise:
    """Declares one pointwise operation.

    `body(m, x, …)` is the value of one element, `grad[x](m, g, …)` its derivative by x (parameter names say what
    is kept: inputs, `out`; `grad={}`: it has none, and backward() says so). With `public`, the function, method, in-place and `out=` forms appear under `name`
    and `aliases` (`out=False`: PyTorch's has no such argument; `paths` replaces the function's place, e.g. "special.erfcx"); otherwise only `ops.name`.
    An alias with a dot is a function only.
    """
    op = Pointwise(name, body, rule, grad, **options)
    op.takes_out = out
    setattr(ops, name, op.call)
    op.public = op.call  # type: ignore[attr-defined]
    if public:
        for path in paths or (name, *aliases):
            functions[path] = op.call
        forms = [form for form in (name, *aliases) if "." not in form]
        if method:
            for form in forms:
                methods[form] = op.call
        if inplace:
            in_place = pointwise_in_place_form(op)
            for form in forms:
                methods[form + "_"] = in_place
                if not paths:
                    functions[form + "_"] = in_place
            setattr(ops, name + "_", in_place)
    return op
