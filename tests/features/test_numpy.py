"""The bridge to NumPy."""

import numpy as np
import pytest

import flambeau as torch


def test_from_numpy_shares_memory_both_ways():
    array = np.array([1.0, 2.0, 3.0])
    t = torch.from_numpy(array)
    array[0] = 99
    assert t[0] == 99 and t.dtype is torch.float64
    t[1] = -1
    assert array[1] == -1
    assert repr(t[0]) == "tensor(99., dtype=torch.float64)"


def test_numpy_shares_memory():
    t = torch.zeros(3)
    for array in (t.numpy(), np.asarray(t)):
        array += 1
    assert t.tolist() == [2, 2, 2] and t.numpy().dtype == np.float32


def test_tensor_copies():
    array = np.zeros(2)
    t = torch.tensor(array)
    array[0] = 1
    assert t.tolist() == [0, 0]


def test_tracked_tensors_refuse():
    t = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        t.numpy()
    assert t.detach().numpy().tolist() == [1, 1]


def test_a_copy_ends_the_link():
    array = np.zeros(2)
    t = torch.from_numpy(array).clone()
    array[0] = 1
    assert t[0] == 0
