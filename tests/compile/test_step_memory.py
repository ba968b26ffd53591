"""What a training step needs beside parameters and the optimizer's states: a compiled one never more than an eager one."""

import gc
import tracemalloc

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler._region import Region
from flambeau.nn import functional as F


def transformer(causal=True, width=64, heads=4):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, heads, -1).transpose(1, 2) for z in self.qkv(self.norms[0](x)).split(c, dim=2))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.norms[1](x))))

    return [Block() for _ in range(2)]


def gpt():
    model = nn.Sequential(nn.Embedding(300, 64), *transformer(), nn.LayerNorm(64), nn.Linear(64, 300, bias=False))
    index = torch.randint(0, 300, (8, 65))
    return model, lambda: F.cross_entropy(model(index[:, :-1]).reshape(-1, 300), index[:, 1:].reshape(-1))


def resnet():
    model = torch.vision.models.resnet18(
        num_classes=10
    )  # for small pictures; its gradients alone, which stay, are half of the eager need
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    return model, lambda: F.cross_entropy(model(x), y)


def mlp():
    model = nn.Sequential(
        nn.Linear(300, 400), nn.ReLU(), nn.Dropout(0.1), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
    )
    x, y = torch.randn(64, 300), torch.randint(0, 10, (64,))
    return model, lambda: F.cross_entropy(model(x), y)


def unet():
    def pair(i, o):
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1),
            nn.ReLU(),
        )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.low, self.up = pair(3, 16), pair(16, 32), pair(48, 16)
            self.out = nn.Conv2d(16, 2, 1)

        def forward(self, x):
            a = self.down(x)
            b = F.interpolate(self.low(F.max_pool2d(a, 2)), scale_factor=2)
            return self.out(self.up(torch.cat([a, b], 1)))

    model, x, y = UNet(), torch.randn(4, 3, 32, 32), torch.randint(0, 2, (4, 32, 32))
    return model, lambda: F.cross_entropy(model(x), y)


def lstm():
    layer, head = nn.LSTM(32, 64, num_layers=2, batch_first=True), nn.Linear(64, 5)
    x, y = torch.randn(16, 20, 32), torch.randint(0, 5, (16,))
    return nn.ModuleList([layer, head]), lambda: F.cross_entropy(head(layer(x)[0][:, -1]), y)


def vit():
    cut = nn.Sequential(nn.Conv2d(3, 64, 4, stride=4), nn.Flatten(2))
    body = nn.Sequential(*transformer(causal=False), nn.LayerNorm(64))
    head = nn.Linear(64, 10)
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    return nn.ModuleList([cut, body, head]), lambda: F.cross_entropy(head(body(cut(x).transpose(1, 2)).mean(1)), y)


def held():
    gc.collect()
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


def need(case, compiled):
    """The most bytes of arrays at one time in a step, without those that were there before the first one, and without states. What is
    compiled is nothing, the "step", or the "loss" alone."""
    torch.manual_seed(0)
    before = held()
    model, loss = case()
    optimizer = torch.optim.AdamW(model.parameters())
    if compiled == "loss":
        loss = region = Region(loss)

    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    run = step
    if compiled == "step":
        run = region = Region(step)
    for _ in range(4):
        run()
    assert not compiled or region.problem is None
    states = [t for state in optimizer.state.values() for t in state.values()]
    known = sum(t._array.nbytes for t in (*model.parameters(), *model.buffers(), *states))
    found = []
    for _ in range(3):
        rest, traced = held(), tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        run()
        found.append(rest + tracemalloc.get_traced_memory()[1] - traced)
    return min(found) - before - known


@pytest.mark.slow
@pytest.mark.parametrize("case, share", [(gpt, 0.72), (resnet, 0.72), (mlp, 1), (unet, 0.95), (lstm, 1), (vit, 0.76)])
def test_compiled_steps_need_less_memory(case, share):
    compare(case, "step", share)


@pytest.mark.slow
@pytest.mark.parametrize("case, share", [(gpt, 0.72), (resnet, 0.75), (mlp, 1), (unet, 1), (lstm, 1), (vit, 0.76)])
def test_what_compiled_models_need(case, share):
    """What their backward passes have read makes room for gradients, and for what is computed on the way."""
    compare(case, "loss", share)


def planned(pair):
    """The most bytes at one time that the programs of both passes have by their plans: their arena, values that are kept, results."""
    both = [pair.forward_program._lowered, pair.backward_program._lowered]
    levels = []
    for program in both:
        sizes = {m.source: m.nbytes for m in program.passing}
        there = sum(sizes.values())
        for born, released in zip(program.born, program.released):
            there += sum(m.nbytes for m, *_ in born)
            levels.append(there)
            there -= sum(sizes[number] for number, _ in released)
    return max(program.arena for program in both) + max(levels)


def trained(model, loss):
    region = Region(loss)
    for _ in range(2):
        model.zero_grad()
        region().backward()
    assert region.problem is None
    return region.entries[0].program


def test_where_gradients_are_large_little_else_is_planned():
    """At the end there are the gradients, and one hidden value of which the last is made."""
    model, loss = mlp()
    gradients, hidden = sum(p._array.nbytes for p in model.parameters()), 64 * 400 * 4
    assert planned(trained(model, loss)) <= gradients + 1.1 * hidden


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, lambda: nn.ReLU(inplace=True), nn.GELU])
def test_where_values_are_large_few_are_planned_beside_those_that_are_kept(activation):
    rows, width, depth = 2048, 32, 6
    model = nn.Sequential(*[one for _ in range(depth) for one in (nn.Linear(width, width), activation())])
    x = torch.randn(rows, width)
    assert planned(trained(model, lambda: model(x).square().mean())) <= (depth + 2.2) * x._array.nbytes


def compare(case, compiled, share):
    tracemalloc.start()
    try:
        need(case, None)  # kernels, plans and scratch memory stay
        eager, found = need(case, None), need(case, compiled)
    finally:
        tracemalloc.stop()
    print(f"{case.__name__}: eager {eager / 1e6:.2f} MB, {compiled} {found / 1e6:.2f} MB, {found / eager:.0%}")
    assert found <= share * eager + 50_000  # objects of Python's
