"""Views: shared memory, strides, PyTorch's errors, derivatives, in-place changes of strides, meta tensors."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._ops.layout.striding import view_strides
from flambeau.autograd import gradcheck, gradgradcheck


def numbers(*shape, dtype=torch.float64):
    count = int(np.prod(shape))
    return torch.arange(count, dtype=dtype).reshape(shape)


# name, function, shape of the operand, expected NumPy result
VIEWS = {
    "view": (lambda x: x.view(6, 4), (2, 3, 4), lambda a: a.reshape(6, 4)),
    "view_infer": (lambda x: x.view(-1, 2), (2, 3, 4), lambda a: a.reshape(-1, 2)),
    "reshape": (lambda x: x.reshape(4, 6), (2, 3, 4), lambda a: a.reshape(4, 6)),
    "permute": (lambda x: x.permute(2, 0, 1), (2, 3, 4), lambda a: a.transpose(2, 0, 1)),
    "permute_negative": (lambda x: x.permute(-1, 0, 1), (2, 3, 4), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(0, -1), (2, 3, 4), lambda a: a.swapaxes(0, 2)),
    "swapaxes": (lambda x: x.swapaxes(0, 1), (2, 3, 4), lambda a: a.swapaxes(0, 1)),
    "t": (lambda x: x.t(), (2, 3), lambda a: a.T),
    "T": (lambda x: x.T, (2, 3), lambda a: a.T),
    "mT": (lambda x: x.mT, (2, 3, 4), lambda a: a.swapaxes(1, 2)),
    "movedim": (lambda x: x.movedim((0, 1), (-1, 0)), (2, 3, 4), lambda a: np.moveaxis(a, (0, 1), (-1, 0))),
    "unsqueeze": (lambda x: x.unsqueeze(-1), (2, 3), lambda a: a[..., None]),
    "squeeze": (lambda x: x.squeeze(), (1, 3, 1), lambda a: a.squeeze()),
    "squeeze_dim": (lambda x: x.squeeze(0), (1, 3, 1), lambda a: a[0]),
    "squeeze_dims": (lambda x: x.squeeze((0, 1)), (1, 3, 1), lambda a: a[0]),
    "expand": (lambda x: x.expand(2, -1, 4), (3, 1), lambda a: np.broadcast_to(a, (2, 3, 4))),
    "flatten": (lambda x: x.flatten(1), (2, 3, 4), lambda a: a.reshape(2, 12)),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), (2, 6), lambda a: a.reshape(2, 2, 3)),
    "select": (lambda x: x.select(1, -1), (2, 3, 4), lambda a: a[:, -1]),
    "narrow": (lambda x: x.narrow(2, 1, 2), (2, 3, 4), lambda a: a[:, :, 1:3]),
    "diagonal": (lambda x: x.diagonal(1, 0, 2), (2, 3, 4), lambda a: a.diagonal(1, 0, 2)),
    "unfold": (lambda x: x.unfold(1, 3, 2), (2, 7), lambda a: np.stack([a[:, 0:3], a[:, 2:5], a[:, 4:7]], 1)),
    "as_strided": (lambda x: x.as_strided((3, 3), (1, 1), 1), (6,), lambda a: np.stack([a[1:4], a[2:5], a[3:6]])),
    "split": (lambda x: x.split(2, 1)[1], (2, 5), lambda a: a[:, 2:4]),
    "chunk": (lambda x: x.chunk(2, 1)[1], (2, 5), lambda a: a[:, 3:]),
    "unbind": (lambda x: x.unbind(1)[2], (2, 3), lambda a: a[:, 2]),
    "tensor_split": (lambda x: x.tensor_split((1, 3), 1)[1], (2, 5), lambda a: a[:, 1:3]),
    "hsplit": (lambda x: x.hsplit(2)[0], (2, 4), lambda a: a[:, :2]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_values_and_shared_memory(name):
    function, shape, reference = VIEWS[name]
    x = numbers(*shape)
    made = function(x)
    assert np.array_equal(made.numpy(), reference(x.numpy()))
    assert np.shares_memory(made.numpy(), x.numpy())
    assert made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", VIEWS)
def test_view_derivatives(name):
    function, shape, _ = VIEWS[name]
    x = numbers(*shape).requires_grad_()
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.parametrize(
    "name", [name for name in VIEWS if name != "as_strided"]
)  # whose strides count from the storage
def test_view_of_a_strided_tensor_has_derivatives(name):
    function, shape, reference = VIEWS[name]
    wide = numbers(*shape, 2).requires_grad_()
    if name in ("view", "view_infer", "unflatten"):
        wide = numbers(*shape).requires_grad_()
    part = wide if wide.dim() == len(shape) else wide[..., 1]
    assert np.array_equal(function(part).detach().numpy(), reference(part.detach().numpy()))
    assert gradcheck(lambda w: function(w if w.dim() == len(shape) else w[..., 1]), (wide,))


@pytest.mark.parametrize("name", VIEWS)
def test_views_on_meta(name):
    function, shape, _ = VIEWS[name]
    real, meta = function(numbers(*shape)), function(torch.empty(shape, dtype=torch.float64, device="meta"))
    assert meta.is_meta and meta.shape == real.shape and meta.stride() == real.stride()


def test_writing_into_a_view_changes_the_base_and_its_history():
    x = numbers(2, 3).requires_grad_()
    y = x * 1
    y.t()[0].mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [[3, 1, 1], [3, 1, 1]]


@pytest.mark.parametrize("shape", [(4, 3), (2, 2, 3), (12,), (3, 4), (1, 4, 1, 3), (2, 6)])
def test_view_obeys_the_stride_rule(shape):
    x = numbers(3, 2, 2).permute(1, 2, 0)  # (2, 2, 3): the first two dimensions follow one another
    allowed = view_strides(x.shape, x.stride(), shape)
    if allowed is None:
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            x.view(shape)
        assert np.array_equal(x.reshape(shape).numpy(), x.numpy().reshape(shape))
    else:
        assert np.array_equal(x.view(shape).numpy(), x.numpy().reshape(shape))
        assert np.shares_memory(x.view(shape).numpy(), x.numpy())


def test_reshape_copies_only_where_it_must():
    x = numbers(3, 4)
    assert np.shares_memory(x.reshape(2, 6).numpy(), x.numpy())
    assert not np.shares_memory(x.t().reshape(2, 6).numpy(), x.numpy())


def test_large_transposed_copies():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex128):
        x = torch.arange(300 * 401).reshape(300, 401).to(dtype)
        y = x.t().contiguous()
        assert y.is_contiguous() and torch.equal(y.t(), x)
        assert torch.equal(x.t().reshape(-1), y.reshape(-1))


ERRORS = [
    (lambda x: x.view(5), RuntimeError, "is invalid for input of size"),
    (lambda x: x.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda x: x.view(-2, 12), RuntimeError, "invalid shape dimension"),
    (lambda x: x.reshape(-2, 12), RuntimeError, "invalid shape dimension"),
    (lambda x: x.view(), TypeError, "view"),
    (lambda x: x.reshape(2.0, 3), TypeError, "int"),
    (lambda x: x.permute(0, 1), RuntimeError, "number of dimensions"),
    (lambda x: x.permute(0, 0, 1), RuntimeError, "duplicate dims"),
    (lambda x: x.transpose(0, 3), IndexError, "Dimension out of range"),
    (lambda x: x.unsqueeze(5), IndexError, "Dimension out of range"),
    (lambda x: x.squeeze(4), IndexError, "Dimension out of range"),
    (lambda x: x.t(), RuntimeError, "expects a tensor with <= 2 dimensions"),
    (lambda x: x.expand(3, 3, 4), RuntimeError, "must match the existing size"),
    (lambda x: x.expand(3, 4), RuntimeError, "number of sizes provided"),
    (lambda x: x.expand(-1, 2, 3, 4), RuntimeError, "isn't allowed in a leading"),
    (lambda x: x.select(0, 2), IndexError, "out of range"),
    (lambda x: x.narrow(0, 1, 2), RuntimeError, "exceeds dimension size"),
    (lambda x: x.narrow(0, 3, 0), IndexError, "start out of range"),
    (lambda x: x.narrow(0, 0, -1), RuntimeError, "non-negative"),
    (lambda x: x.diagonal(0, 1, 1), RuntimeError, "cannot be identical"),
    (lambda x: x.unfold(2, 5, 1), RuntimeError, "maximum size"),
    (lambda x: x.unfold(2, 2, 0), RuntimeError, "step is 0"),
    (lambda x: x.split([1, 2], 2), RuntimeError, "sum exactly"),
    (lambda x: x.chunk(0), RuntimeError, "greater than 0"),
    (lambda x: x.as_strided((2,), (1,), 100), RuntimeError, "out of bounds"),
    (lambda x: x.as_strided((2,), (-1,)), RuntimeError, "Negative strides"),
    (lambda x: x.imag, RuntimeError, "non-complex"),
    (lambda x: torch.view_as_real(x), RuntimeError, "complex"),
    (lambda x: torch.view_as_complex(x), RuntimeError, "size 2"),
    (lambda x: x.H, RuntimeError, "only supported on matrices"),
    (lambda x: x.contiguous(memory_format=torch.channels_last), RuntimeError, "rank 4"),
    (lambda x: x.unflatten(2, (3, 2)), RuntimeError, "don't multiply up"),
    (lambda x: torch.movedim(x, (0, 1), (1, 1)), RuntimeError, "repeated dim"),
    (lambda x: torch.reshape([1.0], (1,)), TypeError, "Tensor"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    function, kind, text = ERRORS[number]
    with pytest.raises(kind, match=text):
        function(numbers(2, 3, 4))


def test_view_as_another_dtype():
    x = torch.tensor([1.0, 2.0])
    assert x.view(torch.int32).tolist() == [1065353216, 1073741824]
    assert x.view(torch.int16).shape == (4,) and x.view(torch.float64).shape == (1,)
    x.view(torch.int32)[0] = 0
    assert x.tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="divisible by 2"):
        torch.zeros(3).view(torch.float64)
    with pytest.raises(RuntimeError, match=r"stride\(-1\) must be 1"):
        torch.zeros(2, 3).t().view(torch.float16)


def test_strides_of_expand_and_unsqueeze():
    x = numbers(2, 3).t()
    assert x.unsqueeze(0).stride() == (3, 1, 3)
    assert numbers(3, 1).expand(2, 3, 4).stride() == (0, 1, 0)
    assert torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).stride() == (60, 1, 15, 3)


def test_memory_formats():
    x = numbers(2, 3, 4, 5)
    y = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, y) and not y.is_contiguous() and y.is_contiguous(memory_format=torch.channels_last)
    assert y.contiguous(memory_format=torch.channels_last) is y
    assert x.contiguous() is x and y.contiguous().is_contiguous()
    assert repr(torch.channels_last) == "torch.channels_last" and repr(torch.strided) == "torch.strided"


def test_as_strided_bounds_and_offsets():
    x = numbers(10)
    part = x[2:6]
    assert part.storage_offset() == 2
    assert part.as_strided((8,), (1,)).tolist() == list(range(2, 10))
    assert part.as_strided((2,), (1,), 0).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="out of bounds"):
        part.as_strided((9,), (1,))


def test_as_strided_derivative_of_overlapping_windows_of_a_view():
    x = numbers(10).requires_grad_()
    assert gradcheck(lambda x: x[2:8].as_strided((2, 3), (1, 2), 2), (x,))
    y = x.expand(2, 10)
    assert gradcheck(lambda x: (x * 1).expand(2, 10).as_strided((4,), (2,)), (x,))
    y.as_strided((5,), (2,)).sum().backward()
    assert x.grad.tolist() == [1, 0] * 5


def test_complex_parts_are_views():
    z = torch.tensor([1 + 2j, 3 + 4j], dtype=torch.complex128)
    z.real[0] = 9
    z.imag[1] = 8
    assert z.tolist() == [9 + 2j, 3 + 8j]
    assert torch.view_as_real(z).tolist() == [[9, 2], [3, 8]]
    assert torch.view_as_complex(torch.view_as_real(z)).data_ptr() == z.data_ptr()
    assert torch.view_as_real(torch.tensor(1j)).tolist() == [0, 1]
    z = z.clone().requires_grad_()
    assert gradcheck(lambda z: torch.view_as_real(z * 2)[..., 1], (z,))
    assert z.conj().tolist() == [9 - 2j, 3 - 8j] and z.t().H.shape == (2,) if z.dim() == 2 else True


def test_changing_strides_in_place():
    x = numbers(2, 3)
    assert x.t_() is x and x.shape == (3, 2) and x.stride() == (1, 3)
    assert x.unsqueeze_(0).shape == (1, 3, 2) and x.squeeze_(0).transpose_(0, 1).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.as_strided_((2,), (3,)).tolist() == [0, 3]
    w = numbers(2, 3).requires_grad_()
    y = w * 2
    y.t_()
    (y * torch.tensor([1.0, 2.0], dtype=torch.float64)).sum().backward()
    assert w.grad.tolist() == [[2, 2, 2], [4, 4, 4]]
    with pytest.raises(RuntimeError, match="leaf"):
        w.t_()


def test_views_taken_before_a_change_in_place_still_lead_back():
    w = numbers(2, 3).requires_grad_()
    y = w * 1
    row = y[0]
    y.t_()
    row.mul_(5)
    y.sum().backward()
    assert w.grad.tolist() == [[5, 5, 5], [1, 1, 1]]


def test_resize():
    x = numbers(4)
    view = x[1:]
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]] and view.tolist() == [1, 2, 3]
    assert x.resize_(6).tolist()[:4] == [0, 1, 2, 3]
    assert x.resize_as_(torch.zeros(1, 1)).shape == (1, 1)
    with pytest.raises(RuntimeError, match="require grad"):
        torch.zeros(2).requires_grad_().resize_(3)


def test_copies_of_views_do_not_share():
    x = numbers(2, 3)
    for made in (torch.t_copy(x), torch.view_copy(x, (6,)), torch.narrow_copy(x, 1, 0, 2), torch.unbind_copy(x)[0]):
        assert not np.shares_memory(made.numpy(), x.numpy())
    out = torch.empty(0, dtype=torch.float64)
    assert torch.transpose_copy(x, 0, 1, out=out) is out and out.shape == (3, 2)


def test_scatter_forms():
    x = torch.zeros(2, 3, dtype=torch.float64)
    assert torch.select_scatter(x, torch.ones(3), 0, 1).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert torch.slice_scatter(x, torch.ones(2, 1), 1, 1, 2).tolist() == [[0, 1, 0], [0, 1, 0]]
    assert torch.diagonal_scatter(x, torch.ones(2)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert torch.as_strided_scatter(x, torch.ones(2), (2,), (2,), 1).tolist() == [[0, 1, 0], [1, 0, 0]]
    w, s = numbers(3, 3).requires_grad_(), numbers(3).requires_grad_()
    assert gradcheck(lambda w, s: torch.diagonal_scatter(w, s), (w, s))
    assert gradcheck(lambda w, s: torch.as_strided_scatter(w, s, (3,), (2,), 1), (w, s))
    with pytest.raises(RuntimeError, match="expected src"):
        torch.select_scatter(x, torch.ones(2), 0, 1)


def test_split_pieces_cover_the_dimension():
    x = numbers(7, 2)
    assert [p.shape[0] for p in x.split(3)] == [3, 3, 1]
    assert [p.shape[0] for p in x.chunk(4)] == [2, 2, 2, 1]
    assert [p.shape[0] for p in x.tensor_split(3)] == [3, 2, 2]
    assert torch.cat(x.split([1, 4, 2])).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="multiple views"):
        (numbers(4).requires_grad_() * 1).split(2)[0].mul_(2)


def test_views_of_nothing():
    x = torch.zeros(0, 3)
    assert x.view(3, 0).shape == (3, 0) and x.t().reshape(-1).shape == (0,) and x.expand(2, 0, 3).shape == (2, 0, 3)
    with pytest.raises(RuntimeError, match="ambiguous"):
        x.view(0, -1)
    assert torch.tensor(3.0).flatten().shape == (1,) and torch.tensor(3.0).expand(2).tolist() == [3, 3]


def test_names_of_arguments_that_numpy_has():
    x = numbers(2, 3)
    assert torch.unsqueeze(x, axis=1).shape == x.unsqueeze(axis=1).shape == (2, 1, 3)
    assert torch.stack([x], axis=1).shape == (2, 1, 3) and torch.sum(x, axis=0, keepdims=True).shape == (1, 3)
    assert len(x.chunk(3, axis=1)) == len(x.unbind(axis=1)) == len(x.split(split_size=1, axis=1)) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.movedim((), ()),
        lambda x: torch.einsum("...->...", x),
        lambda x: x.permute(tuple(range(x.dim()))),
        lambda x: x[...],
    ],
)
def test_views_that_change_nothing_are_tensors_of_their_own(call):
    for x in (torch.tensor(1.0), torch.ones(2, 3)):
        for _ in range(3):  # by plans, too
            view = call(x)
            assert view is not x and view._is_view() and view.data_ptr() == x.data_ptr()
        x.data = x.data * 2
        assert (view == 1).all()


def test_the_adjoint_of_a_number_is_itself():
    x = torch.tensor(1.0)
    assert x.adjoint() is x
