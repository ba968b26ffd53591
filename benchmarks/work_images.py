"""Programs about images as people write them: whole training steps, and inferences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from work import kind, stepping, without_gradients


@kind("program diffusion unet")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(8, inner), nn.Conv2d(inner, outer, 3, padding=1)
            self.time = nn.Linear(64, outer)
            self.norm2, self.conv2 = nn.GroupNorm(8, outer), nn.Conv2d(outer, outer, 3, padding=1)
            self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

        def forward(self, x: Any, t: Any) -> Any:
            h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
            return self.conv2(F.silu(self.norm2(h))) + self.skip(x)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
            self.first = nn.Conv2d(3, 32, 3, padding=1)
            self.down = nn.ModuleList([Block(32, 32), Block(32, 64)])
            self.shrink = nn.ModuleList([nn.Conv2d(32, 32, 3, 2, 1), nn.Conv2d(64, 64, 3, 2, 1)])
            self.middle = Block(64, 64)
            self.up = nn.ModuleList([Block(128, 64), Block(96, 32)])
            self.last = nn.Conv2d(32, 3, 3, padding=1)

        def forward(self, x: Any, t: Any) -> Any:
            places = t[:, None].float() * T.exp(T.arange(16) * (-math.log(10000.0) / 16))
            t = self.embed(T.cat([places.sin(), places.cos()], 1))
            x, kept = self.first(x), []
            for block, shrink in zip(self.down, self.shrink):
                x = block(x, t)
                kept.append(x)
                x = shrink(x)
            x = self.middle(x, t)
            for block in self.up:
                x = block(T.cat([F.interpolate(x, scale_factor=2, mode="nearest"), kept.pop()], 1), t)
            return self.last(x)

    model, images, noise = UNet(), T.randn(8, 3, 32, 32), T.randn(8, 3, 32, 32)
    levels = T.linspace(0.999, 0.01, 1000)

    def loss() -> Any:
        t = T.randint(0, 1000, (8,))
        level = levels[t][:, None, None, None]
        return F.mse_loss(model(level.sqrt() * images + (1 - level).sqrt() * noise, t), noise)

    return stepping(T, model, loss, "AdamW")


@kind("program vision transformer")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 128, 8, 8)
            self.token, self.place = nn.Parameter(T.zeros(1, 1, 128)), nn.Parameter(T.randn(1, 65, 128) * 0.02)
            layer = nn.TransformerEncoderLayer(128, 4, 256, 0.1, "gelu", batch_first=True, norm_first=True)
            self.layers, self.norm, self.head = (
                nn.TransformerEncoder(layer, 3, enable_nested_tensor=False),
                nn.LayerNorm(128),
                nn.Linear(128, 100),
            )

        def forward(self, x: Any) -> Any:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = T.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
            return self.head(self.norm(self.layers(x))[:, 0])

    model, images, labels = ViT(), T.randn(16, 3, 64, 64), T.randint(0, 100, (16,))
    return stepping(
        T, model, lambda: F.cross_entropy(model(images), labels, label_smoothing=0.1), "AdamW", weight_decay=0.05
    )


@kind("program convolutional autoencoder")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
    x = T.rand(64, 1, 28, 28)
    return stepping(T, model, lambda: F.binary_cross_entropy(model(x), x))


@kind("program gan step")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn
    maker = nn.Sequential(
        nn.Linear(64, 256),
        nn.LeakyReLU(0.2),
        nn.BatchNorm1d(256),
        nn.Linear(256, 512),
        nn.LeakyReLU(0.2),
        nn.BatchNorm1d(512),
        nn.Linear(512, 784),
        nn.Tanh(),
    )
    judge = nn.Sequential(
        nn.Linear(784, 512),
        nn.LeakyReLU(0.2),
        nn.Dropout(0.3),
        nn.Linear(512, 256),
        nn.LeakyReLU(0.2),
        nn.Linear(256, 1),
        nn.Sigmoid(),
    )
    first, second = (T.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (maker, judge))
    loss, real, ones, zeros = nn.BCELoss(), T.rand(64, 784) * 2 - 1, T.ones(64, 1), T.zeros(64, 1)

    def step() -> float:
        first.zero_grad()
        made = maker(T.randn(64, 64))
        loss(judge(made), ones).backward()
        first.step()
        second.zero_grad()
        value = (loss(judge(real), ones) + loss(judge(made.detach()), zeros)) / 2
        value.backward()
        second.step()
        return value.item()

    return step


@kind("program wgan with gradient penalty")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn
    judge = nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(64 * 64, 1),
    )
    real, made = T.randn(16, 3, 32, 32), T.randn(16, 3, 32, 32)

    def loss() -> Any:
        share = T.rand(16, 1, 1, 1)
        mixed = (share * real + (1 - share) * made).requires_grad_(True)
        (slope,) = T.autograd.grad(judge(mixed).sum(), mixed, create_graph=True)
        return judge(made).mean() - judge(real).mean() + 10 * ((slope.flatten(1).norm(2, 1) - 1) ** 2).mean()

    return stepping(T, judge, loss)


@kind("program contrastive")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional
    model = nn.Sequential(nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))
    x = T.randn(256, 512)

    def loss() -> Any:
        z = F.normalize(model(T.cat([x + 0.1 * T.randn_like(x), x + 0.1 * T.randn_like(x)])), dim=1)
        scores = z @ z.T / 0.1
        scores = scores.masked_fill(T.eye(512, dtype=T.bool), float("-inf"))
        return F.cross_entropy(scores, T.arange(512).roll(256))

    return stepping(T, model, loss, "SGD", momentum=0.9, weight_decay=1e-4)


@kind("program mobile network")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    def block(inner: int, outer: int, stride: int) -> Any:
        wide = inner * 4
        return nn.Sequential(
            nn.Conv2d(inner, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(), nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
            nn.Conv2d(wide, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        block(16, 24, 2),
        block(24, 32, 2),
        block(32, 48, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    )
    x, labels = T.randn(16, 3, 64, 64), T.randint(0, 10, (16,))
    return stepping(T, model, lambda: F.cross_entropy(model(x), labels), "SGD", momentum=0.9)


@kind("program segmentation")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    def double(inner: int, outer: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inner, outer, 3, padding=1),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
            nn.Conv2d(outer, outer, 3, padding=1),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
        )

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.three = double(3, 16), double(16, 32), double(32, 64)
            self.up2, self.join2, self.up1, self.join1 = (
                nn.ConvTranspose2d(64, 32, 2, 2),
                double(64, 32),
                nn.ConvTranspose2d(32, 16, 2, 2),
                double(32, 16),
            )
            self.out = nn.Conv2d(16, 1, 1)

        def forward(self, x: Any) -> Any:
            a = self.one(x)
            b = self.two(F.max_pool2d(a, 2))
            c = self.three(F.max_pool2d(b, 2))
            b = self.join2(T.cat([self.up2(c), b], 1))
            return self.out(self.join1(T.cat([self.up1(b), a], 1)))

    model, x, mask = UNet(), T.randn(4, 3, 64, 64), (T.rand(4, 1, 64, 64) < 0.3).float()

    def loss() -> Any:
        logits = model(x)
        p = logits.sigmoid()
        dice = 1 - (2 * (p * mask).sum((2, 3)) + 1) / (p.sum((2, 3)) + mask.sum((2, 3)) + 1)
        return F.binary_cross_entropy_with_logits(logits, mask) + dice.mean()

    return stepping(T, model, loss)


@kind("program image search")
def _(T: Any) -> Callable[[], Any]:
    F = T.nn.functional
    table, query = F.normalize(T.randn(20000, 128), dim=1), F.normalize(T.randn(32, 128), dim=1)
    return without_gradients(T, lambda: (query @ table.T).topk(10, dim=1))


@kind("program non-maximum suppression by hand")
def _(T: Any) -> Callable[[], Any]:
    corners = T.rand(200, 2) * 100
    boxes, scores = T.cat([corners, corners + T.rand(200, 2) * 30], 1), T.rand(200)

    def run() -> Any:
        order, kept = scores.argsort(descending=True), []
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        while order.numel() > 0:
            i = order[0]
            kept.append(i.item())
            rest = order[1:]
            low, high = T.max(boxes[i, :2], boxes[rest, :2]), T.min(boxes[i, 2:], boxes[rest, 2:])
            shared = (high - low).clamp(min=0).prod(1)
            order = rest[shared / (areas[i] + areas[rest] - shared) <= 0.5]
        return kept

    return without_gradients(T, run)
