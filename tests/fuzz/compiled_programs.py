"""Random programs, run compiled and eagerly: results, gradients, writes and random streams must be the same.

python tests/fuzz/compiled_programs.py 20000 [first seed]
"""

from __future__ import annotations

import random
import sys

import flambeau as torch
from flambeau import nn

_UNARY = ("sin", "exp", "tanh", "sigmoid", "abs", "neg", "square", "relu", "floor", "log1p", "erf", "sign")
_BINARY = ("+", "-", "*", "/")
_FOLDS = ("sum", "mean", "amax", "prod", "logsumexp")


class Writer:
    """Writes the source of one function over two inputs of one shape, a parameter and a module."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names: list[tuple[str, tuple[int, ...]]] = []  # variables of floats, and their shapes
        self.count = 0
        self.shape = (self.random.choice([1, 2, 3, 5]), 4)
        self.dtype = self.random.choice(["float32", "float32", "float32", "float64", "bfloat16"])

    def new(self, shape: tuple[int, ...]) -> str:
        self.count += 1
        self.names.append((f"v{self.count}", shape))
        return f"v{self.count}"

    def pick(self, shape: tuple[int, ...] | None = None, least: int = 0) -> tuple[str, tuple[int, ...]]:
        fitting = [n for n in self.names if (shape is None or n[1] == shape) and len(n[1]) >= least]
        return self.random.choice(fitting or [n for n in self.names if len(n[1]) >= least])

    def number(self) -> str:
        return self.random.choice(["0.5", "2", "-1.25", "scale", "settings['bias']", "3"])

    def statement(self, indent: str) -> None:
        r = self.random
        kind = r.randrange(17)
        x, shape = self.pick(least=1)
        if kind <= 2:
            line = f"{self.new(shape)} = torch.{r.choice(_UNARY)}({x} * 0.5)"
        elif kind <= 4:
            y, other = self.pick(shape)
            if other != shape:
                y = self.number()
            line = f"{self.new(shape)} = {x} {r.choice('+-*')} {y}"
        elif kind == 5:
            line = f"{self.new(shape)} = {x} {r.choice(_BINARY)} {r.choice(['0.5', '2', '4'])}"
        elif kind == 6:
            line = f"{self.new(shape[:-1])} = {x}.{r.choice(_FOLDS)}(-1)"
        elif kind == 7:
            turned = tuple(reversed(shape))
            line = f"{self.new(turned)} = {x}.permute({', '.join(map(str, reversed(range(len(shape)))))})"
        elif kind == 8:
            line = f"{self.new((*shape[:-1], max(shape[-1] - 1, 0)))} = {x}[..., 1:]"
        elif kind == 9:
            line = f"{self.new(shape)} = torch.where({x} > 0.1, {x}, {self.number()})"
        elif kind == 10:
            name = self.new(shape)
            line = f"{name} = {x} * 1\n{indent}{name}.{r.choice(['add_', 'mul_', 'sub_'])}({r.choice(['2', '0.5', x])})"
        elif kind == 11 and shape[-1]:
            name = self.new(shape)
            line = f"{name} = {x} + 0\n{indent}{name}[..., 0] = {r.choice(['1.5', x + '[..., -1]'])}"
        elif kind == 12 and self.dtype == "float32" and shape[-1] == 4:
            line = f"{self.new((*shape[:-1], 4))} = layer({x})"
        elif kind == 13:
            line = f"{self.new(shape)} = torch.nn.functional.dropout({x}, 0.5)"
        elif kind == 14 and shape[-1]:
            line = f"{self.new(shape)} = torch.{r.choice(['softmax', 'log_softmax', 'cumsum'])}({x}, -1)"
        elif kind == 15:
            name = self.new(shape)
            line = f"{name} = {x}\n{indent}for i in range({r.choice(['2', 'times'])}):\n{indent}    {name} = {name} * 0.5 + i"
        else:
            line = f"{self.new((2, *shape))} = torch.stack([{x}, {x} * 2])"
        self.lines.append(indent + line)

    def source(self) -> str:
        self.lines = ["def f(a, b, scale=2, times=2):"]
        self.names = [("a", self.shape), ("b", self.shape), ("weight", self.shape)]
        for _ in range(self.random.randrange(3, 12)):
            if self.random.random() < 0.08:
                self.lines.append("    if flag['on']:\n        a = a * 2\n    else:\n        a = a - 1")
            self.statement("    ")
        if self.random.random() < 0.15:
            self.lines.append("    state['seen'].add_(1)")
        outs = self.random.sample(self.names, min(len(self.names), self.random.randrange(1, 4)))
        self.lines.append(f"    return {', '.join(n for n, _ in outs)},")
        return "\n".join(self.lines)


def run(seed: int) -> str:
    """Compares one program; "" if all is well, "eager" where it could not be recorded, otherwise what is wrong."""
    writer = Writer(seed)
    source = writer.source()
    d = getattr(torch, writer.dtype)
    torch.manual_seed(seed)
    weight, layer = torch.randn(writer.shape, dtype=d, requires_grad=True), nn.Linear(4, 4)
    flag, settings, state = {"on": True}, {"bias": 0.25}, {"seen": torch.zeros(())}
    space = {"torch": torch, "weight": weight, "layer": layer, "flag": flag, "settings": settings, "state": state}
    exec(compile(source, f"<program {seed}>", "exec"), space)
    function, program = space["f"], torch.compile(space["f"])
    differentiable = seed % 3 != 0
    for call in range(5):
        if call == 3:
            flag["on"], settings["bias"] = False, 0.75
        shape = writer.shape if call != 4 else (writer.shape[0] + 1, 4) if weight.shape[0] == 1 else writer.shape
        values = [
            torch.randn(shape, dtype=d, generator=torch.Generator().manual_seed(100 * seed + call + i)) for i in (0, 50)
        ]
        found = []
        for f in (function, program):
            given = [v.clone().requires_grad_(differentiable) for v in values]
            weight.grad = layer.weight.grad = None
            before = state["seen"].clone()
            torch.manual_seed(call)
            try:
                outs = list(f(*given, times=2 + call % 2))
                loss = [o for o in outs if o.requires_grad]
                if loss:
                    torch.autograd.backward(loss, [torch.ones_like(o) for o in loss])
            except (RuntimeError, IndexError, ValueError) as error:
                outs = [type(error).__name__, str(error)[:40]]
                given = []
            grads = [g.grad for g in given] + [weight.grad, layer.weight.grad]
            found.append([*outs, *grads, state["seen"] - before, torch.rand(1)])
        for i, (e, c) in enumerate(zip(*found, strict=True)):
            if isinstance(e, torch.Tensor) != isinstance(c, torch.Tensor):
                return f"call {call}, result {i}: {e} and {c}\n{source}"
            if not isinstance(e, torch.Tensor):
                if e != c:
                    return f"call {call}, result {i}: {e} and {c}\n{source}"
                continue
            wide = 2e-2 if writer.dtype == "bfloat16" else 1e-5
            if (
                e.dtype is not c.dtype
                or e.shape != c.shape
                or e.requires_grad != c.requires_grad
                or e.stride() != c.stride()
            ):
                return f"call {call}, result {i}: {e.dtype} {e.shape} {e.stride()}, {c.dtype} {c.shape} {c.stride()}\n{source}"
            if not torch.equal(e, c) and not torch.allclose(
                e.double(), c.double(), rtol=wide, atol=wide, equal_nan=True
            ):
                return f"call {call}, result {i}: {e} and {c}\n{source}"
    return "eager" if program._region.problem is not None else ""


if __name__ == "__main__":
    many, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wrong = eager = 0
    for seed in range(first, first + many):
        said = run(seed)
        eager += said == "eager"
        if said not in ("", "eager"):
            wrong += 1
            print(f"seed {seed}: {said}\n", flush=True)
    print(f"{many} programs, {eager} could not be recorded, {wrong} differ")
