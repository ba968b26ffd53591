"""How layers and losses become operators of PyTorch's library in a trace."""

from __future__ import annotations

import math
from typing import Any

from .._ops.losses.elements import legacy_reduction
from .._ops.registry import functions, ops
from .._tensor import Tensor
from ._lowering import REDUCTIONS, SPECIAL, Steps, arguments_of, by_schema, listed, special
from ._operators import dtype_code


def _refuse_norm(max_norm: Any) -> None:
    if max_norm is not None:
        raise NotImplementedError("trace: an embedding with max_norm changes its table as it runs; script it instead")


@special("F.embedding")
def _embedding(
    s: Steps, input: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    _refuse_norm(max_norm)
    return s.do("embedding", weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)


@special("F.embedding_bag")
def _embedding_bag(
    s: Steps, input: Tensor, weight: Tensor, offsets: Any = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: Any = None,
) -> Tensor:  # fmt: skip
    _refuse_norm(max_norm)
    if input._array.ndim == 2:
        with s.tracer.again():
            rows, columns = input.shape
            offsets = ops.arange(0, rows * columns, columns, device=input.device)
            input = input.reshape(-1)
            per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    given = input, weight, offsets, None, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights
    out = s.tracer.compute(functions["nn.functional.embedding_bag"], (*given, include_last_offset, padding_idx), {})
    kind = ("sum", "mean", "max").index(mode)
    rest = [scale_grad_by_freq, kind, sparse, per_sample_weights, include_last_offset, padding_idx]
    s.note("embedding_bag", [weight, input, offsets, *rest], (out, ops.empty(0), ops.empty(0), ops.empty(0)))
    return out


def _softmax(s: Steps, input: Tensor, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    op = "log_softmax" if "log" in s.function.__name__ else "softmax"
    dim = (0 if input._array.ndim in (0, 1, 3) else 1) if dim is None else dim
    return s.do(op, input, dim, *(() if dtype is None else (dtype_code(dtype),)))


SPECIAL.update({"F.softmax": _softmax, "F.log_softmax": _softmax})


def _activation(op: str, *keys: str, **defaults: Any) -> None:
    """An activation with `inplace` as its last argument."""

    def lower(s: Steps, input: Tensor, *args: Any, inplace: bool = False, **named: Any) -> Tensor:
        given = {**defaults, **dict(zip(keys, args)), **named}
        inplace = inplace or (len(args) > len(keys) and bool(args[len(keys)]))
        out = s.do(op, input, *(given[k] for k in keys))
        return s.do("copy_", input, out) if inplace else out

    SPECIAL["F." + op] = SPECIAL[op] = lower


@special("elu", "F.elu", "elu_in_place", "elu_in_place_", "elu_")
def _elu(s: Steps, input: Tensor, alpha: float = 1.0, *rest: Any, inplace: bool = False) -> Tensor:
    inplace = inplace or rest[:1] == (True,) or "_" in s.function.__name__
    scales = [n for n in rest if not isinstance(n, bool)]
    return s.do("elu_" if inplace else "elu", input, alpha, *scales)


_activation("hardtanh", "min_val", "max_val", min_val=-1.0, max_val=1.0)
_activation("leaky_relu", "negative_slope", negative_slope=0.01)
for _op in ("hardswish", "hardsigmoid", "silu", "mish", "relu6", "selu", "celu"):
    _activation(_op, *(("alpha",) if _op == "celu" else ()), alpha=1.0)


@special("F.relu")
def _relu(s: Steps, input: Tensor, inplace: bool = False) -> Tensor:
    return s.do("relu_" if inplace else "relu", input)


@special("logsigmoid")
def _logsigmoid(s: Steps, input: Tensor) -> Tensor:
    return s.note("log_sigmoid", [input], s.function(input))


@special("gelu", "gelu_tanh")
def _gelu(s: Steps, input: Tensor, approximate: str = "none") -> Tensor:
    if "tanh" in s.function.__name__:
        approximate = "tanh"
    return s.do("gelu", input, approximate=approximate)


def _max_pool(rank: int) -> Any:
    alone, with_indices = by_schema(f"max_pool{rank}d"), by_schema(f"max_pool{rank}d_with_indices")

    def lower(s: Steps, *args: Any, **named: Any) -> Any:
        wanted = arguments_of(s.function, args, named).get("return_indices")
        return (with_indices if wanted else alone)(s, *args, **named)

    return lower


def _adaptive(rank: int, kind: str) -> Any:
    def pool(s: Steps, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        target = listed(output_size, rank)
        if None in target:
            target = [
                s.tracer.size(input, input._array.ndim - rank + i) if n is None else n for i, n in enumerate(target)
            ]
        if kind == "avg":
            return s.do(f"adaptive_avg_pool{rank}d", input, target)
        out = functions[f"nn.functional.adaptive_max_pool{rank}d"](input, target, True)
        s.note(f"adaptive_max_pool{rank}d", [input, target], out)
        return out if return_indices else out[0]

    return pool


for _n in (1, 2, 3):
    SPECIAL[f"F.max_pool{_n}d"] = SPECIAL[f"max_pool{_n}d"] = _max_pool(_n)
    SPECIAL[f"F.avg_pool{_n}d"] = SPECIAL[f"avg_pool{_n}d"] = by_schema(f"avg_pool{_n}d")
    SPECIAL[f"adaptive_avg_pool{_n}d"] = _adaptive(_n, "avg")
    SPECIAL[f"F.adaptive_max_pool{_n}d"] = SPECIAL[f"adaptive_max_pool{_n}d"] = _adaptive(_n, "max")
    SPECIAL[f"conv{_n}d"], SPECIAL[f"conv_transpose{_n}d"] = by_schema(f"conv{_n}d"), by_schema(f"conv_transpose{_n}d")
    SPECIAL[f"F.dropout{_n}d"] = by_schema("feature_dropout", train="training")
SPECIAL["F.dropout"] = by_schema("dropout", train="training")
SPECIAL["F.unfold"], SPECIAL["fold"] = by_schema("im2col"), by_schema("col2im")
SPECIAL.update({f"F.{_op}": by_schema(_op) for _op in ("batch_norm", "instance_norm", "layer_norm")})


@special("pad")
def _pad(s: Steps, input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    return s.do("pad", input, list(pad), mode, *(() if value is None else (float(value),)))


@special("grid_sample")
def _grid_sample(
    s: Steps, input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None
) -> Tensor:  # fmt: skip
    numbers = ("bilinear", "nearest", "bicubic").index(mode), ("zeros", "border", "reflection").index(padding_mode)
    return s.do("grid_sampler", input, grid, *numbers, bool(align_corners))


@special("interpolate", "upsample", "upsample_nearest", "upsample_bilinear")
def _interpolate(
    s: Steps, input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
    recompute_scale_factor: Any = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    rank = input._array.ndim - 2
    name = s.function.__name__
    if name in ("upsample_nearest", "upsample_bilinear"):
        mode, align_corners = name.removeprefix("upsample_"), True if name.endswith("linear") else None
    kinds = {"nearest": "upsample_nearest{}d", "nearest-exact": "_upsample_nearest_exact{}d"}
    op = kinds.get(mode, f"upsample_{mode}{{}}d").format(rank)
    if recompute_scale_factor and scale_factor is not None:
        factors = listed(scale_factor, rank)
        size, scale_factor = [math.floor(n * f) for n, f in zip(input._array.shape[2:], factors)], None
    out = functions["nn.functional.interpolate"](input, size, scale_factor, mode, align_corners, None, antialias)
    target = None if size is None else listed(size, rank)
    if mode == "area":
        return s.note(f"adaptive_avg_pool{rank}d", [input, target or list(out._array.shape[2:])], out)
    factors = None if scale_factor is None else [float(f) for f in listed(scale_factor, rank)]
    if antialias:
        return s.note(f"_upsample_{mode}2d_aa", [input, target, bool(align_corners), factors], out)
    corners = () if mode.startswith("nearest") else (bool(align_corners),)
    return s.note(op, [input, target, *corners, factors], out)


def _loss(op: str, *keys: str) -> None:
    """A loss; `keys` are the arguments of the operator after input and target."""
    name = {"cross_entropy_loss": "cross_entropy", "nll_loss_nd": "nll_loss"}.get(op, op)

    def lower(s: Steps, *args: Any, **named: Any) -> Tensor:
        given = arguments_of(s.function, args, named)
        if "size_average" in given:
            given["reduction"] = legacy_reduction(given.pop("size_average"), given.pop("reduce"), given["reduction"])
        if "weight" not in keys and given.get("weight") is not None:
            return _weighted(s, op, given)
        values = [given[k] for k in ("input", "target", *keys)]
        values = [REDUCTIONS.index(v) if k == "reduction" else v for k, v in zip(("", "", *keys), values)]
        return s.note(op, values, s.function(*args, **named))

    SPECIAL["F." + name] = SPECIAL[name] = lower


def _weighted(s: Steps, op: str, given: dict[str, Any]) -> Tensor:
    """A loss whose operator takes no weight: made of what PyTorch makes it of."""
    weight, reduction = given["weight"], given["reduction"]
    with s.tracer.again():
        loss = functions[f"nn.functional.{op}"](**{**given, "weight": None, "reduction": "none"}) * weight
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.mean() if op == "huber_loss" else loss.sum() / weight.sum()


_loss("cross_entropy_loss", "weight", "reduction", "ignore_index", "label_smoothing")
_loss("nll_loss_nd", "weight", "reduction", "ignore_index")
_loss("binary_cross_entropy", "weight", "reduction")
_loss("mse_loss", "reduction")
_loss("l1_loss", "reduction")
_loss("smooth_l1_loss", "reduction", "beta")
_loss("huber_loss", "reduction", "delta")
_loss("soft_margin_loss", "reduction")
_loss("multilabel_margin_loss", "reduction")


@special("kl_div")
def _kl_div(
    s: Steps, input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "batchmean":
        total = s.do("kl_div", input, target, 2, log_target=log_target)
        return s.do("div", total, s.tracer.size(input, 0))
    return s.do("kl_div", input, target, REDUCTIONS.index(reduction), log_target=log_target)


@special("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(s: Steps, input: Tensor, *args: Any, **named: Any) -> Any:
    op = s.function.__name__
    if not isinstance(args[-1], bool) or (isinstance(args[0], Tensor) and args[0]._array.ndim == 1):
        out = s.function(input, *args, **named)  # packed sequences
        return s.note(op, [input, *args], out)
    first = args[0]
    batch_first = args[-1]
    states = [_first_state(s, input, t, batch_first) for t in (first if isinstance(first, (tuple, list)) else [first])]
    given = states if isinstance(first, (tuple, list)) else states[0]
    out = s.function(input, tuple(given) if isinstance(given, list) else given, *args[1:], **named)
    return s.note(op, [input, given, list(args[1]), *args[2:]], out)


@special("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(s: Steps, input: Tensor, hx: Any, *weights: Any) -> Any:
    states = [_first_cell_state(s, input, t) for t in (hx if isinstance(hx, (tuple, list)) else [hx])]
    out = s.function(input, tuple(states) if isinstance(hx, (tuple, list)) else states[0], *weights)
    return s.note(s.function.__name__, [input, states if isinstance(hx, (tuple, list)) else states[0], *weights], out)


def _first_cell_state(s: Steps, input: Tensor, state: Tensor) -> Tensor:
    if s.tracer.is_known(state) or state._array.ndim != 2 or state._array.any():
        return state
    with s.tracer.again():
        return ops.zeros(input.shape[0], state._array.shape[1], dtype=state.dtype, device=state.device)


def _first_state(s: Steps, input: Tensor, state: Tensor, batch_first: bool) -> Tensor:
    """The state that a layer makes when none is given: zeros for any size of the batch."""
    if s.tracer.is_known(state) or state._array.any():
        return state
    with s.tracer.again():
        layers, _, width = state._array.shape
        batch = input.shape[0 if batch_first else 1]
        return ops.zeros(layers, batch, width, dtype=state.dtype, device=state.device)


def _max_unpool(rank: int) -> Any:
    def lower(
        s: Steps, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Tensor:  # fmt: skip
        size, around = listed(kernel_size, rank), listed(padding, rank)
        steps = size if stride is None else listed(stride, rank)
        if output_size is None:
            with s.tracer.again():
                shape = list(input.shape)[-rank:]
                wanted = [(n - 1) * step + k - 2 * p for n, step, k, p in zip(shape, steps, size, around)]
        else:
            s.function(input, indices, kernel_size, stride, padding, output_size)  # which checks it
            wanted = list(output_size)[-rank:]
        if rank == 1:
            lines = (s.do("unsqueeze", t, -1) for t in (input, indices))
            return s.do("squeeze", s.do("max_unpool2d", *lines, [*wanted, 1]), -1)
        return s.do(f"max_unpool{rank}d", input, indices, wanted, *((steps, around) if rank == 3 else ()))

    return lower


def _fractional(rank: int) -> Any:
    def lower(s: Steps, *args: Any, **named: Any) -> Any:
        given = arguments_of(s.function, args, named)
        x, wanted, samples = given["input"], given["output_size"], given["_random_samples"]
        with s.tracer.again():
            shape = list(x.shape)
            if wanted is None:
                wanted = [int(n * r) for n, r in zip(shape[-rank:], listed(given["output_ratio"], rank))]
            if samples is None:
                count = 1 if len(shape) == rank + 1 else shape[0]
                samples = ops.rand(count, shape[-rank - 1], rank, dtype=x.dtype, device=x.device)
        out = s.do(f"fractional_max_pool{rank}d", x, listed(given["kernel_size"], rank), listed(wanted, rank), samples)
        return out if given["return_indices"] else out[0]

    return lower


for _rank in (1, 2, 3):
    SPECIAL[f"max_unpool{_rank}d"] = _max_unpool(_rank)
    if _rank > 1:
        SPECIAL[f"fractional_max_pool{_rank}d"] = _fractional(_rank)
