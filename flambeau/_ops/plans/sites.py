"""Functions that find the plans of their calls by themselves, where the interpreter is one that machine code knows."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._autograd.node import NOWHERE, Node, SavedOutput, sequence
from ..._backend.cpu import cpu
from ..._core import allocation
from ..._core.layouts import is_dense
from ..._core.state import CUDA, GRAD, local, modes
from ..._kernel.native.direct import address_function
from ..._kernel.native.entry import ARGUMENTS
from ..._kernel.native.plan import NO_PLAN, Table, absent, description, taken_apart
from ..._kernel.native.site import prepare, site
from ..._kernel.native.views import MOST, ViewPlan
from ..._tensor import InferenceMeta, Storage, Tensor, inherited
from .. import registry
from ..records.writable import overlaps_itself
from . import device_plans
from .patterns import Unplannable, is_fixed, pattern_of
from .pointwise_plan import is_alike, plan
from .watching import watched_plan

native = prepare(Tensor, Node, SavedOutput, InferenceMeta, sequence, Storage, NOWHERE)
device_plans.prepare(native)
LONGEST_CHAIN = 32  # of views of views, which the last one keeps
_RANK = 8  # sizes that are given one by one, at most


def pointwise_site(
    op: Any, slow: Callable[..., Any], record: Callable[..., Any], names: Sequence[str], runtime: int
) -> Any:
    """The function of a pointwise operation: `slow`, with the native entry before it if there can be one."""
    if not native:
        return slow

    def remember(args: Sequence[Any], out: Any) -> None:
        """Makes the plan of a call that succeeded, unless one of its arguments is not plain."""
        if out.__class__ is not Tensor or any([a is absent for a in args]):
            return
        if on_device.remember(slow, args, _history(args)):
            return
        if any([a._k > GRAD for a in args if isinstance(a, Tensor)]):
            return
        alike, history = is_alike(args), _history(args)
        made = plan(op, args, record, runtime, alike)
        if local.casting and op.variant(cpu, op.common(args))[1][0] is not out.dtype:
            made = None  # autocast has changed the operands
        if made is not None and history and out._edge is not None:
            with contextlib.suppress(Unplannable):
                if not alike or out._edge[0].info is None:  # which holds shapes
                    made.pattern = pattern_of((out,), args, in_order=True)
        table.add(description(args, Tensor, history, runtime, alike), made or NO_PLAN, args)

    table = Table()
    on_device = device_plans.Memory(table, names, len(names))
    return site(slow, remember, table, names, runtime=runtime, by_element=True)


def in_place_site(op: Any, slow: Callable[..., Any], names: Sequence[str], runtime: int) -> Any:
    """The function that writes a pointwise operation's result into its first operand."""
    if not native:
        return slow

    def remember(args: Sequence[Any], out: Any) -> None:
        """Makes the plan of a call without history that succeeded."""
        if any([a is absent for a in args]) or not isinstance(out, Tensor):
            return
        if on_device.remember(slow, args, _history(args)):
            return
        if any([a._k > GRAD or a._array.__class__ is not np.ndarray for a in args if isinstance(a, Tensor)]):
            return
        alike, history = is_alike(args), _history(args)
        made = None if history else plan(op, args, None, runtime, alike, in_place=True)
        table.add(description(args, Tensor, history, runtime, alike), made or NO_PLAN, args)

    table = Table()
    on_device = device_plans.Memory(table, names, len(names), names[:1])
    return site(slow, remember, table, names, runtime=runtime, by_element=True)


def _history(args: Sequence[Any]) -> int:
    """Which arguments require gradients, in bits; 0 if nothing is recorded."""
    bits = 0
    if local.grad:
        for i, a in enumerate(taken_apart(args)):
            bits |= (isinstance(a, Tensor) and a._k & GRAD) << i
    return bits


def described(name: str, function: Any, given: Mapping[str, inspect.Parameter], others: bool = False) -> str:
    """The docstring of a function with these parameters, with its signature before it in the form that `inspect` reads of those without
    code; whether it takes `others` by name is said if so wanted."""
    parts, named = [], False
    for p in given.values():
        if p.kind is p.VAR_KEYWORD or (p.name == "axis" and "dim" in given):  # NumPy's name for the same
            continue
        if p.kind is p.VAR_POSITIONAL:
            named = True
            parts.append(f"*{p.name}")
            continue
        if p.kind is p.KEYWORD_ONLY and not named:
            named = True
            parts.append("*")
        plain = isinstance(p.default, (bool, int, float, str, tuple))
        default = repr(p.default) if plain else "None"
        parts.append(p.name if p.default is p.empty else f"{p.name}={default}")
    if others:
        parts += [f"**{p.name}" for p in given.values() if p.kind is p.VAR_KEYWORD]
    elif hasattr(function, "takes_out"):
        parts += ["out=None"] if named else ["*", "out=None"]
    return f"{name}({', '.join(parts)})\n--\n\n{function.__doc__ or ''}"


def _planned(slow: Any, name: str, views: bool = False, writes: Sequence[str] = ()) -> Any:
    """The form of a public function whose calls are planned by watching them, or, if it gives views, by looking at these."""
    if not native:
        return slow
    given = inspect.signature(slow).parameters
    kinds = [p for p in given.values() if p.name != "out"]
    names, positional = [p.name for p in kinds], sum([p.kind is not p.KEYWORD_ONLY for p in kinds])
    if any([p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in kinds]):
        if not views:
            raise TypeError(f"{slow.__name__}: a planned function has a fixed list of arguments")
        names = [names[0], *map(str, range(_RANK))]  # no names that anybody gives
        positional = len(names)
    if len(names) > ARGUMENTS:
        raise TypeError(f"{slow.__name__}: a planned function has at most {ARGUMENTS} arguments")
    table = Table()
    remember = (_remembering_views if views else _remembering)(slow, names, table, positional, writes)
    others = registry.numpy_names_of(names)
    made = site(slow, remember, table, names, positional, name=name, doc=described(name, slow, given), others=others)
    slow.site, inner = made.__self__, slow
    while inner is not None:  # classes and modes that take over are given the site
        inner.public = made
        inner = getattr(inner, "__wrapped__", None)
    return made


def planned_call(call: Any, names: Sequence[str]) -> Any:
    """The call of a record, whose arguments go by position, planned by watching it."""

    def by_name(*values: Any, **given: Any) -> Any:
        return call(*values, *given.values())

    table = Table()
    return site(call, _remembering(by_name, names, table, len(names)), table, names) if native else call


def planned_writer(write: Any, names: Sequence[str], positional: int) -> Any:
    """A function that writes to its first argument, planned by watching it."""
    if not native or len(names) > ARGUMENTS:
        return write
    table = Table()
    return site(write, _remembering(write, names, table, positional, names[:1]), table, names, positional)


def planned_formula(formula: Any) -> Any:
    """A derivative whose calls are planned by watching them, unless they are differentiated in turn."""
    names, table = registry.parameter_names(formula), Table()
    if not native or len(names) > ARGUMENTS:
        return formula
    remember = _remembering(formula, names, table, len(names))

    def without_history(values: Sequence[Any], out: Any) -> None:
        if not local.grad:
            remember(values, out)

    return site(formula, without_history, table, names)


def _remembering(
    function: Any, names: Sequence[str], table: Table, positional: int, writes: Sequence[str] = ()
) -> Callable[..., None]:
    """What a site of a function is given to remember its calls by."""
    on_device = device_plans.Memory(table, names, positional, writes)

    def remember(values: Sequence[Any], out: Any) -> None:
        """Makes the plan of a call that comes again."""
        if allocation.watcher is not None and allocation.watcher.here():
            return  # inside of a call that is watched
        tensors = [a for a in taken_apart(values) if isinstance(a, Tensor)]
        if on_device.remember(_way(function), values, _history(values)):
            return
        if not tensors or any([a._k > GRAD or a._array.__class__ is not np.ndarray for a in tensors]):
            return
        history, plan = _history(values), None
        results = [t for t in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(t, Tensor)]
        arrays = [t._array for t in results]
        written = any([r is a for r in results for a in tensors])
        dense = not written and all([is_dense(a.shape, a.strides, a.itemsize) for a in arrays])  # as plans make them
        if dense and all([t._k <= GRAD for t in results]):
            plan = watched_plan(_way(function), names, values, bool(history))
        elif writes and not history and len(results) == 1 and results[0] is values[0] and _may_be_written(arrays[0]):
            plan = watched_plan(_way(function), names, values, False, writes=True)
        table.add(description(values, Tensor, history), plan or NO_PLAN, values)

    return remember


def _may_be_written(array: Any) -> bool:
    """Whether a plan may write to such an array, one element after the other."""
    return bool(array.size and array.flags.aligned and array.flags.writeable) and not overlaps_itself(array)


def _remembering_views(
    function: Any, names: Sequence[str], table: Table, positional: int, writes: Sequence[str] = ()
) -> Callable[..., None]:
    """The same for functions that give views of their first argument, or a copy where there is no such view."""

    def by_position(**values: Any) -> Any:
        return _way(function)(*values.values())

    on_device = device_plans.Memory(table, names, positional)
    remember_copy = _remembering(by_position, names, table, positional)

    def remember(values: Sequence[Any], out: Any) -> None:
        x, history = values[0], _history(values)
        if isinstance(out, Tensor) and out._view is None and out is not x and not out._k & CUDA:
            remember_copy(values, out)
            return
        if not isinstance(x, Tensor) or sum([isinstance(a, Tensor) for a in taken_apart(values)]) > 1:
            return  # elements of another one may count
        deep = x._view is not None and x._view[4] >= LONGEST_CHAIN
        if deep or inherited(x) is not None or modes.inferring is not None:
            return  # which others that are described alike are not
        if x._k | GRAD == CUDA | GRAD:
            on_device.remember_views(lambda: view_plan(x, out), values, history)
        elif x._k <= GRAD and x._array.__class__ is np.ndarray:
            table.add(description(values, Tensor, history), view_plan(x, out) or NO_PLAN, values)

    return remember


def view_plan(x: Tensor, out: Any) -> ViewPlan | None:
    """How views were made of a tensor; None if by more than one step, or not at all."""
    several = isinstance(out, tuple)
    outs = out if several else (out,)
    if (
        not 0 < len(outs) <= MOST
        or not x._array.size
        or any([t.__class__ is not Tensor or t._view is None for t in outs])
    ):
        return None
    op, number = outs[0]._view[1], outs[0]._view[3]
    on_gpu = x._array.__class__ is not np.ndarray
    address = device_plans.address_of if on_gpu else address_function()
    plan = ViewPlan(op, type(out) if several else None, number is not None, LONGEST_CHAIN)
    for i, t in enumerate(outs):
        link, node = t._view, None if t._edge in (None, NOWHERE) else t._edge[0]
        if (
            t is x
            or t.dtype is not x.dtype
            or link[0] is not x
            or link[1] is not op
            or link[3] != (None if number is None else i)
        ):
            return None
        about = (None, None, None)
        if node is not None:
            own = not (vars(node) or node.hooks or node.pre_hooks or hasattr(node, "label"))
            if not own or node.op is not op or not is_fixed(node.saved):
                return None
            about = node.saved, node.info, node.outputs
        offset = address(t._array) - address(x._array)
        if on_gpu:
            plan.device_view(device_plans.maker(t._array), t._array.strides, offset, link[2], *about)
        else:
            plan.view(t._array.shape, t._array.strides, offset, link[2], *about)
    return plan


def _way(function: Any) -> Any:
    """A function with what was put before it since."""
    return function.site.slow if hasattr(function, "site") else function


registry.with_plans = _planned
