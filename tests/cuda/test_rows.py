"""Programs along rows, as CUDA kernels that the CPU runs."""

import pytest

import flambeau as torch
from flambeau._backend import cuda_rows
from flambeau._core.state import CUDA

from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

F = torch.nn.functional


def close(a, b, d=torch.float32):
    a, b = a.double(), b.double()
    assert a.shape == b.shape
    error = ((a - b).abs() / (1 + b.abs())).max().item()
    assert error < (1e-2 if d is torch.bfloat16 else 1e-5), error


def agree(function, *tensors, d=torch.float32):
    """Results, and the gradients by the tensors that want some, as on the CPU."""
    there = [on_gpu(t, t.requires_grad) for t in tensors]
    expected, got = function(*tensors), function(*there)
    close(back(got), expected.detach(), d)
    if got.requires_grad:
        torch.manual_seed(1)
        g = torch.randn(expected.shape).to(expected.dtype)
        wanted = [i for i, t in enumerate(tensors) if t.requires_grad]
        theirs = torch.autograd.grad(expected, [tensors[i] for i in wanted], g)
        ours = torch.autograd.grad(got, [there[i] for i in wanted], on_gpu(g))
        for a, b in zip(ours, theirs, strict=True):
            close(back(a), b, d)


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((3, 7), 1, torch.float32),  # several rows in a warp
        ((3, 300), 1, torch.bfloat16),  # a row in registers
        ((2, 1031), 1, torch.float32),  # the same, and a last part that is no whole pack
        ((5, 33), 0, torch.float32),  # columns
    ],
)
def test_softmax(gpu, shape, dim, d):
    torch.manual_seed(0)
    x = torch.randn(shape).to(d).requires_grad_()
    agree(lambda x: torch.softmax(x, dim), x, d=d)


def test_long_rows(gpu):
    torch.manual_seed(0)
    x = torch.randn(1, 40001)
    agree(lambda x: x.softmax(1), x)
    agree(lambda x: x.sum(1) / 100, x)
    agree(lambda x: x.var(1), x)


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16], ids=str)
def test_layer_norm(gpu, d):
    torch.manual_seed(0)
    x, w, b = (torch.randn(s).to(d).requires_grad_() for s in ((6, 300), (300,), (300,)))
    agree(lambda x, w, b: F.layer_norm(x, (300,), w, b), x, w, b, d=d)
    agree(lambda x: F.layer_norm(x, (77,)), x.detach()[:, :77], d=d)


def test_rms_norm(gpu):
    torch.manual_seed(0)
    x, w = torch.randn(4, 20, requires_grad=True), torch.randn(20, requires_grad=True)
    agree(lambda x, w: F.rms_norm(x, (20,), w, 1e-5), x, w)


@pytest.mark.parametrize("classes, d", [(10, torch.float32), (700, torch.bfloat16)])
def test_cross_entropy(gpu, classes, d):
    torch.manual_seed(0)
    x = torch.randn(6, classes).to(d).requires_grad_()
    target = torch.tensor([0, classes - 1, 5, -100, 1, 2])
    weight = torch.rand(classes).to(d)
    for reduction in ("mean", "sum", "none"):
        agree(lambda x, y: F.cross_entropy(x, y, reduction=reduction), x, target, d=d)
        agree(
            lambda x, y, w: F.cross_entropy(x, y, w, reduction=reduction, label_smoothing=0.2), x, target, weight, d=d
        )
        if d is torch.float32:
            agree(lambda x, y, w: F.nll_loss(x, y, w, reduction=reduction), x.detach(), target, weight)
    soft = torch.rand(6, classes).to(d)
    agree(lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1), x, soft, weight, d=d)
    gpu.errors.check()


def test_cross_entropy_of_pictures(gpu):
    torch.manual_seed(0)
    x, target = torch.randn(2, 5, 3, 40, requires_grad=True), torch.randint(0, 5, (2, 3, 40))
    agree(lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1), x, target, torch.rand(5))
    agree(lambda x, y: F.nll_loss(x, y, ignore_index=2), x.detach(), target)
    agree(lambda x, y: F.cross_entropy(x, y), x, torch.randn(2, 5, 3, 40).softmax(1))


def test_a_wrong_target_is_told_at_the_next_wait(gpu):
    x, target = torch.randn(3, 4), torch.tensor([0, 4, 1])
    F.cross_entropy(on_gpu(x), on_gpu(target))
    with pytest.raises(IndexError, match="out of bounds"):
        gpu.errors.check()
    gpu.errors.check()


def test_a_mean_without_targets(gpu):
    x, target = torch.randn(2, 4), torch.full((2,), -100)
    assert back(F.cross_entropy(on_gpu(x), on_gpu(target))).isnan().item()
    assert back(F.cross_entropy(on_gpu(x), on_gpu(target), reduction="sum")).item() == 0


def test_many_rows_are_shared_by_fewer_threads(gpu, monkeypatch):
    monkeypatch.setattr(cuda_rows, "_BLOCKS", 1)
    gpu.along.launches.clear()
    torch.manual_seed(0)
    x = torch.randn(21, 1040)
    agree(lambda x: torch.softmax(x, 1), x)
    found = list(gpu.along.launches.values())
    assert any([launch.grid[0] < 21 for launch in found])
    agree(lambda x: F.layer_norm(x, (1040,)), x)
    gpu.along.launches.clear()


@pytest.mark.slow
@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape, groups", [((2, 6, 5, 7), 3), ((3, 4, 300), 1), ((2, 3, 40), 3)])
def test_group_norm(gpu, shape, groups, d):
    torch.manual_seed(0)
    x = torch.randn(shape).to(d).requires_grad_()
    w, b = (torch.rand(shape[1]).to(d).requires_grad_() for _ in range(2))
    agree(lambda x, w, b: F.group_norm(x, groups, w, b), x, w, b, d=d)
    agree(lambda x, w: F.group_norm(x, groups, w), x, w, d=d)
    agree(lambda x: F.group_norm(x, groups), x, d=d)
    agree(lambda x, w, b: F.instance_norm(x, None, None, w, b), x, w, b, d=d)


@pytest.mark.slow
def test_margins_and_angles(gpu):
    torch.manual_seed(0)
    x, y = (torch.randn(4, 300, requires_grad=True) for _ in range(2))
    target, labels = torch.tensor([0, 299, 5, 7]), torch.full((4, 300), -1)
    labels[:, :2] = torch.tensor([3, 8])
    agree(lambda x, y: F.cosine_similarity(x, y), x, y)
    agree(lambda x, y: F.cosine_similarity(x, y, 0), x, y)
    agree(lambda x, t: F.multi_margin_loss(x, t, p=2, reduction="none"), x, target)
    agree(lambda x, t, w: F.multi_margin_loss(x, t, weight=w, reduction="none"), x, target, torch.rand(300))
    agree(lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"), x, labels)


@pytest.mark.slow
@pytest.mark.parametrize("much", [1 << 18, 16], ids=["whole", "split"])
@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels_last"])
@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels", [5, 16])
def test_batch_norm(gpu, monkeypatch, channels, d, last, much):
    """A block for each channel, or pieces of channels by many blocks; as planes and side by side in memory, where a thread has several."""
    monkeypatch.setattr(cuda_rows, "_MUCH", much)
    torch.manual_seed(0)
    x = torch.randn(3, channels, 6, 7) * 2 + 1
    x = (x.to(memory_format=torch.channels_last) if last else x).to(d).requires_grad_()
    w, b = torch.randn(channels, requires_grad=True), torch.randn(channels, requires_grad=True)
    mean, var = torch.randn(channels), torch.rand(channels) + 0.5

    def train(x, w, b):
        own = [on_gpu(t) if x._k & CUDA else t.clone() for t in (mean, var)]
        out = F.batch_norm(x, *own, w, b, training=True)
        moved.append([back(t) if x._k & CUDA else t for t in own])
        return out

    moved = []
    agree(train, x, w, b, d=d)
    for a, e in zip(*moved):
        close(a, e)
    agree(lambda x: F.batch_norm(x, None, None, training=True), x, d=d)
    here = mean, var
    agree(lambda x, w, b: F.batch_norm(x, *([on_gpu(t) for t in here] if x._k & CUDA else here), w, b), x, w, b, d=d)
    there = on_gpu(x.detach())
    assert train(there, on_gpu(w), on_gpu(b)).stride() == x.stride()
    more = torch.randn(3, channels + 8, 6, 7).to(memory_format=torch.channels_last).to(d).requires_grad_()
    agree(lambda x: F.batch_norm(x[:, 1 : channels + 1], None, None, training=True), more, d=d)  # memory at odd places


@pytest.mark.slow
def test_few_long_rows_are_shared_by_many_blocks(gpu, monkeypatch):
    monkeypatch.setattr(cuda_rows, "_MUCH", 16)
    torch.manual_seed(0)
    for shape, dim in [((2, 9001), 1), ((9001, 3), 0), ((2, 5000, 3), 1)]:
        x = torch.randn(shape, requires_grad=True)
        agree(lambda x: x.softmax(dim), x)
        agree(lambda x: x.log_softmax(dim), x)
    x = torch.randn(2, 9001, requires_grad=True)
    agree(lambda x: F.layer_norm(x, (9001,)), x)
