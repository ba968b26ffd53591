"""Transforms of the first generation on tensors, with the random stream and the values that torchvision has."""

import random

import numpy as np
import pytest

import flambeau as torch
import flambeau.vision.transforms as T
import flambeau.vision.transforms.functional as F


@pytest.fixture
def image():
    return ((torch.arange(3 * 12 * 16) * 37) % 256).to(torch.uint8).view(3, 12, 16)


# sums of three results after manual_seed(11), and the random number that follows
STREAMS = [
    (lambda: T.RandomCrop(6), [13882, 13782, 13958], 0.583085),
    (lambda: T.RandomResizedCrop(4), [6133, 6116, 6156], 0.271888),
    (lambda: T.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 5), [52409, 66272, 61141], 0.502426),
    (lambda: T.RandomPerspective(p=1.0), [41749, 42767, 48959], 0.442458),
    (lambda: T.ColorJitter(0.4, 0.4, 0.4, 0.2), [58828, 57105, 79040], 0.723055),
    (lambda: T.RandomRotation(45), [61264, 73056, 58542], 0.168401),
    (lambda: T.GaussianBlur(3), [73064, 73125, 73137], 0.168401),
    (lambda: T.RandAugment(), [42386, 37120, 64184], 0.269338),
    (lambda: T.TrivialAugmentWide(), [37968, 73056, 37873], 0.693599),
    (lambda: T.AutoAugment(), [72532, 73824, 73056], 0.502426),
    (lambda: T.RandomErasing(p=1.0), [61448, 57660, 56308], 0.502426),
    (lambda: T.AugMix(), [67698, 72072, 75340], 0.260304),
]


@pytest.mark.parametrize("make, sums, following", STREAMS, ids=[str(make()).split("(")[0] for make, *_ in STREAMS])
def test_random_stream(image, make, sums, following):
    transform = make()
    torch.manual_seed(11)
    found = [int(transform(image).long().sum()) for _ in sums]
    assert found == pytest.approx(sums, abs=12)  # a value on the edge between two may fall to either side
    assert float(torch.rand(1)) == pytest.approx(following, abs=1e-6)


def test_resize_against_interpolate(image):
    wanted = torch.nn.functional.interpolate(image.float()[None], (5, 7), mode="bilinear", antialias=True)[0].round()
    assert torch.equal(F.resize(image, [5, 7]), wanted.to(torch.uint8))
    assert F.resize(image, 6).shape == (3, 6, 8)
    assert F.resize(image, 6, max_size=7).shape == (3, 5, 7)
    assert F.resize(image, [12, 16]) is image
    with pytest.raises(ValueError, match="strictly greater"):
        F.resize(image, 8, max_size=8)
    with pytest.raises(ValueError, match="1 or 2 element"):
        F.resize(image, [1, 2, 3])
    with pytest.raises(TypeError, match="InterpolationMode"):
        F.resize(image, 4, interpolation="bilinear")


def test_crops(image):
    assert torch.equal(F.crop(image, 2, 3, 4, 5), image[:, 2:6, 3:8])
    outside = F.crop(image, -2, 14, 5, 6)
    assert outside.shape == (3, 5, 6)
    assert torch.equal(outside[:, 2:, :2], image[:, :3, 14:])
    assert not outside[:, :2].any()
    assert not outside[:, :, 2:].any()
    assert not F.crop(image, 100, 100, 2, 2).any()
    assert torch.equal(F.center_crop(image, 4), image[:, 4:8, 6:10])
    assert F.center_crop(image, (20, 4)).shape == (3, 20, 4)
    corners = F.five_crop(image, (3, 4))
    assert torch.equal(corners[3], image[:, -3:, -4:])
    assert torch.equal(F.ten_crop(image, 3)[5], image[:, :3, -3:].flip(-1))
    with pytest.raises(ValueError, match="bigger"):
        F.five_crop(image, 13)
    with pytest.raises(ValueError, match="larger than input"):
        T.RandomCrop(13)(image)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "constant"])
def test_pad_against_numpy(image, mode):
    wanted = np.pad(image.numpy(), ((0, 0), (2, 4), (1, 3)), mode=mode)
    assert np.array_equal(F.pad(image, [1, 2, 3, 4], padding_mode=mode).numpy(), wanted)


def test_pad_checks(image):
    assert F.pad(image, [1, 2]).shape == (3, 16, 18)
    with pytest.raises(ValueError, match="1, 2, or 4"):
        F.pad(image, [1, 2, 3])
    with pytest.raises(TypeError, match="padding arg"):
        T.Pad("1")
    with pytest.raises(ValueError, match="Padding mode"):
        T.Pad(1, padding_mode="wrap")


def test_rotations_by_right_angles():
    square = torch.arange(25.0).view(1, 5, 5)
    assert torch.equal(F.rotate(square, 90), torch.rot90(square, 1, (1, 2)))
    assert torch.equal(F.rotate(square, 180), square.flip(1, 2))
    wide = torch.arange(8.0).view(1, 2, 4)
    assert torch.equal(F.rotate(wide, 90, expand=True), torch.rot90(wide, 1, (1, 2)))
    assert torch.equal(F.rotate(square, 45, fill=7)[0, 0, 0], torch.tensor(7.0))


def test_affine_and_perspective():
    square = torch.arange(25.0).view(1, 5, 5)
    assert torch.equal(F.affine(square, 0, [1, 2], 1.0, 0)[0, 2:, 1:], square[0, :3, :4])
    corners = [[0, 0], [4, 0], [4, 4], [0, 4]]
    assert torch.allclose(F.perspective(square, corners, corners), square, atol=1e-4)
    mirrored = [[4, 0], [0, 0], [0, 4], [4, 4]]
    flipped = F.perspective(square, corners, mirrored)  # about the middle of the points, half a pixel off the image's
    assert torch.allclose(flipped[..., :4], square[..., :4].flip(-1), atol=1e-4)
    with pytest.raises(ValueError, match="four corners"):
        F.perspective(square, corners[:3], corners)
    with pytest.raises(ValueError, match="positive"):
        F.affine(square, 0, [0, 0], 0.0, 0)


def test_colours():
    gray = torch.full((3, 2, 2), 0.5)
    assert torch.allclose(F.adjust_saturation(gray, 0.3), gray, atol=1e-3)
    assert torch.allclose(F.adjust_hue(gray, 0.3), gray)
    red = torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1)
    assert torch.allclose(F.adjust_hue(red, 1 / 3), red.roll(1, 0), atol=1e-5)
    assert F.rgb_to_grayscale(red).item() == pytest.approx(0.2989)
    assert F.rgb_to_grayscale(red, 3).shape == (3, 1, 1)
    assert F.adjust_gamma(gray, 2.0)[0, 0, 0].item() == pytest.approx(0.25)
    assert torch.equal(F.adjust_brightness(gray, 3.0), torch.ones_like(gray))
    assert torch.allclose(F.adjust_contrast(torch.tensor([[[0.2, 0.4]]]), 0.0), torch.full((1, 1, 2), 0.3))
    for call in (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_sharpness, F.adjust_gamma):
        with pytest.raises(ValueError, match="non-negative"):
            call(gray, -1.0)
    with pytest.raises(ValueError, match=r"\[-0.5, 0.5\]"):
        F.adjust_hue(gray, 0.6)
    with pytest.raises(TypeError, match="channel"):
        F.adjust_brightness(torch.zeros(4, 2, 2), 1.0)


def test_values(image):
    assert torch.equal(F.invert(image), 255 - image)
    assert torch.equal(F.posterize(image, 2), image & 192)
    assert torch.equal(F.solarize(image, 100), torch.where(image >= 100, 255 - image, image))
    stretched = F.autocontrast(torch.tensor([[[50, 100, 150]]], dtype=torch.uint8))
    assert stretched.tolist() == [[[0, 127, 255]]]
    flat = torch.full((1, 3, 3), 9, dtype=torch.uint8)
    assert torch.equal(F.autocontrast(flat), flat)
    assert torch.equal(F.equalize(flat), flat)
    with pytest.raises(TypeError, match="uint8"):
        F.equalize(flat.float())


def test_equalize_against_a_table(image):
    big = image.repeat(1, 8, 8)
    for plane, made in zip(big.numpy(), F.equalize(big).numpy()):
        histogram = np.bincount(plane.reshape(-1), minlength=256)
        step = histogram[histogram > 0][:-1].sum() // 255
        table = np.concatenate([[0], (np.cumsum(histogram)[:-1] + step // 2) // step]).clip(0, 255)
        assert np.array_equal(made, table[plane])


def test_blur_keeps_a_constant_and_smooths_a_point():
    assert torch.allclose(F.gaussian_blur(torch.ones(1, 6, 6), 5, 1.0), torch.ones(1, 6, 6))
    point = torch.zeros(1, 7, 7)
    point[0, 3, 3] = 1
    out = F.gaussian_blur(point, 3, 0.8)[0, 2:5, 2:5]
    weights = np.exp(-0.5 * (np.array([-1, 0, 1]) / 0.8) ** 2)
    weights /= weights.sum()
    assert np.allclose(out.numpy(), np.outer(weights, weights), atol=1e-6)
    for bad in (4, [3], -3):
        with pytest.raises(ValueError):
            F.gaussian_blur(point, bad)


def test_forms():
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert torch.equal(F.to_tensor(array), torch.from_numpy(array).permute(2, 0, 1) / 255)
    assert F.to_tensor(array.astype(np.float64)[:, :, 0]).dtype is torch.float64
    with pytest.raises(TypeError, match="PIL Image or ndarray"):
        F.to_tensor(torch.zeros(3, 2, 2))
    with pytest.raises(ValueError, match="2/3 dimensional"):
        F.to_tensor(np.zeros(3))
    whole = torch.tensor([[[0, 255]]], dtype=torch.uint8)
    assert F.convert_image_dtype(whole, torch.float32).tolist() == [[[0.0, 1.0]]]
    assert F.convert_image_dtype(whole, torch.int16).tolist() == [[[0, 255 * 128]]]
    assert F.convert_image_dtype(torch.tensor([[[0.0, 0.5, 1.0]]]), torch.uint8).tolist() == [[[0, 127, 255]]]
    with pytest.raises(RuntimeError, match="safely"):
        F.convert_image_dtype(torch.zeros(1, 1, 1), torch.int64)


def test_normalize():
    x = torch.rand(2, 3, 4, 4)
    out = F.normalize(x, [0.1, 0.2, 0.3], [0.5, 0.6, 0.7])
    assert torch.allclose(out[:, 1], (x[:, 1] - 0.2) / 0.6)
    assert F.normalize(x, [0.0], [1.0], inplace=True) is x
    with pytest.raises(TypeError, match="float tensor"):
        F.normalize(x.to(torch.uint8), [0.5], [0.5])
    with pytest.raises(ValueError, match="zero"):
        F.normalize(x, [0.5], [0.0])
    with pytest.raises(ValueError, match="tensor image"):
        F.normalize(torch.zeros(2), [0.5], [0.5])


def test_transforms_of_transforms(image):
    flip = T.RandomHorizontalFlip(1.0)
    assert torch.equal(T.Compose([flip, T.CenterCrop(4)])(image), F.center_crop(image.flip(-1), 4))
    assert torch.equal(T.RandomApply([flip], p=1.0)(image), image.flip(-1))
    assert T.RandomApply([flip], p=0.0)(image) is image
    random.seed(0)
    assert {T.RandomChoice([T.CenterCrop(2), T.CenterCrop(3)])(image).shape[-1] for _ in range(20)} == {2, 3}
    assert T.RandomOrder([T.CenterCrop(2), flip])(image).shape == (3, 2, 2)
    assert T.Lambda(lambda x: x + 1)(1) == 2
    with pytest.raises(TypeError, match="callable"):
        T.Lambda(3)
    matrix = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert T.LinearTransformation(matrix, torch.tensor([1.0, 0.0]))(torch.tensor([[[3.0, 5.0]]])).tolist() == [[[5, 2]]]


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: T.ColorJitter(-1), ValueError),
        (lambda: T.ColorJitter(hue=0.7), ValueError),
        (lambda: T.ColorJitter("a"), TypeError),
        (lambda: T.RandomRotation(-3), ValueError),
        (lambda: T.RandomRotation([1, 2, 3]), ValueError),
        (lambda: T.RandomAffine(1, translate=(2, 0)), ValueError),
        (lambda: T.RandomAffine(1, scale=(-1, 1)), ValueError),
        (lambda: T.RandomErasing(p=2), ValueError),
        (lambda: T.RandomErasing(value="x"), ValueError),
        (lambda: T.GaussianBlur(4), ValueError),
        (lambda: T.Resize([1, 2, 3]), ValueError),
        (lambda: T.AugMix(severity=11), ValueError),
        (lambda: F.hflip("image"), TypeError),
        (lambda: F.erase([1], 0, 0, 1, 1, torch.zeros(1)), TypeError),
    ],
)
def test_bad_arguments(call, error):
    with pytest.raises(error):
        call()


def test_representations():
    assert repr(T.RandomResizedCrop(4)) == (
        "RandomResizedCrop(size=(4, 4), scale=(0.08, 1.0), ratio=(0.75, 1.3333), interpolation=bilinear, antialias=True)"
    )
    assert repr(T.RandomAffine(0, shear=5)) == "RandomAffine(degrees=[0.0, 0.0], shear=[-5.0, 5.0])"
    assert repr(T.RandomApply([T.ToTensor()], 0.3)) == "RandomApply(\n    p=0.3\n    ToTensor()\n)"


def test_pillow_images():
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3)
    picture = image.fromarray(pixels)
    assert torch.equal(F.pil_to_tensor(picture), torch.from_numpy(pixels).permute(2, 0, 1))
    assert np.array_equal(np.asarray(F.to_pil_image(F.to_tensor(picture))), pixels)
    assert F.resize(picture, 3).size == (4, 3)
    assert np.array_equal(np.asarray(F.hflip(picture)), pixels[:, ::-1])
    assert np.array_equal(np.asarray(F.crop(picture, 1, 2, 3, 4)), pixels[1:4, 2:6])
    assert np.array_equal(
        np.asarray(F.pad(picture, 1, padding_mode="reflect")), np.pad(pixels, ((1, 1), (1, 1), (0, 0)), "reflect")
    )
    assert F.get_dimensions(picture) == [3, 6, 8]
    torch.manual_seed(0)
    for transform in (T.ColorJitter(0.1, 0.1, 0.1, 0.1), T.RandAugment(), T.AutoAugment(), T.RandomPerspective(p=1.0),
                      T.RandomRotation(9), T.RandomAffine(9), T.GaussianBlur(3), T.RandomEqualize(1.0)):  # fmt: skip
        assert transform(picture).size == (8, 6)
    with pytest.raises(ValueError, match="channels"):
        F.to_pil_image(torch.zeros(5, 2, 2))
