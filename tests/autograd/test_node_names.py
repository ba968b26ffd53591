"""The names that nodes show: PyTorch's, also where an operation is made of several here."""

import pytest

import flambeau as torch

F = torch.nn.functional


def leaf(*shape):
    return torch.ones(*shape).requires_grad_()


CASES = {
    "CdistBackward0": lambda: torch.cdist(leaf(2, 3), leaf(4, 3)),
    "DiagEmbedBackward0": lambda: torch.diag_embed(leaf(3)),
    "TraceBackward0": lambda: torch.trace(leaf(2, 2)),
    "RepeatBackward0": lambda: leaf(2).repeat(3),
    "PixelShuffleBackward0": lambda: F.pixel_shuffle(leaf(1, 4, 2, 2), 2),
    "MseLossBackward0": lambda: F.mse_loss(leaf(3), torch.zeros(3), reduction="sum"),
    "HuberLossBackward0": lambda: F.huber_loss(leaf(3), torch.zeros(3)),
    "BinaryCrossEntropyBackward0": lambda: F.binary_cross_entropy(leaf(3), torch.ones(3)),
    "UpsampleBilinear2DBackward0": lambda: F.interpolate(leaf(1, 1, 2, 2), size=(3, 3), mode="bilinear"),
    "UpsampleNearest2DBackward0": lambda: F.interpolate(leaf(1, 1, 2, 2), scale_factor=2),
    "ReflectionPad2DBackward0": lambda: F.pad(leaf(1, 1, 3, 3), (1, 1, 1, 1), "reflect"),
    "ConstantPadNdBackward0": lambda: F.pad(leaf(3), (1, 1)),
    "GridSampler2DBackward0": lambda: F.grid_sample(leaf(1, 1, 2, 2), torch.zeros(1, 2, 2, 2), align_corners=False),
    "CeluBackward0": lambda: F.celu(leaf(3)),
    "ClampBackward1": lambda: leaf(3).clamp(0, 2),
    "ClampBackward0": lambda: leaf(3).clamp(torch.zeros(3), torch.ones(3)),
    "TransposeBackward0_copy": lambda: torch.transpose_copy(leaf(2, 3), 0, 1),
    "PowBackward0": lambda: leaf(3) ** 0.5,
    "MedianBackward0": lambda: leaf(3).median(),
    "NanmedianBackward1": lambda: torch.nanmedian(leaf(2, 3), 1).values,
    "NllLossBackward0": lambda: F.nll_loss(leaf(2, 3), torch.tensor([0, 1]), reduction="none"),
    "NllLoss2DBackward0": lambda: F.nll_loss(leaf(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64)),
    "LerpBackward1": lambda: torch.lerp(leaf(3), leaf(3), torch.ones(3)),
    "LerpBackward0": lambda: torch.lerp(leaf(3), leaf(3), 0.5),
    "MulBackward0": lambda: 2 / leaf(3),
}


@pytest.mark.parametrize("name", CASES)
def test_name(name):
    made = CASES[name]()
    assert made.grad_fn.name() == name
    assert type(made.grad_fn).__name__ == name
    assert f"grad_fn=<{name}>" in repr(made)
    made.sum().backward()


def test_an_input_that_comes_back_keeps_its_name():
    x = leaf(1, 1, 3, 3) * 2
    assert F.pad(x, (0, 0, 0, 0), "replicate").grad_fn is not None
    assert x.grad_fn.name() == "MulBackward0"


X, Y, Z, PICTURE = leaf(3, 3), leaf(3, 3), leaf(3, 3, 3), leaf(1, 3, 4, 4)
INDEX, MASK, NUMBER = torch.tensor([0, 2, 1]), torch.ones(3, 3) > 0, torch.tensor(2.0, requires_grad=True)
FORMS = {  # PyTorch numbers the forms of an operation
    "SumBackward0": [lambda: X.sum()],
    "SumBackward1": [lambda: X.sum(0), lambda: X.sum((0, 1)), lambda: X[0].sum(0), lambda: NUMBER.sum(0)],
    "MeanBackward0": [lambda: X.mean()],
    "MeanBackward1": [lambda: X.mean((0, 1)), lambda: X[0].mean(-1), lambda: F.adaptive_avg_pool2d(PICTURE, 1)],
    "ProdBackward1": [lambda: X[0].prod(0)],
    "RemainderBackward0": [lambda: X % 2],
    "RemainderBackward1": [lambda: X % Y],
    "FmodBackward0": [lambda: X.fmod(2)],
    "FmodBackward1": [lambda: X.fmod(Y)],
    "RsubBackward1": [lambda: 1 - X],
    "RsubBackward0": [lambda: torch.rsub(X, Y), lambda: torch.rsub(X, Y, alpha=2)],
    "DivBackward2": [lambda: torch.div(X, 2, rounding_mode="floor"), lambda: X.div(Y, rounding_mode="trunc")],
    "CopysignBackward1": [lambda: X.copysign(1.0)],
    "XlogyBackward1": [lambda: torch.xlogy(2, X)],
    "XlogyBackward2": [lambda: torch.xlogy(X, 2)],
    "ClampMinBackward0": [lambda: X.clamp_min(0)],
    "ClampMinBackward1": [lambda: X.clamp_min(Y)],
    "ClampBackward0": [lambda: X.clamp(min=Y)],
    "MaskedFillBackward0": [lambda: X.masked_fill(MASK, 0.0)],
    "MaskedFillBackward1": [lambda: X.masked_fill(MASK, NUMBER)],
    "IndexFillBackward1": [lambda: X.index_fill(0, INDEX, NUMBER)],
    "ScatterBackward1": [lambda: X.scatter(0, INDEX[None], 1.0)],
    "ScatterBackward0": [lambda: X.scatter(0, INDEX[None], Y)],
    "IndexReduceBackward0": [lambda: X.index_reduce(0, INDEX, Y, "mean")],
    "SortBackward1": [lambda: X.sort(stable=True).values],
    "FillBackward0": [lambda: torch.fill(X, 1.0)],
    "NormalBackward1": [lambda: torch.normal(X, 1.0)],
    "NormalBackward3": [lambda: torch.normal(X, Y)],
    "ToCopyBackward0": [lambda: X.to(torch.float32, copy=True), lambda: X.double()],
    "ConjBackward0": [lambda: torch.complex(X, Y).conj(), lambda: torch.fft.ifft(X)],
    "FftC2CBackward0": [lambda: torch.fft.fft2(X), lambda: torch.fft.ifftn(X)],
}
LAYERS = {
    "MulBackward0": [lambda: F.dropout(X), lambda: F.rms_norm(X, (3,)), lambda: torch.nn.LSTMCell(3, 4)(X)[0]],
    "AddBackward0": [lambda: torch.nn.GRUCell(3, 4)(X)],
    "TanhBackward0": [lambda: torch.nn.RNNCell(3, 4)(X)],
    "StackBackward0": [lambda: torch.nn.GRU(3, 4)(Z)[0], lambda: torch.nn.RNN(3, 4, 2)(Z)[1]],
    "MkldnnRnnLayerBackward0": [lambda: torch.nn.LSTM(3, 4)(Z)[0]],
    "CatBackward0": [lambda: torch.nn.LSTM(3, 4, bidirectional=True)(Z)[0]],
    "SqueezeBackward1": [lambda: F.max_pool1d(Z, 2), lambda: F.avg_pool1d(Z, 2), lambda: F.adaptive_max_pool1d(Z, 2)],
    "AdaptiveAvgPool2DBackward0": [lambda: F.adaptive_avg_pool2d(PICTURE, 2)],
    "AdaptiveMaxPool2DBackward0": [lambda: F.adaptive_max_pool2d(PICTURE, 2)],
    "FractionalMaxPool2DBackward0": [lambda: F.fractional_max_pool2d(PICTURE, 2, output_size=2)],
    "ConvolutionBackward0": [lambda: F.conv2d(PICTURE, torch.ones(2, 3, 2, 2), padding="same")],
    "AffineGridGeneratorBackward0": [lambda: F.affine_grid(leaf(1, 2, 3), (1, 1, 2, 2), align_corners=False)],
    "NllLossBackward0": [lambda: F.cross_entropy(X, INDEX), lambda: F.cross_entropy(X, INDEX, reduction="sum")],
    "NllLoss2DBackward0": [lambda: F.cross_entropy(PICTURE, torch.zeros(1, 4, 4, dtype=torch.int64))],
    "DivBackward1": [lambda: F.cross_entropy(X, torch.ones(3, 3)), lambda: torch.trapezoid(X, Y)],
    "ViewBackward0": [
        lambda: F.instance_norm(PICTURE), lambda: torch.einsum("ij,jk->ik", X, Y), lambda: X.repeat_interleave(2),
    ],
    "UnsafeViewBackward0": [
        lambda: Z @ Z, lambda: Z @ X, lambda: torch.kron(X, Y), lambda: F.scaled_dot_product_attention(Z, Z, Z),
    ],
    "SqueezeBackward4": [lambda: X[0] @ Y, lambda: F.linear(X[0], Y), lambda: X.quantile(0.5)],
    "BmmBackward0": [lambda: torch.bmm(Z, Z)],
    "ScaledDotProductFlashAttentionForCpuBackward0": [
        lambda: F.scaled_dot_product_attention(Z[None], Z[None], Z[None])
    ],
    "DiagEmbedBackward0": [lambda: X[0].diag()],
    "DiagonalBackward0_copy": [lambda: X.diag()],
    "RollBackward0": [lambda: X.roll(1)],
    "LinalgSolveExBackward0": [lambda: torch.linalg.solve(X + torch.eye(3), Y[0])],
    "LinalgLstsqBackward0": [lambda: torch.linalg.lstsq(X + torch.eye(3), Y).solution],
    "LinalgLuBackward0": [lambda: torch.linalg.lu(X + torch.eye(3)).U],
    "LinalgInvExBackward0": [lambda: torch.linalg.matrix_power(X + torch.eye(3), -1)],
    "LinalgHouseholderProductBackward0": [lambda: torch.linalg.householder_product(X, Y[0])],
}  # fmt: skip
IN_PLACE = {
    "AddBackward0": lambda x: x.add_(1),
    "FmodBackward1": lambda x: x.fmod_(Y),
    "ClampMaxBackward1": lambda x: x.clamp_max_(Y),
    "LeakyReluBackward1": lambda x: F.leaky_relu(x, inplace=True),
    "EluBackward1": lambda x: F.elu(x, inplace=True),
    "CeluBackward1": lambda x: F.celu(x, inplace=True),
    "ThresholdBackward1": lambda x: F.threshold(x, 0, 1, inplace=True),
    "RreluWithNoiseBackward1": lambda x: F.rrelu(x, inplace=True),
    "AtanhBackward1": lambda x: x.atanh_(),
    "PolygammaBackward1": lambda x: x.polygamma_(1),
    "FillBackward2": lambda x: x.fill_(1.0),
    "FillBackward3": lambda x: x.fill_(NUMBER),
    "UnsqueezeBackward1": lambda x: x.unsqueeze_(0),
    "SqueezeBackward4": lambda x: x.squeeze_(0),
    "TransposeBackward1": lambda x: x.transpose_(0, 1),
    "torch::autograd::CopyBackwards": lambda x: x.copy_(Y),
    "torch::autograd::CopySlices": lambda x: x.__setitem__(0, 1.0),
    "IndexPutBackward0": lambda x: x.__setitem__(MASK, 1.0),
}


@pytest.mark.filterwarnings("ignore:.*padding='same' is an odd width")
@pytest.mark.parametrize("name", [*FORMS, *LAYERS])
def test_forms(name):
    for function in FORMS.get(name, []) + LAYERS.get(name, []):
        assert function().grad_fn.name() == name


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms(name):
    x = X * 0.25
    IN_PLACE[name](x)
    assert x.grad_fn.name() == name
    shown = name.rpartition(":")[2]
    assert type(x.grad_fn).__name__ == shown and f"grad_fn=<{shown}>" in repr(x)


def test_a_view_that_is_written_to_shows_the_view():
    whole = X * 1
    part = whole[0]
    F.celu(part, inplace=True)
    assert part.grad_fn.name() in ("SelectBackward0", "AsStridedBackward0")
    assert whole.grad_fn.name() == "torch::autograd::CopySlices"


def test_an_operation_without_derivative():
    made = torch.linalg.ldl_factor(X + torch.eye(3)).LD
    assert made.grad_fn.name() == "torch::autograd::NotImplemented" and "grad_fn=<NotImplemented>" in repr(made)
    with pytest.raises(RuntimeError, match="not implemented"):
        made.sum().backward()


def test_keys_that_do_nothing_are_aliases():
    x = torch.ones(2, 3, requires_grad=True)
    names = {
        "AliasBackward0": [..., (...,), (slice(None), slice(None)), (), (slice(0, 2), slice(0, 3))],
        "SliceBackward0": [slice(None), slice(0, 2), (slice(0, 1), ...), (slice(None), slice(0, 1))],
        "SelectBackward0": [(0, ...), (0, slice(None)), (..., 0)],
        "UnsqueezeBackward0": [(None, ...), (..., None), (slice(None), None)],
    }
    for name, keys in names.items():
        assert [x[key].grad_fn.name() for key in keys] == [name] * len(keys)


def test_the_derivative_of_a_threshold_has_a_name_of_its_own():
    for function in (torch.relu, lambda x: torch.nn.functional.threshold(x, 0.0, 0.0)):
        x = torch.tensor([1.0, -1.0], requires_grad=True)
        (g,) = torch.autograd.grad((function(x) ** 2).sum(), x, create_graph=True)
        assert g.grad_fn.name() == "ThresholdBackwardBackward0"


@pytest.mark.parametrize("key", [slice(None, None, 2), (Ellipsis, slice(1, None)), (0, slice(1, None))])
def test_parts_have_a_name_after_a_backward_pass(key):
    part = (torch.ones(4, 3, requires_grad=True) * 1)[key]
    part.sum().backward()
    assert part.grad_fn.name() == "SliceBackward0"
