"""Operators of your own: `custom_op` from a function, `Library` and `define`/`impl` piece by piece."""

from __future__ import annotations

import contextlib
import enum
import functools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ._C import DispatchKey, DispatchKeySet
from ._errors.frames import warn_user
from ._library.custom_ops import CustomOpDef, custom_op, known_devices, split_name
from ._library.infer_schema import infer_schema
from ._library.namespaces import OpOverload, OpOverloadPacket, ops
from ._library.operators import Operator, operators
from ._library.operators import define as _define
from ._library.schema import FunctionSchema, parse_schema
from ._ops.records.shape_rules import DataDependent
from ._tensor import Tensor

__all__ = [
    "CustomOpDef", "EffectType", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

_defined: set[str] = {"aten", "prim", "prims"}  # namespaces that have their one Library of kind "DEF"
# Where an implementation goes, by the name that PyTorch has for the group of tensors it serves.
_KEYS = {"cpu": "cpu", "cuda": "cuda", "meta": "meta", "default": "", "compositeexplicitautograd": ""}

# Devices that PyTorch knows, on which there are no tensors here: what is implemented for them never runs.
_ELSEWHERE = frozenset(
    [
        "xpu",
        "mps",
        "hpu",
        "hip",
        "ipu",
        "vulkan",
        "mtia",
        "maia",
        "xla",
        "lazy",
        "ve",
        "fpga",
        "privateuse1",
        "privateuseone",
        "mkldnncpu",
    ]
)


# What PyTorch does to tensors at places of its dispatcher that do not exist here: an implementation for one never runs.
_NOWHERE = frozenset(["adinplaceorview", "backendselect", "conjugate", "negative", "zerotensor"])


class EffectType(enum.Enum):
    """What an operator does besides giving results: calls of ordered ones stay in their order."""

    ORDERED = "Ordered"


# Implementations that came before the definition of their operator: (function, group of tensors) by its name.
_waiting: dict[str, list[tuple[Callable[..., Any], str]]] = {}


def fallthrough_kernel() -> None:
    """Stands for "nothing here, go on"."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _operator(op: Any, what: str = "torch.library") -> Operator:
    """The definition behind a name, an overload or a custom op."""
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, OpOverload):
        op = op._op
    if isinstance(op, OpOverloadPacket):
        op = op._qualified_op_name
    if isinstance(op, Operator):
        return op
    if not isinstance(op, str):
        raise ValueError(f"{what}({op}): got unexpected type for op: {type(op)}")
    split_name(op)
    found = operators.get(op.removesuffix(".default"))
    if found is None:
        raise RuntimeError(f"{what}: operator {op} does not exist; define it first with torch.library.define")
    return found


@contextlib.contextmanager
def _scoped_library(*args: Any, **named: Any) -> Iterator[Library]:
    """A block with a library that is gone after it."""
    library = Library(*args, **named)
    try:
        yield library
    finally:
        library._destroy()


class Library:
    """Defines operators in a namespace ("DEF", or "FRAGMENT" for more of an existing one) or implements them ("IMPL").

    >>> import flambeau as torch
    >>> library = torch.library.Library("example_ns", "DEF")
    >>> library.define("double(Tensor x) -> Tensor")
    'double'
    >>> library.impl("double", lambda x: x + x, "CPU")
    >>> from flambeau._library.namespaces import ops
    >>> ops.example_ns.double(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "prim" and kind != "IMPL":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF":
            if ns in _defined:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; "
                    "use the kind 'FRAGMENT' to add to it or 'IMPL' to implement its operators"
                )
            _defined.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._names: list[str] = []
        # Operators are there as long as the library that defines them.
        self._destroy = weakref.finalize(self, _forget, self._names, ns if kind == "DEF" else None)
        self._destroy.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an operator by its schema; gives its name."""
        if self.kind == "IMPL":
            raise RuntimeError("define() cannot be called on a Library of kind 'IMPL'")
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        read = parse_schema(schema)
        full = FunctionSchema(f"{self.ns}::{read.name}", read.overload_name, read.arguments, read.returns)
        op = _new_operator(full, tags)
        self._names.append(op.name)
        return read.name + (f".{read.overload_name}" if read.overload_name else "")

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Implements an operator for a group of tensors: "CPU", "CUDA", "Meta", "Autograd", "Composite…"."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if isinstance(op_name, str) and "::" not in op_name:
            op_name = f"{self.ns}::{op_name}"
        if isinstance(op_name, str) and (other := split_name(op_name)[0]) != self.ns:
            raise RuntimeError(
                f'impl("{op_name}", ...): Explicitly provided namespace ({other}) in operator name does not match '
                f"namespace of the library ({self.ns})"
            )
        if with_keyset:
            key = DispatchKey.__members__.get(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")
            fn = functools.partial(fn, DispatchKeySet(*[key] * (key is not None)))
        _implement_named(op_name, fn, dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")

    def _register_fake(self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1, **_: Any) -> None:
        _operator(f"{self.ns}::{op_name}").fake = fn


def _forget(names: list[str], space: str | None) -> None:
    """The end of a library: its operators are gone, and its namespace, if it defined one, is free again."""
    for name in names:
        operators.pop(name, None)
    if space is not None:
        _defined.discard(space)


def _new_operator(schema: FunctionSchema, tags: Any) -> Operator:
    op = _define(schema, tags)
    for fn, key in _waiting.pop(op.name, ()):
        _implement(op, fn, key)
    return op


def _implement_named(op: Any, fn: Callable[..., Any], key: str) -> None:
    """Implements an operator, or keeps the implementation until it is defined."""
    name = op.removesuffix(".default") if isinstance(op, str) else ""
    if name and name not in operators:
        space, base = split_name(name)
        if space == "aten" and hasattr(ops.aten, base.partition(".")[0]):
            warn_user(
                f"torch.library: {name} is flambeau's own; the implementation for {key!r} given for it does not run"
            )
        _waiting.setdefault(name, []).append((fn, key))
    else:
        _implement(_operator(op), fn, key)


def _implement(op: Operator, fn: Callable[..., Any], key: str) -> None:
    low = key.lower()
    if fn is fallthrough_kernel or low.removeprefix("autograd").removeprefix("autocast") in _ELSEWHERE | _NOWHERE:
        return
    if low in _KEYS:
        if low == "meta":
            op.fake = fn
        else:
            op.kernels[_KEYS[low]] = fn
    elif low == "compositeimplicitautograd":
        op.composite = fn
    elif low.startswith("autograd"):
        op.own_autograd = fn
    elif low.startswith("autocast"):
        op.autocast[low.removeprefix("autocast")] = fn
    else:
        raise NotImplementedError(
            f"implementations for {key!r} are not supported: use 'CPU', 'CUDA', 'Meta', 'Autograd', 'Autocast…', "
            "'CompositeExplicitAutograd' or 'CompositeImplicitAutograd'"
        )


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Defines an operator "ns::name" by its schema, such as "(Tensor x) -> Tensor"."""
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    split_name(qualname)
    if not re.fullmatch(r"\s*\(.*\)\s*->.*", schema, re.S):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor", got {schema!r}'
        )
    made = _new_operator(parse_schema(qualname + schema), tags)
    if lib is not None:  # it lasts as long as the library
        lib._names.append(made.name)

    def implement(function: Callable[..., Any]) -> Callable[..., Any]:
        return impl(qualname, "default", function)

    return implement


def impl(
    qualname: Any,
    types: str | Sequence[str] = "default",
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Implements an operator for device types ("cpu", "cuda", "default" for all). Also a decorator.

    >>> import flambeau as torch
    >>> implement = torch.library.define("example_impl::twice", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("example_impl::twice", "cpu")
    ... def twice(x):
    ...     return x * 2
    """
    if isinstance(qualname, Library):  # the older form: impl(library, name, key)
        library, name, key = qualname, types, func or ""

        def older(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, key)
            return function

        return older
    kinds = [types] if isinstance(types, str) else list(types)

    def implement(function: Callable[..., Any]) -> Callable[..., Any]:
        for kind in kinds:
            _implement_named(qualname, function, kind)
        return function

    return implement if func is None else implement(func)


def _decorator(op: Any, func: Callable[..., Any] | None, slot: str) -> Any:
    definition = _operator(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(definition, slot, function)
        return function

    return register if func is None else register(func)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """The implementation of an operator on device types; None means all. Also a decorator."""
    definition = _operator(op)
    kinds = known_devices(device_types)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for kind in kinds:
            definition.kernels[kind] = function
        return function

    return register if func is None else register(func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """The rule of an operator for meta tensors. Also a decorator."""
    return _decorator(op, func, "fake")


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The older name of `register_fake`."""
    return register_fake(qualname, func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """The derivative of an operator: backward(ctx, *gradients) after setup_context(ctx, inputs, output)."""
    definition = _operator(op)
    if definition.schema.is_mutable:
        raise RuntimeError(f"Cannot register autograd formula for non-functional operator {definition.dotted}")
    definition.backward, definition.setup_context, definition.checked = backward, setup_context, True


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None) -> Any:
    """The rule of an operator for batches: func(info, in_dims, *args) -> (result, out_dims). Also a decorator."""
    return _decorator(op, func, "batch")


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Inside autocast, floating tensors are cast to this dtype before the operator runs."""
    known_devices(device_type)
    _operator(op).cast[device_type] = cast_inputs


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """What a mode or a class with `__torch_dispatch__` does with an operator: func(mode or class, func, types, args, kwargs).

    Also a decorator.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _operator(op).dispatch[torch_dispatch_class] = function
        return function

    return decorate if func is None else decorate(func)


def triton_op(name: str, fn: Any = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None) -> Any:
    """An operator that launches Triton kernels: the same as `custom_op`, because nothing looks inside."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """A Triton kernel inside of `triton_op`: the kernel itself."""
    return triton_kernel


class _FakeContext:
    """Given to rules for meta tensors."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        raise DataDependent("meta tensors have no sizes that depend on data: the rule must give a size that is known")

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> Any:
    """What a rule for meta tensors may ask for; sizes that depend on data are not supported."""
    return _FakeContext()


def get_kernel(op: Any, dispatch_key: str) -> Callable[..., Any]:
    """The implementation that an operator has for "CPU", "CUDA" or "Meta"."""
    definition = _operator(op)
    key = str(dispatch_key).rpartition(".")[2].lower()
    if key not in _KEYS:
        raise RuntimeError(f"there is no implementation of {definition.name} for {dispatch_key}")
    return definition._kernel(_KEYS[key] or "cpu")


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = (
        "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic",
    ),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tests an operator on example arguments: that it writes only where its schema says, that gradients work, and
    that its rule for meta tensors gives what it computes, and that a compiled call gives what an eager one does, within `atol` and
    `rtol` (as `torch.testing.assert_close` has them)."""
    from ._library.checking import CHECKS, OpCheckError  # tests are rare

    if not isinstance(op, (OpOverload, OpOverloadPacket, CustomOpDef)):
        raise ValueError(
            f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got {type(op)}"
        )
    definition = _operator(op, "opcheck")
    wanted = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    results: dict[str, Any] = {}
    for name in wanted:
        check = CHECKS.get(name)
        if check is None:
            raise ValueError(f"opcheck(op, ..., {test_utils=}), expected test_utils to be subset of {tuple(CHECKS)}")
        try:
            tolerances = (atol, rtol) if name == "test_aot_dispatch_dynamic" else ()
            check(definition, args, kwargs or {}, *tolerances)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
    return results


_PRIVATE = (Tensor, ops)
