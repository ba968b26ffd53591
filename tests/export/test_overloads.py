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


@torch.library.custom_op("test_overloads::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * by)


@torch.library.custom_op("test_overloads::increase", mutates_args={"x"})
def increase(x: torch.Tensor, by: int) -> None:
    x.numpy()[...] += by


scaled.register_fake(lambda x, by: torch.empty_like(x))


def test_operators_of_programs_are_recorded_and_those_that_only_write_too():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x):
            increase(self.total, 3)
            y = scaled(x, 2.0)
            increase(y, 1)
            return y + self.total

    batch = torch.export.Dim("batch", max=9)
    program = torch.export.export(Model(), (torch.ones(3, 2),), dynamic_shapes={"x": {0: batch}})
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    wanted = ["increase.default", "scaled.default", "increase.default"]
    assert names == [*[f"test_overloads.{name}" for name in wanted], "aten.add.Tensor"]
    module = program.module()
    assert [module(torch.ones(1, 2)).tolist() for _ in range(2)] == [[[6, 6]], [[9, 9]]]
    assert module.total.tolist() == [6, 6]
    module = torch.jit.trace(Model(), torch.ones(2), check_trace=False)
    assert module(torch.ones(2)).tolist() == [9, 9]  # the example run has counted, too


@torch.library.custom_op("test_overloads::put", mutates_args={"x"})
def put(x: torch.Tensor, v: float) -> None:
    x.fill_(v)


@torch.library.custom_op("test_overloads::swapped", mutates_args={"x", "y"})
def swapped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)
    return before + y


swapped.register_fake(lambda x, y: torch.empty_like(x))


def test_operators_that_write_become_functions():
    class Written(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.zeros(3))

        def forward(self, x):
            y = x + 1
            put(y, 3.0)
            out = swapped(y, self.kept) + y
            put(self.kept, 2.0)
            return out + self.kept

    exported = torch.export.export(Written(), (torch.ones(3),))
    taken = exported.run_decompositions()
    assert not [n for n in taken.graph.nodes if getattr(n.target, "namespace", "") == "test_overloads"]
    assert taken.graph_signature.buffers_to_mutate == {taken.graph.output_node().args[0][0].name: "kept"}
    module, expected = taken.module(), Written()
    for x in (torch.ones(3), torch.zeros(3)):
        assert torch.equal(module(x), expected(x)) and torch.equal(module.kept, expected.kept)


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 5, 3))

    def forward(self, x):
        raise NotImplementedError


def cached(self, x):
    self.kept[:, 2] = x
    self.kept[0].add_(1)
    return self.kept.sum(1) + self.kept[:, 2]


def turned(self, x):
    part = self.kept.transpose(0, 2)[1]
    self.kept += x[:, None]
    part.mul_(2)
    part.t()[0].sub_(1)
    return part, self.kept.diagonal(0, 1, 2), self.kept.narrow(1, 1, 2).fill_(3).unsqueeze(0)


def flattened(self, x):
    flat = self.kept.view(-1)
    copied = self.kept.permute(2, 0, 1).reshape(-1)
    flat[3:9:2] = 4
    copied.add_(5)
    self.kept.diagonal(0, 1, 2).add_(x)
    return flat + copied, self.kept * 2


def argument(self, x):
    y = x * 2
    rows = y.unbind(0)[0]
    x[1].add_(1)
    y[0] = x[1]
    return x.t(), y, rows * 1


@pytest.mark.parametrize("forward", [cached, turned, flattened, argument])
def test_writes_through_views_become_functions(forward, monkeypatch):
    monkeypatch.setattr(Cached, "forward", forward)
    exported = torch.export.export(Cached(), (torch.ones(2, 3),))
    taken, expected = exported.run_decompositions(), Cached()
    assert not [n for n in taken.graph.nodes if getattr(n.target, "_opname", "").endswith("_")]
    module = taken.module()
    for _ in range(2):
        x, y = torch.randn(2, 3), torch.zeros(2, 3)
        y.copy_(x)
        out, wanted = module(x), expected(y)
        out, wanted = [a if isinstance(a, tuple) else (a,) for a in (out, wanted)]
        assert all(map(torch.equal, (*out, x, module.kept), (*wanted, y, expected.kept)))
