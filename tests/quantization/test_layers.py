"""Layers on quantized tensors, recurrent layers with integer weights, fused layers and tables of qconfigs."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as Q
from flambeau.ao.nn import intrinsic, quantized
from flambeau.ao.nn.quantized import dynamic


def _converted(layer, x):
    model = nn.Sequential(Q.QuantStub(), layer, Q.DeQuantStub()).eval()
    model.qconfig = Q.get_default_qconfig("qnnpack")
    observed = Q.prepare(model)
    observed(x)
    return Q.convert(observed)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv2d(2, 3, 3, padding=1), lambda: nn.ConvTranspose2d(2, 3, 3, output_padding=1, stride=2),
        lambda: nn.BatchNorm2d(2), lambda: nn.LayerNorm(5), lambda: nn.GroupNorm(1, 2), lambda: nn.InstanceNorm2d(2),
        nn.ELU, nn.Hardswish, nn.LeakyReLU, nn.PReLU, nn.ReLU6, nn.Dropout,
    ],
)  # fmt: skip
def test_layers_compute_what_the_float_ones_do(make):
    torch.manual_seed(0)
    layer, x = make(), torch.randn(1, 2, 5, 5)
    model = _converted(layer, x)
    assert type(model[1]) is getattr(quantized, type(layer).__name__)
    assert model[1]._get_name() == "Quantized" + type(layer).__name__
    expected = layer.eval()(x)
    assert (model(x) - expected).abs().max() < 0.03 * (expected.max() - expected.min())
    again = _converted(make(), x)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(x), model(x))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_with_integer_weights(kind, options):
    torch.manual_seed(0)
    model = nn.Sequential(kind(4, 5, **options)).eval()
    made = Q.quantize_dynamic(model, {kind})
    assert type(made[0]) is getattr(dynamic, kind.__name__)
    assert made[0].get_weight()["weight_ih_l0"].dtype is torch.qint8
    x = torch.randn(7, 3, 4)
    out, state = made(x)
    expected, expected_state = model(x)
    assert 0 < (out - expected).abs().max() < 0.05
    state, expected_state = (s[0] if isinstance(s, tuple) else s for s in (state, expected_state))
    assert state.shape == expected_state.shape and (state - expected_state).abs().max() < 0.05
    single, _ = made(x[:, 0] if not options.get("batch_first") else x[0])
    assert single.shape == (out[:, 0] if not options.get("batch_first") else out[0]).shape
    again = Q.quantize_dynamic(nn.Sequential(kind(4, 5, **options)), {kind})
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(x)[0], out)


def test_packed_sequences():
    torch.manual_seed(0)
    made = dynamic.LSTM.from_float(nn.LSTM(2, 3))
    x = torch.randn(4, 2, 2)
    packed = nn.utils.rnn.pack_padded_sequence(x, [4, 2])
    out, (h, _) = made(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    alone, (h1, _) = made(x[:2, 1:])
    assert lengths.tolist() == [4, 2]
    torch.testing.assert_close(padded[:2, 1:], alone)
    torch.testing.assert_close(h[:, 1:], h1)
    assert padded[2:, 1].abs().sum() == 0


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind):
    torch.manual_seed(0)
    model = nn.Sequential(kind(4, 5))
    made = Q.quantize_dynamic(model)
    x = torch.randn(2, 4)
    first, second = (m(x)[0] if kind is nn.LSTMCell else m(x) for m in (model, made))
    assert 0 < (first - second).abs().max() < 0.05
    with pytest.raises(RuntimeError, match="inconsistent input_size: got 3, expected 4"):
        made(torch.ones(2, 3))


def test_default_layers_of_dynamic_quantization():
    model = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2), nn.Conv2d(1, 1, 1), nn.Embedding(3, 4))
    assert [type(m).__name__ for m in Q.quantize_dynamic(model)] == ["Linear", "LSTM", "Conv2d", "Embedding"]
    made = Q.quantize_dynamic(model)
    assert isinstance(made[1], dynamic.LSTM) and type(made[2]) is nn.Conv2d and type(made[3]) is nn.Embedding
    tables = Q.quantize_dynamic(model, dtype=torch.quint8)
    assert isinstance(tables[3], quantized.Embedding) and type(tables[0]) is nn.Linear
    assert (tables[3](torch.tensor([1])) - model[3](torch.tensor([1]))).abs().max() < 0.02
    with pytest.raises(ValueError, match="quantize with default settings"):
        Q.quantize_dynamic(model, dtype=torch.int64)


def test_bags_are_summed():
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(5, 4, mode="sum")
    bag.qconfig = Q.float_qparams_weight_only_qconfig
    made = quantized.EmbeddingBag.from_float(bag)
    args = torch.tensor([0, 1, 4]), torch.tensor([0, 2])
    assert (made(*args) - bag(*args)).abs().max() < 0.05
    with pytest.raises(NotImplementedError, match="mean"):
        quantized.EmbeddingBag(5, 4, mode="mean")


@pytest.mark.parametrize("relu", [False, True])
def test_training_with_batch_normalisation(relu):
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), *([nn.ReLU()] if relu else [])]
    model = nn.Sequential(Q.QuantStub(), nn.Sequential(*layers), Q.DeQuantStub()).train()
    model.qconfig = Q.get_default_qat_qconfig("qnnpack")
    model = Q.prepare_qat(Q.fuse_modules_qat(model, [[f"1.{i}" for i in range(len(layers))]]))
    fused = model[1][0]
    assert type(fused).__name__ == ("ConvBnReLU2d" if relu else "ConvBn2d") and hasattr(fused, "weight_fake_quant")
    before = fused.bn.running_mean.clone()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(4, 2, 6, 6)
    for _ in range(3):
        model(x).pow(2).mean().backward()
        optimizer.step()
    assert not torch.equal(before, fused.bn.running_mean)
    fused.freeze_bn_stats()
    kept = fused.bn.running_mean.clone()
    model.train()(x)
    assert torch.equal(kept, fused.bn.running_mean)
    expected = model.eval()(x)
    made = Q.convert(model)
    assert made[1][0]._get_name() == ("QuantizedConvReLU2d" if relu else "QuantizedConv2d")
    assert (made(x) - expected).abs().max() < 0.05 * (expected.max() - expected.min())


def test_fuser_methods():
    conv, norm = nn.Conv2d(1, 2, 1).eval(), nn.BatchNorm2d(2).eval()
    x = torch.randn(1, 1, 3, 3)
    torch.testing.assert_close(Q.fuse_conv_bn(False, conv, norm)(x), norm(conv(x)))
    both = Q.fuse_conv_bn_relu(False, conv, norm, nn.ReLU())
    assert type(both) is intrinsic.ConvReLU2d
    torch.testing.assert_close(both(x), norm(conv(x)).relu())
    transposed = nn.ConvTranspose2d(1, 2, 2).eval()
    torch.testing.assert_close(Q.fuse_convtranspose_bn(False, transposed, norm)(x), norm(transposed(x)))
    with pytest.raises(AssertionError, match="same mode"):
        Q.fuse_conv_bn(False, conv.train(), norm)
    with pytest.raises(AssertionError, match="did not find fuser method"):
        Q.get_fuser_method((nn.ReLU, nn.ReLU))
    with pytest.raises(AssertionError, match="Incorrect types"):
        intrinsic.ConvReLU2d(nn.Linear(1, 1), nn.ReLU())


def test_qconfig_mappings():
    mapping = Q.QConfigMapping().set_global(Q.default_qconfig).set_module_name("head", None)
    mapping.set_module_name_regex("block.*", Q.default_dynamic_qconfig)
    mapping.set_module_name_object_type_order("body", torch.add, 1, None)
    again = Q.QConfigMapping.from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict()
    assert again.module_name_qconfigs == {"head": None}
    assert repr(Q.QConfigMapping().set_module_name("a", None)) == (
        "QConfigMapping (\n global_qconfig\n  None\n object_type_qconfigs\n  OrderedDict()\n module_name_regex_qconfigs\n"
        "  OrderedDict()\n module_name_qconfigs\n  a: None\n module_name_object_type_order_qconfigs\n  OrderedDict()\n)"
    )
    usual = Q.get_default_qconfig_mapping("qnnpack")
    assert Q.qconfig_equals(usual.global_qconfig, Q.get_default_qconfig("qnnpack"))
    assert usual.object_type_qconfigs[nn.Sigmoid].activation().calculate_qparams()[0].item() == 1 / 256
    assert not Q.qconfig_equals(Q.default_qconfig, Q.default_dynamic_qconfig)


def test_granularity():
    assert Q.get_block_size((4, 6), Q.PerTensor()) == (4, 6)
    assert Q.get_block_size((4, 6), Q.PerAxis(1)) == (4, 1)
    assert Q.get_block_size((4, 6), Q.PerToken()) == (1, 6)
    with pytest.raises(ValueError, match="Unsupported Granularity"):
        Q.get_block_size((4, 6), Q.PerBlock((1, 2)))
    with pytest.raises(TypeError, match="abstract"):
        Q.AffineQuantizedObserverBase(Q.MappingType.SYMMETRIC, torch.int8, Q.PerTensor())


def test_what_is_refused():
    for use in (
        lambda: Q.prepare_jit(None, {}), Q.get_default_static_sparse_quant_module_mappings,
        lambda: quantized.LSTM(2, 3),
        lambda: quantized.MultiheadAttention(2, 1),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError):
            use()


def test_older_places_of_the_layers():
    from flambeau.ao.nn import intrinsic, qat, quantized
    from flambeau.nn import intrinsic as old_intrinsic
    from flambeau.nn import qat as old_qat
    from flambeau.nn import quantized as old_quantized
    from flambeau.nn.quantized import dynamic as old_dynamic

    assert old_quantized.Linear is quantized.Linear and old_dynamic.LSTM is quantized.dynamic.LSTM
    assert old_intrinsic.ConvReLU2d is intrinsic.ConvReLU2d and old_qat.Linear is qat.Linear


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8), (8,), (0, 8), (3, 0, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_dynamic_layers_round_their_input(shape, bias):
    torch.manual_seed(1)
    layer = Q.quantize_dynamic(nn.Sequential(nn.Linear(8, 4, bias=bias)))
    x = torch.randn(shape).half().float()
    made = layer(x)
    assert made.dtype is torch.float32 and made.shape == (*shape[:-1], 4)
    if x.numel():  # 7 bits of the range that the input has
        low, high = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
        scale = (high - low) / 127
        zero = min(max(round(-low / scale), 0), 127)
        codes = torch.clamp(torch.round(x / scale) + zero, 0, 255)
        inner = layer[0]
        weight, own = inner.weight().dequantize(), inner.bias()
        torch.testing.assert_close(
            made, nn.functional.linear((codes - zero) * scale, weight, own), rtol=1e-3, atol=1e-3
        )
    for d in (torch.float64, torch.float16):
        with pytest.raises(RuntimeError, match="Quantize only works on Float Tensor, got"):
            layer(x.to(d))


@pytest.mark.slow
def test_layers_for_training_take_what_the_plain_ones_take_by_place():
    from flambeau.ao.nn import qat
    from flambeau.ao.quantization import float_qparams_weight_only_qconfig, get_default_qat_qconfig

    usual = get_default_qat_qconfig("x86")
    layer = qat.Conv2d(2, 4, 3, 2, 1, 1, 2, False, "reflect", usual)
    assert (layer.stride, layer.groups, layer.bias, layer.padding_mode) == ((2, 2), 2, None, "reflect")
    assert layer(torch.ones(1, 2, 5, 5)).shape == (1, 4, 3, 3)
    for kind, options in ((qat.Embedding, {"padding_idx": 1}), (qat.EmbeddingBag, {"mode": "sum"})):
        table = kind(5, 3, **options, qconfig=float_qparams_weight_only_qconfig)
        assert all(getattr(table.to_float(), name) == value for name, value in options.items())
        with pytest.raises(AssertionError, match="qconfig must be provided"):
            kind(5, 3)
        with pytest.raises(AssertionError, match="per_channel_affine_float_qparams"):
            kind(5, 3, qconfig=usual)
    with pytest.raises(TypeError, match="nonlinearity"):
        torch.ao.nn.quantized.dynamic.GRUCell(2, 3, nonlinearity="relu")


def test_conversions_draw_the_random_numbers_that_pytorch_draws():
    def draws(make):
        torch.manual_seed(0)
        make()
        found = torch.get_rng_state()
        torch.manual_seed(0)
        for count in range(300):
            if torch.equal(torch.get_rng_state(), found):
                return count
            torch.rand(1)
        raise AssertionError("another number of draws")

    dynamic = torch.ao.nn.quantized.dynamic
    assert draws(lambda: torch.ao.nn.quantized.Conv2d(3, 4, 3)) == 0
    assert draws(lambda: dynamic.LSTM(2, 3)) == 140 and draws(lambda: dynamic.LSTM(2, 3, 2)) == 292
    assert draws(lambda: dynamic.GRUCell(2, 3)) == 113 and draws(lambda: dynamic.LSTMCell(2, 3, bias=False)) == 92
    model = torch.nn.Sequential(torch.nn.LSTM(2, 3))
    assert draws(lambda: torch.ao.quantization.quantize_dynamic(model, {torch.nn.LSTM})) == 140
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
    fused = torch.ao.quantization.fuse_modules_qat(model, [["0", "1"]])
    prepared = torch.ao.quantization.prepare_qat(fused)
    prepared(torch.ones(2, 2, 4, 4))
    assert draws(lambda: torch.ao.quantization.convert(prepared.eval())) == 0
