"""First and second derivatives of every sample call, by finite differences in float64."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

import flambeau as torch

_spec = importlib.util.spec_from_file_location("samples", Path(__file__).resolve().parent.parent / "samples.py")
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)

WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?!\s*=[^=])")
OPERANDS = samples.operands(torch, "float64")
REAL = {
    name
    for name, t in OPERANDS.items()
    if t.requires_grad and t.dtype in (torch.float64, torch.float32) and t.numel() < 200
}
CALLS = sorted(
    call for call in {call for family in samples.SAMPLES.values() for call in family}
    if not any(word in call for word in (";", "autograd.grad", "detach()"))
)  # fmt: skip

ROUNDED = ("to(torch.float16)", "to(torch.bfloat16)", "to(torch.complex64)")  # differences of such results say nothing
LONG = ("grid_sample(u, torch.tanh", "polygamma(1, p)", "lstm_cell(")  # others of the same records are short
ONCE = ("ctc_loss",)  # what has no second derivative, in PyTorch neither


def function_of(call):
    """A function of the real operands in an expression, and those operands."""
    names = [name for name in dict.fromkeys(WORD.findall(call)) if name in REAL]
    code = compile(call, call, "eval")

    def function(*given):
        torch.manual_seed(0)  # random operations draw the same each time
        space = {**OPERANDS, **dict(zip(names, given)), "torch": torch, "dev": "cpu", "F": torch.nn.functional}
        space["ones"] = lambda *shape: torch.ones(*shape, dtype=torch.float64)
        return eval(code, space)

    return function, [OPERANDS[name].detach().double().requires_grad_() for name in names]


def parts_of(result):
    return result if isinstance(result, (tuple, list)) else (result,)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, marks=[pytest.mark.slow] if any(part in call for part in LONG) else [])
        for call in CALLS
        if not REAL.isdisjoint(WORD.findall(call)) and not any(part in call for part in ROUNDED)
    ],
)
def test_derivatives(call):
    function, inputs = function_of(call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = parts_of(function(*inputs))
        histories = [isinstance(t, torch.Tensor) and t.requires_grad for t in results]
        if not any(histories):  # integers, truth values, new tensors
            for t in results:
                assert not isinstance(t, torch.Tensor) or t.grad_fn is None
            return
        chosen = [i for i, t in enumerate(results) if histories[i] and t.dtype in (torch.float64, torch.complex128)]
        assert chosen

        def outputs(*given):
            parts = parts_of(function(*given))
            return tuple(parts[i] for i in chosen)

        assert torch.autograd.gradcheck(outputs, inputs)
        if not any(name in call for name in ONCE):
            assert torch.autograd.gradgradcheck(outputs, inputs)
