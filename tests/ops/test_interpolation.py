"""Resizing, grid sampling, padding, pixel shuffles and bags of embeddings."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional


def rand(*shape, seed=0, grad=False):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float64, requires_grad=grad)


@pytest.mark.parametrize("mode, shape, size", [
    ("nearest", (2, 3, 4), (7,)), ("nearest-exact", (2, 3, 4, 5), (3, 9)), ("linear", (2, 3, 4), (7,)),
    ("bilinear", (1, 2, 4, 5), (7, 3)), ("bicubic", (1, 2, 4, 5), (7, 3)), ("trilinear", (1, 1, 3, 4, 2), (2, 5, 3)),
    ("area", (1, 2, 4, 5), (3, 2)),
])  # fmt: skip
def test_resizing_has_derivatives_and_keeps_constants(mode, shape, size):
    x = rand(*shape, grad=True)
    made = F.interpolate(x, size, mode=mode)
    assert made.shape == (*shape[:2], *size)
    np.testing.assert_allclose(F.interpolate(torch.ones_like(x), size, mode=mode).detach().numpy(), 1, rtol=1e-12)
    assert gradcheck(lambda x: F.interpolate(x, size, mode=mode), (x,))
    assert gradgradcheck(lambda x: F.interpolate(x, size, mode=mode), (x,))


def test_linear_places():
    x = torch.tensor([[[0.0, 1.0, 2.0]]])
    made = F.interpolate(x, 5, mode="linear", align_corners=True)
    np.testing.assert_allclose(made.numpy(), [[[0, 0.5, 1, 1.5, 2]]])
    made = F.interpolate(x, scale_factor=2.0, mode="linear", align_corners=False)
    np.testing.assert_allclose(made.numpy(), [[[0, 0.25, 0.75, 1.25, 1.75, 2]]])


def test_antialias_averages_when_it_shrinks():
    x = torch.tensor([0.0, 1.0] * 8).expand(1, 1, 16, 16).contiguous()
    plain = F.interpolate(x, (16, 4), mode="bilinear", antialias=True)
    assert (plain - 0.5).abs().max().item() < 0.05


def test_wrong_sizes():
    x = rand(1, 1, 4, 4)
    for options in ({}, {"size": 3, "scale_factor": 2.0}, {"size": (3, 3, 3)}, {"size": 3, "align_corners": True}):
        with pytest.raises(ValueError):
            F.interpolate(x, **options)
    with pytest.raises(NotImplementedError):
        F.interpolate(x, 3, mode="linear")
    with pytest.raises(RuntimeError):
        F.interpolate(x, 0)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sample(mode, padding, align):
    x = rand(1, 2, 4, 5, grad=True)
    identity = F.affine_grid(torch.eye(2, 3, dtype=torch.float64)[None], (1, 2, 4, 5), align_corners=align)
    same = F.grid_sample(x, identity, mode, padding, align)
    np.testing.assert_allclose(same.detach().numpy(), x.detach().numpy(), atol=1e-9)
    grid = torch.tensor(np.random.default_rng(1).uniform(-1.3, 1.3, (1, 3, 2, 2)), requires_grad=mode != "nearest")
    assert gradcheck(lambda x, grid: F.grid_sample(x, grid, mode, padding, align), (x, grid))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "volume"])
def test_second_derivatives_of_grid_sample(mode):
    rank = 3 if mode == "volume" else 2
    x = torch.tensor(np.random.default_rng(0).standard_normal((2, 2, *(3, 4, 5)[:rank])), requires_grad=True)
    grid = np.random.default_rng(1).uniform(-1.2, 1.2, (2, *(2, 3, 1)[:rank], rank))
    run = lambda x, grid: F.grid_sample(x, grid, "bilinear" if rank == 3 else mode, align_corners=False)
    grid = torch.tensor(grid, requires_grad=True)
    assert gradcheck(run, (x, grid)) and gradgradcheck(run, (x, grid))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample_outside(mode):
    """What lies outside counts as zero, whatever the input holds; places may be no numbers."""
    x = torch.full((1, 1, 3, 3), float("inf"), requires_grad=True)
    grid = torch.tensor([[[[5.0, 5.0], [float("nan"), 0.0], [float("inf"), 0.0], [0.0, -1e30]]]], requires_grad=True)
    out = F.grid_sample(x, grid, mode, align_corners=False)
    assert out[..., 0].item() == 0 and (mode == "bicubic" or out[..., 3].item() == 0)
    out[..., 0].sum().backward()
    assert x.grad.eq(0).all() and grid.grad[0, 0, 0].eq(0).all()


@pytest.mark.slow
@pytest.mark.parametrize("rank", [2, 3])
def test_many_points_of_a_grid_are_alike(rank):
    """More points than are looked at together: each is what it is alone, and so are gradients of either operand."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((2, 3, *(5, 6, 4)[:rank]))).requires_grad_()
    grid = torch.from_numpy(rng.uniform(-1.3, 1.3, (2, *(1,) * (rank - 1), 300, rank))).requires_grad_()
    out = F.grid_sample(x, grid, align_corners=False)
    alone = [F.grid_sample(x, grid[..., i : i + 1, :], align_corners=False) for i in range(0, 300, 37)]
    np.testing.assert_allclose(out[..., ::37].detach().numpy(), torch.cat(alone, -1).detach().numpy(), rtol=1e-12)
    both = torch.autograd.grad(out.square().sum(), (x, grid), retain_graph=True)
    for leaf, expected in zip((x, grid), both):
        one = F.grid_sample(
            x if leaf is x else x.detach(), grid if leaf is grid else grid.detach(), align_corners=False
        )
        np.testing.assert_allclose(torch.autograd.grad(one.square().sum(), leaf)[0].numpy(), expected.numpy())


@pytest.mark.slow
def test_grid_sample_rounds_where_pytorch_does():
    """In bfloat16 each operation is rounded, the channels of a point one after the other."""
    x = torch.tensor([[[[1.0, 2.0], [3.0, 5.0]], [[0.5, -1.0], [7.0, 0.25]], [[9.0, 2.5], [1.5, 4.0]]]]).bfloat16()
    grid = torch.tensor([[[[0.31, -0.17]]]]).bfloat16().requires_grad_()
    out = F.grid_sample(x, grid, align_corners=False)
    out.backward(torch.tensor([[[[1.25]], [[0.7]], [[-1.1]]]]).bfloat16())
    assert out.flatten().tolist() == [2.734375, 0.01171875, 3.65625]
    assert grid.grad.flatten().tolist() == [3.328125, 5.28125]


@pytest.mark.slow
@pytest.mark.parametrize("mode, expected", [
    ("bilinear", [-1.3984375, 0.006439208984375, 0.0, -0.018798828125, 0.271484375, 0.050048828125, 0.0, 0.400390625, 2.796875]),
    ("bicubic", [-1.5078125, 0.0361328125, -0.01019287109375, -0.00390625, 0.357421875, -0.134765625, -0.049560546875, 0.384765625, 3.0]),
])  # fmt: skip
def test_bfloat16_gradients_of_grid_sample_are_added_up_in_pytorchs_order(mode, expected):
    """Element after element around a place, some places at a time."""
    x = (torch.arange(9.0) / 4).reshape(1, 1, 3, 3).bfloat16().requires_grad_()
    grid = torch.linspace(-1.3, 1.3, 12).reshape(1, 1, 6, 2).bfloat16()
    out = F.grid_sample(x, grid, mode, "border", align_corners=False)
    out.backward(torch.linspace(-1, 1.7, 6).reshape(1, 1, 1, 6).bfloat16())
    assert x.grad.flatten().tolist() == expected


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample_of_nothing(mode):
    for shape, points in (((0, 2, 3, 3), (0, 4, 4, 2)), ((1, 0, 3, 3), (1, 4, 4, 2)), ((1, 2, 3, 3), (1, 0, 4, 2))):
        x, grid = torch.zeros(shape, requires_grad=True), torch.zeros(points, requires_grad=True)
        out = F.grid_sample(x, grid, mode, align_corners=False)
        out.sum().backward()
        assert out.shape == (*shape[:2], *points[1:3]) and x.grad.shape == shape and grid.grad.shape == points


def test_grid_sample_of_volumes():
    x = rand(1, 2, 3, 4, 5, grad=True)
    identity = F.affine_grid(torch.eye(3, 4, dtype=torch.float64)[None], (1, 2, 3, 4, 5), align_corners=False)
    made = F.grid_sample(x, identity, align_corners=False)
    np.testing.assert_allclose(made.detach().numpy(), x.detach().numpy(), atol=1e-9)
    with pytest.raises(RuntimeError):
        F.grid_sample(x, identity, "bicubic", align_corners=False)


@pytest.mark.parametrize(
    "mode, name", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"), ("constant", "constant")]
)
def test_padding(mode, name):
    x = rand(2, 3, 4, 5, grad=True)
    expected = np.pad(x.detach().numpy(), ((0, 0), (0, 0), (1, 2), (3, 0)), name)
    np.testing.assert_array_equal(F.pad(x, (3, 0, 1, 2), mode).detach().numpy(), expected)
    assert gradcheck(lambda x: F.pad(x, (3, 0, 1, 2), mode), (x,))
    assert F.pad(x, (-1, 2), "constant", 7.0)[..., -1].eq(7).all()


def test_wrong_padding():
    with pytest.raises(RuntimeError, match="divisible by 2"):
        F.pad(rand(2, 3), (1, 2, 3))
    with pytest.raises(RuntimeError):
        F.pad(rand(1, 1, 3), (3, 0), "reflect")
    with pytest.raises(NotImplementedError):
        F.pad(rand(1, 1, 3), (1, 1), "mirror")
    with pytest.raises(RuntimeError):
        F.pad(rand(2, 3), (-2, -2))


def test_pixels_come_back():
    x = rand(2, 8, 3, 5)
    assert F.pixel_shuffle(x, 2).shape == (2, 2, 6, 10)
    assert torch.equal(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x)
    assert torch.equal(F.channel_shuffle(x, 2)[:, 1], x[:, 4])
    with pytest.raises(RuntimeError):
        F.pixel_shuffle(x, 3)


@pytest.mark.parametrize("mode, reduce", [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
def test_bags(mode, reduce):
    weight = rand(6, 3, grad=True)
    index, offsets = torch.tensor([0, 2, 5, 5, 1]), torch.tensor([0, 2, 2])
    made = F.embedding_bag(index, weight, offsets, mode=mode)
    table = weight.detach().numpy()
    expected = [reduce(table[[0, 2]], 0), np.zeros(3), reduce(table[[5, 5, 1]], 0)]
    np.testing.assert_allclose(made.detach().numpy(), expected)
    assert gradcheck(lambda w: F.embedding_bag(index, w, offsets, mode=mode), (weight,))


def test_bags_with_weights_and_padding():
    weight, samples = rand(6, 3, grad=True), rand(2, 2, seed=1, grad=True)
    index = torch.tensor([[0, 2], [4, 0]])
    made = F.embedding_bag(index, weight, mode="sum", per_sample_weights=samples)
    expected = (weight.detach().numpy()[index.numpy()] * samples.detach().numpy()[..., None]).sum(1)
    np.testing.assert_allclose(made.detach().numpy(), expected)
    padded = F.embedding_bag(index, weight, mode="mean", padding_idx=0)
    np.testing.assert_allclose(padded.detach().numpy(), weight.detach().numpy()[[2, 4]])
    with pytest.raises(ValueError):
        F.embedding_bag(torch.tensor([0]), weight)


# what PyTorch gives for the same bytes
BYTES = [
    ("bilinear", {}, [[36, 66, 85, 131], [155, 153, 119, 53], [60, 106, 152, 161]]),
    ("bilinear", {"align_corners": True}, [[0, 49, 99, 148], [150, 156, 121, 42], [43, 92, 142, 191]]),
    ("bicubic", {}, [[31, 65, 79, 136], [178, 171, 124, 30], [55, 106, 157, 164]]),
    ("bilinear", {"antialias": True}, [[64, 76, 75, 118], [159, 149, 118, 65], [73, 116, 160, 146]]),
    ("bicubic", {"antialias": True}, [[59, 70, 65, 127], [170, 156, 116, 53], [61, 112, 172, 151]]),
]


@pytest.mark.parametrize("mode, options, expected", BYTES)
def test_bytes_are_rounded_as_in_pytorch(mode, options, expected):
    x = (torch.arange(20) * 37 % 256).reshape(1, 1, 4, 5).to(torch.uint8)
    assert F.interpolate(x, size=(3, 4), mode=mode, **options)[0, 0].tolist() == expected
    exact = F.interpolate(x.double(), size=(3, 4), mode=mode, **options).clamp(0, 255)[0, 0]
    assert (exact - torch.tensor(expected)).abs().max() < 1.01


def _summed_in(call):
    """The gradient of one bfloat16 element that became four, for the gradients 256, 1, 1 and 1."""
    x = torch.zeros(1, 1, 1, dtype=torch.bfloat16, requires_grad=True)
    call(x).backward(torch.tensor([[[256.0, 1, 1, 1]]], dtype=torch.bfloat16))
    return x.grad.item()


def test_gradients_of_repeated_elements_are_added_where_pytorch_does():
    assert _summed_in(lambda x: F.pad(x, (0, 3), mode="replicate")) == 256  # each sum is rounded
    assert _summed_in(lambda x: F.interpolate(x, 4)) == 260  # in single precision


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_the_same_size_is_a_copy(mode):
    x = rand(1, 1, 2, 2)
    made = F.interpolate(x, (2, 2), mode=mode)
    made.zero_()
    assert x.abs().min() > 0


def test_arguments_are_checked_after_equal_ones_were_right():
    x = rand(1, 1, 4, 4)
    F.interpolate(x, 8), F.pad(x, (1, 1, 1, 1), mode="reflect")
    with pytest.raises(TypeError):
        F.interpolate(x, 8.0)
    with pytest.raises(RuntimeError, match="Padding size"):
        F.pad(x, (4, 4, 1, 1), mode="reflect")


def test_channels_are_shuffled_back_by_the_gradient():
    x = rand(2, 6, 3, grad=True)
    made = torch.channel_shuffle(x, 3)
    np.testing.assert_array_equal(made.detach().numpy(), x.detach().numpy()[:, [0, 2, 4, 1, 3, 5]])
    assert gradcheck(lambda x: torch.channel_shuffle(x, 3), (x,))


def test_grids_that_stay_the_same_can_be_written_to():
    theta = torch.eye(2, 3).unsqueeze(0)
    first = F.affine_grid(theta, (1, 1, 2, 2), align_corners=True)
    before = first.clone()
    first.zero_()
    assert torch.equal(F.affine_grid(theta, (1, 1, 2, 2), align_corners=True), before)


@pytest.mark.parametrize(
    "mode,shape,dtype,copied",
    [
        ("linear", (1, 1, 12), torch.float32, True),
        ("nearest", (1, 1, 12), torch.float32, False),
        ("nearest-exact", (1, 1, 12), torch.uint8, False),
        ("nearest", (1, 1, 12, 12), torch.float32, True),
        ("nearest-exact", (1, 1, 12, 12), torch.float32, False),
        ("bilinear", (1, 1, 12, 12), torch.bfloat16, True),
        ("bicubic", (1, 1, 12, 12), torch.float32, False),
        ("bicubic", (1, 1, 12, 12), torch.uint8, True),
        ("trilinear", (1, 1, 12, 3, 4), torch.float64, True),
        ("nearest", (1, 1, 12, 12, 12), torch.float32, False),
    ],
)
def test_a_factor_that_keeps_the_size(mode, shape, dtype, copied):
    x = (torch.arange(float(math.prod(shape))) ** 1.5 % 250).to(dtype).reshape(shape)
    assert torch.equal(F.interpolate(x, scale_factor=1.07, mode=mode), x) is copied
    assert torch.equal(F.interpolate(x, scale_factor=1.0, mode=mode), x)


def test_lanczos():
    """Values from PyTorch 2.13."""
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    made = torch.nn.functional.interpolate(x, size=(3, 3), mode="lanczos", antialias=True)
    expected = [[0.7970, 2.1376, 3.4782], [6.1594, 7.5000, 8.8406], [11.5218, 12.8624, 14.2030]]
    torch.testing.assert_close(made[0, 0], torch.tensor(expected), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="Lanczos mode requires antialias=True"):
        torch.nn.functional.interpolate(x, size=3, mode="lanczos")
    with pytest.raises(ValueError, match="does not support align_corners=True"):
        torch.nn.functional.interpolate(x, size=3, mode="lanczos", antialias=True, align_corners=True)
    with pytest.raises(ValueError, match="restricted to bilinear, bicubic, and lanczos modes"):
        torch.nn.functional.interpolate(x, size=3, antialias=True)


def test_operators_take_sizes_and_scales():
    """The scales say where elements lie, whatever the size; what is not positive counts as none. Values of PyTorch."""
    x = torch.arange(6.0).reshape(1, 1, 1, 6)
    aten = torch.ops.aten
    near = [0, 0, 1, 1, 2, 2, 3, 4, 4]
    assert aten.upsample_nearest2d(x, [1, 9], None, 1.7).flatten().tolist() == near
    assert aten.upsample_nearest2d(x, [1, 9], scales_h=None, scales_w=1.7).flatten().tolist() == near
    assert aten.upsample_nearest2d(x, [1, 9]).flatten().tolist() == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    line = aten.upsample_linear1d(x[0], [9], False, 1.6)
    assert torch.allclose(
        line.flatten(), torch.tensor([0, 0.4375, 1.0625, 1.6875, 2.3125, 2.9375, 3.5625, 4.1875, 4.8125])
    )
    none = aten.upsample_bilinear2d(x, [1, 9], False, -1.0, 0.0)
    assert torch.equal(none, torch.nn.functional.interpolate(x, (1, 9), mode="bilinear"))
    with pytest.raises(RuntimeError, match="It is expected output_size"):
        aten.upsample_nearest2d(x, [9])
