"""Work that threads share: the same as on one thread, whatever the number of threads, and sizes that they cannot share evenly.

Their memory is as large as it must be: nothing is written behind its end.
"""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau._core import allocation

F = torch.nn.functional


def some(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def places(high, *shape):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1))


def attention(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


HALF = torch.bfloat16
CALLS = {  # a call and its operands, those of floats with gradients
    "matmul": (torch.matmul, (some(301, 203), some(203, 517))),
    "matmul of doubles": (torch.matmul, (some(201, 203, dtype=torch.float64), some(203, 317, dtype=torch.float64))),
    "matmul of half precision": (torch.matmul, (some(515, 333, dtype=HALF), some(333, 261, dtype=HALF))),
    "matmul turned": (lambda x, y: x.t() @ y.t(), (some(203, 301), some(517, 203))),
    "batches of products": (torch.bmm, (some(37, 61, 45), some(37, 45, 53))),
    "linear": (F.linear, (some(7, 33, 260), some(301, 260), some(301))),
    "rows times a tiny matrix": (torch.matmul, (some(70_001, 5), some(5, 3))),
    "whole numbers": (torch.matmul, (places(9, 201, 303), places(9, 303, 257))),
    "pointwise": (lambda x, y: torch.exp(-x * x) + y.tanh(), (some(301_007), some(301_007))),
    "broadcast": (lambda x, y: x * y - y, (some(701, 1, 23), some(1, 29, 23))),
    "turned and broadcast": (lambda x, y: x.transpose(0, 2) * y, (some(57, 61, 83), some(61, 57))),
    "sum": (lambda x: x.sum(), (some(501_003),)),
    "sums of rows": (lambda x: x.sum(1), (some(1003, 507),)),
    "sums of columns": (lambda x: x.mean(0), (some(1003, 507),)),
    "sums in the middle": (lambda x: x.sum(1), (some(61, 73, 127),)),
    "std": (lambda x: x.std(1), (some(1003, 507),)),
    "extrema": (lambda x: (x.max(1)[0], x.amin(0)), (some(1003, 507),)),
    "norms": (lambda x: (x.norm(dim=1), x.norm()), (some(1003, 507),)),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), (some(703, 507),)),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(0)), (some(703, 507),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (507,), w, b), (some(703, 507), some(507), some(507))),
    "batch norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (some(17, 19, 33, 35), some(19), some(19))),
    "group norm": (lambda x, w, b: F.group_norm(x, 6, w, b), (some(17, 18, 33, 35), some(18), some(18))),
    "cross entropy": (lambda x: F.cross_entropy(x, places(507, 703)), (some(703, 507),)),
    "losses": (lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y), (some(301_007), some(301_007, seed=2))),
    "sort": (lambda x: (x.sort(1)[0], x.argsort(0)), (some(703, 307),)),
    "topk": (lambda x: x.topk(7, 1)[0], (some(703, 507),)),
    "rows by index": (lambda x: x[places(703, 901)], (some(703, 507),)),
    "index_select": (lambda x: x.index_select(1, places(507, 333)), (some(703, 507),)),
    "gather": (lambda x: x.gather(1, places(507, 703, 411)), (some(703, 507),)),
    "scatter_add": (lambda x, y: x.scatter_add(1, places(507, 703, 411), y), (some(703, 507), some(703, 411))),
    "index_add": (lambda x, y: x.index_add(0, places(703, 901), y), (some(703, 507), some(901, 507))),
    "embedding": (lambda w: F.embedding(places(301, 97, 41), w), (some(301, 129),)),
    "a mask": (lambda x: x[x > 0.3], (some(703, 507),)),
    "where": (lambda x, y: torch.where(x > y, x, y), (some(703, 507), some(507))),
    "copies": (lambda x: (x.t().contiguous(), x.flip(1), x.roll(3, 0)), (some(703, 507),)),
    "cat": (lambda x, y: torch.cat([x, y, x], 1), (some(703, 307), some(703, 11))),
    "pad": (lambda x: (F.pad(x, (3, 2, 1, 4)), F.pad(x, (3, 2, 1, 4), mode="reflect")), (some(7, 19, 61, 57),)),
    "pooling": (lambda x: (F.max_pool2d(x, 3, 2), F.avg_pool2d(x, 3, 2, 1)), (some(7, 19, 61, 57),)),
    "resizing": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (some(5, 13, 61, 57),)),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (some(9, 19, 33, 31), some(37, 19, 3, 3), some(37))),
    "convolution with steps": (lambda x, w: F.conv2d(x, w, stride=2), (some(9, 19, 33, 31), some(37, 19, 3, 3))),
    "convolution 1x1": (F.conv2d, (some(9, 67, 33, 31), some(37, 67, 1, 1))),
    "convolution 5x5": (lambda x, w: F.conv2d(x, w, padding=2), (some(9, 3, 33, 31), some(21, 3, 5, 5))),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=3, groups=33), (some(9, 33, 33, 31), some(33, 1, 7, 7))),
    "groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=3), (some(9, 33, 33, 31), some(21, 11, 3, 3))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (some(9, 19, 17, 15), some(19, 23, 3, 3))),
    "signals": (lambda x, w: F.conv1d(x, w, dilation=2), (some(9, 19, 533), some(37, 19, 5))),
    "volumes": (lambda x, w: F.conv3d(x, w, padding=1), (some(3, 9, 11, 17, 19), some(13, 9, 3, 3, 3))),
    "convolution of doubles": (F.conv2d, (some(9, 19, 33, 31, dtype=torch.float64), some(17, 19, 3, 3, dtype=torch.float64))),
    "attention": (attention(), (some(3, 5, 129, 33), some(3, 5, 101, 33), some(3, 5, 101, 33))),
    "causal attention": (attention(is_causal=True), (some(3, 5, 129, 33), some(3, 5, 129, 33), some(3, 5, 129, 33))),
    "masked attention": (attention(attn_mask=some(129, 101)), (some(3, 5, 129, 33), some(3, 5, 101, 33), some(3, 5, 101, 33))),
    "solve": (torch.linalg.solve, (some(301, 7, 7) + 9 * torch.eye(7), some(301, 7, 3))),
    "distances": (torch.cdist, (some(211, 33), some(307, 33))),
    "fft": (lambda x: torch.view_as_real(torch.fft.fft(x)), (some(703, 240),)),
}  # fmt: skip


def results(name, count):
    call, given = CALLS[name]
    torch.set_num_threads(count)
    given = [t.detach().requires_grad_(t.is_floating_point()) for t in given]
    made = call(*given)
    made = [*made] if isinstance(made, tuple) else [made]
    tracked = [m for m in made if m.requires_grad]
    if tracked:
        total = sum((m * torch.linspace(-1, 1, m.numel(), dtype=m.dtype).view(m.shape)).sum() for m in tracked)
        made += torch.autograd.grad(total, [t for t in given if t.requires_grad])
    return [m.detach() for m in made]


@pytest.mark.parametrize("count", [5, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "depthwise" else []) for name in CALLS]
)
def test_as_on_one_thread(name, count):
    before = torch.get_num_threads()
    try:
        alone = results(name, 1)
        for made, expected in zip(results(name, count), alone):
            assert made.dtype is expected.dtype and made.stride() == expected.stride()
            if expected.dtype.is_floating_point:
                size = expected.abs().max().item()
                room = {HALF: 0.02, torch.float32: 2e-5, torch.float64: 1e-12}[expected.dtype]
                torch.testing.assert_close(made, expected, rtol=room, atol=room * max(size, 1.0))
            else:
                assert torch.equal(made, expected)
    finally:
        torch.set_num_threads(before)


class Fences:
    """`np.empty`, with known bytes behind every array."""

    def __init__(self):
        self.plain, self.made = np.empty, []

    def __call__(self, shape, dtype=float, *more, **named):
        d = np.dtype(dtype)
        if more or named or d.hasobject:
            return self.plain(shape, dtype, *more, **named)
        count = (math.prod(shape) if isinstance(shape, (tuple, list)) else int(shape)) * d.itemsize
        room = self.plain(count + 512, np.uint8)
        room[count:] = 0xAB
        self.made.append((room, count))
        return np.ndarray(shape, d, room)

    def stand(self):
        return all((room[count:] == 0xAB).all() for room, count in self.made)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_written_behind_memory(name, count, monkeypatch):
    before, fences = torch.get_num_threads(), Fences()
    monkeypatch.setattr(np, "empty", fences)
    monkeypatch.setattr(allocation, "_empty", fences)
    try:
        results(name, count)
    finally:
        torch.set_num_threads(before)
    assert fences.stand()


@pytest.mark.slow
def test_launchers_say_how_many_threads_there_are():
    command = [sys.executable, "-c", "import flambeau; print(flambeau.get_num_threads())"]
    done = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "3"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"
