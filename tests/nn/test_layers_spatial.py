"""Convolution, padding, pooling and other layers of signals, pictures and volumes."""

import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn


def close(actual, expected, rtol=4e-7):
    np.testing.assert_allclose(actual.detach().flatten().numpy(), expected, rtol=rtol, atol=1e-6)


def line(*shape):
    return torch.arange(float(np.prod(shape))).reshape(shape)


# -- convolutions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, shape, weight, bias",
    [
        (lambda: nn.Conv1d(2, 4, 3), (4, 2, 3), [-0.00305648171, 0.219002187, -0.33600679], [0.369659126, -0.378719866]),
        (lambda: nn.Conv2d(2, 4, 3, groups=2), (4, 1, 3, 3), [-0.0024956069, 0.17881453, -0.274348378], [0.148739457, 0.161557525]),
        (lambda: nn.Conv3d(1, 2, 2), (2, 1, 2, 2, 2), [-0.00264699059, 0.189661443, -0.290990382], [0.139772102, 0.212140083]),
        (lambda: nn.ConvTranspose1d(2, 4, 3), (2, 4, 3), [-0.00216125883, 0.154857919, -0.237592667], [0.261388451, -0.267795354]),
        (lambda: nn.ConvTranspose2d(2, 4, 3, groups=2), (2, 2, 3, 3), [-0.00176466047, 0.126440972, -0.193993598], [0.105174676, 0.114238419]),
        (lambda: nn.ConvTranspose3d(1, 2, 2), (1, 2, 2, 2, 2), [-0.00187170506, 0.134110898, -0.205761284], [0.0988337994, 0.150005698]),
    ],
)  # fmt: skip
def test_initial_values(make, shape, weight, bias):
    torch.manual_seed(0)
    layer = make()
    assert layer.weight.shape == shape and list(layer.state_dict()) == ["weight", "bias"]
    close(layer.weight.flatten()[:3], weight)
    close(layer.bias[-2:], bias)


@pytest.mark.parametrize(
    "mode, expected",
    [
        ("zeros", [-0.900079966, -1.06554937, -1.23534143, 0.495607883]),
        ("reflect", [-0.904402494, -1.06554937, -1.23534143, -0.454762787]),
        ("replicate", [-0.900079966, -1.06554937, -1.23534143, -0.929948092]),
        ("circular", [-0.913047493, -1.06554937, -1.23534143, 0.495607883]),
    ],
)
def test_padding_modes(mode, expected):
    torch.manual_seed(0)
    close(nn.Conv1d(1, 1, 3, padding=1, padding_mode=mode)(line(1, 1, 4)), expected, 1e-5)


def test_padding_by_name():
    torch.manual_seed(0)
    layer = nn.Conv1d(1, 1, 4, padding="same")
    with pytest.warns(UserWarning, match="same"):
        out = layer(line(1, 1, 4))
    close(out, [-1.34003878, -1.85130906, -0.894444704, 0.604601383], 1e-5)
    layer = nn.Conv2d(2, 4, (2, 3), padding="same", dilation=(3, 2), padding_mode="circular")  # one more at the bottom
    assert layer._reversed_padding_repeated_twice == [2, 2, 1, 2]
    assert layer(torch.ones(2, 6, 5)).shape == (4, 6, 5)
    assert nn.Conv2d(1, 1, 3, padding="valid")._reversed_padding_repeated_twice == [0, 0, 0, 0]
    assert nn.Conv2d(1, 1, 3, padding=(1, 2))._reversed_padding_repeated_twice == (2, 2, 1, 1)


def test_output_size():
    torch.manual_seed(0)
    layer = nn.ConvTranspose1d(1, 1, 3, stride=2)
    expected = [
        -0.424894601,
        -0.424894601,
        -0.42921713,
        -0.115178764,
        -0.908724964,
        0.194537073,
        -1.37526524,
        -0.424894601,
    ]
    close(layer(line(1, 1, 3), output_size=(8,)), expected, 1e-5)
    assert layer(line(1, 1, 3)).shape == layer(line(1, 1, 3), (1, 1, 7)).shape == (1, 1, 7)
    for size in ((6,), (9,), (1, 8), ()):
        with pytest.raises(ValueError, match="output_size"):
            layer(line(1, 1, 3), output_size=size)


def test_small_network():
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    model = nn.Sequential(*layers)
    out = model(line(1, 1, 4, 4) / 8)
    close(out, [-0.288959503, 0.569558799], 1e-5)
    out.sum().backward()
    close(model[0].weight.grad, [
        0.373260438, 0.431933284, 0.297076702, 0.607951701, 0.666624546, 0.531767964, 0.842642963, 0.901315808, 0.766459227,
        -0.596791863, -0.721475899, -0.846159935, -0.684033632, -0.808717668, -0.933401644, -1.18276966, -1.30745375, -1.43213773,
    ], 1e-5)  # fmt: skip
    assert list(model.state_dict()) == ["0.weight", "0.bias", "3.weight", "3.bias"]


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: nn.Conv2d(2, 4, 3, stride=2, padding="same"), ValueError),
        (lambda: nn.Conv2d(2, 4, 3, padding="wide"), ValueError),
        (lambda: nn.Conv2d(2, 4, 3, padding_mode="mirror"), ValueError),
        (lambda: nn.Conv2d(2, 4, 3, groups=0), ValueError),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError),
        (lambda: nn.Conv2d(2, 4, 3.5), TypeError),
        (lambda: nn.Conv2d(2, 4, -1), RuntimeError),
        (lambda: nn.ConvTranspose2d(2, 4, 3, padding_mode="reflect"), ValueError),
        (lambda: nn.LazyConv2d(4, 3)(torch.ones(3, 4)), RuntimeError),
        (lambda: nn.LazyConv2d(4, 3, groups=2)(torch.ones(1, 3, 4, 4)), ValueError),
        (lambda: nn.FractionalMaxPool2d(2), ValueError),
        (lambda: nn.FractionalMaxPool2d(2, 3, 0.5), ValueError),
        (lambda: nn.FractionalMaxPool3d(2, output_ratio=1.5), ValueError),
        (lambda: nn.CircularPad1d(1)(torch.ones(3)), ValueError),
        (lambda: nn.CircularPad3d(1)(torch.ones(3, 4, 4)), ValueError),
        (lambda: nn.Unflatten(1, 3), TypeError),
        (lambda: nn.Unflatten(1, (2, 3.0)), TypeError),
        (lambda: nn.Upsample(scale_factor=[2, 3]), TypeError),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_lazy(rank, transposed):
    name = f"Conv{'Transpose' if transposed else ''}{rank}d"
    layer = getattr(nn, "Lazy" + name)(4, 2, groups=2)
    assert layer.has_uninitialized_params() and layer.in_channels == 0
    torch.manual_seed(0)
    out = layer(torch.ones(1, 6, *[3] * rank))
    torch.manual_seed(0)
    twin = getattr(nn, name)(6, 4, 2, groups=2)
    assert type(layer) is type(twin) and repr(layer) == repr(twin)
    assert torch.equal(out, twin(torch.ones(1, 6, *[3] * rank)))


def test_classes():
    assert isinstance(nn.ConvTranspose2d(1, 1, 1), nn.modules.conv._ConvTransposeNd)
    assert isinstance(nn.Conv1d(1, 1, 1), nn.modules.conv._ConvNd)
    assert isinstance(nn.MaxPool2d(2), nn.modules.pooling._MaxPoolNd)
    with pytest.warns(FutureWarning):
        nn.modules.conv._ConvTransposeMixin(2, 4, (3,), (1,), (0,), (1,), True, (0,), 1, True, "zeros")
    assert nn.Conv2d(1, 2, 3, dtype=torch.float64, device="meta").weight.dtype == torch.float64
    assert nn.ConvTranspose2d(1, 1, 1).transposed and nn.Conv2d(1, 1, 1).output_padding == (0, 0)


def test_old_state():
    layer = nn.Conv1d(1, 1, 1)
    state = layer.__getstate__()
    del state["padding_mode"]
    layer.__setstate__(state)
    assert layer.padding_mode == "zeros"


# -- printing --------------------------------------------------------------------------------------------------------


PRINTED = """
Conv1d(2, 4, kernel_size=(3,), stride=(1,))
Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=same)
Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 2), dilation=(2, 2), groups=2, bias=False, padding_mode=circular)
ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(0, 1), dilation=(3, 3), output_padding=(1, 1), groups=2, bias=False)
LazyConv2d(0, 4, kernel_size=(3, 3), stride=(1, 1))
ConstantPad1d(padding=(2, 1), value=3.5)
ZeroPad3d((1, 1, 1, 1, 1, 1))
ReflectionPad2d((1, 2, 3, 4))
ReplicationPad1d((1, 1))
CircularPad2d((1, 1, 1, 1))
MaxPool2d(kernel_size=(2, 3), stride=1, padding=1, dilation=2, ceil_mode=True)
MaxUnpool2d(kernel_size=(2, 3), stride=(2, 3), padding=(1, 1))
AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))
AvgPool3d(kernel_size=2, stride=3, padding=1)
FractionalMaxPool2d()
LPPool2d(norm_type=2.5, kernel_size=(3, 1), stride=2, ceil_mode=True)
AdaptiveMaxPool2d(output_size=(3, None))
AdaptiveAvgPool3d(output_size=None)
Upsample(scale_factor=(2.0, 3.5), mode='nearest')
UpsamplingBilinear2d(size=(2, 3), mode='bilinear')
Flatten(start_dim=1, end_dim=-1)
Unflatten(dim=1, unflattened_size=(2, 3))
Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)
Unfold(kernel_size=2, dilation=1, padding=0, stride=1)
PixelShuffle(upscale_factor=2)
PixelUnshuffle(downscale_factor=2)
ChannelShuffle(groups=2)
PairwiseDistance()
CosineSimilarity()
""".strip().split("\n")
MADE = [
    lambda: nn.Conv1d(2, 4, 3),
    lambda: nn.Conv2d(2, 4, 3, padding="same"),
    lambda: nn.Conv2d(2, 4, 3, groups=2, bias=False, padding=(1, 2), dilation=2, padding_mode="circular"),
    lambda: nn.ConvTranspose2d(2, 4, 3, 2, (0, 1), 1, 2, False, 3),
    lambda: nn.LazyConv2d(4, 3),
    lambda: nn.ConstantPad1d((2, 1), 3.5),
    lambda: nn.ZeroPad3d(1),
    lambda: nn.ReflectionPad2d((1, 2, 3, 4)),
    lambda: nn.ReplicationPad1d(1),
    lambda: nn.CircularPad2d(1),
    lambda: nn.MaxPool2d((2, 3), stride=1, padding=1, dilation=2, return_indices=True, ceil_mode=True),
    lambda: nn.MaxUnpool2d((2, 3), padding=1),
    lambda: nn.AvgPool1d(2),
    lambda: nn.AvgPool3d(2, 3, 1, True, False, divisor_override=3),
    lambda: nn.FractionalMaxPool2d(2, 3),
    lambda: nn.LPPool2d(2.5, (3, 1), 2, True),
    lambda: nn.AdaptiveMaxPool2d((3, None), True),
    lambda: nn.AdaptiveAvgPool3d(None),
    lambda: nn.Upsample(scale_factor=(2, 3.5), recompute_scale_factor=True),
    lambda: nn.UpsamplingBilinear2d((2, 3)),
    lambda: nn.Flatten(),
    lambda: nn.Unflatten(1, (2, 3)),
    lambda: nn.Fold((4, 5), 2),
    lambda: nn.Unfold(2),
    lambda: nn.PixelShuffle(2),
    lambda: nn.PixelUnshuffle(2),
    lambda: nn.ChannelShuffle(2),
    lambda: nn.PairwiseDistance(),
    lambda: nn.CosineSimilarity(),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_printing_and_pickling(number):
    layer = MADE[number]()
    assert repr(layer) == PRINTED[number]
    if not PRINTED[number].startswith("Lazy"):
        assert repr(pickle.loads(pickle.dumps(layer))) == PRINTED[number]


# -- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer, expected",
    [
        (nn.ConstantPad1d((1, 0), 9.0), [[9, 0, 1, 2, 3]]),
        (nn.ZeroPad1d(1), [[0, 0, 1, 2, 3, 0]]),
        (nn.ReflectionPad1d((2, 0)), [[2, 1, 0, 1, 2, 3]]),
        (nn.ReplicationPad1d((1, 2)), [[0, 0, 1, 2, 3, 3, 3]]),
        (nn.CircularPad1d((1, 1)), [[3, 0, 1, 2, 3, 0]]),
        (nn.MaxPool1d(2), [[1, 3]]),
        (nn.MaxPool1d(3, 2, 1), [[1, 3]]),
        (nn.AvgPool1d(2), [[0.5, 2.5]]),
        (nn.AvgPool1d(3, 2, 1, count_include_pad=False), [[0.5, 2]]),
        (nn.LPPool1d(1, 2), [[1, 5]]),
        (nn.AdaptiveMaxPool1d(2), [[1, 3]]),
        (nn.AdaptiveAvgPool1d(1), [[1.5]]),
        (nn.Flatten(0), [0, 1, 2, 3]),
        (nn.Unflatten(1, (2, -1)), [[[0, 1], [2, 3]]]),
    ],
)
def test_results_1d(layer, expected):
    assert layer(line(1, 4)).tolist() == expected


def test_results_2d():
    x = line(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(x).flatten().tolist() == [5, 7, 13, 15]
    values, where = nn.MaxPool2d(2, return_indices=True)(x)
    unpooled = nn.MaxUnpool2d(2)(values, where)
    assert unpooled.shape == x.shape and unpooled.sum() == 40 and unpooled[0, 0, 1, 1] == 5
    assert nn.AvgPool2d(2, divisor_override=2)(x).flatten().tolist() == [5, 9, 21, 25]
    assert nn.AdaptiveAvgPool2d((None, 1))(x).flatten().tolist() == [1.5, 5.5, 9.5, 13.5]
    assert nn.UpsamplingNearest2d(scale_factor=2)(x)[0, 0, 1].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert torch.equal(nn.PixelShuffle(2)(nn.PixelUnshuffle(2)(x)), x)
    assert torch.equal(nn.Fold(4, 2, stride=2)(nn.Unfold(2, stride=2)(x)), x)
    assert nn.ChannelShuffle(2)(line(1, 4, 1)).flatten().tolist() == [0, 2, 1, 3]
    torch.manual_seed(0)
    assert nn.FractionalMaxPool2d(2, output_size=2)(line(1, 1, 5, 5)).flatten().tolist() == [6, 9, 21, 24]


def test_results_3d():
    x = line(1, 1, 2, 4, 4)
    assert nn.MaxPool3d(2)(x).flatten().tolist() == [21, 23, 29, 31]
    assert nn.AvgPool3d(2)(x).flatten().tolist() == [10.5, 12.5, 18.5, 20.5]
    assert nn.ZeroPad3d((1, 0, 0, 2, 3, 0))(x).shape == (1, 1, 5, 6, 5)
    assert nn.AdaptiveMaxPool3d((1, None, 2), return_indices=True)(x)[1].shape == (1, 1, 1, 4, 2)


def test_distances():
    a, b = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    close(nn.PairwiseDistance()(a, b), [5], 1e-5)
    assert nn.PairwiseDistance(1, keepdim=True)(a, b).shape == (1, 1)
    assert nn.CosineSimilarity()(a, b).tolist() == [0]
