"""Samples of a batch of images, as a PNG that is made here."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from .._observe.arrays import host
from .._tensor import Tensor

_MOST = 12  # images of a batch
_SIDE = 64  # pixels of a side


def png(pixels: Any) -> bytes:
    """A PNG file of (height, width) or (height, width, 3) bytes."""
    height, width = pixels.shape[:2]
    raw = np.zeros((height, 1 + pixels[0].size), np.uint8)  # each row begins with its filter: none
    raw[:, 1:] = pixels.reshape(height, -1)
    kind = 2 if pixels.ndim == 3 else 0
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
        (b"IDAT", zlib.compress(raw.tobytes(), 6)), (b"IEND", b""),
    )  # fmt: skip
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def samples(batch: Any) -> dict[str, Any] | None:
    """Some images of a batch, each as a data address, with whole-number labels if the batch has them; None if there are no images."""
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else (batch,)
    images = next((part for part in parts if _are_images(part)), None)
    if images is None:
        return None
    array = images.detach()[:_MOST].cpu()._array.astype(np.float32)
    step = max(1, -(-max(array.shape[2:]) // _SIDE))
    array = array[:, :, ::step, ::step]
    low, high = np.nanmin(array), np.nanmax(array)
    pixels = np.nan_to_num((array - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)
    made = []
    for one in pixels:
        flat = one[0] if len(one) == 1 else np.ascontiguousarray(one[:3].transpose(1, 2, 0))
        made.append("data:image/png;base64," + base64.b64encode(png(flat)).decode())
    found: dict[str, Any] = {"shape": list(images.shape), "png": made}
    labels = next(
        (p for p in parts if isinstance(p, Tensor) and p.shape == images.shape[:1] and not p.is_floating_point()), None
    )
    if labels is not None:
        found["labels"] = [int(n) for n in labels[:_MOST].tolist()]
    return found


def _are_images(part: Any) -> bool:
    return (
        isinstance(part, Tensor) and part.ndim == 4 and part.shape[1] in (1, 3) and min(part.shape[2:]) >= 4
        and len(part) > 0 and (host(part) is not None or str(part.dtype).endswith("uint8"))
    )  # fmt: skip
