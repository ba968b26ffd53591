"""Convolutions by cuDNN: what they give is what the CPU gives, in every role, layout and type; the switches have effect."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._backend.cuda import cuda

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.backends.cudnn.is_available(), reason="no GPU with cuDNN")]

CASES = [
    (F.conv1d, (3, 4, 20), (6, 4, 5), {"padding": 2}),
    (F.conv2d, (3, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    (F.conv2d, (2, 4, 9, 8), (6, 2, 3, 2), {"stride": (2, 1), "groups": 2}),
    (F.conv2d, (2, 6, 12, 12), (6, 1, 3, 3), {"dilation": 2, "groups": 6, "padding": "same"}),
    (F.conv3d, (2, 3, 5, 6, 7), (4, 3, 3, 2, 3), {"padding": 1}),
    (F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    (F.conv_transpose1d, (2, 4, 9), (4, 3, 4), {"stride": 3}),
]


@pytest.fixture
def calls(monkeypatch):
    """Roles that cuDNN was asked for, and whether it could."""
    seen = []
    before = type(cuda.convolutions).__call__

    def call(self, role, *args):
        seen.append((role, before(self, role, *args)))
        return seen[-1][1]

    monkeypatch.setattr(type(cuda.convolutions), "__call__", call)
    return seen


def values(f, x, w, b, options, device, dtype, last):
    x, w, b = (torch.from_numpy(a).to(device, dtype) for a in (x, w, b))
    if last:
        x = x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    x, w, b = (a.requires_grad_() for a in (x, w, b))
    out = f(x, w, b, **options)
    weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(device, dtype)
    return [out, *torch.autograd.grad((out * weights).sum(), (x, w, b))]


def steps(t):
    """Strides where they matter: a weight of one channel is dense in both formats, and cuDNN has that of the image."""
    return [s for n, s in zip(t.shape, t.stride()) if n > 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("f", "x", "w", "options"), CASES)
def test_all_roles_agree_with_the_cpu(f, x, w, options, dtype, last, calls):
    if last and len(x) == 3:
        pytest.skip("signals have no channels last")
    rng = np.random.default_rng(1)
    outputs = w[1] if "transpose" in f.__name__ else w[0]
    operands = [rng.normal(size=s) for s in (x, w, (outputs,))]
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        there = values(f, *operands, options, "cuda", dtype, last)
    here = values(f, *operands, options, "cpu", dtype, last)
    assert {role for role, could in calls if could} == {"products", "adjoint", "sums"}
    limit = {torch.float64: 1e-11, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
    for a, b in zip(there, here):
        assert a.is_cuda and a.dtype is dtype and steps(a) == steps(b)
        a, b = (z.detach().cpu().double() for z in (a, b))
        assert float((a - b).abs().max()) <= limit * max(1.0, float(b.abs().max()))


def test_switches(calls):
    x, w = torch.randn(2, 3, 8, 8, device="cuda"), torch.randn(4, 3, 3, 3, device="cuda")
    for _ in range(4):  # the last of them by a plan
        one = F.conv2d(x, w)
    assert calls
    calls.clear()
    with torch.backends.cudnn.flags(enabled=False):
        other = F.conv2d(x, w)
    assert not calls
    torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)
    for options in ({"benchmark": True}, {"deterministic": True}, {"allow_tf32": False}):
        with torch.backends.cudnn.flags(enabled=True, **options):
            made = F.conv2d(x, w)
        assert calls
        calls.clear()
        torch.testing.assert_close(made, other, rtol=1e-2, atol=1e-2)
    exact = F.conv2d(x.double(), w.double()).float()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        torch.testing.assert_close(F.conv2d(x, w), exact, rtol=1e-5, atol=1e-5)


def test_programs_follow_switches():
    x, w = torch.randn(2, 8, 16, 16, device="cuda"), torch.randn(32, 8, 3, 3, device="cuda")
    exact = F.conv2d(x.double(), w.double()).float()
    compiled = torch.compile(lambda x, w: F.conv2d(x, w).relu())
    found = {}
    for rounded in (True, True, True, False, False, False, True, False):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=rounded):
            made = compiled(x, w)
        if not rounded:
            torch.testing.assert_close(made, exact.relu(), rtol=1e-5, atol=1e-5)
        assert torch.equal(found.setdefault(rounded, made), made)


def test_convolutions_on_streams_follow_them():
    x, w = torch.randn(8, 16, 32, 32, device="cuda"), torch.randn(16, 16, 3, 3, device="cuda")
    expected = F.conv2d(x, w, padding=1)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x
        for _ in range(3):
            y = F.conv2d(x, w, padding=1)
    stream.synchronize()
    assert torch.equal(y, expected)


def test_what_cudnn_leaves_out_is_computed():
    w = torch.randn(4, 3, 3, 3, device="cuda")
    assert F.conv2d(torch.randn(0, 3, 8, 8, device="cuda"), w).shape == (0, 4, 6, 6)
    z = torch.randn(1, 3, 5, 5, device="cuda", dtype=torch.complex64)
    torch.testing.assert_close(
        F.conv2d(z, w.to(z.dtype)).cpu(), F.conv2d(z.cpu(), w.cpu().to(z.dtype)), rtol=1e-4, atol=1e-4
    )
