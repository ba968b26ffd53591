"""Random programs, compiled and run eagerly: results, gradients, states and random streams must be the same bits.

    python tests/compile/fuzz.py --programs 20000 --seed 0 --jobs 16

runs so many programs from a seed on in that many processes, and prints a summary with the seeds of those that differ.
"""

import argparse
import contextlib
import math
import multiprocessing
import os
import random
import sys
import traceback
import warnings
from pathlib import Path

if __name__ == "__main__":  # as a program, from anywhere
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from program_reference import captured, interpreted, same_bits

import flambeau as torch
from flambeau._compile import fuse
from flambeau._compile.capture import Break
from flambeau._compile.program import Program

F = torch.nn.functional
UNARY = ["tanh", "exp", "relu", "neg", "abs", "sigmoid", "sqrt", "square", "floor", "sign", "clone", "sin"]
BINARY = ["add", "mul", "sub", "maximum", "minimum", "div", "atan2"]
SHAPES = [(4, 6), (6,), (4, 1), (2, 3, 4), (), (1, 6), (6, 4)]
DTYPES = [torch.float32] * 5 + [torch.float64, torch.bfloat16, torch.int64]


# -- operations on tensors: views, writes, folds, products, casts ----------------------------------------------------------


def fits(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(a.shape[::-1], b.shape[::-1]))


def operation(draw, pool):
    """One more operation on tensors of the pool; its results join it."""
    x = draw.choice(pool)
    kind = draw.randrange(14)
    real = x.is_floating_point()
    if kind < 3:
        out = getattr(torch, draw.choice(UNARY if real else ["neg", "abs", "square", "sign", "clone"]))(x)
    elif kind < 6:
        others = [t for t in pool if fits(t, x)]
        y = draw.choice([*others, draw.choice([2, 0.5, -1])])
        out = getattr(torch, draw.choice(BINARY[:5] if not real else BINARY))(x, torch.as_tensor(y))
    elif kind == 6:
        if not x.dim():
            return
        out = draw.choice([torch.Tensor.sum, torch.Tensor.amax, torch.Tensor.prod])(x, draw.randrange(x.dim()))
    elif kind == 7:
        turned = x.t() if x.dim() == 2 else x.transpose(0, -1) if x.dim() else x
        choices = [turned, x.reshape(-1), x.unsqueeze(0), x[..., None], x.expand(2, *x.shape)]
        if x.dim() and x.shape[0] > 1:
            choices += [x[1:], x[::2], x[-1], x.flip(0), x.narrow(0, 0, 1)]
        out = draw.choice(choices)
    elif kind == 8:
        others = [t for t in pool if t.dtype is x.dtype and t.dim() == x.dim() == 2 and t.shape[0] == x.shape[1]]
        if not others or not real:
            return
        out = x @ draw.choice(others)
    elif kind == 9:
        out = x.to(draw.choice(DTYPES))
    elif kind == 10:
        others = [t for t in pool if t.dtype is x.dtype and t.shape == x.shape]
        out = torch.cat([x, draw.choice(others)]) if x.dim() else torch.where(x > 0, x, 1)
    elif kind == 11:  # along rows, with what stands beside them
        if not real or not x.dim() or x.shape[-1] < 2:
            return
        out = draw.choice([lambda: F.layer_norm(x.relu(), x.shape[-1:]), lambda: (x * 0.5).softmax(-1) * 2,
                           lambda: F.log_softmax(x, -1).exp(), lambda: x.square().mean(-1, keepdim=True) - x,
                           lambda: torch.cumsum(x, -1) * x])()  # fmt: skip
    elif kind == 12:
        values, places = x.reshape(-1).sort(stable=True)
        out = draw.choice([values, places, values[places.clamp(max=0)]])
    else:
        if 0 in x.stride() and x.numel() > 1:
            return
        target = x[1:] if x.dim() and x.shape[0] > 1 and draw.random() < 0.5 else x
        way = draw.randrange(4)
        if way == 0:
            target.mul_(2)
        elif way == 1:
            target.add_(draw.choice([t for t in pool if t.shape == target.shape and t.dtype is target.dtype] or [1]))
        elif way == 2:
            target.fill_(3)
        elif target.dim():
            target[0] = 1
        out = target
    pool.append(out)


def function_of(seed):
    """A function of three tensors, and its inputs by number."""
    draw = random.Random(seed)
    shapes = [(draw.choice(SHAPES), draw.choice(DTYPES)) for _ in range(3)]
    length = draw.randrange(3, 25)

    def inputs(number):
        g = torch.Generator().manual_seed(1000 * seed + number)
        return [(torch.randn(s, generator=g) * 2).to(d) for s, d in shapes]

    def function(*given):
        again, pool = random.Random(seed + 1), list(given)
        for _ in range(length):
            operation(again, pool)
        kept = again.sample(pool, min(3, len(pool)))
        return [*kept, pool[-1]]

    return function, inputs


def check_function(seed):
    """Whether a random function can be recorded; its program must agree with its nodes, then."""
    function, inputs = function_of(seed)
    try:
        graph = captured(function, inputs(0))
    except Break:
        return False
    program = Program(graph)
    for number in (1, 2, 3):
        mine, other = inputs(number), inputs(number)
        expected, found = interpreted(graph, mine), program.run(other)
        for a, b in zip([*found, *other], [*expected, *mine], strict=True):
            assert same_bits(a, b), (seed, number, str(graph), a, b)
    return True


# -- whole training steps: modules, branches, loops, random numbers, autocast, backward passes, optimizers --------------------

ACTIVATIONS = [
    torch.nn.ReLU,
    torch.nn.GELU,
    torch.nn.Tanh,
    torch.nn.SiLU,
    torch.nn.Sigmoid,
    torch.nn.ELU,
    torch.nn.Softplus,
]
OPTIMIZERS = [
    lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, nesterov=True, momentum=0.5),
    lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    lambda p: torch.optim.RMSprop(p, lr=0.01), lambda p: torch.optim.Adagrad(p, lr=0.05), lambda p: torch.optim.NAdam(p, lr=0.01),
]  # fmt: skip
SCHEDULES = [
    None, lambda o: torch.optim.lr_scheduler.StepLR(o, 2), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5),
]  # fmt: skip


def _placed(y):
    out = torch.zeros_like(y)
    out[:, ::2] = y[:, 1::2]
    return out + y


BETWEEN = {
    "scale": lambda y: y / (1 + y.abs().amax(-1, keepdim=True)),
    "spread": lambda y: y / (0.1 + y.std(-1, keepdim=True)),
    "length": lambda y: F.normalize(y, dim=-1),
    "whole": lambda y: y - y.logsumexp(-1, keepdim=True),
    "gate": lambda y: torch.cat([F.glu(y), F.glu(y * 0.5)], -1),
    "wave": lambda y: torch.fft.irfft(torch.fft.rfft(y.float()) * 0.5, n=y.shape[-1]).to(y.dtype),
    "placed": _placed,
}


class Rows(torch.nn.Module):
    """Layers over vectors, with whatever a program may do between them."""

    def __init__(self, draw):
        super().__init__()
        self.width = width = draw.choice([8, 16, 24])
        self.register_buffer("seen", torch.zeros(width))
        self.repeat, self.plan = draw.choice([1, 1, 2]), []
        self.layers = torch.nn.ModuleList()
        for _ in range(draw.randrange(2, 6)):
            made = draw.choice([
                lambda: torch.nn.Linear(width, width), lambda: torch.nn.LayerNorm(width), lambda: torch.nn.BatchNorm1d(width),
                lambda: torch.nn.Dropout(0.25), lambda: draw.choice(ACTIVATIONS)(), lambda: torch.nn.Softmax(-1),
            ])()  # fmt: skip
            self.layers.append(made)
            self.plan.append(
                draw.choice(
                    ["", "", "", "residual", "branch", "read", "halve", "count", "noise", "split", "loop", *BETWEEN]
                )
            )
        self.head = torch.nn.Linear(width, 5)

    def forward(self, x):
        for _ in range(self.repeat):
            for layer, how in zip(self.layers, self.plan):
                y = layer(x)
                if how == "residual":
                    y = y + x
                elif how == "branch":
                    y = y * 0.5 if y.sum() > 0 else y + 0.25
                elif how == "read":
                    y = y * 0.5 if y.mean().item() > 0.1 else y + 0.25
                elif how == "halve":
                    while y.abs().amax().item() > 2:
                        y = y * 0.5
                elif how == "count":
                    self.seen.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
                    y = y - self.seen
                elif how == "noise":
                    y = y + 0.1 * torch.rand_like(y)
                elif how == "split":
                    a, b = y.chunk(2, -1)
                    y = torch.cat([a * b.sigmoid(), b], -1)
                elif how in BETWEEN:
                    y = BETWEEN[how](y)
                elif how == "loop":
                    for i in range(3):
                        y = y + (y * 0.1).roll(i, -1)
                x = y
        return self.head(x)


class Images(torch.nn.Module):
    """A few convolutions."""

    def __init__(self, draw):
        super().__init__()
        wide = draw.choice([4, 16])
        layers = [torch.nn.Conv2d(3, wide, 3, padding=1, bias=draw.random() < 0.5)]
        for _ in range(draw.randrange(1, 4)):
            layers.append(draw.choice([
                lambda: torch.nn.BatchNorm2d(wide), lambda: torch.nn.Conv2d(wide, wide, draw.choice([1, 3]), padding="same"),
                lambda: draw.choice(ACTIVATIONS)(), lambda: torch.nn.GroupNorm(2, wide), lambda: torch.nn.Dropout2d(0.2),
                lambda: torch.nn.Conv2d(wide, wide, 3, padding=1, groups=wide),
            ])())  # fmt: skip
        layers += [draw.choice([torch.nn.MaxPool2d(2), torch.nn.AvgPool2d(2)]), torch.nn.AdaptiveAvgPool2d(1)]
        self.body, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(wide, 5)
        self.width = None

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Kept:
    """What a step remembers besides."""

    def __init__(self):
        self.best, self.waited, self.text = 1e9, 0, ""


def step_of(seed):
    """A training step over a random model, and all that it changes."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = (Images if draw.random() < 0.25 else Rows)(draw)
    optimizer = draw.choice(OPTIMIZERS)(model.parameters())
    schedule = draw.choice(SCHEDULES)
    schedule = schedule and schedule(optimizer)
    loss_of = draw.choice([F.cross_entropy, lambda out, y: F.mse_loss(out, F.one_hot(y, 5).to(out.dtype)),
                           lambda out, y: out.square().mean() + out.abs().sum() * 0.01])  # fmt: skip
    clip, parts = draw.choice([0.0, 0.0, 0.5]), draw.choice([1, 1, 2])
    cast, none, read = draw.random() < 0.15, draw.random() < 0.7, draw.random() < 0.5
    keeps, kept = draw.random() < 0.3, list[float]()
    asks, own = draw.choice(["", "", "best", "skip", "late", "norm", "bad", "text"]), Kept()
    if (
        cast
    ):  # autocast keeps the weights that it has cast: gradients of several uses are added before they are cast back
        model.repeat = 1
    x = torch.randn(6, 3, 8, 8) if model.width is None else torch.randn(6, model.width)
    y = torch.randint(0, 5, (6,))

    def step(x, y):
        optimizer.zero_grad(set_to_none=none)
        for a, b in zip(x.chunk(parts), y.chunk(parts)):
            with torch.autocast("cpu", torch.bfloat16) if cast else contextlib.nullcontext():
                loss = loss_of(model(a), b)
            (loss / parts).backward()
            if keeps:
                kept.append(loss.item())
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if asks == "skip" and (not math.isfinite(loss.item()) or loss.item() > 2):
            own.waited += 1
            optimizer.zero_grad()
            return loss.detach()
        norm = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None) if asks == "norm" else 0
        bad = asks == "bad" and any(torch.isnan(p.grad).any() for p in model.parameters() if p.grad is not None)
        optimizer.step()
        if schedule is not None:
            schedule.step()
        if asks == "best" and loss.item() < own.best:
            own.best, own.waited = loss.item(), 0
        elif asks == "late" and loss.item() > 1.7:
            own.waited += 3
            kept.append(loss.item())
        elif asks == "norm" and norm > 0.5:
            kept.append(norm.item())
        elif bad or (asks == "text" and 1 < loss.item() < 2):
            own.text = "odd"
        else:
            own.waited += 1
        if read:
            return loss.item()
        return loss.detach()

    def state():
        states = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        return [*model.state_dict().values(), *grads, *states, torch.get_rng_state()]

    return step, state, x, y, kept, own


def check_step(seed):
    """Whether a random training step became a program; it must leave the same bits behind as the eager one."""
    (eager, mine, x, y, kept, own), (step, other, _, _, others, owned) = step_of(seed), step_of(seed)
    compiled = torch.compile(step)
    streams = torch.get_rng_state(), torch.get_rng_state()
    scales = random.Random(seed)
    for number in range(6):
        found, scale = [], scales.choice([0.1, 1, number + 1])
        for call, state, stream in ((eager, mine, streams[0]), (compiled, other, streams[1])):
            torch.set_rng_state(stream)
            loss = call(x * scale, y)
            found.append([loss, *[t.clone() for t in state()]])
        streams = found[0][-1], found[1][-1]
        (loss, *mine_now), (other_loss, *other_now) = found
        # eager sums of losses are made in one visit, and in double precision
        both = (loss, kept, own), (other_loss, others, owned)
        numbers = [torch.tensor([float(n) for n in (a, *b, c.best, c.waited)]) for a, b, c in both]
        assert own.text == owned.text, (seed, number)
        torch.testing.assert_close(*numbers, equal_nan=True)
        for a, b in zip(mine_now, other_now, strict=True):
            if compiled._region.parts:  # modules by themselves may add gradients in another order
                torch.testing.assert_close(a, b, equal_nan=True)
            else:
                assert same_bits(a, b), (seed, number, a, b)
    return bool(compiled._region.entries)


# -- many of them -----------------------------------------------------------------------------------------------------------


def check(seed):
    """One program, of a kind by its seed: "program" if it was compiled, "eager" if it cannot be."""
    kind, least = seed % 4, fuse._LEAST
    fuse._LEAST = 1 if kind in (1, 3) else least  # every loop that can join another one does
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "program" if (check_step if kind > 1 else check_function)(seed) else "eager"
    finally:
        fuse._LEAST = least


def _tried(seed):
    try:
        return seed, check(seed), ""
    except Exception as error:
        return seed, "wrong" if isinstance(error, AssertionError) else "error", traceback.format_exc(limit=-3)


def _alone():
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    counts, bad = {"program": 0, "eager": 0, "wrong": 0, "error": 0}, []
    with multiprocessing.get_context("spawn").Pool(chosen.jobs, _alone, maxtasksperchild=200) as pool:
        seeds = range(chosen.seed, chosen.seed + chosen.programs)
        for done, (seed, what, text) in enumerate(pool.imap_unordered(_tried, seeds, chunksize=10), 1):
            counts[what] += 1
            if text:
                bad.append(seed)
                print(f"seed {seed} ({what}):\n{text[:1500]}", flush=True)
            if done % 250 == 0:
                print(f"{done} programs: {counts}", flush=True)
    print(f"{chosen.programs} programs from seed {chosen.seed}: {counts['program']} compiled, {counts['eager']} not recordable and "
          f"run eagerly, {counts['wrong']} wrong, {counts['error']} raised; seeds {sorted(bad)[:50]}")  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
