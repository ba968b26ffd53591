"""Programs about graphs, tables, games, physics and densities as people write them: whole training steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from work import kind, stepping, without_gradients


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


@kind("program k-means")
def _(T: Any) -> Callable[[], Any]:
    x, centers = T.randn(5000, 16), T.randn(20, 16)

    def step() -> Any:
        nearest = T.cdist(x, centers).argmin(1)
        sums = T.zeros_like(centers).index_add_(0, nearest, x)
        return sums / T.bincount(nearest, minlength=20).clamp(min=1)[:, None]

    return without_gradients(T, step)
