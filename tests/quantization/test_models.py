"""Observers, and models from floats to integers."""

import copy

import pytest

import flambeau as torch
from flambeau.ao import quantization as Q
from flambeau.ao.nn import quantized as nnq

nn = torch.nn
X = torch.tensor([[-1.0, 2.0, 3.0], [0.5, -0.25, 7.0]])


def observed(observer):
    observer(X)
    observer(X * 0.5)
    scale, zero = observer.calculate_qparams()
    return [round(s, 4) for s in scale.tolist()], zero.tolist()


@pytest.mark.parametrize(
    "make, scale, zero",
    [
        (lambda: Q.MinMaxObserver(), [0.0314], [32]),
        (lambda: Q.MinMaxObserver(quant_min=0, quant_max=15), [0.5333], [2]),
        (lambda: Q.default_weight_observer(), [0.0549], [0]),
        (lambda: Q.MovingAverageMinMaxObserver(), [0.0312], [32]),
        (lambda: Q.PerChannelMinMaxObserver(ch_axis=0), [0.0157, 0.0284], [64, 9]),
        (lambda: Q.default_per_channel_weight_observer(ch_axis=1), [0.0078, 0.0157, 0.0549], [0, 0, 0]),
        (lambda: Q.MovingAveragePerChannelMinMaxObserver(), [0.0156, 0.0283], [64, 9]),
        (lambda: Q.HistogramObserver(), [0.0314], [32]),
    ],
)
def test_observers_choose_pytorchs_scales(make, scale, zero):
    assert observed(make()) == (scale, zero)


def test_an_observer_that_saw_nothing_warns():
    with pytest.warns(UserWarning, match="must run observer"):
        scale, zero = Q.MinMaxObserver().calculate_qparams()
    assert (scale.item(), zero.item()) == (1, 0)


def test_a_histogram_leaves_out_what_is_rare():
    observer = Q.HistogramObserver()
    observer(torch.cat([torch.randn(100_000), torch.tensor([1000.0])]))
    full = Q.MinMaxObserver()
    full(torch.tensor([-4.0, 1000.0]))
    assert observer.calculate_qparams()[0].item() <= full.calculate_qparams()[0].item()


def test_fake_quantize_modules():
    fake = Q.default_fake_quant()
    assert torch.allclose(fake(X), torch.tensor([[-1.0079, 2.0157, 3.0236], [0.5039, -0.2520, 6.9921]]), atol=1e-4)
    assert fake.quant_max == 127 and "activation_post_process.min_val" in fake.state_dict()
    fake.apply(Q.disable_observer)
    scale = fake.scale.clone()
    fake(X * 9)
    assert torch.equal(fake.scale, scale)
    fake.apply(Q.disable_fake_quant)
    assert fake(X) is X
    fused = Q.default_fused_act_fake_quant()
    assert torch.allclose(fused(X), torch.tensor([[-1.0039, 2.0078, 3.0118], [0.5020, -0.2510, 6.9961]]), atol=1e-4)
    other = Q.default_per_channel_weight_fake_quant()
    other(X)
    again = Q.default_per_channel_weight_fake_quant()
    again.load_state_dict(other.state_dict())
    assert torch.equal(again.scale, other.scale)


def test_dynamic_quantization():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 5))
    made = Q.quantize_dynamic(model)
    x = torch.randn(4, 20)
    assert isinstance(made[0], nnq.dynamic.Linear) and isinstance(model[0], nn.Linear)
    assert made[0].weight().dtype is torch.qint8 and 0 < (made(x) - model(x)).abs().max() < 0.05
    again = Q.quantize_dynamic(nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 5)))
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(x), made(x)) and torch.equal(copy.deepcopy(made)(x), made(x))
    assert type(Q.quantize_dynamic(model, {"0"})[2]) is nn.Linear
    half = Q.quantize_dynamic(model, dtype=torch.float16)
    assert half[0].weight().dtype is torch.float16 and (half(x) - model(x)).abs().max() < 0.01


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU()
        self.conv2, self.pool, self.fc = nn.Conv2d(6, 6, 3, padding=1), nn.MaxPool2d(2), nn.Linear(6, 4)
        self.sums = nnq.FloatFunctional()

    def forward(self, x):
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.pool(self.sums.add(x, self.conv2(x)))
        x = torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1)
        return self.dequant(self.fc(x))


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.randn(8, 3, 12, 12)


@pytest.mark.parametrize("fused", [False, True])
def test_static_quantization(images, fused):
    model = Net().eval()
    expected = model(images)
    if fused:
        model = Q.fuse_modules(model, ["conv", "bn", "relu"])
        assert torch.allclose(model(images), expected, atol=1e-5)
    model.qconfig = Q.default_per_channel_qconfig
    prepared = Q.prepare(model)
    prepared(images)
    made = Q.convert(prepared)
    assert not any(isinstance(m, (Q.ObserverBase, nn.Linear, nn.Conv2d)) for m in made.modules())
    assert (made(images) - expected).abs().max() < 0.05
    assert made.conv.weight().qscheme().name == "per_channel_affine"
    copied = copy.deepcopy(made)
    copied.fc.scale = 9.0
    copied.load_state_dict(made.state_dict())
    assert torch.equal(copied(images), made(images))


@pytest.mark.slow
def test_quantization_aware_training(images):
    model = Net().train()
    model.qconfig = Q.get_default_qat_qconfig("x86")
    model = Q.prepare_qat(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        loss = model(images).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    made = Q.convert(model.eval())
    assert (made(images) - model(images)).abs().max() < 0.1


def test_modules_without_a_qconfig_stay():
    model = nn.Sequential(nn.Linear(2, 2)).eval()
    assert type(Q.convert(Q.prepare(model))[0]) is nn.Linear
    with pytest.raises(AssertionError):
        Q.prepare_qat(model)
    with pytest.raises(AssertionError, match="did not find fuser method"):
        Q.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()).eval(), ["0", "1"])


def test_older_place():
    assert torch.quantization.quantize_dynamic is Q.quantize_dynamic and torch.ao.quantization is Q


def test_dynamic_linear_multiplies_codes():
    """As PyTorch: the sum of products of codes is exact, and a write into the weight is seen."""
    layer = torch.ao.nn.quantized.dynamic.Linear(5, 3)
    weight = torch.quantize_per_tensor(torch.arange(-7.0, 8.0).reshape(3, 5), 0.5, 0, torch.qint8)
    layer.set_weight_bias(weight, torch.tensor([1.0, 2.0, 3.0]))
    x = torch.tensor([[0.0, 12.7, -0.0, 6.3, 1.0], [3.2, 0.1, 0.0, 12.0, 5.0]])
    expected = x @ torch.arange(-7.0, 8.0).reshape(3, 5).T + torch.tensor([1.0, 2.0, 3.0])
    assert torch.allclose(layer(x), expected, atol=1e-4)
    assert torch.allclose(layer(x[None]), expected[None], atol=1e-4)
    weight.copy_(torch.zeros(3, 5))
    assert torch.equal(layer(x), torch.tensor([1.0, 2.0, 3.0]).expand(2, 3))


def test_weights_with_a_zero_point_are_multiplied_as_floats():
    layer = torch.ao.nn.quantized.dynamic.Linear(4, 2)
    layer.set_weight_bias(torch.quantize_per_tensor(torch.ones(2, 4), 0.5, 3, torch.qint8), torch.zeros(2))
    assert torch.allclose(layer(torch.full((1, 4), 12.7)), torch.full((1, 2), 50.8), atol=1e-4)


def test_linear_by_channel_on_quantized_inputs():
    layer = torch.ao.nn.quantized.Linear(3, 2)
    weight = torch.tensor([[1.0, -2.0, 0.5], [4.0, 8.0, -12.0]])
    weight = torch.quantize_per_channel(weight, torch.tensor([0.5, 4.0]), torch.tensor([0, 0]), 0, torch.qint8)
    layer.set_weight_bias(weight, torch.tensor([0.5, -1.0]))
    layer.scale, layer.zero_point = 0.5, 100
    x = torch.quantize_per_tensor(torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 0.5]]), 0.5, 130, torch.quint8)
    assert layer(x).dequantize().tolist() == [[-1.0, -17.0], [0.0, -11.0]]


def test_histograms_move_with_their_bounds():
    observer = Q.HistogramObserver(bins=16)
    found = []
    for x in (torch.linspace(0, 1, 50) ** 2, torch.linspace(-1, 2, 50), torch.linspace(0, 10, 50)):
        observer(x)
        scale, zero = observer.calculate_qparams()
        found.append((scale.item(), zero.item()))
    assert observer.histogram.tolist()[:6] == [12.0625, 43.0625, 34.875, 14.0625, 7.9375, 4.0]
    assert [s for s, _ in found] == pytest.approx([0.0036764706, 0.011029412, 0.040441178], rel=1e-6)
    assert [z for _, z in found] == [0, 91, 25]


@pytest.mark.filterwarnings("ignore:reduce_range")
def test_convolutions_with_relu_have_pytorchs_scale():
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(3, 4, 3)
    observer = Q.get_default_qconfig("fbgemm").activation()
    for _ in range(5):
        observer(torch.relu(conv(torch.randn(2, 3, 8, 8))))
    scale, zero = observer.calculate_qparams()
    assert scale.item() == pytest.approx(0.015350496396422386, rel=1e-5) and zero.item() == 0


def test_preparing_for_training_draws_what_pytorch_draws():
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 1),
        torch.nn.BatchNorm2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 3),
        torch.nn.BatchNorm1d(3),
    ).train()
    model = Q.fuse_modules_qat(model, [["0", "1"], ["3", "4"]])
    model.qconfig = Q.get_default_qat_qconfig("qnnpack")
    prepared = Q.prepare_qat(model)
    assert list(prepared.state_dict())[:4] == ["0.weight", "0.bias", "0.bn.weight", "0.bn.bias"]
    assert torch.allclose(torch.rand(2), torch.tensor([0.28163284, 0.66793883]))


@pytest.mark.parametrize("after", [torch.nn.BatchNorm1d(3), torch.nn.ReLU()])
def test_a_linear_layer_and_what_follows_become_one(after):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Q.QuantStub(), torch.nn.Linear(4, 3), after, Q.DeQuantStub()).train()
    model = Q.fuse_modules_qat(model, ["1", "2"])
    model.qconfig = Q.get_default_qat_qconfig("qnnpack")
    prepared = Q.prepare_qat(model)
    assert type(prepared[1]) in (torch.ao.nn.intrinsic.qat.LinearBn1d, torch.ao.nn.intrinsic.qat.LinearReLU)
    assert "1.weight" in prepared.state_dict()
    x = torch.randn(16, 4)
    prepared(x).sum().backward()
    assert prepared[1].weight.grad is not None
    quantized = Q.convert(prepared.eval())
    assert quantized[1].weight().is_quantized
    assert torch.allclose(quantized(x), prepared(x), atol=0.1)
    assert type(prepared[1].to_float()) in (torch.nn.Linear, torch.ao.nn.intrinsic.LinearReLU)
