"""Copies of tensors as Python objects: copy, deepcopy and pickling keep what is shared shared."""

import copy
import pickle
import weakref

import pytest

import flambeau as torch


class Marked(torch.Tensor):
    pass


def _pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("again", [_pickled, copy.deepcopy])
def test_views_stay_views(again):
    base = torch.arange(6.0)
    base2, part = again([base, base[2:4]])
    base2[2] = 9
    assert part.tolist() == [9.0, 3.0]
    assert part.storage_offset() == 2
    assert base[2] == 2


@pytest.mark.parametrize("again", [_pickled, copy.deepcopy])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8])
def test_strides_and_dtypes_are_kept(again, dtype):
    x = torch.ones(2, 3, dtype=dtype).t()
    y = again(x)
    assert y.stride() == (1, 3) and y.dtype is dtype and y.shape == (3, 2)
    assert again(torch.ones(3).expand(2, 3)).stride() == (0, 1)
    assert again(torch.empty(3, device="meta")).is_meta


@pytest.mark.parametrize("again", [_pickled, copy.deepcopy])
def test_classes_and_attributes(again):
    x = torch.ones(2).as_subclass(Marked)
    x.note = [1]
    y = again(x)
    assert type(y) is Marked and y.note == [1] and y.note is not x.note
    leaf = torch.ones(2, requires_grad=True)
    assert again(leaf).requires_grad


def test_parameters():
    p = torch.nn.Parameter(torch.ones(2))
    q = _pickled(p)
    assert type(q) is torch.nn.Parameter and q.requires_grad
    frozen = copy.deepcopy(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert type(frozen) is torch.nn.Parameter and not frozen.requires_grad
    assert isinstance(torch.nn.Parameter(torch.ones(2).as_subclass(Marked)), torch.nn.Parameter)
    a, b = copy.deepcopy([p, p])
    assert a is b and a is not p


def test_deepcopy_copies_gradients_of_leaves_only():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), 3.0)
    y = copy.deepcopy(x)
    assert y.grad.tolist() == [3.0, 3.0] and y.grad is not x.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_copy_shares_memory():
    x = torch.zeros(2)
    y = copy.copy(x)
    y[0] = 1
    assert x[0] == 1


def test_data_and_its_tensor_stay_shared():
    x = torch.zeros(2)
    a, b = _pickled((x, x.data))
    a[0] = 1
    assert b[0] == 1


def test_weak_references():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    gone = weakref.ref(y)
    z = y.exp()
    del y, z
    assert gone() is None


def test_generators():
    g = torch.Generator().manual_seed(5)
    torch.rand(3, generator=g)
    again = _pickled(g)
    assert torch.equal(torch.rand(3, generator=g), torch.rand(3, generator=again))


def test_memory_of_a_tensor_that_was_resized_is_nobody_elses():
    kept = []
    for i in range(50):
        old = torch.full((37,), float(i))
        pickle.dumps(old)
        old.resize_(5000 + i)  # its first memory is free again
        kept.append(old)
        new = torch.full((37,), -1.0)
        assert pickle.loads(pickle.dumps(new)).tolist() == [-1.0] * 37
        assert pickle.loads(pickle.dumps(old))[0] == i
