"""Pointwise records: a body over the domain `m`, read as kernel code for the operands' dtype at first use.

The hot path is here: `unary` and `binary` make the functions behind `torch.exp(x)` and `a + b`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd.node import Node, SavedOutput, sequence
from .._backend.cpu import PARALLEL, cpu
from .._core.dtypes import (
    BOOL, BY_NUMPY, COMPLEX, FLOATING, INTEGER, bool_, complex64, default, dtype, float32, int64, promote_types, scalar_dtype,
)  # fmt: skip
from .._core.sizes import broadcast_shapes
from .._core.state import ANOMALY, CAPTURE, CUDA, GRAD, META, SAVED_HOOKS, local, modes
from .._dispatch import backend_of, special
from .._kernel import vecmath as vecmath  # registers the elementary functions of `m`
from .._tensor import Storage, Tensor, version_of, wrap
from . import registry
from .registry import ops, records

_new = object.__new__
_ndarray = np.ndarray
_asarray = np.asarray

# -- dtype rules: common dtype of the operands -> (dtype the body computes on, dtype of the result) ---------------

_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32",
    "uint64": "UInt64",
}  # fmt: skip


def not_implemented(name: str, d: dtype) -> RuntimeError:
    """PyTorch's error for an op that has no kernel for a dtype (a NotImplementedError, which is a RuntimeError)."""
    return NotImplementedError(f"\"{name}\" not implemented for '{_NAMES.get(d.name, d.name)}'")


class Rule:
    """Which dtypes an op takes and gives. `takes` are categories; integers may be computed as floats."""

    __slots__ = ("excluded", "result", "takes", "to_float")

    def __init__(self, takes: str = "bifc", to_float: bool = False, result: dtype | str | None = None, excluded: Any = ()):
        self.takes = frozenset("bifc".index(t) for t in takes)
        self.to_float, self.result, self.excluded = to_float, result, frozenset(excluded)

    def __call__(self, name: str, common: dtype) -> tuple[dtype, dtype]:
        if common.category not in self.takes or not common.code or common in self.excluded:
            raise not_implemented(name, common)
        compute = default.float if self.to_float and common.category < FLOATING else common
        if self.result is None:
            return compute, compute
        if self.result == "real":
            return compute, compute.to_real()
        return compute, self.result  # type: ignore[return-value]


arithmetic = Rule()
floating = Rule(to_float=True)  # integers become the default float
floating_only = Rule("fc")  # integers are refused
real_floating = Rule("bif", to_float=True)
real_floating_only = Rule("f")
real = Rule("bif")
numeric = Rule("ifc")
real_numeric = Rule("if")
integral = Rule("bi")
comparison = Rule(result=bool_)
ordering = Rule("bif", result=bool_)
absolute = Rule(result="real")


class Derivative:
    """The derivative by one input: which values it uses, its formula, and the kernel made from it."""

    __slots__ = ("formula", "identity", "kernel", "uses")

    def __init__(self, owner: Pointwise, index: int, formula: Callable[..., Any]):
        names = list(inspect.signature(formula).parameters)
        available = {**{n: i for i, n in enumerate(owner.names)}, "out": len(owner.names)}
        self.formula = formula
        self.uses = tuple(available[n] for n in names[2:])
        probe = object()
        self.identity = not self.uses and formula(None, probe) is probe if len(names) == 2 and _is_identity(formula) else False
        params = tuple(n for n in names[2:] if n in owner.params)
        masks = tuple(n for n in names[2:] if n in owner.mask_names)
        self.kernel = None if self.identity else Pointwise(
            f"{owner.name}_backward_{owner.names[index]}", formula, Rule("fc"), params=params, masks=masks, derived=True,
        )  # fmt: skip


def _is_identity(formula: Callable[..., Any]) -> bool:
    try:
        probe = object()
        return formula(None, probe) is probe
    except Exception:
        return False


class Pointwise:
    """One pointwise operation: dtype rule, body, derivatives, and the kernels made so far."""

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
        backward_name: str | None = None,
        result_of: Callable[[dtype], tuple[dtype, ...]] | None = None,
        samples: Any = None,
        numbers: str = "both",
        stepwise: bool = False,
        short: Callable[..., Any] | None = None,
    ):
        self.name, self.body, self.rule, self.outputs, self.result_of = name, body, rule, outputs, result_of
        self.names = list(inspect.signature(body).parameters)[1:]
        self.params, self.mask_names = frozenset(params), frozenset(masks)
        self.masks = frozenset(self.names.index(n) for n in masks)  # operands that stay bool
        self.arity = len(self.names) - len(params)
        if self.params != frozenset(self.names[self.arity :]):
            raise TypeError(f"{name}: parameters must come last, but its arguments are {self.names}")
        self.derived, self.samples = derived, samples
        # whether 16-bit gradients are rounded after each operation of the formula, as PyTorch's are
        self.stepwise = stepwise
        # the body for 16-bit floats where PyTorch rounds in between: short(m, cut, …) with cut(x) to round
        self.short = short
        # the op that takes a number beside a 16-bit float at full precision
        self.wide_number: Pointwise | None = None
        self.numbers = numbers  # which operands may be Python numbers: both, right (all but the first), none
        self.variants: dict[Any, Any] = {}  # (backend, common dtype) -> (callable, result dtype, compute dtype)
        self.fast: dict[dtype, Any] = {}  # CPU: operand dtype -> (callable, result dtype), when no operand is cast
        self.backward_name = backward_name or "".join(p.title() for p in name.split("_")) + "Backward0"
        self.grads: list[Derivative | None] = [None] * len(self.names)
        for key, formula in (grad or {}).items():
            index = self.names.index(key)
            self.grads[index] = Derivative(self, index, formula)
        self.differentiable = grad is not None
        self.save_plans = [self._save_plan(mask) for mask in range(1 << self.arity)] if self.arity <= 4 else None
        if not derived:
            records[name] = self
        self.call = {1: unary, 2: binary}.get(len(self.names), general)(self) if outputs == 1 else general(self)
        self.call.__name__ = self.call.__qualname__ = name

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
                bool_ if i in self.masks else compute if i < self.arity else compute.wide for i in range(len(self.names))
            ]  # parameters keep their precision beside 16-bit floats
            codes, inside = tuple(d.code for d in operands), tuple(d.wide.code for d in operands)
            body = self.body
            if self.short is not None and compute.wide is not compute:
                body = _rounding(self.short, compute.code)
            call = backend.pointwise(self.name, body, codes, tuple(r.code for r in results), inside)
            found = self.variants[key] = (call, results, compute)
            if backend is cpu and self.outputs == 1 and compute is common:
                self.fast[common] = (call, result)
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
        return combine(best, zero, number)

    def compute(self, args: tuple[Any, ...], k: int) -> Any:
        """The result without history, on whatever device the operands are."""
        common = self.common(args)
        if k & META:
            compute, result = self.rule(self.name, common)
            results = (result,) if self.result_of is None else self.result_of(compute)
            shape = broadcast_shapes(*[a._array.shape for a in args if isinstance(a, Tensor)])
            from .._backend.meta import empty_meta  # meta tensors are rare

            outs = tuple(wrap(empty_meta(shape, r, [a._array for a in args if isinstance(a, Tensor)]), r, META) for r in results)
            return outs[0] if self.outputs == 1 else outs
        backend = backend_of(k)
        call, results, compute = self.variant(backend, common)
        arrays = operand_arrays(backend, self, args, compute)
        try:
            made = self.run(backend, call, arrays, results)
        except ValueError as error:
            raise broadcast_error(args) from error
        device = k & CUDA
        if self.outputs == 1:
            return wrap(made, results[0], device)
        return tuple(wrap(_asarray(r) if not device else r, d, device) for r, d in zip(made, results))

    def run(self, backend: Any, call: Any, arrays: list[Any], results: tuple[dtype, ...]) -> Any:
        if backend is not cpu:
            return call(*arrays)
        if self.outputs == 1 and max(a.size for a in arrays) >= PARALLEL:
            return self.large(call, arrays, results[0])
        made = call(*arrays)
        if self.outputs == 1 and made.__class__ is not _ndarray:
            made = _asarray(made)
        return made

    def large(self, call: Any, arrays: list[Any], result: dtype) -> Any:
        first = arrays[0]
        shape = first.shape
        for a in arrays:
            if a.shape != shape:
                shape = np.broadcast_shapes(*[a.shape for a in arrays])
                break
        template = next((a for a in arrays if a.shape == shape), None)
        out = np.empty(shape, result.numpy) if template is None else np.empty_like(template, dtype=result.numpy)
        return cpu.parallel(call, arrays, out)

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
        for i, a in enumerate(args[: self.arity]):
            if isinstance(a, Tensor):
                if a._array.shape != first._array.shape or a.dtype is not first.dtype:
                    shapes = True
                if a._k & GRAD:
                    mask |= 1 << i
                    edges.append(a._edge or (a, 0))
                    continue
            edges.append(None)
        if not mask:
            return
        node = Node(self, tuple(edges))
        plan = self._save_plan(mask) if self.save_plans is None else self.save_plans[mask]
        for number, t in enumerate(outs):
            if t.dtype.category >= FLOATING:
                t._edge = (node, number)
                t._k |= GRAD
        save(node, args, plan, outs[0])
        if shapes:
            node.info = tuple((a._array.shape, a.dtype) if isinstance(a, Tensor) else None for a in args)
        if self.outputs > 1:
            node.outputs = tuple((t._array.shape, t.dtype) for t in outs)
        if traced:
            trace(node)

    def backward(self, node: Node, g: Any, create_graph: bool) -> list[Any]:
        saved = unpack(node)
        results: list[Any] = []
        if self.outputs > 1:
            g = g[0]  # only the first result of such ops is differentiable
            if g is None:
                return [None] * len(node.edges)
        for i, edge in enumerate(node.edges):
            if edge is None:
                results.append(None)
                continue
            derivative = self.grads[i]
            if derivative is None:
                raise RuntimeError(f"derivative for {self.name} by {self.names[i]} is not implemented")
            if derivative.identity:
                r = g
            elif create_graph or (self.stepwise and g.dtype.itemsize == 2):
                r = derivative.formula(ops, g, *[as_tensor(saved[j]) for j in derivative.uses])
            else:
                r = derivative.kernel.call(g, *[saved[j] for j in derivative.uses])  # type: ignore[union-attr]
            if node.info is not None:
                r = ops.fit_gradient(r, *node.info[i])
            results.append(r)
        return results


def combine(best: dtype | None, zero: dtype | None, number: dtype | None) -> dtype:
    """PyTorch's order of precedence: dimensioned tensors, then 0-d tensors, then Python numbers."""
    if best is None:
        best, zero = zero, None
    elif zero is not None and zero.category > best.category:
        best = _raised(best, zero)
    if best is None:
        assert number is not None
        return number
    if number is not None and number.category > best.category:
        return _raised(best, number)
    return best


def _raised(low: dtype, high: dtype) -> dtype:
    """`low` lifted into the category of `high`, which has the lower precedence."""
    if high.category == COMPLEX and low.category == FLOATING:
        return promote_types(low, complex64)
    return promote_types(low, high)


def operand_arrays(backend: Any, op: Pointwise, args: tuple[Any, ...], compute: dtype) -> list[Any]:
    """The operands as arrays of the dtype that the op takes them in; numbers become 0-d arrays."""
    arrays = []
    arity, masks = op.arity, op.masks
    for i, a in enumerate(args):
        wanted = bool_ if i in masks else compute if i < arity else compute.wide
        if isinstance(a, Tensor):
            array = a._array
            if array.dtype != wanted.numpy:
                array = cast_array(array, wanted)
            if backend is not cpu and isinstance(array, _ndarray):
                array = backend.from_numpy(array)
        else:
            array = number_array(a, wanted)
            if backend is not cpu:
                array = backend.from_numpy(array)
        arrays.append(array)
    return arrays


def number_array(value: Any, d: dtype) -> Any:
    """A Python number as a 0-d array; a large integer wraps around."""
    try:
        return np.array(value, d.numpy)
    except OverflowError:
        if d.category == INTEGER:
            bits = 8 * d.itemsize
            value = int(value) & ((1 << bits) - 1)
            return np.array(value - (1 << bits) if d.is_signed and value >> (bits - 1) else value, d.numpy)
        return np.array(np.inf if value > 0 else -np.inf, d.numpy)
    except TypeError:
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None


def as_tensor(value: Any) -> Tensor:
    """A saved operand for a formula read with tensors; numbers become 0-d tensors."""
    if isinstance(value, Tensor):
        return value
    d = scalar_dtype(value)
    return wrap(number_array(value, d), d)


def cast_array(array: Any, d: dtype) -> Any:
    """A copy of an array in another dtype, silently, as PyTorch casts."""
    kind = array.dtype.kind
    if kind == "c" and d.category != COMPLEX:
        array = array.real if d.category != BOOL else array != 0
    if d.category == INTEGER and kind not in "biu":
        with np.errstate(all="ignore"):
            if d.itemsize < 4 or d.name == "uint32":  # through int64, so that values wrap as they do in C
                return array.astype(np.int64).astype(d.numpy)
            return array.astype(d.numpy)
    if array.size > 4096 and (d.wide is not d or kind == "V" or array.dtype.char == "e") and isinstance(array, _ndarray):
        source = BY_NUMPY[array.dtype]
        if source.category == d.category and source.code and d.code:
            return _cast_floats(array, source, d)
    if array.dtype.itemsize > d.itemsize and d.category >= FLOATING:
        with np.errstate(all="ignore"):
            return array.astype(d.numpy)
    return array.astype(d.numpy)


_casts: dict[tuple[dtype, dtype], Any] = {}


def _cast_floats(array: Any, source: dtype, d: dtype) -> Any:
    """Many 16-bit floats from or to others: kernels of our own are faster than NumPy's loops."""
    call = _casts.get((source, d))
    if call is None:
        call = _casts[source, d] = cpu.pointwise("cast", lambda m, x: x, (source.code,), (d.code,), (source.wide.code,))
    made = np.empty_like(array, dtype=d.numpy)
    if array.size >= PARALLEL:
        return cpu.parallel(call, [array], made)
    call(array, out=made)
    return made


def broadcast_error(args: tuple[Any, ...]) -> RuntimeError:
    shapes = [a._array.shape for a in args if isinstance(a, Tensor)]
    if len(shapes) == 2:
        a, b = shapes
        for i in range(1, min(len(a), len(b)) + 1):
            if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
                return RuntimeError(
                    f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) "
                    f"at non-singleton dimension {max(len(a), len(b)) - i}"
                )
    return RuntimeError("The sizes of tensors do not broadcast together: " + ", ".join(str(list(s)) for s in shapes))


# -- saved values ------------------------------------------------------------------------------------------------


def save(node: Node, args: tuple[Any, ...], plan: tuple[bool, ...], out: Tensor) -> None:
    """Keeps what the plan says: inputs as they are, the result without its history."""
    saved = [a if keep else None for a, keep in zip(args, plan)]
    if plan[-1]:
        if out._storage is None:
            out._storage = Storage(out._array)
        saved.append(SavedOutput(out, 0))
    else:
        saved.append(None)
    if modes.on & SAVED_HOOKS and local.saved_hooks:
        saved = [pack(s) for s in saved]
    node.saved = saved
    node.versions = [
        version_of(s) if isinstance(s, Tensor) else s.storage.version if s.__class__ is SavedOutput else 0 for s in saved
    ]


class Packed:
    """A saved tensor in the form that the user's pack hook gave it."""

    __slots__ = ("edge", "k", "number", "unpack", "value")


def pack(s: Any) -> Any:
    if not isinstance(s, (Tensor, SavedOutput)):
        return s
    pack_hook, unpack_hook = local.saved_hooks[-1]
    packed = Packed()
    packed.unpack, packed.k = unpack_hook, 0
    packed.edge = packed.number = None
    if isinstance(s, Tensor):
        packed.k, packed.edge = s._k, s._edge or ((s, 0) if s._k & GRAD else None)
        plain = wrap(s._array, s.dtype, s._k & ~GRAD)
    else:
        packed.k, packed.number = s.k, s.number
        plain = wrap(s.array, s.dtype, s.k & ~GRAD)
    outer, local.grad = local.grad, False
    try:
        packed.value = pack_hook(plain)
    finally:
        local.grad = outer
    return packed


def unpack(node: Node) -> list[Any]:
    """A node's saved values as tensors; an error if one was written to since."""
    saved = node.saved
    out = []
    for s, version in zip(saved, node.versions):  # type: ignore[arg-type]
        if isinstance(s, Tensor):
            storage = s._storage
            if storage is not None and storage.version != version:
                raise _modified(node, s._array, s.dtype, storage.version, version)
        elif s.__class__ is SavedOutput:
            if s.storage.version != version:
                raise _modified(node, s.array, s.dtype, s.storage.version, version)
            s = s.tensor(node)
        elif s.__class__ is Packed:
            s = _unpacked(node, s)
        out.append(s)
    return out


def _unpacked(node: Node, packed: Any) -> Tensor:
    value = packed.unpack(packed.value)
    if not isinstance(value, Tensor):
        raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor")
    t = wrap(value._array, value.dtype, packed.k | value._k & ~GRAD)
    t._edge = (node, packed.number) if packed.number is not None else packed.edge
    return t


def _modified(node: Node, array: Any, d: dtype, now: int, then: int) -> RuntimeError:
    kind = "torch." + ("cuda." if not isinstance(array, _ndarray) else "") + _NAMES.get(d.name, d.name) + "Tensor"
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind} {list(array.shape)}], which is output {0} of {node.name()}, is at version {now}; expected version "
        f"{then} instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
        "with torch.autograd.set_detect_anomaly(True)."
    )


def trace(node: Node) -> None:
    """Remembers the forward line of a node, for anomaly mode."""
    import traceback  # only while looking for an anomaly

    node.__dict__["traceback"] = "".join(traceback.format_stack()[:-4])


# -- calls -------------------------------------------------------------------------------------------------------


def unary(op: Pointwise) -> Callable[..., Any]:
    fast = op.fast
    keeps_input = op.grads[0] is not None and 0 in op.grads[0].uses
    keeps_output = op.grads[0] is not None and 1 in op.grads[0].uses

    def call(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if out is not None:
            return registry.into_out(out, call, (input,), {})
        try:
            k = input._k | modes.on
            function, result = fast[input.dtype]
        except (AttributeError, KeyError):
            return slow(op, (input,))
        if k > 1:
            return special(op, (input,), k)
        array = input._array
        if array.size < PARALLEL:
            made = function(array)
            if made.__class__ is not _ndarray:
                made = _asarray(made)
        else:
            made = op.large(function, [array], result)
        t = _new(Tensor)
        t._array, t.dtype, t._k = made, result, 0
        t._edge = t._meta = t._storage = t._view = None
        if k and local.grad and op.differentiable and result.category >= 2:
            node = _new(Node)
            node.op, node.edges, node.seq = op, (input._edge or (input, 0),), sequence()
            node.info = node.hooks = node.pre_hooks = node.outputs = None
            if keeps_output:
                t._storage = Storage(made)
                t._k = 1
                kept = SavedOutput(t, 0)
            else:
                kept = None
            if result is not input.dtype:
                node.info = ((array.shape, input.dtype),)
            node.saved = [input if keeps_input else None, kept]
            storage = input._storage
            node.versions = (0 if storage is None else storage.version, 0)
            t._k, t._edge = 1, (node, 0)
        return t

    return call


def binary(op: Pointwise) -> Callable[..., Any]:
    fast, plans = op.fast, op.save_plans
    assert plans is not None
    if op.arity < 2:  # the second operand is a parameter
        plans = plans + plans
    numbers: dict[Any, Any] = {}

    def with_number(a: Tensor, number: Any) -> Tensor:
        """tensor ∘ number of the same or a lower category: the number becomes a 0-d operand."""
        d = a.dtype
        entry = numbers.get((d, number.__class__))
        if entry is None:
            if op.numbers == "none" or d.category < FLOATING or d.category == COMPLEX or d.code in ("f16", "bf16") or number.__class__ is complex or d not in fast:
                return slow(op, (a, number))
            entry = numbers[d, number.__class__] = fast[d]
        k = a._k | modes.on
        if k > 1:
            return special(op, (a, number), k)
        function, result = entry
        array = a._array
        try:
            if array.size < PARALLEL:
                made = function(array, number)
                if made.__class__ is not _ndarray:
                    made = _asarray(made)
            else:
                made = op.large(function, [array, number_array(number, d)], result)
        except (ValueError, OverflowError):
            return slow(op, (a, number))
        t = _new(Tensor)
        t._array, t.dtype, t._k = made, result, 0
        t._edge = t._meta = t._storage = t._view = None
        if k and local.grad and op.differentiable:
            op.record((a, number), t)
        return t

    def call(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        if out is not None:
            return registry.into_out(out, call, (input, other), {})
        kind = other.__class__
        a, b = input, other
        if kind is float or kind is int:
            return with_number(a, b) if isinstance(a, Tensor) else slow(op, (a, b))
        try:
            k = a._k | b._k | modes.on
            d = a.dtype
            function, result = fast[d]
        except (AttributeError, KeyError):
            return slow(op, (a, b))
        if d is not b.dtype:
            return slow(op, (a, b))
        if k > 1:
            return special(op, (a, b), k)
        x, y = a._array, b._array
        try:
            if x.size < PARALLEL and y.size < PARALLEL:
                made = function(x, y)
                if made.__class__ is not _ndarray:
                    made = _asarray(made)
            else:
                made = op.large(function, [x, y], result)
        except ValueError as error:
            raise broadcast_error((a, b)) from error
        t = _new(Tensor)
        t._array, t.dtype, t._k = made, result, 0
        t._edge = t._meta = t._storage = t._view = None
        if k and local.grad and op.differentiable and result.category >= 2:
            left, right = a._k & 1, b._k & 1
            node = _new(Node)
            node.op, node.seq = op, sequence()
            node.edges = ((a._edge or (a, 0)) if left else None, (b._edge or (b, 0)) if right else None)
            node.hooks = node.pre_hooks = node.outputs = None
            plan = plans[left + 2 * right]
            if plan[2]:
                t._k, t._edge = 1, (node, 0)
                save(node, (a, b), plan, t)
            else:
                node.saved = [a if plan[0] else None, b if plan[1] else None, None]
                first, second = a._storage, b._storage
                node.versions = (
                    0 if first is None else first.version, 0 if second is None else second.version, 0,
                )  # fmt: skip
            shape = made.shape
            node.info = (
                None if x.shape == shape and y.shape == shape and result is d else ((x.shape, d), (y.shape, d))
            )
            t._k, t._edge = 1, (node, 0)
        return t

    return call


def general(op: Pointwise) -> Callable[..., Any]:
    fast = op.fast if op.outputs == 1 else {}

    def call(*args: Any, out: Any = None) -> Any:
        if out is not None:
            return registry.into_out(out, call, args, {})
        try:
            d = args[0].dtype
            function, result = fast[d]
        except (AttributeError, KeyError, IndexError):
            return slow(op, args)
        k = modes.on
        numbers_fit = d.category == FLOATING and d.itemsize > 2
        arrays = []
        for a in args:
            if isinstance(a, Tensor):
                if a.dtype is not d or a._array.size >= PARALLEL:
                    return slow(op, args)
                k |= a._k
                arrays.append(a._array)
            elif numbers_fit and (a.__class__ is float or a.__class__ is int):
                arrays.append(a)
            else:
                return slow(op, args)
        if k > 1:
            return special(op, args, k)
        try:
            made = function(*arrays)
        except (ValueError, OverflowError):
            return slow(op, args)
        out = wrap(made if made.__class__ is _ndarray else _asarray(made), result)
        if k and local.grad:
            op.record(args, out)
        return out

    return call


def slow(op: Pointwise, args: tuple[Any, ...]) -> Any:
    """Any operands: numbers, mixed dtypes, first use of a dtype."""
    k = modes.on
    tensors = False
    for a in args:
        if isinstance(a, Tensor):
            k |= a._k
            tensors = True
        elif not isinstance(a, (int, float, complex, bool, np.generic)):
            raise TypeError(f"{op.name}(): argument must be Tensor, not {type(a).__name__}")
    if op.numbers != "both":
        for a in args[: 1 if op.numbers == "right" else op.arity]:
            if not isinstance(a, Tensor):
                raise TypeError(f"{op.name}(): argument 'other' must be Tensor, not {type(a).__name__}")
    if not tensors:
        raise TypeError(f"{op.name}(): argument 'input' must be Tensor, not {type(args[0]).__name__}")
    op = for_number(op, args)
    if k > 1:
        return special(op, args, k)
    out = op.compute(args, k)
    if k and local.grad:
        op.record(args, out)
    return out


def for_number(op: Pointwise, args: tuple[Any, ...]) -> Pointwise:
    """The form of an op that keeps a number's precision beside a 16-bit float, if it has one."""
    if op.wide_number is None or isinstance(args[1], (Tensor, complex)) or not isinstance(args[0], Tensor):
        return op
    d = args[0].dtype
    return op.wide_number if d.wide is not d else op


def _rounding(short: Callable[..., Any], code: str) -> Callable[..., Any]:
    return lambda m, *operands: short(m, lambda x: m.rounded(x, code), *operands)


__all__ = [
    "ANOMALY", "CAPTURE", "Pointwise", "Rule", "absolute", "arithmetic", "cast_array", "comparison", "floating",
    "floating_only", "float32", "int64", "integral", "numeric", "operand_arrays", "ordering", "real", "real_floating",
    "real_floating_only", "real_numeric",
]  # fmt: skip
