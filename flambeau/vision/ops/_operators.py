"""The operators `torch.ops.torchvision` and `torch.ops.image`, with which torchvision's own Python code runs here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._autograd.modes import enable_grad
from ..._core.dtypes import int32
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...autograd import grad
from ...library import Library
from .. import io
from .boxes import plain_nms as nms
from .deform_conv import deform_conv2d
from .roi import align, align_each, pool_with_places

_vision, _image = Library("torchvision", "DEF"), Library("image", "DEF")
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"


def _define(library: Library, schema: str, function: Callable[..., Any]) -> None:
    library.impl(library.define(schema), function)


def _gradients(function: Callable[..., Tensor], inputs: list[Tensor], gradient: Tensor) -> list[Tensor]:
    """Those of a function's inputs, by running it again."""
    with enable_grad():
        leaves = [t.detach().requires_grad_() for t in inputs]
        return list(grad(function(*leaves), leaves, gradient))


def _shaped(gradient: Tensor, sizes: tuple[int, ...]) -> list[Tensor]:
    """A stand-in for the input of an operator whose derivative does not depend on its values."""
    return [ops.zeros(sizes, dtype=gradient.dtype, device=gradient.device)]


# -- boxes -----------------------------------------------------------------------------------------------------------


def _roi_align(x: Any, rois: Any, scale: float, height: int, width: int, samples: int, aligned: bool) -> Tensor:
    return align(x, rois, (height, width), scale, samples, aligned)


def _roi_align_backward(
    g: Any,
    rois: Any,
    scale: float,
    height: int,
    width: int,
    b: int,
    c: int,
    h: int,
    w: int,
    samples: int,
    aligned: bool,
) -> Tensor:
    def again(x: Tensor) -> Tensor:
        return align(x, rois, (height, width), scale, samples, aligned)

    return _gradients(again, _shaped(g, (b, c, h, w)), g)[0]


def _roi_pool(x: Any, rois: Any, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    return pool_with_places(x, rois, (height, width), scale)


def _roi_pool_backward(
    g: Any, rois: Any, places: Any, scale: float, height: int, width: int, b: int, c: int, h: int, w: int
) -> Tensor:
    out = ops.zeros((b * c, h * w), dtype=g.dtype, device=g.device)
    planes = rois[:, :1].long() * c + ops.arange(c, device=g.device)
    flat = planes[:, :, None, None] * (h * w) + places.clamp(min=0)
    values = ops.where(places >= 0, g, 0)
    return out.reshape(-1).index_add(0, flat.reshape(-1), values.reshape(-1)).reshape(b, c, h, w)


def _ps_roi_align(x: Any, rois: Any, scale: float, height: int, width: int, samples: int) -> tuple[Tensor, Tensor]:
    out = align_each(x, rois, (height, width), scale, samples)
    channels = ops.arange(x.shape[1], dtype=int32, device=x.device).reshape(-1, height, width)
    return out, channels.expand(out.shape).contiguous()


def _ps_roi_align_backward(
    g: Any, rois: Any, _: Any, scale: float, height: int, width: int, samples: int, b: int, c: int, h: int, w: int
) -> Tensor:
    def again(x: Tensor) -> Tensor:
        return align_each(x, rois, (height, width), scale, samples)

    return _gradients(again, _shaped(g, (b, c, h, w)), g)[0]


_BIN = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
for _schema, _function in (
    ("_cuda_version() -> int", lambda: -1),
    ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms),
    (f"roi_align(Tensor input, Tensor rois, {_BIN}, int sampling_ratio, bool aligned) -> Tensor", _roi_align),
    (
        f"_roi_align_backward(Tensor grad, Tensor rois, {_BIN}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor",
        _roi_align_backward,
    ),
    (f"roi_pool(Tensor input, Tensor rois, {_BIN}) -> (Tensor, Tensor)", _roi_pool),
    (f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_BIN}, {_SIZES}) -> Tensor", _roi_pool_backward),
    (f"ps_roi_align(Tensor input, Tensor rois, {_BIN}, int sampling_ratio) -> (Tensor, Tensor)", _ps_roi_align),
    (
        f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BIN}, int sampling_ratio, {_SIZES})"
        " -> Tensor",
        _ps_roi_align_backward,
    ),
):
    _define(_vision, _schema, _function)


def _qroi_align(x: Any, rois: Any, scale: float, zero: int, rois_scale: float, rois_zero: int, *rest: Any) -> Tensor:
    boxes = (rois - rois_zero) * rois_scale
    out = _roi_align((x - zero) * scale, boxes, *rest)
    return ops.round(out / scale + zero).to(x.dtype)


def _absent(*given: Any) -> Any:
    raise NotImplementedError("ps_roi_pool is not available in flambeau; use ps_roi_align")


_define(
    _vision, "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", lambda b, s, t: nms(b.float(), s, t)
)
_define(
    _vision,
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    f"int rois_zero_point, {_BIN}, int sampling_ratio, bool aligned) -> Tensor",
    _qroi_align,
)
_define(_vision, f"ps_roi_pool(Tensor input, Tensor rois, {_BIN}) -> (Tensor, Tensor)", _absent)
_define(
    _vision,
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BIN}, {_SIZES}) -> Tensor",
    _absent,
)

# -- deformable convolution ------------------------------------------------------------------------------------------


def _deform(x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *rest: Any) -> Tensor:
    stride, padding, dilation = rest[:2], rest[2:4], rest[4:6]
    return deform_conv2d(x, offset, weight, bias, stride, padding, dilation, mask if rest[8] else None)


def _deform_backward(g: Any, x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *rest: Any) -> tuple[Any, ...]:
    given = [x, weight, offset, bias, *([mask] if rest[8] else ())]

    def again(x: Any, weight: Any, offset: Any, bias: Any, mask: Any = mask) -> Tensor:
        return _deform(x, weight, offset, mask, bias, *rest)

    dx, dweight, doffset, dbias, *dmask = _gradients(again, given, g)
    return dx, dweight, doffset, dmask[0] if dmask else ops.zeros_like(mask), dbias


_TENSORS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
_WINDOW = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
_define(_vision, f"deform_conv2d({_TENSORS}, {_WINDOW}) -> Tensor", _deform)
_define(
    _vision,
    f"_deform_conv2d_backward(Tensor grad, {_TENSORS}, {_WINDOW}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _deform_backward,
)

# -- files -----------------------------------------------------------------------------------------------------------


def _decoding(decode: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda data, mode, apply_exif_orientation=False: decode(
        data, io.ImageReadMode(mode), apply_exif_orientation=apply_exif_orientation
    )


for _schema, _function in (
    ("read_file(str filename) -> Tensor", io.read_file),
    ("write_file(str filename, Tensor data) -> ()", io.write_file),
    ("encode_png(Tensor data, int compression_level) -> Tensor", io.encode_png),
    ("encode_jpeg(Tensor data, int quality) -> Tensor", io.encode_jpeg),
    ("decode_gif(Tensor data) -> Tensor", io.decode_gif),
    ("decode_webp(Tensor data, int mode) -> Tensor", _decoding(io.decode_webp)),
    ("decode_png(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor", _decoding(io.decode_png)),
    ("decode_jpeg(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor", _decoding(io.decode_jpeg)),
    ("decode_image(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor", _decoding(io.decode_image)),
):
    _define(_image, _schema, _function)
