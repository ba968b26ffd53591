"""Exported models: sound by ONNX's checker, and the same values when they run."""

import importlib.util
import io

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.onnx import errors

onnx = pytest.importorskip("onnx")
# ONNX's own evaluator lacks some activations and early versions of some operators: there only `load` is asked without onnxruntime.
RUNTIME = importlib.util.find_spec("onnxruntime") is not None


def _run(data, inputs):
    """The results of a model, from onnxruntime where it is installed, otherwise from ONNX's own evaluator."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return [a.copy() for a in ReferenceEvaluator(onnx.load_from_string(data)).run(None, inputs)]
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs)


def _flat(value):
    return [t for part in value for t in _flat(part)] if isinstance(value, (tuple, list)) else [value]


def _same(model, example, *args, opset=17, evaluator=True, **options):
    """Exports with one example, runs with other inputs; loaded again it gives the same."""
    file = io.BytesIO()
    names = [f"in{i}" for i in range(len(args))]
    options.setdefault("dynamic_axes", {name: {0: "batch"} for name in names})
    torch.onnx.export(model, example, file, input_names=names, opset_version=opset, **options)
    proto = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(proto, full_check=True)
    used = {i.name for i in proto.graph.input}
    given = {n: a for n, a in zip(names, args) if n in used}
    loaded = torch.onnx.load(file.getvalue()).eval()
    with torch.no_grad():
        want, again = _flat(model(*args)), _flat(loaded(**given))
    results = [again]
    if evaluator:
        results += [[torch.tensor(a) for a in _run(file.getvalue(), {n: a.numpy() for n, a in given.items()})]]
    for got in results:
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert a.shape == b.shape and torch.allclose(a, b, 1e-3, 1e-4, equal_nan=True)
            assert a.dtype is b.dtype
    return proto


@pytest.mark.parametrize("opset", [11, 13, 17, 18])
def test_a_perceptron(tmp_path, opset):
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5)).eval()
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        model, torch.randn(1, 10), path, input_names=["features"], output_names=["logits"],
        dynamic_axes={"features": {0: "batch_size"}}, opset_version=opset,
    )  # fmt: skip
    proto = onnx.load(str(path))
    onnx.checker.check_model(proto, full_check=True)
    assert [i.name for i in proto.graph.input] == ["features"] and [o.name for o in proto.graph.output] == ["logits"]
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch_size"
    assert proto.opset_import[0].version == opset
    assert {i.name for i in proto.graph.initializer} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    x = torch.randn(4, 10)
    assert torch.allclose(torch.tensor(_run(path.read_bytes(), {"features": x.numpy()})[0]), model(x), atol=1e-5)


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depth, self.out = nn.Conv2d(8, 8, 3, groups=8, padding="same"), nn.Linear(8, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = F.adaptive_avg_pool2d(F.avg_pool2d(F.gelu(self.depth(x)), 2), 1)
        return F.log_softmax(self.out(F.dropout(x, 0.5, self.training).flatten(1)), dim=1)


@pytest.mark.parametrize("opset", [11, 14, 18])
def test_convolutions(opset):
    model = Conv()
    model(torch.randn(4, 3, 16, 16))  # the averages of batch norm are no longer 0 and 1
    _same(
        model.eval(), torch.randn(1, 3, 16, 16), torch.randn(2, 3, 16, 16), opset=opset, evaluator=RUNTIME or opset > 11
    )


def test_training_mode_is_put_back():
    model = Conv()
    torch.onnx.export(model, torch.randn(2, 3, 16, 16), io.BytesIO())
    assert model.training and model.norm.training and model.norm.num_batches_tracked == 0


@pytest.mark.parametrize("opset", [11, 17, 18])
def test_a_transformer(opset):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    axes = {"in0": {0: "batch", 1: "length"}}
    _same(model, torch.randn(2, 5, 8), torch.randn(3, 7, 8), opset=opset, dynamic_axes=axes)


def test_recurrent_networks():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.lstm = nn.Embedding(9, 4), nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
            self.gru, self.rnn = nn.GRU(10, 3, batch_first=True), nn.RNN(3, 2, nonlinearity="relu", batch_first=True)

        def forward(self, x):
            y, (h, c) = self.lstm(self.emb(x))
            return self.rnn(self.gru(y)[0])[0][:, -1], h, c

    _same(Net().eval(), torch.randint(0, 9, (2, 4)), torch.randint(0, 9, (3, 4)), evaluator=RUNTIME)


@pytest.mark.slow
def test_resnet():
    from flambeau.vision.models import resnet18

    _same(resnet18(num_classes=7).eval(), torch.randn(1, 3, 32, 32), torch.randn(2, 3, 32, 32))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Hardswish(), nn.LeakyReLU(0.1), nn.Sigmoid(), nn.Hardsigmoid(), nn.ELU(), nn.SiLU(), nn.Mish(), nn.Softplus(),
        nn.PReLU(), nn.ReLU6(), nn.Softmax(1), nn.Tanh(), nn.GELU("tanh"), nn.Hardtanh(), nn.Softsign(), nn.SELU(), nn.CELU(),
        nn.LogSigmoid(), nn.GLU(2), nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ConstantPad2d(1, 2.0), nn.CircularPad2d(1),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Upsample(size=(5, 12)), nn.ConvTranspose2d(3, 4, 3, 2, 1, 1),
        nn.GroupNorm(3, 3), nn.LayerNorm(8), nn.InstanceNorm2d(3), nn.AdaptiveMaxPool2d(2), nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.AvgPool2d(3, 2, 1), nn.PixelUnshuffle(2), nn.Unflatten(1, (1, 3)), nn.RMSNorm(8),
    ],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_layers(layer):
    _same(layer.eval(), torch.randn(1, 3, 8, 8), torch.randn(2, 3, 8, 8))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[:, 1:][..., None].mean((1, 2)),
        lambda x: (x[torch.tensor([1, 0])], x[x > 0]),
        lambda x: (x.max(1), x.topk(2, dim=1)[0], x.sort(dim=1)[0], x.argmax(1)),
        lambda x: torch.stack([x.chunk(2, 1)[0], x.split([2, 2], 1)[1]]),
        lambda x: (torch.arange(x.size(0)).float() * 2, torch.full((x.size(0), 2), 3.0), x.new_ones(x.shape[0])),
        lambda x: (x.norm(dim=1), x.var(1), x.std(1, unbiased=False), x.logsumexp(1), x.cumsum(1), x.amax(1)),
        lambda x: torch.cat([torch.where(x > 0, x, -x), x.clamp(min=-0.5, max=0.5), x.masked_fill(x > 0, 1.0)], -1),
        lambda x: (x.long() // 2, x.long() / 2, x % 2, x // 2, x.long() % 3, x > 0, ~(x > 0) & (x == x)),
        lambda x: x.pow(3) + x**2 + 2**x - 1 / (x.abs() + 1) + x.sub(1, alpha=2) + (x + 2).rsqrt().nan_to_num(0),
        lambda x: (x.unsqueeze(1).expand(-1, 3, -1), x.repeat(2, 1), x.flip(1), torch.roll(x, 1, 1), torch.tril(x)),
        lambda x: (x.reshape(x.size(0) * 2, -1) * x.shape[1] / x.size(0), torch.einsum("bi,ci->bc", x, x)),
        lambda x: (F.pad(x, (1, 2), value=0.5), F.one_hot(x.argmax(1), 4), F.cross_entropy(x, x.argmax(1))),
        lambda x: (x.gather(1, x.argsort(1)), x.unbind(1)[0], x.double().select(1, 0), (x > 0).any(1), x.t() @ x),
        lambda x: (
            torch.nonzero(x > 0),
            torch.where(x > 0)[1],
            torch.masked_select(x, x > 0),
            x.isfinite(),
            x.trunc(),
            x.frac(),
        ),
        lambda x: (
            x[:, x[0] > 0],
            x[:, None][:, :, torch.tensor([0, 2])],
            x[torch.tensor([[0], [1]]), torch.tensor([1, 2])],
        ),
        lambda x: (
            x.var(),
            torch.var_mean(x, 0),
            torch.std_mean(x, 1),
            x.median(1),
            x.kthvalue(2, 1),
            torch.count_nonzero(x > 0),
        ),
        lambda x: (
            torch.cdist(x, x),
            F.cosine_similarity(x, x.flip(1)),
            F.pairwise_distance(x, x.flip(1)),
            torch.isin(x, x[0]),
        ),
        lambda x: (
            x.repeat_interleave(2, 1),
            x.repeat_interleave(x.argmax(1), 0),
            torch.diag(x[0]),
            torch.diag_embed(x),
        ),
        lambda x: (x[:, :3].diagonal(0, 0, 1)[:3], x.unfold(1, 2, 1), torch.cross(x[:, 1:], x[:, :3], dim=1), x.erfc()),
        lambda x: (x.index_add(1, torch.tensor([0, 2]), x[:, :2]), x.index_copy(0, torch.tensor([1]), x[:1])),
        lambda x: (torch.select_scatter(x, x[:, 0], 1, -1), torch.slice_scatter(x, x[:, :2], 1, 1, 3)),
        lambda x: (
            x.index_put((x > 0,), torch.tensor(2.0)),
            x.index_put((torch.tensor([0, 1]),), x[:2], accumulate=True),
        ),
        lambda x: (
            torch.outer(x[:, 0], x[0]),
            torch.hstack((x, x)),
            torch.diff(x),
            x * torch.linspace(0, 1, 4),
            x.rot90(),
        ),
        lambda x: (
            torch.logaddexp(x, x.flip(1)),
            torch.hypot(x, x),
            torch.xlogy(x.abs(), x.abs()),
            x.sigmoid().logit(),
        ),
        lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)),
        lambda x: (x[:, None, :, None].expand(-1, 4, -1, 2).chunk(2, 0)[0], F.glu(x.repeat(2, 1), 0)),
    ],
)
def test_operations(f):
    _same(f, torch.randn(6, 4), torch.randn(8, 4), opset=18)


@pytest.mark.parametrize(
    "cell", [nn.GRUCell(3, 4), nn.LSTMCell(3, 4), nn.RNNCell(3, 4)], ids=lambda cell: type(cell).__name__
)
def test_cells(cell):
    _same(cell, torch.randn(2, 3), torch.randn(5, 3))


def test_bags_of_embeddings():
    bag = nn.EmbeddingBag(9, 3)
    data = io.BytesIO()
    names = {"input_names": ["words", "offsets"], "dynamic_axes": {"words": [0], "offsets": [0]}}
    torch.onnx.export(bag, (torch.arange(5), torch.tensor([0, 2])), data, **names)
    words, offsets = torch.tensor([1, 2, 5, 6, 8, 3]), torch.tensor([0, 3, 3])
    (got,) = _run(data.getvalue(), {"words": words.numpy(), "offsets": offsets.numpy()})
    torch.testing.assert_close(torch.tensor(got), bag(words, offsets))


def test_a_dictionary_may_be_an_argument():
    class Model(nn.Module):
        def forward(self, batch):
            return batch["a"] + batch["b"]

    sizes = {"batch": {"a": {0: "n"}, "b": {0: "n"}}}
    program = torch.onnx.export(Model(), ({"a": torch.ones(2), "b": torch.ones(2)},), dynamo=True, dynamic_shapes=sizes)
    inputs = program.model_proto.graph.input
    assert [i.name for i in inputs] == ["batch.0", "batch.1"]
    assert [i.type.tensor_type.shape.dim[0].dim_param for i in inputs] == ["n", "n"]


def test_writes_in_place():
    def f(x):
        y = x.clone()
        y[:, 0] = 1.0
        y[: x.shape[0] // 2] += 1
        y[x > 2] = 0.5
        y[:, torch.tensor([1, 2])] = x[:, :2]
        y[0] += 2
        y[1:3, 1] = 7.0
        return y.relu_() * 2

    _same(f, torch.randn(4, 4), torch.randn(6, 4))


def test_what_has_no_form_names_itself():
    with pytest.raises(errors.UnsupportedOperatorError, match="aten::erfinv"):
        torch.onnx.export(torch.erfinv, torch.rand(2), io.BytesIO())
    with pytest.raises(ValueError, match="opset_version 3"):
        torch.onnx.export(nn.ReLU(), torch.rand(2), io.BytesIO(), opset_version=3)


def test_custom_forms():
    torch.onnx.register_custom_op_symbolic("aten::erfinv", lambda g, x: g.op("Mul", x, g.op("Tanh", x)), 11)
    try:
        file = io.BytesIO()
        torch.onnx.export(torch.erfinv, torch.rand(2), file, input_names=["x"])
        x = torch.tensor([0.5, 1.0])
        assert torch.allclose(torch.tensor(_run(file.getvalue(), {"x": x.numpy()})[0]), x * x.tanh())
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::erfinv", 11)


def test_options():
    class Net(nn.Linear):
        def forward(self, x, scale=None, flag=False):
            assert torch.onnx.is_in_onnx_export()
            return super().forward(x) * (scale if flag else 1)

    model = Net(2, 3)
    file = io.BytesIO()
    torch.onnx.export(
        model, (torch.ones(1, 2), {"scale": torch.ones(1), "flag": True}), file, keep_initializers_as_inputs=True
    )
    proto = onnx.load_from_string(file.getvalue())
    assert {i.name for i in proto.graph.input} >= {"x", "scale", "weight", "bias"}
    program = torch.onnx.export(nn.ReLU(), (torch.ones(2, 3),), dynamo=True, dynamic_shapes=({0: "n"},))
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert not torch.onnx.is_in_onnx_export()


def test_traced_modules():
    traced = torch.jit.trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), torch.randn(1, 4))
    _same(traced, torch.randn(1, 4), torch.randn(3, 4))


def test_boxes():
    from flambeau.vision import ops

    def pick(boxes, scores):
        return ops.nms(boxes, scores, 0.4)

    def made(count):
        corner = torch.rand(count, 2)
        return torch.cat([corner, corner + torch.rand(count, 2)], 1), torch.rand(count)

    torch.manual_seed(0)
    _same(pick, made(5), *made(12))
    assert torch.jit.trace(pick, made(5)).code.count("ops.torchvision.nms(") == 1


def test_programs_run_and_are_verified(tmp_path):
    from flambeau.onnx.verification import verify_onnx_program

    model = nn.Linear(3, 2)
    program = torch.onnx.export(model, (torch.ones(1, 3),), dynamo=True, verify=True)
    x = torch.randn(1, 3)
    assert torch.allclose(program(x)[0], model(x), atol=1e-6)
    assert [info.max_abs_diff for info in verify_onnx_program(program)] == [0]
    assert verify_onnx_program(program, (x,))[0].max_abs_diff < 1e-6
    torch.onnx.register_custom_op_symbolic("aten::erfinv", lambda g, x: g.op("Tanh", x), 11)
    try:
        with pytest.warns(errors.OnnxExporterWarning, match="another result number 0"):
            torch.onnx.export(torch.erfinv, torch.full((2,), 0.9), io.BytesIO(), verify=True)
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::erfinv", 11)
    path = tmp_path / "net.onnx"
    torch.onnx.export(model, x, path, external_data=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    assert torch.allclose(torch.onnx.load(path)(x), model(x), atol=1e-6)


@pytest.mark.parametrize("name", ["report", "profile", "dump_exported_program", "export_modules_as_functions"])
def test_arguments_that_would_have_no_effect_are_refused(name):
    with pytest.raises(NotImplementedError, match=name):
        torch.onnx.export(nn.ReLU(), torch.ones(1), io.BytesIO(), **{name: True})


def test_a_misspelt_argument_is_an_error():
    with pytest.raises(TypeError, match="dynamic_axis"):
        torch.onnx.export(nn.ReLU(), torch.ones(1), io.BytesIO(), dynamic_axis={"x": {0: "n"}})


def test_sizes_of_the_example_are_not_written_where_others_may_come():
    with pytest.raises(errors.OnnxExporterError, match="aten::diff is written in parts"):
        _same(lambda x: torch.diff(x, dim=0), torch.randn(5, 2), torch.randn(7, 2))


def test_lists_of_sizes_may_change():
    _same(lambda x: x.split([1, x.shape[0] - 1])[1] * 2, torch.randn(5, 2), torch.randn(7, 2))
