"""Single calls of PyTorch's interface, small and of everyday size, on flambeau and on PyTorch.

    python benchmarks/calls.py small|large [--rounds 3] [--only NAME,NAME] [--all]

Each framework runs in a process of its own, in turn; of the rounds the shortest median counts. Where a result has a
history, the call is timed once more with its backward pass (`NAME +b`). Prints the calls that are slower than PyTorch's
(`--all`: every call), how many are ahead, and the geometric mean of the ratios. Needs PyTorch beside flambeau.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import subprocess
import sys
import time
import warnings
from typing import Any

SETUP = {
    "small": """
x, y, bt = randn(4, 16, requires_grad=True), randn(4, 16), rand(4, 16)
im, seq = randn(2, 3, 8, 8, requires_grad=True), randn(2, 3, 16, requires_grad=True)
w, w1, wt = (randn(*s, requires_grad=True) for s in ((4, 3, 3, 3), (4, 3, 3), (3, 4, 3, 3)))
b, ones4, a44 = randn(4, requires_grad=True), ones(4), randn(4, 4)
spd, i4, i16, places = a44 @ a44.T + 4 * eye(4), randint(0, 4, (4,)), randint(0, 16, (4,)), randint(0, 16, (4, 16))
mean, var, q = zeros(3), ones(3), randn(2, 4, 8, 16, requires_grad=True)
lstm, gru, cell = nn.LSTM(16, 8, batch_first=True), nn.GRU(16, 8, batch_first=True), nn.LSTMCell(16, 8)
mha, steps, grid = nn.MultiheadAttention(16, 4, batch_first=True), randn(2, 5, 16), zeros(2, 4, 4, 2)
""",
    "large": """
x, bt = randn(1024, 1024, requires_grad=True), rand(1024, 1024)
im, im3 = randn(8, 64, 56, 56, requires_grad=True), randn(8, 3, 224, 224, requires_grad=True)
sm, vol = randn(8, 32, 64, 64, requires_grad=True), randn(2, 16, 16, 32, 32, requires_grad=True)
seq, cols = randn(16, 64, 512, requires_grad=True), randn(8, 288, 4096, requires_grad=True)
def p(*shape): return randn(*shape, requires_grad=True)
ct, w4, w2 = p(8, 64, 28, 28), p(64, 32, 4, 4), p(64, 32, 2, 2)
c1, w1 = p(4, 64, 256), p(64, 32, 8)
k3, k33, k9, k13, k31 = p(32, 16, 3, 3, 3), p(64, 64, 3, 3), p(64, 64, 9), p(64, 64, 3), p(64, 1, 31)
k11, k55, patch, stem, one = p(128, 64, 1, 1), p(64, 32, 5, 5), p(192, 3, 16, 16), p(32, 3, 3, 3), p(32, 1, 3, 3)
dw, dw2, grouped = p(64, 1, 3, 3), p(64, 1, 5, 5), p(64, 2, 3, 3)
s28, s64, mnist = p(8, 32, 28, 28), p(8, 3, 64, 64), p(64, 1, 28, 28)
grid, labels = rand(8, 64, 64, 2) * 2 - 1, randint(0, 64, (8, 56, 56))
bn, bn1 = nn.BatchNorm2d(64), nn.BatchNorm1d(1024)
a, b, c, lp = p(64, 128), p(64, 128), p(64, 128), p(50, 16, 20)
long_, ends, lens = ones(16, 10, dtype=T.long), T.full((16,), 50), T.full((16,), 10)
ii, gi, ints = randint(0, 1000, (2048,)), randint(0, 1024, (1024, 1024)), randint(0, 5000, (500000,))
srt, q = randn(1000).sort()[0], randn(256, 256)
spd, xs, q4, mask = q @ q.T + 256 * eye(256), p(16, 64, 128), p(4, 8, 128, 32), rand(128, 128) > 0.3
mha, dec = nn.MultiheadAttention(128, 8, batch_first=True), nn.TransformerDecoderLayer(128, 4, 256, 0.0, batch_first=True)
gru, rnn, cell = nn.GRU(64, 128, batch_first=True), nn.RNN(64, 128, batch_first=True), nn.LSTMCell(64, 128)
xg, xc, bl, b1, b2 = p(16, 50, 64), p(32, 64), nn.Bilinear(32, 32, 16), p(128, 32), p(128, 32)
sparse = eye(1000).to_sparse()
""",
}

CALLS = {
    "small": """
conv2d: F.conv2d(im, w, b, padding=1) | conv1d: F.conv1d(seq, w1) | conv_transpose: F.conv_transpose2d(im, wt)
max_pool2d: F.max_pool2d(im, 2) | max_pool1d: F.max_pool1d(seq, 2) | avg_pool: F.avg_pool2d(im, 2)
adaptive: F.adaptive_avg_pool2d(im, 1) | nearest: F.interpolate(im, scale_factor=2)
bilinear: F.interpolate(im, scale_factor=2, mode='bilinear') | pad: F.pad(im, (1, 1, 1, 1))
reflect: F.pad(im, (1, 1, 1, 1), mode='reflect') | batch_norm: F.batch_norm(im, mean, var, training=True)
group_norm: F.group_norm(im, 3) | instance_norm: F.instance_norm(im) | layer_norm: F.layer_norm(x, (16,))
rms_norm: F.rms_norm(x, (16,)) | softmax: x.softmax(-1) | log_softmax: F.log_softmax(x, -1) | dropout: F.dropout(x, 0.5)
mse: F.mse_loss(x, y) | l1: F.l1_loss(x, y) | smooth_l1: F.smooth_l1_loss(x, y)
bce: F.binary_cross_entropy_with_logits(x, bt) | cross_entropy: F.cross_entropy(x, i16) | nll: F.nll_loss(x, i16)
kl_div: F.kl_div(x, bt) | cosine: F.cosine_similarity(x, y) | normalize: F.normalize(x)
embedding: F.embedding(i4, x) | one_hot: F.one_hot(i4, 4) | sum: x.sum() | sum_dim: x.sum(-1) | mean: x.mean() | max: x.max()
max_dim: x.max(-1) | argmax: x.argmax(-1) | var: x.var() | std: x.std(-1) | norm: x.norm() | cumsum: x.cumsum(0)
sort: x.sort(-1) | topk: x.topk(3) | gather: x.gather(1, places) | scatter: y.scatter(1, places, bt)
index_select: x.index_select(0, i4) | mask: y[y > 0] | index: x[i4] | where: T.where(y > 0, x, y)
masked_fill: x.masked_fill(y > 0, 0.0) | clamp: x.clamp(0, 1) | cat: T.cat([x, y]) | stack: T.stack([x, y])
chunk: x.chunk(2, 1) | unbind: x.unbind(0) | flip: x.flip(0) | roll: x.roll(1, 0) | tril: a44.tril() | repeat: x.repeat(2, 1)
expand: x[:1].expand(4, 16) | permute: im.permute(0, 2, 3, 1) | contiguous: im.permute(0, 2, 3, 1).contiguous()
to: x.to(T.float64) | clone: x.clone() | detach: x.detach() | item: ones4[0].item() | mm: x @ y.T
bmm: q @ q.transpose(-1, -2) | einsum: T.einsum('ij,kj->ik', x, y) | addmm: T.addmm(a44, x, y.T) | outer: T.outer(ones4, ones4)
inv: T.linalg.inv(spd) | solve: T.linalg.solve(spd, a44) | cholesky: T.linalg.cholesky(spd) | svd: T.linalg.svd(spd)
det: T.linalg.det(spd) | lstm: lstm(steps) | gru: gru(steps) | lstm_cell: cell(y) | mha: mha(steps, steps, steps)
attention: F.scaled_dot_product_attention(q, q, q) | randn: randn(4, 16) | arange: T.arange(16) | zeros: zeros(4, 16)
tensor: T.tensor([1.0, 2.0, 3.0]) | linspace: T.linspace(0, 1, 16) | meshgrid: T.meshgrid(ones4, ones4, indexing='ij')
rfft: T.fft.rfft(y) | tolist: y.tolist() | equal: (y == bt).all() | square: x**2 | add_: y.add_(0.0) | lerp: T.lerp(x, y, 0.5)
addcmul: T.addcmul(y, y, y) | cdist: T.cdist(y, y) | unique: i4.unique() | bincount: i4.bincount() | nonzero: (y > 0).nonzero()
searchsorted: T.searchsorted(ones4, ones4) | glu: F.glu(x) | silu: F.silu(x) | hardswish: F.hardswish(x)
prelu: F.prelu(x, b[:1]) | unfold: F.unfold(im, 3) | grid_sample: F.grid_sample(im, grid, align_corners=False)
pixel_shuffle: F.pixel_shuffle(zeros(1, 4, 4, 4), 2)
""",
    "large": """
conv_transpose 4x4: F.conv_transpose2d(ct, w4, stride=2, padding=1) | conv_transpose 2x2: F.conv_transpose2d(ct, w2, stride=2)
conv_transpose1d: F.conv_transpose1d(c1, w1, stride=4, padding=2) | conv3d: F.conv3d(vol, k3, padding=1)
conv3d stride 2: F.conv3d(vol, k3, padding=1, stride=2) | conv1d 9: F.conv1d(seq, k9, padding=4)
conv1d dilated: F.conv1d(seq, k13, padding=8, dilation=8) | conv1d depthwise: F.conv1d(seq, k31, padding=15, groups=64)
conv 3x3 dilated: F.conv2d(im[:4], k33, padding=2, dilation=2) | conv 1x1 stride 2: F.conv2d(im, k11, stride=2)
conv 5x5: F.conv2d(s28, k55, padding=2) | patches: F.conv2d(im3, patch, stride=16) | stem: F.conv2d(s64, stem, padding=1)
one channel: F.conv2d(mnist, one, padding=1) | one image: F.conv2d(im[:1], k33, padding=1)
depthwise: F.conv2d(im, dw, padding=1, groups=64) | depthwise stride 2: F.conv2d(im, dw2, stride=2, padding=2, groups=64)
grouped: F.conv2d(im, grouped, padding=1, groups=32) | max_pool 3: F.max_pool2d(im, 3, 2, 1)
avg_pool 3: F.avg_pool2d(im, 3, 1, 1) | avg_pool 2: F.avg_pool2d(im, 2) | adaptive 1: F.adaptive_avg_pool2d(im, 1)
adaptive 7: F.adaptive_avg_pool2d(im, 7) | adaptive 5: F.adaptive_avg_pool2d(im, 5) | adaptive max: F.adaptive_max_pool2d(im, 7)
max_pool1d: F.max_pool1d(seq, 2) | max_pool3d: F.max_pool3d(vol, 2) | nearest: F.interpolate(sm, scale_factor=2)
bilinear: F.interpolate(sm, scale_factor=2, mode='bilinear') | bicubic: F.interpolate(sm, scale_factor=2, mode='bicubic')
antialias: F.interpolate(im3, size=(128, 128), mode='bilinear', antialias=True)
area: F.interpolate(im3, size=(112, 112), mode='area') | reflect: F.pad(im, (1, 1, 1, 1), mode='reflect')
pad: F.pad(im, (1, 1, 1, 1)) | replicate: F.pad(im, (1, 1, 1, 1), mode='replicate')
grid_sample: F.grid_sample(sm, grid, align_corners=False) | unfold: F.unfold(sm, 3, padding=1)
fold: F.fold(cols, (64, 64), 3, padding=1) | pixel_shuffle: F.pixel_shuffle(sm, 2) | group_norm: F.group_norm(im, 8)
instance_norm: F.instance_norm(im) | batch_norm: bn(im) | batch_norm 1d: bn1(x) | layer_norm: F.layer_norm(x, (1024,))
rms_norm: F.rms_norm(x, (1024,)) | local_response_norm: F.local_response_norm(sm, 5) | softmax channels: F.softmax(im, 1)
log_softmax: F.log_softmax(x, -1) | cross_entropy pixels: F.cross_entropy(im, labels)
bce: F.binary_cross_entropy_with_logits(x, bt) | mse: F.mse_loss(x, bt) | smooth_l1: F.smooth_l1_loss(x, bt)
kl_div: F.kl_div(x, bt) | cosine: F.cosine_similarity(x, bt) | huber: F.huber_loss(x, bt) | triplet: F.triplet_margin_loss(a, b, c)
ctc: F.ctc_loss(F.log_softmax(lp, -1), long_, ends, lens) | silu: F.silu(x) | mish: F.mish(x) | elu: F.elu(x)
softplus: F.softplus(x) | hardswish: F.hardswish(x) | leaky_relu: F.leaky_relu(x) | selu: F.selu(x) | logsigmoid: F.logsigmoid(x)
gelu tanh: F.gelu(x, approximate='tanh') | glu: F.glu(x) | erf: T.erf(x) | cube: x**3 | power: x.abs() ** 1.5
sqrt: x.abs().sqrt() | clamp: x.clamp(-1, 1) | abs: x.abs() | atan2: T.atan2(x, bt) | cumsum: x.cumsum(1) | cumsum 0: x.cumsum(0)
cumprod: x.cumprod(1) | sum 0: x.sum(0) | var: x.var(1) | std: x.std() | norm: x.norm() | max: x.max(1)[0] | max 0: x.max(0)[0]
logsumexp: x.logsumexp(1) | median: x.median(1)[0] | sort: x.sort(1)[0] | topk: x.topk(10, 1)[0] | argsort: x.argsort(0)
kthvalue: x.kthvalue(5, 1)[0] | tril: x.tril() | flip: x.flip(0) | flip 1: x.flip(1) | roll: x.roll(3, 1)
transposed: x.t().contiguous() | repeat: x.repeat(2, 2) | cat: T.cat([x, x]) | cat 1: T.cat([x, x], 1) | stack: T.stack([x, x], -1)
where: T.where(bt > 0.5, x, 0.0) | masked_fill: x.masked_fill(bt > 0.5, 0.0) | mask: x[bt > 0.5]
index_select: x.index_select(0, ii) | index: x[ii] | two indices: x[ii, ii] | gather: x.gather(1, gi) | prod: x.prod(1)
diff: x.diff(dim=1) | outer: T.outer(x[0], x[1]) | einsum: T.einsum('ij,kj->ik', x, x)
cdist: T.cdist(x[:256, :64], x[256:512, :64]) | product: x.t() @ x | bmm: x.view(16, 64, 1024) @ x.view(16, 1024, 64)
mv: x @ x[0] | dropout: F.dropout(x, 0.1) | quantile: x.quantile(0.5, 1) | nansum: x.nansum() | round: x.round()
half: x.half().float() | bfloat16: x.bfloat16().float() | to int32: x.detach().to(T.int32) | isnan: x.isnan().any()
clone: x.clone() | broadcast: (x.unsqueeze(0) + x[:4].unsqueeze(1)).sum() | lerp: T.lerp(x, bt, 0.3) | addcmul: T.addcmul(x, bt, bt)
rsub: 1 - x | div: x / bt | remainder: x.detach() % 0.3 | histc: T.histc(x.detach(), 50) | bincount: T.bincount(ints)
unique: ints.unique() | searchsorted: T.searchsorted(srt, x.detach()) | nonzero: (bt > 0.9).nonzero() | one_hot: F.one_hot(ii, 1000)
embedding: F.embedding(ints[:4096] % 1024, x) | embedding_bag: F.embedding_bag(ints[:4096].view(256, 16) % 1024, x)
randperm: T.randperm(1000000) | randint: randint(0, 10, (1000000,)) | multinomial: T.multinomial(bt, 8)
bernoulli: T.bernoulli(bt) | normal: T.normal(0.0, 1.0, (1000, 1000)) | rand: rand(1000, 1000)
exponential: T.empty(1000, 1000).exponential_() | trunc_normal: nn.init.trunc_normal_(T.empty(500, 1000)) | fft: T.fft.fft(x)
rfft2: T.fft.rfft2(x[:256, :256]) | stft: T.stft(x.detach().view(-1)[:160000].view(4, -1), 512, return_complex=True)
inv: T.linalg.inv(x[:256, :256]) | solve: T.linalg.solve(x[:256, :256], x[:256, :16]) | cholesky: T.linalg.cholesky(spd)
qr: T.linalg.qr(x[:256, :128])[0] | eigh: T.linalg.eigh(spd)[0] | det 4x4: T.linalg.det(x.view(-1)[:65536].view(4096, 4, 4))
inv 4x4: T.linalg.inv(x.view(-1)[:65536].view(4096, 4, 4)) | svd 8x8: T.linalg.svd(x.view(-1)[:8192].view(128, 8, 8))[1]
matrix_exp: T.matrix_exp(x[:64, :64] * 0.1) | mha: mha(xs, xs, xs, need_weights=False)[0] | mha weights: mha(xs, xs, xs)[0]
decoder layer: dec(xs, xs) | gru: gru(xg)[0] | rnn: rnn(xg)[0] | lstm_cell: cell(xc)[0] | bilinear layer: bl(b1, b2)
attention mask: F.scaled_dot_product_attention(q4, q4, q4, attn_mask=mask) | sparse: T.sparse.mm(sparse, x.detach()[:1000])
floats: [float(v) for v in x.detach()[0, :100]]
""",
}


def calls(group: str) -> dict[str, str]:
    pieces = [piece for line in CALLS[group].strip().splitlines() for piece in line.split(" | ")]
    return {name.strip(): text.strip() for name, _, text in (piece.partition(": ") for piece in pieces)}


def median(call: Any, seconds: float) -> float:
    """The lower quartile, rather: what disturbs makes calls slower."""
    for _ in range(3):
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 1000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 4]


def measure(framework: str, group: str, names: list[str]) -> dict[str, float]:
    """The times of calls in this process."""
    warnings.simplefilter("ignore")
    T = importlib.import_module(framework)
    T.manual_seed(0)
    scope = {"T": T, "nn": T.nn, "F": T.nn.functional}
    scope |= {name: getattr(T, name) for name in ("randn", "rand", "randint", "ones", "zeros", "eye")}
    exec(SETUP[group], scope)
    seconds, found = (0.02 if group == "small" else 0.08), {}
    for name, text in calls(group).items():
        if names and name not in names:
            continue
        call = eval(f"lambda: {text}", scope)
        found[name] = median(call, seconds)
        made = call()
        made = made[0] if isinstance(made, tuple) else made
        if isinstance(made, T.Tensor) and made.requires_grad:
            gradient = T.ones_like(made.detach()) + 0.5

            def both(call: Any = call, gradient: Any = gradient) -> None:
                result = call()
                (result[0] if isinstance(result, tuple) else result).backward(gradient)

            found[name + " +b"] = median(both, seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("group", choices=SETUP)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--framework", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    names = [name.strip() for name in chosen.only.split(",") if name]
    if chosen.framework:
        print(json.dumps(measure(chosen.framework, chosen.group, names)))
        return
    best: dict[str, dict[str, float]] = {"flambeau": {}, "torch": {}}
    for _ in range(chosen.rounds):
        for framework, times in best.items():
            command = [sys.executable, __file__, chosen.group, "--only", chosen.only, "--framework", framework]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for name, seconds in found.items():
                times[name] = min(seconds, times.get(name, math.inf))
    ratios = {name: best["torch"][name] / seconds for name, seconds in best["flambeau"].items()}
    print("| call | PyTorch, µs | flambeau, µs | ratio |\n| --- | ---: | ---: | ---: |")
    for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
        if ratio < 1 or chosen.all:
            print(f"| {name} | {1e6 * best['torch'][name]:.1f} | {1e6 * best['flambeau'][name]:.1f} | {ratio:.2f} |")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    ahead = sum(ratio >= 1 for ratio in ratios.values())
    print(f"\n{ahead} of {len(ratios)} ahead; geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
