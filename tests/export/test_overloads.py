"""Calls become the overload that their arguments are meant for."""

import pytest

import flambeau as torch

CALLS = {
    "prod.default": [lambda z: z.prod(), lambda z: z.prod(dtype=torch.float64)],
    "prod.dim_int": [
        lambda z: z.prod(1), lambda z: z.prod(-1, True), lambda z: torch.prod(z, dim=0), lambda z: z.prod(1, dtype=torch.float64),
    ],
    "sum.default": [lambda z: z.sum(dtype=torch.float64)],
    "sum.dim_IntList": [lambda z: z.sum(1), lambda z: z.sum((0, 1), dtype=torch.float64)],
    "cumprod.default": [lambda z: z.cumprod(1), lambda z: z.cumprod(-1, dtype=torch.float64)],
    "all.dim": [lambda z: z.all(1)],
}  # fmt: skip


@pytest.mark.parametrize("name, call", [(name, call) for name, calls in CALLS.items() for call in calls])
def test_overloads(name, call):
    class Model(torch.nn.Module):
        def forward(self, z):
            return call(z)

    z = torch.arange(1.0, 7.0).reshape(2, 3)
    program = torch.export.export(Model(), (z,))
    (node,) = [n for n in program.graph.nodes if n.op == "call_function"]
    assert str(node.target) == f"aten.{name}"
    torch.testing.assert_close(program.module()(z), call(z), rtol=0, atol=0)
