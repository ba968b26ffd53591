"""Operations on batches: which of them run sample by sample, and that rules agree with the samples' own results."""

import re
import sys
import warnings
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.fft
import flambeau.linalg
import flambeau.nn.functional as F
from flambeau._ops.records.pointwise_op import Pointwise
from flambeau._ops.registry import records
from flambeau.func import fallback, grad, jvp, vmap

sys.path.insert(0, str(Path(__file__).parents[1] / "recorded"))
import other_ways

_PAGE = (Path(__file__).parents[2] / "docs" / "transforms.md").read_text()


def _named(heading):
    """The names in the first column of the table below a heading."""
    table = _PAGE[_PAGE.index(heading) :]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


_FUNCTIONS = _named("| function | reads |")
_LOOPING = _named("| operation | why |") - _FUNCTIONS | {"bincount", "histc"}


def test_the_page_names_all_records_that_loop():
    own = {
        r.name
        for r in records.values()
        if not isinstance(r, Pointwise) and r.forward.__module__.startswith("flambeau._ops.")
    }
    assert {name for name in own if records[name].batch is None} == _LOOPING
    assert len(own) > 190


def _watched(monkeypatch):
    seen = set()
    one, many = fallback.each_sample, fallback._each

    def functions(level, function, args, named, reason):
        seen.add(function.__name__)
        return many(level, function, args, named, reason)

    monkeypatch.setattr(fallback, "_each", functions)
    monkeypatch.setattr(sys.modules["flambeau.func.batched_ops"], "each_sample", lambda level, op, args: (
        seen.add(op.name) if not op.view else None, one(level, op, args))[1])  # fmt: skip
    return seen


@pytest.mark.slow
def test_recorded_calls_loop_only_where_the_page_says_so(monkeypatch):
    seen = _watched(monkeypatch)
    for operand, call in [p.values for p in other_ways.parameters("vmap")]:
        f, x = other_ways.function(torch, operand, call)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vmap(f)(torch.stack([x, x]))
    assert seen - _LOOPING - _FUNCTIONS <= {
        "scatter",
        "scatter_combine",
        "norm_blocks",
    }  # see the page, below the first table


X, M = torch.arange(24.0).view(2, 3, 4).sin(), torch.arange(18.0).view(2, 3, 3).cos() + 3 * torch.eye(3)
I = torch.tensor([[0, 2, 1], [1, 1, 0]])
IMAGES, WEIGHTS = (
    torch.arange(96.0).view(2, 1, 3, 4, 4).sin(),
    torch.arange(108.0).view(2, 2, 3, 3, 3)[:, :, :, :2, :2].cos(),
)
ROWS, TABLES = torch.arange(12.0).view(2, 2, 3).cos(), torch.arange(40.0).view(2, 5, 4).sin()
BOTH = {
    "conv with its own weight": (lambda x, w: F.conv2d(x, w, padding=1), (IMAGES, WEIGHTS)),
    "conv, weight alone": (lambda w: F.conv2d(IMAGES[0], w, stride=2), (WEIGHTS,)),
    "conv in groups": (lambda x, w: F.conv2d(x, w, groups=3), (IMAGES, WEIGHTS[:, :, :1].repeat(1, 3, 1, 1, 1))),
    "conv_transpose": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (IMAGES, WEIGHTS.transpose(1, 2)[:, :, :2])),
    "conv_transpose, weight alone": (lambda w: F.conv_transpose2d(IMAGES[0], w), (WEIGHTS.transpose(1, 2)[:, :, :2],)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (X, X[:, :2], X[:, 0, :2])),
    "linear, weight alone": (lambda w: F.linear(X[0], w), (X,)),
    "linear, bias alone": (lambda b: F.linear(X[0], X[1], b), (X[:, 0, :3],)),
    "addmm": (lambda c, x: torch.addmm(c, x, X[0], beta=2, alpha=3), (X[:, 0], M)),
    "addr": (lambda c, x, y: torch.addr(c, x, y), (X, M[:, 0], X[:, 0])),
    "addmv": (lambda c, y: torch.addmv(c, M[0], y), (M[:, 0], M[:, 1])),
    "baddbmm": (lambda c, x: torch.baddbmm(c, x, M), (X[:, :1, :3].unsqueeze(1), torch.stack([M, M * 2]))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (X, X[:, 0], X[:, 1])),
    "layer_norm, weight alone": (lambda w: F.layer_norm(X[0], (4,), w), (X[:, 0],)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), (IMAGES, M[:, 0], M[:, 1])),
    "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, training=True), (X.unsqueeze(1).repeat(1, 2, 1, 1), M[:, 0])),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=1), (TABLES, I)),
    "index": (lambda x, i: x[:, i], (X, I)),
    "index by two": (lambda x, i: x[i, :, i], (X.unsqueeze(3).repeat(1, 1, 1, 3), I)),
    "index, table of all": (lambda i: X[0][i, i], (I,)),
    "index_put": (lambda x, i, v: x.index_put((torch.tensor([0, 1, 2]), i), v), (X, I, M[:, 0])),
    "index_put behind": (lambda x, v: x.index_put((I[0],), v, accumulate=True), (X, M[:, :1, :1])),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), (X, I, X * 2)),
    "index_add with alpha": (lambda x, s: x.index_add(0, I[0], s, alpha=2), (X, X * 2)),
    "index_copy": (lambda x, s: x.index_copy(1, I[0], s), (X, M)),
    "index_fill with a value": (lambda x, i, v: x.index_fill(0, i, v), (X, I, X[:, 0, 1])),
    "index_fill": (lambda x, i: x.index_fill(0, i, 7.0), (X, I[:, :1])),
    "index_select": (lambda x, i: x.index_select(1, i), (X, I)),
    "take": (lambda x, i: x.take(i - 1), (X, I)),
    "put": (lambda x, i, s: x.put(i, s), (X, torch.tensor([[5, 2, 1], [0, 3, 11]]), M[:, 0])),
    "masked_scatter": (lambda x, m, s: x.masked_scatter(m, s), (X, X > 0, X * 10)),
    "searchsorted": (lambda b, v: torch.searchsorted(b.sort().values, v), (X[:, 0], X)),
    "isin": (lambda a, b: torch.isin(a, b), (I, I[:, :1] + 1)),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k), (X.unsqueeze(1).unsqueeze(1), X.unsqueeze(1).unsqueeze(1) * 2)),
    "attention with masks": (lambda q, m: F.scaled_dot_product_attention(q, q, q, m), (X.unsqueeze(1).unsqueeze(1), M)),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, y, ignore_index=1), (M, I)),
    "nll with weights": (lambda x, w: F.nll_loss(x, I[0], w), (M, M[:, 0])),
    "ctc": (lambda x: F.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])), (X.transpose(1, 2).unsqueeze(2),)),
    "renorm": (lambda x: x.renorm(2, 0, 1.0), (X,)), "roll": (lambda x: x.roll(1), (X,)), "block_diag": (lambda x: torch.block_diag(x, M[0]), (X,)),
    "median": (lambda x: x.median(), (X,)), "max": (lambda x: x.max(), (X,)), "argmax": (lambda x: x.argmax(keepdim=True), (X,)),
    "qr": (lambda x: torch.linalg.qr(x, "r")[1].abs(), (X,)), "solve": (lambda a, b: torch.linalg.solve(a, b), (M, X)),
    "solve with a vector": (lambda a, b: torch.linalg.solve(a, b), (M, M[:, 0])), "det": (torch.linalg.det, (M,)),
    "cholesky": (lambda a: torch.linalg.cholesky(a @ a.mT), (M,)), "pinv": (torch.linalg.pinv, (X,)),
    "fold": (lambda x: F.fold(F.unfold(x, 2), (4, 4), 2), (IMAGES,)), "pool": (lambda x: F.max_pool2d(x, 2)[0], (IMAGES,)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGES, X[:, None, :, :2].repeat(1, 1, 1, 1).view(2, 1, 3, 1, 2))),
    "embedding_bag": (lambda w, i: F.embedding_bag(i[None], w, mode="sum"), (TABLES, I)),
    "bilinear": (lambda x, w: F.bilinear(x, x, w), (X, torch.arange(64.0).view(2, 2, 4, 4).cos())),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGES,)),
    "lstm cell": (lambda x: torch.lstm_cell(x, (M[0], M[1]), torch.ones(12, 4), torch.ones(12, 3))[0], (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_rules_agree_with_the_samples(name, monkeypatch):
    function, operands = BOTH[name]
    expected = torch.stack([function(*[t[i] for t in operands]) for i in range(2)])
    seen = _watched(monkeypatch)
    torch.testing.assert_close(vmap(function)(*operands), expected, rtol=1e-4, atol=1e-5)
    turned = [t.movedim(0, -1) for t in operands]
    torch.testing.assert_close(
        vmap(function, in_dims=-1, out_dims=-1)(*turned).movedim(-1, 0), expected, rtol=1e-4, atol=1e-5
    )
    assert not seen
    floating = [i for i, t in enumerate(operands) if t.dtype.is_floating_point]
    if not expected.dtype.is_floating_point or name in ("ctc", "qr") or not floating:
        return

    def loss(*args):
        return (function(*args) ** 2).sum()

    slopes = vmap(grad(loss, argnums=tuple(floating)))(*operands)
    for i in range(2):
        alone = grad(loss, argnums=tuple(floating))(*[t[i] for t in operands])
        for found, wanted in zip(slopes, alone):
            torch.testing.assert_close(found[i], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "f",
    [
        torch.linalg.svdvals, torch.linalg.eigvalsh, lambda x: torch.linalg.eigvals(x @ x.mT).real, lambda x: torch.linalg.matrix_norm(x, "nuc"),
        lambda x: torch.linalg.lstsq(x, x[:, :1]).solution, lambda x: F.scaled_dot_product_attention(x, x, x, x), torch.linalg.det, torch.linalg.inv,
        lambda x: torch.quantile(x, 0.3, dim=0), lambda x: torch.gru_cell(x, x, torch.ones(9, 3), torch.ones(9, 3)), lambda x: x.var(0),
    ],
)  # fmt: skip
def test_tangents_of_samples(f):
    """What asks whether it is differentiated is told so of a batch, too."""
    t = torch.arange(18.0).view(2, 3, 3).sin()
    made = vmap(lambda x, t: jvp(f, (x,), (t,))[1])(M, t)
    for i in range(2):
        alone = jvp(f, (M[i],), (t[i],))[1]
        torch.testing.assert_close(made[i], alone, rtol=1e-3, atol=1e-4)
        assert alone.abs().max() > 0


def test_windows_that_differ_between_planes():
    x = torch.arange(2 * 2 * 3 * 36.0).view(2, 2, 3, 6, 6).sin()
    samples = torch.linspace(0.1, 0.9, 12).view(2, 3, 2)
    f = lambda x: F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=samples)
    assert vmap(f)(x).tolist() == torch.stack([f(x[0]), f(x[1])]).tolist()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_class_losses_on_batches(reduction):
    weight = torch.tensor([0.5, 1.0, 2.0])
    probable = M.softmax(-1)
    for f, target in [
        (lambda x, y: F.cross_entropy(x, y, ignore_index=1, reduction=reduction), I),
        (lambda x, y: F.cross_entropy(x, y, weight, label_smoothing=0.1, reduction=reduction), I),
        (lambda x, y: F.nll_loss(x, y, weight, ignore_index=2, reduction=reduction), I),
        (lambda x, y: F.cross_entropy(x, y, weight, reduction=reduction), probable),
    ]:
        made, slopes = vmap(f)(M, target), vmap(grad(lambda x, y: f(x, y).sum()))(M, target)
        curves = vmap(grad(lambda x, y: grad(lambda x: f(x, y).sum())(x).square().sum()))(M, target)
        for i in range(2):
            leaf = M[i].clone().requires_grad_()
            torch.testing.assert_close(made[i], f(M[i], target[i]))
            slope = torch.autograd.grad(f(leaf, target[i]).sum(), leaf, create_graph=True)[0]
            torch.testing.assert_close(slopes[i], slope.detach())
            if slope.requires_grad:
                torch.testing.assert_close(curves[i], torch.autograd.grad(slope.square().sum(), leaf)[0])


def test_gradients_by_what_samples_share():
    w, x = torch.arange(12.0).view(3, 4).sin(), X
    per_sample = vmap(grad(lambda w, x: F.linear(x, w).tanh().sum()), in_dims=(None, 0))(w, x)
    for i in range(2):
        torch.testing.assert_close(per_sample[i], grad(lambda w: F.linear(x[i], w).tanh().sum())(w))


def test_what_samples_share_can_be_written_to_by_each():
    def f(w, x):
        w.mul_(x.sum())
        return w.sum()

    w = torch.ones(3)
    assert vmap(grad(lambda w, x: f(w * 1, x)), in_dims=(None, 0))(w, torch.tensor([[1.0], [4.0]])).tolist() == [
        [1] * 3,
        [4] * 3,
    ]
    assert vmap(grad(f), in_dims=(None, 0))(w, torch.tensor([[1.0], [4.0]])).tolist() == [[1] * 3, [4] * 3]
    assert w.tolist() == [1, 1, 1]

    def part(w, x):
        w[0].mul_(x.sum())
        return w.sum()

    with pytest.raises(RuntimeError, match="clone"):
        vmap(grad(part), in_dims=(None, 0))(w, torch.tensor([[1.0], [4.0]]))


def test_samples_are_resized_each_in_its_own_memory():
    x = torch.tensor([[1.0, 0.0, 2.0, 3.0], [0.0, 4.0, 5.0, 0.0]])
    assert vmap(lambda a: a.clone().resize_(3))(x).tolist() == [[1, 0, 2], [0, 4, 5]]
    assert vmap(lambda a: a.clone().resize_(2, 2))(x).tolist() == [[[1, 0], [2, 3]], [[0, 4], [5, 0]]]
    assert vmap(lambda a: a.clone().resize_(6)[:4])(x).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="clone"):
        vmap(lambda a: (a.view(-1), a.resize_(6))[1])(x.clone())


def test_functions_that_read_elements_are_right_for_each_sample():
    x = torch.tensor([[1.0, 0.0, 2.0, 3.0], [0.0, 4.0, 5.0, 0.0]])
    assert vmap(lambda a: torch.nonzero_static(a, size=3))(x).tolist() == [[[0], [2], [3]], [[1], [2], [-1]]]
    counts, edges = vmap(lambda a: torch.histogram(a, 4))(x)
    assert counts.tolist() == [[1, 1, 1, 1], [2, 0, 0, 2]] and edges.tolist() == [
        [0, 0.75, 1.5, 2.25, 3],
        [0, 1.25, 2.5, 3.75, 5],
    ]
    assert vmap(lambda a, b: torch.linspace(a, b, 3))(x[:, 0], x[:, 1]).tolist() == [[1, 0.5, 0], [0, 2, 4]]
    with pytest.raises(RuntimeError, match="dynamic shape"):
        vmap(torch.bincount)(x.long())


def test_checks_look_at_all_samples():
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        vmap(F.cross_entropy)(M, torch.tensor([[0, 1, 2], [0, 7, 1]]))
    with pytest.raises(torch.linalg.LinAlgError):
        vmap(torch.linalg.inv)(torch.stack([torch.eye(2), torch.zeros(2, 2)]))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        vmap(F.binary_cross_entropy)(torch.tensor([[0.5], [1.5]]), torch.ones(2, 1))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_samples_that_are_single_rows_or_skipped(reduction):
    def loss(x, target):
        return F.cross_entropy(x, target, reduction=reduction)

    x = torch.arange(9.0).view(3, 3).sin()
    target = torch.tensor([0, -100, 2])
    made = vmap(loss)(x, target)
    expected = F.cross_entropy(x, target, reduction="none")
    expected[1] = float("nan") if reduction == "mean" else 0.0
    torch.testing.assert_close(made, expected, equal_nan=True)
    slopes = x.softmax(1) - F.one_hot(target.clamp(0), 3)
    slopes[1] = 0
    torch.testing.assert_close(vmap(grad(loss))(x, target), slopes)
    torch.testing.assert_close(
        vmap(grad(lambda x, t: loss(x, t).sum()))(x.unsqueeze(1), target.unsqueeze(1)), slopes.unsqueeze(1)
    )


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None), (1, 0)])
def test_fill_values_of_each_sample(dims):
    x, values = torch.arange(9.0).reshape(3, 3), torch.tensor([1.5, 2.5, 3.5])
    calls = [
        lambda x, v: torch.full_like(x, v), lambda x, v: torch.full_like(x, v, dtype=torch.int64), lambda x, v: x.new_full((2,), v),
        lambda x, v: x.new_full(size=(2,), fill_value=v), lambda x, v: torch.full((2,), v),
    ]  # fmt: skip
    v = values if dims[1] == 0 else values[1]
    for f in calls:
        samples = [f(x if dims[0] is None else x.select(dims[0], i), v if dims[1] is None else v[i]) for i in range(3)]
        assert torch.equal(torch.func.vmap(f, dims)(x, v), torch.stack(samples))
    nested = torch.func.vmap(torch.func.vmap(lambda x, v: torch.full_like(x, v), (0, None)))(x, values)
    assert nested.tolist() == [[value] * 3 for value in values.tolist()]
