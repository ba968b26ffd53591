"""Image files as tensors (C, H, W), and back, through pillow."""

from __future__ import annotations

import io
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ..._core.dtypes import uint8
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._images import pillow

__all__ = [
    "ImageReadMode", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "decode_webp", "encode_jpeg",
    "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip


class ImageReadMode(Enum):
    """Which channels a decoded image has."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA


_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# what images that are not already tensors of channels become
_NATURAL = {
    "1": "L",
    "CMYK": "RGB",
    "YCbCr": "RGB",
    "LAB": "RGB",
    "HSV": "RGB",
    "PA": "RGBA",
    "La": "LA",
    "RGBa": "RGBA",
}


def read_file(path: str | Path) -> Tensor:
    """The bytes of a file as a tensor of uint8."""
    return ops.from_numpy(np.fromfile(path, np.uint8))


def write_file(filename: str | Path, data: Tensor) -> None:
    """Writes a tensor of bytes into a file."""
    if data.dtype is not uint8 or data.ndim != 1:
        raise RuntimeError(f"write_file: expected one dimension of uint8, got {data.ndim} of {data.dtype}")
    Path(filename).write_bytes(data.cpu().numpy().tobytes())


def decode_image(
    input: Tensor | str | Path,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The image in a file, or in a tensor of a file's bytes, as (C, H, W) of uint8 (of uint16 where a file has that)."""
    if isinstance(input, Tensor):
        if input.dtype is not uint8 or input.ndim != 1:
            raise RuntimeError(f"decode_image: expected one dimension of uint8, got {input.ndim} of {input.dtype}")
        input = io.BytesIO(input.cpu().numpy().tobytes())  # type: ignore[assignment]
    try:
        with pillow().open(input) as picture:
            return _as_tensor(picture, mode, apply_exif_orientation)
    except FileNotFoundError as error:
        raise RuntimeError(f"[Errno 2] No such file or directory: '{error.filename}'") from error
    except (OSError, SyntaxError) as error:
        raise RuntimeError(f"decode_image: {error}") from error


def _as_tensor(picture: Any, mode: ImageReadMode | str, upright: bool) -> Tensor:
    if upright:
        picture = pillow("ImageOps").exif_transpose(picture)
    mode = ImageReadMode[mode.upper()] if isinstance(mode, str) else mode
    if mode is not ImageReadMode.UNCHANGED:
        picture = picture.convert(_MODES[mode.value])
    elif picture.mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    else:
        picture = picture.convert(_NATURAL.get(picture.mode, picture.mode))
    array = np.array(picture)
    array = array.astype(np.uint16) if picture.mode.startswith("I") else array
    array = array[:, :, None] if array.ndim == 2 else array
    return ops.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))


def read_image(
    path: str | Path, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """The image in a file, as (C, H, W)."""
    return decode_image(str(path), mode, apply_exif_orientation)


decode_png = decode_gif = decode_webp = decode_image


def decode_jpeg(
    input: Tensor,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    device: Any = "cpu",
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The image in a tensor of a JPEG file's bytes, on a device."""
    return decode_image(input, mode, apply_exif_orientation).to(device)


def _encoded(name: str, input: Tensor, format: str, **options: Any) -> Tensor:
    if input.dtype is not uint8:
        raise RuntimeError(f"{name}: Input tensor dtype should be uint8, got {input.dtype}")
    if input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(
            f"{name}: The number of channels should be 1 or 3, got a tensor of shape {list(input.shape)}"
        )
    array = np.ascontiguousarray(input.cpu().numpy().transpose(1, 2, 0))
    file = io.BytesIO()
    pillow().fromarray(array[:, :, 0] if array.shape[2] == 1 else array).save(file, format, **options)
    return ops.from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file of an image (C, H, W) of uint8."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError(f"Compression level should be between 0 and 9, got {compression_level}")
    return _encoded("encode_png", input, "PNG", compress_level=compression_level)


def encode_jpeg(input: Tensor | list[Tensor], quality: int = 75) -> Any:
    """The bytes of a JPEG file of an image (C, H, W) of uint8, or of each of several."""
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    if isinstance(input, list):
        return [encode_jpeg(image, quality) for image in input]
    return _encoded("encode_jpeg", input, "JPEG", quality=quality)


def write_png(input: Tensor, filename: str | Path, compression_level: int = 6) -> None:
    """Writes an image (C, H, W) of uint8 into a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: str | Path, quality: int = 75) -> None:
    """Writes an image (C, H, W) of uint8 into a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
