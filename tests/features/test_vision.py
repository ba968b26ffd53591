"""Pictures: transforms, MNIST files, a ResNet with a new head."""

import struct

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.vision import datasets, models, transforms


def picture(height=28, width=28, channels=3):
    return np.arange(height * width * channels, dtype=np.uint8).reshape(height, width, channels)


def test_to_tensor_and_normalize():
    image = picture(4, 5)
    x = transforms.ToTensor()(image)
    assert x.shape == (3, 4, 5) and x.dtype is torch.float32 and x.max() <= 1
    assert torch.allclose(x, torch.from_numpy(image).permute(2, 0, 1) / 255)
    both = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)])
    assert torch.allclose(both(image), (x - 0.5) / 0.25)


def test_random_flips_and_crops():
    torch.manual_seed(0)
    x = torch.arange(12.0).reshape(1, 3, 4)
    assert torch.equal(transforms.RandomHorizontalFlip(p=1.0)(x), x.flip(-1))
    assert torch.equal(transforms.RandomVerticalFlip(p=0.0)(x), x)
    flip = transforms.RandomHorizontalFlip(p=0.3)
    turned = sum(not torch.equal(flip(x), x) for _ in range(400))
    assert 80 < turned < 160
    corners = {transforms.RandomCrop(2)(x)[0, 0, 0].item() for _ in range(60)}
    assert corners == {0, 1, 2, 4, 5, 6}


def write_mnist(root, count):
    """The four IDX files that MNIST consists of, with made-up digits."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        pixels = np.random.default_rng(0).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 28, 28) + pixels.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2i", 2049, count) + bytes(i % 10 for i in range(count))
        )


def test_mnist(tmp_path):
    pytest.importorskip("PIL")
    write_mnist(tmp_path, 70)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    mnist = datasets.MNIST(root=tmp_path, train=True, download=True, transform=transform)
    x, y = next(iter(torch.utils.data.DataLoader(mnist, batch_size=64, shuffle=True)))
    assert len(mnist) == 70 and x.shape == (64, 1, 28, 28) and y.shape == (64,)
    assert x.min() >= -1 and x.max() <= 1 and mnist[3][1] == 3
    with pytest.raises(RuntimeError):
        datasets.MNIST(root=tmp_path / "nowhere", train=True)


@pytest.mark.slow
def test_resnet50_with_a_new_head():
    model = models.resnet50()
    assert sum(p.numel() for p in model.parameters()) == 25_557_032 and model.fc.in_features == 2048
    assert models.ResNet50_Weights.IMAGENET1K_V2.name == "IMAGENET1K_V2"
    for p in model.parameters():
        p.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, 5)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 10_245
    groups = [{"params": getattr(model, n).parameters(), "lr": 1e-4} for n in ("layer1", "layer2", "layer3", "layer4")]
    assert len(torch.optim.AdamW(groups).param_groups) == 4
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 5)
