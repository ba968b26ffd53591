"""The examples reach what their first lines say; the demo learns."""

import importlib.util
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import _demo

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_newton_finds_the_minimum():
    assert torch.allclose(load("newton").main(), torch.ones(2, dtype=torch.float64), atol=1e-9)


def test_a_throw_is_fitted():
    assert load("fit_a_throw").main() < 0.01


def test_the_demo_learns_and_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib")  # part of the test requirements; the package itself does not need it
    picture = tmp_path / "curve.png"
    assert _demo.run(steps=1500, seed=0, picture=str(picture)) == 0
    said = capsys.readouterr().out
    accuracy = float(said.split("test accuracy ")[1].split("%")[0])
    assert accuracy > 95
    assert picture.read_bytes().startswith(b"\x89PNG")
