"""Large and small joins, copies and triangles against NumPy: the ways that all cores take, and the short ones."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._ops.layout.joining_arrays import joined
from flambeau.autograd import gradcheck, gradgradcheck


def numbers(*shape, dtype=np.float32):
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 50).astype(dtype)


LAYOUTS = {
    "rows": (lambda: [numbers(40, 100, 30) for _ in range(3)], 1),
    "first": (lambda: [numbers(3, 300, 100), numbers(1, 300, 100)], 0),
    "pieces": (lambda: np.split(numbers(40, 50, 90), [20, 70], 2), -1),
    "thin": (lambda: [numbers(40000, 1), numbers(40000, 2)], 1),
    "wide elements": (lambda: [numbers(30, 400, dtype=np.complex128), numbers(30, 1000, dtype=np.complex128)], 1),
    "bytes": (lambda: [numbers(3, 100001, dtype=np.int8), numbers(3, 7, dtype=np.int8)], 1),
    "an empty one": (lambda: [numbers(100, 0, 10), numbers(100, 300, 10)], 1),
    "turned": (lambda: [numbers(300, 400).T, numbers(300, 400).T], 0),
    "backwards": (lambda: [numbers(300, 400)[::-1], numbers(300, 400)[:, ::-1]], 1),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_large_joins(name):
    make, dim = LAYOUTS[name]
    arrays = make()
    wanted = np.concatenate(arrays, dim)
    assert wanted.nbytes >= 1 << 18
    made = joined(arrays, dim)
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)


def test_large_join_of_tensors():
    parts = [torch.from_numpy(numbers(64, 32, 128)).requires_grad_(i != 1) for i in range(3)]
    whole = torch.cat(parts, 2)
    np.testing.assert_array_equal(whole.detach().numpy(), np.concatenate([p.detach().numpy() for p in parts], 2))
    whole.backward(torch.arange(whole.numel(), dtype=torch.float32).reshape(whole.shape))
    place = torch.arange(whole.numel(), dtype=torch.float32).reshape(whole.shape)
    assert torch.equal(parts[2].grad, place[..., 256:]) and parts[1].grad is None
    with pytest.raises(RuntimeError):
        torch.cat([torch.ones(300, 300), torch.ones(300, 200)], 0)
    with pytest.raises(IndexError):
        torch.cat([torch.ones(300, 300)] * 2, 2)
    with pytest.raises(TypeError):
        torch.cat([torch.ones(2), torch.ones(3)], None)


def test_names_of_joins():
    x, y = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)
    assert torch.cat([y, x], -1).grad_fn.name() == "CatBackward0"
    assert torch.stack([y, x], 1).grad_fn.name() == "StackBackward0"
    with torch.no_grad():
        assert not torch.cat([x, y]).requires_grad
    assert not torch.stack([y, y]).requires_grad


@pytest.mark.parametrize("shape", [(4, 4), (3, 700, 400), (5000, 2), (0, 3)])
@pytest.mark.parametrize("diagonal", [0, 2, -1, 1 << 40, -(1 << 40)])
def test_triangles(shape, diagonal):
    array, near = numbers(*shape), max(-6000, min(diagonal, 6000))
    np.testing.assert_array_equal(torch.from_numpy(array).tril(diagonal).numpy(), np.tril(array, near))
    np.testing.assert_array_equal(torch.from_numpy(array).triu(diagonal).numpy(), np.triu(array, near))


def test_triangle_leaves_nan_out():
    x = torch.full((3, 3), float("nan")).tril(-1)
    assert x[0].tolist() == [0, 0, 0] and x[2, 2] == 0 and bool(x[2, 0].isnan())


@pytest.mark.parametrize(
    "shape, times", [((3,), (2,)), ((1,), (3,)), ((2, 3), (2, 1, 3)), ((), (2,)), ((2, 3), (1, 1))]
)
def test_repeat(shape, times):
    array = numbers(*shape, dtype=np.float64)
    x = torch.tensor(array, requires_grad=True)
    made = x.repeat(times)
    np.testing.assert_array_equal(made.detach().numpy(), np.tile(array, times))
    assert made.grad_fn.name() == "RepeatBackward0" and made.data_ptr() != x.data_ptr()
    assert gradcheck(lambda x: x.repeat(times), (x,)) and gradgradcheck(lambda x: x.repeat(times), (x,))
    each = torch.vmap(lambda t: t.repeat(times))(torch.stack([x.detach(), x.detach() + 1]))
    np.testing.assert_array_equal(each[1].numpy(), np.tile(array + 1, times))
    assert torch.empty(shape, device="meta").repeat(times).shape == made.shape


def test_repeat_of_nothing():
    x = torch.ones(2, 3, requires_grad=True)
    x.repeat(0, 2).sum().backward()
    assert torch.equal(x.grad, torch.zeros(2, 3))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_glu(dim):
    x = torch.tensor(numbers(2, 4, 6, dtype=np.float64) / 50, requires_grad=True)
    glu = torch.nn.functional.glu
    a, b = x.detach().chunk(2, dim)
    assert torch.allclose(glu(x, dim), a * b.sigmoid())
    assert gradcheck(lambda x: glu(x, dim), (x,)) and gradgradcheck(lambda x: glu(x, dim), (x,))
    assert torch.equal(torch.vmap(lambda t: glu(t, -1))(x.detach()), glu(x.detach(), -1))
    assert glu(x, dim).grad_fn.name() == "GluBackward0"


def test_tiny_matrices():
    a = numbers(5, 4, 4, dtype=np.float64)
    positive = a @ a.swapaxes(1, 2) + 4 * np.eye(4)
    given = torch.tensor(positive)
    np.testing.assert_allclose(torch.linalg.inv(given).numpy(), np.linalg.inv(positive))
    np.testing.assert_allclose(torch.linalg.cholesky(given).numpy(), np.linalg.cholesky(positive))
    positive[3] = -1
    for function in (torch.linalg.inv, torch.linalg.cholesky):
        with pytest.raises(torch.linalg.LinAlgError):
            function(torch.tensor(positive))
    info = torch.linalg.cholesky_ex(torch.tensor(positive)).info
    assert info.tolist() == [0, 0, 0, 1, 0]
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(torch.tensor(positive))
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(torch.full((3, 3), float("nan")))


def test_gather_and_indices_of_any_rank():
    """Elements along dimensions that are not the last, of arrays that do not lie in order too."""
    x = numbers(3, 4, 5, 6)
    index = np.random.default_rng(0).integers(0, 3, (2, 4, 3, 6))
    for source in (x, x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)):
        made = torch.from_numpy(source).gather(0, torch.from_numpy(index)).numpy()
        np.testing.assert_array_equal(made, np.take_along_axis(x[:, :, :3], index, 0))
        target = torch.from_numpy(source.copy())
        target.scatter_add_(1, torch.from_numpy(index), torch.ones(2, 4, 3, 6))
        wanted = x.copy()
        at = tuple(np.indices(index.shape))
        np.add.at(wanted, (at[0], index, at[2], at[3]), 1)
        np.testing.assert_allclose(target.numpy(), wanted, rtol=1e-6)


def test_gradient_of_negative_indices():
    x = torch.zeros(3, 4, requires_grad=True)
    x[torch.tensor([-1, 0, -1])].backward(torch.ones(3, 4))
    assert x.grad[:, 0].tolist() == [1, 0, 2]
    x.grad = None
    x[:, torch.tensor([[-4, 3]])].backward(torch.ones(3, 1, 2))
    assert x.grad[0].tolist() == [1, 0, 0, 1]


def test_writes_from_own_memory():
    x = torch.arange(4)
    assert x.scatter(0, x, x).tolist() == [0, 1, 2, 3]
    assert x.index_copy(0, x.flip(0), x).tolist() == [3, 2, 1, 0]
    for write in (lambda x: x.scatter_(0, x, x), lambda x: x.index_copy_(0, x.flip(0), x)):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            write(torch.arange(4))


def test_cat_casts_to_out_what_can_be_cast():
    x, y = torch.tensor([1, 2]), torch.tensor([3.5])
    assert torch.cat([x, y], out=torch.empty(3, dtype=torch.complex64)).tolist() == [1, 2, 3.5]
    with pytest.raises(TypeError, match="input types can't be cast to the desired output type Int"):
        torch.cat([x, y], out=torch.empty(3, dtype=torch.int32))


def test_grids_of_tensors_on_several_devices_are_refused():
    x, meta = torch.ones(2), torch.ones(2, device="meta")
    for pair in ((x, meta), (meta, x)):
        with pytest.raises(RuntimeError, match="meshgrid expects all tensors to have the same device"):
            torch.meshgrid(*pair, indexing="ij")
    assert [g.shape for g in torch.meshgrid(meta, meta, indexing="xy")] == [(2, 2), (2, 2)]


def test_more_combinations_than_any_memory_holds():
    for count, size, again in ((100_000, 4, False), (100_000, 4, True), (10_000, 40, False), (3_000_000_000, 2, False)):
        x = torch.zeros(1).expand(count)
        with pytest.raises(RuntimeError, match="overflow"):
            torch.combinations(x, size, with_replacement=again)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.complex128])
def test_elements_of_two_large_tensors_in_turns(dtype):
    x, y = (torch.randn(301, 701).to(dtype) for _ in range(2))
    for a, b in ((x, y), (y, x), (x, x), (x.t(), y.t())):
        made = torch.stack([a, b], -1)
        assert made.shape == (*a.shape, 2) and torch.equal(made[..., 0], a) and torch.equal(made[..., 1], b)
    flat = [t.reshape(-1, 1) for t in (x, y)]
    assert torch.equal(torch.cat(flat, 1), torch.stack([x, y], -1).reshape(-1, 2))


def test_images_with_channels_last_stay_so():
    x = torch.randn(2, 3, 4, 5)
    last = x.contiguous(memory_format=torch.channels_last)
    for given in ([last, last], [last.to("meta"), last.to("meta")]):
        assert torch.cat(given, 1).stride() == (120, 1, 30, 6)
        found = [torch.stack(given, d).stride() for d in range(5)]
        wanted = [
            (120, 60, 1, 15, 3),
            (120, 3, 1, 30, 6),
            (120, 1, 60, 15, 3),
            (120, 1, 30, 15, 3),
            (120, 40, 10, 2, 1),
        ]
        assert found == wanted
    assert torch.stack([last, x]).is_contiguous()
    assert all(torch.equal(part, x) for d in range(5) for part in torch.stack([last, last], d).unbind(d))


@pytest.mark.parametrize("dim", [-3, 0, 1, 5])
def test_vectors_without_elements_join_along_any_dimension(dim):
    assert torch.cat([torch.empty(0), torch.empty(0)], dim).shape == (0,)
