"""Operations of detection and shared layers, against direct loops."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import ops

GENERATOR = np.random.default_rng(0)


def _boxes(count, size=50):
    corner = GENERATOR.random((count, 2)) * size
    return np.concatenate([corner, corner + GENERATOR.random((count, 2)) * 20], 1).astype(np.float32)


def _overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    common = width * height
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def _nms(boxes, scores, threshold):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if all(_overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(int(i))
    return kept


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_nms(threshold):
    boxes, scores = _boxes(120), GENERATOR.random(120).astype(np.float32).round(1)
    found = ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), threshold)
    assert found.dtype is torch.int64
    assert found.tolist() == _nms(boxes, scores, threshold)
    groups = GENERATOR.integers(0, 3, 120)
    found = ops.batched_nms(torch.from_numpy(boxes), torch.from_numpy(scores), torch.from_numpy(groups), threshold)
    wanted = [np.flatnonzero(groups == g)[_nms(boxes[groups == g], scores[groups == g], threshold)] for g in range(3)]
    assert sorted(found.tolist()) == sorted(np.concatenate(wanted).tolist())
    assert (np.diff(scores[found.numpy()]) <= 0).all()


def test_nms_edges():
    assert ops.nms(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []
    assert ops.nms(torch.full((2, 4), float("nan")), torch.ones(2), 0.5).tolist() == [0, 1]
    for boxes, scores in (
        (torch.zeros(4), torch.zeros(1)),
        (torch.zeros(1, 5), torch.zeros(1)),
        (torch.zeros(2, 4), torch.zeros(1)),
    ):
        with pytest.raises(RuntimeError):
            ops.nms(boxes, scores, 0.5)


def test_overlaps():
    first, second = _boxes(4), _boxes(5)
    a, b = torch.from_numpy(first), torch.from_numpy(second)
    wanted = np.array([[_overlap(x, y) for y in second] for x in first])
    assert np.allclose(ops.box_iou(a, b).numpy(), wanted, atol=1e-6)
    hull = np.array(
        [[(max(x[2], y[2]) - min(x[0], y[0])) * (max(x[3], y[3]) - min(x[1], y[1])) for y in second] for x in first]
    )
    area = (first[:, 2] - first[:, 0]) * (first[:, 3] - first[:, 1])
    other = (second[:, 2] - second[:, 0]) * (second[:, 3] - second[:, 1])
    union = (area[:, None] + other) / (1 + wanted)
    assert np.allclose(ops.generalized_box_iou(a, b).numpy(), wanted - (hull - union) / hull, atol=1e-4)
    same = torch.tensor([[0.0, 0.0, 4.0, 2.0]])
    for function in (ops.generalized_box_iou, ops.distance_box_iou, ops.complete_box_iou):
        assert function(same, same).item() == pytest.approx(1.0)
    for function in (ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss):
        assert function(same, same, reduction="mean").item() == pytest.approx(0.0, abs=1e-6)
    assert ops.box_area(torch.tensor([[0, 0, 200, 200]], dtype=torch.uint8)).item() == 40000


def test_box_forms():
    boxes = torch.tensor([[1.0, 2.0, 5.0, 8.0]])
    for name, numbers in (("xywh", [1, 2, 4, 6]), ("cxcywh", [3, 5, 4, 6])):
        there = ops.box_convert(boxes, "xyxy", name)
        assert there[0].tolist() == numbers
        assert torch.equal(ops.box_convert(there, name, "xyxy"), boxes)
    with pytest.raises(ValueError, match="Unsupported"):
        ops.box_convert(boxes, "xyxy", "corners")
    assert ops.clip_boxes_to_image(torch.tensor([[-1.0, 2.0, 50.0, 60.0]]), (20, 30)).tolist() == [[0, 2, 30, 20]]
    assert ops.remove_small_boxes(torch.tensor([[0.0, 0, 1, 9], [0, 0, 5, 5]]), 2).tolist() == [1]
    masks = torch.zeros(2, 6, 7)
    masks[0, 2:4, 1:6] = 1
    masks[1, 5, 6] = 1
    assert ops.masks_to_boxes(masks).tolist() == [[1, 2, 5, 3], [6, 5, 6, 5]]


def _bilinear(plane, y, x):
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = y - top, x - left
    upper = plane[top, left] * (1 - across) + plane[top, right] * across
    return upper * (1 - down) + (plane[bottom, left] * (1 - across) + plane[bottom, right] * across) * down


def _roi_align(x, rois, size, scale, samples, aligned):
    out = np.zeros((len(rois), x.shape[1], *size))
    shift = 0.5 if aligned else 0.0
    for k, (image, *box) in enumerate(rois):
        left, top, right, bottom = (v * scale - shift for v in box)
        width, height = right - left, bottom - top
        if not aligned:
            width, height = max(width, 1), max(height, 1)
        down = samples if samples > 0 else math.ceil(height / size[0])
        across = samples if samples > 0 else math.ceil(width / size[1])
        for c in range(x.shape[1]):
            for p in range(size[0]):
                for q in range(size[1]):
                    points = [
                        _bilinear(
                            x[int(image), c],
                            top + (p + (i + 0.5) / down) * height / size[0],
                            left + (q + (j + 0.5) / across) * width / size[1],
                        )
                        for i in range(down)
                        for j in range(across)
                    ]
                    out[k, c, p, q] = np.mean(points)
    return out


ROIS = np.array([[0, 1, 2, 9, 11], [1, -4, 0, 6, 30], [0, 3, 3, 3, 3], [1, 8, 2, 25, 9.5]], dtype=np.float64)


@pytest.mark.parametrize("samples", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(samples, aligned):
    x = GENERATOR.normal(size=(2, 2, 6, 8))
    rois = torch.from_numpy(ROIS)
    found = ops.roi_align(torch.from_numpy(x), rois, (2, 3), 0.6, samples, aligned)
    wanted = _roi_align(x, ROIS[[0, 1, 3]], (2, 3), 0.6, samples, aligned)
    assert np.allclose(found.numpy()[[0, 1, 3]], wanted, atol=1e-12)
    small = torch.from_numpy(x[:, :1, :4, :4]).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: ops.roi_align(t, rois, (2, 2), 0.6, samples, aligned), (small,))
    assert torch.autograd.gradgradcheck(lambda t: ops.roi_align(t, rois, (2, 2), 0.6, samples, aligned), (small,))


def test_roi_pool():
    x = GENERATOR.normal(size=(1, 2, 6, 8))
    rois = torch.tensor([[0.0, 1.0, 2.0, 5.0, 5.0], [0.0, 20.0, 20.0, 30.0, 30.0]], dtype=torch.float64)
    found = ops.roi_pool(torch.from_numpy(x), rois, 2)
    wanted = [[x[0, c, i : i + 2, j : j + n].max() for i in (2, 4) for j, n in ((1, 3), (3, 3))] for c in range(2)]
    assert np.allclose(found[0].reshape(2, 4).numpy(), wanted)
    assert not found[1].any()
    t = torch.from_numpy(x).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: ops.roi_pool(t, rois, 2), (t,))


def test_roi_edges():
    x = torch.ones(1, 2, 3, 3)
    assert ops.roi_align(x, torch.zeros(0, 5), 2).shape == (0, 2, 2, 2)
    assert ops.roi_align(x, [torch.tensor([[0.0, 0.0, 2.0, 2.0]])], 2).shape == (1, 2, 2, 2)
    assert ops.roi_align(x.half(), torch.tensor([[0.0, 0, 0, 2, 2]]).half(), 1).dtype is torch.float16
    wild = torch.tensor([[0, float("nan"), 0, float("inf"), 2]])
    assert not ops.roi_align(x, wild, 2).any()
    with pytest.raises(RuntimeError, match="not among"):
        ops.roi_align(x, torch.tensor([[1.0, 0, 0, 1, 1]]), 2)
    with pytest.raises(RuntimeError, match="dtype"):
        ops.roi_align(x, torch.zeros(1, 5).double(), 2)
    with pytest.raises(AssertionError, match="shape"):
        ops.roi_align(x, torch.zeros(1, 4), 2)


def test_focal_loss():
    x, t = torch.tensor([-2.0, 0.3, 1.5]), torch.tensor([0.0, 1.0, 0.0])
    p = 1 / (1 + np.exp(-x.numpy().astype(np.float64)))
    right = np.where(t.numpy() == 1, p, 1 - p)
    wanted = np.where(t.numpy() == 1, 0.25, 0.75) * (1 - right) ** 2 * -np.log(right)
    assert np.allclose(ops.sigmoid_focal_loss(x, t).numpy(), wanted, atol=1e-6)
    assert ops.sigmoid_focal_loss(x, t, reduction="sum").item() == pytest.approx(wanted.sum(), abs=1e-6)
    with pytest.raises(ValueError, match="reduction"):
        ops.sigmoid_focal_loss(x, t, reduction="max")


def test_stochastic_depth():
    x = torch.ones(200, 3)
    torch.manual_seed(0)
    out = ops.stochastic_depth(x, 0.25, "row")
    assert sorted(set(out[:, 0].tolist())) == pytest.approx([0.0, 4 / 3])
    assert torch.equal(out[:, 0], out[:, 2])
    assert ops.StochasticDepth(0.5, "batch").eval()(x) is x
    with pytest.raises(ValueError, match="mode"):
        ops.stochastic_depth(x, 0.5, "column")
    with pytest.raises(ValueError, match="between 0 and 1"):
        ops.stochastic_depth(x, 1.5, "row")


def test_drop_block():
    torch.manual_seed(0)
    out = ops.drop_block2d(torch.ones(4, 3, 12, 12), 0.3, 3)
    dropped = out == 0
    assert 0.1 < dropped.float().mean() < 0.5
    assert out.mean().item() == pytest.approx(1.0, abs=1e-3)
    assert ops.DropBlock2d(0.5, 3).eval()(out) is out
    with pytest.raises(ValueError, match="odd"):
        ops.drop_block2d(torch.ones(1, 1, 8, 8), 0.1, 2)


def test_layers():
    frozen = ops.FrozenBatchNorm2d(3)
    ordinary = torch.nn.BatchNorm2d(3).eval()
    ordinary.running_mean.uniform_()
    ordinary.running_var.uniform_(0.5, 2)
    frozen.load_state_dict(ordinary.state_dict())
    x = torch.randn(2, 3, 4, 4)
    assert torch.allclose(frozen(x), ordinary(x), atol=1e-5)
    assert not list(frozen.parameters())
    assert ops.SqueezeExcitation(4, 2)(torch.ones(1, 4, 3, 3)).shape == (1, 4, 3, 3)
    assert ops.Conv2dNormActivation(3, 4, (3, 5), activation_layer=None)[0].padding == (1, 2)
    assert ops.Permute([0, 2, 1])(torch.zeros(1, 2, 3)).shape == (1, 3, 2)


def test_deformable_convolution():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 4, 6, 6), torch.randn(6, 2, 3, 3), torch.randn(6)
    straight = torch.nn.functional.conv2d(x, weight, bias, stride=2, padding=1, groups=2)
    out = ops.deform_conv2d(x, torch.zeros(2, 18, 3, 3), weight, bias, stride=2, padding=1)
    assert torch.allclose(out, straight, atol=1e-5)
    across = torch.zeros(2, 18, 3, 3)
    across[:, 1::2] = 1.0  # one pixel to the right
    moved = torch.nn.functional.pad(x, (0, 1))[..., 1:]
    mask = torch.full((2, 9, 3, 3), 0.5)
    out = ops.deform_conv2d(x, across, weight, stride=2, padding=1, mask=mask)
    inner = torch.nn.functional.conv2d(moved, weight, stride=2, padding=1, groups=2) * 0.5
    assert torch.allclose(out[..., 1:], inner[..., 1:], atol=1e-5)
    layer = ops.DeformConv2d(4, 6, 3, padding=1)
    offset = torch.randn(2, 18, 6, 6, requires_grad=True)
    layer(x, offset).sum().backward()
    assert offset.grad.abs().sum() > 0 and layer.weight.grad.shape == (6, 4, 3, 3)


def test_operators_of_torchvision():
    registered = torch.ops
    registered.load_library("/somewhere/torchvision/_C.so")
    with pytest.raises(OSError, match="cannot load operators"):
        registered.load_library("/somewhere/other/_C.so")
    vision = registered.torchvision
    boxes, scores = torch.from_numpy(_boxes(20)), torch.rand(20)
    assert torch.equal(vision.nms(boxes, scores, 0.3), ops.nms(boxes, scores, 0.3))
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    rois = torch.tensor([[0.0, 0.0, 0.0, 5.0, 5.0], [1.0, 2.0, 1.0, 7.0, 6.0]])
    pooled, places = vision.roi_pool(x, rois, 1.0, 2, 2)
    planes = x.detach()[rois[:, 0].long()].flatten(2)
    assert torch.equal(planes.gather(2, places.long().flatten(2)), pooled.detach().flatten(2))
    g = torch.randn(2, 4, 2, 2)
    wanted = torch.autograd.grad(ops.roi_pool(x, rois, 2), x, g)[0]
    assert torch.allclose(vision._roi_pool_backward(g, rois, places, 1.0, 2, 2, 2, 4, 8, 8), wanted)
    wanted = torch.autograd.grad(ops.roi_align(x, rois, 2), x, g)[0]
    assert torch.allclose(vision._roi_align_backward(g, rois, 1.0, 2, 2, 2, 4, 8, 8, -1, False), wanted)
    aligned, channels = vision.ps_roi_align(x, rois, 1.0, 2, 2, 2)
    assert torch.equal(aligned, ops.ps_roi_align(x, rois, 2, 1.0, 2)) and channels[0].flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["roi_align", "roi_pool", "ps_roi_align", "batched_nms"])
def test_traces_follow_their_inputs(name):
    torch.manual_seed(0)
    boxes = torch.tensor([[0.0, 1, 1, 9, 9], [1, 2, 2, 12, 8], [0, 0, 0, 5, 14]])
    others = torch.tensor([[1.0, 3, 1, 11, 9], [1, 3, 1, 12, 8], [0, 0, 0, 5, 14]])
    if name == "batched_nms":
        run = lambda b, s: ops.batched_nms(b[:, 1:], s, b[:, 0].long(), 0.3)
        first, second = (boxes, torch.tensor([0.5, 0.9, 0.7])), (others, torch.tensor([0.9, 0.1, 0.3]))
    else:
        run = lambda x, b: getattr(ops, name)(x, b, 2, 0.5)
        first, second = (torch.randn(2, 8, 16, 16), boxes), (torch.randn(2, 8, 16, 16), others)
    traced = torch.jit.trace(run, first)
    assert torch.equal(traced(*first), run(*first)) and torch.equal(traced(*second), run(*second))
    assert "ops.torchvision." in traced.code


def test_traced_lists_of_boxes_and_autocast():
    x, parts = torch.randn(2, 3, 8, 8), [torch.tensor([[0.0, 0, 4, 4]]), torch.tensor([[1.0, 1, 5, 7], [0, 0, 2, 2]])]
    expected = ops.roi_align(x, parts, 2)
    traced = torch.jit.trace(lambda x, a, b: ops.roi_align(x, [a, b], 2), (x, *parts))
    assert torch.equal(traced(x, *parts), expected)
    with torch.autocast("cpu"):
        assert torch.equal(ops.roi_align(x, parts, 2), expected)


@pytest.mark.slow
def test_roi_align_gradients():
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, requires_grad=True)
    boxes = torch.tensor([[0.0, 0, 0, 4, 4], [1, 1, 1, 5, 3]], dtype=torch.float64)
    run = lambda x: ops.roi_align(x, boxes, 2, 1.0, 2, True)
    assert torch.autograd.gradcheck(run, x) and torch.autograd.gradgradcheck(run, x)


def test_deformed_convolutions_of_no_images():
    x, offset, weight = torch.zeros(0, 4, 5, 6), torch.zeros(0, 18, 3, 4), torch.ones(2, 4, 3, 3, requires_grad=True)
    out = ops.deform_conv2d(x, offset, weight)
    out.sum().backward()
    assert out.shape == (0, 2, 3, 4) and weight.grad.count_nonzero() == 0
    with pytest.raises(RuntimeError, match=r"mask.shape\[1\] is not valid"):
        ops.deform_conv2d(x, offset, weight, mask=torch.ones(0, 3, 3, 4))
