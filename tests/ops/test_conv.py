"""Convolutions against sums written out over windows; gradients, second derivatives, arguments and errors."""

import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau._ops.layers.convolution import description
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def reference(x, w, stride, padding, dilation, groups):
    """One shifted, strided cut of the padded image for each element of a window."""
    rank = x.ndim - 2
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(wide.shape[2:], w.shape[2:], stride, dilation)]
    outs = []
    for a, b in zip(np.split(wide, groups, 1), np.split(w, groups, 0)):
        total = 0
        for place in itertools.product(*map(range, w.shape[2:])):
            cut = tuple(slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(place, dilation, counts, stride))
            total = total + np.tensordot(a[(..., *cut)], b[(..., *place)], (1, 1))  # (n, *counts, o)
        outs.append(np.moveaxis(total, -1, 1))
    assert outs[0].ndim == rank + 2
    return np.concatenate(outs, 1)


CASES = [
    # rank, x, w, stride, padding, dilation, groups
    (1, (2, 4, 13), (6, 4, 3), (1,), (1,), (1,), 1),
    (1, (1, 6, 20), (6, 2, 5), (3,), (4,), (2,), 3),
    (2, (2, 3, 9, 11), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, (2, 16, 20, 37), (20, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    pytest.param((2, (3, 3, 30, 33), (17, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1), marks=pytest.mark.slow),
    (2, (2, 8, 12, 10), (12, 4, 3, 2), (2, 1), (0, 2), (1, 3), 2),
    (2, (2, 40, 7, 7), (35, 40, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, (2, 6, 7, 9), (6, 6, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, (2, 8, 9, 12), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    (2, (2, 8, 9, 12), (16, 1, 3, 3), (2, 2), (1, 1), (1, 1), 8),
    (2, (1, 2, 5, 5), (3, 2, 1, 1), (1, 1), (2, 1), (1, 1), 1),
    (3, (2, 3, 5, 6, 7), (4, 3, 2, 3, 3), (1, 2, 1), (1, 0, 1), (2, 1, 1), 1),
    (3, (1, 4, 4, 5, 6), (4, 1, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 4),
    (3, (2, 8, 6, 9, 35), (16, 8, 3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    (3, (2, 16, 6, 9, 10), (32, 16, 3, 3, 3), (1, 1, 1), (2, 1, 1), (2, 1, 1), 1),
    (2, (2, 3, 19, 35), (48, 3, 8, 8), (8, 8), (0, 0), (1, 1), 1),
    (1, (1, 20, 90), (16, 20, 3), (2,), (2,), (3,), 1),
]
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 2e-2}


def make(case, d=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.standard_normal(shape)).to(d) for shape in case[1:3]]


@pytest.fixture(params=["products", "windows"])
def way(request, monkeypatch):
    """Small convolutions lay out their windows; large ones go through kernels. Both are tried on all cases."""
    for name in ("SMALL", "SMALL_IN_LANES"):
        monkeypatch.setattr(description, name, 0 if request.param == "windows" else 1 << 60)
    description.way.cache_clear()
    yield
    description.way.cache_clear()


@pytest.mark.sweep
@pytest.mark.parametrize("d", TOLERANCE, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1]}-{c[2]}-s{c[3]}-d{c[5]}-g{c[6]}")
def test_values_and_gradients(case, d, way):
    rank, _, _, stride, padding, dilation, groups = case
    x, w = make(case, d)
    bias = torch.linspace(-1, 1, w.shape[0], dtype=torch.float64).to(d)
    expected = reference(*(t.double().numpy() for t in (x, w)), stride, padding, dilation, groups)
    expected = expected + bias.double().numpy().reshape(-1, *(1,) * rank)
    for t in (x, w, bias):
        t.requires_grad_()
    out = CONV[rank](x, w, bias, stride, padding, dilation, groups)
    assert out.dtype is d and out.shape == expected.shape
    close = {"rtol": TOLERANCE[d], "atol": TOLERANCE[d] * np.abs(expected).max()}
    np.testing.assert_allclose(out.detach().double().numpy(), expected, **close)

    g = torch.from_numpy(np.random.default_rng(1).standard_normal(expected.shape)).to(d)
    out.backward(g)
    # the convolution is linear in each operand: <g, conv(x, w)> gives both gradients along any direction
    rng = np.random.default_rng(2)
    for t, other in ((x, 0), (w, 1)):
        direction = rng.standard_normal(t.shape)
        pair = [x.detach().double().numpy(), w.detach().double().numpy()]
        pair[other] = direction
        change = (reference(*pair, stride, padding, dilation, groups) * g.double().numpy()).sum()
        along = (t.grad.double().numpy() * direction).sum()
        scale = np.sqrt((t.grad.double().numpy() ** 2).sum())
        assert abs(change - along) <= TOLERANCE[d] * 10 * max(scale, 1), (change, along)
    np.testing.assert_allclose(
        bias.grad.double().numpy(),
        g.double().numpy().sum((0, *range(2, 2 + rank))),
        rtol=TOLERANCE[d],
        atol=TOLERANCE[d] * 10,
    )


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", [CASES[0], CASES[5], CASES[8], CASES[11]], ids=lambda c: str(c[1]))
def test_transposed_is_the_adjoint(case, dtype, way):
    rank, _, _, stride, padding, dilation, groups = case
    x, w = make(case, dtype)
    y = CONV[rank](x, w, None, stride, padding, dilation, groups)
    g = torch.randn(*y.shape, dtype=dtype)
    extra = [
        n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, m, s, p, d, k in zip(x.shape[2:], y.shape[2:], stride, padding, dilation, w.shape[2:])
    ]
    back = TRANSPOSED[rank](g, w, None, stride, padding, extra, groups, dilation)
    assert back.shape == x.shape
    one, other = ((a.double() * b.double()).sum().item() for a, b in ((back, x), (g, y)))
    size = (g.double() * y.double()).abs().sum().item()
    assert abs(one - other) <= {torch.float32: 1e-6, torch.float64: 1e-14}[dtype] * size


SMALL = [
    (1, (2, 2, 7), (4, 1, 3), (2,), (1,), (1,), 2),
    (2, (2, 2, 5, 4), (2, 2, 3, 2), (1, 2), (1, 0), (1, 1), 1),
    (2, (1, 2, 4, 4), (2, 1, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    (2, (1, 3, 3, 3), (2, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL, ids=lambda c: str(c[1]))
@pytest.mark.parametrize("d", [torch.float64, torch.complex128], ids=str)
def test_first_and_second_derivatives(case, d):
    rank, _, _, stride, padding, dilation, groups = case
    x, w = make(case)
    if d.is_complex:
        x, w = (torch.complex(t, t.flip(-1)) for t in (x, w))
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    function = lambda a, b: CONV[rank](a, b, None, stride, padding, dilation, groups)
    assert gradcheck(function, (x, w))
    assert gradgradcheck(function, (x, w))
    y = function(x, w).detach().requires_grad_()
    adjoint = lambda a, b: TRANSPOSED[rank](a, b, None, stride, padding, 0, groups, dilation)
    assert gradcheck(adjoint, (y, w))
    assert gradgradcheck(adjoint, (y, w))


def test_same_padding():
    x = torch.arange(5.0).reshape(1, 1, 5)
    w = torch.ones(1, 1, 2)
    with pytest.warns(UserWarning, match="same"):
        assert F.conv1d(x, w, padding="same").tolist() == [[[1.0, 3.0, 5.0, 7.0, 4.0]]]
    assert F.conv1d(x, torch.ones(1, 1, 3), padding="same").tolist() == [[[1.0, 3.0, 6.0, 9.0, 7.0]]]
    assert F.conv1d(x, w, padding="valid").shape == (1, 1, 4)


def test_gaps_between_elements_are_not_read(way):
    x = torch.full((2, 4, 12, 24), float("nan"))[..., ::2]
    w = torch.full((6, 4, 3, 6), float("nan"))[..., ::2]
    with torch.no_grad():
        x.copy_(torch.randn(2, 4, 12, 12))
        w.copy_(torch.randn(6, 4, 3, 3))
    same = [t.clone(memory_format=torch.contiguous_format).requires_grad_() for t in (x, w)]
    x, w = x.requires_grad_(), w.requires_grad_()
    g = torch.full((2, 6, 12, 24), float("nan"))[..., ::2]
    g.copy_(torch.randn(2, 6, 12, 12))
    F.conv2d(x, w, padding=1).backward(g)
    F.conv2d(*same, padding=1).backward(g.contiguous())
    for t, s in zip((x, w), same):
        np.testing.assert_allclose(t.grad.numpy(), s.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_one_large_image_is_shared_by_threads():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 8, 70, 90)), rng.standard_normal((24, 8, 3, 3))
    out = F.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=1)
    np.testing.assert_allclose(out.numpy(), reference(x, w, (1, 1), (1, 1), (1, 1), 1), rtol=1e-10, atol=1e-10)


def test_integers_layouts_and_empty_batches():
    x = torch.arange(48).reshape(1, 3, 4, 4)
    w = torch.ones(2, 3, 2, 2, dtype=torch.int64)
    expected = reference(x.numpy(), w.numpy(), (1, 1), (0, 0), (1, 1), 1)
    out = F.conv2d(x, w)
    assert out.dtype is torch.int64
    np.testing.assert_array_equal(out.numpy(), expected)
    turned = F.conv2d(x.double().transpose(2, 3), w.double())
    np.testing.assert_allclose(turned.numpy(), expected.swapaxes(2, 3))
    assert F.conv2d(torch.ones(0, 3, 4, 4), torch.ones(2, 3, 2, 2)).shape == (0, 2, 3, 3)
    assert F.conv2d(torch.ones(3, 4, 4), torch.ones(2, 3, 2, 2)).shape == (2, 3, 3)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2])
def test_gradients_of_empty_batches(rank, kernel):
    x = torch.ones(0, 3, *[5] * rank, requires_grad=True)
    w, b = torch.ones(2, 3, *[kernel] * rank, requires_grad=True), torch.ones(2, requires_grad=True)
    (F.conv1d, F.conv2d, F.conv3d)[rank - 1](x, w, b).sum().backward()
    assert x.grad.shape == x.shape and torch.equal(w.grad, torch.zeros_like(w)) and b.grad.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x, w: F.conv2d(x[0, 0], w), RuntimeError),
        (lambda x, w: F.conv2d(x, w[:, :2]), RuntimeError),
        (lambda x, w: F.conv2d(x, w, stride=0), RuntimeError),
        (lambda x, w: F.conv2d(x, w, stride=(1, 1, 1)), RuntimeError),
        (lambda x, w: F.conv2d(x, w, stride=1.5), TypeError),
        (lambda x, w: F.conv2d(x, w, padding=-1), RuntimeError),
        (lambda x, w: F.conv2d(x, w, padding="full"), RuntimeError),
        (lambda x, w: F.conv2d(x, w, stride=2, padding="same"), RuntimeError),
        (lambda x, w: F.conv2d(x, w, dilation=4), RuntimeError),
        (lambda x, w: F.conv2d(x, w, groups=0), RuntimeError),
        (lambda x, w: F.conv2d(x, w.double()), RuntimeError),
        (lambda x, w: F.conv2d(x, w, torch.ones(3)), RuntimeError),
        (lambda x, w: F.conv2d(x.bool(), w.bool()), NotImplementedError),
        (lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), output_padding=1), RuntimeError),
    ],
)  # fmt: skip
def test_errors(call, error):
    with pytest.raises(error):
        call(torch.ones(2, 3, 6, 6), torch.ones(4, 3, 3, 3))


def test_unfold_and_fold():
    x = torch.arange(18.0, dtype=torch.float64).reshape(1, 2, 3, 3).requires_grad_()
    blocks = F.unfold(x, 2, padding=1, stride=2)
    assert blocks.shape == (1, 8, 4)
    assert blocks[0, :, 3].tolist() == [4, 5, 7, 8, 13, 14, 16, 17]
    counts = F.fold(F.unfold(torch.ones(1, 1, 3, 3), 2), 3, 2)
    assert counts[0, 0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    assert gradcheck(lambda t: F.unfold(t, 2, padding=1, stride=2), (x,))
    assert gradgradcheck(lambda t: F.fold(F.unfold(t, 2), 3, 2) ** 2, (x,))
    with pytest.raises(RuntimeError):
        F.fold(torch.ones(1, 4, 3), 3, 2)


@pytest.mark.parametrize("name", ["uint8", "int32", "int64", "complex32", "complex64", "float16", "bfloat16"])
def test_dtypes_that_can_be_convolved(name):
    d = getattr(torch, name)
    made = torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3).to(d), torch.ones(1, 1, 2, 2).to(d))
    assert made.dtype is d and made.to(torch.complex64).eq(4).all()


@pytest.mark.parametrize("name", ["bool", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_cannot(name):
    d = getattr(torch, name)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3).to(d), torch.ones(1, 1, 2, 2).to(d))


@pytest.mark.parametrize("stride, padding", [(1, 1), (2, 0), (1, (2, 1, 0))])
def test_volumes_in_several_parts(stride, padding, monkeypatch):
    """A slice of results at a time, of one image."""
    shape = (3, 9, 7, 17, 19)
    monkeypatch.setattr("flambeau._ops.layers.convolution.volumes._BYTES", 4 * 9 * 3 * 17 * 19)
    torch.manual_seed(0)
    x, w, b = torch.randn(shape), torch.randn(13, 9, 3, 3, 3), torch.randn(13)
    results = []
    for d in (torch.float32, torch.float64):
        given = [t.to(d).requires_grad_() for t in (x, w, b)]
        y = torch.nn.functional.conv3d(*given, stride=stride, padding=padding)
        slopes = torch.autograd.grad((y * torch.linspace(-1, 1, y.numel(), dtype=d).view(y.shape)).sum(), given)
        results.append([y.detach(), *slopes])
    for short, long in zip(*results):
        assert (short.double() - long).abs().max() <= 1e-5 * long.abs().max()


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("function", [F.conv1d, F.conv_transpose1d])
def test_large_unsigned_integers_are_refused(function, name):
    x = torch.ones(2, 2, 5).to(getattr(torch, name))
    with pytest.raises(NotImplementedError, match=f"not implemented for 'UInt{name[4:]}'"):
        function(x, x)


def test_transposed_convolutions_know_one_kind_of_integers():
    x = torch.arange(6).reshape(1, 2, 3)
    assert F.conv_transpose1d(x, x[..., :2].reshape(2, 1, 2)).tolist() == [[[9, 24, 32, 22]]]
    for d in (torch.uint8, torch.int8, torch.int16, torch.int32):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            F.conv_transpose1d(x.to(d), x[..., :2].reshape(2, 1, 2).to(d))


def test_little_groups_of_one_dimension():
    x, w = torch.arange(24.0).reshape(2, 3, 4), torch.tensor([1.0, -1.0]).expand(3, 1, 2)
    assert F.conv1d(x, w, groups=3).eq(-1).all()
    with pytest.raises(RuntimeError, match="Only zero batch or zero channel inputs are supported"):
        F.conv1d(x[:, :, :0], w, padding=1, groups=3)
    assert F.conv1d(x[:0, :, :0], w, padding=1, groups=3).shape == (0, 3, 1)


def test_blocks_of_images_that_are_none():
    for shape in ((1, 1, 1, 4, 4), (1, 0, 4, 4), (1, 2, 0, 4), (0, 4, 4)):
        with pytest.raises(RuntimeError, match=r"Expected 3D or 4D \(batch mode\) tensor"):
            F.unfold(torch.zeros(shape), 2)
    assert F.unfold(torch.zeros(0, 2, 4, 4), 2).shape == (0, 8, 9)
    with pytest.raises(IndexError):
        F.unfold(torch.zeros(4, 4), 2)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dilation_leaves_room_for_more_than_single_elements_give(rank):
    """`output_padding` may be less than the dilation, which windows of one element do not use otherwise."""
    x = torch.arange(2.0 * 3**rank).view(1, 2, *[3] * rank).requires_grad_()
    w = torch.tensor([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]).view(2, 3, *[1] * rank).requires_grad_()
    made = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1](x, w, dilation=2, output_padding=1)
    plain = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1](x, w)
    expected = F.pad(plain, (0, 1) * rank)
    assert torch.equal(made, expected)
    g = torch.arange(float(made.numel())).view(made.shape).cos()
    for found, wanted in zip(torch.autograd.grad(made, (x, w), g), torch.autograd.grad(expected, (x, w), g)):
        torch.testing.assert_close(found, wanted)


def test_signals_come_out_row_by_row():
    x = torch.arange(24.0).reshape(2, 4, 3).transpose(1, 2)  # (batch, 3 channels, length 4), channels side by side
    w = torch.arange(18.0).reshape(2, 3, 3)
    for make, weight in ((F.conv1d, w), (F.conv1d, w[..., :1]), (F.conv_transpose1d, w.transpose(0, 1))):
        for _ in range(4):  # the last by plans
            made = make(x, weight)
            assert made.is_contiguous() and made.view(-1).equal(make(x.contiguous(), weight).view(-1))
    assert not F.conv1d(x, w.transpose(1, 2).contiguous().transpose(1, 2)).is_contiguous()  # by the weight's layout
