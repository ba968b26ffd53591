"""Values as NumPy arrays, and pictures as arrays of height, width and colour."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._ops.making.conversion import python_array
from ..._tensor import Tensor

Array = np.ndarray[Any, Any]


def make_np(x: Any) -> Array:
    """An array of a tensor, an array, a list or a number."""
    if isinstance(x, Tensor):
        return np.asarray(python_array(x.detach().cpu()))
    if isinstance(x, (list, tuple)):
        return np.array([make_np(item) for item in x])
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, np.ndarray):
        return x
    raise NotImplementedError(f"expected a tensor, an array or a number, got {type(x).__name__}")


def make_grid(images: Array, ncols: int = 8) -> Array:
    """Pictures (N, C, H, W) side by side in one (C, rows * H, columns * W)."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise AssertionError(f"expected pictures of shape (N, 1 or 3, H, W), got {images.shape}")
    if images.shape[1] == 1:
        images = np.repeat(images, 3, axis=1)
    count, colors, height, width = images.shape
    columns = min(count, ncols)
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, colors, height, width), images.dtype)
    canvas[:count] = images
    tiles = canvas.reshape(rows, columns, colors, height, width)
    return tiles.transpose(2, 0, 3, 1, 4).reshape(colors, rows * height, columns * width)


def to_hwc(array: Array, form: str) -> Array:
    """A picture, or several as a grid, as (H, W, C); `form` names the array's dimensions, such as "NCHW"."""
    form = form.upper()
    if len(set(form)) != len(form):
        raise AssertionError(f"dataformats names a dimension twice: {form}")
    if len(form) != array.ndim:
        raise AssertionError(f"dataformats {form} has {len(form)} dimensions, the picture's shape is {array.shape}")
    if len(form) == 4:
        return make_grid(array.transpose([form.find(c) for c in "NCHW"])).transpose(1, 2, 0)
    if len(form) == 3:
        picture = array.transpose([form.find(c) for c in "HWC"])
        return np.concatenate([picture] * 3, 2) if picture.shape[2] == 1 else picture
    if len(form) == 2:
        return np.stack([array.transpose([form.find(c) for c in "HW"])] * 3, 2)
    raise ValueError(f"dataformats must name 2 to 4 dimensions, got {form}")


def as_bytes(picture: Array) -> Array:
    """Values of a picture between 0 and 255; floats are between 0 and 1."""
    if picture.dtype == np.uint8:
        return picture
    return np.clip(picture.astype(np.float32) * 255, 0, 255).astype(np.uint8)


def figure_to_image(figures: Any, close: bool = True) -> Array:
    """A Matplotlib figure as (C, H, W), several as (N, C, H, W)."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def render(figure: Any) -> Array:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        picture = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
        if close:
            pyplot.close(figure)
        return picture

    return np.stack([render(f) for f in figures]) if isinstance(figures, list) else render(figures)
