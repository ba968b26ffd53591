"""The example of CONTRIBUTING.md is executed as it stands there."""

import re
from pathlib import Path

import numpy as np

import flambeau as torch
from flambeau import _methods
from flambeau._ops import activation, registry

TEXT = (Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text()


def test_adding_an_operation_takes_one_record():
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL).group(1)
    before = dict(registry.records), dict(registry.functions), dict(registry.methods)
    attributes = dict(vars(torch.Tensor))
    try:
        exec(code, dict(vars(activation)))
        _methods.attach()
        x = torch.tensor([-3.0, 0.1, 8.0], dtype=torch.float64, requires_grad=True)
        softcap = registry.functions["softcap"]
        out = softcap(x, 2.0)
        np.testing.assert_allclose(out.detach().numpy(), 2 * np.tanh(x.detach().numpy() / 2))
        assert torch.autograd.gradcheck(lambda t: softcap(t, 2.0), (x,))
        assert torch.autograd.gradgradcheck(lambda t: softcap(t, 2.0), (x,))
        y = x.detach().clone()
        assert y.softcap_(2.0) is y and torch.equal(y, out.detach())
        assert torch.func.vmap(lambda t: softcap(t, 2.0))(x.detach()).shape == (3,)
    finally:
        for table, old in zip((registry.records, registry.functions, registry.methods), before):
            table.clear()
            table.update(old)
        for name in ("softcap", "softcap_"):
            if name in vars(registry.ops):
                delattr(registry.ops, name)
            if hasattr(torch.Tensor, name):
                delattr(torch.Tensor, name)
        for name, value in attributes.items():  # modes know the methods that were there
            if vars(torch.Tensor)[name] is not value:
                setattr(torch.Tensor, name, value)
