"""Kernels at the ends of their operands: they read nothing behind the last element, nor before the first.

Every call runs here first, on ordinary memory, then in another process on operands beside pages without rights.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch

F = torch.nn.functional
SIZES = [(1, 1, 1), (3, 5, 7), (17, 33, 9), (16, 16, 16), (31, 64, 47), (8, 129, 65), (50, 7, 130)]


def calls():
    """(name, function, shapes, dtype)"""
    floats = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    for d in (*floats, torch.int32, torch.int64):
        for m, k, n in SIZES:
            yield "matmul", torch.matmul, [(m, k), (k, n)], d
            yield "turned", lambda x, y: x.t() @ y.t(), [(k, m), (n, k)], d
            yield "batches", torch.matmul, [(3, m, k), (3, k, n)], d
            yield "vector", torch.matmul, [(m, k), (k,)], d
    for d in floats:
        for m, k, n in SIZES:
            yield "addmm", torch.addmm, [(m, n), (m, k), (k, n)], d
            yield "linear", F.linear, [(m, k), (n, k), (n,)], d
            yield "softmax", lambda x: (x.softmax(1), x.log_softmax(0)), [(m, n)], d
            yield "layer norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b), [(m, n), (n,), (n,)], d
            yield "folds", lambda x: (x.sum(1), x.sum(0), x.amax(1), x.amax(0), x.std(1, correction=0)), [(m, n)], d
            yield "running", lambda x: (x.cumsum(1), x.cumsum(0), x.cummax(1)[0]), [(m, n)], d
            yield "order", lambda x: (x.sort(1)[0], x.topk(1)[0], x.median(1)[0]), [(m, n)], d
            yield "turning", lambda x: (x.t().contiguous(), x.flip(1), torch.cat([x, x], 1)), [(m, n)], d
        for queries, keys, width in ((1, 1, 1), (5, 7, 3), (17, 33, 16), (33, 31, 65), (64, 48, 9)):
            yield (
                "attention",
                F.scaled_dot_product_attention,
                [(2, queries, width), (2, keys, width), (2, keys, width)],
                d,
            )
    for d in floats[:2]:
        for n, inputs, outputs, size in ((1, 1, 1, 3), (2, 3, 5, 9), (3, 17, 33, 8), (1, 20, 9, 13)):
            for kernel, options in ((3, {"padding": 1}), (1, {}), (3, {"stride": 2}), (2, {"dilation": 2})):
                shapes = [(n, inputs, size, size + 1), (outputs, inputs, kernel, kernel)]
                yield f"conv2d {kernel} {options}", lambda x, w, o=options: F.conv2d(x, w, **o), shapes, d
            yield (
                "depthwise",
                lambda x, w, g=inputs: F.conv2d(x, w, padding=1, groups=g),
                [(n, inputs, size, size), (inputs, 1, 3, 3)],
                d,
            )
            yield (
                "transposed",
                lambda x, w: F.conv_transpose2d(x, w, stride=2),
                [(n, inputs, size, size), (inputs, outputs, 3, 3)],
                d,
            )
            yield "pooling", lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)), [(n, inputs, size, size + 1)], d
        for batch, features, size in ((1, 1, 1), (3, 5, 7), (33, 8, 17)):
            shapes = [
                (4, batch, features),
                (1, batch, size),
                (3 * size, features),
                (3 * size, size),
                (3 * size,),
                (3 * size,),
            ]
            yield "gru", lambda x, h, *w: torch.gru(x, h, w, True, 1, 0.0, False, False, False)[0], shapes, d
        for n in (1, 2, 7, 16, 30, 64, 100):
            yield "fft", lambda x: torch.view_as_real(torch.fft.rfft(x)), [(3, n)], d


def run(function, given):
    made = function(*given)
    made = [*made] if isinstance(made, tuple) else [made]
    wanted = [t for t in given if t.requires_grad]
    tracked = [m for m in made if m.requires_grad]
    if wanted and tracked:
        made += torch.autograd.grad(sum(m.sum() for m in tracked), wanted)
    return [m.detach() for m in made]


def operands(shapes, d):
    torch.manual_seed(0)
    made = [(torch.rand(shape) * 4 - 1).to(d) for shape in shapes]
    return [t.requires_grad_() if d.is_floating_point else t for t in made]


def compare():
    """In the other process."""
    from guarded import _kept, moved

    for name, function, shapes, d in calls():
        print(name, shapes, d, flush=True)
        plain = operands(shapes, d)
        expected = run(function, plain)
        for at_end in (True, False):
            for made, value in zip(run(function, [moved(t, at_end) for t in plain]), expected):
                torch.testing.assert_close(made, value, equal_nan=True)
            _kept.clear()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_nothing_beyond_operands_is_touched():
    for _, function, shapes, d in calls():
        run(function, operands(shapes, d))
    here, package = Path(__file__).parent, Path(torch.__file__).parents[1]
    path = os.pathsep.join(map(str, (package, here, here.parent / "fuzz")))
    done = subprocess.run(
        [sys.executable, "-c", "import test_guarded; test_guarded.compare()"], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stdout[-200:], done.stderr[-1000:])
