"""`__torch_dispatch__`: classes and modes that take over operations below autograd, as operators of `torch.ops.aten`.

The dispatcher offers every record here before it computes it; history is recorded afterwards, on what was returned.
`aten_call` says which operator with which arguments a record is. What works on tensors without a record (writes in
place, `out=`, detaching, making tensors, reading a number) comes from the public functions, by `take_function` and `_show_out`. A write that has to
record history runs its record instead, and what that gave is written by `copy_`, which modes are shown.
"""

from __future__ import annotations

import functools
from ast import literal_eval
from collections.abc import Callable
from typing import Any

from .._core.sizes import broadcast_shapes
from .._core.state import BATCHED, DISPATCH, GRAD, local
from .._dispatch import IN_PARTS, handlers, tensors_in
from .._ops.layout.views import copied_shape_op as _unsafe_view
from .._ops.making import samples
from .._ops.records import inplace, out
from .._ops.records.batching import is_differentiated
from .._ops.records.facts import fact, record_name
from .._ops.records.pointwise_op import Pointwise
from .._ops.records.rewriting import rewrite_history
from .._ops.records.writable import check_writable
from .._ops.registry import ops, records
from .._tensor import MADE_WITHOUT_GRAD, Tensor

_MOST = (1 << 63) - 1


def dispatches(cls: type) -> bool:
    """Whether a class of tensors has a `__torch_dispatch__` of its own."""
    own = getattr(cls, "__torch_dispatch__", None)
    base = getattr(Tensor, "__torch_dispatch__", None)
    return getattr(own, "__func__", own) not in (None, getattr(base, "__func__", base))


# -- which operator a record is ------------------------------------------------------------------------------------


def _aten(name: str, overload: str = "default") -> Any:
    from .._library.namespaces import ops  # which needs all operations

    return getattr(getattr(ops.aten, name), overload)


def _schemas() -> Any:
    from .._library import schema_texts as _schemas  # which needs all operations

    return _schemas


def _usual_overload(name: str) -> str:
    """The overload that takes tensors, or numbers as tensors."""
    known = _schemas().schemas_of(name)
    return "default" if "" in known or "Tensor" not in known else "Tensor"


def _overload(name: str, second: Any) -> str:
    """The overload of an operator of two operands; numbers are such only where PyTorch does not make tensors of them."""
    number = not isinstance(second, Tensor) and name.removesuffix("_") not in ("add", "sub", "mul", "div")
    usual = _usual_overload(name)
    return "Scalar" if number and usual == "Tensor" and "Scalar" in _schemas().schemas_of(name) else usual


def _pointwise_call(op: Pointwise, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    name, number = op.name, fact(op.name, "number")
    if number is not None:
        return _aten(record_name(name), "Tensor_Scalar"), (*args, literal_eval(number)), {}
    if name in ("add_scaled", "sub_scaled"):
        return _aten(name[:3], "Tensor"), args[:2], {"alpha": args[2]}
    if name in ("mul_number", "div_number"):
        return _aten(name[:3], "Tensor"), args, {}
    if name == "gelu_tanh":
        return _aten("gelu"), args, {"approximate": "tanh"}
    if name in ("div_floor", "div_trunc"):
        return _aten("div", "Tensor_mode"), args, {"rounding_mode": name[4:]}
    if name == "square":
        return _aten("pow", "Tensor_Scalar"), (*args, 2), {}
    if name == "where":
        return _aten(name, "self"), args, {}
    if name == "masked_fill" and not isinstance(args[2], Tensor):
        return _aten(name, "Scalar"), args, {}
    if name == "masked_fill":  # a number may come as a tensor
        plain = isinstance(args[2], Tensor) and not args[2]._k and not args[2].ndim and not _is_recorded(args[2])
        return _aten(name, "Scalar" if plain else "Tensor"), (*args[:2], args[2]._array.item()) if plain else args, {}
    if name == "lerp_number":
        return _aten("lerp", "Scalar"), args, {}
    if name in ("addcmul", "addcdiv"):
        return _aten(name), args[:3], {"value": args[3]} if len(args) > 3 and args[3] != 1 else {}
    if op.params:  # numbers that PyTorch's operator may take by other names, or not at all
        return _record_operator(op), args, {}
    if len(args) < 2:
        return _aten(name), args, {}
    second = "Tensor" if isinstance(args[1], Tensor) else "Scalar"
    if name == "pow":
        first = "Tensor" if isinstance(args[0], Tensor) else "Scalar"
        return _aten(name, first if first == "Scalar" else f"Tensor_{second}"), args, {}
    return _aten(name, _overload(name, args[1])), args, {}


def _is_recorded(t: Tensor) -> bool:
    """Whether a mode that records operators knows where a tensor came from."""
    return any([mode.knows(t) for mode in local.dispatch_modes if hasattr(mode, "knows")])


def _reduced(name: str, overload: str) -> Callable[..., Any]:
    def call(x: Any, dims: Any, keepdim: bool, d: Any = None) -> Any:
        more = {} if d is None or d is x.dtype else {"dtype": d}
        if not keepdim and (dims is None or len(dims) == x.ndim) and overload != "default":
            return _aten(name), (x,), more
        return _aten(name, overload), (x, list(dims) if dims is not None else list(range(x.ndim)), keepdim), more

    return call


def _parts_of(x: Any, key: Any) -> tuple[Any, ...]:
    """What a basic key does with each dimension; None makes a new one."""
    parts = key if isinstance(key, tuple) else (key,)
    if Ellipsis not in parts:
        return parts
    place, taken = parts.index(Ellipsis), sum(1 for p in parts if p is not None and p is not Ellipsis)
    return (*parts[:place], *[slice(None)] * (x._array.ndim - taken), *parts[place + 1 :])


def _basic_key(x: Any, key: Any) -> Any:
    """One step of a basic key as an operator; NotImplemented for keys that take several."""
    parts = _parts_of(x, key)
    places = [i for i, p in enumerate(parts) if p != slice(None)]
    if len(places) != 1:
        return NotImplemented
    dim, part = places[0], parts[places[0]]
    if part is None:
        return _aten("unsqueeze"), (x, dim), {}
    if isinstance(part, slice):
        stop = _MOST if part.stop is None else part.stop
        return _aten("slice", "Tensor"), (x, dim, part.start or 0, stop, part.step or 1), {}
    return _aten("select", "int"), (x, dim, part), {}


def _indexed(x: Any, *rest: Any) -> Any:
    *indices, dims = rest
    found: list[Any] = [None] * (max(dims) + 1)
    for i, d in zip(indices, dims):
        found[d] = i
    return _aten("index", "Tensor"), (x, found), {}


def _truth(x: Any, dims: Any, keepdim: bool, fold: str, d: Any) -> Any:
    if not keepdim and len(dims) == x.ndim:
        return _aten(fold), (x,), {}
    alone = len(dims) == 1
    return _aten(fold, "dim" if alone else "dims"), (x, dims[0] if alone else list(dims), keepdim), {}


def _product(x: Any, dims: Any, keepdim: bool, d: Any = None) -> Any:
    more = {} if d is None or d is x.dtype else {"dtype": d}
    if len(dims) == 1 and (x.ndim > 1 or keepdim):
        return _aten("prod", "dim_int"), (x, dims[0], keepdim), more
    return _aten("prod"), (x,), more


def _linear(x: Any, bias: Any, weight: Any) -> Any:
    turned = weight.t()
    return (_aten("mm"), (x, turned), {}) if bias is None else (_aten("addmm"), (bias, x, turned), {})


def _extreme(name: str) -> Callable[..., Any]:
    return lambda x, dim, keepdim=False: (_aten(name, "dim"), (x, dim, keepdim), {})


def _place_of_extreme(x: Any, dim: Any, keepdim: bool, sign: int) -> Any:
    return _aten("argmax" if sign > 0 else "argmin"), (x, dim, keepdim), {}


def _spread(name: str) -> Callable[..., Any]:
    def call(x: Any, dims: Any, keepdim: bool, correction: Any) -> Any:
        more = {} if correction == 1 else {"correction": correction}
        whole = dims is None or len(dims) == x.ndim
        return _aten(name, "correction"), (x, None if whole else list(dims)), {**more, "keepdim": keepdim}

    return call


def _joined(name: str) -> Callable[..., Any]:
    return lambda xs, dim=0: (_aten(name), (list(xs), dim), {})


def _cloned(x: Any, order: Any = None) -> Any:
    from .._core.layouts import memory_format

    return _aten("clone"), (x,), {"memory_format": order} if isinstance(order, memory_format) else {}


def _same(name: str, overload: str = "default", count: int | None = None) -> Callable[..., Any]:
    return lambda *args: (_aten(name, overload), args[:count], {})


def _listed(name: str) -> Callable[..., Any]:
    return lambda x, shape: (_aten(name), (x, list(shape)), {})


_FORMS: dict[str, Callable[..., Any]] = {
    "sum": _reduced("sum", "dim_IntList"), "mean": _reduced("mean", "dim"), "amax": _reduced("amax", "default"),
    "amin": _reduced("amin", "default"), "nansum": _reduced("nansum", "default"),
    "truth": _truth, "prod": _product, "median_of_all": lambda x, skip: (_aten("nanmedian" if skip else "median"), (x,), {}),
    "softmax": lambda x, dim: (_aten("_softmax"), (x, dim, False), {}),
    "log_softmax": lambda x, dim: (_aten("_log_softmax"), (x, dim, False), {}),
    "cumsum": lambda x, dim, d=None: (_aten("cumsum"), (x, dim), {}),
    "topk": lambda x, dim, k, largest: (_aten("topk"), (x, k, dim, largest), {}),
    "sort": lambda x, dim, descending: (_aten("sort"), (x, dim, descending), {}),
    "mm": _same("mm"), "bmm": _same("bmm"), "mv": _same("mv"), "dot": _same("dot"), "matmul": _same("matmul"),
    "addmm": lambda c, x, y, beta, alpha: (
        _aten("addmm"), (c, x, y), {} if beta == alpha == 1 else {"beta": beta, "alpha": alpha},
    ),
    "linear": _linear, "convolution": _same("convolution"), "view": _listed("view"), "expand": _listed("expand"),
    "unsafe_view": _listed("_unsafe_view"), "permute": _listed("permute"), "transpose": _same("transpose", "int"),
    "t": _same("t"), "unsqueeze": _same("unsqueeze"), "select": _same("select", "int"), "slice": _same("slice", "Tensor"),
    "squeeze": lambda x, dims=None: (_aten("squeeze"), (x,), {}),
    "squeeze_dim": lambda x, dims: (_aten("squeeze", "dim"), (x, *dims), {}),
    "squeeze_dims": lambda x, dims: (_aten("squeeze", "dims"), (x, list(dims)), {}),
    "getitem_select": _basic_key, "getitem_slice": _basic_key, "getitem_unsqueeze": _basic_key,
    "split_with_sizes": lambda x, sizes, dim: (_aten("split_with_sizes"), (x, list(sizes), dim), {}),
    "split": lambda x, sizes, dim: (
        _aten("split", "Tensor"), (x, sizes[0] if isinstance(sizes, (list, tuple)) else sizes, dim), {},
    ),
    "unbind": _same("unbind", "int"), "cat": _joined("cat"), "stack": _joined("stack"), "max_all": _same("max"), "min_all": _same("min"),
    "max": _extreme("max"), "min": _extreme("min"), "arg_extremum": _place_of_extreme, "alias": _same("alias"),
    "clone": _cloned, "clone_format": _cloned,
    "to_dtype": lambda x, d: (_aten("_to_copy"), (x,), {"dtype": d}),
    "to_copy": lambda x, d, target, home=None: (_aten("_to_copy"), (x,), {"dtype": d, "device": target}),
    "gather": lambda x, index, dim: (_aten("gather"), (x, dim, index), {}),
    "index_select": lambda x, index, dim: (_aten("index_select"), (x, dim, index), {}),
    "embedding": lambda x, index, *rest: (_aten("embedding"), (x, index), {}),
    "index": _indexed, "index_2": _indexed, "flip": _listed("flip"), "repeat": _listed("repeat"),
    "std": _spread("std"), "var": _spread("var"), "std_mean": _spread("std_mean"), "var_mean": _spread("var_mean"), "tril": _same("tril"), "triu": _same("triu"),
}  # fmt: skip


class RecordOperator:
    """A record that has no form among PyTorch's operators here, with the look of one: calling it runs the record."""

    namespace = "aten"

    def __init__(self, op: Any, name: str):
        self._op, self._opname, self._overloadname = op, name, "default"
        self.__name__ = f"{self._opname}.default"

    def name(self) -> str:
        return f"aten::{self._opname}"

    @property
    def overloadpacket(self) -> Any:
        """The operator of that name, if there is one; otherwise this."""
        from .._library.namespaces import ops  # which needs all operations

        return getattr(ops.aten, self._opname, self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._op(*args)

    def __str__(self) -> str:
        return f"aten.{self._opname}.default"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._opname}', overload='default')>"


_records: dict[str, RecordOperator] = {}


def aten_call(op: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    try:
        if isinstance(op, Pointwise):
            return _pointwise_call(op, args)
        form = _FORMS.get(op.name)
        found = NotImplemented if form is None else form(*args)
    except AttributeError:  # no operator of that name
        found = NotImplemented
    if found is NotImplemented:
        return _record_operator(op), args, {}
    return _shortened(*found)


def _shortened(func: Any, args: Any, named: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A call without the arguments that are as the operator has them anyway."""
    if hasattr(func, "_schema"):
        kinds = [a.declared for a in func._schema.positional]
        args = [list(a) if isinstance(a, tuple) and kind.endswith("]") else a for a, kind in zip(args, kinds)]
        args, named = _schemas().shortened(func._schema, list(args), named)
    return func, tuple(args), named


def _pooled(name: str) -> Callable[..., Any]:
    """Pooling by the name of PyTorch's operator, which has the number of dimensions in it."""

    def call(*args: Any) -> Any:
        rank = args[2]
        return (
            _record_operator(
                records[name], ("max_pool{}d_with_indices" if name == "max_pool" else "avg_pool{}d").format(rank)
            ),
            args,
            {},
        )

    return call


_FORMS |= {"max_pool": _pooled("max_pool"), "mean_pool": _pooled("mean_pool")}


def _record_operator(op: Any, name: str | None = None) -> RecordOperator:
    name = name or record_name(op.name) or op.name
    if name not in _records:
        _records[name] = RecordOperator(op, name)
    return _records[name]


# -- what PyTorch shows in parts ------------------------------------------------------------------------------------


def _matmul_parts(x: Tensor, y: Tensor) -> Any:
    """A product of batches of matrices, as PyTorch folds it into one of two or three dimensions."""
    a, b = x._array.shape, y._array.shape
    if max(len(a), len(b)) < 3 or min(len(a), len(b)) < 2:
        return NotImplemented
    if len(b) == 2:
        made = ops.mm(ops.view(x, (-1, a[-1])), y)
        return _unsafe_view(made, (*a[:-1], b[-1]))
    lead = broadcast_shapes(a[:-2], b[:-2])
    left = ops.reshape(ops.expand(x, (*lead, *a[-2:])), (-1, *a[-2:]))
    right = ops.reshape(ops.expand(y, (*lead, *b[-2:])), (-1, *b[-2:]))
    return _unsafe_view(ops.bmm(left, right), (*lead, a[-2], b[-1]))


def _linear_parts(x: Tensor, bias: Any, weight: Tensor) -> Any:
    """An affine map of rows with more than one dimension before them."""
    shape = x._array.shape
    if len(shape) == 2:
        return NotImplemented
    rows, turned = ops.reshape(x, (-1, shape[-1])), ops.t(weight)
    if bias is None:
        return _unsafe_view(ops.mm(rows, turned), (*shape[:-1], weight._array.shape[0]))
    return ops.view(ops.addmm(bias, rows, turned), (*shape[:-1], weight._array.shape[0]))


def _key_parts(x: Tensor, key: Any) -> Any:
    """A basic key of several steps, one after the other."""
    parts = _parts_of(x, key)
    if len([p for p in parts if p != slice(None)]) < 2:
        return NotImplemented
    dim = 0
    for part in parts:
        if part is None:
            x, dim = ops.unsqueeze(x, dim), dim + 1
        elif isinstance(part, slice):
            if part != slice(None):
                x = x[(*[slice(None)] * dim, part)]
            dim += 1
        else:
            x = ops.select(x, dim, part)
    return x


def _quotient_parts(x: Tensor, y: Any) -> Tensor:
    return ops.mul(ops.reciprocal(x), y)


_PARTS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul_parts, "linear": _linear_parts, "getitem_slice": _key_parts, "getitem_select": _key_parts,
    "getitem_unsqueeze": _key_parts, "rdiv": _quotient_parts, "rdiv_number": _quotient_parts,
}  # fmt: skip


def in_parts(op: Any, args: tuple[Any, ...]) -> Any:
    """An operation by several, each with a history of its own, where PyTorch shows several; NotImplemented otherwise."""
    tensors = tensors_in(args)
    if _fake_mode(tensors) is not None or not (local.dispatch_modes or any(t._k & DISPATCH for t in tensors)):
        return NotImplemented
    if getattr(op, "derived", False) and record_name(op.name) is None:
        return op.body(ops, *args)
    parts = _PARTS.get(op.name)
    return NotImplemented if parts is None else parts(*args)


# -- who takes it over ---------------------------------------------------------------------------------------------


def _offer(func: Any, args: Any, named: dict[str, Any], tensors: list[Tensor], rules: Any = None) -> Any:
    """What the innermost mode, or else the classes of the tensors, give for a call; NotImplemented if nobody is there.

    `rules` names functions that stand for the `__torch_dispatch__` of a class.
    """
    if local.dispatch_off:
        return NotImplemented
    kinds: list[type] = []
    for t in tensors:
        if t._k & DISPATCH and type(t) not in kinds:
            place = next((i for i, kind in enumerate(kinds) if issubclass(type(t), kind)), len(kinds))
            kinds.insert(place, type(t))
    stack = local.dispatch_modes
    if not stack and not kinds:
        return NotImplemented
    grad, off = local.grad, local.overrides_off
    local.grad, local.overrides_off = False, True  # below autograd and functions
    try:
        if stack:
            local.dispatch_modes = stack[:-1]
            try:
                result = _checked(_handler(stack[-1], type(stack[-1]), rules)(func, tuple(kinds), args, named), func)
            finally:
                local.dispatch_modes = stack
            if result is not NotImplemented:
                return result
        for kind in kinds:
            result = _checked(_handler(kind, kind, rules)(func, tuple(kinds), args, named), func)
            if result is not NotImplemented:
                return result
    finally:
        local.grad, local.overrides_off = grad, off
    if not kinds:
        return NotImplemented
    names = ", ".join(kind.__name__ for kind in kinds)
    raise TypeError(
        f"Multiple dispatch failed for '{func}'; all __torch_dispatch__ handlers returned NotImplemented: {names}"
    )


def _checked(result: Any, func: Any) -> Any:
    """What somebody gave for an operator: a tensor, where the operator gives one (or nothing, which is passed on)."""
    if isinstance(result, Tensor) or result is None or result is NotImplemented:
        return result
    returns = getattr(getattr(func, "_schema", None), "returns", ())
    if len(returns) == 1 and str(returns[0].type) == "Tensor":
        raise RuntimeError(
            f"Unable to cast {result!r:.100} to Tensor: {func} gives one, and so must __torch_dispatch__"
        )
    return result


def _handler(who: Any, kind: type, rules: Any) -> Callable[..., Any]:
    """The `__torch_dispatch__` of a mode or class, or the rule that an operator has for it."""
    rule = rules.get(kind) if rules else None
    return who.__torch_dispatch__ if rule is None else functools.partial(rule, who)


def operator_of(op: Any, args: tuple[Any, ...]) -> Any:
    """The operator of `torch.ops.aten` that a record, or a name, stands for."""
    return _aten(op) if isinstance(op, str) else aten_call(op, args)[0]


def _fake_mode(tensors: list[Tensor]) -> Any:
    """The mode that runs a call by shapes alone: the innermost one, or that of a fake operand where no mode is on."""
    stack = local.dispatch_modes
    if stack:
        return stack[-1] if stack[-1] is local.fake else None
    return next((mode for t in tensors if (mode := getattr(t, "fake_mode", None)) is not None), None)


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    tensors = tensors_in(args)
    if not local.dispatch_modes and not any(t._k & DISPATCH for t in tensors):
        return NotImplemented
    fake = _fake_mode(tensors)
    if fake is not None:
        return fake.run(op, args)
    func, given, named = aten_call(op, args)
    result = _offer(func, given, named, tensors)
    if local.grad and isinstance(result, Tensor) and result._view is not None and result._view[5] == MADE_WITHOUT_GRAD:
        above = result._view[0]._view  # only what took it over was without: it is as what it is a view of
        result._view = (*result._view[:5], 0 if above is None else above[5], result._view[6])
    return result


def take_operator(func: Any, args: Any, named: dict[str, Any], tensors: list[Tensor], rules: Any) -> Any:
    """The same for operators that programs define (`torch.library`); a fake mode runs their own rule for meta tensors."""
    return NotImplemented if _fake_mode(tensors) is not None else _offer(func, args, named, tensors, rules)


def take_function(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """The same for public functions that run no record: writes, detaching, making tensors, drawing and reading numbers."""
    tensors = tensors_in((*args, *named.values()))
    if local.batches and any([t._k & BATCHED for t in tensors]):  # what it does with whole batches is shown
        return args[0].around(function(args[0].value)) if name_of(function) == "detach" else NotImplemented
    fake = _fake_mode(tensors)
    if fake is not None:
        return fake.call(function, args, named)
    name = name_of(function)
    if name in _OF_DATA and local.dispatch_modes and not tensors_in((*args[name == "new_tensor" :], *named.values())):
        return _show_constant(name, args, dict(named))
    schemas = _schemas()
    writes = name.endswith("_") and not name.endswith("__")
    draws = schemas.takes_generator(name) or (fact(name, "whole") is not None and not is_differentiated(*tensors))
    makes = not writes and name != "to" and schemas.makes_tensors(name)
    if not (writes or makes or draws or name in ("detach", "item")) or fact(name, "parts") is not None:
        return _below(function, args, named)
    if not local.dispatch_modes and not any(t._k & DISPATCH for t in tensors):
        return NotImplemented
    if name == "requires_grad_" or (draws and local.batches):  # the function itself leaves the vmap before it draws
        return NotImplemented
    if draws or makes:
        return _show_made(function, name, args, dict(named), tensors)
    if writes and local.grad and not tensors[0]._k & DISPATCH and any([t._k & GRAD for t in tensors]):
        return NotImplemented  # it records the history, and shows its parts
    call = _write_call(name, args, named) if writes else (_aten(_READS.get(name, name)), args, dict(named))
    if call is None:
        return _below(function, args, named)
    if writes and tensors[0]._k & GRAD and tensors[0]._k & DISPATCH and local.grad:
        return _write_recorded(name, args, named)
    result = _offer(*_shortened(*call), tensors)
    return args[0] if writes and result is not NotImplemented else result


_READS = {"item": "_local_scalar_dense"}


def _form_of(call: Any, name: str, *overloads: str) -> Any:
    """The form of an operator that writes, under the first of the overloads that there is and that takes the arguments of a call."""
    _, args, named = call
    known = _schemas().schemas_of(name)
    for overload in overloads:
        schema = known.get(overload.replace("default", ""))
        if schema is not None and schema.is_mutable and len(args) <= len(schema.positional):
            if all(key in schema.kwarg_only for key in named):
                return _aten(name, overload), args, named
    return None


def _record_call(name: str, args: Any, named: dict[str, Any]) -> Any:
    """The operator that a pointwise record is, if it was called as such; None otherwise."""
    op = records.get(name)
    if not isinstance(op, Pointwise) or named or not op.arity <= len(args) <= len(op.names):
        return None
    return aten_call(op, tuple(args))


def _write_call(name: str, args: Any, named: dict[str, Any]) -> Any:
    """The operator, with its arguments, that a function in place is; None if there is none."""
    call = _record_call(name[:-1], args, named)
    if call is not None:
        own, overload = call[0]._opname + "_", call[0]._overloadname
        found = _form_of(call, own, overload, overload.removeprefix("Tensor_"), "Tensor")
        if found is not None:
            return found
    meant = _schemas().meant(name, args, named)
    if meant is None:
        return None
    usual = _overload(name, args[1]) if len(args) > 1 else "default"  # which makes tensors of some numbers
    overload = "Tensor" if usual == "Tensor" and meant[0] == "Scalar" else meant[0] or "default"
    return _aten(name, overload), tuple(meant[1]), meant[2]


def _show_out(function: Any, args: Any, named: dict[str, Any], target: Tensor) -> bool:
    """Whether somebody has taken over a function with `out=`, which is one operator then."""
    tensors = tensors_in((*args, *named.values(), target))
    if local.batches or _fake_mode(tensors) is not None or fact(name_of(function), "composite") is not None:
        return False
    if not local.dispatch_modes and not any(t._k & DISPATCH for t in tensors):
        return False
    name = name_of(function)
    call = _record_call(name, args, named)
    if call is not None:
        overload = call[0]._overloadname
        own = (call[0], call[1], {**call[2], "out": target})
        call = _form_of(own, call[0]._opname, f"{overload}_out", "out", "Tensor_out")
    else:
        meant = _schemas().meant(name, args, {**named, "out": target})
        call = None if meant is None else (_aten(name, meant[0] or "default"), tuple(meant[1]), meant[2])
    return call is not None and _offer(*_shortened(*call), tensors) is not NotImplemented


def _show_made(function: Any, name: str, args: Any, named: dict[str, Any], tensors: list[Tensor]) -> Any:
    """The same for functions that make tensors or draw random numbers; samples have the history of what they were drawn for."""
    wanted = named.pop("requires_grad", False)
    found = _schemas().meant(name, args, named)
    if found is None:
        return _below(function, args, named)
    overload, given, options = found
    func = _aten(name, overload or "default")
    written = given[0] if name.endswith("_") else options.get("out")
    if written is not None:
        check_writable(written)
    result = _offer(*_shortened(func, given, options), tensors)
    if result is NotImplemented:
        return result
    result = result if written is None else written
    if any(a.name == "generator" for a in func._schema.arguments) and "pin_memory" not in func._schema.kwarg_only:
        samples.drawn_for(name, result, tensors, written is not None)
    return result.requires_grad_() if wanted else result


_OF_DATA = (
    "tensor",
    "as_tensor",
    "asarray",
    "from_numpy",
    "new_tensor",
)  # which make tensors of a program's own numbers


def _show_constant(name: str, args: Any, named: dict[str, Any]) -> Any:
    """The same for tensors of numbers that are no tensors: they are there, and new to who looks."""
    wanted = named.pop("requires_grad", False)
    if name == "new_tensor":
        like, name, args = args[0], "tensor", args[1:]
        named = {"dtype": like.dtype, "device": like.device, **{k: v for k, v in named.items() if v is not None}}
    stack, local.dispatch_modes = local.dispatch_modes, ()
    fake, local.fake = local.fake, None
    try:
        made = getattr(ops, name)(*args, **named)
    finally:
        local.dispatch_modes, local.fake = stack, fake
    made = _offer(_aten("lift_fresh"), (made,), {}, [made])
    return made.requires_grad_() if wanted else made


def _below(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """A function that a mode on top is not shown: a fake mode below it still makes its tensors."""
    fake, stack = local.fake, local.dispatch_modes
    if fake is None or fake not in stack or name_of(function) not in fake.made:
        return NotImplemented
    local.dispatch_modes = stack[: stack.index(fake) + 1]
    try:
        return fake.call(function, args, named)
    finally:
        local.dispatch_modes = stack


def _show_write(t: Tensor, result: Tensor) -> bool:
    if _fake_mode([t, result]) is not None:
        return False
    return _offer(_aten("copy_"), (t, result), {}, [t, result]) is not NotImplemented


def name_of(function: Any) -> str:
    """The name of a public function."""
    return getattr(function, "__name__", "")


def _write_recorded(name: str, args: Any, named: dict[str, Any]) -> Any:
    """A write to a tensor with a history: what the form that is not in place gives for a copy of it is copied into it."""
    t = args[0]
    plain = getattr(ops, name[:-1], None)
    if plain is None or t._view is not None:
        raise NotImplementedError(
            f"{name}: this write to a tensor with __torch_dispatch__ that requires grad; use the form without underscore"
        )
    check_writable(t)
    before = ops.clone(t)
    made = plain(before, *[before if a is t else a for a in args[1:]], **named)
    _offer(_aten("copy_"), (t, made), {}, [t, made])
    if made._edge is not None:
        rewrite_history(t, made._edge)
    return t


inplace.show_write = _show_write
out.show_out = _show_out
handlers[DISPATCH] = _handle
handlers[IN_PARTS] = in_parts
