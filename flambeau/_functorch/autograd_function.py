"""Functions inside transforms: what PyTorch's private module has of them."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..func.custom_functions import VmapInfo, fit_gradient

__all__ = ["CtxWithSavedTensors", "VmapInfo", "WrappedCtx", "reductify_leaf"]


class WrappedCtx:
    """A Function's ctx behind another: attributes that are not its own are read and set there."""

    _pt_reserved_attrs: tuple[str, ...] = ("_pt_reserved_attrs", "_pt_inner_ctx")

    def __init__(self, ctx: Any):
        if not isinstance(ctx, WrappedCtx):
            for name in type(self)._pt_reserved_attrs:
                if hasattr(ctx, name):
                    raise RuntimeError(
                        f"name collision: ctx.{name} is taken; rename the attribute that your Function sets on its ctx"
                    )
        self._pt_inner_ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pt_inner_ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self)._pt_reserved_attrs:
            self.__dict__[name] = value
        else:
            setattr(self._pt_inner_ctx, name, value)


class CtxWithSavedTensors(WrappedCtx):
    """A ctx with other saved tensors."""

    _pt_reserved_attrs = ("_pt_new_saved_tensors", *WrappedCtx._pt_reserved_attrs)

    def __init__(self, ctx: Any, new_saved_tensors: Any):
        super().__init__(ctx)
        self._pt_new_saved_tensors = new_saved_tensors

    @property
    def saved_tensors(self) -> Any:
        return self._pt_new_saved_tensors


def reductify_leaf(
    grad_input: Tensor | None, grad_input_bdim: int | None, input_bdim: int | None, batch_size: int,
    target_shape_without_bdim_to_reduce_to: Any = None,
) -> Tensor | None:  # fmt: skip
    """A gradient with its batch where the input has it: summed over the samples if the input has none."""
    if grad_input is None:
        return None
    return fit_gradient(grad_input, grad_input_bdim, input_bdim, batch_size, target_shape_without_bdim_to_reduce_to)
