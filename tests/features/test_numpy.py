"""The bridge to NumPy."""

import pickle

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


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.bool_, np.complex64])
def test_from_numpy_of_an_unpickled_array(kind):
    array = pickle.loads(pickle.dumps(np.array([0, 1, 1, 0]).astype(kind)))
    array = array.view(
        pickle.loads(pickle.dumps(np.dtype(kind).newbyteorder("S").newbyteorder("S")))
    )  # not the canonical dtype
    assert array.dtype is not np.dtype(kind)
    t = torch.from_numpy(array)
    assert t.dtype is torch.from_numpy(np.zeros(1, kind)).dtype
    assert (t + t).tolist() == torch.from_numpy(np.array([0, 1, 1, 0]).astype(kind)).add(t).tolist()
    assert torch.equal(t, torch.tensor([0, 1, 1, 0]).to(t.dtype))
    assert torch.tensor(array).dtype is t.dtype and torch.as_tensor(array).data_ptr() == t.data_ptr()
    assert (t.sum().item(), t.reshape(2, 2).T.tolist()) == (2, t.reshape(2, 2).t().tolist())
