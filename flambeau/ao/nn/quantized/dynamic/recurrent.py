"""Recurrent layers with integer weights whose inputs and states are quantized while the model runs."""

from __future__ import annotations

from typing import Any, ClassVar

from ....._core.dtypes import dtype as _dtype
from ....._core.dtypes import float16, float32, qint8
from ....._ops.quantized.linear import dynamic_linear
from ....._ops.registry import ops
from ....._tensor import Tensor
from .....nn.modules import rnn
from .....nn.modules.module import Module
from .....nn.utils.rnn import PackedSequence
from ..modules import quantize_weight

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "RNNCell"]


def _weight_as(mod: Any, weight: Tensor, kind: _dtype) -> Tensor:
    """A weight as integers, by an observer of the qconfig, or as float16."""
    if kind is float16:
        return weight.detach().to(float16)
    qconfig = getattr(mod, "qconfig", None)
    if qconfig is not None and qconfig.weight is not None:
        observer = qconfig.weight()
    else:
        from ....quantization.qconfig import default_dynamic_qconfig  # it knows these layers

        observer = default_dynamic_qconfig.weight()
    observer(weight)
    return quantize_weight(weight, observer)


def _kind_of(mod: Any) -> _dtype:
    qconfig = getattr(mod, "qconfig", None)
    kind = qint8 if qconfig is None or qconfig.weight is None else qconfig.weight().dtype
    if kind not in (qint8, float16):
        raise RuntimeError(f"Unsupported dtype specified for dynamic quantized {type(mod).__name__}: {kind}")
    return kind


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    """x · weightᵀ + bias, with the input rounded by a scale that fits it."""
    if weight.dtype is float16:
        return ops.linear(x, weight.to(float32), bias)
    return dynamic_linear(x, weight, bias)


def _lstm_step(seen: Tensor, state: Any, own: Any) -> Any:
    i, f, g, o = ops.chunk(seen + own(state[0]), 4, 1)
    cell = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(cell), cell


def _gru_step(seen: Tensor, state: Any, own: Any) -> Any:
    (r, z, n), (hr, hz, hn) = ops.chunk(seen, 3, 1), ops.chunk(own(state[0]), 3, 1)
    update = ops.sigmoid(z + hz)
    return ((state[0] - (fresh := ops.tanh(n + ops.sigmoid(r + hr) * hn))) * update + fresh,)


def _simple_step(function: Any) -> Any:
    return lambda seen, state, own: (function(seen + own(state[0])),)


def _weights_of(mod: Any, end: str, kind: _dtype, drawn: list[Any], scale: float) -> list[Any]:
    """Weights and biases of one layer and direction: those of a float module, or what was drawn where it has none (on `meta`)."""
    weights = [getattr(mod, f"weight_{part}{end}") for part in ("ih", "hh")]
    if not weights[0].is_meta:
        biases = [getattr(mod, f"bias_{part}{end}").detach() if mod.bias else None for part in ("ih", "hh")]
        return [*[_weight_as(mod, w, kind) for w in weights], *biases]
    rounded = [w.to(float16) if kind is float16 else ops.quantize_per_tensor(w, scale, 0, qint8) for w in drawn[:2]]
    return [*rounded, *(drawn[2:] if mod.bias else (None, None))]


# -- layers over sequences --------------------------------------------------------------------------------------------


class _Recurrent(Module):
    def _take(self, mod: Any, kind: _dtype) -> None:
        """Settings of a float module, and its weights as integers."""
        raise NotImplementedError

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module with a qconfig."""
        made = cls.__new__(cls)
        Module.__init__(made)
        made._take(mod, _kind_of(mod))
        return made


class _Layer(_Recurrent):
    """A recurrent layer, given by a float one."""

    _float: ClassVar[Any]
    _states: ClassVar[int]
    _step: ClassVar[Any]

    def __init__(self, *args: Any, dtype: _dtype = qint8, **kwargs: Any) -> None:
        super().__init__()
        self._take(self._float(*args, **kwargs, device="meta"), dtype)

    def _take(self, mod: Any, kind: _dtype) -> None:
        for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
            setattr(self, name, getattr(mod, name))
        self.dtype, self.mode = kind, mod.mode
        self._weights: list[list[Any]] = []  # of every layer and direction: input and state weight, both biases
        for layer in range(self.num_layers):
            for end in ("", "_reverse") if self.bidirectional else ("",):
                weights = [getattr(mod, f"weight_{part}_l{layer}{end}") for part in ("ih", "hh")]
                # drawn for what comes from a float module, too, as in PyTorch: random numbers that follow are the same
                drawn = [ops.randn(shape) for shape in (*[w.shape for w in weights], *[weights[0].shape[:1]] * 2)]
                self._weights.append(_weights_of(mod, f"_l{layer}{end}", kind, drawn, 0.1))

    def _get_name(self) -> str:
        return "DynamicQuantized" + type(self).__name__

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        shown = {"num_layers": 1, "batch_first": False, "dropout": 0, "bidirectional": False}
        text += "".join(f", {k}={getattr(self, k)}" for k, usual in shown.items() if getattr(self, k) != usual)
        return text if self.bias else text + ", bias=False"

    def get_weight(self) -> dict[str, Tensor]:
        """The weights by name."""
        return self._named(0, "weight")

    def get_bias(self) -> dict[str, Tensor]:
        """The biases by name."""
        return self._named(2, "bias") if self.bias else {}

    def _named(self, first: int, what: str) -> dict[str, Tensor]:
        both, found = 2 if self.bidirectional else 1, {}
        for number, group in enumerate(self._weights):
            end = f"l{number // both}" + ("_reverse" if number % both else "")
            found[f"{what}_ih_{end}"], found[f"{what}_hh_{end}"] = group[first], group[first + 1]
        return found

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for number, group in enumerate(self._weights):
            destination[f"{prefix}_all_weight_values.{number}"] = tuple(group)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, *rest: Any
    ) -> None:
        for number in range(len(self._weights)):
            key = f"{prefix}_all_weight_values.{number}"
            if key in state_dict:
                self._weights[number] = list(state_dict[key])
            else:
                missing.append(key)
        others = {k: v for k, v in state_dict.items() if not k.startswith(prefix + "_all_weight_values.")}
        super()._load_from_state_dict(others, prefix, metadata, strict, missing, *rest)

    def _direction(self, x: Tensor, group: list[Any], state: Any, backwards: bool) -> tuple[Any, Any]:
        """One layer in one direction over time × batch × features."""
        seen = ops.unbind(_linear(x, group[0], group[2]), 0)
        outs = []
        for here in reversed(seen) if backwards else seen:
            state = type(self)._step(here, state, lambda h: _linear(h, group[1], group[3]))
            outs.append(state[0])
        return ops.stack(outs[::-1] if backwards else outs), state

    def _run(self, x: Tensor, states: Any) -> tuple[Any, Any]:
        both, finals = 2 if self.bidirectional else 1, []
        for layer in range(self.num_layers):
            outs = []
            for way in range(both):
                number = layer * both + way
                out, state = self._direction(x, self._weights[number], [s[number] for s in states], way == 1)
                outs.append(out)
                finals.append(state)
            x = ops.cat(outs, -1) if both == 2 else outs[0]
            if self.dropout and self.training and layer + 1 < self.num_layers:
                x = ops.dropout(x, self.dropout, True)
        return x, [ops.stack(list(same)) for same in zip(*finals)]

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        single = input.dim() == 2
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        states = self._first_states(x.shape[1], hx, single)
        out, finals = self._run(x, states)
        out = out.squeeze(1) if single else out.transpose(0, 1) if self.batch_first else out
        finals = [s.squeeze(1) for s in finals] if single else finals
        return out, finals[0] if self._states == 1 else tuple(finals)

    def _first_states(self, batch: int, hx: Any, single: bool = False) -> list[Any]:
        if hx is None:
            shape = (len(self._weights), batch, self.hidden_size)
            return [ops.zeros(shape) for _ in range(self._states)]
        given = [hx] if self._states == 1 else list(hx)
        return [s.unsqueeze(1) for s in given] if single else given

    def _packed(self, input: PackedSequence, hx: Any) -> Any:
        """Each sequence by itself, over its own length."""
        from .....nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

        padded, lengths = pad_packed_sequence(input)
        states = self._first_states(len(lengths), hx)
        rows, finals = [], []
        for number, length in enumerate(lengths.tolist()):
            out, last = self._run(padded[:length, number : number + 1], [s[:, number : number + 1] for s in states])
            rows.append(ops.pad(out, (0, 0, 0, 0, 0, padded.shape[0] - length)))
            finals.append(last)
        made = pack_padded_sequence(ops.cat(rows, 1), lengths, enforce_sorted=input.sorted_indices is None)
        joined = [ops.cat(list(same), 1) for same in zip(*finals)]
        return made, joined[0] if self._states == 1 else tuple(joined)


class LSTM(_Layer):
    """An LSTM with integer weights.

    >>> import flambeau as torch
    >>> model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.LSTM(2, 3)), {torch.nn.LSTM})
    >>> model
    Sequential(
      (0): DynamicQuantizedLSTM(2, 3)
    )
    >>> model(torch.ones(4, 1, 2))[0].shape
    torch.Size([4, 1, 3])
    """

    _float, _states, _step = rnn.LSTM, 2, staticmethod(_lstm_step)


class GRU(_Layer):
    """A GRU with integer weights."""

    _float, _states, _step = rnn.GRU, 1, staticmethod(_gru_step)


# -- cells -----------------------------------------------------------------------------------------------------------


class _Cell(_Recurrent):
    """One step of a recurrent layer."""

    _float: ClassVar[Any]
    _states = 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: _dtype = qint8) -> None:
        super().__init__()
        self._take(self._float(input_size, hidden_size, bias, device="meta"), dtype)

    def _take(self, mod: Any, kind: _dtype) -> None:
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = (
            mod.input_size,
            mod.hidden_size,
            mod.bias,
            kind,
        )
        weights = mod.weight_ih, mod.weight_hh
        biases = [ops.randn(w.shape[:1]) if mod.bias else None for w in weights]  # drawn first, and always (as above)
        self._weights = _weights_of(mod, "", kind, [*[ops.randn(w.shape) for w in weights], *biases], 1.0)

    def _get_name(self) -> str:
        return "DynamicQuantized" + type(self).__name__

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")

    def get_weight(self) -> dict[str, Tensor]:
        """The weights by name."""
        return {"weight_ih": self._weights[0], "weight_hh": self._weights[1]}

    def get_bias(self) -> dict[str, Tensor]:
        """The biases by name."""
        return {"bias_ih": self._weights[2], "bias_hh": self._weights[3]} if self.bias else {}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = (self._weights[0], self._weights[2])
        destination[prefix + "_packed_weight_hh"] = (self._weights[1], self._weights[3])

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, *rest: Any
    ) -> None:
        for place, key in enumerate((prefix + "_packed_weight_ih", prefix + "_packed_weight_hh")):
            if key in state_dict:
                self._weights[place], self._weights[place + 2] = state_dict[key]
            else:
                missing.append(key)
        others = {k: v for k, v in state_dict.items() if not k.startswith(prefix + "_packed_weight_")}
        super()._load_from_state_dict(others, prefix, metadata, strict, missing, *rest)

    def _next(self, seen: Tensor, state: Any, own: Any) -> Any:
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        if input.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]}, expected {self.input_size}")
        if hx is None:
            hx = [ops.zeros((input.shape[0], self.hidden_size)) for _ in range(self._states)]
        state = hx if isinstance(hx, (list, tuple)) else [hx]
        w_ih, w_hh, b_ih, b_hh = self._weights
        made = self._next(_linear(input, w_ih, b_ih), state, lambda h: _linear(h, w_hh, b_hh))
        return made[0] if self._states == 1 else tuple(made)


class LSTMCell(_Cell):
    """One step of an LSTM with integer weights."""

    _float, _states = rnn.LSTMCell, 2

    def _next(self, seen: Tensor, state: Any, own: Any) -> Any:
        return _lstm_step(seen, state, own)


class GRUCell(_Cell):
    """One step of a GRU with integer weights."""

    _float = rnn.GRUCell

    def _next(self, seen: Tensor, state: Any, own: Any) -> Any:
        return _gru_step(seen, state, own)


class RNNCell(_Cell):
    """One step of a simple recurrent layer with integer weights."""

    _float = rnn.RNNCell

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: _dtype = qint8
    ) -> None:
        Module.__init__(self)
        self._take(self._float(input_size, hidden_size, bias, nonlinearity=nonlinearity, device="meta"), dtype)

    def _take(self, mod: Any, kind: _dtype) -> None:
        super()._take(mod, kind)
        self.nonlinearity = mod.nonlinearity

    def _next(self, seen: Tensor, state: Any, own: Any) -> Any:
        return _simple_step(ops.relu if self.nonlinearity == "relu" else ops.tanh)(seen, state, own)
