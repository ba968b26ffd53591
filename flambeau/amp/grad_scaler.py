"""`GradScaler`: the loss is multiplied before backward, and gradients divided by the same before the step.

A step with gradients that are infinite or NaN is left out, and the scale falls; after many good steps it rises.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from enum import Enum
from typing import Any

from .._core.dtypes import float16, float32, int32
from .._core.state import CUDA, GRAD, modes
from .._core.steps import python_step
from .._ops.registry import ops
from .._tensor import Tensor, storage_of

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """Where an optimizer stands between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses so that gradients of 16-bit types do not vanish.

    >>> import flambeau as torch
    >>> w = torch.nn.Parameter(torch.ones(2)); optimizer = torch.optim.SGD([w], lr=0.5)
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale((w * 2).sum()).backward(); w.grad
    tensor([16., 16.])
    >>> scaler.step(optimizer); scaler.update(); w.detach()
    tensor([0., 0.])
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        self._device, self._enabled = device, enabled
        if device == "cuda" and enabled:
            from .._backend.placement import cuda_problem  # asks for a GPU

            if cuda_problem() is not None:
                warnings.warn(
                    "torch.cuda.amp.GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2
                )
                self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _lazy_init(self, device: Any) -> None:
        self._scale = ops.full((), self._init_scale, dtype=float32, device=device)
        self._growth_tracker = ops.full((), self._init_growth_tracker, dtype=int32, device=device)

    def _check(self, what: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None; call scaler.scale(loss) before the first {what}"
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """Outputs (a tensor, or tensors in lists and tuples) times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            parts = [self.scale(part) for part in outputs]
            return type(outputs)._make(parts) if hasattr(outputs, "_make") else type(outputs)(parts)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiplies all gradients in place; says for each device whether some element is infinite or NaN."""
        at_once = self._unscale_on_gpu(optimizer, inv_scale, allow_fp16)
        if at_once is not None:
            return at_once
        found: dict[Any, Tensor] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.is_sparse:
                    if grad.dtype is float16:  # sums of equal places may overflow only now
                        p.grad = grad = grad.coalesce()
                    grad = grad._values()
                grad.mul_(inv_scale.to(grad.device) if inv_scale.device != grad.device else inv_scale)
                bad = ops.logical_not(ops.all(ops.isfinite(grad))).to(float32)
                before = found.get(grad.device)
                found[grad.device] = bad if before is None else ops.maximum(before, bad)
        return found or {found_inf.device: found_inf}

    def _unscale_on_gpu(self, optimizer: Any, inv_scale: Tensor, allow_fp16: bool) -> dict[Any, Tensor] | None:
        """The same by one launch for each dtype; None where gradients are not all plain ones on the GPU of the scale."""
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        suited = all([g.__class__ is Tensor and g._k & ~GRAD == CUDA for g in gradients]) and inv_scale._k == CUDA
        from ..optim._gpu import unscale  # optimizers are imported by those who train

        if not gradients or not suited or modes.on or (not allow_fp16 and any(g.dtype is float16 for g in gradients)):
            return None
        found = ops.full((), 0.0, dtype=float32, device=inv_scale.device)
        if not unscale([g._array for g in gradients], inv_scale._array, found._array):
            return None
        for g in gradients:
            storage_of(g).version += 1
        return {inv_scale.device: found}

    @python_step
    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer by the scale, for example to clip them before `step`."""
        if not self._enabled:
            return
        scale = self._check("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        none = ops.full((), 0.0, dtype=float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, none, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer: Any, state: dict[str, Any], *args: Any, **named: Any) -> Any:
        if not sum(found.item() for found in state["found_inf_per_device"].values()):
            return optimizer.step(*args, **named)
        return None

    @python_step
    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            if "grad_scaler" not in inspect.signature(optimizer.step).parameters:
                return self._let_step(optimizer, state, args, kwargs)
            state["stage"] = OptState.STEPPED
            warnings.warn(
                "GradScaler passes itself as grad_scaler to optimizer.step(), which is deprecated: let the optimizer read "
                "its attributes grad_scale and found_inf instead",
                FutureWarning,
                stacklevel=2,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _let_step(self, optimizer: Any, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        """A step of an optimizer that divides by `grad_scale` and looks at `found_inf` itself."""
        scale = self._check("step")
        if state["stage"] is OptState.READY:
            none = ops.full((), 0.0, dtype=float32, device=scale.device)
            one = ops.ones_like(scale)
            state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, none, True)
            optimizer.grad_scale = scale
        else:
            optimizer.grad_scale = None  # the gradients are divided already
        optimizer.found_inf = sum(found.to(scale.device) for found in state["found_inf_per_device"].values())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            state["stage"] = OptState.STEPPED
            del optimizer.grad_scale, optimizer.found_inf

    @python_step
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Sets the scale for the next iteration, from what the steps found or to `new_scale`."""
        if not self._enabled:
            return
        scale = self._check("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                if new_scale.numel() != 1 or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a tensor with one element and requires_grad=False."
                    )
                scale.copy_(new_scale)
            else:
                scale.fill_(new_scale)
        else:
            found = [f for state in self._per_optimizer_states.values() for f in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(f.item() for f in found))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _adapt(self, overflowed: bool) -> None:
        assert self._scale is not None and self._growth_tracker is not None
        if overflowed:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.fill_(0)
            return
        successes = self._growth_tracker.item() + 1
        if successes == self._growth_interval:
            grown = self._scale.item() * self._growth_factor
            if grown < 3.4028235e38:  # an infinite scale would never come down
                self._scale.fill_(grown)
            successes = 0
        self._growth_tracker.fill_(successes)

    # -- settings ---------------------------------------------------------------------------------------------------

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale now; 1 if scaling is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, its settings and the count of good steps; empty if scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker(),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` of another scaler gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        scale = self._check("_check_inf_per_device")
        one = ops.full((), 1.0, dtype=float32, device=scale.device)
        none = ops.full((), 0.0, dtype=float32, device=scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, none, True)
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
                )
            state.update(
                _init_scale=self.get_scale(),
                _init_growth_tracker=self._get_growth_tracker(),
                _scale=None,
                _growth_tracker=None,
            )
        return state
