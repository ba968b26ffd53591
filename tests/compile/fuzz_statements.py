"""Random functions as programs write them, compiled and run eagerly: places, orders, windows and images, writes and turned tensors, other dtypes,
blocks, branches and loops, objects that the function changes. Results, gradients, histories and what was changed must be the same.

    python tests/compile/fuzz_statements.py 0 1000

runs the seeds from the first number on, and prints those that differ with their text.
"""

import dataclasses
import linecache
import random
import re
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":  # as a program, from anywhere
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import flambeau as torch

F = torch.nn.functional

# What makes a tensor of 6 x 6 from another one, v; d is a dimension.
MADE = """
v.masked_fill(v > .3, -1.5)
v.roll(2, d)
v.cumsum(d)
v.sort(d)[0]
v.argsort(d).float() * .1 + v
v.kthvalue(2, d)[0][:, None] + v
v.median(d, keepdim=True)[0] + v
v.topk(3, d)[0].sum(d, keepdim=True) + v
torch.cummax(v, d)[0]
v.cumprod(1).clamp(-3, 3)
F.pad(v, (1, 0))[:, 1:]
F.pad(v, (0, 0, 2, 0), value=.5)[2:]
v.flip(d)
torch.where(v > 0, v, v * .1)
((v > 0) & (v < 1)).float() + v
v.gather(d, idx)
v.scatter(0, idx, v.detach() * 2)
v.scatter_add(d, idx, v)
v.index_select(d, perm)
v.index_add(d, perm, v * .5)
v.clone().index_put_((perm[:3],), v[:3] + 1, accumulate=True)
v[perm]
v[:, perm]
v.unfold(1, 2, 1).sum(-1).mean(1, keepdim=True) + v
F.embedding(idx, v).sum(1)
F.one_hot(idx[0], 6).float() @ v
torch.einsum('ij,kj->ik', v, v) * .1
v.addmm(v, v, beta=.5, alpha=.1)
F.scaled_dot_product_attention(v[None], v[None], v[None], is_causal=True)[0]
F.softmax(v, d)
F.log_softmax(v, d)
v.logsumexp(d, keepdim=True) + v
F.layer_norm(v, (6,))
F.group_norm(v[None], 3)[0]
F.batch_norm(v, None, None, training=True)
F.normalize(v, dim=d)
v.norm(dim=d, keepdim=True) + v
v.std(d, keepdim=True) + v
v - v.mean(d, keepdim=True)
v.amax(d, keepdim=True) * v
F.dropout(v, .3)
F.conv1d(v[None], weight, padding=1)[0]
F.conv_transpose1d(v[None], weight, padding=1)[0]
F.conv2d(v[None, None], window, padding=1)[0, 0]
F.max_pool1d(v[None], 3, 1, 1)[0]
F.avg_pool1d(v[None], 3, 1, 1)[0]
F.max_pool2d(v[None, None], 2)[0, 0].repeat(2, 2)
F.adaptive_avg_pool2d(v[None, None], 3)[0, 0].repeat(2, 2)
F.interpolate(v[None, None], scale_factor=2, mode='nearest')[0, 0, ::2, ::2]
F.interpolate(v[None, None], scale_factor=2, mode='bilinear')[0, 0, ::2, ::2]
(v.double() * 2).float()
v.bfloat16().float()
(v * 3).long().float()
v.tril() + v.triu(1)
v.diagonal()[:, None] + v
v.t().contiguous().t()
v.reshape(3, 12).reshape(6, 6)
v.expand(2, 6, 6)[1]
v.view(2, 3, 6).permute(1, 0, 2).reshape(6, 6)
v.chunk(2, 1)[1].repeat(1, 2)
torch.cat([v[3:], v[:3]])
torch.stack([v, -v]).sum(0) + v
torch.lerp(v, v.flip(0), .3)
F.gelu(v)
F.silu(v)
F.prelu(v, slope)
v.tanh()
v.square().cos()
v.clamp(-.5, .8)
""".strip().splitlines()

# What writes to a tensor, or turns it.
WRITTEN = """
v.mul_(1.5)
v.add_(v.detach().flip(0))
v[1:3] = .5
v[:, 0].mul_(-1)
v[mask] = .25
v[0, 1] = v[2, 3].detach()
v.masked_fill_(v > 1, .5)
v.t_()
v.transpose_(0, 1)
v.squeeze_()
v.relu_()
v.clamp_(-2, 2)
v.copy_(v.detach().roll(1, 0))
v.view(-1)[::7].zero_()
v.diagonal().add_(.1)
v.tril_()
v.index_add_(0, perm, v.detach())
v.index_copy_(0, perm[:2], v.detach()[:2])
v.index_fill_(1, perm[:2], .3)
v.scatter_(1, idx, .2)
torch.add(v.detach(), 1, out=buffer)
""".strip().splitlines()

BLOCKS = ["torch.no_grad()", "torch.enable_grad()", "torch.autocast('cpu', torch.bfloat16)"]
ANSWERS = ["v.sum() > 0", "options['flag']", "state.scale > 1", "len(options['list']) > 1"]
CHANGES = [
    "state.table.add_(1)", "state.seen += 1", "state.last = v.detach()[0]", "options['last'] = v.detach()", "options['list'].append(v.detach().sum())",
]  # fmt: skip


@dataclasses.dataclass
class State:
    table: torch.Tensor
    scale: float
    seen: int = 0
    last: object = None


class Writer:
    """Writes the text of a function."""

    def __init__(self, seed):
        self.draw, self.lines, self.names = random.Random(seed), ["def function(x, y, options, state):"], ["x", "y"]
        for _ in range(self.draw.randrange(5, 12)):
            self.statement(self.draw.choice(self.names), f"v{len(self.names)}")
        picked = self.draw.choices(self.names, k=self.draw.randrange(1, 4))
        first = picked[0]
        whole = [f"({', '.join(picked)},)", f"{{'a': {first}}}", first, f"({first}[1:], {first})"]
        self.lines.append(f"    return {self.draw.choice(whole)}")
        self.text = "\n".join(self.lines)

    def named(self, forms, v):
        """One of some forms, of a tensor of this name."""
        return re.sub(r"\bd\b", str(self.draw.randrange(2)), re.sub(r"\bv\b", v, self.draw.choice(forms)))

    def statement(self, v, new):
        draw, add = self.draw, lambda *lines: self.lines.extend("    " + line for line in lines)
        kind = draw.randrange(16)
        if kind < 6:
            add(f"{new} = {self.named(MADE, v)}")
        elif kind < 9:
            add(f"{new} = {v} * 1", self.named(WRITTEN, new))
        elif kind == 9:
            add(f"{new} = {v} {draw.choice('+-*')} {draw.choice(self.names)}")
        elif kind == 10:
            times = draw.choice(["2", "options['count']"])
            add(f"{new} = {v} * 1", f"for _ in range({times}):", f"    {new} = {self.named(MADE, new)}")
        elif kind == 11:
            add(f"with {draw.choice(BLOCKS)}:", f"    {new} = ({self.named(MADE, v)}).float()")
        elif kind == 12:
            add(f"{new} = {v} * 1", f"if {self.named(ANSWERS, v)}:", f"    {new} = {self.named(MADE, new)}")
        elif kind == 13:
            add(
                f"{new}, k = {v} * 1, 0", f"while {new}.abs().max() > 1 and k < 4:", f"    {new}, k = {new} * .5, k + 1"
            )
        elif kind == 14:
            add(self.named(CHANGES, v), f"{new} = {v} * state.table * state.scale + options['list'][0]")
        else:  # to an argument, or to what others are views of
            add(self.named(WRITTEN, v), f"{new} = {v} * 2")
        self.names.append(new)


def tensors_in(a):
    """Everything in a result or an argument, in order."""
    if isinstance(a, (dict, State)):
        a = list((a if isinstance(a, dict) else vars(a)).values())
    return [b for part in a for b in tensors_in(part)] if isinstance(a, (list, tuple)) else [a]


def run(seed, text, compiled):
    """What some calls give, and the compiled function."""
    torch.manual_seed(seed)
    space = {
        "torch": torch, "F": F, "buffer": torch.zeros(6, 6), "idx": torch.randint(0, 6, (6, 6)), "perm": torch.randperm(6),
        "mask": torch.rand(6, 6) > 0.5, "weight": (torch.randn(6, 6, 3) * 0.3).requires_grad_(), "window": torch.randn(1, 1, 3, 3),
        "slope": torch.tensor([0.2]),
    }  # fmt: skip
    name = f"<random function {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), space)
    function = torch.compile(space["function"]) if compiled else space["function"]
    draw, found = random.Random(seed + 1), []
    for call in range(6):
        torch.manual_seed(call)
        start, base = torch.randn(6, 6, requires_grad=draw.random() < 0.6), torch.randn(2, 6, 6)
        x, y = (start * 1 if draw.random() < 0.4 else start), (base[0] if draw.random() < 0.3 else torch.randn(6, 6))
        options = {"count": 1 + (call > 3), "flag": call % 2 == 0, "list": [torch.ones(())] * (1 + (call == 4))}
        state = State(torch.randn(6, 6), 1.0 + (call > 2))
        try:
            with torch.set_grad_enabled(call != 5):
                out = function(x, y, options, state)
            parts = tensors_in([out, options, state, y, base, space["buffer"]])
            about = [
                (t.detach().clone(), t.requires_grad, t.stride(), t._version) if isinstance(t, torch.Tensor) else t
                for t in parts
            ]
            losses = [t.float().square().sum() for t in tensors_in(out) if t.requires_grad]
            space["weight"].grad = None
            if losses:
                sum(losses).backward()
            found.append([*about, start.grad, space["weight"].grad, torch.rand(())])
        except Exception as error:
            found.append([type(error), str(error)[:120]])
    return found, function


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype is b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=2e-4, atol=2e-5, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def check(seed):
    """Raises if a function does something else when it is compiled; whether it became a program."""
    text = Writer(seed).text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (eager, _), (compiled, function) = (run(seed, text, which) for which in (False, True))
    for i, (a, b) in enumerate(zip(eager, compiled)):
        if a[0] is RuntimeError and "modified by an inplace" in a[1]:  # programs keep what is written over
            continue
        parts = [(k, *both) for k, both in enumerate(zip(a, b)) if not same(*both)]
        assert same(a, b), f"seed {seed}, call {i} ({function._region.problem}):\n{text}\n{parts or (a, b)}"
    return bool(function._region.entries)


def main():
    first, end = map(int, sys.argv[1:3])
    programs, differ = 0, []
    for seed in range(first, end):
        try:
            programs += check(seed)
        except AssertionError as error:
            differ.append(seed)
            print(str(error)[:4000], flush=True)
    print(f"{end - first} functions, {programs} programs, differ: {differ}")


if __name__ == "__main__":
    main()
