"""Forms of operators for opset 10, as functions (g, arguments…): `g` is what `register_custom_op_symbolic` hands over."""

from __future__ import annotations

from ._symbolic import forms

__getattr__ = forms(10)
