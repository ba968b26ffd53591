"""Whole training steps and inferences of programs as people write them: forward, loss, backward, optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from work import kind, without_gradients


def stepping(T: Any, model: Any, loss: Callable[[], Any], make: str = "Adam", **options: Any) -> Callable[[], Any]:
    optimizer = getattr(T.optim, make)(model.parameters(), lr=1e-3, **options)

    def step() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.item()

    return step


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


@kind("program graph convolution")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional
    edges = T.randint(0, 2700, (2, 10000))
    degree = T.zeros(2700).index_add_(0, edges[1], T.ones(10000)).clamp(min=1).rsqrt()
    weight = degree[edges[0]] * degree[edges[1]]

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(256, 64), nn.Linear(64, 7)

        def forward(self, x: Any) -> Any:
            for layer in (self.first, self.second):
                x = layer(x)
                x = T.zeros_like(x).index_add(0, edges[1], x[edges[0]] * weight[:, None])
                x = F.dropout(F.relu(x), 0.5) if layer is self.first else x
            return x

    model, x, labels, mask = Graph(), T.randn(2700, 256), T.randint(0, 7, (2700,)), T.rand(2700) < 0.1
    return stepping(T, model, lambda: F.cross_entropy(model(x)[mask], labels[mask]))


@kind("program graph attention")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional
    source, target = T.randint(0, 1000, (8000,)), T.randint(0, 1000, (8000,))

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map, self.left, self.right, self.out = (
                nn.Linear(64, 4 * 16),
                nn.Parameter(T.randn(4, 16)),
                nn.Parameter(T.randn(4, 16)),
                nn.Linear(64, 5),
            )

        def forward(self, x: Any) -> Any:
            h = self.map(x).view(-1, 4, 16)
            score = F.leaky_relu((h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target], 0.2)
            top = T.full((1000, 4), -1e9).scatter_reduce(0, target[:, None].expand(-1, 4), score, "amax")
            score = (score - top[target]).exp()
            total = T.zeros(1000, 4).index_add(0, target, score)
            message = h[source] * (score / (total[target] + 1e-9))[:, :, None]
            return self.out(F.elu(T.zeros(1000, 4, 16).index_add(0, target, message).flatten(1)))

    model, x, labels = Attention(), T.randn(1000, 64), T.randint(0, 5, (1000,))
    return stepping(T, model, lambda: F.cross_entropy(model(x), labels))


@kind("program seq2seq with attention")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Translate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(1000, 64), nn.Embedding(1000, 64)
            self.encoder, self.decoder = nn.GRU(64, 64, batch_first=True, bidirectional=True), nn.GRUCell(64 + 128, 128)
            self.query, self.out = nn.Linear(128, 128), nn.Linear(256, 1000)

        def forward(self, source: Any, target: Any) -> Any:
            seen, last = self.encoder(self.source(source))
            state, found = T.cat([last[0], last[1]], 1), []
            for i in range(target.shape[1]):
                weights = T.softmax(T.bmm(seen, self.query(state).unsqueeze(2)).squeeze(2), 1)
                context = T.bmm(weights.unsqueeze(1), seen).squeeze(1)
                state = self.decoder(T.cat([self.target(target[:, i]), context], 1), state)
                found.append(self.out(T.cat([state, context], 1)))
            return T.stack(found, 1)

    model, source, target = Translate(), T.randint(0, 1000, (32, 20)), T.randint(0, 1000, (32, 15))

    def loss() -> Any:
        return F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)

    return stepping(T, model, loss)


@kind("program recommendation")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Clicks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = nn.ModuleList([nn.EmbeddingBag(5000, 16, mode="sum") for _ in range(8)])
            self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(16 + 36, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, dense: Any, ids: Any) -> Any:
            x = self.dense(dense)
            parts = T.stack([x] + [bag(i) for bag, i in zip(self.bags, ids)], 1)
            pairs = T.bmm(parts, parts.transpose(1, 2))
            i, j = T.tril_indices(9, 9, -1)
            return self.top(T.cat([x, pairs[:, i, j]], 1)).squeeze(1)

    model, dense = Clicks(), T.randn(256, 13)
    ids, clicked = [T.randint(0, 5000, (256, 3)) for _ in range(8)], (T.rand(256) < 0.3).float()
    return stepping(T, model, lambda: F.binary_cross_entropy_with_logits(model(dense, ids), clicked), "Adagrad")


@kind("program mixture of experts")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(128, 8)
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128)) for _ in range(8)]
            )

        def forward(self, x: Any) -> Any:
            weight, chosen = F.softmax(self.gate(x), -1).topk(2)
            weight = weight / weight.sum(-1, keepdim=True)
            out = T.zeros_like(x)
            for i, expert in enumerate(self.experts):
                row, nth = T.where(chosen == i)
                out.index_add_(0, row, expert(x[row]) * weight[row, nth, None])
            return out

    model, x, y = Mixture(), T.randn(512, 128), T.randn(512, 128)
    return stepping(T, model, lambda: F.mse_loss(model(x), y))


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


@kind("program ppo update")
def _(T: Any) -> Callable[[], Any]:
    nn, D = T.nn, T.distributions
    body, policy, value = (
        nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()),
        nn.Linear(64, 4),
        nn.Linear(64, 1),
    )
    model = nn.ModuleList([body, policy, value])
    seen, taken, advantage, returns = T.randn(64, 8), T.randint(0, 4, (64,)), T.randn(64), T.randn(64)
    before = D.Categorical(logits=policy(body(seen))).log_prob(taken).detach()
    optimizer = T.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)

    def step() -> float:
        h = body(seen)
        choice = D.Categorical(logits=policy(h))
        ratio = (choice.log_prob(taken) - before).exp()
        scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = T.min(ratio * scaled, ratio.clamp(0.8, 1.2) * scaled).mean()
        loss = -gain + 0.5 * (value(h).squeeze(-1) - returns).pow(2).mean() - 0.01 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.item()

    return step


@kind("program dqn step")
def _(T: Any) -> Callable[[], Any]:
    import copy

    nn, F = T.nn, T.nn.functional
    model = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    slow = copy.deepcopy(model)
    seen, after, taken, reward, done = (
        T.randn(128, 4),
        T.randn(128, 4),
        T.randint(0, 2, (128, 1)),
        T.randn(128),
        T.rand(128) < 0.05,
    )
    optimizer = T.optim.AdamW(model.parameters(), lr=1e-4, amsgrad=True)

    def step() -> float:
        with T.no_grad():
            target = reward + 0.99 * slow(after).max(1).values * (~done)
        loss = F.smooth_l1_loss(model(seen).gather(1, taken).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 100)
        optimizer.step()
        with T.no_grad():
            for a, b in zip(slow.parameters(), model.parameters()):
                a.mul_(0.995).add_(b, alpha=0.005)
        return loss.item()

    return step


@kind("program acting one observation at a time")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn
    model, seen = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)), [0.1] * 8

    def act() -> int:
        with T.no_grad():
            choice = T.distributions.Categorical(logits=model(T.tensor(seen).unsqueeze(0)))
            action = choice.sample()
            choice.log_prob(action)
            return action.item()

    return act


@kind("program wavenet")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Wave(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, 32, 1)
            self.wide = nn.ModuleList([nn.Conv1d(32, 64, 2, dilation=2**i) for i in range(6)])
            self.back = nn.ModuleList([nn.Conv1d(32, 32, 1) for _ in range(6)])
            self.last = nn.Conv1d(32, 256, 1)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for i, (wide, back) in enumerate(zip(self.wide, self.back)):
                a, b = wide(F.pad(x, (2**i, 0))).chunk(2, 1)
                x = x + back(T.tanh(a) * T.sigmoid(b))
            return self.last(F.relu(x))

    model, x, y = Wave(), T.randn(8, 1, 1024), T.randint(0, 256, (8, 1024))
    return stepping(T, model, lambda: F.cross_entropy(model(x), y))


@kind("program speech recognition")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(40, 64, 5, 2, 2), nn.BatchNorm1d(64)
            self.lstm, self.out = nn.LSTM(64, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 30)

        def forward(self, x: Any) -> Any:
            return F.log_softmax(self.out(self.lstm(F.relu(self.norm(self.conv(x))).transpose(1, 2))[0]), -1).transpose(
                0, 1
            )

    model, x, words = Speech(), T.randn(16, 40, 200), T.randint(1, 30, (16, 20))
    lengths, ends = T.full((16,), 100), T.randint(10, 21, (16,))
    return stepping(T, model, lambda: F.ctc_loss(model(x), words, lengths, ends))


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


@kind("program physics informed")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn
    model = nn.Sequential(
        nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)
    )
    x, t = T.rand(1000, 1, requires_grad=True), T.rand(1000, 1, requires_grad=True)

    def loss() -> Any:
        u = model(T.cat([x, t], 1))
        ux, ut = T.autograd.grad(u.sum(), (x, t), create_graph=True)
        (uxx,) = T.autograd.grad(ux.sum(), x, create_graph=True)
        return ((ut + u * ux - 0.01 / math.pi * uxx) ** 2).mean()

    return stepping(T, model, loss)


@kind("program neural ode")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn
    field, start, end = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2)), T.randn(64, 2), T.randn(64, 2)

    def loss() -> Any:
        y, h = start, 0.1
        for _ in range(10):
            a = field(y)
            b = field(y + h / 2 * a)
            c = field(y + h / 2 * b)
            d = field(y + h * c)
            y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return (y - end).abs().mean()

    return stepping(T, field, loss, "RMSprop")


@kind("program normalizing flow")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn

    class Coupling(nn.Module):
        def __init__(self, turned: bool) -> None:
            super().__init__()
            self.net, self.turned = (
                nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)),
                turned,
            )

        def forward(self, x: Any) -> Any:
            a, b = x.chunk(2, 1)
            if self.turned:
                a, b = b, a
            s, t = self.net(a).chunk(2, 1)
            s = T.tanh(s)
            b = b * s.exp() + t
            return T.cat([b, a] if self.turned else [a, b], 1), s.sum(1)

    model, x = nn.ModuleList([Coupling(bool(i % 2)) for i in range(6)]), T.randn(256, 8)
    base = T.distributions.MultivariateNormal(T.zeros(8), T.eye(8))

    def loss() -> Any:
        z, total = x, T.zeros(256)
        for layer in model:
            z, found = layer(z)
            total = total + found
        return -(base.log_prob(z) + total).mean()

    return stepping(T, model, loss)


@kind("program fourier operator")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.side = nn.Parameter(T.randn(32, 32, 12, 12, dtype=T.cfloat) * 0.03), nn.Conv2d(32, 32, 1)

        def forward(self, x: Any) -> Any:
            f = T.fft.rfft2(x)
            out = T.zeros(x.shape[0], 32, x.shape[2], x.shape[3] // 2 + 1, dtype=T.cfloat)
            out[:, :, :12, :12] = T.einsum("bixy,ioxy->boxy", f[:, :, :12, :12], self.weight)
            return F.gelu(T.fft.irfft2(out, s=x.shape[-2:]) + self.side(x))

    model, x, y = (
        nn.Sequential(nn.Conv2d(1, 32, 1), Spectral(), Spectral(), nn.Conv2d(32, 1, 1)),
        T.randn(8, 1, 64, 64),
        T.randn(8, 1, 64, 64),
    )
    return stepping(T, model, lambda: F.mse_loss(model(x), y))


@kind("program text classifier")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm, self.out = (
                nn.Embedding(5000, 100, padding_idx=0),
                nn.LSTM(100, 128, batch_first=True),
                nn.Linear(128, 4),
            )

        def forward(self, x: Any, lengths: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(self.words(x), lengths, batch_first=True, enforce_sorted=False)
            return self.out(self.lstm(packed)[1][0][-1])

    model, x, labels, lengths = Text(), T.randint(1, 5000, (32, 60)), T.randint(0, 4, (32,)), T.randint(10, 61, (32,))
    return stepping(T, model, lambda: F.cross_entropy(model(x, lengths), labels))


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


@kind("program tabular")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = nn.ModuleList([nn.Embedding(n, 8) for n in (10, 50, 7, 100)])
            self.net = nn.Sequential(
                nn.BatchNorm1d(42),
                nn.Linear(42, 200),
                nn.ReLU(),
                nn.BatchNorm1d(200),
                nn.Dropout(0.1),
                nn.Linear(200, 100),
                nn.ReLU(),
                nn.Linear(100, 1),
            )

        def forward(self, kinds: Any, numbers: Any) -> Any:
            return self.net(T.cat([e(kinds[:, i]) for i, e in enumerate(self.kinds)] + [numbers], 1)).squeeze(1)

    model, numbers, y = Table(), T.randn(256, 10), T.randn(256)
    kinds = T.stack([T.randint(0, n, (256,)) for n in (10, 50, 7, 100)], 1)
    return stepping(T, model, lambda: F.huber_loss(model(kinds, numbers), y), "AdamW")


@kind("program state space")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Scan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.parts, self.out = nn.Linear(64, 128), nn.Linear(128, 16 * 2 + 128), nn.Linear(128, 64)
            self.rate = nn.Parameter(T.log(T.arange(1, 17).float()).repeat(128, 1))

        def forward(self, x: Any) -> Any:
            x = F.silu(self.inner(x))
            b, c, delta = self.parts(x).split([16, 16, 128], -1)
            delta = F.softplus(delta)
            decay = T.exp(delta.unsqueeze(-1) * -self.rate.exp())
            enters = delta.unsqueeze(-1) * b.unsqueeze(2) * x.unsqueeze(-1)
            state, found = T.zeros(x.shape[0], 128, 16), []
            for i in range(x.shape[1]):
                state = decay[:, i] * state + enters[:, i]
                found.append((state * c[:, i].unsqueeze(1)).sum(-1))
            return self.out(T.stack(found, 1))

    model, x, y = Scan(), T.randn(4, 32, 64), T.randn(4, 32, 64)
    return stepping(T, model, lambda: F.mse_loss(model(x), y))


@kind("program low rank adapters")
def _(T: Any) -> Callable[[], Any]:
    nn, F = T.nn, T.nn.functional

    class Adapted(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.base = nn.Linear(width, width).requires_grad_(False)
            self.a, self.b = nn.Parameter(T.randn(8, width) * 0.01), nn.Parameter(T.zeros(width, 8))

        def forward(self, x: Any) -> Any:
            return self.base(x) + (x @ self.a.T @ self.b.T) * 2.0

    model = nn.Sequential(*(layer for _ in range(4) for layer in (Adapted(256), nn.GELU())))
    x, y = T.randn(64, 256), T.randn(64, 256)
    optimizer = T.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def step() -> float:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


@kind("program gaussian mixture by gradient")
def _(T: Any) -> Callable[[], Any]:
    nn, D = T.nn, T.distributions
    means, scales, weights, x = (
        nn.Parameter(T.randn(5, 2)),
        nn.Parameter(T.zeros(5, 2)),
        nn.Parameter(T.zeros(5)),
        T.randn(500, 2),
    )
    model = nn.ParameterList([means, scales, weights])

    def loss() -> Any:
        parts = D.Independent(D.Normal(means, scales.exp()), 1)
        return -D.MixtureSameFamily(D.Categorical(logits=weights), parts).log_prob(x).mean()

    return stepping(T, model, loss)


@kind("program image search")
def _(T: Any) -> Callable[[], Any]:
    F = T.nn.functional
    table, query = F.normalize(T.randn(20000, 128), dim=1), F.normalize(T.randn(32, 128), dim=1)
    return without_gradients(T, lambda: (query @ table.T).topk(10, dim=1))


@kind("program k-means")
def _(T: Any) -> Callable[[], Any]:
    x, centers = T.randn(5000, 16), T.randn(20, 16)

    def step() -> Any:
        nearest = T.cdist(x, centers).argmin(1)
        sums = T.zeros_like(centers).index_add_(0, nearest, x)
        return sums / T.bincount(nearest, minlength=20).clamp(min=1)[:, None]

    return without_gradients(T, step)


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


@kind("program beam search")
def _(T: Any) -> Callable[[], Any]:
    nn = T.nn
    words, cell, out = nn.Embedding(500, 64), nn.GRUCell(64, 128), nn.Linear(128, 500)

    def run() -> Any:
        state, tokens, scores = T.zeros(1, 128), T.zeros(1, 1, dtype=T.long), T.zeros(1)
        for _ in range(10):
            state = cell(words(tokens[:, -1]), state)
            total = scores[:, None] + T.log_softmax(out(state), -1)
            scores, places = total.flatten().topk(5)
            rows = places // 500
            tokens, state = T.cat([tokens[rows], (places % 500)[:, None]], 1), state[rows]
        return tokens[0].tolist()

    return without_gradients(T, run)
