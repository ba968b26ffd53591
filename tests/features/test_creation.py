"""Tensor creation and attributes: what a beginner's first page shows."""

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn


def test_tensor_infers_dtypes_and_copies():
    assert torch.tensor([1, 2]).dtype is torch.int64
    assert torch.tensor([[1.0], [2]]).dtype is torch.float32
    assert torch.tensor([True]).dtype is torch.bool
    array = np.zeros(2)
    t = torch.tensor(array)
    array[0] = 5
    assert t.tolist() == [0, 0] and t.dtype is torch.float64
    assert repr(torch.tensor(3)) == "tensor(3)"


def test_class_constructor_takes_sizes_or_data():
    assert torch.Tensor(3).shape == (3,)
    assert torch.Tensor(3, 4).shape == (3, 4)
    t = torch.Tensor([1, 2])
    assert t.dtype is torch.float32 and t.tolist() == [1, 2]
    assert torch.FloatTensor([1]).dtype is torch.float32
    assert isinstance(t, torch.FloatTensor)


@pytest.mark.parametrize("name, kind", [("ByteTensor", "uint8"), ("BoolTensor", "bool")])
def test_masks_take_one_byte(name, kind):
    t = getattr(torch, name)([1, 0])
    assert t.dtype is getattr(torch, kind) and t.element_size() == 1


def test_as_tensor_keeps_memory():
    array = np.zeros(2)
    t = torch.as_tensor(array)
    array[0] = 7
    assert t[0] == 7
    assert torch.as_tensor(t) is t


def test_filled_tensors():
    assert torch.zeros(3, 4).shape == (3, 4) and not torch.zeros(3, 4).any()
    assert torch.ones(2, dtype=torch.int64).dtype is torch.int64
    assert torch.empty(2, 3).shape == (2, 3)
    assert torch.full((2,), 7.5).tolist() == [7.5, 7.5]
    assert torch.eye(3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    like = torch.zeros_like(torch.ones(2, dtype=torch.int32))
    assert like.dtype is torch.int32 and like.tolist() == [0, 0]


def test_ranges():
    assert torch.arange(0, 10, 2).tolist() == [0, 2, 4, 6, 8]
    assert torch.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_random_tensors():
    torch.manual_seed(0)
    uniform, normal = torch.rand(20000), torch.randn(20000)
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.03 and abs(normal.var() - 1) < 0.05
    assert set(torch.randint(0, 3, (100,)).tolist()) == {0, 1, 2}
    assert sorted(torch.randperm(50).tolist()) == list(range(50))


def test_shape_is_a_tuple():
    t = torch.zeros(3, 4)
    assert str(t.shape) == "torch.Size([3, 4])" and isinstance(t.shape, tuple) and isinstance(t.shape, torch.Size)
    assert t.size() == t.shape and t.size(1) == 4


def test_ranks():
    assert torch.tensor(7).ndim == 0 and torch.tensor(7).shape == ()
    images = torch.zeros(64, 3, 2, 2)
    assert images.dim() == images.ndim == 4 and images.numel() == 768 and len(images) == 64


def test_every_tensor_has_six_attributes():
    t = torch.ones(2, requires_grad=True)
    assert (t.dtype, t.device.type, t.requires_grad, t.grad, t.grad_fn, t.is_leaf) == (
        torch.float32, "cpu", True, None, None, True,
    )  # fmt: skip
    made = t * 2
    assert made.requires_grad and not made.is_leaf and made.grad_fn is not None


def test_python_numbers():
    t = torch.tensor([2.5])
    assert (t.item(), float(t), int(t), bool(t)) == (2.5, 2.5, 2, True)
    assert torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    for convert in (torch.Tensor.item, float, int, bool):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            convert(torch.zeros(2))


def test_printing():
    assert repr(torch.tensor([4.0, 6.0])) == "tensor([4., 6.])"
    x = torch.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr((x * 2).sum()) == "tensor(2., grad_fn=<SumBackward0>)"
    assert repr((x * 2).mean()) == "tensor(2., grad_fn=<MeanBackward0>)"


def test_format_of_scalars():
    assert f"{torch.tensor([3.0, 4.0]).norm():.6f}" == "5.000000"
    assert f"{torch.tensor(7):,}" == "7"


def test_memory_attributes():
    t = torch.arange(6.0)
    assert t.element_size() == 4
    assert t[2:].data_ptr() == t.data_ptr() + 8 and t[2:].storage_offset() == 2
    assert t.view(2, 3).data_ptr() == t.data_ptr()
    assert t[2:].untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    assert t.untyped_storage().nbytes() == 24


def test_layers_demand_their_rank():
    with pytest.raises(RuntimeError):
        nn.Conv2d(3, 4, 3)(torch.zeros(3, 4))
