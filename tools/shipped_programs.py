"""What common programs do, in short: `ship_kernels.py` runs these and the examples to find out which kernels flambeau is to come with.

A program is a function without arguments. Results do not matter here, sizes and dtypes do: kernels are made for dtypes and layouts,
and products of matrices for numbers of rows and columns.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES: dict[str, dict[str, Any]] = {
    "nano_gpt": {"steps": 4, "batch_size": 16, "sample": 4}, "cifar_style_resnet": {"steps": 3, "batch_size": 32},
    "lstm_classifier": {"steps": 3, "batch_size": 32}, "vae": {"steps": 3}, "dcgan": {"steps": 3, "batch_size": 32},
    "reinforce": {"steps": 1, "batch_size": 2}, "transfer_learning": {"steps": 3}, "newton": {}, "fit_a_throw": {},
    "spirals_raw_tensors": {"steps": 5},
}  # fmt: skip
REAL = (torch.float32, torch.float64)
failed: list[str] = []


@contextlib.contextmanager
def going_on(what: str) -> Iterator[None]:
    """What an operation refuses is no reason to leave the others out."""
    try:
        yield
    except Exception as error:
        failed.append(f"{what}: {type(error).__name__}: {error}"[:200])


def trained(net: Any, *inputs: Any, steps: int = 3, optimizer: Any = None) -> None:
    """A few steps, as plans are made by the second and third call, and one without gradients."""
    parameters = list(net.parameters())
    optimizer = optimizer(parameters) if optimizer and parameters else None
    for _ in range(steps):
        out = net(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        if out.requires_grad:
            (out.pow(2).mean() if out.is_floating_point() else out.abs().sum()).backward()
        if optimizer:
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        net.eval()(*inputs)


def steps() -> None:
    """The networks of `benchmarks/cold.py`, a few steps each."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from cold import NETWORKS

    text = NETWORKS.replace("NAME", "flambeau").replace("\nstep(", "\nfor _ in range(3): step(")
    exec(compile(text, "networks", "exec"), {"__name__": "networks"})


def demo() -> None:
    """The demonstration, without its pictures."""
    from flambeau._demo import training

    training.EXAMPLES = 640
    with tempfile.TemporaryDirectory() as folder:
        if training.run(epochs=1, directory=folder):
            raise SystemExit("the demonstration needs tqdm and matplotlib")


def example(name: str) -> None:
    torch.install_as_torch(children=False)
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](**EXAMPLES[name])


def samples() -> None:
    """One call of every operation that has a sample, with its gradient; twice, as the second may be another kernel's."""
    spec = importlib.util.spec_from_file_location("samples", ROOT / "tests" / "samples.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    for family, expressions in found.SAMPLES.items():
        for expression in expressions if family != "linalg" else ():
            with going_on(expression):
                for _ in range(2):
                    _evaluated(expression, found.operands(torch))


def _evaluated(expression: str, given: dict[str, Any]) -> None:
    names = {**given, "torch": torch, "F": F, "nn": nn, "dev": "cpu", "ones": torch.ones}
    if ";" in expression:
        exec(expression, names)
        out = names["out"]
    else:
        out = eval(expression, names)
    for t in out if isinstance(out, (tuple, list)) else [out]:
        if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point():
            t.sum().backward(retain_graph=True)


UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin "
    "sinh sqrt square tan tanh trunc relu isnan isinf isfinite logical_not nan_to_num"
)
BINARY = "add sub mul div maximum minimum atan2 pow fmod remainder eq ne lt le gt ge floor_divide"


def elements() -> None:
    """Arithmetic of tensors and numbers, in the dtypes that programs have it in."""
    for d in REAL:
        x, y = torch.rand(5, 6, dtype=d) + 0.1, torch.rand(5, 6, dtype=d) + 0.1
        given = [(x, y), (x, y[:1]), (x, y.t().contiguous().t()), (x, 2.0), (x, y[0, 0])]
        for name in UNARY.split():
            with going_on(f"{name} {d}"):
                trained(nn.Identity(), getattr(torch, name)(x))
                out = getattr(torch, name)(x.clone().requires_grad_())
                if out.requires_grad:
                    out.sum().backward()
        for name, (a, b) in itertools.product(BINARY.split(), given):
            with going_on(f"{name} {d}"):
                out = getattr(torch, name)(a.clone().requires_grad_(), b)
                if out.requires_grad:
                    out.sum().backward()
                    getattr(torch, name)(a, b.clone().requires_grad_() if isinstance(b, torch.Tensor) else b)
    for d in (torch.int64, torch.int32, torch.uint8, torch.bool):
        x = torch.arange(12).reshape(3, 4).to(d)
        for name in BINARY.split():
            with going_on(f"{name} {d}"):
                getattr(torch, name)(x, x.clone().fill_(1)), getattr(torch, name)(x, 1)
        for name in ("sum", "max", "min", "argmax", "cumsum", "sort", "any", "all", "prod", "unique", "bincount"):
            for args in ((), (1,)):
                with going_on(f"{name} {d}"):
                    getattr(x.flatten() if name == "bincount" else x, name)(*args)
    kinds = (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    )
    for a, b in itertools.product(kinds, kinds):
        torch.ones(3, 5, dtype=a).to(b), torch.ones(5, 3, dtype=a).t().to(b)


def reductions() -> None:
    """Along none, some and all dimensions."""
    names = (
        "sum mean std var max min argmax argmin prod norm logsumexp softmax log_softmax cumsum cumprod any all median sort "
        "argsort topk unique amax amin count_nonzero flip diff"
    )
    for d, name, shape in itertools.product(REAL, names.split(), ((6, 5), (4, 3, 7), (300, 1000))):
        x = torch.rand(shape, dtype=d)
        for args in ((), (0,), (-1,), ((0, 1),)):
            with going_on(f"{name} {args}"):
                t = x.clone().requires_grad_()
                out = getattr(t, name)(*((2,) if name == "topk" else args))
                out = out[0] if isinstance(out, tuple) else out
                if out.requires_grad:
                    out.sum().backward()
        if len(shape) == 2 and shape[0] < 10:  # elements that lie apart have loops of their own
            for args in ((), (0,), (-1,)):
                with going_on(f"{name} {args} of every other element"):
                    getattr(x[..., ::2], name)(*((2,) if name == "topk" else args))


def products() -> None:
    """Tiles of all heights and widths, with and without something added."""
    counts = (*range(1, 34), 48, 64, 100, 128, 200)
    for m, n in itertools.product(counts, (1, 2, 3, 4, 5, 8, 10, 16, 20, 24, 32, 48, 64, 100, 128, 256)):
        a, b = torch.rand(m, 24), torch.rand(24, n)
        a @ b, torch.addmm(b[:1, :], a, b), F.linear(a, b.t().contiguous())
    for m, n in itertools.product((1, 2, 3, 4, 8, 10, 16, 32, 64, 100), (1, 2, 3, 4, 10, 32, 64, 100)):
        a, b = torch.rand(m, 16, dtype=torch.float64), torch.rand(16, n, dtype=torch.float64)
        a @ b, torch.addmm(b[:1, :], a, b)
    x, y = torch.rand(2, 9, 8).requires_grad_(), torch.rand(2, 8, 12).requires_grad_()
    for text in ("bij,bjk->bik", "bij,bjk->k"):
        torch.einsum(text, x, y).sum().backward()
    (
        torch.bmm(x, y).sum().backward(),
        (x @ torch.rand(8)).sum().backward(),
        torch.dot(torch.rand(9), torch.rand(9)).item(),
    )
    for n in (16, 64, 300):
        trained(nn.Linear(n, n), torch.rand(n, n)), trained(nn.Linear(n, 10), torch.rand(3, 7, n))


def tiles() -> None:
    """Convolutions cut their positions by the threads of a machine: tiles of all heights that this may give."""
    from flambeau._kernel.images import lanes
    from flambeau._kernel.render.tiles import tile

    for rows in range(1, tile() + 1):
        lanes.position_products("f32", rows), lanes.channel_sums("f32", rows)


LAYERS: list[tuple[Callable[[], Any], tuple[int, ...]]] = [
    (lambda: nn.Conv1d(4, 8, 3, padding=1), (2, 4, 20)), (lambda: nn.Conv1d(8, 8, 5, stride=2), (2, 8, 40)),
    (lambda: nn.Conv2d(1, 8, 3), (4, 1, 28, 28)), (lambda: nn.Conv2d(1, 32, 3, padding=1), (8, 1, 28, 28)),
    (lambda: nn.Conv2d(1, 6, 5), (4, 1, 28, 28)), (lambda: nn.Conv2d(6, 16, 5), (4, 6, 12, 12)),
    (lambda: nn.Conv2d(3, 16, 3, padding=1), (8, 3, 32, 32)), (lambda: nn.Conv2d(3, 64, 7, stride=2, padding=3), (1, 3, 64, 64)),
    (lambda: nn.Conv2d(16, 32, 3, padding=1), (8, 16, 16, 16)), (lambda: nn.Conv2d(32, 64, 3), (8, 32, 12, 12)),
    (lambda: nn.Conv2d(64, 64, 3, padding=1, bias=False), (4, 64, 16, 16)), (lambda: nn.Conv2d(64, 128, 3, stride=2, padding=1), (4, 64, 16, 16)),
    (lambda: nn.Conv2d(64, 128, 1, stride=2, bias=False), (4, 64, 16, 16)), (lambda: nn.Conv2d(128, 128, 3, padding=1), (4, 128, 8, 8)),
    (lambda: nn.Conv2d(32, 64, 1), (4, 32, 8, 8)), (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), (4, 32, 8, 8)),
    (lambda: nn.Conv2d(16, 32, 3, groups=4), (4, 16, 8, 8)), (lambda: nn.Conv2d(3, 16, 4, stride=4), (4, 3, 32, 32)),
    (lambda: nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), (4, 16, 8, 8)), (lambda: nn.ConvTranspose2d(64, 32, 4, 1, 0), (4, 64, 1, 1)),
    (lambda: nn.Conv3d(2, 4, 3, padding=1), (1, 2, 6, 6, 6)), (lambda: nn.BatchNorm1d(8), (5, 8)), (lambda: nn.BatchNorm1d(8), (5, 8, 7)),
    (lambda: nn.BatchNorm2d(16), (4, 16, 8, 8)), (lambda: nn.BatchNorm2d(3), (2, 3, 5, 5)), (lambda: nn.LayerNorm(32), (4, 7, 32)),
    (lambda: nn.GroupNorm(4, 16), (2, 16, 5, 5)), (lambda: nn.InstanceNorm2d(4), (2, 4, 6, 6)), (lambda: nn.RMSNorm(32), (4, 7, 32)),
    (lambda: nn.MaxPool2d(2), (2, 3, 8, 8)), (lambda: nn.MaxPool2d(3, 2, 1), (2, 3, 9, 9)), (lambda: nn.AvgPool2d(2), (2, 3, 8, 8)),
    (lambda: nn.MaxPool1d(2), (2, 3, 8)), (lambda: nn.AdaptiveAvgPool2d(1), (2, 3, 8, 8)), (lambda: nn.AdaptiveAvgPool2d(4), (2, 3, 8, 8)),
    (lambda: nn.Dropout(0.3), (6, 7)), (lambda: nn.Dropout2d(0.3), (2, 3, 5, 5)), (lambda: nn.ReLU(), (5, 6)), (lambda: nn.ReLU(True), (5, 6)),
    (lambda: nn.GELU(), (5, 6)), (lambda: nn.GELU("tanh"), (5, 6)), (lambda: nn.SiLU(), (5, 6)), (lambda: nn.LeakyReLU(0.2), (5, 6)),
    (lambda: nn.ELU(), (5, 6)), (lambda: nn.Tanh(), (5, 6)), (lambda: nn.Sigmoid(), (5, 6)), (lambda: nn.Softplus(), (5, 6)),
    (lambda: nn.Softmax(-1), (5, 6)), (lambda: nn.LogSoftmax(1), (5, 6)), (lambda: nn.Hardswish(), (5, 6)), (lambda: nn.PReLU(), (5, 6)),
    (lambda: nn.Upsample(scale_factor=2), (2, 3, 5, 5)), (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 5, 5)),
    (lambda: nn.ZeroPad2d(1), (2, 3, 5, 5)), (lambda: nn.ReflectionPad2d(1), (2, 3, 5, 5)), (lambda: nn.Flatten(), (2, 3, 5, 5)),
    (lambda: nn.PixelShuffle(2), (2, 8, 3, 3)), (lambda: nn.GRU(8, 16, batch_first=True), (4, 6, 8)), (lambda: nn.RNN(8, 16), (6, 4, 8)),
    (lambda: nn.LSTM(8, 16, num_layers=2, bidirectional=True, dropout=0.1), (6, 4, 8)), (lambda: nn.LSTM(64, 128, batch_first=True), (16, 20, 64)),
    (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), (3, 10, 32)),
    (lambda: nn.TransformerEncoderLayer(64, 8, 128, norm_first=True), (10, 3, 64)), (lambda: nn.Bilinear(4, 4, 3), (5, 4)),
]  # fmt: skip


def layers() -> None:
    """Modules, trained for a few steps and evaluated."""
    for make, shape in LAYERS:
        net = make()
        with going_on(str(net)):
            trained(net, *[torch.rand(shape) for _ in range(2 if isinstance(net, nn.Bilinear) else 1)])
            trained(make(), torch.rand(shape).requires_grad_())  # as in the midst of a network
    codes = torch.randint(0, 9, (4, 6))
    trained(nn.Embedding(10, 16, padding_idx=0), codes), trained(nn.EmbeddingBag(10, 16), codes)
    x = torch.rand(3, 12, 32)
    attention = nn.MultiheadAttention(32, 4, batch_first=True)
    for _ in range(3):
        attention(x, x, x)[0].sum().backward(), attention(x, x, x, need_weights=False)[0].sum().backward()
    q, k, v = (torch.rand(2, 4, n, 16).requires_grad_() for n in (12, 12, 12))
    for causal, rate in itertools.product((False, True), (0.0, 0.1)):
        F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=causal).sum().backward()
    mask = torch.ones(12, 12, dtype=torch.bool).tril()
    F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
    (q @ k.transpose(-2, -1) / 4.0).masked_fill(~mask, float("-inf")).softmax(-1).matmul(v).sum().backward()
    decoder = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
    trained(decoder, x, x)


def shapes() -> None:
    """What is computed by other kernels for other sizes: convolutions by channels, attention by heads, recurrent layers by batches."""
    for channels, more, size in itertools.product(
        (1, 3, 6, 10, 16, 20, 32, 64), (6, 10, 16, 20, 32, 64, 128), (1, 3, 5)
    ):
        with going_on(f"Conv2d {channels} {more} {size}"):
            x = torch.rand(2, channels, 14, 14).requires_grad_()
            F.conv2d(x, torch.rand(more, channels, size, size).requires_grad_(), padding=size // 2).sum().backward()
    for size, step, far in itertools.product((1, 3, 4, 7), (1, 2), (16, 28, 33, 64)):
        with going_on(f"Conv2d {size} {step} {far}"):
            trained(nn.Conv2d(3, 24, size, step, size // 2), torch.rand(4, 3, far, far).requires_grad_(), steps=1)
            trained(
                nn.Conv2d(48, 48, size, step, size // 2),
                torch.rand(2, 48, far // 2, far // 2).requires_grad_(),
                steps=1,
            )
            trained(nn.MaxPool2d(size, step), torch.rand(4, 8, far, far).requires_grad_(), steps=1)
            trained(nn.MaxPool2d(3, 2, 1), torch.rand(4, 64, far, far).requires_grad_(), steps=1)
    for length, size, causal in itertools.product(
        (4, 16, 50, 128), (8, 12, 16, 24, 32, 48, 64, 80, 96, 128), (False, True)
    ):
        q, k, v = (torch.rand(2, 2, length, size).requires_grad_() for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()
    for kind, hidden, batch in itertools.product(
        (nn.LSTM, nn.GRU, nn.RNN), (8, 20, 32, 50, 64, 128), (1, 2, 3, 4, 5, 8, 12, 16, 32)
    ):
        kind(10, hidden)(torch.rand(3, batch, 10))[0].sum().backward()
    for rows, inner, outer in itertools.product((8, 100, 1000), range(1, 6), range(1, 6)):
        x, w = torch.rand(rows, inner).requires_grad_(), torch.rand(outer, inner).requires_grad_()
        F.linear(x, w, torch.rand(outer)).sum().backward(), (x @ w.t().contiguous()).sum().backward()


def models() -> None:
    """Whole networks of the kind that programs begin with."""
    from flambeau.vision import models

    trained(models.resnet18(num_classes=10), torch.rand(2, 3, 64, 64), steps=2, optimizer=torch.optim.SGD)
    trained(models.resnet18(num_classes=10), torch.rand(1, 3, 224, 224), steps=1)
    trained(nn.Transformer(48, 4, 1, 1, 96, batch_first=True), torch.rand(3, 9, 48), torch.rand(3, 7, 48))
    digits = nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(10, 20, 5), nn.Dropout2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10), nn.LogSoftmax(1),
    )  # fmt: skip
    trained(digits, torch.rand(64, 1, 28, 28), optimizer=torch.optim.Adadelta)


def other_ways() -> None:
    """Compiled functions, mixed precision, large operands, statistics of data."""
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 4))
    compiled = torch.compile(net)
    for _ in range(5):
        F.cross_entropy(compiled(torch.rand(8, 16)), torch.randint(0, 4, (8,))).backward()
    for rows in (1, 4, 8, 32, 100):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            F.cross_entropy(net(torch.rand(rows, 16)), torch.randint(0, 4, (rows,))).backward()
    for d in REAL:
        x = torch.rand(400, 1000, dtype=d).requires_grad_()
        y = (x * 2 + x.exp()).relu().softmax(1).sum(0).sqrt()
        y.sum().backward(), torch.where(x > 0.5, x, -x).std(0).mean().backward(), (x - x.mean(0)).var(1).sum().item()
        data = torch.rand(50, 4, dtype=d)
        for name in ("quantile", "nanmean", "cov", "corrcoef", "histc", "median", "mode", "kthvalue"):
            with going_on(name):
                getattr(torch, name)(*((data.t(),) if name in ("cov", "corrcoef") else (data, 0.5) if name == "quantile" else
                                       (data, 3) if name == "kthvalue" else (data,)))  # fmt: skip
        (
            (data.t() @ data).inverse(),
            torch.linalg.norm(data),
            torch.cdist(data, data),
            torch.linalg.solve(data[:4], data[:4]),
        )


def losses() -> None:
    """Losses with their usual and other reductions."""
    x, y, codes = torch.rand(6, 5).requires_grad_(), torch.rand(6, 5), torch.randint(0, 5, (6,))
    for reduction in ("mean", "sum", "none"):
        made = [
            nn.CrossEntropyLoss(reduction=reduction)(x, codes), nn.NLLLoss(reduction=reduction)(x.log_softmax(1), codes),
            nn.CrossEntropyLoss(label_smoothing=0.1, reduction=reduction)(x, codes), nn.CrossEntropyLoss(reduction=reduction)(x, y),
            nn.CrossEntropyLoss(weight=torch.ones(5), reduction=reduction)(x, codes),
            nn.MSELoss(reduction=reduction)(x, y), nn.L1Loss(reduction=reduction)(x, y), nn.SmoothL1Loss(reduction=reduction)(x, y),
            nn.HuberLoss(reduction=reduction)(x, y), nn.BCELoss(reduction=reduction)(x.sigmoid(), y),
            nn.BCEWithLogitsLoss(reduction=reduction)(x, y), nn.KLDivLoss(reduction=reduction)(x.log_softmax(1), y.softmax(1)),
        ]  # fmt: skip
        for out in made:
            out.sum().backward()
    F.cross_entropy(torch.rand(3, 5, 7).requires_grad_(), torch.randint(0, 5, (3, 7))).backward()
    F.cosine_similarity(x, y).sum().backward(), F.normalize(x).sum().backward()


def optimizers() -> None:
    """Steps of optimizers, with what training loops do around them."""
    made: list[Callable[[Any], Any]] = [
        lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-4), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, 0.01), lambda p: torch.optim.Adam(p, 0.01, weight_decay=1e-4), lambda p: torch.optim.AdamW(p, 0.01),
        lambda p: torch.optim.Adam(p, 0.01, amsgrad=True), lambda p: torch.optim.RMSprop(p, 0.01), lambda p: torch.optim.Adagrad(p, 0.01),
        lambda p: torch.optim.AdamW(p, 0.01, betas=(0.9, 0.95), weight_decay=0.1), lambda p: torch.optim.NAdam(p, 0.01),
        lambda p: torch.optim.Adadelta(p), lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9), lambda p: torch.optim.RAdam(p, 0.01),
        lambda p: torch.optim.Adamax(p, 0.01), lambda p: torch.optim.SGD(p, 0.1, weight_decay=1e-4),
    ]  # fmt: skip
    for make in made:
        trained(nn.Linear(5, 3), torch.rand(4, 5), optimizer=make)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    data = torch.utils.data.TensorDataset(torch.rand(40, 5), torch.randint(0, 3, (40,)))
    for inputs, target in torch.utils.data.DataLoader(data, 8, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(inputs), target)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step(), schedule.step()
        ((net(inputs).argmax(1) == target).float().mean().item(), f"{loss.item():.3f}")
    with (
        tempfile.TemporaryDirectory() as folder,
        going_on("a file"),
    ):  # whose checksum another machine's code may have made
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/net.pt")
        net.load_state_dict(torch.load(f"{folder}/net.pt")["net"])


def random_numbers() -> None:
    """Draws, initialisations, and what is printed of tensors."""
    torch.manual_seed(0)
    for d in REAL:
        torch.rand(9, dtype=d), torch.randn(9, dtype=d), torch.randn(4000, dtype=d), torch.rand(4000, dtype=d)
        repr(torch.randn(3, 4, dtype=d)), repr(torch.randn(30, 40, dtype=d) * 1000)
    repr(torch.arange(9)), repr(torch.arange(9) > 4), str(torch.rand(3)[0])
    x = torch.empty(6, 8)
    for fill in ("kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_", "normal_", "uniform_", "zeros_", "ones_",
                 "trunc_normal_", "orthogonal_"):  # fmt: skip
        with going_on(fill):
            getattr(nn.init, fill)(x)
    torch.randperm(10), torch.randint(0, 9, (3, 4)), torch.bernoulli(x.sigmoid()), torch.multinomial(x.softmax(1), 2)
    (
        torch.multinomial(x.softmax(1), 2, replacement=True),
        torch.normal(0.0, 1.0, (3, 4)),
        torch.randn_like(x),
        torch.rand_like(x),
    )
    for made in (
        torch.distributions.Normal(0.0, 1.0),
        torch.distributions.Categorical(torch.ones(4)),
        torch.distributions.Bernoulli(0.3),
    ):
        made.log_prob(made.sample((5,))), made.entropy()
    torch.allclose(x, x), torch.equal(x, x), torch.isclose(x, x)


PROGRAMS: dict[str, Callable[[], None]] = {
    "steps": steps, "demo": demo, "samples": samples, "elements": elements, "reductions": reductions, "products": products,
    "tiles": tiles, "layers": layers, "shapes": shapes, "models": models, "other ways": other_ways, "losses": losses, "optimizers": optimizers, "random": random_numbers,
    **{name: (lambda name=name: example(name)) for name in EXAMPLES},  # type: ignore[misc]
}  # fmt: skip
