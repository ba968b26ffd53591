"""Every operation's samples as programs: what was found out with some numbers holds for others, gradients included."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from program_reference import captured, interpreted, same_bits

import flambeau as torch
from flambeau._compile.capture import Break
from flambeau._compile.program import Program

_spec = importlib.util.spec_from_file_location("samples", Path(__file__).resolve().parent.parent / "samples.py")
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)
SAMPLES, operands = samples.SAMPLES, samples.operands
pytestmark = pytest.mark.filterwarnings("ignore")
UNLIKE = ("rand", "empty", "repr", "dropout", "multinomial", "normal", "seed", "data_ptr", "autograd.grad", "backward")


def numbers(seed):
    """The operands, their elements in another order for each seed."""
    random, found = np.random.default_rng(seed), {}
    for name, t in operands(torch).items():
        grad, t = t.requires_grad, t.detach()
        if seed and t.numel() and t.dim() and t.is_contiguous():
            order = torch.from_numpy(random.permutation(t.numel()))
            t = t.reshape(-1)[order].reshape(t.shape)
        found[name] = t.clone().requires_grad_(grad)
    return found


def evaluated(text, names, grad):
    def function(*given):
        space = {"torch": torch, "dev": "cpu", "ones": torch.ones, **dict(zip(names, given))}
        with torch.set_grad_enabled(grad):
            if ";" in text:
                exec(text, space)
                out = space["out"]
            else:
                out = eval(text, space)
            outs = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, torch.Tensor)]
            parts = [t for t in outs if t.requires_grad]
            if parts:
                weights = [torch.linspace(0.5, 1.5, t.numel()).reshape(t.shape).to(t.dtype) for t in parts]
                inputs = [t for t in given if t.requires_grad]
                outs += [g for g in torch.autograd.grad(parts, inputs, weights, allow_unused=True) if g is not None]
        return outs

    return function


def check(text, grad):
    """Whether a sample can be recorded; its program must agree with its nodes, then."""
    values = numbers(0)
    names = list(values)
    function = evaluated(text, names, grad)
    try:
        graph = captured(function, list(values.values()))
    except Exception as error:  # what reads elements, or has no gradient
        assert isinstance(error, (Break, RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)), text
        return False
    program = Program(graph)
    for seed in (0, 1, 2):
        try:
            expected = interpreted(graph, list(numbers(seed).values()))
        except (RuntimeError, IndexError):  # numbers that the operation does not take
            continue
        for _ in range(2 - (seed > 0)):
            found = program.run(list(numbers(seed).values()))
            for a, b in zip(found, expected, strict=True):
                a, b = a.detach().resolve_conj().resolve_neg(), b.detach().resolve_conj().resolve_neg()
                assert a.layout is not torch.strided or same_bits(a, b), (text, seed, str(graph), a, b)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(SAMPLES))
def test_samples(family):
    for text in SAMPLES[family]:
        if not any(word in text for word in UNLIKE):
            check(text, True)
