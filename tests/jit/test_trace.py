"""Traces: what they record, what they freeze, how they follow sizes."""

import copy
import io
import pickle
import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import jit, nn
from flambeau.jit import TracerWarning


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.block = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5))
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        x = self.block(self.norm(self.conv(x)))
        return self.out(x.view(x.size(0), -1))


def test_a_module_keeps_its_parts_and_follows_batches():
    model = Conv().eval()
    traced = jit.trace(model, torch.randn(1, 3, 4, 4))
    assert isinstance(traced, jit.ScriptModule) and isinstance(traced, jit.TopLevelTracedModule)
    assert list(traced.state_dict()) == list(model.state_dict())
    assert traced.conv.weight is model.conv.weight and traced.original_name == "Conv"
    x = torch.randn(5, 3, 4, 4)
    assert torch.equal(traced(x), model(x))
    assert "torch.linear(" in traced.out.code and "(block).forward" in traced.code
    assert traced.out.graph.findNode("aten::linear") is not None and "aten::linear" in str(traced.out.graph)
    loss = traced(x).sum()
    loss.backward()
    assert model.conv.weight.grad is not None
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert torch.equal(other(x), model(x)) and other.conv.weight is not model.conv.weight


def test_branches_are_frozen_with_a_warning():
    def f(x):
        return x * 2 if x.sum() > 0 else x - 1

    with pytest.warns(TracerWarning, match="boolean"):
        traced = jit.trace(f, torch.ones(2))
    assert traced(-torch.ones(2)).tolist() == [-2, -2]
    with pytest.warns(TracerWarning, match="number"):
        fixed = jit.trace(lambda x: x * x.max().item(), torch.tensor([1.0, 3.0]))
    assert fixed(torch.tensor([1.0, 5.0])).tolist() == [3, 15]


def test_sizes_are_followed():
    def f(x):
        rows, columns = x.shape
        grid = torch.arange(rows).float().unsqueeze(1) * columns
        return (
            x.reshape(rows * columns // 2, -1),
            grid + x.new_zeros(x.size(0), 1),
            torch.full((len(x.shape), rows), 2.0),
        )

    traced = jit.trace(f, torch.ones(2, 4))
    x = torch.randn(6, 4)
    assert all(torch.equal(a, b) for a, b in zip(traced(x), f(x)))


def test_states_of_recurrent_layers_follow_the_batch():
    for layer in (nn.LSTM(3, 4, 2, bidirectional=True), nn.GRU(3, 4, batch_first=True), nn.RNN(3, 4)):
        traced = jit.trace(layer, torch.randn(2, 2, 3))
        x = torch.randn(5, 7, 3)
        assert torch.allclose(traced(x)[0], layer(x)[0])


def test_attention_follows_lengths():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    traced = jit.trace(layer, torch.randn(2, 3, 8))
    x = torch.randn(4, 6, 8)
    assert torch.allclose(traced(x), layer(x), atol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[:, 1:][..., None].mean((0, 1)),
        lambda x: x[torch.tensor([1, 0])],
        lambda x: x[x > 0],
        lambda x: torch.stack([a * i for i, a in enumerate(x.chunk(2, 1))]),
        lambda x: x.max(1),
        lambda x: x.topk(2, dim=1)[0] + x.sort(1)[0][:, :2],
        lambda x: torch.cat([x, x.t() @ x], 0),
        lambda x: F.normalize(x) + x.var(1, keepdim=True) + x.std(),
        lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: F.softmax(x, 1) + F.gelu(x) + F.elu(x) + F.hardtanh(x, -0.5, 0.5) + F.leaky_relu(x, 0.3),
        lambda x: 1 / (x.abs() + 1) + 2**x - x**3 + x**0.5,
        lambda x: x.sub(1, alpha=3).long() // 2,
        lambda x: F.pad(x, (1, 2), value=0.5).clamp(max=1),
        lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
        lambda x: F.cross_entropy(x, x.argmax(1)) + F.mse_loss(x, -x),
        lambda x: x.unsqueeze(1).expand(-1, 3, -1).repeat(1, 1, 2).flip(2),
        lambda x: torch.where(x > 0, x, torch.zeros_like(x)).cumsum(1),
        lambda x: x.masked_fill(x > 0, 1.5).norm(dim=1),
        lambda x: F.one_hot(x.argmax(1), 4).float().T,
    ],
)
def test_operations(f):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jit.trace(f, torch.randn(2, 4))
    x = torch.randn(2, 4)
    want, got = f(x), traced(x)
    for a, b in zip(want, got) if isinstance(want, tuple) else [(want, got)]:
        assert a.dtype is b.dtype and torch.allclose(a, b, equal_nan=True)


def test_writes_in_place():
    def f(x):
        y = x.clone()
        y[:, 0] = 1.0
        y[0] += 2
        y.relu_()
        return y

    traced = jit.trace(f, torch.randn(2, 3))
    x = torch.randn(4, 3)
    assert torch.equal(traced(x), f(x)) and "copy_" in traced.code


def test_structures_of_inputs_and_outputs():
    def f(pair, table):
        return pair[0] * table["a"], (pair[1], table["b"] + 1)

    traced = jit.trace(f, ((torch.ones(2), torch.ones(1)), {"a": torch.ones(2), "b": torch.ones(1)}))
    got = traced((torch.full((2,), 3.0), torch.zeros(1)), {"a": torch.full((2,), 2.0), "b": torch.zeros(1)})
    assert got[0].tolist() == [6, 6] and got[1][1].tolist() == [1]
    with pytest.raises(RuntimeError, match="strict=False"):
        jit.trace(lambda x: {"a": x}, torch.ones(1))
    assert jit.trace(lambda x: {"a": x * 2}, torch.ones(1), strict=False)(torch.ones(1))["a"].item() == 2
    with pytest.raises(RuntimeError, match="cannot be traced"):
        jit.trace(lambda x, n: x * n, (torch.ones(1), 2))


def test_named_examples_and_several_methods():
    class Two(nn.Module):
        def forward(self, x, scale):
            return x * scale

        def doubled(self, x):
            return x * 2

    assert jit.trace(Two(), example_kwarg_inputs={"x": torch.ones(2), "scale": torch.ones(1)})(
        torch.ones(2), torch.full((1,), 3.0)
    ).tolist() == [3, 3]
    both = jit.trace_module(Two(), {"forward": (torch.ones(2), torch.ones(1)), "doubled": torch.ones(2)})
    assert both.doubled(torch.ones(3)).tolist() == [2, 2, 2] and both(torch.ones(1), torch.ones(1)).item() == 1
    with pytest.raises(RuntimeError, match="dict"):
        jit.trace(Two())


def test_randomness_is_seen_by_the_check():
    with pytest.warns(TracerWarning, match="does not match"):
        jit.trace(lambda x: x + torch.rand(3), torch.ones(3))


def test_tracing_is_known_inside_only():
    seen = []

    class Net(nn.Module):
        def forward(self, x):
            seen.append(jit.is_tracing())
            return x * 2

    traced = jit.trace(Net(), torch.ones(2), check_trace=False)
    assert seen == [True] and traced(torch.ones(1)).item() == 2 and seen == [True]
    assert not jit.is_tracing() and torch.ones(2).shape == (2,) and type(torch.ones(2).shape[0]) is int


def test_shared_modules_are_called_by_several_methods():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(self.layer(x) + 1)

    model = Twice()
    traced = jit.trace(model, torch.ones(1, 2))
    x = torch.randn(3, 2)
    assert torch.equal(traced(x), model(x))


def test_slices_of_shapes_are_followed():
    def f(x):
        small = F.interpolate(x[None, None], scale_factor=0.5)
        return F.interpolate(small, size=x.shape[-2:]).view(*x.shape[:1], x.shape[1:].numel())

    traced = jit.trace(f, torch.randn(4, 6))
    x = torch.randn(8, 10)
    assert torch.equal(traced(x), f(x))


def test_warnings_point_at_the_program():
    with pytest.warns(TracerWarning) as caught:
        jit.trace(lambda x: x * 2 if x.sum() > 0 else x, torch.ones(1))
    assert caught[0].filename == __file__


def test_parameters_can_change():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    traced = jit.trace(model, torch.ones(1, 2))
    x = torch.randn(3, 2)
    traced(x)
    traced.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    assert torch.equal(traced(x), model(x))
    traced.double()
    assert traced(x.double()).dtype is torch.float64


def test_constants_of_several_methods():
    class Two(nn.Module):
        def forward(self, x):
            return x + torch.tensor([1.0])

        def other(self, x):
            return x * torch.tensor([3.0])

    traced = jit.trace_module(Two(), {"forward": torch.ones(1), "other": torch.ones(1)})
    assert traced(torch.ones(1)).item() == 2 and traced.other(torch.ones(1)).item() == 3


def test_operators_of_programs():
    @torch.library.custom_op("jit_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    traced = jit.trace(lambda x: twice(x) + torch.ops.aten.relu(x), torch.ones(2))
    assert "ops.jit_tests.twice(x)" in traced.code and "torch.relu(x)" in traced.code
    assert traced(torch.ones(3)).tolist() == [3, 3, 3]


def test_suppression_of_boxes_is_an_operator():
    from flambeau.vision import ops

    boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]])
    plain = ops.nms
    traced = jit.trace(lambda b, s: ops.nms(b, s, 0.5), (boxes, torch.tensor([0.9, 0.8, 0.7])))
    assert ops.nms is plain and "ops.torchvision.nms(" in traced.code
    assert traced(boxes, torch.tensor([0.1, 0.8, 0.9])).tolist() == [2, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x == 2, lambda x: x != 2, lambda x: x // 2, lambda x: 7 // x, lambda x: 1 - x, lambda x: 7 % x,
        lambda x: ~x, lambda x: 3 ^ x, lambda x: x << 1,
    ],
)  # fmt: skip
def test_special_methods_are_operators(function):
    traced = torch.jit.trace(function, torch.tensor([3, 5]), check_trace=False)
    x = torch.tensor([2, 6])
    assert torch.equal(traced(x), function(x))


@pytest.mark.parametrize("name", ["mT", "mH"])
def test_transposed_batches_of_matrices(name):
    traced = jit.trace(lambda x: getattr(x, name) * 2, torch.rand(4, 2, 5))
    x = torch.rand(3, 2, 5)
    assert torch.equal(traced(x), x.transpose(1, 2) * 2)


def test_transposed_matrices():
    x = torch.rand(2, 3)
    for name in ("T", "H"):
        assert torch.equal(jit.trace(lambda x, name=name: getattr(x, name) + 1, torch.rand(4, 5))(x), x.t() + 1)


@pytest.mark.parametrize("size", [(None, 3), (2, None), (2, 3)])
@pytest.mark.parametrize("kind", [nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d])
def test_adaptive_pools_follow_sizes(kind, size):
    pool = kind(size)
    traced = _stored(jit.trace(pool, torch.randn(1, 2, 6, 8)))
    x = torch.randn(2, 2, 7, 9)
    torch.testing.assert_close(traced(x), pool(x))


def test_order_in_memory_is_kept():
    traced = _stored(jit.trace(lambda x: x.clone(memory_format=torch.channels_last), torch.randn(1, 2, 3, 4)))
    assert traced(torch.randn(2, 3, 4, 5)).is_contiguous(memory_format=torch.channels_last)
    plain = _stored(jit.trace(lambda x: x.clone(), torch.randn(1, 2, 3, 4)))
    assert plain(torch.randn(2, 3, 4, 5)).is_contiguous()


def test_table_of_constants():
    class Shift(nn.Module):
        def forward(self, x):
            return x + torch.tensor([1.0, 2.0])

    table = jit.trace(Shift(), torch.ones(2)).code_with_constants[1]
    assert table.c0.tolist() == [1, 2] and table.const_mapping.keys() == {"c0"}
    for name in ("c1", "d0"):
        with pytest.raises(AttributeError):
            getattr(table, name)


def _stored(program):
    file = io.BytesIO()
    jit.save(program, file)
    file.seek(0)
    return jit.load(file)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: F.max_pool2d(x, 2, stride=1, padding=1, ceil_mode=True), [-6, -5, -4, -3, -3]),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [-3.5, -2, 2.5, 4]),
        (lambda x: torch.conv2d(x.expand(1, 2, 4, 4), torch.ones(2, 1, 2, 2), stride=2, groups=2), [-14, -6, 18, 26, -14]),
        (lambda x: F.conv_transpose2d(x, torch.ones(1, 1, 2, 2), stride=2, padding=1, output_padding=1), [-6, -5, -5, -4, -4]),
        (lambda x: F.mse_loss(x, x * 0, weight=x.abs()), [37.363636]),
        (lambda x: F.cross_entropy(x.view(4, 4), torch.arange(4), weight=torch.tensor([1.0, 2, 3, 4])), [1.4401897]),
    ],
)  # fmt: skip
def test_layers_of_a_stored_trace_keep_their_options(function, expected):
    x, file = torch.arange(16.0).reshape(1, 1, 4, 4) - 7, io.BytesIO()
    jit.save(jit.trace(function, (x,)), file)
    file.seek(0)
    found = jit.load(file)(x + 1).reshape(-1)[: len(expected)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))


def test_elements_seen_as_another_type():
    traced = torch.jit.trace(lambda h: h.view(torch.int16) + 1, (torch.ones(3).half(),))
    assert "aten::view" in str(traced.graph)
    assert traced(torch.tensor([1.0, -2.0]).half()).tolist() == [15361, -16383]
    scripted = torch.jit.script(_as_integers)
    assert scripted(torch.tensor([1.0])).tolist() == [1065353216]


def _as_integers(x):
    return x.view(torch.int32)


def test_arguments_without_names_of_their_own():
    class Net(nn.Module):
        def forward(self, x, *rest):
            return x + rest[0]

    x = torch.ones(2)
    assert "argument_0: Tensor" in jit.trace(lambda *xs, scale=2.0: xs[0] + xs[1] * scale, (x, x)).code
    assert "x: Tensor" in jit.trace(Net(), (x, x)).code and "argument_2: Tensor" in jit.trace(Net(), (x, x)).code


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_copies_of_tensors_are_followed():
    def function(x):
        return x + torch.tensor(x.sum()) + torch.as_tensor(x, dtype=torch.float64) * torch.tensor(x, dtype=torch.int64)

    traced = jit.trace(function, torch.ones(2))
    x = torch.tensor([2.5, 3.0], requires_grad=True)
    assert torch.equal(traced(x), function(x)) and traced(x).dtype is torch.float64
    expected, found = (torch.autograd.grad(f(x).sum(), x)[0] for f in (function, traced))
    assert torch.equal(expected, found)


def test_operators_get_the_arguments_of_their_schemas():
    """Functions that prepare their arguments in Python: traces hold what PyTorch's operators take."""
    x, lines, volumes = torch.rand(2, 3, 8, 8), torch.rand(3, 8), torch.rand(1, 2, 4, 4, 4)
    F, window = torch.nn.functional, torch.hann_window(8)

    def unpooled(x, rank):
        pool, unpool = (getattr(F, f"{name}{rank}d") for name in ("max_pool", "max_unpool"))
        return unpool(*pool(x, 2, return_indices=True), 2)

    for function, given, text in (
        (lambda x: unpooled(x, 1), lines, "torch.max_unpool2d(_"),
        (lambda x: unpooled(x, 2), x, "torch.max_unpool2d(_"),
        (lambda x: unpooled(x, 3), volumes, "torch.max_unpool3d(_"),
        (lambda x: torch.view_as_real(torch.stft(x, 8, window=window, return_complex=True)), lines, "torch.pad("),
        (lambda x: F.fractional_max_pool2d(x, 2, output_ratio=0.5), x, "torch.rand("),
    ):
        torch.manual_seed(0)
        program = torch.jit.trace(function, given, check_trace=False)
        torch.manual_seed(0)
        wanted = function(given)
        torch.manual_seed(0)
        assert torch.equal(program(given), wanted) and text in program.code
        assert "kernel_size" not in program.code


def test_operands_by_name():
    def f(x):
        return torch.sum(input=x, dim=1) + torch.cat(tensors=(x, x)).mean() + torch.transpose(input=x, dim0=0, dim1=1)

    x = torch.arange(9.0).reshape(3, 3)
    assert torch.equal(torch.jit.trace(f, (x,))(x + 1), f(x + 1))


def test_grids_follow_lengths():
    traced = torch.jit.trace(
        lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij")), (torch.ones(2), torch.ones(3))
    )
    assert traced(torch.ones(5), torch.ones(4)).shape == (2, 5, 4)
