"""Programs about texts, sounds and other sequences as people write them: whole training steps, and inferences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from work import kind, stepping, without_gradients


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
