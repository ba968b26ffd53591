"""Operands that end (or begin) at a page nobody may touch: `python guarded.py SHARE SEED [FIRST]`.

A kernel that reads or writes beyond its operands ends the process at once. Every sample call runs, with its gradient, on such
operands, and so do kernels that work in vectors, with lengths about multiples of theirs, in several dtypes and strides.
"""

import ctypes
import mmap
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import samples
from attack import limit

import flambeau as torch

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_kept = []


def guarded(array, at_end):
    """A copy of an array whose last (or first) byte lies beside a page without any rights."""
    pages = -(-max(array.nbytes, 1) // PAGE)
    area = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for page in (0, pages + 1):
        assert _libc.mprotect(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    offset = (pages + 1) * PAGE - array.nbytes if at_end else PAGE
    made = np.frombuffer(area, np.uint8, array.nbytes, offset).view(array.dtype).reshape(array.shape)
    made[...] = array
    _kept.append(area)
    return made


def moved(t, at_end):
    """The same tensor in guarded memory; strides stay those of a row-major one."""
    source = t.detach().contiguous()
    wide = source.view(torch.int16) if t.dtype is torch.bfloat16 else source
    made = torch.from_numpy(guarded(wide.numpy(), at_end))
    made = made.view(torch.bfloat16) if t.dtype is torch.bfloat16 else made
    return made.requires_grad_() if t.requires_grad else made


LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 255, 257, 1000, 4099]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool,
          torch.complex64]  # fmt: skip
VECTORS = [
    "v + v", "v * 2", "-v", "v.exp()", "v.sum()", "v.mean()", "v.max()", "v.argmax()", "v.cumsum(0)", "v.softmax(0)", "v.log_softmax(0)", "v.sort()", "v.clone()",
    "v.to(torch.float32)", "v.to(torch.bfloat16)", "v.to(torch.int64)", "v.bool()", "torch.where(v > 0, v, v)", "v.abs()", "v.sqrt()", "v.tanh()", "v.flip(0)",
    "v.roll(1)", "v.std()", "v.prod()", "v.any()", "v.all()", "v.nonzero()", "v[v > 1]", "v.topk(1)", "v.unique()", "v.median()", "v.dot(v)", "v.outer(v[:7])", "v.norm()",
    "v.clamp(0, 1)", "v.add_(1)", "v.mul_(v)", "v.fill_(1)", "v.zero_()", "v.copy_(v.clone())", "v[::2] + v[::2]", "v[1:].sum()", "v[:-1].exp()", "v.view(1, -1) @ v.view(-1, 1)",
    "torch.addmm(v.view(1, -1), v[:1].view(1, 1), v.view(1, -1))", "F.layer_norm(v, v.shape)", "F.gelu(v)", "F.relu(v)", "F.silu(v)", "v.bincount()", "torch.histc(v, 5)",
    "v.cummax(0)", "v.logsumexp(0)", "v.bitwise_and(v)", "v // 3", "v % 3", "v.masked_fill(v > 0, 0)", "torch.cat([v, v])", "v.repeat(3)", "v.searchsorted(v)", "v.index_select(0, i)",
    "v[i]", "v.scatter(0, i, v[i])", "v.index_add(0, i, v[i])", "v.gather(0, i)", "v.take(i)", "torch.fft.fft(v)", "v.conj()", "v.isnan()", "v.dropout(0.5)", "F.conv1d(v.view(1, 1, -1), v[:1].view(1, 1, 1))",
    "F.max_pool1d(v.view(1, 1, -1), 1)", "F.avg_pool1d(v.view(1, 1, -1), 1)", "F.pad(v, (2, 3))", "v.view(-1, 1).expand(-1, 3).sum(0)", "v.unfold(0, 1, 1).sum()", "F.embedding(i, v.view(-1, 1))",
    "torch.linspace(0, 1, len(v), out=v)", "torch.arange(len(v), out=v)", "torch.add(v, v, out=v)", "torch.exp(v, out=v)", "v.sort(out=(v, i2))", "v.uniform_()", "v.normal_()", "v.random_(5)",
]  # fmt: skip


def tried(text, space):
    print(text, flush=True)
    signal.alarm(30)
    try:
        exec(f"out = {text}" if "out =" not in text else text, space)
        made = space["out"]
        parts = made if isinstance(made, (tuple, list)) else [made]
        total = [p.float().sum() if not p.is_complex() else torch.view_as_real(p).sum() for p in parts
                 if isinstance(p, torch.Tensor) and p.layout is torch.strided]  # fmt: skip
        grads = [t for t in total if t.requires_grad]
        if grads:
            sum(grads).backward()
    except Exception:
        pass
    finally:
        signal.alarm(0)


def main(share, seed, first=0):
    limit()
    rng = random.Random(seed)
    plain = {"torch": torch, "dev": "cpu", "ones": torch.ones, "F": torch.nn.functional}
    jobs = [("sample", text) for family in samples.SAMPLES.values() for text in family]
    jobs += [("vector", text) for text in VECTORS]
    number = 0
    for kind, text in jobs:
        for _ in range(share):
            at_end, length, dtype, seed = (
                rng.random() < 0.7,
                rng.choice(LENGTHS),
                rng.choice(DTYPES),
                rng.randrange(1 << 30),
            )
            number += 1
            if number <= first:
                continue
            space = dict(plain)
            if kind == "sample":
                space.update(
                    {
                        name: moved(t, at_end)
                        for name, t in samples.operands(torch).items()
                        if name in text.replace("_", " ")
                    }
                )
            else:
                random_numbers = np.random.default_rng(seed)
                v = torch.from_numpy(random_numbers.integers(0, 5, length)).to(dtype)
                space["v"] = moved(
                    v.requires_grad_() if dtype.is_floating_point and "_(" not in text and "out=" not in text else v,
                    at_end,
                )
                space["i"] = moved(torch.from_numpy(random_numbers.integers(0, length, length)), at_end)
                space["i2"] = moved(torch.zeros(length, dtype=torch.int64), at_end)
            print(number, end=" ")
            tried(text, space)
            del space
            if len(_kept) > 400:
                _kept.clear()
    print("end", number)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
