"""Layers in ONNX: convolutions, normalisations, pooling, resampling, attention and recurrent networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit._operators import DTYPES
from ..jit._tracer import Node, Value
from ._builder import Builder, kind_of, rank, result_kind
from ._table import op, refuse

# -- convolutions ------------------------------------------------------------------------------------------------


@op("conv1d", "conv2d", "conv3d")
def _conv(
    b: Builder, n: Node, x: Any, weight: Any, bias: Any = None, stride: Any = (), padding: Any = (), dilation: Any = (),
    groups: int = 1,
) -> str:  # fmt: skip
    count = rank(weight) - 2
    size = list(weight.example.shape[2:])
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, size)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    elif padding == "valid":
        pads = [0] * 2 * count
    else:
        pads = [*padding, *padding]
    inputs = [b.t(x), b.t(weight), *([] if bias is None else [b.t(bias)])]
    return b.add(
        "Conv", *inputs, strides=list(stride), pads=pads, dilations=list(dilation), group=groups, kernel_shape=size
    )


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    b: Builder, n: Node, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> str:  # fmt: skip
    inputs = [b.t(x), b.t(weight), *([] if bias is None else [b.t(bias)])]
    return b.add(
        "ConvTranspose", *inputs, strides=list(stride), pads=[*padding, *padding], dilations=list(dilation), group=groups,
        kernel_shape=list(weight.example.shape[2:]), output_padding=list(output_padding),
    )  # fmt: skip


# -- normalisations ----------------------------------------------------------------------------------------------


def _filled(b: Builder, value: Any, count: int, other: float, kind: Any) -> str:
    return b.constant(np.full(count, other), kind.numpy) if value is None else b.t(value)


@op("batch_norm")
def _batch_norm(
    b: Builder, n: Node, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float,
    *rest: Any,
) -> str:  # fmt: skip
    like, count = kind_of(x), x.example.shape[1]
    scale, shift = _filled(b, weight, count, 1.0, like), _filled(b, bias, count, 0.0, like)
    if training or mean is None:
        axes = [d for d in range(rank(x)) if d != 1]
        return _normalised(b, x, axes, scale, shift, eps, [-1] + [1] * (rank(x) - 2))
    return b.add("BatchNormalization", b.t(x), scale, shift, b.t(mean), b.t(var), epsilon=float(eps))


def _normalised(b: Builder, x: Any, axes: list[int], scale: Any, shift: Any, eps: float, shape: Any) -> str:
    """(x - mean) / sqrt(var + eps) * scale + shift."""
    value = b.t(x)
    centred = b.add("Sub", value, b.reduce("ReduceMean", value, axes, True))
    spread = b.reduce("ReduceMean", b.add("Mul", centred, centred), axes, True)
    made = b.add("Div", centred, b.add("Sqrt", b.add("Add", spread, b.constant(eps, kind_of(x).numpy))))
    for kind, part in (("Mul", scale), ("Add", shift)):
        if part is not None:
            made = b.add(kind, made, part if shape is None else b.add("Reshape", part, b.constant(shape)))
    return made


@op("instance_norm")
def _instance_norm(
    b: Builder,
    n: Node,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    use_input: bool,
    momentum: float,
    eps: float,
    *rest: Any,
) -> str:
    count, like = x.example.shape[1], kind_of(x)
    scale, shift = _filled(b, weight, count, 1.0, like), _filled(b, bias, count, 0.0, like)
    if not use_input:
        return b.add("BatchNormalization", b.t(x), scale, shift, b.t(mean), b.t(var), epsilon=float(eps))
    return b.add("InstanceNormalization", b.t(x), scale, shift, epsilon=float(eps))


@op("layer_norm")
def _layer_norm(
    b: Builder, n: Node, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *rest: Any
) -> str:
    if b.opset >= 17:
        scale = b.constant(np.ones(shape), kind_of(x).numpy) if weight is None else b.t(weight)
        inputs = [b.t(x), scale, *([] if bias is None else [b.t(bias)])]
        return b.add("LayerNormalization", *inputs, axis=-len(shape), epsilon=float(eps))
    axes = list(range(rank(x) - len(shape), rank(x)))
    parts = [None if p is None else b.t(p) for p in (weight, bias)]
    return _normalised(b, x, axes, *parts, eps, None)  # type: ignore[arg-type]


@op("rms_norm")
def _rms_norm(b: Builder, n: Node, x: Any, shape: Any, weight: Any = None, eps: Any = None) -> str:
    value = b.t(x)
    axes = list(range(rank(x) - len(shape), rank(x)))
    size = b.reduce("ReduceMean", b.add("Mul", value, value), axes, True)
    tiny = float(np.finfo(kind_of(x).numpy).eps) if eps is None else eps
    made = b.add("Div", value, b.add("Sqrt", b.add("Add", size, b.constant(tiny, kind_of(x).numpy))))
    return made if weight is None else b.add("Mul", made, b.t(weight))


@op("group_norm")
def _group_norm(
    b: Builder, n: Node, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *rest: Any
) -> str:
    like = kind_of(x)
    flat = b.add("Reshape", b.t(x), b.constant([0, groups, -1]))
    ones, zeros = b.constant(np.ones(groups), like.numpy), b.constant(np.zeros(groups), like.numpy)
    made = b.add("InstanceNormalization", flat, ones, zeros, epsilon=float(eps))
    made = b.add("Reshape", made, b.add("Shape", b.t(x)))
    for kind, part in (("Mul", weight), ("Add", bias)):
        if part is not None:
            made = b.add(kind, made, b.add("Reshape", b.t(part), b.constant([-1] + [1] * (rank(x) - 2))))
    return made


# -- pooling -----------------------------------------------------------------------------------------------------


@op("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(b: Builder, n: Node, x: Any, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> str:
    return b.add(
        "MaxPool", b.t(x), kernel_shape=list(size), strides=list(stride or size), pads=[*padding, *padding],
        dilations=list(dilation), ceil_mode=int(ceil_mode),
    )  # fmt: skip


@op("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    b: Builder,
    n: Node,
    x: Any,
    size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_pad: bool,
    divisor: Any = None,
) -> str:
    made = b.add(
        "AveragePool", b.t(x), kernel_shape=list(size), strides=list(stride or size), pads=[*padding, *padding],
        ceil_mode=int(ceil_mode), count_include_pad=int(count_pad),
    )  # fmt: skip
    if divisor is None:
        return made
    return b.add("Mul", made, b.constant(math.prod(size) / divisor, kind_of(x).numpy))


def _adaptive_size(x: Any, output: Any) -> list[int] | None:
    """The kernel of pooling to fixed sizes; None for one element. Sizes must divide."""
    have = x.example.shape[-len(output) :]
    if all(o == 1 for o in output):
        return None
    if any(isinstance(o, Value) or h % o for h, o in zip(have, output)):
        refuse(f"adaptive pooling from {tuple(have)} to {tuple(output)}: sizes must be multiples of the output's")
    return [h // o for h, o in zip(have, output)]


@op("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive_avg(b: Builder, n: Node, x: Any, output: Any) -> str:
    size = _adaptive_size(x, output)
    if size is None:
        return b.add("GlobalAveragePool", b.t(x))
    return b.add("AveragePool", b.t(x), kernel_shape=size, strides=size)


@op("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(b: Builder, n: Node, x: Any, output: Any) -> list[str]:
    size = _adaptive_size(x, output)
    made = b.add("GlobalMaxPool", b.t(x)) if size is None else b.add("MaxPool", b.t(x), kernel_shape=size, strides=size)
    return [made]


# -- resampling --------------------------------------------------------------------------------------------------


def _resize(b: Builder, x: Any, size: Any, factors: Any, mode: str, transform: str, **more: Any) -> str:
    value, options = b.t(x), {"mode": mode, "coordinate_transformation_mode": transform, **more}
    empty = "" if b.opset >= 13 else b.constant([], np.float32)
    if size is None:
        scales = b.constant([1.0, 1.0, *factors], np.float32)
        return b.add("Resize", value, empty, scales, **options)
    front = b.slice(b.add("Shape", value), 0, 0, 2)
    target = b.add("Concat", front, b.ints(size), axis=0)
    return b.add("Resize", value, empty, empty, target, **options)


@op("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _nearest(b: Builder, n: Node, x: Any, size: Any, factors: Any = None, *rest: Any) -> str:
    return _resize(b, x, size, factors, "nearest", "asymmetric", nearest_mode="floor")


@op("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
def _linear(b: Builder, n: Node, x: Any, size: Any, corners: bool, factors: Any = None, *rest: Any) -> str:
    transform = "align_corners" if corners else "half_pixel" if "cubic" in n.op else "pytorch_half_pixel"
    if "cubic" in n.op:
        return _resize(b, x, size, factors, "cubic", transform, cubic_coeff_a=-0.75)
    return _resize(b, x, size, factors, "linear", transform)


# -- attention and recurrent networks ----------------------------------------------------------------------------


@op("scaled_dot_product_attention")
def _attention(
    b: Builder, n: Node, q: Any, k: Any, v: Any, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: Any = None, enable_gqa: bool = False,
) -> str:  # fmt: skip
    like, count = kind_of(q), rank(q)
    if enable_gqa:
        refuse("attention with groups of queries")
    factor = 1 / math.sqrt(q.example.shape[-1]) if scale is None else scale
    order = [*range(count - 2), count - 1, count - 2]
    scores = b.add("MatMul", b.t(q), b.add("Transpose", b.t(k), perm=order))
    scores = b.add("Mul", scores, b.constant(factor, like.numpy))
    least = b.constant(float("-inf"), like.numpy) if is_causal or mask is not None else ""
    if is_causal:
        if b.opset < 14:
            refuse("causal attention needs opset 14")
        last = b.slice(b.add("Shape", scores), 0, count - 2, count)
        one = b.onnx.numpy_helper.from_array(np.ones(1, like.numpy))
        allowed = b.add("Trilu", b.add("ConstantOfShape", last, value=one), upper=0)
        scores = b.add("Where", b.add("Cast", allowed, to=9), scores, least)
    if mask is not None:
        if kind_of(mask).name == "bool":
            scores = b.add("Where", b.t(mask), scores, least)
        else:
            scores = b.add("Add", scores, b.t(mask))
    return b.add("MatMul", b.add("Softmax", scores, axis=count - 1 if b.opset < 13 else -1), b.t(v))


_GATES = {"lstm": (4, [0, 3, 1, 2]), "gru": (3, [1, 0, 2]), "rnn_tanh": (1, [0]), "rnn_relu": (1, [0])}


@op("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(
    b: Builder, n: Node, x: Any, state: Any, weights: Any, has_biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> list[str]:  # fmt: skip
    directions = 2 if bidirectional else 1
    states = [b.t(s) for s in (state if isinstance(state, list) else [state])]
    hidden = (state[0] if isinstance(state, list) else state).example.shape[-1]
    value = b.add("Transpose", b.t(x), perm=[1, 0, 2]) if batch_first else b.t(x)
    step = 4 if has_biases else 2
    lasts: list[list[str]] = [[] for _ in states]
    for layer in range(layers):
        groups = [weights[(layer * directions + d) * step :][:step] for d in range(directions)]
        w, r = (_stacked(b, n.op, [g[i] for g in groups], hidden) for i in (0, 1))
        bias = ""
        if has_biases:
            parts = [_reordered(b, n.op, g[i], hidden) for g in groups for i in (2, 3)]
            joined = [b.add("Concat", *parts[2 * d : 2 * d + 2], axis=0) for d in range(directions)]
            bias = b.add("Concat", *(b.unsqueeze(p, [0]) for p in joined), axis=0)
        first = [b.slice(s, 0, layer * directions, (layer + 1) * directions) for s in states]
        options: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional" if bidirectional else "forward"}
        kind = {"lstm": "LSTM", "gru": "GRU"}.get(n.op, "RNN")
        if kind == "GRU":
            options["linear_before_reset"] = 1
        if n.op == "rnn_relu":
            options["activations"] = ["Relu"] * directions
        out = b.add(kind, value, w, r, bias, "", *first, outputs=1 + len(states), **options)
        for kept, last in zip(lasts, out[1:]):
            kept.append(last)
        # (time, directions, batch, hidden) -> (time, batch, directions * hidden)
        value = b.add("Reshape", b.add("Transpose", out[0], perm=[0, 2, 1, 3]), b.constant([0, 0, -1]))
    made = b.add("Transpose", value, perm=[1, 0, 2]) if batch_first else value
    return [made, *(kept[0] if len(kept) == 1 else b.add("Concat", *kept, axis=0) for kept in lasts)]


def _reordered(b: Builder, kind: str, weight: Any, hidden: int) -> str:
    """Gates in ONNX's order."""
    count, order = _GATES[kind]
    if order == [0]:
        return b.t(weight)
    parts = b.split(b.t(weight), [hidden] * count, 0)
    return b.add("Concat", *(parts[i] for i in order), axis=0)


def _stacked(b: Builder, kind: str, weights: list[Any], hidden: int) -> str:
    parts = [b.unsqueeze(_reordered(b, kind, w, hidden), [0]) for w in weights]
    return parts[0] if len(parts) == 1 else b.add("Concat", *parts, axis=0)


@op("cross_entropy_loss", "nll_loss_nd")
def _class_loss(
    b: Builder, n: Node, x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore: int = -100, *rest: Any
) -> str:
    kinds = ("none", "mean", "sum")
    inputs = [b.t(x), b.t(target), *([] if weight is None else [b.t(weight)])]
    if n.op == "nll_loss_nd":
        return b.add("NegativeLogLikelihoodLoss", *inputs, reduction=kinds[reduction], ignore_index=ignore)
    return b.add("SoftmaxCrossEntropyLoss", *inputs, reduction=kinds[reduction], ignore_index=ignore)


@op("mse_loss", "l1_loss")
def _distance(b: Builder, n: Node, x: Any, y: Any, reduction: int = 1) -> str:
    gap = b.add("Sub", b.t(x, result_kind(n)), b.t(y, result_kind(n)))
    made = b.add("Mul", gap, gap) if n.op == "mse_loss" else b.add("Abs", gap)
    return made if not reduction else b.reduce("ReduceMean" if reduction == 1 else "ReduceSum", made, None, False)


@op("torchvision::nms")
def _nms(b: Builder, n: Node, boxes: Any, scores: Any, iou_threshold: float) -> str:
    many = b.unsqueeze(b.t(boxes), [0]), b.unsqueeze(b.t(scores), [0, 1])
    kept = b.add("NonMaxSuppression", *many, b.size(b.t(boxes), 0), b.constant([iou_threshold], np.float32))
    return b.squeeze(b.slice(kept, 1, 2, 3), [1])


@op("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(
    b: Builder, n: Node, x: Any, state: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> str | list[str]:
    hidden = state[0] if n.op == "lstm_cell" else state
    rows = hidden.example.shape[-1]
    given, kept = (
        b.add("Gemm", b.t(v), b.t(w), *([] if bias is None else [b.t(bias)]), transB=1)
        for v, w, bias in ((x, w_ih, b_ih), (hidden, w_hh, b_hh))
    )
    if n.op.startswith("rnn"):
        return b.add("Tanh" if "tanh" in n.op else "Relu", b.add("Add", given, kept))
    if n.op == "lstm_cell":
        i, f, g, o = b.split(b.add("Add", given, kept), [rows] * 4, -1)
        old = b.add("Mul", b.add("Sigmoid", f), b.t(state[1]))
        cell = b.add("Add", old, b.add("Mul", b.add("Sigmoid", i), b.add("Tanh", g)))
        return [b.add("Mul", b.add("Sigmoid", o), b.add("Tanh", cell)), cell]
    (r, z, new), (r_, z_, new_) = (b.split(v, [rows] * 3, -1) for v in (given, kept))
    reset, update = (b.add("Sigmoid", b.add("Add", u, v)) for u, v in ((r, r_), (z, z_)))
    made = b.add("Tanh", b.add("Add", new, b.add("Mul", reset, new_)))
    return b.add("Add", made, b.add("Mul", update, b.add("Sub", b.t(hidden), made)))


# -- tables and images ---------------------------------------------------------------------------------------------


@op("embedding_bag")
def _embedding_bag(
    b: Builder, n: Node, weight: Any, words: Any, offsets: Any, by_count: bool = False, mode: int = 0, sparse: bool = False,
    factors: Any = None, include_last: bool = False, padding_idx: Any = None,
) -> list[str]:  # fmt: skip
    if mode == 2 or padding_idx not in (None, -1):
        refuse("bags of embeddings of which the largest is taken, or with words that do not count")
    like, count = kind_of(weight), b.add("Shape", b.t(words))
    starts = b.t(offsets, DTYPES[4])
    if include_last:
        starts = b.slice(starts, 0, 0, -1)
    places = b.add("Range", b.constant(0), b.squeeze(count, [0]), b.constant(1))
    ends = b.add("Concat", b.slice(starts, 0, 1, (1 << 63) - 1), count, axis=0)
    begun, over = (b.add("Less", places, b.unsqueeze(v, [1])) for v in (starts, ends))
    member = b.cast(b.add("And", b.add("Not", begun), over), like)  # (bags, words)
    rows = b.add("Gather", b.t(weight), b.t(words), axis=0)
    if factors is not None:
        rows = b.add("Mul", rows, b.unsqueeze(b.t(factors), [1]))
    made = b.add("MatMul", member, rows)
    if mode == 1:
        size = b.reduce("ReduceSum", member, [1], True)
        made = b.add("Div", made, b.add("Max", size, b.constant(1, like.numpy)))
    return [made]


@op("grid_sampler")
def _grid_sampler(b: Builder, n: Node, x: Any, grid: Any, mode: int, padding: int, corners: bool) -> str:
    if b.opset < 16:
        refuse("grid_sample needs opset 16")
    names = ("bilinear", "nearest", "bicubic") if b.opset < 20 else ("linear", "nearest", "cubic")
    around = ("zeros", "border", "reflection")[padding]
    return b.add("GridSample", b.t(x), b.t(grid), mode=names[mode], padding_mode=around, align_corners=int(corners))


@op("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(b: Builder, n: Node, x: Any, groups: int) -> str:
    value = b.add("Reshape", b.t(x), b.constant([0, groups, x.example.shape[1] // groups, -1]))
    return b.add("Reshape", b.add("Transpose", value, perm=[0, 2, 1, 3]), b.add("Shape", b.t(x)))


@op("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def _nearest_exact(b: Builder, n: Node, x: Any, size: Any, factors: Any = None, *rest: Any) -> str:
    return _resize(b, x, size, factors, "nearest", "half_pixel", nearest_mode="round_prefer_ceil")


@op("binary_cross_entropy_with_logits")
def _binary_loss(
    b: Builder, n: Node, x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> str:
    if pos_weight is not None:
        refuse("binary_cross_entropy_with_logits with pos_weight")
    made = b.add("Sub", b.add("Softplus", b.t(x)), b.add("Mul", b.t(x), b.t(target)))
    made = made if weight is None else b.add("Mul", made, b.t(weight))
    return made if not reduction else b.reduce("ReduceMean" if reduction == 1 else "ReduceSum", made, None, False)
