"""Images of pillow and arrays as tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.dtypes import FLOATING, default, uint8
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._images import is_pil, pillow

_ARRAY_DTYPE = {"I": np.int32, "I;16": np.uint16, "I;16L": np.uint16, "I;16B": np.uint16, "F": np.float32}


def _pixels(pic: Any) -> np.ndarray:
    """The pixels of an image of pillow as (H, W, C)."""
    array = np.array(pic, _ARRAY_DTYPE.get(pic.mode, np.uint8), copy=True)
    if pic.mode == "1":
        array = array * np.uint8(255)
    return array.reshape(pic.size[1], pic.size[0], len(pic.getbands()))


def _channels_first(array: np.ndarray) -> Tensor:
    return ops.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))


def to_tensor(pic: Any) -> Tensor:
    """An image of pillow or an array (H, W, C) as a tensor (C, H, W); values of 8 bits become [0, 1].

    >>> import numpy as np
    >>> to_tensor(np.full((1, 2, 1), 255, dtype=np.uint8))
    tensor([[[1., 1.]]])
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        tensor = _channels_first(pic[:, :, None] if pic.ndim == 2 else pic)
    elif is_pil(pic):
        tensor = _channels_first(_pixels(pic))
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    return tensor.to(default.float).div(255) if tensor.dtype is uint8 else tensor


def pil_to_tensor(pic: Any) -> Tensor:
    """An image of pillow as a tensor (C, H, W) of its own values."""
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    tensor = _channels_first(np.array(pic, copy=True).reshape(pic.size[1], pic.size[0], -1))
    return tensor


_NATURAL = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
_GRAY = {"uint8": "L", "int16": "I;16", "uint16": "I;16", "int32": "I", "float32": "F"}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or an array (H, W, C) as an image of pillow; floats within [0, 1] become 8 bits."""
    if isinstance(pic, Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pic = pic.unsqueeze(0) if pic.ndim == 2 else pic
        if pic.shape[0] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[0]} channels.")
        if pic.dtype.category == FLOATING and mode != "F":
            pic = pic.mul(255).to(uint8)
        array = pic.detach().cpu().numpy().transpose(1, 2, 0)
    elif isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic[:, :, None] if pic.ndim == 2 else pic
        if array.shape[-1] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {array.shape[-1]} channels.")
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    return _from_array(array, mode)


def _from_array(array: np.ndarray, mode: str | None) -> Any:
    channels = array.shape[2]
    if channels == 1:
        natural = _GRAY.get(str(array.dtype))
        if natural is None:
            raise TypeError(f"Input type {array.dtype} is not supported")
        if mode is not None and mode != natural:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {array.dtype}. Should be {natural}")
        array = array[:, :, 0].astype(np.uint16) if natural == "I;16" else array[:, :, 0]
    else:
        if mode is not None and mode not in _NATURAL[channels]:
            raise ValueError(f"Only modes {list(_NATURAL[channels])} are supported for {channels}D inputs")
        if array.dtype != np.uint8:
            raise TypeError(f"Input type {array.dtype} is not supported")
        natural = mode or _NATURAL[channels][0]
    image = pillow()
    if mode in (None, natural) and natural in ("L", "LA", "RGB", "RGBA", "I", "F", "I;16"):
        return image.fromarray(np.ascontiguousarray(array))
    return image.frombytes(natural, array.shape[1::-1], np.ascontiguousarray(array).tobytes())
