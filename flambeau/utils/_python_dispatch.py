"""Modes below autograd (`TorchDispatchMode`), and questions about tensors that wrap other tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .._core.state import DISPATCH, local, modes
from .._ops.registry import records
from .._tensor import Tensor

__all__ = [
    "AliasInfo", "BaseTorchDispatchMode", "SchemaInfo", "TensorWithFlatten", "TorchDispatchMode", "TraceableWrapperSubclass",
    "any_torch_dispatch_mode_on_stack", "autograd_would_have_decomposed", "get_alias_info", "is_in_any_mode_without_ignore_compile_internals", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing",
    "transform_subclass",
]  # fmt: skip


@runtime_checkable
class TensorWithFlatten(Protocol):
    """What a class of tensors has that says how it is taken apart and put together; for annotations."""

    def __tensor_flatten__(self) -> tuple[Sequence[str], object]: ...

    @staticmethod
    def __tensor_unflatten__(inner_tensors: Any, flatten_spec: Any, outer_size: Any, outer_stride: Any) -> Tensor: ...


TraceableWrapperSubclass = TensorWithFlatten


class TorchDispatchMode:
    """Sees every operation inside of a `with` block, below autograd, as an operator of `torch.ops.aten`.

    >>> import flambeau as torch
    >>> from flambeau.utils._python_dispatch import TorchDispatchMode
    >>> class Log(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Log():
    ...     y = x + 1
    aten.add.Tensor
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        self.old_dispatch_mode_flags: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it does: write __torch_dispatch__")

    def __enter__(self) -> Any:
        if isinstance(inspect.getattr_static(self, "__torch_dispatch__"), classmethod):
            raise RuntimeError(
                "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a plain method"
            )
        local.dispatch_modes = (*local.dispatch_modes, self)
        modes.enter(DISPATCH)
        return self

    def __exit__(self, *error: Any) -> None:
        local.dispatch_modes = local.dispatch_modes[:-1]
        modes.leave(DISPATCH)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether a mode belongs to the system itself."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that runs every operation as it is."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> Any:
    """The innermost mode below autograd that is on, or None."""
    return local.dispatch_modes[-1] if local.dispatch_modes else None


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode below autograd is on; without `include_infra_modes` one whose `is_infra_mode()` is false."""
    return any([include_infra_modes or not mode.is_infra_mode() for mode in local.dispatch_modes])


_sees_internals = [False]


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Whether a mode is said to be on that sees what compilers do inside; none is unless a program says so."""
    return _sees_internals[0]


def set_is_in_mode_without_ignore_compile_internals(value: bool) -> None:
    """Says whether such a mode is on."""
    _sees_internals[0] = value


def any_torch_dispatch_mode_on_stack() -> bool:
    """Whether a mode below autograd is on."""
    return bool(local.dispatch_modes)


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """The same wrapper around other tensors: `callback(name, tensor)` of each that it wraps."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if made.shape != size or made.stride() != stride:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have the same shape and strides"
        )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a wrapper's operation returns: the operand that it wrote in place, the `out=`, or else its result."""
    name = str(getattr(func, "_opname", getattr(func, "__name__", "")))
    if kwargs and isinstance(kwargs.get("out"), Tensor):
        return kwargs["out"]
    if name.endswith("_") and not name.endswith("__") and args and isinstance(args[0], Tensor):
        return args[0]
    return out


def is_traceable_wrapper_subclass_type(t: Any) -> bool:
    """Whether a class of tensors says how it is taken apart and put together."""
    return (
        t is not Tensor
        and issubclass(t, Tensor)
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor says how it is taken apart and put together."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


# -- what schemas say about memory -------------------------------------------------------------------------------------


@dataclass
class AliasInfo:
    """Which memory an argument or result of an operator shares, by letters, and whether it is written."""

    alias_set: set[str]
    is_write: bool
    name: str | None


@dataclass
class SchemaInfo:
    """What the schema of an operator says about memory."""

    args: list[AliasInfo]
    outs: list[AliasInfo]
    is_inplace_view_op: bool
    outs_write_aliases: list[str] | None
    read_only_alias_match_indexes: list[tuple[int, int]]


def _aliases(part: Any, name: str | None) -> AliasInfo:
    found = part.alias_info
    return AliasInfo(set(), False, name) if found is None else AliasInfo(set(found.before_set), found.is_write, name)


def get_alias_info(func: Any) -> SchemaInfo:
    """Which arguments of an operator it writes to, and which of its results are views of them.

    >>> import flambeau as torch
    >>> from flambeau.utils._python_dispatch import get_alias_info
    >>> get_alias_info(torch.ops.aten.view.default).read_only_alias_match_indexes
    [(0, 0)]
    >>> get_alias_info(torch.ops.aten.add_.Tensor).outs_write_aliases
    ['a']
    """
    schema = func._schema
    args = [_aliases(a, a.name) for a in schema.arguments]
    outs = [_aliases(r, None) for r in schema.returns]
    written = [letter for out in outs if out.is_write for letter in sorted(out.alias_set)]
    views = [
        (i, o)
        for i, arg in enumerate(args)
        for o, out in enumerate(outs)
        if arg.alias_set & out.alias_set and not out.is_write
    ]
    return SchemaInfo(args, outs, _reshapes(func), written or None, views)


def _reshapes(func: Any) -> bool:
    """Whether an operator gives a tensor another shape in place: its other form is a view, or it takes other memory."""
    bare = str(func._schema.name).rpartition("::")[2]
    if not bare.endswith("_"):
        return False
    if bare in ("resize_", "resize_as_", "set_"):
        return True
    from .._library.namespaces import ops as spaces  # which needs modes

    other = getattr(spaces.aten, bare[:-1], None)
    overload = getattr(other, func._overloadname, None) if other is not None else None
    return overload is not None and any(r.alias_info is not None for r in overload._schema.returns)


def autograd_would_have_decomposed(func: Any, flat_args: Sequence[Any]) -> bool:
    """Whether an operator is nothing but a function of others, which autograd sees in its place."""
    name = str(func._schema.name).rpartition("::")[2]
    return str(func._schema.name).startswith("aten::") and name not in records and name.rstrip("_") not in records
