"""Tensors that say what they are (images, masks, boxes), so that transforms treat each as it should be treated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any

from ..._interception.overrides import DisableTorchFunctionSubclass
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._images import is_pil
from ..transforms._conversion import pil_to_tensor

__all__ = ["BoundingBoxFormat", "BoundingBoxes", "Image", "Mask", "TVTensor", "Video", "set_return_type", "wrap"]

# What these give stays what it was; every other operation gives an ordinary tensor.
_KEEPING = ("clone", "to", "detach", "requires_grad_", "pin_memory")
_keeps_all = False


class TVTensor(Tensor):
    """Base of the tensors that say what they are."""

    @classmethod
    def _plain(cls, data: Any, dtype: Any, device: Any, requires_grad: bool | None) -> Tensor:
        if requires_grad is None:
            requires_grad = data.requires_grad if isinstance(data, Tensor) else False
        if is_pil(data):
            data = pil_to_tensor(data)
        return ops.as_tensor(data, dtype=dtype, device=device).requires_grad_(requires_grad)

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> TVTensor:
        return cls._checked(cls._plain(data, dtype, device, requires_grad)).as_subclass(cls)

    @classmethod
    def _checked(cls, tensor: Tensor) -> Tensor:
        return tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        with DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
            if name == "as_subclass" or not isinstance(out, Tensor) or (args and out is args[0] and name.endswith("_")):
                return out
            if (_keeps_all or name in _KEEPING) and isinstance(args[0], cls):
                return wrap(out, like=args[0])
            return out.as_subclass(Tensor) if isinstance(out, cls) else out

    def _like(self, tensor: Tensor) -> TVTensor:
        return tensor.as_subclass(type(self))

    def _describe(self) -> str:
        return ""

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = repr(self.as_subclass(Tensor)).removeprefix("tensor(").removesuffix(")")
        name = type(self).__name__
        indent = len(name) - len("tensor")
        lines = text.split("\n")
        moved = [line[-indent:] if indent < 0 else " " * indent + line for line in lines[1:]]
        return f"{name}({chr(10).join([lines[0], *moved])}, {self._describe()})"

    def __deepcopy__(self, memo: dict[int, Any]) -> TVTensor:
        return self.detach().clone().requires_grad_(self.requires_grad)  # type: ignore[return-value]


class Image(TVTensor):
    """An image (…, C, H, W); one of two dimensions gets a channel."""

    @classmethod
    def _checked(cls, tensor: Tensor) -> Tensor:
        if tensor.ndim < 2:
            raise ValueError(f"Expected a tensor of at least two dimensions, got {tensor.ndim}")
        return tensor.unsqueeze(0) if tensor.ndim == 2 else tensor


class Video(TVTensor):
    """A sequence of images (…, T, C, H, W)."""

    @classmethod
    def _checked(cls, tensor: Tensor) -> Tensor:
        if tensor.ndim < 4:
            raise ValueError(f"Expected a tensor of at least four dimensions, got {tensor.ndim}")
        return tensor


class Mask(TVTensor):
    """Masks (…, H, W) of segmentation or detection."""


class BoundingBoxFormat(Enum):
    """What the four numbers of a box are: two corners, corner and size, or centre and size."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


class BoundingBoxes(TVTensor):
    """Boxes (N, 4) on an image of a height and a width.

    >>> BoundingBoxes([[0, 0, 2, 3]], format="XYXY", canvas_size=(8, 8)).canvas_size
    (8, 8)
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: str | None

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: Sequence[int],
        clamping_mode: str | None = "soft",
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> BoundingBoxes:
        kind = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
        if clamping_mode not in ("soft", "hard", None):
            raise ValueError(f"clamping_mode must be soft, hard or None, got {clamping_mode}.")
        tensor = cls._plain(data, dtype, device, requires_grad)
        if tensor.ndim == 1:
            tensor = tensor.unsqueeze(0)
        elif tensor.ndim != 2:
            raise ValueError(f"Expected a 1D or 2D tensor, got {tensor.ndim}D")
        return cls._made(tensor, kind, canvas_size, clamping_mode)

    @classmethod
    def _made(cls, tensor: Tensor, format: BoundingBoxFormat, canvas_size: Any, clamping_mode: Any) -> BoundingBoxes:
        boxes = tensor.as_subclass(cls)
        boxes.format, boxes.canvas_size, boxes.clamping_mode = format, tuple(canvas_size), clamping_mode
        return boxes

    def _like(self, tensor: Tensor) -> BoundingBoxes:
        return self._made(tensor, self.format, self.canvas_size, self.clamping_mode)

    def _describe(self) -> str:
        return f"format={self.format}, canvas_size={self.canvas_size}, clamping_mode={self.clamping_mode}"


def wrap(wrappee: Tensor, *, like: TVTensor, **kwargs: Any) -> TVTensor:
    """An ordinary tensor as the same kind of thing as `like`; keywords change what is said of boxes."""
    made = like._like(wrappee)
    for name, value in kwargs.items():
        setattr(made, name, value)
    return made


class set_return_type(AbstractContextManager[None]):
    """Whether operations on these tensors give their own kind ("TVTensor") or ordinary tensors ("Tensor")."""

    def __init__(self, return_type: str) -> None:
        global _keeps_all
        self.before = _keeps_all
        _keeps_all = {"tensor": False, "tvtensor": True}[return_type.lower()]

    def __exit__(self, *details: object) -> None:
        global _keeps_all
        _keeps_all = self.before
