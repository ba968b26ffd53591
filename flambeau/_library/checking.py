"""The tests behind `torch.library.opcheck`."""

from __future__ import annotations

import functools
from typing import Any

from .._ops.records.shape_rules import DataDependent
from .._ops.registry import ops
from .._tensor import Tensor, version_of
from ..func.batched import flat_tensors
from .operators import Operator


class OpCheckError(Exception):
    """An operator does not do what it says."""


def _copies(args: Any) -> Any:
    if isinstance(args, Tensor):
        return args.detach().clone().requires_grad_(args.requires_grad)
    if isinstance(args, (list, tuple)):
        return type(args)(_copies(a) for a in args)
    return {k: _copies(v) for k, v in args.items()} if isinstance(args, dict) else args


def _schema(op: Operator, args: Any, named: Any) -> None:
    """Arguments that the schema does not mark are not written to, and those that it marks may be."""
    given, keywords = op.schema.bind(_copies(args), _copies(named))
    before = [[(version_of(t), t.detach().clone()) for t in flat_tensors((a,))] for a in given]
    op(*given, **keywords)
    for i, (a, kept) in enumerate(zip(given, before)):
        for t, (_, old) in zip(flat_tensors((a,)), kept):
            if i not in op.schema.written and not ops.equal(t.detach(), old):
                raise OpCheckError(
                    f"{op.name}: argument {op.schema.positional[i].name!r} is not defined as mutable but was mutated; "
                    "name it in mutates_args"
                )


def _autograd(op: Operator, args: Any, named: Any) -> None:
    """A result that requires grad has a history."""
    given = _copies(args)
    if not any(t.requires_grad for t in flat_tensors(given)):
        return
    out = op(*given, **_copies(named))
    if op.checked and op.backward is None and any(t.requires_grad for t in flat_tensors((out,))):
        raise OpCheckError(
            f"{op.name}: its results require grad but no autograd formula is registered; use register_autograd"
        )


def _fake(op: Operator, args: Any, named: Any) -> None:
    """The rule for meta tensors gives the shape, dtype and strides that the operator gives."""

    def on_meta(a: Any) -> Any:
        if isinstance(a, Tensor):
            return a.detach().to("meta")
        return type(a)(on_meta(b) for b in a) if isinstance(a, (list, tuple)) else a

    real = op(*_copies(args), **_copies(named))
    try:
        fake = op(*on_meta(tuple(args)), **{k: on_meta(v) for k, v in named.items()})
    except DataDependent:  # the rule says that the shape cannot be known
        return
    pairs = zip(flat_tensors((real,)), flat_tensors((fake,)))
    for r, f in pairs:
        if r.shape != f.shape or r.dtype != f.dtype:
            raise OpCheckError(
                f"{op.name}: the rule for meta tensors gives {f.dtype} of shape {tuple(f.shape)}, the operator "
                f"{r.dtype} of shape {tuple(r.shape)}"
            )


def _compiled(op: Operator, args: Any, named: Any, atol: float | None, rtol: float | None) -> None:
    """A compiled call gives the results and gradients of an eager one, within the tolerances."""
    from ..autograd import grad
    from ..compiler import compile
    from ..testing import assert_close

    def computed(function: Any) -> list[Tensor]:
        given = _copies((tuple(args), named))
        found = flat_tensors((function(*given[0], **given[1]),))
        leaves = [t for t in flat_tensors(given) if t.requires_grad]
        summed = [ops.sum(t) for t in found if t.requires_grad and not t.dtype.is_complex]
        if leaves and summed:
            made = grad(functools.reduce(ops.add, summed), leaves, allow_unused=True, materialize_grads=True)
            found = [*found, *made]
        return [t.detach() for t in found]

    _fake(op, args, named)
    eager, compiled = computed(op), computed(compile(lambda *given, **keywords: op(*given, **keywords)))
    try:
        assert_close(compiled, eager, atol=atol, rtol=rtol, equal_nan=True)
    except AssertionError as error:
        raise OpCheckError(f"{op.name}: a compiled call gives other results than an eager one. {error}") from None


CHECKS = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
    "test_aot_dispatch_dynamic": _compiled,
}
