"""Optimizers whose parameters change element by element: one formula, one native call for a group.

Where the native call does not suit (other dtypes and layouts, GPUs, recorded or traced steps), the same formula is
read for one parameter at a time: as a backend's pointwise kernel if it can be, else with tensors.
"""

from __future__ import annotations

import inspect
import math
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtypes import COMPLEX, FLOATING
from .._core.state import CAPTURE, CUDA, DISPATCH, FUNCTION_MODE, GRAD, SPARSE, local, modes
from .._dispatch import backend_of
from .._kernel.training.optim import Formula
from .._kernel.training.optim_step import find_places
from .._ops.records.writable import check_writable
from .._ops.registry import ops
from .._tensor import Meta, Storage, Tensor, bump
from . import _gpu as gpu_many
from .optimizer import Optimizer, _device_dtype_check_for_fused, _get_scalar_dtype, _to_scalar


def _numbers(given: Any) -> list[float]:
    """Settings as floats; texts are none."""
    return array("d", given).tolist()


class _Numbers:
    """Formulas read with Python floats."""

    sqrt, pow = staticmethod(math.sqrt), staticmethod(math.pow)
    maximum, minimum = staticmethod(max), staticmethod(min)

    @staticmethod
    def where(condition: bool, a: Any, b: Any) -> Any:
        return a if condition else b


class _Tensors:
    """Formulas read with tensors, some of whose operands may be numbers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ops, name)

    def pow(self, a: Any, b: Any) -> Any:
        return a**b

    def maximum(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Tensor):
            a, b = b, a
        return ops.maximum(a, b) if isinstance(b, Tensor) else ops.clamp(a, min=b)

    def minimum(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Tensor):
            a, b = b, a
        return ops.minimum(a, b) if isinstance(b, Tensor) else ops.clamp(a, max=b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        if isinstance(condition, Tensor):
            return ops.where(condition, a, b)
        return a if condition else b


_NUMBERS, _TENSORS = _Numbers(), _Tensors()
_PLACES = find_places(Tensor, "_array", "_autograd_meta", Meta, "grad")
_WATCHED = CAPTURE | FUNCTION_MODE | DISPATCH  # somebody wants to see every operation


def zeros_like(p: Tensor) -> Tensor:
    """A state of zeros that lies in memory as the parameter does."""
    return ops.zeros_like(p.detach())


def scalar(value: Any, p: Tensor, group: dict[str, Any]) -> Tensor:
    """A 0-d state: on the CPU, unless the step is to be captured on the parameter's device."""
    device = p.device if group.get("capturable") else "cpu"
    return ops.full((), float(value), dtype=_get_scalar_dtype(), device=device)


def settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """The settings among the arguments of an optimizer, by name: `locals()`, before there are others."""
    return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}


def decayed(p: Any, g: Any, maximize: Any, decays: Any, decay: Any, decoupled: Any = False) -> tuple[Any, Any]:
    """Parameter and gradient with weight decay, which acts on the one or on the other, and towards a maximum if asked."""
    g = -g if maximize else g
    if decays and decoupled:
        return p * decay, g
    return p, g + p * decay if decays else g


def check_tensor_lr(lr: Any) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_at_least(lr: Any, **settings: Any) -> None:
    """Learning rate and further settings must not be negative."""
    check_tensor_lr(lr)
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    for name, value in settings.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: Any) -> None:
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_forms(foreach: Any, fused: Any, differentiable: bool) -> None:
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _count_writes(params: list[Tensor]) -> None:
    for p in params:
        storage = p._storage
        if storage is None:
            storage = p._storage = Storage(p._array)
        storage.version += 1


class Elementwise(Optimizer):
    """Base of optimizers that are given by a `Formula`."""

    _formula: Formula
    _scalars: tuple[str, ...] = ("step",)  # 0-d states
    _added: dict[str, Any] = {}  # what settings are in old checkpoints that do not have them, if not as in `_recent`
    _sparse_hint = ""
    _fused_checked = False

    def _settings(self, group: dict[str, Any]) -> tuple[Any, tuple[str, ...], tuple[Any, ...]]:
        """(options of the formula, names of the states that are like the parameter, numbers of the group)."""
        raise NotImplementedError

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Fills in the state of a parameter before its first step: zeros, unless a subclass says otherwise."""
        if self._scalars:
            state["step"] = scalar(0, p, group)
            state.update((name, zeros_like(p)) for name in self._settings(group)[1])

    @classmethod
    def _recent(cls) -> dict[str, Any]:
        """Settings that old checkpoints do not have: those that are off unless somebody asks for them."""
        home = next(c for c in cls.__mro__ if "_formula" in vars(c))
        given = inspect.signature(home.__init__).parameters.values()
        return {p.name: p.default for p in given if p.default is None or p.default is False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in {**self._recent(), **self._added}.items():
                group.setdefault(name, value)
            for p in group["params"]:
                kept: Any = self.state.get(p)
                for name in self._scalars if kept else ():
                    if name in kept and not isinstance(kept[name], Tensor):
                        kept[name] = scalar(kept[name], p, group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step; `closure`, if given, computes the loss and gradients first, and its result is returned."""
        outer, loss = local.grad, None
        try:
            if closure is not None:
                local.grad = True
                loss = closure()
            local.grad = self.defaults["differentiable"]
            for group in self.param_groups:
                params = [
                    p for p in group["params"] if (meta := p._autograd_meta) is not None and meta.grad is not None
                ]
                if params and (not group.get("fused") or self._prepare_fused(group, params)):
                    self._step_group(group, params)
        finally:
            local.grad = outer
        return loss

    step.closure_first = True  # type: ignore[attr-defined]

    def _prepare_fused(self, group: dict[str, Any], params: list[Tensor]) -> bool:
        """What `fused=True` adds: checks of the parameters, and the scale of gradients that a scaler gives with what it
        found. False if gradients overflowed, so that no step is made."""
        if not self._fused_checked:
            for p in params:
                _device_dtype_check_for_fused(p)
            self._fused_checked = True
        scale, overflow = self.__dict__.get("grad_scale"), self.__dict__.get("found_inf")
        if overflow is not None and overflow:
            self._start_missing(group, params)
            return False
        if scale is not None:
            for p in params:
                p.grad.div_(scale.to(p.dtype))
        return True

    def _step_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        self._change(group, params, *self._settings(group))

    def _change(self, group: dict[str, Any], params: list[Tensor], options: Any, names: Any, given: Any) -> None:
        """Makes the step of parameters that have gradients."""
        if modes.on & _WATCHED or group["differentiable"] or group.get("capturable"):
            for p in params:
                self._change_one(group, p, options, names, given)
        elif not self._change_natively(group, params, options, names, given):
            self._change_apart(group, params, options, names, given)

    def _change_natively(self, group: Any, params: list[Tensor], options: Any, names: Any, given: Any) -> bool:
        native = self._formula.native(
            _PLACES, options, params[0].dtype.code, len(names), len(self._scalars), len(given)
        )
        if native is None or params[0]._k & CUDA:
            return False
        needed = names + self._scalars
        if not native(params, self.state, needed, given):
            if not needed or not self._start_missing(group, params) or not native(params, self.state, needed, given):
                return False
        _count_writes(params)
        return True

    def _start_missing(self, group: Any, params: list[Tensor]) -> bool:
        """Makes the states of parameters that have none; False if all have some."""
        fresh = [p for p in params if not self.state[p]]
        for p in fresh:
            self._check_dense(p)
            self._start(p, self.state[p], group)
        return bool(fresh)

    def _states(self, group: Any, params: list[Tensor], names: Any) -> list[list[Any]]:
        """The arrays of states and 0-d states, one list for each name."""
        if not names and not self._scalars:
            return []
        self._start_missing(group, params)
        states = [self.state[p] for p in params]
        return [[s[name]._array for s in states] for name in (*names, *self._scalars)]

    def _change_on_gpu(self, group: Any, params: list[Tensor], options: Any, names: Any, given: Any) -> bool:
        """The step of all parameters as one launch; False if it does not suit them."""
        if any(p._autograd_meta.grad._k & ~(GRAD | CUDA) for p in params):  # type: ignore[union-attr]
            return False
        states = self._states(group, params, names)
        columns = [[p._array for p in params], [p._autograd_meta.grad._array for p in params], *states[: len(names)]]  # type: ignore[union-attr]
        scalars = list(zip(*states[len(names) :])) if self._scalars else [()] * len(params)
        rows = list(zip(*columns))
        if not gpu_many.suits(rows):
            return False
        settings, made, numbers = _numbers(given), {}, []
        for own in scalars:
            values = tuple(map(float, own))
            if values not in made:  # most parameters have made as many steps
                made[values] = self._formula.numbers(_NUMBERS, values, settings, options)
            changed, shared = made[values]
            numbers.append(shared)
            for held, new in zip(own, changed):
                held.fill(new)
        gpu_many.run(self._formula, options, params[0].dtype.code, rows, numbers)
        _count_writes(params)
        return True

    def _change_apart(self, group: Any, params: list[Tensor], *how: Any) -> None:
        """A group that one call does not suit: by dtype, then one by one."""
        if params[0]._k & CUDA and self._change_on_gpu(group, params, *how):
            return
        if len(params) == 1:
            self._change_one(group, params[0], *how)
            return
        kinds: dict[Any, list[Tensor]] = {}
        for p in params:
            kinds.setdefault(p.dtype, []).append(p)
        for same in kinds.values() if len(kinds) > 1 else [[p] for p in params]:
            if not self._change_natively(group, same, *how):
                self._change_apart(group, same, *how)

    # -- one parameter ---------------------------------------------------------------------------------------------

    def _change_one(self, group: Any, p: Tensor, options: Any, names: Any, given: Any) -> None:
        self._check_dense(p)
        g, state = p._autograd_meta.grad, self.state[p] if names or self._scalars else {}  # type: ignore[union-attr]
        if not state:
            self._start(p, state, group)
        tracked = group["differentiable"]
        scalars = [state[name] for name in self._scalars]
        if tracked or group.get("capturable"):
            if not tracked and not p._k & CUDA:
                raise AssertionError(
                    "If capturable=True, params and state_steps must be on supported devices: ['cuda']."
                )
            old = [s.clone() for s in scalars]  # some of the numbers are the old ones
            changed, numbers = self._formula.numbers(_TENSORS, old, [_to_scalar(x) for x in given], options)
            for s, new in zip(scalars, changed):
                s.copy_(new)
        else:
            changed, numbers = self._formula.numbers(_NUMBERS, _numbers(scalars), _numbers(given), options)
            for s, new in zip(scalars, changed):
                s.fill_(new)
        tensors = [p, g, *[state[name] for name in names]]
        if p.dtype.category == COMPLEX:
            tensors = [ops.view_as_real(t) for t in tensors]
        if modes.on & _WATCHED or tracked or not self._change_arrays(tensors, options, numbers):
            targets = [tensors[0], *tensors[2:]]
            if tracked:  # what the formula remembers of the old values must outlive them
                tensors = [t if t is g else t.clone() for t in tensors]
            new, changed = self._formula.update(_TENSORS, tensors[0], tensors[1], tensors[2:], numbers, options)
            for t, value in zip(targets, [new, *changed], strict=True):
                t.copy_(value)

    def _change_arrays(self, tensors: list[Tensor], options: Any, numbers: Any) -> bool:
        """The step of one parameter as one pointwise kernel of its backend; False if it does not suit."""
        p, states, k = tensors[0], tensors[2:], 0
        for t in tensors:
            if t.dtype is not p.dtype or t._array.shape != p._array.shape:
                return False
            k |= t._k
        if k & ~(GRAD | CUDA) or p.dtype.category != FLOATING or p.dtype.itemsize < 2:
            return False
        if any(isinstance(x, Tensor) for x in numbers):
            return False
        targets = [p, *states]
        for t in targets:
            check_writable(t)
        call = self._formula.pointwise(backend_of(k), options, p.dtype.code, len(states), len(numbers))
        call(*[t._array for t in tensors], *[np.array(x, np.float64) for x in numbers], *[t._array for t in targets])
        for t in targets:
            bump(t)
        return True

    def _check_dense(self, p: Tensor) -> None:
        if p._autograd_meta.grad._k & SPARSE:  # type: ignore[union-attr]
            raise RuntimeError(f"{self._formula.name} does not support sparse gradients{self._sparse_hint}")
