"""Every sample call with numbers at the edges in the place of ordinary ones: `python extreme_numbers.py SHARE SEED [FIRST]`.

Literals of the calls in `samples.py`, and elements of the operands that hold integers, are replaced by the least and
largest integers of 8 to 64 bits and their neighbours. Any exception is right; the end of the interpreter is not, nor is a
call that does not return. SHARE is how many variants are tried for each sample.
"""

import ast
import itertools
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import samples
from attack import limit

import flambeau as torch

EDGES = [0, 1, -1, 2, 2**7, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 1, 2**53, 2**61, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), 2**63,
         2**64 - 1, 2**64, -(2**64), -7]  # fmt: skip
FLOATS = [0.0, -1.0, 1e300, -1e300, float("inf"), float("nan"), 1e-300, 2.0**63, 3.4e38]
SECONDS = 20
MORE = [
    "torch.bincount(t, minlength=3)", "torch.bincount(i.abs())", "torch.repeat_interleave(i)", "torch.repeat_interleave(t, output_size=4)",
    "torch.repeat_interleave(v, i[:4])", "torch.lcm(k, l)", "torch.gcd(k, l)", "k // l", "k % l", "torch.fmod(k, l)", "torch.remainder(k, -1)",
    "torch.div(k, l, rounding_mode='trunc')", "torch.div(k, -1, rounding_mode='floor')", "k.abs()", "-k", "k ** 3", "k << 3", "k >> 3",
    "torch.floor_divide(k, -1)", "torch.nn.functional.one_hot(i, 4)", "torch.nn.functional.one_hot(i)", "torch.histc(x, 3, 0, 1)",
    "torch.nn.functional.pad(x, (1, 2, 3, 1))", "torch.nn.functional.pad(u, (1, 1, 1, 1), mode='reflect')", "torch.randperm(5)",
    "torch.combinations(v, 2)", "torch.cartesian_prod(v, w)", "torch.tril_indices(3, 4, 1)", "torch.triu_indices(3, 4, -1)",
    "torch.as_strided(x, (2, 2), (1, 2), 1)", "x.detach().clone().resize_(3, 4)", "x.detach().clone().set_(x.detach().untyped_storage(), 1, (2, 2), (2, 1))",
    "torch.empty(2, 3)", "torch.empty((2, 3), dtype=torch.int8)", "torch.zeros(2, 3, 4)", "torch.eye(3, 4)", "torch.full((2, 3), 7)",
    "x.expand(2, 3, 4)", "x.repeat(2, 3)", "torch.arange(0, 5, 1)", "torch.linspace(0, 5, 3)", "torch.logspace(0, 3, 3)", "torch.range(0, 5, 1)",
    "torch.hann_window(5)", "torch.kaiser_window(4)", "torch.sparse_coo_tensor(l[:2], x[0], (5, 5)).to_dense()", "torch.vander(v, 3)",
    "torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), v[:2], (2, 4)).to_dense()",
    "torch.nn.functional.embedding_bag(t, m, torch.tensor([0, 2, 4]))", "torch.nn.functional.embedding(i, m)",
    "torch.nn.functional.unfold(u, 2)", "torch.nn.functional.fold(b, (2, 3), 1)", "torch.nn.functional.max_pool2d(u, 2, 1, 0, 1)",
    "torch.nn.functional.avg_pool2d(u, 2, 1, 0)", "torch.nn.functional.interpolate(u, (5, 6))", "torch.nn.functional.conv1d(b, torch.ones(2, 3, 2), None, 1, 1, 1)",
    "torch.nn.functional.max_unpool1d(x[None], l[None], 2, 2)", "torch.nn.functional.adaptive_avg_pool2d(u, (2, 2))",
    "torch.nn.functional.pixel_shuffle(torch.ones(1, 4, 2, 2), 2)", "torch.nn.functional.ctc_loss(torch.ones(5, 2, 4).log_softmax(2), g[:2, :2] + 1, torch.tensor([5, 5]), torch.tensor([2, 2]))",
    "torch.nn.functional.cross_entropy(x, g[:, 0])", "torch.nn.functional.nll_loss(x, g[:, 0], ignore_index=1)",
    "torch.nn.functional.multi_margin_loss(x, g[:, 0])", "torch.nn.functional.multilabel_margin_loss(x, l)", "torch.nn.functional.gaussian_nll_loss(x, y, p)",
    "x.scatter(1, l, y)", "x.scatter_add(1, l, y)", "x.gather(1, l)", "x.index_select(0, i)", "x.index_add(0, i[:2], y[:2])", "x.index_fill(0, i, 1.0)",
    "x.take(l)", "x.put(l, y)", "torch.take_along_dim(x, l, 1)", "x.index_copy(0, g[0, :1], y[:1])", "x[i]", "x[i, j]", "x.index_put((i, j), v[0])",
    "torch.searchsorted(v, x)", "torch.bucketize(x, v)", "torch.multinomial(p, 2)", "torch.kthvalue(x, 2)", "torch.topk(x, 2)", "x.unfold(1, 2, 1)",
    "torch.nn.utils.rnn.pad_sequence([v, w])", "torch.nn.utils.rnn.pack_padded_sequence(b, torch.tensor([3, 2]), batch_first=True)",
    "torch.frombuffer(bytearray(64), dtype=torch.float32, count=3, offset=4)", "torch.UntypedStorage(16).resize_(32)", "torch.zeros(4).untyped_storage().resize_(32)",
    "torch.nested.nested_tensor([v, w])", "torch.nested.narrow(x, 1, torch.tensor([0, 1, 0]), torch.tensor([2, 1, 3]), layout=torch.jagged)",
    "torch.segment_reduce(v, 'sum', lengths=torch.tensor([1, 3]))", "torch.stft(big[0], 16, 4, return_complex=True)", "torch.fft.fft(x, 6, 1)",
    "torch.fft.irfft(z, 6, 1)", "torch.fft.fftfreq(5)", "torch.cumsum(k, 1)", "torch.cumprod(k, 0)", "k.sum()", "k.prod()", "torch.diff(k, 2)",
    "torch.roll(x, 3, 1)", "torch.rot90(x, 3, (0, 1))", "torch.tensor_split(x, 2, 1)", "torch.split(x, [1, 3], 1)", "x.narrow(1, 1, 2)",
    "torch.block_diag(x, q)", "torch.kron(x, y)", "torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)", "torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)",
    "torch.quantize_per_channel(x, v.detach()[:3], i[:3], 0, torch.qint8)", "torch.special.polygamma(2, x)", "torch.polygamma(3, x)", "torch.ldexp(x, k)",
    "torch.randint(0, 9, (3, 4))", "torch.rand(3, 4)", "torch.randn(2, 3)", "torch.normal(0.0, 1.0, (2, 3))", "x.detach().random_(3, 9)",
    "torch.bitwise_left_shift(k, l)", "torch.bitwise_right_shift(k, l)", "k.to(torch.int8)", "k.float()", "torch.float_power(k, 3)", "k.to(torch.int32) // l.to(torch.int32)",
    "k.to(torch.int8) % l.to(torch.int8)", "torch.lcm(k.to(torch.int16), l.to(torch.int16))", "torch.lcm(k.to(torch.int8), l.to(torch.int8))",
    "torch.unique(k)", "torch.unique_consecutive(k, dim=0)", "torch.sort(k)", "torch.median(k)", "torch.mode(k)", "torch.isin(k, l)",
    "torch.nn.functional.grid_sample(u, torch.ones(2, 2, 2, 2))", "torch.nn.functional.affine_grid(torch.ones(1, 2, 3), (1, 1, 2, 2))",
    "torch.trapezoid(x, dx=2)", "torch.renorm(x, 2, 0, 3)", "torch.cdist(x, y, 2)", "torch.chunk(x, 2, 1)", "x.view(2, 6)", "x.reshape(2, -1)", "x.unflatten(1, (2, 2))",
    "torch.matrix_power(q, 3)", "torch.linalg.matrix_power(q, 3)", "torch.tile(x, (2, 3))", "torch.broadcast_to(v, (3, 4))", "torch.diag_embed(x, 1, 0, 2)",
    "torch.diagflat(v, 1)", "torch.diag(v, 1)", "torch.tril(x, 1)", "torch.nn.functional.pdist(x)", "torch.histogram(x, 3)", "torch.histogramdd(x[:, :2], [2, 3])",
    "torch.tensordot(x, y, 2)", "torch.mvlgamma(p + 3, 2)", "torch.meshgrid(v, w, indexing='ij')", "torch.sparse.sum(torch.eye(3).to_sparse(), 1)",
    "torch.nn.functional.gumbel_softmax(x, 1, dim=1)", "torch.nn.functional.lp_pool1d(b, 2, 2)", "torch.nn.functional.local_response_norm(b, 2)",
    "torch.nn.functional.group_norm(b, 3)", "torch.nn.functional.channel_shuffle(u, 3)", "torch.nn.functional.glu(x, 1)", "torch.nn.functional.conv_transpose1d(b, torch.ones(3, 2, 2), None, 2, 1, 1, 1, 1)",
]  # fmt: skip


class Replace(ast.NodeTransformer):
    def __init__(self, rng, chance):
        self.rng, self.chance, self.changed = rng, chance, False

    def visit_Constant(self, node):
        if isinstance(node.value, bool) or self.rng.random() > self.chance:
            return node
        if isinstance(node.value, int):
            self.changed = True
            return ast.Constant(self.rng.choice(EDGES))
        if isinstance(node.value, float):
            self.changed = True
            return ast.Name("inf") if self.rng.random() < 0.2 else ast.Constant(self.rng.choice(FLOATS[:4]))
        return node


def edged(t, rng):
    """A tensor of integers with some elements at the edges of its dtype."""
    array = t.numpy().copy()
    info = np.iinfo(array.dtype)
    for _ in range(rng.choice([1, 1, 2, array.size])):
        values = [v for v in (*EDGES, info.min, info.max, info.min + 1) if info.min <= v <= info.max]
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(values)
    return torch.from_numpy(array)


def cases(share, seed):
    """(number, text of the call, operands changed) in an order that depends on the seed alone."""
    expressions = [text for family in samples.SAMPLES.values() for text in family] + MORE
    number = itertools.count()
    for text in expressions:
        tree = ast.parse(text)
        for variant in range(share):
            rng = random.Random(f"{seed} {variant} {text}")
            replace = Replace(rng, rng.choice([0.3, 0.6, 1.0]))
            changed = ast.unparse(ast.fix_missing_locations(replace.visit(ast.parse(text))))
            touched = rng.random() < 0.5
            if replace.changed or touched:
                yield next(number), changed, touched, rng
        del tree


def main(share, seed, first=0):
    limit()
    plain = samples.operands(torch)
    plain.update(torch=torch, dev="cpu", ones=torch.ones, F=torch.nn.functional, inf=float("inf"), np=np)
    count = 0
    for number, text, touched, rng in cases(share, seed):
        count += 1
        if number < first:
            continue
        print(number, text, flush=True)
        space = dict(plain)
        if touched:
            for name in ("k", "l", "i", "j", "t", "g", "ix", "bytes8"):
                space[name] = edged(space[name], rng)
        signal.alarm(SECONDS)
        try:
            exec(text, space)
        except SystemError:
            raise
        except BaseException:
            pass
        finally:
            signal.alarm(0)
            for left in set(space) - set(plain):
                del space[left]
    print("end", count)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
