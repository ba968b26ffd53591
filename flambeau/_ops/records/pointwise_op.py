"""Pointwise records: a body over the domain `m`, read as kernel code for the operands' dtype at first use."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._autograd import engine
from ..._autograd.node import Node
from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core import allocation
from ..._core.allocation import empty, empty_strided, offered
from ..._core.config import memory_problem
from ..._core.dtypes import FLOATING, bool_, complex32, dtype, promote_types, scalar_dtype
from ..._core.sizes import broadcast_shapes
from ..._core.state import BATCHED, CUDA, GRAD, META, local
from ..._dispatch import backend_of
from ..._kernel.native.walks import arranged, arrangement
from ..._tensor import Tensor, alias, wrap
from ..registry import NO_DERIVATIVE, derivative_name, no_derivative, ops, parameter_names, records, relabel
from .casting import as_tensor, broadcast_error, cast_array, combine, operand_arrays
from .pointwise_call import calling
from .rules import Rule, arithmetic
from .saved import fetch, save, trace, value

_ndarray = np.ndarray
_asarray = np.asanyarray  # watched arrays stay what they are


class Derivative:
    """The derivative by one input: which values it uses, its formula, and the kernel made from it."""

    __slots__ = ("call", "formula", "identity", "kernel", "uses")

    def __init__(self, owner: Pointwise, index: int, formula: Callable[..., Any]):
        names = parameter_names(formula)
        available = {**{n: i for i, n in enumerate(owner.names)}, "out": len(owner.names)}
        self.formula = formula
        self.uses = tuple(available[n] for n in names[2:])
        self.identity = len(names) == 2 and _is_identity(formula)
        params = tuple(n for n in names[2:] if n in owner.params)
        masks = tuple(n for n in names[2:] if n in owner.mask_names)
        self.kernel = None if self.identity else Pointwise(
            f"{owner.name}_backward_{owner.names[index]}", formula, Rule("fc", short_complex=True), params=params,
            masks=masks, derived=True,
        )  # fmt: skip
        self.call: Any = None if self.kernel is None else self.kernel.call

    def apply(self, node: Node, g: Tensor) -> Tensor:
        """The gradient, not differentiable again: one kernel over the incoming gradient and the saved values."""
        if self.identity:
            return g
        uses = self.uses
        if len(uses) == 1:
            return self.call(g, value(node, uses[0]))
        return self.call(g, *[value(node, j) for j in uses])


class _Missing:
    """The derivative that an operation does not have by one of its operands, or (`name` is "") by any."""

    identity = False

    def __init__(self, op: str, name: str):
        self.op, self.name = op, name

    def apply(self, node: Node, g: Tensor) -> Tensor:
        if self.name:
            raise NotImplementedError(f"the derivative for {self.op} by {self.name} is not implemented")
        raise no_derivative(self.op)

    uses, formula = (), property(lambda self: self.apply(None, None))


class _Constant:
    """The derivative of a gradient that is the same wherever it is taken: zero, as for relu."""

    name, backward_name = "constant", "ZeroBackward0"

    @staticmethod
    def backward(node: Node, g: Tensor, create_graph: bool) -> list[Any]:
        return [engine.zeros(*i) for i in node.info]


def constant_in(r: Tensor, inputs: list[Tensor]) -> Tensor:
    """A gradient that depends on its inputs only by their signs and the like: differentiable, with derivative zero."""
    if inputs and r._k & BATCHED:
        return r.around(constant_in(r.value, inputs))  # type: ignore[attr-defined]
    if inputs:
        r = alias(r)
        r._k |= GRAD
        node = Node(_Constant, tuple(t._edge or (t, 0) for t in inputs))
        node.info = [(t._array.shape, t.dtype, t._k & ~GRAD) for t in inputs]
        r._edge = (node, 0)
    return r


def _is_identity(formula: Callable[..., Any]) -> bool:
    """Whether a formula gives the gradient as it is."""
    try:
        probe = object()
        return formula(None, probe) is probe
    except Exception:
        return False


def tangent(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    """Of pointwise operations: derivative times tangent, summed over the operands."""
    if op.outputs > 1 or out.dtype.category != 2:  # complex ones are not always differentiable in this sense
        return NotImplemented
    total = None
    for i, t in enumerate(tangents[: op.arity]):
        if t is None:
            continue
        derivative = op.grads[i]
        if derivative is None or t.dtype.category != 2:
            return NotImplemented
        if t.dtype is not out.dtype:
            t = ops.to_dtype(t, out.dtype)
        if derivative.identity:
            made = t
        else:
            values = [out if j == len(op.names) else args[j] for j in derivative.uses]
            k = t._k
            for v in values:
                if isinstance(v, Tensor):
                    k |= v._k
            if (k & GRAD and local.grad) or (op.stepwise and t.dtype.itemsize == 2):
                values = [v if j >= op.arity else as_tensor(v, t) for j, v in zip(derivative.uses, values)]
                made = derivative.formula(ops, t, *values)
                if not made._k & GRAD:
                    made = constant_in(made, [v for v in values if isinstance(v, Tensor) and v._k & GRAD])
            else:
                made = derivative.kernel.call(t, *values)
        total = made if total is None else ops.add(total, made)
    if total is None:
        return None
    if total.dtype is not out.dtype:
        total = ops.to_dtype(total, out.dtype)
    shape = out._array.shape
    return total if total._array.shape == shape else ops.expand(total, shape)


_common_shape = functools.lru_cache(1024)(np.broadcast_shapes)


def _is_much(arrays: list[Any]) -> bool:
    """Whether threads pay for the result that operands broadcast to."""
    most = math.prod([a.size for a in arrays])
    return threads.pay(most) and threads.pay(math.prod(_common_shape(*[a.shape for a in arrays])))


class Pointwise:
    """One pointwise operation: dtype rule, body, derivatives, and the kernels made so far."""

    tangent = staticmethod(tangent)
    in_place: Any = None  # the function that writes the result into the first operand, made at the first need

    def __init__(
        self,
        name: str,
        body: Callable[..., Any],
        rule: Rule = arithmetic,
        grad: dict[str, Callable[..., Any]] | None = None,
        params: tuple[str, ...] = (),
        masks: tuple[str, ...] = (),
        outputs: int = 1,
        derived: bool = False,
        backward_name: str | Callable[[Node], str] | None = None,
        in_place_name: str | None = None,
        second_name: str | None = None,
        number_names: dict[str, str] | None = None,
        result_of: Callable[[dtype], tuple[dtype, ...]] | None = None,
        samples: Any = None,
        numbers: str = "both",
        checked: bool | str = False,
        stepwise: bool = False,
        short: Callable[..., Any] | None = None,
        short_types: tuple[str, ...] = ("bf16", "f16"),
        rows: bool = False,
        exact_out: bool = False,
        doc: str = "",
    ):
        self.name, self.body, self.rule, self.outputs, self.result_of = name, body, rule, outputs, result_of
        self.names = parameter_names(body)[1:]
        self.params, self.mask_names = frozenset(params), frozenset(masks)
        self.masks = frozenset(self.names.index(n) for n in masks)  # operands that stay bool
        self.arity = len(self.names) - len(params)
        if self.params != frozenset(self.names[self.arity :]):
            raise TypeError(f"{name}: parameters must come last, but its arguments are {self.names}")
        self.holds_numbers = self.arity == 2  # a number kept as an operand counts as a saved tensor
        self.derived, self.samples = derived, samples
        self.doc = (
            doc
            or f"{name.replace('_', ' ').capitalize()} of each element, with PyTorch's broadcasting and dtype promotion."
        )
        self.rows = rows  # whether results are row-major whatever the operands' order in memory
        self.takes_out = True  # whether PyTorch's function has `out=`
        self.exact_out = exact_out  # whether `out=` must have the result's very dtype, not one it can be cast to
        # whether 16-bit gradients are rounded after each operation of the formula, as PyTorch's are
        self.stepwise = stepwise
        # the body for 16-bit floats (those of `short_types`) where PyTorch rounds in between: short(m, cut, …) with
        # cut(x) to round
        self.short, self.short_types = short, short_types
        # the op that takes a number beside a 16-bit float at full precision
        self.wide_number: Pointwise | None = None
        self.number_pairs = False  # whether all operands may be Python numbers
        self.numbers = numbers  # which operands may be Python numbers: both, right (all but the first), none
        # whether numbers that the dtype cannot hold are errors; "narrow": parameters beside 16-bit floats, too, which
        # otherwise need only fit into 32 bits
        self.checked = checked
        self.variants: dict[Any, Any] = {}  # (backend, common dtype) -> (callable, result dtype, compute dtype)
        self.fast: dict[dtype, Any] = {}  # CPU: operand dtype -> (callable, result dtype), when no operand is cast
        self.fast_cuda: dict[dtype, Any] = {}  # the same on a GPU
        refuses = grad is not None and not grad  # it has a history, through which nothing can go
        self.backward_name = backward_name or (NO_DERIVATIVE if refuses else derivative_name(name))
        # of the derivative of the in-place form: PyTorch's other name, or what a comparison in place, which forgets, begins with
        self.in_place_name = in_place_name
        self.second_name = second_name  # of the derivative's derivative, where PyTorch has an operation for the first
        if number_names:  # of the derivative, where PyTorch has others for operands that are numbers
            self.record = _naming(self.record, {self.names.index(n): s for n, s in number_names.items()})  # type: ignore[method-assign]
        self.grads: list[Derivative | None] = [None] * len(self.names)
        for key, formula in (grad or {}).items():
            index = self.names.index(key)
            self.grads[index] = Derivative(self, index, formula)
        self.derivatives = [d or _Missing(name, "" if refuses else n) for d, n in zip(self.grads, self.names)]
        self.differentiable = grad is not None
        self.save_plans = [self._save_plan(mask) for mask in range(1 << self.arity)] if self.arity <= 4 else None
        if not derived:
            records[name] = self
        self.call = calling(self)

    def __repr__(self) -> str:
        return f"<pointwise {self.name}>"

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    # -- kernels -------------------------------------------------------------------------------

    def variant(self, backend: Any, common: dtype) -> Any:
        """(callable, result dtypes, compute dtype) for operands of one dtype."""
        compute, result = self.rule(self.name, common)
        key = (backend.name, compute, result)
        found = self.variants.get(key)
        if found is None:
            results = (result,) if self.result_of is None else self.result_of(compute)
            operands = [
                bool_ if i in self.masks else compute if i < self.arity else compute.wide
                for i in range(len(self.names))
            ]  # parameters keep their precision beside 16-bit floats
            codes, inside = tuple(d.code for d in operands), tuple(d.wide.code for d in operands)
            body = self.body
            if self.short is not None and compute.code in self.short_types:
                body = _rounding(self.short, compute.code)
            made = tuple(r.code or r.wide.code for r in results)
            call = backend.pointwise(self.name, body, codes, made, inside)
            found = self.variants[key] = (call, results, compute)
            if self.outputs == 1 and compute is common:
                if backend is cpu:
                    self.fast[common] = (call, result)
                elif self.arity == len(self.names) and not self.masks:
                    self.fast_cuda[common] = (call, result)
        return found

    def common(self, args: tuple[Any, ...]) -> dtype:
        """The promoted dtype of the operands; numbers and 0-d tensors only raise the category."""
        best: dtype | None = None
        zero: dtype | None = None
        number: dtype | None = None
        for i, a in enumerate(args[: self.arity]):
            if i in self.masks:
                continue
            if isinstance(a, Tensor):
                if a._array.ndim:
                    best = a.dtype if best is None else promote_types(best, a.dtype)
                else:
                    zero = a.dtype if zero is None else promote_types(zero, a.dtype)
            else:
                d = scalar_dtype(a)
                number = d if number is None else promote_types(number, d)
        if getattr(self.rule, "each", False):
            for a in args[: self.arity]:
                if a is True or a is False or (isinstance(a, Tensor) and a.dtype is bool_):
                    self.rule(self.name, bool_)
        return combine(best, zero, number)

    def for_number(self, args: Sequence[Any]) -> Pointwise:
        """The form that keeps a number's precision beside a 16-bit float, if there is one; else this."""
        if self.wide_number is None or isinstance(args[1], (Tensor, complex)) or not isinstance(args[0], Tensor):
            return self
        d = args[0].dtype
        return self.wide_number if d.wide is not d else self

    def compute(self, args: tuple[Any, ...], k: int) -> Any:
        """The result without history, on whatever device the operands are."""
        made = None if k & META else self.compute_alike(args, k)
        if made is not None:
            return made
        common = self.common(args)
        if k & META:
            compute, result = self.rule(self.name, common)
            results = (result,) if self.result_of is None else self.result_of(compute)
            from ..._backend.meta import empty_meta  # meta tensors are rare

            arrays = [a._array for a in args if isinstance(a, Tensor)]
            shape = broadcast_shapes(*[a.shape for a in arrays])
            strides = arrangement(arrays, self.rows)[1]
            outs = tuple([wrap(empty_meta(shape, r, strides), r, META) for r in results])
            return outs[0] if self.outputs == 1 else outs
        backend = backend_of(k)
        call, results, compute = self.variant(backend, common)
        arrays = operand_arrays(self, args, compute)
        try:
            made = self.run(backend, call, arrays, results)
        except (ValueError, MemoryError) as error:
            raise memory_problem(error) or broadcast_error(args) from error
        device = k & CUDA
        if self.outputs == 1:
            if results[0] is complex32:
                made = cast_array(made, complex32)
            return wrap(made, results[0], device)
        return tuple(wrap(_asarray(r) if not device else r, d, device) for r, d in zip(made, results))

    def compute_alike(self, args: tuple[Any, ...], k: int) -> Tensor | None:
        """The result for tensors of one dtype for which there is a kernel; None for other operands."""
        first = args[0]
        found = (self.fast_cuda if k & CUDA else self.fast).get(first.dtype) if isinstance(first, Tensor) else None
        if found is None or self.masks:
            return None
        arrays = []
        for a in args:
            if not isinstance(a, Tensor) or a.dtype is not first.dtype or (k & CUDA and not a._k & CUDA):
                return None
            arrays.append(a._array)
        try:
            return wrap(self.run(backend_of(k), found[0], arrays, found[1:]), found[1], k & CUDA)
        except (ValueError, MemoryError) as error:
            raise memory_problem(error) or broadcast_error(args) from error

    def run(self, backend: Any, call: Any, arrays: list[Any], results: tuple[dtype, ...]) -> Any:
        if backend is not cpu:
            out = None
            if self.outputs == 1 and (self.rows or local.destination is not None):
                shape = np.broadcast_shapes(*[a.shape for a in arrays])
                out = offered(shape, results[0].numpy)
                if out is None and self.rows:
                    out = backend.empty(shape, results[0].numpy)
            return call(*arrays) if out is None else call(*arrays, out=out)
        if self.outputs == 1 and _is_much(arrays):
            return self.large(call, arrays, results[0] if results[0].code else results[0].wide)
        if self.rows and self.outputs == 1 and allocation.watcher is not None:
            out = empty(
                _common_shape(*[a.shape for a in arrays]), (results[0] if results[0].code else results[0].wide).numpy
            )
            call(*arrays, out)
            return out
        made = arranged(call, arrays, [(r if r.code else r.wide).numpy for r in results], self.rows)
        if self.outputs == 1 and made.__class__ is not _ndarray:
            made = _asarray(made)
        return made

    def large(self, call: Any, arrays: list[Any], result: dtype) -> Any:
        first = arrays[0]
        shape = first.shape
        for a in arrays:
            if a.shape != shape:
                shape = _common_shape(*[a.shape for a in arrays])
                break
        out = offered(shape, result.numpy)
        if out is not None:
            return cpu.into(call, arrays, out)
        if all([a.flags.c_contiguous for a in arrays]):
            out = empty(shape, result.numpy)
        else:
            out = empty_strided(shape, result.numpy, arrangement(arrays, self.rows)[1])
        return cpu.into(call, arrays, out)

    # -- history -------------------------------------------------------------------------------

    def _save_plan(self, mask: int) -> tuple[bool, ...]:
        """Which inputs (and, last, the result) must be kept when the inputs in `mask` need a gradient."""
        used: set[int] = set()
        for i in range(self.arity):
            derivative = self.grads[i]
            if mask >> i & 1 and derivative is not None:
                used.update(derivative.uses)
        return tuple(i in used for i in range(len(self.names) + 1))

    def record(self, args: tuple[Any, ...], out: Any, traced: bool = False) -> None:
        """Attaches a node to the result(s)."""
        outs = (out,) if self.outputs == 1 else out
        if not self.differentiable or outs[0].dtype.category < FLOATING:
            return
        mask, edges, shapes = 0, [], False
        first = outs[0]
        shape, d = first._array.shape, first.dtype
        for i, a in enumerate(args[: self.arity]):
            edge = None
            if isinstance(a, Tensor) and a._k & GRAD:
                if a._array.shape != shape or a.dtype is not d:  # its gradient is not like the result's
                    shapes = True
                mask |= 1 << i
                edge = a._edge or (a, 0)
            edges.append(edge)
        if not mask:
            return
        node = Node(self, tuple(edges))
        plan = self._save_plan(mask) if self.save_plans is None else self.save_plans[mask]
        for number, t in enumerate(outs):
            if t.dtype.category >= FLOATING:
                t._edge = (node, number)
                t._k |= GRAD
        save(node, args, plan, first)
        if shapes:
            node.info = tuple([(a._array.shape, a.dtype) if isinstance(a, Tensor) else None for a in args])
        if self.outputs > 1:
            node.outputs = tuple((t._array.shape, t.dtype) for t in outs)
        if traced:
            trace(node)

    def backward(self, node: Node, g: Any, create_graph: bool) -> Sequence[Any]:
        """The gradients of the inputs."""
        if node.info is None and not create_graph and not self.stepwise and self.outputs == 1:
            edges, derivatives = node.edges, self.derivatives
            if len(edges) == 1:
                return (derivatives[0].apply(node, g),)
            return [None if edge is None else d.apply(node, g) for edge, d in zip(edges, derivatives)]
        if self.outputs > 1:
            g = g[0]  # only the first result of such ops is differentiable
            if g is None:
                return [None] * len(node.edges)
        formulas = create_graph or (self.stepwise and g.dtype.itemsize == 2)
        info = node.info
        results: list[Any] = []
        for i, edge in enumerate(node.edges):
            if edge is None:
                results.append(None)
                continue
            derivative = self.derivatives[i]
            if formulas and not derivative.identity:  # parameters stay numbers
                saved = [(j, fetch(node, j)) for j in derivative.uses]
                r = derivative.formula(ops, g, *[s if j >= self.arity else as_tensor(s, g) for j, s in saved])
                if create_graph and local.grad and not r._k & GRAD:
                    r = constant_in(r, [s for _, s in saved if isinstance(s, Tensor) and s._k & GRAD])
                if self.second_name is not None and r._edge is not None:
                    r._edge[0].label = self.second_name
                if (
                    info is None and r.dtype is not g.dtype
                ):  # a formula may take the logarithm of integers, and the like
                    r = ops.fit_gradient(r, r.shape, g.dtype)
            else:
                r = derivative.apply(node, g)
            results.append(r if info is None else ops.fit_gradient(r, *info[i]))
        return results


def _naming(record: Callable[..., None], names: dict[int, str]) -> Callable[..., None]:
    """`record` of an operation whose node goes by another name if an operand is a number."""

    def named(args: tuple[Any, ...], out: Any, traced: bool = False) -> None:
        record(args, out, traced)
        for i, name in names.items():
            if not isinstance(args[i], Tensor):
                relabel(out, name)

    return named


def _rounding(short: Callable[..., Any], code: str) -> Callable[..., Any]:
    return lambda m, *operands: short(m, lambda x: m.rounded(x, code), *operands)
