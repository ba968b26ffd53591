"""Definitions of operators and the way of a call: overrides, batches, gradients, devices."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .._autograd.functions import Function
from .._core.state import BATCHED, CUDA, DISPATCH, GRAD, META, local, modes
from .._interception.torch_dispatch import take_operator
from .._ops import registry
from .._tensor import Tensor, bump
from ..func.batched import Batched, flat_tensors, make_batched, unwrap
from ..func.custom_functions import VmapInfo
from ..func.fallback import each_sample
from .schema import FunctionSchema

operators: dict[str, Operator] = {}  # "ns::name" or "ns::name.overload" -> definition


class _BelowAutograd:
    """Inside, operators go straight to the implementation for their device."""

    def __enter__(self) -> None:
        self._outer, _below.active = _below.active, True

    def __exit__(self, *error: Any) -> None:
        _below.active = self._outer


class _Below(threading.local):
    active = False


_below = _Below()


class Operator:
    """One overload of an operator: its schema, and what runs for which tensors."""

    def __init__(self, schema: FunctionSchema, tags: Any = ()):
        self.schema, self.tags = schema, list(tags) if isinstance(tags, (list, tuple)) else [tags]
        self.kernels: dict[str, Callable[..., Any]] = {}  # device type, or "" for all of them
        self.composite: Callable[..., Any] | None = None  # made of other operations, which know their derivatives
        self.own_autograd: Callable[..., Any] | None = None  # sees to derivatives itself
        self.fake: Callable[..., Any] | None = None
        self.batch: Callable[..., Any] | None = None
        self.cast: dict[str, Any] = {}  # device type -> dtype under autocast
        self.autocast: dict[str, Callable[..., Any]] = {}  # device type -> what runs instead under autocast
        self.dispatch: dict[type, Callable[..., Any]] = {}  # mode or class -> what runs instead of __torch_dispatch__
        self.checked = False  # whether results must not share memory with arguments, and derivatives are declared
        self.disabled: set[str] = set()
        self.effect: Any = None  # what calls do besides giving results
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self._function: Any = None
        self.name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self._public: Any = None

    @property
    def public(self) -> Any:
        """The overload of `torch.ops` that stands for this operator: what classes that override are given."""
        if self._public is None:
            self._public = make_public(self)
        return self._public

    @property
    def dotted(self) -> str:
        return self.schema.name.replace("::", ".") + "." + (self.schema.overload_name or "default")

    def __call__(self, *args: Any, **named: Any) -> Any:
        if modes.overrides:
            taken = registry.overridden(self.public, args, named)
            if taken is not NotImplemented:
                return taken
        args, named = self.schema.bind(args, named)
        k = modes.on
        tensors = flat_tensors(args if not named else (*args, *named.values()))
        for t in tensors:
            k |= t._k
        if k & BATCHED:
            return self._batched(args, named)
        if self.autocast and local.autocast is not None:
            kind = "cuda" if k & CUDA else "cpu"
            if kind in self.autocast and local.autocast.on[kind]:
                return self.autocast[kind](*args, **named)
        if self.cast and local.autocast is not None:
            args = self._as_cast(args, tensors)
            tensors = flat_tensors(args)
        if k & GRAD and local.grad and not _below.active:
            if self.own_autograd is not None:
                return self.own_autograd(*args, **named)
            if self.checked:
                return self._with_history(args, named)
        return self._run(args, named, k, tensors)

    # -- one device -----------------------------------------------------------------------------------------------

    def _run(self, args: tuple[Any, ...], named: dict[str, Any], k: int, tensors: list[Tensor]) -> Any:
        if k & DISPATCH and self.composite is None:
            taken = take_operator(self.public, args, named, tensors, self.dispatch)
            if taken is not NotImplemented:
                return taken
        kernel = self._kernel("meta" if k & META else "cuda" if k & CUDA else "cpu")
        if not self.checked:
            return kernel(*args, **named)
        outer, local.grad = local.grad, False
        try:
            out = kernel(*args, **named)
        finally:
            local.grad = outer
        for i in self.schema.written:
            for t in flat_tensors((args[i],)):
                bump(t)
        for name in self.schema.written_named:
            for t in flat_tensors((named[name],)):
                bump(t)
        self._check_results(out, tensors)
        return out

    def _kernel(self, kind: str) -> Callable[..., Any]:
        if kind == "meta" and self.fake is not None:
            return self.fake
        if kind == "meta" and self.schema.is_mutable and not self.schema.returns:  # there is nothing to give
            return lambda *args, **named: None
        found = self.kernels.get(kind) if kind not in self.disabled else None
        if found is None and kind != "meta":
            found = self.kernels.get("")
        if found is None:
            found = self.composite
        if found is None:
            if kind == "meta":
                raise NotImplementedError(
                    f"{self.name}: There was no fake impl registered, an implementation for meta tensors; register one with "
                    f"torch.library.register_fake({self.schema.name!r})"
                )
            known = ", ".join(self.kernels) or "no device"
            raise NotImplementedError(
                f"Could not run '{self.name}' with arguments from the '{kind.upper()}' backend: it is implemented for {known}"
            )
        return found

    def _check_results(self, out: Any, tensors: list[Tensor]) -> None:
        """Results must be new memory: derivatives and compiled code count on that."""
        for t in flat_tensors(out if isinstance(out, (tuple, list)) else (out,)):
            if any(t is a or (t._storage is not None and t._storage is a._storage) for a in tensors):
                raise RuntimeError(
                    f"{self.name}: The output of this custom operator must not be an input nor share memory with "
                    "one; return a clone() of it"
                )

    # -- gradients ------------------------------------------------------------------------------------------------

    def _with_history(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self._function is None:
            self._function = _function_of(self)
        # Tensors in lists stand beside each other, so that each has its place in the graph.
        plan = [len(a) if isinstance(a, (list, tuple)) and flat_tensors((a,)) else None for a in args]
        flat = [b for a, n in zip(args, plan) for b in ((a,) if n is None else a)]
        return self._function.apply(plan, named, *flat)

    # -- batches --------------------------------------------------------------------------------------------------

    def _batched(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        level = max(t.level for t in flat_tensors(args) if isinstance(t, Batched))
        if self.batch is None:

            def once(*given: Any) -> Any:
                return self(*given, **named)

            once.name = self.name  # type: ignore[attr-defined]
            return each_sample(level, once, args)
        pairs = [_unwrapped(a, level) for a in args]
        values, dims = [p[0] for p in pairs], tuple(p[1] for p in pairs)
        sizes = [t.shape[d] for t, d in _flat_pairs(values, dims) if d is not None]
        before = local.batches
        randomness = next((r for n, _, r in before if n == level), "error")
        local.batches = tuple(entry for entry in before if entry[0] != level)  # the rule itself is outside of it
        try:
            out, out_dims = self.batch(VmapInfo(sizes[0], randomness), dims, *values, **named)
        finally:
            local.batches = before
        if isinstance(out, (tuple, list)):
            dims_of = out_dims if isinstance(out_dims, (tuple, list)) else [out_dims] * len(out)
            return type(out)(o if d is None else make_batched(o, d, level) for o, d in zip(out, dims_of))
        return out if out_dims is None else make_batched(out, out_dims, level)

    def _as_cast(self, args: tuple[Any, ...], tensors: list[Tensor]) -> tuple[Any, ...]:
        kind = "cuda" if any(t._k & CUDA for t in tensors) else "cpu"
        wanted = self.cast.get(kind)
        if wanted is None:
            return args

        def cast(a: Any) -> Any:
            if isinstance(a, Tensor):
                return a.to(wanted) if a.is_floating_point() and a.dtype.itemsize < 8 else a
            return type(a)(cast(b) for b in a) if isinstance(a, (list, tuple)) else a

        return tuple(cast(a) for a in args)


def _unwrapped(a: Any, level: int) -> tuple[Any, Any]:
    if isinstance(a, (list, tuple)) and flat_tensors((a,)):
        pairs = [unwrap(b, level) for b in a]
        return type(a)(p[0] for p in pairs), [p[1] for p in pairs]
    return unwrap(a, level)


def _flat_pairs(values: list[Any], dims: Any) -> list[tuple[Any, Any]]:
    found = []
    for v, d in zip(values, dims):
        found += list(zip(v, d)) if isinstance(d, list) else [(v, d)]
    return found


def _function_of(op: Operator) -> type[Function]:
    """The autograd function of an operator; it reads the derivative at each call, because it may come later."""

    def restored(plan: list[Any], flat: Any) -> list[Any]:
        flat = iter(flat)
        return [next(flat) if n is None else [next(flat) for _ in range(n)] for n in plan]

    def forward(ctx: Any, plan: list[Any], named: dict[str, Any], *flat: Any) -> Any:
        args = tuple(restored(plan, flat))
        ctx.plan, needs = plan, ctx.needs_input_grad[2:]
        ctx.needs_input_grad = tuple(restored(plan, needs))
        tensors = flat_tensors(args)
        k = modes.on
        for t in tensors:
            k |= t._k
        out = op._run(args, named, k, tensors)
        if op.setup_context is not None:
            if op.schema.kwarg_only:
                op.setup_context(ctx=ctx, inputs=args, keyword_only_inputs=named, output=out)
            else:
                op.setup_context(ctx=ctx, inputs=args, output=out)
        return out

    def backward(ctx: Any, *gradients: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op.dotted} but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        results = op.backward(ctx, *gradients)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(ctx.plan):
            raise RuntimeError(
                f"{op.dotted}: the backward gives {len(results)} gradients for {len(ctx.plan)} inputs; one for each is "
                "needed, None where there is no gradient"
            )
        flat: list[Any] = [None, None]
        for r, n in zip(results, ctx.plan):
            flat += [r] if n is None else ([None] * n if r is None else list(r))
        return tuple(flat)

    name = f"GeneratedBackwardFor_{op.dotted.replace('.', '_')}"
    parts = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "_transformable": True,
        "_opened": True,
    }
    return type(name, (Function,), parts)


make_public: Callable[[Operator], Any] = lambda op: op  # set by the module of `torch.ops`


def define(schema: FunctionSchema, tags: Any = ()) -> Operator:
    """A new operator."""
    op = Operator(schema, tags)
    if op.name in operators:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. "
            f"It is already defined as {operators[op.name].schema}"
        )
    operators[op.name] = op
    return op
