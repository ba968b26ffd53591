"""ONNX operators of networks: convolutions, norms, attention, samples of images, boxes."""

from __future__ import annotations

import math
from typing import Any

from ..._core import dtypes
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..errors import OnnxModelError
from ..ops import rotary_embedding as _rotary
from .operators import Node, axis_of, operator
from .tensors import element_type


def window(node: Node, x: Tensor, kernel: Any) -> tuple[list[int], list[int], list[int], list[int]]:
    """Strides, dilations and the padding before and after each axis, for windows over an image."""
    rank = len(kernel)
    strides, dilations = node.list("strides", [1] * rank), node.list("dilations", [1] * rank)
    pads, mode = node.list("pads", [0] * 2 * rank), node.text("auto_pad", "NOTSET")
    if x.ndim != rank + 2 or not len(strides) == len(dilations) == len(pads) // 2 == rank:
        raise OnnxModelError(f"windows of the shape {list(kernel)} do not fit an input of shape {list(x.shape)}")
    if mode == "VALID":
        pads = [0] * 2 * rank
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, stride, dilation in zip(x.shape[2:], kernel, strides, dilations):
            total = max(0, (-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size)
            small, large = total // 2, total - total // 2
            before.append(small if mode == "SAME_UPPER" else large)
            after.append(large if mode == "SAME_UPPER" else small)
        pads = before + after
    elif mode not in ("NOTSET", ""):
        raise OnnxModelError(f"auto_pad {mode!r} is not supported")
    return strides, dilations, pads[:rank], pads[rank:]


@operator("Conv")
def conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    strides, dilations, before, after = window(node, x, weight.shape[2:])
    if before != after:
        x = ops.pad(x, [n for pair in zip(before[::-1], after[::-1]) for n in pair])
        before = [0] * len(before)
    if len(before) not in (1, 2, 3):
        raise OnnxModelError(f"convolutions over {len(before)} axes are not supported")
    function = (ops.conv1d, ops.conv2d, ops.conv3d)[len(before) - 1]
    return function(x, weight, bias, strides, before, dilations, node.int("group", 1))


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    rank = weight.ndim - 2
    kernel, strides = weight.shape[2:], node.list("strides", [1] * rank)
    dilations, extra = node.list("dilations", [1] * rank), node.list("output_padding", [0] * rank)
    pads, wanted, mode = node.list("pads", [0] * 2 * rank), node.list("output_shape"), node.text("auto_pad", "NOTSET")
    if rank not in (1, 2, 3) or x.ndim != weight.ndim:
        raise OnnxModelError(f"a weight of shape {list(weight.shape)} does not fit an input of shape {list(x.shape)}")
    full = [s * (n - 1) + e + (k - 1) * d + 1 for n, s, e, k, d in zip(x.shape[2:], strides, extra, kernel, dilations)]
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides)]
    if wanted is not None:
        total = [f - w for f, w in zip(full, wanted[-rank:])]  # less than none where the result is to be larger
        low = [int(t / 2) for t in total]
        high = [t - n for t, n in zip(total, low)]
        pads = high + low if mode == "SAME_LOWER" else low + high
    elif mode == "VALID":
        pads = [0] * 2 * rank
    before, after = pads[:rank], pads[rank:]
    function = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)[rank - 1]
    groups = node.int("group", 1)
    if before == after and min(before) >= 0 and all(e < max(s, d) for e, s, d in zip(extra, strides, dilations)):
        return function(x, weight, bias, strides, before, extra, groups, dilations)
    made = function(x, weight, bias, strides, 0, 0, groups, dilations)  # the whole of it, of which a part is wanted
    trim = [n for b, a, e in zip(before[::-1], after[::-1], extra[::-1]) for n in (-b, e - a)]
    return ops.pad(made, trim, value=0.0) if bias is None else _trimmed(made, trim, bias)


def _trimmed(made: Tensor, trim: list[int], bias: Tensor) -> Any:
    """Padding that the convolution itself adds holds the bias."""
    shape = [1, -1] + [1] * (made.ndim - 2)
    return ops.pad(made - bias.reshape(shape), trim, value=0.0) + bias.reshape(shape)


# -- norms -------------------------------------------------------------------------------------------------------------


@operator("BatchNormalization", fixed=(3, 4))
def batch_norm(node: Node, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    epsilon, momentum = node.float("epsilon", 1e-5), node.float("momentum", 0.9)
    if not node.flag("training_mode"):
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)
    axes = [a for a in range(x.ndim) if a != 1]
    now, spread = ops.mean(x, axes), ops.var(x, axes, unbiased=False)
    made = F.batch_norm(x, None, None, weight, bias, True, 0.0, epsilon)
    return made, mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)


@operator("InstanceNormalization")
def instance_norm(node: Node, x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return F.instance_norm(x, None, None, weight, bias, True, 0.0, node.float("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_norm(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    axis, epsilon = axis_of(node.int("axis", -1), x.ndim), node.float("epsilon", 1e-5)
    if len(node.outputs) == 1 and list(weight.shape) == list(x.shape[axis:]):
        return ops.layer_norm(x, x.shape[axis:], weight, bias, epsilon)
    axes = list(range(axis, x.ndim))
    mean = ops.mean(x, axes, keepdim=True)
    scale = ops.rsqrt(ops.var(x, axes, unbiased=False, keepdim=True) + epsilon)
    made = (x - mean) * scale * weight
    return made if bias is None else made + bias, mean, scale


@operator("RMSNormalization")
def rms_norm(node: Node, x: Tensor, weight: Tensor) -> Any:
    axes = list(range(axis_of(node.int("axis", -1), x.ndim), x.ndim))
    return x * ops.rsqrt(ops.mean(x * x, axes, keepdim=True) + node.float("epsilon", 1e-5)) * weight


@operator("GroupNormalization")
def group_norm(node: Node, x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    groups, channels = node.int("num_groups"), x.shape[1]
    if node.opset < 21 and weight.shape[0] == groups != channels:  # one number for each group then
        weight, bias = (ops.repeat_interleave(t, channels // groups) for t in (weight, bias))
    return ops.group_norm(x, groups, weight, bias, node.float("epsilon", 1e-5))


@operator("LpNormalization")
def lp_norm(node: Node, x: Tensor) -> Any:
    axis = axis_of(node.int("axis", -1), x.ndim)
    length = ops.norm(x, node.int("p", 2), axis, keepdim=True)
    return ops.where(length == 0, ops.zeros_like(x), x / length)


@operator("MeanVarianceNormalization")
def mean_variance_norm(node: Node, x: Tensor) -> Any:
    axes = [axis_of(a, x.ndim) for a in node.list("axes", [0, 2, 3])]
    return (x - ops.mean(x, axes, keepdim=True)) / (ops.std(x, axes, unbiased=False, keepdim=True) + 1e-9)


@operator("LRN")
def local_response_norm(node: Node, x: Tensor) -> Any:
    size, alpha, beta = node.int("size"), node.float("alpha", 1e-4), node.float("beta", 0.75)
    before = (size - 1) // 2
    square = ops.pad(x * x, [0, 0] * (x.ndim - 2) + [before, size - 1 - before])
    around = sum(square.narrow(1, i, x.shape[1]) for i in range(size))
    return x / (node.float("bias", 1.0) + around * (alpha / size)) ** beta


# -- attention ---------------------------------------------------------------------------------------------------------


@operator("Attention")
def attention(
    node: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Any:
    """Results, keys and values with the past ones, and scores. Rows that may look at nothing give zeros."""
    flat = q.ndim == 3
    if flat:
        heads = node.int("q_num_heads", 0), node.int("kv_num_heads", 0), node.int("kv_num_heads", 0)
        q, k, v = (t.reshape(*t.shape[:2], n, -1).transpose(1, 2) for t, n in zip((q, k, v), heads))
    k = k if past_key is None else ops.cat([past_key, k], 2)
    v = v if past_value is None else ops.cat([past_value, v], 2)
    groups, rows, columns = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    keys, values = (t if groups == 1 else ops.repeat_interleave(t, groups, 1) for t in (k, v))
    scale, cap, mode = (
        node.float("scale", q.shape[-1] ** -0.5),
        node.float("softcap", 0.0),
        node.int("qk_matmul_output_mode", 0),
    )
    products = ops.matmul(q, keys.transpose(-2, -1)) * scale
    capped = cap * ops.tanh(products / cap) if cap > 0 else products
    added = capped
    seen = _visible(node, q, rows, columns, past_key, lengths)
    if mask is not None:
        if mask.shape[-1] < columns:
            missing = float("-inf") if mask.dtype.is_floating_point else False
            mask = ops.pad(mask, [0, columns - mask.shape[-1]], value=missing)
        if mask.dtype is dtypes.bool_:
            seen = mask if seen is None else mask & seen
        else:
            added = added + mask
    masked = added if seen is None else ops.where(seen, added, ops.full_like(added, -float("inf")))
    number = node.int("softmax_precision")
    kind = masked.dtype if number is None else element_type(number)
    weights = ops.softmax(masked.to(kind), -1).to(q.dtype)
    weights = ops.where(ops.isneginf(ops.amax(masked, -1, keepdim=True)), ops.zeros_like(weights), weights)
    made = ops.matmul(weights, values)
    if flat:
        made = made.transpose(1, 2).reshape(made.shape[0], rows, -1)
    return made, k, v, (products, capped, masked, weights)[mode]


def _visible(node: Node, q: Tensor, rows: int, columns: int, past: Any, lengths: Any) -> Any:
    """Which keys each query may look at, by order and by the lengths of sequences; None for all."""
    seen: Any = None
    key = ops.arange(columns, device=q.device)
    if node.flag("is_causal"):
        offset = 0 if past is None else past.shape[2]
        query = ops.arange(rows, device=q.device)[:, None] + offset
        if lengths is not None:  # the last queries are those of the last keys
            query = query + (lengths.reshape(-1, 1, 1, 1) - rows - offset)
        seen = key <= query
    if lengths is not None:
        inside = key < lengths.reshape(-1, 1, 1, 1)
        seen = inside if seen is None else seen & inside
    return seen


@operator("RotaryEmbedding")
def rotary_embedding(node: Node, x: Tensor, cos: Tensor, sin: Tensor, places: Tensor | None = None) -> Any:
    return _rotary(
        x, cos, sin, places, interleaved=node.flag("interleaved"), num_heads=node.int("num_heads", 0),
        rotary_embedding_dim=node.int("rotary_embedding_dim", 0),
    )  # fmt: skip


# -- images and boxes --------------------------------------------------------------------------------------------------


@operator("GridSample")
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Any:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(node.text("mode", "linear"), node.text("mode", "bilinear"))
    return ops.grid_sample(x, grid, mode, node.text("padding_mode", "zeros"), node.flag("align_corners"))


@operator("AffineGrid", lists=(1,))
def affine_grid(node: Node, theta: Tensor, sizes: Any) -> Any:
    return ops.affine_grid(theta, list(sizes), node.flag("align_corners"))


@operator("Col2Im", lists=(1, 2))
def fold(node: Node, x: Tensor, image: Any, block: Any) -> Any:
    rank = len(block)
    pads, ones = node.list("pads", [0] * 2 * rank), [1] * rank
    strides, dilations = node.list("strides", ones), node.list("dilations", ones)
    if rank != 2:
        raise OnnxModelError(f"blocks with {rank} dimensions are not supported")
    padded = [n + b + a for n, b, a in zip(image, pads[:rank], pads[rank:])]
    made = ops.fold(x, padded, block, dilations, 0, strides)
    return made[:, :, pads[0] : padded[0] - pads[2], pads[1] : padded[1] - pads[3]]


@operator("RoiAlign")
def roi_align(node: Node, x: Tensor, rois: Tensor, batch: Tensor) -> Any:
    from ...vision.ops import roi_align as align  # loads vision: only for models with boxes

    half = node.text("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
    if node.text("mode", "avg") != "avg":
        raise OnnxModelError("RoiAlign of the mode 'max' is not supported")
    boxes = ops.cat([batch.to(rois.dtype).unsqueeze(1), rois], 1)
    size = node.int("output_height", 1), node.int("output_width", 1)
    return align(
        x, boxes, size, node.float("spatial_scale", 1.0), node.int("sampling_ratio", 0) or -1, half == "half_pixel"
    )


@operator("NonMaxSuppression", lists=(2, 3, 4))
def non_max_suppression(
    node: Node, boxes: Tensor, scores: Tensor, most: Any = None, overlap: Any = None, least: Any = None
) -> Any:
    """Chosen boxes as (number in the batch, class, number of the box)."""
    from ...vision.ops import nms

    found = []
    count = int(most[0]) if most else 0
    for b in range(boxes.shape[0]):
        if node.flag("center_point_box"):
            middle, half = boxes[b, :, :2], boxes[b, :, 2:] / 2
            corners = ops.cat([middle - half, middle + half], 1)
        else:
            first, second = boxes[b, :, :2], boxes[b, :, 2:]
            corners = ops.cat([ops.minimum(first, second), ops.maximum(first, second)], 1)
        for c in range(scores.shape[1]):
            of = scores[b, c]
            able = ops.nonzero(of > least[0] if least else ops.ones_like(of)).reshape(-1)
            chosen = able[nms(corners[able], of[able], float(overlap[0]) if overlap else 0.0)][:count]
            place = ops.tensor([[b, c]], dtype=dtypes.int64, device=boxes.device).expand(len(chosen), 2)
            found.append(ops.cat([place, chosen.long().unsqueeze(1)], 1))
    return ops.cat(found) if found else ops.zeros((0, 3), dtype=dtypes.int64, device=boxes.device)


# -- signals -----------------------------------------------------------------------------------------------------------


@operator("HannWindow", "HammingWindow", "BlackmanWindow", lists=(0,))
def signal_window(node: Node, size: Any) -> Any:
    count = int(size[0])
    angle = ops.arange(count, dtype=dtypes.float32) * (
        2 * math.pi / (count if node.flag("periodic", True) else count - 1)
    )
    parts = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 21 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }
    a, b, c = parts[node.kind]
    return (a - b * ops.cos(angle) + c * ops.cos(2 * angle)).to(element_type(node.int("output_datatype", 1)))


@operator("DFT", lists=(1, 2))
def dft(node: Node, x: Tensor, length: Any = None, axis: Any = None) -> Any:
    """The last axis holds the real and the imaginary part, or the real part alone."""
    along = axis[0] if axis is not None else node.int("axis", 1 if node.opset < 20 else -2)
    along = axis_of(along, x.ndim)
    count = None if length is None else int(length[0])
    value = ops.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)
    if node.flag("onesided"):
        if node.flag("inverse"):
            return ops.fft_irfft(value, count, along).unsqueeze(-1)
        return ops.view_as_real(ops.fft_rfft(value, count, along))
    return ops.view_as_real((ops.fft_ifft if node.flag("inverse") else ops.fft_fft)(value, count, along))


@operator("STFT", lists=(1, 3))
def stft(node: Node, signal: Tensor, step: Any, window: Tensor | None = None, length: Any = None) -> Any:
    size = int(length[0]) if length is not None else window.shape[0]  # type: ignore[union-attr]
    value = ops.view_as_complex(signal.contiguous()) if signal.shape[-1] == 2 else signal.squeeze(-1)
    frames = value.unfold(-1, size, int(step[0]))
    frames = frames if window is None else frames * window
    return ops.view_as_real(ops.fft_rfft(frames) if node.flag("onesided", True) else ops.fft_fft(frames))
