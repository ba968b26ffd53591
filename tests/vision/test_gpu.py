"""Vision on a GPU, against the same on the CPU."""

import pytest

import flambeau as torch
from flambeau.vision import models, ops
from flambeau.vision.transforms import v2

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def _close(found, wanted, tolerance=1e-4):
    assert found.device.type == "cuda"
    found, wanted = found.detach().cpu(), wanted.detach()
    assert (found - wanted).abs().max() <= tolerance * max(1.0, float(wanted.abs().max()))


def test_resnet(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # which rounds to 10 bits
    torch.manual_seed(0)
    model = models.resnet18(num_classes=10)
    x = torch.randn(4, 3, 64, 64)
    out = model(x)
    out.square().mean().backward()
    wanted = model.conv1.weight.grad.clone()
    there = models.resnet18(num_classes=10)
    there.load_state_dict(
        {k: v for k, v in model.state_dict().items() if "running" not in k and "num_" not in k}, strict=False
    )
    there.cuda()
    made = there(x.cuda())
    _close(made, out, 1e-3)
    made.square().mean().backward()
    _close(there.conv1.weight.grad, wanted, 2e-2)


def test_boxes():
    torch.manual_seed(0)
    corners = torch.rand(200, 2) * 50
    boxes, scores = torch.cat([corners, corners + torch.rand(200, 2) * 20], 1), torch.rand(200)
    found = ops.nms(boxes.cuda(), scores.cuda(), 0.4)
    assert found.device.type == "cuda"
    assert found.tolist() == ops.nms(boxes, scores, 0.4).tolist()
    _close(ops.box_iou(boxes.cuda(), boxes.cuda()), ops.box_iou(boxes, boxes))


@pytest.mark.parametrize("function", [ops.roi_align, ops.roi_pool])
def test_rois(function):
    torch.manual_seed(0)
    x = torch.randn(2, 5, 20, 22, requires_grad=True)
    rois = torch.tensor([[0.0, 1, 2, 15, 18], [1, 3, 4, 30, 12], [0, 5, 5, 9, 9]])
    out = function(x, rois, (3, 4), 0.7)
    weight = torch.randn_like(out)
    (wanted,) = torch.autograd.grad((out * weight).sum(), x)
    y = x.detach().cuda().requires_grad_()
    made = function(y, rois.cuda(), (3, 4), 0.7)
    _close(made, out)
    _close(torch.autograd.grad((made * weight.cuda()).sum(), y)[0], wanted)


@pytest.mark.parametrize(
    "transform",
    [
        v2.Resize((9, 11)), v2.RandomRotation((30, 30)), v2.GaussianBlur(3, 1.0), v2.Pad(2, padding_mode="symmetric"),
        v2.RandomEqualize(1.0), v2.RandomAutocontrast(1.0), v2.ColorJitter((1.2, 1.2), (0.8, 0.8), (1.1, 1.1), (0.1, 0.1)),
    ],
    ids=lambda t: type(t).__name__,
)  # fmt: skip
def test_transforms(transform):
    image = torch.randint(0, 256, (3, 14, 16), dtype=torch.uint8)
    torch.manual_seed(0)
    wanted = transform(image).float()
    torch.manual_seed(0)
    found = transform(image.cuda()).float()
    assert found.device.type == "cuda"
    assert (found.cpu() - wanted).abs().max() <= 1
