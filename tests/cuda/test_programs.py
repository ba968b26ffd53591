"""Programs on a GPU: launches one after another by machine code, with a GPU of the CPU's memory."""

import os

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._compile import program
from flambeau._compile.lower import Lowering
from flambeau._core.state import CUDA
from flambeau.amp import autocast_mode

from . import fake_gpu
from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.skipif(os.environ.get("FLAMBEAU_NATIVE_ENTRY") == "0", reason="there is no native entry")


def pointwise(x, y):
    return (torch.tanh(x * y) + x).exp() * 2, (x - y).t()[1:]


def rows(x, y):
    return F.softmax(x, 1), F.layer_norm(x + y, (5,))


@pytest.mark.parametrize("function", [pointwise, rows])
def test_a_function_is_one_native_call(gpu, function):
    compiled, rng = torch.compile(function), np.random.default_rng(0)
    for i in range(4):
        x, y = rng.standard_normal((4, 5), np.float32), rng.standard_normal((4, 5), np.float32)
        before = Kernel.natively
        got = compiled(on_gpu(x), on_gpu(y))
        natively = Kernel.natively - before
        for a, b in zip(function(torch.tensor(x), torch.tensor(y)), got, strict=True):
            assert b._k & CUDA and a.stride() == b.stride()
            torch.testing.assert_close(a, back(b))
        assert i == 0 or natively


def numbers(*shapes):
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def writes(x, y):
    z = x * 1
    z[1:3] = y[1:3]
    z.add_(1).mul_(y)
    z[:, 0] = 7
    return z, torch.zeros_like(z[0]) + z[1]


def test_writes_go_to_memory_of_this_run(gpu):
    compiled = torch.compile(writes)
    for _ in range(4):
        x, y = numbers((4, 5), (4, 5))
        for a, b in zip(writes(torch.tensor(x), torch.tensor(y)), compiled(on_gpu(x), on_gpu(y)), strict=True):
            assert torch.equal(a, back(b))


def test_a_function_of_several_records_is_these(gpu):
    """Whether it looks at elements is found out with others, which lie in the GPU's memory, too."""
    cache, place = on_gpu(np.zeros((4, 5))), on_gpu(torch.tensor([2]))
    count, columns = on_gpu(torch.tensor(3)), on_gpu(torch.tensor([[1], [0], [4], [2]]))

    def function(x):
        count.add_(1)
        cache.index_copy_(0, place, x[:1])
        cache.scatter_(1, columns, x[:, :1])
        return cache * 2

    compiled = torch.compile(function, fullgraph=True)
    expected = torch.zeros(4, 5)
    for i in range(4):
        x = torch.tensor(numbers((4, 5))[0]) + i
        before = Kernel.natively
        got = compiled(on_gpu(x))
        assert i == 0 or Kernel.natively > before + 2
        expected.index_copy_(0, torch.tensor([2]), x[:1]).scatter_(1, back(columns), x[:, :1])
        assert torch.equal(expected * 2, back(got)) and torch.equal(expected, back(cache)) and back(count) == 4 + i


def test_losses_under_autocast_are_programs_along_rows(gpu, monkeypatch):
    monkeypatch.setattr(autocast_mode, "cuda_problem", lambda: None)
    x, target = numbers((4, 5))[0], torch.tensor([1, 0, 4, 2])

    def loss(x, target):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(x.bfloat16(), target)

    leaf, there = torch.tensor(x, requires_grad=True), on_gpu(x, requires_grad=True)
    F.cross_entropy(leaf.bfloat16().float(), target).backward()
    compiled = torch.compile(loss, fullgraph=True)
    for _ in range(3):
        there.grad = None
        compiled(there, on_gpu(target)).backward()
        torch.testing.assert_close(leaf.grad, back(there.grad))


def test_arguments_are_written_to(gpu):
    def function(x, y):
        x.mul_(y)
        x[0] = y[1]
        return x.sum()

    compiled, (x, y) = torch.compile(function), numbers((4, 5), (4, 5))
    cpu, there = torch.tensor(x), on_gpu(x)
    for _ in range(4):
        expected, got = function(cpu, torch.tensor(y)), compiled(there, on_gpu(y))
        assert torch.equal(cpu, back(there)) and torch.allclose(expected, back(got))
    assert there._version == cpu._version == 8


def test_gradients_are_of_the_run(gpu):
    x, w = numbers((4, 5), (5,))
    cpu, there = torch.tensor(w, requires_grad=True), on_gpu(w, requires_grad=True)
    loss = lambda x, w: ((x * w).tanh() + w).exp().sum()
    compiled = torch.compile(loss)
    for _ in range(4):
        loss(torch.tensor(x), cpu).backward()
        compiled(on_gpu(x), there).backward()
        torch.testing.assert_close(cpu.grad, back(there.grad))


def test_what_backward_keeps_may_be_more_than_its_kernels_read(gpu):
    """The gradient of attention has operands that only Python would read, if a library refused the call."""
    x, w = numbers((2, 2, 8, 8), (2, 2, 8, 8))
    cpu, there = torch.tensor(w, requires_grad=True), on_gpu(w, requires_grad=True)
    loss = lambda x, w: F.scaled_dot_product_attention(x * w, x + w, x - w).square().sum()
    compiled = torch.compile(loss)
    for _ in range(3):
        loss(torch.tensor(x), cpu).backward()
        compiled(on_gpu(x), there).backward()
        torch.testing.assert_close(cpu.grad, back(there.grad), rtol=1e-4, atol=1e-4)


def test_a_whole_step(gpu):
    x, w = numbers((4, 5), (5,))
    leaves = torch.nn.Parameter(torch.tensor(w)), on_gpu(w, requires_grad=True)
    optimizers = [torch.optim.AdamW([leaf], lr=0.1) for leaf in leaves]

    def stepping(leaf, optimizer):
        def step(x):
            optimizer.zero_grad()
            loss = (x * leaf).tanh().sum()
            loss.backward()
            optimizer.step()
            return loss

        return step

    first, second = map(stepping, leaves, optimizers)
    compiled = torch.compile(second)
    for _ in range(5):
        torch.testing.assert_close(first(torch.tensor(x)).detach(), back(compiled(on_gpu(x)).detach()))
    torch.testing.assert_close(leaves[0].detach(), back(leaves[1].detach()))


def test_a_launch_that_fails_is_told(gpu, monkeypatch):
    compiled, (x, y) = torch.compile(pointwise), numbers((4, 5), (4, 5))
    for _ in range(3):
        compiled(on_gpu(x), on_gpu(y))
    monkeypatch.setattr(fake_gpu, "failing", [True])
    with pytest.raises(RuntimeError, match="could not be launched"):
        compiled(on_gpu(x), on_gpu(y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pointwise_launches_become_one(gpu, dtype):
    def function(x, y):
        z = x * 0.3 + y
        w = torch.tanh(z) * z
        return w.float() * 2, (w - x[0]).t().relu()

    compiled = torch.compile(function)
    for i in range(4):
        x, y = [torch.tensor(n).to(dtype) for n in numbers((4, 5), (4, 5))]
        before = Kernel.natively
        got = compiled(on_gpu(x), on_gpu(y))
        assert i < 2 or Kernel.natively - before <= 2
        for a, b in zip(function(x, y), got, strict=True):
            assert a.dtype is b.dtype and torch.allclose(a, back(b), 1e-6, 1e-6)


def test_a_kernel_of_too_many_arguments_stays_apart(gpu):
    """Sixteen operands that lie in five dimensions: eighty strides are not all."""

    def function(total, *parts):
        for a, b in zip(parts[::2], parts[1::2]):
            total = torch.addcmul(total, a, b)
        return total

    orders = [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 1, 0, 3, 4), (0, 3, 2, 1, 4), (4, 1, 2, 3, 0)]
    launches = []
    for count in (5, 15):
        compiled = torch.compile(function)
        for _ in range(3):
            parts = [torch.tensor(n).permute(orders[i % 5]) for i, n in enumerate(numbers(*[(2, 3, 2, 3, 2)] * count))]
            before = Kernel.natively
            got = compiled(*map(on_gpu, parts))
            assert torch.equal(function(*parts), back(got))
        launches.append(Kernel.natively - before)
    assert launches == [1, 7]


def test_each_stream_has_a_form_of_its_own(gpu, monkeypatch):
    compiled, (x, y) = torch.compile(pointwise), numbers((4, 5), (4, 5))
    seen = []
    for number in (77, 77, 78, 78, 77):
        monkeypatch.setattr(gpu, "stream", lambda number=number: number)
        got = compiled(on_gpu(x), on_gpu(y))
        torch.testing.assert_close(pointwise(torch.tensor(x), torch.tensor(y))[0], back(got[0]))
        seen.append(fake_gpu.streams[-1])
    assert seen == [77, 77, 78, 78, 77]


@pytest.fixture
def lowered(monkeypatch):
    """Graphs that were lowered."""
    graphs = []
    monkeypatch.setattr(program, "Lowering", lambda graph, inputs: (graphs.append(graph), Lowering(graph, inputs))[1])
    return graphs


def test_each_setting_of_cudnn_has_a_form_of_its_own(gpu, lowered):
    compiled, (x, y) = torch.compile(pointwise), numbers((4, 5), (4, 5))
    expected, counts = pointwise(torch.tensor(x), torch.tensor(y))[0], []
    for deterministic in (False, False, True, True, False, True):
        lowered.clear()
        with torch.backends.cudnn.flags(enabled=True, deterministic=deterministic):
            for _ in range(3):
                torch.testing.assert_close(expected, back(compiled(on_gpu(x), on_gpu(y))[0]))
        counts.append(len(lowered))
    assert counts == [1, 0, 1, 0, 0, 0]


def test_deterministic_algorithms_are_demanded_once(gpu, lowered):
    compiled, (x, y) = torch.compile(pointwise), numbers((4, 5), (4, 5))
    counts = []
    try:
        for mode in (False, True, True, False, True):
            lowered.clear()
            torch.use_deterministic_algorithms(mode)
            for _ in range(3):
                compiled(on_gpu(x), on_gpu(y))
            counts.append(len(lowered))
    finally:
        torch.use_deterministic_algorithms(False)
    assert counts == [1, 1, 0, 0, 0]
