"""The `forward` of our layers as TorchScript, for modules that are written as programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import nn
from ..nn.modules.module import Module
from . import _attention_texts, _loss_texts, _pool_texts
from ._trace_code import literal


def _values(*values: Any) -> str:
    return ", ".join(f"[{', '.join(map(literal, v))}]" if isinstance(v, (list, tuple)) else literal(v) for v in values)


def _each(value: Any, rank: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * rank


def _conv(m: Any) -> str:
    rank = m.weight.dim() - 2
    padding = m.padding if isinstance(m.padding, str) else list(m.padding)
    value = "input"
    if m.padding_mode != "zeros":
        value = f"torch.pad(input, {_values(list(m._reversed_padding_repeated_twice))}, {literal(m.padding_mode)})"
        padding = [0] * rank
    return f"torch.conv{rank}d({value}, self.weight, self.bias, {_values(list(m.stride), padding, list(m.dilation), m.groups)})"


def _conv_transpose(m: Any) -> str:
    rank = m.weight.dim() - 2
    rest = _values(list(m.stride), list(m.padding), list(m.output_padding), m.groups, list(m.dilation))
    return f"torch.conv_transpose{rank}d(input, self.weight, self.bias, {rest})"


def _batch_norm(m: Any) -> str:
    training = "self.training" if m.running_mean is not None else "True"
    call = f"torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, {training}, "
    count = (
        "if self.training:\n    _n = torch.add_(self.num_batches_tracked, 1)\n  "
        if m.num_batches_tracked is not None
        else ""
    )
    if m.momentum is None and count:  # the average of all batches
        share = "torch.div(1., float(torch.item(self.num_batches_tracked)))"
        count += f"if self.training:\n    share = {share}\n  else:\n    share = 0.\n  "
    momentum = "share" if m.momentum is None and count else _values(float(m.momentum or 0.0))
    return f"{count}return {call}{momentum}, {_values(float(m.eps), True)})"


def _instance_norm(m: Any) -> str:
    fresh = "self.training" if m.track_running_stats else "True"
    call = "torch.instance_norm({}, self.weight, self.bias, self.running_mean, self.running_var, "
    call += f"{fresh}, {_values(float(m.momentum or 0.0), float(m.eps), True)})"
    alone = call.format("torch.unsqueeze(input, 0)")
    return (
        f"if torch.eq(torch.dim(input), {m._get_no_batch_dim()}):\n    return torch.squeeze({alone}, 0)\n"
        f"  return {call.format('input')}"
    )


def _cell(m: Any) -> str:
    """One step of recurrence, for a batch or one sample, from a state or none."""
    weights = "self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh"
    zeros = (
        f"torch.zeros([torch.size(x, 0), {m.hidden_size}], dtype=ops.prim.dtype(input), device=ops.prim.device(input))"
    )
    start = "many = torch.eq(torch.dim(input), 2)\n  if many:\n    x = input\n  else:\n    x = torch.unsqueeze(input, 0)\n  "
    if isinstance(m, nn.LSTMCell):
        return (
            f"{start}if torch.__is__(hx, None):\n    h, c = {zeros}, {zeros}\n  else:\n"
            "    h, c = unchecked_cast(Tuple[Tensor, Tensor], hx)\n    if torch.__not__(many):\n"
            "      h, c = torch.unsqueeze(h, 0), torch.unsqueeze(c, 0)\n"
            f"  out, cell = torch.lstm_cell(x, [h, c], {weights})\n"
            "  if torch.__not__(many):\n    out, cell = torch.squeeze(out, 0), torch.squeeze(cell, 0)\n  return (out, cell)"
        )
    op = "gru_cell" if isinstance(m, nn.GRUCell) else f"rnn_{m.nonlinearity}_cell"
    return (
        f"{start}if torch.__is__(hx, None):\n    h = {zeros}\n  else:\n    h = unchecked_cast(Tensor, hx)\n"
        "    if torch.__not__(many):\n      h = torch.unsqueeze(h, 0)\n"
        f"  out = torch.{op}(x, h, {weights})\n"
        "  if torch.__not__(many):\n    out = torch.squeeze(out, 0)\n  return out"
    )


def _pool(kind: str) -> Callable[[Any], str]:
    def text(m: Any) -> str:
        rank = int(type(m).__name__[-2])
        size = _each(m.kernel_size, rank)
        steps = size if m.stride is None else _each(m.stride, rank)
        rest = [_each(m.padding, rank)]
        if kind == "max":
            rest += [_each(m.dilation, rank), m.ceil_mode]
            if m.return_indices:
                return f"torch.max_pool{rank}d_with_indices(input, {_values(size, steps, *rest)})"
        else:
            rest += [m.ceil_mode, m.count_include_pad, *([m.divisor_override] if rank > 1 else [])]
        return f"torch.{kind}_pool{rank}d(input, {_values(size, steps, *rest)})"

    return text


def _wanted(m: Any, rank: int) -> str:
    """The sizes of an adaptive pool's result, of which None are those of the input."""
    sizes = [
        f"torch.size(input, {i - rank})" if n is None else str(n) for i, n in enumerate(_each(m.output_size, rank))
    ]
    return f"[{', '.join(sizes)}]"


def _adaptive(m: Any) -> str:
    rank = int(type(m).__name__[-2])
    return f"torch.adaptive_avg_pool{rank}d(input, {_wanted(m, rank)})"


def _adaptive_max(m: Any) -> str:
    rank = int(type(m).__name__[-2])
    call = f"out, places = torch.adaptive_max_pool{rank}d(input, {_wanted(m, rank)})"
    return f"{call}\n  return {'(out, places)' if m.return_indices else 'out'}"


def _patches(op: str, *first: str) -> Callable[[Any], str]:
    def text(m: Any) -> str:
        names = (*first, "kernel_size", "dilation", "padding", "stride")
        return f"torch.{op}(input, {_values(*(_each(getattr(m, name), 2) for name in names))})"

    return text


def _recurrent(m: Any) -> str:
    """Layers of recurrence over a batch or one sequence, from states or none."""
    op, at = {"LSTM": "lstm", "GRU": "gru"}.get(m.mode) or m.mode.lower(), 0 if m.batch_first else 1
    weights = ", ".join(f"self.{name}" for group in m._all_weights for name in group)
    count = m.num_layers * (2 if m.bidirectional else 1)
    state = (
        f"torch.zeros([{count}, torch.size(x, {at}), {{}}], dtype=ops.prim.dtype(input), device=ops.prim.device(input))"
    )
    options = f"{m.bias}, {m.num_layers}, {float(m.dropout)}, self.training, {m.bidirectional}, {m.batch_first}"
    sizes = {"h": getattr(m, "proj_size", 0) or m.hidden_size, **({"c": m.hidden_size} if op == "lstm" else {})}
    kind = "Tuple[Tensor, Tensor]" if op == "lstm" else "Tensor"
    given = ", ".join(sizes)
    each = lambda form: ", ".join(form.format(name) for name in sizes)
    return f"""alone = torch.eq(torch.dim(input), 2)
  if alone:
    x = torch.unsqueeze(input, {at})
  else:
    x = input
  if torch.__is__(hx, None):
    {given} = {", ".join(state.format(size) for size in sizes.values())}
  else:
    {given} = unchecked_cast({kind}, hx)
    if alone:
      {given} = {each("torch.unsqueeze({}, 1)")}
  out, {each("last_{}")} = torch.{op}(x, {f"[{given}]" if op == "lstm" else given}, [{weights}], {options})
  if alone:
    out, {each("last_{}")} = torch.squeeze(out, {at}), {each("torch.squeeze(last_{}, 1)")}
  return (out, {"(last_h, last_c)" if op == "lstm" else "last_h"})"""


def _call(op: str, *names: str, **fixed: Any) -> Callable[[Any], str]:
    """`torch.op(input, values of attributes…)`."""

    def text(m: Any) -> str:
        given = [_values(getattr(m, n)) for n in names] + [f"{k}={_values(v)}" for k, v in fixed.items()]
        return f"torch.{op}({', '.join(['input', *given])})"

    return text


def _pad(mode: str) -> Callable[[Any], str]:
    return lambda m: (
        f"torch.pad(input, {_values(list(m.padding), mode, *((float(m.value),) if hasattr(m, 'value') else ()))})"
    )


_PAIR = "x1: Tensor,\n    x2: Tensor"
# Arguments of layers that take others than one tensor.
_ARGUMENTS: dict[type, str] = {
    nn.Bilinear: "input1: Tensor,\n    input2: Tensor", nn.CosineSimilarity: _PAIR, nn.PairwiseDistance: _PAIR,
    **dict.fromkeys((nn.RNN, nn.GRU, nn.RNNCell, nn.GRUCell), "input: Tensor,\n    hx: Optional[Tensor]=None"),
    **dict.fromkeys((nn.LSTM, nn.LSTMCell), "input: Tensor,\n    hx: Optional[Tuple[Tensor, Tensor]]=None"),
}  # fmt: skip
_N = (1, 2, 3)
_TEXTS: dict[type, Callable[[Any], str]] = {
    nn.modules.linear.NonDynamicallyQuantizableLinear: lambda m: "torch.linear(input, self.weight, self.bias)",
    nn.Linear: lambda m: "torch.linear(input, self.weight, self.bias)",
    nn.Identity: lambda m: "input",
    nn.Flatten: _call("flatten", "start_dim", "end_dim"),
    nn.Unflatten: lambda m: f"torch.unflatten(input, {m.dim}, {_values(list(m.unflattened_size))})",
    nn.ReLU: _call("relu"), nn.Sigmoid: _call("sigmoid"), nn.Tanh: _call("tanh"), nn.SiLU: _call("silu"),
    nn.Mish: _call("mish"), nn.ReLU6: _call("relu6"), nn.SELU: _call("selu"), nn.Hardswish: _call("hardswish"),
    nn.Hardsigmoid: _call("hardsigmoid"), nn.LogSigmoid: _call("log_sigmoid"), nn.ELU: _call("elu", "alpha"),
    nn.CELU: _call("celu", "alpha"), nn.LeakyReLU: _call("leaky_relu", "negative_slope"),
    nn.Hardtanh: _call("hardtanh", "min_val", "max_val"), nn.Softplus: _call("softplus", "beta", "threshold"),
    nn.Softshrink: _call("softshrink", "lambd"), nn.Hardshrink: _call("hardshrink", "lambd"),
    nn.Threshold: _call("threshold", "threshold", "value"), nn.GLU: _call("glu", "dim"),
    nn.GELU: lambda m: f"torch.gelu(input, approximate={literal(m.approximate)})",
    nn.PReLU: lambda m: "torch.prelu(input, self.weight)",
    nn.Dropout: lambda m: f"torch.dropout(input, {float(m.p)}, self.training)",
    **{getattr(nn, f"Dropout{n}d"): lambda m: f"torch.feature_dropout(input, {float(m.p)}, self.training)" for n in _N},
    **{getattr(nn, f"Conv{n}d"): _conv for n in _N},
    **{getattr(nn, f"ConvTranspose{n}d"): _conv_transpose for n in _N},
    **{getattr(nn, f"BatchNorm{n}d"): _batch_norm for n in _N},
    **{getattr(nn, f"MaxPool{n}d"): _pool("max") for n in _N},
    **{getattr(nn, f"AvgPool{n}d"): _pool("avg") for n in _N},
    **{getattr(nn, f"AdaptiveAvgPool{n}d"): _adaptive for n in _N},
    **{getattr(nn, f"ReflectionPad{n}d"): _pad("reflect") for n in _N},
    **{getattr(nn, f"ReplicationPad{n}d"): _pad("replicate") for n in _N},
    **{getattr(nn, f"ConstantPad{n}d"): _pad("constant") for n in _N},
    **{getattr(nn, f"ZeroPad{n}d"): _pad("constant") for n in _N},
    nn.LayerNorm: lambda m: f"torch.layer_norm(input, {_values(list(m.normalized_shape))}, self.weight, self.bias, {float(m.eps)})",
    nn.GroupNorm: lambda m: f"torch.group_norm(input, {m.num_groups}, self.weight, self.bias, {float(m.eps)})",
    nn.Embedding: lambda m: f"torch.embedding(self.weight, input, {-1 if m.padding_idx is None else m.padding_idx})",
    nn.LSTM: _recurrent, nn.GRU: _recurrent, nn.RNN: _recurrent,
    nn.PixelShuffle: _call("pixel_shuffle", "upscale_factor"),
    nn.PixelUnshuffle: _call("pixel_unshuffle", "downscale_factor"), nn.ChannelShuffle: _call("channel_shuffle", "groups"),
    nn.RNNCell: _cell, nn.GRUCell: _cell, nn.LSTMCell: _cell,
    **{getattr(nn, f"InstanceNorm{n}d"): _instance_norm for n in _N},
    **{getattr(nn, f"AdaptiveMaxPool{n}d"): _adaptive_max for n in _N},
    **{getattr(nn, f"CircularPad{n}d"): _pad("circular") for n in _N},
    nn.RMSNorm: lambda m: f"torch.rms_norm(input, {_values(list(m.normalized_shape))}, self.weight, {_values(m.eps)})",
    nn.Bilinear: lambda m: "torch.bilinear(input1, input2, self.weight, self.bias)",
    nn.CosineSimilarity: lambda m: f"torch.cosine_similarity(x1, x2, {_values(m.dim, m.eps)})",
    nn.PairwiseDistance: lambda m: f"torch.pairwise_distance(x1, x2, {_values(float(m.norm), m.eps, m.keepdim)})",
    nn.Softsign: lambda m: "torch.div(input, torch.add(torch.abs(input), 1))",
    nn.Tanhshrink: lambda m: "torch.sub(input, torch.tanh(input))",
    nn.Softmax2d: lambda m: "torch.softmax(input, -3)",
    nn.RReLU: lambda m: f"torch.rrelu(input, {_values(float(m.lower), float(m.upper))}, self.training)",
    nn.AlphaDropout: lambda m: f"torch.alpha_dropout(input, {float(m.p)}, self.training)",
    nn.Unfold: _patches("im2col"), nn.Fold: _patches("col2im", "output_size"),
}  # fmt: skip


def layer_text(module: Module) -> str | None:
    """The text of a layer's `forward`, with a bare `self`; None if the layer is none of ours."""
    kind = type(module)
    whole = _attention_texts.TEXTS.get(kind) or _loss_texts.TEXTS.get(kind) or _pool_texts.TEXTS.get(kind)
    if whole is not None:
        return whole(module)
    write = _TEXTS.get(type(module))
    if write is None:
        return None
    text = write(module)
    body = text if "\n" in text or text.startswith(("return ", "if ")) else f"return {text}"
    return f"def forward(self,\n    {_ARGUMENTS.get(type(module), 'input: Tensor')}):\n  {body}"
