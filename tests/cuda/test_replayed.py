"""Programs as CUDA graphs: what they give, and when they are recorded. Without a GPU, and on one where it says so."""

import gc
import os

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._compile.breaks import counters

from . import fake_gpu
from .fake_gpu import Graph, back, on_gpu

without_gpu = pytest.mark.skipif(os.environ.get("FLAMBEAU_NATIVE_ENTRY") == "0", reason="there is no native entry")
on_one = lambda test: pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")(test))
MODE = "reduce-overhead"


def layers(x, w):
    for _ in range(4):
        x = F.layer_norm(torch.tanh(x @ w) + x, (5,))
    return x, x.sum()


def numbers(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def launched(call):
    """What a call gives, and how many graphs it launched."""
    before = Graph.launched
    out = call()
    return out, Graph.launched - before


def check(expected, got):
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(a, back(b), rtol=1e-5, atol=1e-5)


@without_gpu
def test_calls_over_the_same_memory_are_one_launch(gpu):
    compiled, (w,) = torch.compile(layers, mode=MODE), numbers((5, 5))
    x, there = on_gpu(np.zeros((4, 5))), on_gpu(w)
    counts = []
    for i in range(6):
        values = torch.tensor(numbers((4, 5), seed=i)[0])
        x._array.numpy()[...] = values.numpy()
        got, count = launched(lambda: compiled(x, there))
        counts.append(count)
        check(layers(values, torch.tensor(w)), got)
        del got
    assert counts == [0, 0, 0, 0, 1, 1]  # a tape, its program, that of the stream beside, addresses


@without_gpu
@pytest.mark.parametrize("large", [False, True])
def test_results_stay_what_they_are(gpu, large):
    shape = (40 if large else 4, 5)
    compiled, (w,) = torch.compile(layers, mode=MODE), numbers((5, 5))
    x, there, kept, counts = on_gpu(np.zeros(shape)), on_gpu(w), [], []
    for i in range(11):
        values = torch.tensor(numbers(shape, seed=i)[0])
        x._array.numpy()[...] = values.numpy()
        got, count = launched(lambda: compiled(x, there))
        counts.append(count)
        kept.append((layers(values, torch.tensor(w)), got))
        del got
    for expected, got in kept:
        check(expected, got)
    # large ones are in the memory of both graphs, small ones have been copied
    assert counts == [0, 0, 0, 0, 1, 1, *[0 if large else 1] * 5]
    kept.clear()
    gc.collect()
    got, count = launched(lambda: compiled(x, there))
    assert count == 1
    check(layers(values, torch.tensor(w)), got)


@without_gpu
def test_operands_that_move_are_copied(gpu):
    compiled, (w,) = torch.compile(layers, mode=MODE), numbers((5, 5))
    there, counts = on_gpu(w), []
    for i in range(12):
        values = torch.tensor(numbers((4, 5), seed=i)[0])
        got, count = launched(lambda: compiled(on_gpu(values), there))
        counts.append(count)
        check(layers(values, torch.tensor(w)), got)
        del got
    assert counts == [0] * 8 + [1] * 4


@without_gpu
def test_what_moves_and_is_written_to_is_no_graph(gpu):
    def function(x, w):
        y, total = layers(x, w)
        x.add_(1)
        return y * 2, total

    compiled, (w,) = torch.compile(function, mode=MODE), numbers((5, 5))
    there, before = on_gpu(w), counters["inductor"]["cudagraph_skips"]
    for i in range(12):
        values = torch.tensor(numbers((4, 5), seed=i)[0])
        x = on_gpu(values)
        got, count = launched(lambda: compiled(x, there))
        check(function(values, torch.tensor(w)), got)
        assert torch.equal(values, back(x)) and not count
    assert counters["inductor"]["cudagraph_skips"] == before + 1
    counts = []
    compiled = torch.compile(function, mode=MODE)  # what stays where it is may be written to
    for _ in range(7):
        got, count = launched(lambda: compiled(x, there))
        counts.append(count)
        check(function(values, torch.tensor(w)), got)
        assert torch.equal(values, back(x))
        del got
    assert counts == [0, 0, 0, 0, 1, 1, 1]


@without_gpu
def test_what_cannot_be_recorded_runs_as_before(gpu, monkeypatch):
    monkeypatch.setattr(fake_gpu, "library_records", [False])
    compiled, (w, x) = torch.compile(layers, mode=MODE), numbers((5, 5), (4, 5))
    there, given, before = on_gpu(w), on_gpu(x), counters["inductor"]["cudagraph_skips"]
    for _ in range(7):
        got, count = launched(lambda: compiled(given, there))
        check(layers(torch.tensor(x), torch.tensor(w)), got)
        assert not count
    assert counters["inductor"]["cudagraph_skips"] == before + 1


@without_gpu
@pytest.mark.parametrize("how", [{}, {"mode": "max-autotune-no-cudagraphs"}, {"mode": "max-autotune"}, {"backend": "cudagraphs"}, {"options": {"triton.cudagraphs": True}}])  # fmt: skip
def test_who_asks_for_graphs(gpu, how):
    compiled, (w, x) = torch.compile(layers, **how), numbers((5, 5), (4, 5))
    there, given = on_gpu(w), on_gpu(x)
    for _ in range(5):
        got, count = launched(lambda: compiled(given, there))
    check(layers(torch.tensor(x), torch.tensor(w)), got)
    assert count == (bool(how) and how != {"mode": "max-autotune-no-cudagraphs"})


@without_gpu
def test_short_programs_are_launched(gpu):
    compiled, x = torch.compile(lambda x: torch.tanh(x) * 2, mode=MODE), on_gpu(numbers((4, 5))[0])
    for _ in range(4):
        _, count = launched(lambda: compiled(x))
    assert not count and fake_gpu.streams == [77]


@without_gpu
def test_training(gpu):
    def loss(x, w, target):
        return F.cross_entropy(layers(x, w)[0], target)

    w, x = numbers((5, 5), (4, 5))
    target, there, given = torch.tensor([0, 4, 2, 1]), on_gpu(w, requires_grad=True), on_gpu(x)
    leaf, labels = torch.tensor(w, requires_grad=True), on_gpu(target)
    compiled, counts = torch.compile(loss, mode=MODE), []
    for i in range(10):
        values = torch.tensor(numbers((4, 5), seed=i)[0])
        given._array.numpy()[...] = values.numpy()
        leaf.grad = there.grad = None
        loss(values, leaf, target).backward()

        def step():
            made = compiled(given, there, labels)
            made.backward()
            return made

        _, count = launched(step)
        counts.append(count)
        torch.testing.assert_close(leaf.grad, back(there.grad), rtol=1e-4, atol=1e-5)
    assert counts[-1] >= 1, counts


# -- on a GPU --------------------------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(64), torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)
        self.heads = torch.nn.MultiheadAttention(64, 4, bias=False, batch_first=True)

    def forward(self, x):
        x = x + self.heads(x, x, x, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm(x))))


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block(), torch.nn.Linear(64, 10)).cuda()


@on_one
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_inference_on_a_gpu(dtype):
    net = model().to(dtype).eval()
    compiled, before = torch.compile(net, mode=MODE), counters["inductor"]["cudagraph_recorded"]
    kept = []
    with torch.no_grad():
        for i in range(24):
            x = torch.randn(2, 16, 64, device="cuda", dtype=dtype)
            expected, got = net(x), compiled(x)
            torch.testing.assert_close(expected, got, rtol=2e-2, atol=2e-2)
            if i % 3 == 0:
                kept.append((expected, got))
    for expected, got in kept:
        torch.testing.assert_close(expected, got, rtol=2e-2, atol=2e-2)
    assert counters["inductor"]["cudagraph_recorded"] > before


@on_one
def test_training_on_a_gpu():
    nets = [model(), model()]
    optimizers = [torch.optim.AdamW(net.parameters(), lr=1e-3) for net in nets]
    compiled, before = torch.compile(nets[1], mode=MODE), counters["inductor"]["cudagraph_recorded"]
    for _ in range(24):
        x, y = torch.randn(4, 8, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
        losses = []
        for f, optimizer in zip((nets[0], compiled), optimizers, strict=True):
            loss = F.cross_entropy(f(x).view(-1, 10), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-3)
    for p, q in zip(*[net.parameters() for net in nets], strict=True):
        torch.testing.assert_close(p, q, rtol=1e-2, atol=1e-3)
    assert counters["inductor"]["cudagraph_recorded"] > before + 1


@on_one
def test_a_cache_that_is_written_to_on_a_gpu():
    cache, w = torch.zeros(2, 8, 16, device="cuda"), torch.randn(16, 16, device="cuda") / 4
    other = cache.clone()

    def token(x, place, cache):
        for _ in range(3):
            x = torch.tanh(F.layer_norm(x, (16,)) @ w)
        cache.index_copy_(1, place, x)
        return x + F.softmax(cache, 1).sum(1, keepdim=True)

    compiled, before = torch.compile(token, mode=MODE), counters["inductor"]["cudagraph_recorded"]
    place = torch.zeros(1, dtype=torch.int64, device="cuda")
    with torch.no_grad():
        x = torch.randn(2, 1, 16, device="cuda")
        for i in range(20):
            place.fill_(i % 8)
            expected, x = token(x, place, other), compiled(x, place, cache)
            torch.testing.assert_close(expected, x, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(other, cache, rtol=1e-4, atol=1e-4)
    assert counters["inductor"]["cudagraph_recorded"] > before


@on_one
def test_inside_of_a_graph_of_the_programs_own():
    net = model().eval()
    compiled, x = torch.compile(net, mode=MODE), torch.randn(2, 16, 64, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                compiled(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = compiled(x)
        for _ in range(3):
            x.normal_()
            graph.replay()
            torch.testing.assert_close(net(x), out, rtol=1e-3, atol=1e-3)
