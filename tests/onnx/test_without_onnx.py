"""What does not need the package onnx: names that programs import, and the error that says what is missing."""

import importlib
import sys

import pytest

import flambeau as torch


def test_names():
    from flambeau.onnx import OperatorExportTypes, TrainingMode
    from flambeau.onnx.symbolic_helper import parse_args

    assert OperatorExportTypes.ONNX == 0 and TrainingMode.EVAL == 0 and not torch.onnx.is_in_onnx_export()
    opset = importlib.import_module("flambeau.onnx.symbolic_opset11")
    assert callable(opset.relu)
    with pytest.raises(AttributeError):
        _ = opset.no_such_operator

    @parse_args("v", "i")
    def form(g, x, n):
        return n

    assert form(None, None, 3) == 3


def test_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"pip install flambeau\[onnx\]"):
        torch.onnx.export(torch.nn.ReLU(), torch.ones(1), "unused.onnx")
