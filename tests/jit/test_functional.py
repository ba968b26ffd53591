"""Functions of `nn.functional` in scripts: written to files, and the same when they come back."""

import io
from typing import List, Optional  # noqa: UP035  (what programs write)

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import jit
from flambeau._library.schema_texts import schemas_of
from flambeau.jit._functional_calls import functional_text
from flambeau.jit._lowering import name_of, signature_of


def _again(scripted):
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    return jit.load(file)


def images(x: torch.Tensor, n: int, sizes: List[int], y: torch.Tensor):  # noqa: UP006
    theta = torch.ones(1, 2, 3)
    grid = F.affine_grid(theta, [1, 2, 3, 3], align_corners=False)
    columns = F.unfold(x, 2, stride=2)
    return [
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=n, mode="bilinear", align_corners=True),
        F.interpolate(x, sizes, mode="bicubic"), F.interpolate(x, y.shape[2:], mode="nearest-exact"),
        F.interpolate(x, [3, 3], mode="area"), F.interpolate(x, (3, 3), mode="bilinear", antialias=True), grid,
        F.grid_sample(x, grid, padding_mode="border", align_corners=True), columns, F.fold(columns, (6, 6), (2, 2), stride=2),
        F.pixel_shuffle(x.repeat(1, 2, 1, 1), 2), F.pad(x, (1, n, 0, 1), "replicate"), F.lp_pool2d(x.abs(), 3.0, 2),
        F.local_response_norm(x, 2), F.dropout2d(x, 0.5, False), F.instance_norm(x), F.max_pool2d(x, n, None, 1),
    ]  # fmt: skip


def pairs(x: torch.Tensor, samples: torch.Tensor):
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    return [
        pooled, F.max_unpool2d(pooled, places, 2), F.adaptive_max_pool2d(x, 2),
        F.adaptive_max_pool2d(x, 2, return_indices=True)[1],
        F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5), _random_samples=samples),
    ]  # fmt: skip


def losses(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, how: str):
    each = y.abs() + 0.1
    return [
        F.mse_loss(x, y, weight=each), F.mse_loss(x, y, size_average=False), F.l1_loss(x, y, weight=each, reduction=how),
        F.huber_loss(x, y, weight=each), F.kl_div(x, each, reduction="batchmean"), F.cross_entropy(x, t, reduction=how),
        F.poisson_nll_loss(x, each, full=True), F.gaussian_nll_loss(x, y, each, full=True),
        F.gaussian_nll_loss(x, y, each[:, 0]), F.multilabel_soft_margin_loss(x, y.sigmoid()),
        F.triplet_margin_with_distance_loss(x, y, each, swap=True), F.triplet_margin_loss(x, y, each, p=1),
    ]  # fmt: skip


def others(x: torch.Tensor, numbers: torch.Tensor, mask: Optional[torch.Tensor]):  # noqa: UP045
    table = torch.ones(4, 3) * x[0, 0]
    return [
        F.softsign(x), F.tanhshrink(x), F.softmin(x, 1), F.softmax(x, -1, dtype=torch.float64), F.normalize(x, p=1.0),
        F.normalize(x) if mask is None else x * mask, F.embedding_bag(numbers, table), F.embedding(numbers, table, -1),
        F.gumbel_softmax(x, hard=True).sum(-1), F.relu(input=x), torch.stack([F.elu(x) * i for i in range(2)]),
    ]  # fmt: skip


def in_place(x: torch.Tensor):
    a, b, c, d = x.clone(), x.clone(), x.clone(), x.clone()
    F.relu(a, inplace=True)
    F.celu(b, 1.2, True)
    F.relu6(c, True)
    F.leaky_relu(d, 0.2, inplace=True)
    return [a, b, c, d]


def attention(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, more: torch.Tensor, hidden: torch.Tensor):
    mask = torch.ones(3, 3).triu(1) > 0
    out, weights = F.multi_head_attention_forward(
        x, x, x, 4, 2, w, b, more, more, True, 0.0, w[:4], b[:4], key_padding_mask=hidden, attn_mask=mask
    )
    fused, nothing = F.multi_head_attention_forward(
        x[:, 0], x[:, 0], x[:, 0], 4, 2, None, None, None, None, False, 0.0, w[:4], None, need_weights=False,
        use_separate_proj_weight=True, q_proj_weight=w[:4], k_proj_weight=w[4:8], v_proj_weight=w[8:],
    )  # fmt: skip
    return [out, weights, fused], nothing is None


_T = [torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 1, 3]), "sum"]
_HIDDEN = torch.tensor([[False, False, True], [False, True, True]])
_CASES = [
    (images, [torch.randn(1, 2, 6, 6), 3, [5, 7], torch.ones(1, 1, 4, 8)]),
    (pairs, [torch.randn(1, 2, 6, 6), torch.rand(1, 2, 2)]),
    (losses, _T),
    (others, [_T[0], torch.tensor([[0, 3]]), None]),
    (in_place, _T[:1]),
    (attention, [torch.randn(3, 2, 4), torch.randn(12, 4), torch.randn(12), torch.randn(1, 1, 4), _HIDDEN]),
]


@pytest.mark.filterwarnings("ignore:size_average")
@pytest.mark.parametrize("function, args", _CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_files_of_scripts_do_what_the_functions_do(function, args):
    expected, found = function(*args), _again(jit.script(function))(*args)
    if isinstance(expected, tuple):
        assert expected[1] == found[1]
        expected, found = expected[0], found[0]
    for a, b in zip(expected, found, strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(b, a)


def test_every_function_is_an_operator_or_has_a_text():
    # PyTorch does not script them; names of insides are there once they were asked for
    others = "grouped_mm scaled_mm scaled_grouped_mm linear_cross_entropy install has_torch_function".split()  # noqa: SIM905
    left = []
    for name, function in vars(F).items():
        if name[0] != "_" and callable(function) and not isinstance(function, type) and name in F.__all__:
            operator = name_of(function)
            if functional_text(operator) is None and not schemas_of(operator):
                left.append(name)
    assert set(left) <= set(others)


def test_what_is_not_known_when_a_script_is_written_is_refused():
    def chosen(x: torch.Tensor, both: bool):
        return F.max_pool2d(x, 2, return_indices=both)

    with pytest.raises(RuntimeError, match="return_indices must be True or False itself"):
        _again(jit.script(chosen))


def texts(a: float, c: complex, names: List[str], x: torch.Tensor):  # noqa: UP006
    values = {"k": (a, 1)}
    return [f"{a} {[a, 0.1]} {values} {c}", str(names), "{}".format((a,)), "%s %d" % (a, 3), f"{x.shape} {x.dtype}"]  # noqa: UP031, UP032


def test_programs_write_values_as_PyTorch_does(capsys):
    found = _again(jit.script(texts))(2.0, 1 - 2j, ["it's"], torch.ones(2, 3))
    assert found == ["2. [2., 0.10000000000000001] {k: (2., 1)} 1.-2.j", "[it's]", "(2.,)", "2. 3", "[2, 3] 6"]
    assert [_again(jit.script(texts))(v, 0j, [""], torch.ones(1))[3] for v in (1e18, 1e20, float("nan"), 2.5)] == [
        "1000000000000000000. 3", "1e+20 3", "nan 3", "2.5 3"
    ]  # fmt: skip


def test_attention_takes_what_the_function_takes():
    text, function = functional_text("multi_head_attention_forward"), F.multi_head_attention_forward
    assert str(signature_of(text)) == str(signature_of(function))
