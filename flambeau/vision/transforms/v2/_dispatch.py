"""Functions that do what is right for each kind of input: one implementation for images, others for masks and boxes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...._tensor import Tensor
from ... import tv_tensors
from ..._images import is_pil
from ...tv_tensors import BoundingBoxes, Image, Mask, TVTensor, Video

Kernel = Callable[..., Any]


def _wrapped(kernel: Kernel) -> Kernel:
    """For images and masks: computed as ordinary tensors."""

    def call(inpt: TVTensor, *args: Any, **kwargs: Any) -> TVTensor:
        return tv_tensors.wrap(kernel(inpt.as_subclass(Tensor), *args, **kwargs), like=inpt)

    return call


def _wrapped_boxes(kernel: Kernel) -> Kernel:
    """For boxes: computed as (corners, canvas) with the numbers in the middle of the computation floating."""

    def call(inpt: BoundingBoxes, *args: Any, **kwargs: Any) -> TVTensor:
        out, canvas = kernel(inpt.as_subclass(Tensor), inpt.format, inpt.canvas_size, *args, **kwargs)
        return tv_tensors.wrap(out, like=inpt, canvas_size=tuple(canvas))

    return call


def functional(
    image: Kernel, name: str | None = None, *, mask: Kernel | None = None, boxes: Kernel | None = None
) -> Any:
    """A function for all kinds of input. `image` also takes ordinary tensors and images of pillow.

    `boxes` gets the boxes, their format and the size of their canvas, and gives boxes and a canvas.
    """

    @functools.wraps(image)
    def call(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        return dispatch(call, inpt, args, kwargs)

    call.__name__ = call.__qualname__ = name or image.__name__
    kernels: dict[type, Kernel] = {Image: _wrapped(image), Video: _wrapped(image)}
    if mask is not None:
        kernels[Mask] = _wrapped(mask)
    if boxes is not None:
        kernels[BoundingBoxes] = _wrapped_boxes(boxes)
    call.image, call.kernels = image, kernels  # type: ignore[attr-defined]
    return call


def dispatch(function: Any, inpt: Any, args: Any, kwargs: Any, pass_through: bool = False) -> Any:
    """Calls the implementation for this input; without one, gives the input back or raises."""
    if isinstance(inpt, TVTensor):
        for kind in type(inpt).__mro__:
            if kind in function.kernels:
                return function.kernels[kind](inpt, *args, **kwargs)
        if pass_through:
            return inpt
    elif isinstance(inpt, Tensor) or is_pil(inpt):
        return function.image(inpt, *args, **kwargs)
    known = ["torch.Tensor", "PIL.Image.Image", *[kind.__name__ for kind in function.kernels]]
    raise TypeError(f"Functional F.{function.__name__} supports inputs of type {known}, but got {type(inpt)} instead.")


def register_kernel(functional: Any, tv_tensor_cls: type) -> Callable[[Kernel], Kernel]:
    """Makes a function the implementation for a kind of tensor of one's own."""
    if not hasattr(functional, "kernels"):
        raise ValueError(f"{functional!r} is not a function of torchvision.transforms.v2.functional")
    if not (isinstance(tv_tensor_cls, type) and issubclass(tv_tensor_cls, TVTensor)):
        raise ValueError(f"Kernels can only be registered for subclasses of TVTensor, but got {tv_tensor_cls}.")

    def register(kernel: Kernel) -> Kernel:
        functional.kernels[tv_tensor_cls] = kernel
        return kernel

    return register
