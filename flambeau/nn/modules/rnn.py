"""Recurrent layers and cells: RNN, LSTM, GRU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core.state import AUTOCAST, FUNCTION_MODE, GRAD, local, modes
from ..._errors.frames import warn_user
from ..._ops.registry import ops
from ..._tensor import Tensor, wrap
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _zeros(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """A first state for an input."""
    if input._k & ~GRAD or modes.on & ~FUNCTION_MODE:  # a trace makes the states for any batch itself
        return ops.zeros(size, dtype=input.dtype, device=input.device)
    return wrap(np.zeros(size, input.dtype.numpy), input.dtype)


def _permuted(t: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return ops.index_select(t, dim, permutation)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters by layer and direction, and the checks of inputs and states."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size",
    ]  # fmt: skip
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._check_options(dropout)
        width = proj_size or hidden_size
        gates = _GATES[mode] * hidden_size
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            features = input_size if layer == 0 else width * (2 if bidirectional else 1)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes: dict[str, Any] = {"weight_ih": (gates, features), "weight_hh": (gates, width)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(ops.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names += names
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], the probability of a zero, got {dropout}")
        if dropout > 0 and self.num_layers == 1:
            warn_user(
                "dropout comes after every recurrent layer but the last, so it expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={self.num_layers}"
            )
        for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
            if not isinstance(getattr(self, name), kind):
                given = type(getattr(self, name)).__name__
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {given}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {self.mode}")

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters in order: looked up each time, so that they are never out of date."""
        held = self._parameters
        return [held[n] if n in held else getattr(self, n, None) for n in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Any) -> None:
        """What is assigned to is always there already."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing is to be done: parameters need not lie in one piece of memory."""

    def reset_parameters(self) -> None:
        """Uniform random numbers between ±1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises unless an input has the rank, dtype and features that the module wants."""
        weight = self._flat_weights[0]
        if input.dtype is not weight.dtype and not (modes.on & AUTOCAST and local.autocast):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input._array.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input._array.ndim}")
        if input._array.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input._array.shape[-1]}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, width) of the hidden state."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def _state_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input._array.shape[0 if self.batch_first else 1]
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raises unless a state has the expected size."""
        if tuple(hx._array.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx._array.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises unless input and states fit the module."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """A state with its batch in another order."""
        return hx if permutation is None else _permuted(hx, permutation)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False,
        }  # fmt: skip
        parts += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join(parts)

    # -- what the forward methods share ------------------------------------------------------------------------

    def _rank_problem(self, rank: int, states: str, ranks: str) -> RuntimeError:
        kind = "batched" if rank == 3 else "unbatched"
        return RuntimeError(f"For {kind} {rank}-D input, {states} should also be {rank}-D but got {ranks}")

    def _run(self, function: Any, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> Any:
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            return function(input, hx, *options, self.batch_first)
        return function(input, batch_sizes, hx, *options)

    def _prepared(self, input: Any) -> tuple[Any, Any, Any, Any, bool]:
        """(input, batch_sizes, sorted_indices, unsorted_indices, whether it is a batch) of any form of input."""
        if isinstance(input, PackedSequence):
            return (*input, True)
        rank = input._array.ndim
        if rank not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {rank}D instead")
        if rank == 2:
            return ops.unsqueeze(input, 0 if self.batch_first else 1), None, None, None, False
        return input, None, None, None, True

    def _single_state_forward(self, function: Any, input: Any, hx: Tensor | None) -> tuple[Any, Tensor]:
        """The forward pass of networks with one state."""
        given = input
        input, batch_sizes, sorted_indices, unsorted_indices, batched = self._prepared(input)
        if hx is None:
            hx = _zeros(input, self.get_expected_hidden_size(input, batch_sizes))
        else:
            if batch_sizes is None and hx.dim() != (3 if batched else 2):
                raise self._rank_problem(3 if batched else 2, "hx", f"{hx.dim()}-D tensor")
            if not batched:
                hx = ops.unsqueeze(hx, 1)
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        out, last = self._run(function, input, hx, batch_sizes)
        if batch_sizes is not None:
            return PackedSequence(out, *given[1:]), self.permute_hidden(last, unsorted_indices)
        if not batched:
            return ops.squeeze(out, 0 if self.batch_first else 1), ops.squeeze(last, 1)
        return out, last


class RNN(RNNBase):
    """Layers of h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh), or relu for `nonlinearity="relu"`.

    Takes RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
    bidirectional=False). Gives the outputs of all steps and the last state of every layer.

    >>> import flambeau as torch
    >>> out, h = torch.nn.RNN(3, 4, num_layers=2)(torch.ones(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]))
    """

    nonlinearity: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        function = ops.rnn_tanh if self.mode == "RNN_TANH" else ops.rnn_relu
        return self._single_state_forward(function, input, hx)


class GRU(RNNBase):
    """Gated recurrent layers: r, z = sigmoid(…), n = tanh(… + r * (h @ W_hn.T + b_hn)), h' = (1 - z) * n + z * h.

    Takes GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False).

    >>> import flambeau as torch
    >>> out, h = torch.nn.GRU(3, 4, bidirectional=True)(torch.ones(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._single_state_forward(ops.gru, input, hx)


class LSTM(RNNBase):
    """Long short-term memory: i, f, o = sigmoid(…), g = tanh(…), c' = f * c + i * g, h' = o * tanh(c').

    Takes LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
    proj_size=0). Gives the outputs of all steps and the last states (h, c) of every layer.

    >>> import flambeau as torch
    >>> out, (h, c) = torch.nn.LSTM(3, 4, batch_first=True)(torch.ones(2, 5, 3))
    >>> out.shape, h.shape, c.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size) of the cell state."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises unless input and both states fit the module."""
        self.check_input(input, batch_sizes)
        for i, size in enumerate((self.get_expected_hidden_size, self.get_expected_cell_size)):
            message = f"Expected hidden[{i}] size {{}}, got {{}}"
            self.check_hidden_size(hidden[i], size(input, batch_sizes), message)

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Both states with their batch in another order."""
        return hx if permutation is None else (_permuted(hx[0], permutation), _permuted(hx[1], permutation))

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        given = input
        input, batch_sizes, sorted_indices, unsorted_indices, batched = self._prepared(input)
        if hx is None:
            size = self.get_expected_hidden_size(input, batch_sizes)
            hx = (_zeros(input, size), _zeros(input, (*size[:2], self.hidden_size)))
        else:
            ranks = [hx[i].dim() for i in range(2)]
            rank = 3 if batched else 2
            if batch_sizes is None and ranks != [rank, rank]:
                raise self._rank_problem(rank, "hx and cx", f"({ranks[0]}-D, {ranks[1]}-D) tensors")
            if not batched:
                hx = (ops.unsqueeze(hx[0], 1), ops.unsqueeze(hx[1], 1))
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        out, h, c = self._run(ops.lstm, input, hx, batch_sizes)
        if batch_sizes is not None:
            return PackedSequence(out, *given[1:]), self.permute_hidden((h, c), unsorted_indices)
        if not batched:
            return ops.squeeze(out, 0 if self.batch_first else 1), (ops.squeeze(h, 1), ops.squeeze(c, 1))
        return out, (h, c)


# -- cells ---------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: the parameters of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(ops.empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(ops.empty((gates, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(ops.empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    reset_parameters = RNNBase.reset_parameters

    def _check_rank(self, t: Tensor, what: str) -> None:
        if t.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {t.dim()}D instead")

    def _step(self, function: Any, input: Tensor, hx: Any) -> Any:
        return function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _single_state_forward(self, function: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        self._check_rank(input, "input")
        if hx is not None:
            self._check_rank(hx, "hidden")
        batched = input.dim() == 2
        if not batched:
            input = ops.unsqueeze(input, 0)
        if hx is None:
            hx = _zeros(input, (input._array.shape[0], self.hidden_size))
        elif not batched:
            hx = ops.unsqueeze(hx, 0)
        out = self._step(function, input, hx)
        return out if batched else ops.squeeze(out, 0)


class RNNCell(RNNCellBase):
    """One step of an `RNN`: tanh or relu of the input's and the state's affine maps.

    >>> import flambeau as torch
    >>> torch.nn.RNNCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell
        return self._single_state_forward(function, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: the next (h, c).

    >>> import flambeau as torch
    >>> h, c = torch.nn.LSTMCell(3, 4)(torch.ones(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        self._check_rank(input, "input")
        if hx is not None:
            for i, state in enumerate(hx):
                self._check_rank(state, f"hx[{i}]")
        batched = input.dim() == 2
        if not batched:
            input = ops.unsqueeze(input, 0)
        if hx is None:
            hx = (_zeros(input, (input._array.shape[0], self.hidden_size)),) * 2
        elif not batched:
            hx = (ops.unsqueeze(hx[0], 0), ops.unsqueeze(hx[1], 0))
        h, c = self._step(ops.lstm_cell, input, hx)
        return (h, c) if batched else (ops.squeeze(h, 0), ops.squeeze(c, 0))


class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    >>> import flambeau as torch
    >>> torch.nn.GRUCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._single_state_forward(ops.gru_cell, input, hx)
