"""The examples of CONTRIBUTING.md are executed as they stand there."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops import families, registry
from flambeau._ops.pointwise import activation
from flambeau._tensor import methods as _methods

TEXT = (Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text()
NEW = ("softcap", "softcap_", "smooth", "volume", "centred")
EXAMPLES = dict(
    zip(("body", "loop", "array", "composite"), re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL), strict=True)
)


@contextlib.contextmanager
def added(kind, tmp_path):
    """The operations of an example while it lasts."""
    families.load_all()  # what else the examples use stays
    tables, attributes = (registry.records, registry.functions, registry.methods), dict(vars(torch.Tensor))
    before = [dict(table) for table in tables]
    path = tmp_path / f"{kind}_example.py"  # kernels are compiled from their source
    path.write_text(EXAMPLES[kind])
    try:
        exec(
            compile(EXAMPLES[kind], path, "exec"), dict(vars(activation)) if kind == "body" else {"__name__": "example"}
        )
        _methods.attach()
        yield registry.functions
    finally:
        for table, old in zip(tables, before):
            table.clear()
            table.update(old)
        for name in NEW:
            for place in (registry.ops, torch.Tensor):
                if name in vars(place):
                    delattr(place, name)
        for name, value in attributes.items():  # modes know the methods that were there
            if vars(torch.Tensor)[name] is not value:
                setattr(torch.Tensor, name, value)


def differentiable(function, x):
    """By backward passes, twice, and by forward mode; the same on a batch as on its samples."""
    assert torch.autograd.gradcheck(function, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (x,))
    batch = torch.stack([x.detach(), x.detach() * 2])
    np.testing.assert_allclose(torch.func.vmap(function)(batch), torch.stack([function(t) for t in batch]))
    assert function(torch.empty_like(x, device="meta")).shape == function(x.detach()).shape


def test_a_body(tmp_path):
    with added("body", tmp_path) as functions:
        softcap, x = functions["softcap"], torch.tensor([-3.0, 0.1, 8.0], dtype=torch.float64, requires_grad=True)
        out = softcap(x, 2.0)
        np.testing.assert_allclose(out.detach().numpy(), 2 * np.tanh(x.detach().numpy() / 2))
        differentiable(lambda t: softcap(t, 2.0), x)
        y = x.detach().clone()
        assert y.softcap_(2.0) is y and torch.equal(y, out.detach())


def test_a_loop(tmp_path):
    with added("loop", tmp_path) as functions:
        smooth, x = functions["smooth"], torch.rand(3, 5, dtype=torch.float64, requires_grad=True)
        a = x.detach().numpy()
        for _ in range(4):  # the last calls are planned
            np.testing.assert_allclose(smooth(x).detach(), a + 0.5 * np.pad(a, ((0, 0), (1, 0)))[:, :-1])
        differentiable(smooth, x)
        np.testing.assert_allclose(x.detach().smooth(), smooth(x).detach())


@pytest.mark.skipif(not isinstance(getattr(torch.exp, "__self__", None), site.Site), reason="without the native entry")
def test_a_loop_is_planned(tmp_path):
    with added("loop", tmp_path) as functions:
        smooth = functions["smooth"]
        for _ in range(3):
            smooth(torch.rand(3, 5))
        assert any(plan.counts[2] for _, _, (plan, _) in smooth.__self__.table.kept)


def test_an_array_call(tmp_path):
    with added("array", tmp_path) as functions:
        volume, x = functions["linalg.volume"], torch.rand(2, 3, 3, dtype=torch.float64, requires_grad=True)
        np.testing.assert_allclose(volume(x).detach(), np.linalg.det(x.detach().numpy()))
        differentiable(volume, x)


def test_a_composite(tmp_path):
    with added("composite", tmp_path) as functions:
        centred, x = functions["centred"], torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
        assert float(centred(x).detach().sum().abs()) < 1e-12
        differentiable(centred, x)
