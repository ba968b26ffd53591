"""Arguments that layers refuse, in PyTorch's words; layouts, empty results and names of the compiled core."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def zeros(*shape, **options):
    return torch.zeros(*shape, **options)


# -- pooling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", (1, 2, 3))
@pytest.mark.parametrize("kind", ("max", "avg"))
def test_a_pool_refuses_a_stride_of_zero_and_numbers_beyond_an_int(kind, rank):
    pool, x = getattr(F, f"{kind}_pool{rank}d"), zeros(1, 2, *[4] * rank)
    with pytest.raises(RuntimeError, match=r"stride should not be zero|stride must be greater than zero"):
        pool(x, 2, 0)
    with pytest.raises(RuntimeError, match="value cannot be converted to type int without overflow"):
        pool(x, 2**62)


def test_fractional_pools_say_what_does_not_fit():
    x = zeros(1, 2, 7, 7)
    for arguments, said in (
        (((), 3), "kernel_size must either"), ((2, (3,)), "output_size must either"),
        ((2, (9, 3)), "too large relative to input height"), ((2, (3, 9)), "too large relative to input width"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=said):
            F.fractional_max_pool2d(x, *arguments)
    with pytest.raises(RuntimeError, match="Expected input to have non-zero size"):
        nn.FractionalMaxPool2d(3, output_ratio=0.5)(zeros(1, 0, 50, 32))
    with pytest.raises(ValueError, match="kernel_size must be greater than 0"):
        nn.FractionalMaxPool3d(0, output_size=1)
    with pytest.raises(ValueError, match="only one of output_size and output_ratio"):
        nn.FractionalMaxPool2d(2, output_size=1, output_ratio=0.5)
    assert nn.FractionalMaxPool2d([2, 2], output_size=[0, 1])(torch.rand(3, 2, 5, 5)).shape == (3, 2, 0, 1)


def test_unpooling_to_nothing_and_to_less_than_nothing():
    x, places = torch.randn(1, 1, 2, 2), zeros(1, 1, 2, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match="non-negative spatial dimensions"):
        F.max_unpool2d(x, places, [1, 1], stride=5, padding=[3, 4])
    assert F.max_unpool2d(x, places, [1, 1], stride=5, padding=[3, 4], output_size=[0, 1]).shape == (1, 1, 0, 1)
    with pytest.raises(RuntimeError, match="There should be exactly two elements"):
        nn.MaxUnpool2d(())(x[0], places[0])


@pytest.mark.parametrize("name", ("adaptive_avg_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool3d"))
def test_a_pool_without_results_has_no_derivative(name):
    x = torch.ones(1, 6, 5, 4, requires_grad=True)
    out = getattr(F, name)(x, 0)
    with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size for non-batch dimensions"):
        out.sum().backward()


def test_a_volume_without_a_batch_keeps_its_channels_last():
    x = zeros(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d)[0]
    out, places = F.max_pool3d(x, 2, return_indices=True)
    assert out.stride() == places.stride() == (1, 12, 6, 3)


# -- derivatives as operators ------------------------------------------------------------------------------------------


def test_derivatives_of_convolutions_are_operators():
    x = torch.sin(torch.arange(36.0)).reshape(2, 3, 6)
    weight = torch.cos(torch.arange(27.0)).reshape(3, 3, 3)
    g = torch.sin(torch.arange(18.0) * 3).reshape(2, 3, 3)
    settings = ([2], [1], [1], False, [0], 1)
    first = torch.ops.aten.convolution_backward(g, x, weight, [3], *settings, [True] * 3)
    assert [round(t.pow(2).sum().item(), 2) for t in first] == [91.05, 23.24, 0.87]
    only = torch.ops.aten.convolution_backward(g, x, weight, [3], *settings, [False, True, False])
    assert only[0] is None and only[2] is None and torch.equal(only[1], first[1])
    second = torch.ops.aten._convolution_double_backward(
        x * 2, weight * 3, torch.ones(3), g, weight, x, *settings, [True] * 3
    )
    assert [round(t.pow(2).sum().item(), 1) for t in second] == [369.4, 819.5, 93.0]
    with pytest.raises(RuntimeError, match="expected groups to be greater than 0, but got groups=0"):
        torch.ops.aten.convolution_backward(g, x, weight, [3], [2], [1], [1], False, [0], 0, [True] * 3)


def test_derivatives_of_pools_are_operators():
    x = torch.sin(torch.arange(64.0) * 7).reshape(2, 2, 4, 4).requires_grad_()
    out, places = F.max_pool2d(x, 2, return_indices=True)
    g = torch.cos(torch.arange(16.0)).reshape(2, 2, 2, 2)
    (wanted,) = torch.autograd.grad(out, x, g)
    aten, plain = torch.ops.aten, x.detach()
    made = aten.max_pool2d_with_indices_backward(g, plain, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    assert torch.equal(made, wanted)
    assert torch.equal(aten.adaptive_max_pool2d_backward(g, plain, places), wanted)
    assert torch.equal(aten.fractional_max_pool2d_backward(g, plain, [2, 2], [2, 2], places), wanted)
    means = aten._adaptive_avg_pool2d_backward(g, plain)
    assert torch.allclose(means, (g / 4).repeat_interleave(2, 2).repeat_interleave(2, 3))
    with pytest.raises(RuntimeError, match="Expected a tensor of dimension"):
        aten.max_pool2d_with_indices_backward(g, plain, [2, 2], [1, 1], [0, 0], [1, 1], False, places)
    with pytest.raises(RuntimeError, match="expected sizes"):
        aten.adaptive_max_pool2d_backward(plain, plain, places)
    with pytest.raises(RuntimeError, match="gradOutput sizes unexpected"):
        aten.fractional_max_pool2d_backward(g[0], plain, [2, 2], [2, 2], places)
    with pytest.raises(RuntimeError, match="Expected dimensions"):
        aten._adaptive_avg_pool2d_backward(g[0], plain)


# -- convolutions and pads ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_convolution_of_no_channels_gives_none():
    layer = nn.Conv1d(0, 8, 2, stride=2)
    out = layer(zeros(2, 0, 15))
    assert out.shape == (2, 0, 7)
    out.sum().backward()
    assert layer.bias.grad.tolist() == [0.0] * 8


def test_paddings_of_convolutions():
    with pytest.raises(RuntimeError, match="Given padding=9223372036854775803 at dimension 0 , expected padding to be"):
        F.conv1d(zeros(1, 2, 9), zeros(2, 2, 3), padding=9223372036854775803)
    with pytest.raises(ValueError, match="Invalid padding string"):
        nn.Conv2d(3, 3, 2, padding="foo")
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported'):
        nn.ConvTranspose2d(3, 3, 2, padding_mode="reflect")


def test_convolutions_under_the_names_of_the_compiled_core():
    x, weight = torch.randn(1, 2, 4, 4, 4), torch.randn(3, 2, 2, 2, 2)
    made = torch._C._nn.slow_conv3d(x, weight.reshape(3, 16), 2, None, [1, 1, 1], [0, 0, 0])
    assert torch.allclose(made, F.conv3d(x, weight), atol=1e-5)
    with pytest.raises(RuntimeError, match="It is expected stride equals to 3"):
        torch._C._nn.slow_conv3d(x, weight, [2, 2, 2], None, [])
    with pytest.raises(ValueError, match="Padding height too large"):
        torch.ops.aten.slow_conv3d(x, weight, kernel_size=[2, 2, 2], stride=[1, 1, 1], padding=[2**62] * 3)
    with pytest.raises(RuntimeError, match="2D kernel_size expected"):
        torch._C._nn.thnn_conv2d(zeros(1, 1, 1, 1), zeros(1, 1), [])


def test_pads_under_the_names_of_the_compiled_core():
    x = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert torch.equal(torch._C._nn.reflection_pad2d(x, [1, 0, 0, 1]), F.pad(x, (1, 0, 0, 1), "reflect"))
    assert torch.equal(torch.ops.aten.replication_pad1d(x[0], [1, 2]), F.pad(x[0], (1, 2), "replicate"))
    with pytest.raises(RuntimeError, match="padding size is expected to be 6, but got: 5"):
        torch.ops.aten.reflection_pad3d(zeros(1, 1, 3, 3, 3), (1,) * 5)
    with pytest.raises(RuntimeError, match="2D or 3D"):
        torch.ops.aten.reflection_pad1d(x, (2, 2))
    with pytest.raises(RuntimeError, match="Expected 2D or 3D"):
        nn.ReflectionPad1d(2)(zeros(3, 0, 10))
    with pytest.raises(NotImplementedError, match="Padding size 2 is not supported for 4D input tensor"):
        nn.ReflectionPad1d(2)(zeros(3, 3, 10, 10))


def test_shuffled_pixels_keep_their_channels_last():
    x = torch.randn(3, 18, 4, 4).to(memory_format=torch.channels_last)
    made = F.pixel_shuffle(x, 3)
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(F.pixel_unshuffle(made, 3), x)


# -- other layers ------------------------------------------------------------------------------------------------------


def test_grids_are_checked():
    image, grid = zeros(1, 1, 2, 2), zeros(1, 1, 1, 2)
    for x, points, said in (
        (image[0], grid, "expected grid to have size 1 in last dimension"),
        (image, zeros(1, 1, 1, 1, 3), "expected grid to have size 2 in last dimension"),
        (image, zeros(2, 1, 1, 2), "expected grid and input to have same batch size"),
    ):
        with pytest.raises(RuntimeError, match=said):
            F.grid_sample(x, points, align_corners=False)
    with pytest.warns(UserWarning, match="See the documentation of affine_grid"):
        F.affine_grid(zeros(1, 2, 3), (1, 1, 2, 1), align_corners=True)


def test_words_of_other_layers():
    with pytest.raises(RuntimeError, match="Number of groups to divide channels in must be positive"):
        torch.native_channel_shuffle(zeros(1, 3, 2, 2), 0)
    with pytest.raises(RuntimeError, match="eps must be non-negative"):
        F.cosine_similarity(zeros(1, 2), zeros(1, 2), eps=-1.0)
    with pytest.raises(RuntimeError, match="match the calculated number of sliding blocks"):
        nn.Fold((4, 5), (2, 3))(zeros(1, 6, 10))
    with pytest.raises(RuntimeError, match="its components must be at least one"):
        nn.Unfold((2, 3))(zeros(1, 2, 2, 2))
    with pytest.raises(TypeError, match="must be tuple of ints, but found element of type float at pos 2"):
        nn.Unflatten(1, (2, 5, 5.0))
    with pytest.raises(ValueError, match="cutoffs should be a sequence of unique,"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 20])


def test_arguments_of_to():
    net = nn.Sequential(nn.Linear(3, 3))
    cpu, number = torch.device("cpu"), torch.tensor(3)
    for arguments, named in (
        ((cpu, True), {}), ((None, True), {}), (([],), {}), (({},), {"non_blocking": True}),
        ((cpu, number), {"non_blocking": True}),
    ):  # fmt: skip
        for moved in (net, number):
            with pytest.raises(TypeError):
                moved.to(*arguments, **named)
    with pytest.raises(RuntimeError, match="does not accept copy"):
        net.to("cpu", copy=True)
    assert net.to(None) is net


def test_buffers_may_be_like_tensors_and_registered_with_two_arguments():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    class Layer(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.bar = nn.Buffer(zeros(2))

        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    module, like = nn.Module(), Like()
    module.register_buffer("one", like)
    assert module.get_buffer("one") is like
    module.one = Like()
    assert "bar" in dict(Layer().named_buffers())
    module.plain = 5
    with pytest.raises(KeyError):
        module.plain = nn.Buffer(zeros(1))


# -- names of the compiled core ------------------------------------------------------------------------------------------


def test_masked_softmax():
    x = torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]], requires_grad=True)
    mask = torch.tensor([[False, False, True], [True, False, False]])
    made = torch._masked_softmax(x, mask, 1, 2)
    assert torch.allclose(made, torch.tensor([[0.26894, 0.73106, 0.0], [0.0, 0.5, 0.5]]), atol=1e-5)
    made[0, 0].backward()
    assert torch.allclose(x.grad[0], torch.tensor([0.19661, -0.19661, 0.0]), atol=1e-5)
    assert torch._softmax(x.detach().half(), 1, True).dtype == torch.float32


def test_a_nested_tensor_from_a_mask():
    x = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    rows = torch._nested_tensor_from_mask(x, mask).unbind()
    assert torch.equal(rows[0], x[0, :2]) and torch.equal(rows[1], x[1])
    with pytest.raises(RuntimeError, match="left-aligned"):
        torch._nested_tensor_from_mask(x, ~mask)
    with pytest.raises(RuntimeError, match="Bool"):
        torch._nested_tensor_from_mask(x, mask.float())


def test_gradients_of_convolutions_beside_the_functions():
    assert F.grad is nn.grad
    assert torch._VF._add_relu(torch.tensor([-1.0, 2.0]), torch.tensor([0.5, 1.0])).tolist() == [0.0, 3.0]


def test_isclose_of_bytes_does_not_wrap_around():
    low, high = torch.tensor([1, 5], dtype=torch.uint8), torch.tensor([2, 4], dtype=torch.uint8)
    assert torch.isclose(low, high, rtol=0, atol=1).tolist() == [True, True]


def test_a_new_dimension_has_the_strides_of_unsqueeze():
    x = zeros(1, 3, 16, 16).contiguous(memory_format=torch.channels_last)[:, :, ::2, ::2]
    assert x[0][None].stride() == x[0].unsqueeze(0).stride() == (3, 1, 96, 6)
    assert zeros(3, 4, 5).permute(2, 0, 1)[:, None, 1:2].stride() == (1, 60, 20, 5)
    assert x[..., None].shape == (1, 3, 8, 8, 1) and x[0, None, 1:].shape == (1, 2, 8, 8)


# -- losses ------------------------------------------------------------------------------------------------------------


def test_words_of_losses_and_activations():
    for call, kind, said in (
        (lambda: F.nll_loss(zeros(10), zeros(3).long()), ValueError, "For 1D input, 1D target must have size 1"),
        (lambda: F.nll_loss(zeros(10, 3), zeros(10, 2).long()), RuntimeError, "1D target tensor expected"),
        (lambda: F.rrelu(zeros(2), float("inf"), 0.3), RuntimeError, "rrelu: lower bound must be finite, got inf"),
        (lambda: F.softshrink(zeros(2).half(), 65507.0), RuntimeError, "input dtype Half, but found 65507"),
        (lambda: F.softshrink(zeros(2), -1), RuntimeError, "input dtype Float, but found -1"),
        (lambda: F.interpolate(zeros(1, 1, 4), size=(torch.tensor(2.0),)), TypeError, "expected size to be one of int"),
        (lambda: F.linear_cross_entropy(zeros(4, 6), zeros(5, 6), zeros(4).long(), linear_bias=zeros(3)), RuntimeError,
         "linear_bias shape"),
        (lambda: F.fractional_max_pool2d(zeros(1, 1, 9, 9), 2, output_ratio=[0.5] * 3), ValueError,
         "requires output_ratio to either be a single Int or tuple of Ints"),
    ):  # fmt: skip
        with pytest.raises(kind, match=said):
            call()
    assert F.multi_margin_loss(zeros(5), torch.tensor([1]), reduction="none").shape == (1,)
    assert torch.pdist(torch.full((2, 2), float("inf")), p=0.0).isnan().all()


def test_chunks_of_linear_cross_entropy():
    auto = nn.LinearCrossEntropyOptions()._adjust(128, 4096, 50000, torch.bfloat16, torch.device("cpu"))
    assert (auto.batch_chunk_size, auto.chunking_method, auto.acc_policy) == (16, "aspect_ratio", "accurate")
    assert auto.acc_dtype == torch.float32
    for rows, features, classes, method, size in (
        (128, 4096, 50000, "aspect_ratio:2", 8), (13, 5, 4, "aspect_ratio", 13), (1000, 16, 3, "aspect_ratio:4", 256),
        (7, 2, 100, "aspect_ratio", 1), (7, 2, 100, None, 7),
    ):  # fmt: skip
        made = nn.LinearCrossEntropyOptions(chunking_method=method)._adjust(rows, features, classes, torch.float32)
        assert made.batch_chunk_size == size
    with pytest.raises(ValueError, match=r"batch_chunk_size .* chunking_method"):
        nn.LinearCrossEntropyOptions(batch_chunk_size=4, chunking_method="aspect_ratio:2")._adjust(
            128, 4096, 50000, torch.float32
        )


@pytest.mark.parametrize("weighed", [False, True])
def test_16_bit_gradients_of_linear_cross_entropy_are_rounded_once(weighed):
    factors = torch.tensor([0.5, 1, 2, 1, 0.25], dtype=torch.bfloat16) if weighed else None
    x = torch.sin(torch.arange(48.0)).reshape(8, 6).bfloat16()
    weight = torch.cos(torch.arange(30.0)).reshape(5, 6).bfloat16()
    found = []
    for wide in (False, True):
        a, w = (t.double() if wide else t.clone() for t in (x, weight))
        a.requires_grad_(), w.requires_grad_()
        options = nn.LinearCrossEntropyOptions(batch_chunk_size=2, chunking_method="auto")
        own = factors if factors is None else factors.to(a.dtype)
        out = F.linear_cross_entropy(a, w, torch.arange(8) % 5, weight=own, options=options)
        out.backward(retain_graph=True)
        found.append((out, a.grad, w.grad))
    for narrow, exact in zip(*found):
        assert torch.equal(narrow, exact.bfloat16())
    with pytest.raises(RuntimeError, match="retain_graph=True / double backward are not supported"):
        out.backward()


# -- embeddings, hooks, states -------------------------------------------------------------------------------------------


def test_embeddings():
    torch.manual_seed(0)
    layer = nn.Embedding(22, 5, max_norm=1.0)
    assert (layer(torch.arange(22)).norm(dim=1) <= 1).all()
    layer, index = nn.Embedding(10, 3, sparse=True), torch.tensor([7, 1, 3])
    layer(index).sum().backward()
    layer(index).sum().backward()
    assert layer.weight.grad._indices().tolist() == [[7, 1, 3, 7, 1, 3]]
    with pytest.raises(RuntimeError, match="input has to be a 1D or 2D Tensor"):
        torch.embedding_bag(zeros(2, 6), zeros(2, 0, 6).long(), zeros(2).long())


def test_a_row_is_filled_with_one_of_its_numbers():
    x = torch.arange(12).reshape(3, 4)
    x[1] = x[1][2]
    assert x[1].tolist() == [6, 6, 6, 6]


def test_older_backward_hooks_return_as_many_as_they_are_given():
    x = zeros(5, requires_grad=True)
    layer = nn.Sigmoid()
    with layer.register_backward_hook(lambda module, given, made: given[:-1]):
        with pytest.warns(FutureWarning, match="the forward contains multiple autograd Nodes"):
            out = layer(x)
        with pytest.raises(RuntimeError, match="got 0, but expected 1"):
            out.sum().backward()


def test_loading_exchanges_parameters_if_wanted():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        source, target = nn.Linear(2, 3), nn.Linear(2, 3)
        weight = target.weight
        target.load_state_dict(source.state_dict())
        assert target.weight is weight and torch.equal(weight, source.weight)
        with torch.device("meta"):
            target = nn.Linear(2, 3)
        weight = target.weight
        target.load_state_dict(source.state_dict(), assign=True)
        assert target.weight is weight and weight.device.type == "cpu" and isinstance(weight, nn.Parameter)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_the_first_weights_do_not_depend_on_the_memory_format():
    layer = nn.Conv3d(3, 6, 3)
    torch.manual_seed(42)
    layer.reset_parameters()
    before = layer.weight.detach().clone()
    layer.to(memory_format=torch.channels_last_3d)
    torch.manual_seed(42)
    layer.reset_parameters()
    assert torch.equal(layer.weight, before)


def test_uninitialised_parameters_are_refused():
    with pytest.raises(ValueError, match="uninitialized parameter"):
        torch.empty_like(nn.parameter.UninitializedParameter())
    with pytest.raises(ValueError, match="have uninitialized parameters"):
        nn.utils.spectral_norm(nn.LazyLinear(7))
    with pytest.raises(RuntimeError, match="Did you forget to run a forward pass"):
        torch.jit.script(nn.LazyLinear(7))


def test_loading_asks_the_class_of_what_is_loaded():
    class Broken(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.module_load:
                return args[1]
            return super().__torch_function__(func, types, args, kwargs)

    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
            nn.Linear(2, 3, bias=False).load_state_dict({"weight": Broken(zeros(3, 2))})
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_attention_of_nested_tensors():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    rows = [torch.randn(3, 4), torch.randn(5, 4)]
    nested = torch.nested.nested_tensor(rows)
    with pytest.raises(AssertionError, match="does not support NestedTensor outside of its fast path"):
        layer(nested, nested, nested)
    with torch.no_grad():
        made = layer(nested, nested, nested)[0].unbind()
        for row, out in zip(rows, made):
            assert torch.allclose(out, layer(row, row, row)[0], atol=1e-6)
    layer.in_proj_bias = nn.Parameter(layer.in_proj_bias.half())
    assert layer(rows[0], rows[0], rows[0])[0].dtype == torch.float32
    with pytest.raises(AssertionError, match="expected `key` and `value` to be 2-D but found 3-D and 2-D"):
        layer(rows[0], rows[0][None], rows[0])


def test_kinds_of_convolutions():
    backend, select = torch._C._ConvBackend, torch._C._select_conv_backend
    x, weight = zeros(2, 6, 7, 8), zeros(6, 6, 3, 3)
    ones, twos, none = [1, 1], [2, 2], [0, 0]
    assert select(x, weight, None, ones, none, ones, False, none, 1) is backend.Slow2d
    assert select(x, weight, None, ones, none, twos, False, none, 1) is backend.SlowDilated2d
    assert select(x, weight, None, ones, none, twos, True, none, 1) is backend.SlowTranspose2d
    assert select(zeros(0, 6, 7, 8), weight, None, ones, none, ones, False, none, 1) is backend.Empty


def test_of_equal_rows_in_a_bag_the_first_gets_the_gradient():
    weight = torch.tensor([[1.0, 2.0], [1.0, 0.0], [3.0, 2.0], [0.0, 5.0]], requires_grad=True)
    out = F.embedding_bag(torch.tensor([0, 1, 2, 0, 3]), weight, torch.tensor([0, 2, 2]), mode="max")
    assert out.tolist() == [[1.0, 2.0], [0.0, 0.0], [3.0, 5.0]]
    (out * torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert weight.grad.tolist() == [[1.0, 2.0], [0.0, 0.0], [5.0, 0.0], [0.0, 6.0]]


def test_shortened_rows_keep_their_tangents():
    weight = torch.ones(4, 4) * 2
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(weight, torch.ones(4, 4))
        out = F.embedding(torch.tensor([0, 1]), dual, max_norm=1.0)
        assert torch.autograd.forward_ad.unpack_dual(out).tangent.tolist() == [[1.0] * 4] * 2
    assert torch.allclose(weight[0], torch.full((4,), 0.5)) and weight[3, 0] == 2


def test_one_pixel_with_channels_last():
    x = zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert F.adaptive_avg_pool2d(x, 1).stride() == (3, 1, 3, 3)
    assert F.adaptive_avg_pool2d(x.contiguous(), 1).stride() == (3, 1, 1, 1)
    F.adaptive_max_pool1d(zeros(0, 5, requires_grad=True), 2).sum().backward()  # an empty batch is no error


def test_the_gradient_of_a_strided_leaf_is_no_view():
    leaf = torch.stack([zeros(5, 4), zeros(5, 4)], 1)[:, 1].detach().requires_grad_()
    (leaf * 2).sum().backward()
    leaf.grad.detach_()
    leaf.grad.zero_()
    assert not leaf.grad._is_view()


@pytest.mark.parametrize("layout", ("to_sparse_coo", "to_sparse_csr", "to_sparse_csc"))
def test_a_vector_through_a_layer_with_a_sparse_weight(layout):
    layer, x = nn.Linear(4, 4), torch.randn(4)
    wanted = layer(x)
    layer.weight = nn.Parameter(getattr(layer.weight.detach(), layout)())
    assert torch.allclose(layer(x), wanted, atol=1e-6)


def test_sizes_beyond_64_bits_are_refused():
    with pytest.raises(ValueError, match="upscale_factor"):
        nn.PixelShuffle(545460846592)(zeros(2, 16, 9, 3))
    with pytest.raises(RuntimeError, match="the product of kernel_width and kernel_height overflowed"):
        F.fold(zeros(3, 7), 16, 7318349394477056)


def test_the_largest_of_quantized_volumes():
    x = torch.quantize_per_tensor(torch.arange(8.0).reshape(1, 1, 2, 2, 2), 0.5, 3, torch.quint8)
    made = torch.quantized_max_pool3d(x, (1, 2, 2))
    assert made.dequantize().flatten().tolist() == [3.0, 7.0] and made.q_scale() == 0.5
    assert torch.quantized_max_pool2d(x[0], [2, 2]).dequantize().flatten().tolist() == [3.0, 7.0]
    assert torch.quantized_max_pool1d(x[0, 0, 0], [2]).dequantize().flatten().tolist() == [1.0, 3.0]
    with pytest.raises(RuntimeError, match="Expected dilation >= 1"):
        torch.quantized_max_pool3d(x, (1, 1, 1), (1, 1, 1), (0, 0, 0), (-3, 1, 1))
