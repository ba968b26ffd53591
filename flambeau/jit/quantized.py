"""Scripted layers of int8 weights, which PyTorch has retired: the names can be imported, and say what took their place."""

from __future__ import annotations

from typing import Any

from .. import nn

__all__ = [
    "QuantizedGRU", "QuantizedGRUCell", "QuantizedLSTM", "QuantizedLSTMCell", "QuantizedLinear", "QuantizedLinearFP16",
    "QuantizedRNNBase", "QuantizedRNNCell", "QuantizedRNNCellBase", "quantize_linear_modules", "quantize_rnn_cell_modules",
    "quantize_rnn_modules",
]  # fmt: skip


def _retired(name: str, place: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"torch.jit.{name} is no longer supported. Please use the torch.ao.nn.quantized.dynamic{place} instead."
        )

    return refuse if name.islower() else type(name, (nn.Module,), {"__init__": refuse, "__module__": __name__})


QuantizedLinear, QuantizedLinearFP16 = (
    _retired(name, ".Linear") for name in ("QuantizedLinear", "QuantizedLinearFP16")
)
QuantizedLSTM, QuantizedGRU = _retired("QuantizedLSTM", ".LSTM"), _retired("QuantizedGRU", ".GRU")
QuantizedLSTMCell, QuantizedGRUCell = (
    _retired("QuantizedLSTMCell", ".LSTMCell"),
    _retired("QuantizedGRUCell", ".GRUCell"),
)
QuantizedRNNCell, QuantizedRNNCellBase = (_retired(n, ".RNNCell") for n in ("QuantizedRNNCell", "QuantizedRNNCellBase"))
QuantizedRNNBase = _retired("QuantizedRNNBase", "")
quantize_linear_modules = _retired("quantize_linear_modules", "")
quantize_rnn_modules = _retired("quantize_rnn_modules", "")
quantize_rnn_cell_modules = _retired("quantize_rnn_cell_modules", "")
