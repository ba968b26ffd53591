"""Transforms of the second generation: samples of images, masks, boxes and labels together."""

import pytest

import flambeau as torch
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2
from flambeau.vision.transforms.v2 import functional as F


@pytest.fixture
def sample():
    image = tv_tensors.Image(torch.arange(3 * 8 * 10).view(3, 8, 10).to(torch.uint8))
    mask = tv_tensors.Mask(torch.zeros(8, 10, dtype=torch.uint8))
    mask[2:4, 1:5] = 1
    boxes = tv_tensors.BoundingBoxes([[1.0, 2.0, 5.0, 4.0]], format="XYXY", canvas_size=(8, 10))
    return {"image": image, "mask": mask, "boxes": boxes, "labels": torch.tensor([3]), "name": "x"}


def _box_of(mask):
    rows, columns = torch.where(mask.as_subclass(torch.Tensor) > 0)
    return [columns.min().item(), rows.min().item(), columns.max().item() + 1, rows.max().item() + 1]


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomHorizontalFlip(1.0),
        v2.RandomVerticalFlip(1.0),
        v2.Resize((16, 20)),
        v2.CenterCrop((6, 10)),
        v2.Pad([1, 2]),
        v2.RandomRotation((180, 180)),
        v2.RandomZoomOut(p=1.0),
        v2.RandomCrop((8, 10), padding=1),
    ],
    ids=lambda t: type(t).__name__,
)
def test_boxes_follow_masks(sample, transform):
    torch.manual_seed(0)
    out = transform(sample)
    assert out["boxes"][0].tolist() == pytest.approx(_box_of(out["mask"]), abs=1e-4)
    assert out["boxes"].canvas_size == tuple(out["image"].shape[-2:]) == tuple(out["mask"].shape)
    assert [type(out[k]).__name__ for k in ("image", "mask", "boxes")] == ["Image", "Mask", "BoundingBoxes"]
    assert out["labels"] is sample["labels"]
    assert out["name"] == "x"


def test_colours_leave_masks_and_boxes(sample):
    for transform in (v2.ColorJitter(0.5, 0.5, 0.5, 0.1), v2.GaussianBlur(3), v2.RandomErasing(p=1.0)):
        out = transform(sample)
        assert out["mask"] is sample["mask"]
        assert out["boxes"] is sample["boxes"]


def test_pure_tensors():
    image, other = torch.rand(3, 4, 4), torch.rand(3, 4, 4)
    out = v2.RandomHorizontalFlip(1.0)(image, other, 5)
    assert torch.equal(out[0], image.flip(-1))
    assert out[1] is other
    assert out[2] == 5
    out = v2.RandomHorizontalFlip(1.0)({"x": other, "image": tv_tensors.Image(image)})
    assert out["x"] is other


# sums of three results after manual_seed(11), and the random number that follows
STREAMS = [
    (lambda: v2.RandAugment(), [42396, 37146, 63739], 0.269338),
    (lambda: v2.AutoAugment(), [30110, 58378, 73056], 0.269338),
    (lambda: v2.TrivialAugmentWide(), [37866, 73056, 37873], 0.693599),
    (lambda: v2.RandomPhotometricDistort(), [72310, 77299, 73056], 0.839467),
    (lambda: v2.RandomCrop((12, 8)), [36528, 36720, 36720], 0.168401),
    (lambda: v2.RandomZoomOut(p=1.0), [73056, 73056, 73056], 0.271888),
]


@pytest.mark.parametrize("make, sums, following", STREAMS)
def test_random_stream(make, sums, following):
    image = ((torch.arange(3 * 12 * 16) * 37) % 256).to(torch.uint8).view(3, 12, 16)
    torch.manual_seed(11)
    transform = make()
    assert [int(transform(image).long().sum()) for _ in sums] == pytest.approx(sums, abs=24)
    assert float(torch.rand(1)) == pytest.approx(following, abs=1e-6)


def test_boxes_of_all_formats():
    corners = torch.tensor([[1.0, 2.0, 5.0, 4.0]])
    for name in ("XYWH", "CXCYWH"):
        there = F.convert_bounding_box_format(corners, old_format="XYXY", new_format=name)
        assert torch.equal(F.convert_bounding_box_format(there, old_format=name, new_format="XYXY"), corners)
        boxes = tv_tensors.BoundingBoxes(there, format=name, canvas_size=(8, 10))
        flipped = F.convert_bounding_box_format(F.horizontal_flip(boxes), new_format="XYXY")
        assert flipped.tolist() == [[5.0, 2.0, 9.0, 4.0]]
    whole = F.convert_bounding_box_format(torch.tensor([[10, 12, 3, 4]]), old_format="CXCYWH", new_format="XYXY")
    assert whole.tolist() == [[8, 10, 11, 14]]


def test_sanitize(sample):
    sample["boxes"] = tv_tensors.BoundingBoxes(
        [[1, 2, 5, 4], [3, 3, 3, 4], [2, 2, 20, 4]], format="XYXY", canvas_size=(8, 10)
    )
    sample["labels"] = torch.tensor([1, 2, 3])
    out = v2.SanitizeBoundingBoxes()(sample)
    assert out["boxes"].tolist() == [[1, 2, 5, 4]]
    assert out["labels"].tolist() == [1]
    assert F.clamp_bounding_boxes(sample["boxes"]).tolist()[2] == [2, 2, 10, 4]


def test_dtypes(sample):
    out = v2.ToDtype(torch.float32, scale=True)(sample)
    assert out["image"].max() <= 1
    assert out["mask"].dtype is torch.uint8
    out = v2.ToDtype({tv_tensors.Image: torch.float16, tv_tensors.Mask: torch.int64, "others": None})(sample)
    assert (out["image"].dtype, out["mask"].dtype, out["labels"].dtype) == (torch.float16, torch.int64, torch.int64)
    assert type(v2.ToPureTensor()(sample)["boxes"]) is torch.Tensor


def test_mixing():
    images, labels = torch.rand(4, 3, 6, 6), torch.tensor([0, 1, 2, 0])
    torch.manual_seed(0)
    mixed, soft = v2.MixUp(num_classes=3)(images, labels)
    share = soft[1, 1].item()
    assert torch.allclose(mixed, share * images + (1 - share) * images.roll(1, 0), atol=1e-6)
    assert torch.allclose(soft.sum(1), torch.ones(4))
    cut, soft = v2.CutMix(num_classes=3)({"x": images, "label": labels}).values()
    from_other = (cut != images).any(1)[1].float().mean().item()
    assert soft[1, 1].item() == pytest.approx(1 - from_other, abs=1e-6)
    with pytest.raises(ValueError, match="num_classes"):
        v2.MixUp()(images, labels)
    with pytest.raises(ValueError, match="batch size"):
        v2.MixUp(num_classes=3)(images, labels[:2])


def test_containers():
    image = torch.rand(3, 4, 4)
    flip = v2.RandomHorizontalFlip(1.0)
    assert torch.equal(v2.Compose([flip, v2.RandomVerticalFlip(1.0)])(image), image.flip(-1, -2))
    assert v2.Compose([flip])(image, 3)[1] == 3
    assert v2.RandomApply([flip], p=0.0)(image) is image
    assert torch.equal(v2.RandomChoice([flip, flip])(image), image.flip(-1))
    assert torch.equal(v2.RandomOrder([flip, flip])(image), image)
    assert v2.Lambda(lambda x: x + 1, int)([1, "a"]) == [2, "a"]
    with pytest.raises(TypeError):
        v2.Compose(flip)


def test_own_kinds():
    class Depth(tv_tensors.TVTensor):
        pass

    depth = Depth(torch.ones(2, 3))
    assert v2.RandomHorizontalFlip(1.0)(depth) is depth
    with pytest.raises(TypeError, match="Depth"):
        F.horizontal_flip(depth)

    @F.register_kernel(F.horizontal_flip, Depth)
    def flip_depth(inpt):
        return tv_tensors.wrap(inpt.as_subclass(torch.Tensor) * 2, like=inpt)

    out = v2.RandomHorizontalFlip(1.0)(depth)
    assert type(out) is Depth
    assert out.sum() == 12


def test_tv_tensors():
    boxes = tv_tensors.BoundingBoxes([1, 2, 3, 4], format="xywh", canvas_size=(5, 6))
    assert repr(boxes) == (
        "BoundingBoxes([[1, 2, 3, 4]], format=BoundingBoxFormat.XYWH, canvas_size=(5, 6), clamping_mode=soft)"
    )
    assert type(boxes + 1) is torch.Tensor
    for same in (boxes.clone(), boxes.to(torch.float64), boxes.detach(), boxes.add_(1)):
        assert type(same) is tv_tensors.BoundingBoxes
        assert same.canvas_size == (5, 6)
    with tv_tensors.set_return_type("TVTensor"):
        assert type(boxes + 1) is tv_tensors.BoundingBoxes
    assert type(boxes + 1) is torch.Tensor
    assert tv_tensors.Image(torch.zeros(2, 3)).shape == (1, 2, 3)
    with pytest.raises(KeyError):
        tv_tensors.BoundingBoxes([1, 2, 3, 4], format="corners", canvas_size=(5, 6))
    with pytest.raises(ValueError, match="1D or 2D"):
        tv_tensors.BoundingBoxes(torch.zeros(1, 1, 4), format="XYXY", canvas_size=(5, 6))


def test_representations():
    assert repr(v2.Resize(4, max_size=9)) == "Resize(size=[4], interpolation=bilinear, max_size=9, antialias=True)"
    assert (
        repr(v2.Compose([v2.ToImage(), v2.CenterCrop(4)]))
        == "Compose(\n      ToImage()\n      CenterCrop(size=(4, 4))\n)"
    )
    assert repr(v2.AutoAugment()) == "AutoAugment(interpolation=nearest, policy=AutoAugmentPolicy.IMAGENET)"


def test_pillow_images():
    image = pytest.importorskip("PIL.Image")
    picture = image.new("RGB", (8, 6), (10, 20, 30))
    out = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])(picture)
    assert type(out) is tv_tensors.Image
    assert out[:, 0, 0].tolist() == pytest.approx([10 / 255, 20 / 255, 30 / 255])
    assert v2.Resize(3)(picture).size == (4, 3)
    assert v2.RandomHorizontalFlip(1.0)((picture, torch.tensor(1)))[1] == 1
    with pytest.raises(TypeError, match="PIL"):
        v2.Normalize([0.5], [0.5])(picture)
