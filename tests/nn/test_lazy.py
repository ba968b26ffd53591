"""Lazy modules, and parameters and buffers without a shape."""

import copy
import pickle

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.parameter import is_lazy


def test_first_call_gives_the_shape():
    m = nn.LazyLinear(3)
    assert m.has_uninitialized_params() and repr(m.weight) == "<UninitializedParameter>"
    m.double()
    assert m(torch.ones(2, 5, dtype=torch.float64)).shape == (2, 3)
    assert type(m) is nn.Linear and type(m.weight) is nn.Parameter and m.weight.shape == (3, 5)
    assert m.weight.dtype is torch.float64 and m.in_features == 5
    assert not m._forward_pre_hooks and not m._load_state_dict_pre_hooks


def test_shape_from_a_state_dict():
    m = nn.LazyLinear(3)
    m.load_state_dict(nn.Linear(4, 3).state_dict())
    assert m.weight.shape == (3, 4) and type(m) is nn.LazyLinear
    m(torch.ones(1, 4))
    assert type(m) is nn.Linear
    lazy = nn.LazyLinear(3)
    lazy.load_state_dict(nn.LazyLinear(3).state_dict())
    assert lazy.has_uninitialized_params()
    with pytest.raises(RuntimeError):
        nn.Linear(4, 3).load_state_dict(lazy.state_dict())


def test_copies_are_lazy_too():
    m = nn.LazyLinear(3)
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert twin.has_uninitialized_params()
        assert twin(torch.ones(1, 2)).shape == (1, 3) and type(twin) is nn.Linear
    assert m.has_uninitialized_params()


class Growing(LazyModuleMixin, nn.Module):
    cls_to_become = None

    def __init__(self):
        super().__init__()
        self.weight = nn.UninitializedParameter()
        self.register_buffer("total", nn.UninitializedBuffer())

    def initialize_parameters(self, x):
        if x.ndim > 1:
            self.weight.materialize(x.shape[1:])
            self.total.materialize(x.shape[1:])

    def forward(self, x):
        return x * self.weight


def test_own_lazy_module():
    m = Growing()
    assert is_lazy(m.weight) and is_lazy(m.total) and list(m.state_dict()) == ["weight", "total"]
    with pytest.raises(RuntimeError, match="has not been fully initialized"):
        m(torch.ones(3))
    assert m(torch.ones(2, 3)).shape == (2, 3) and m.total.shape == (3,) and type(m) is Growing
    assert m.weight.requires_grad and not m.total.requires_grad


def test_states_of_modules_without_shapes():
    m = nn.LazyBatchNorm1d()
    for kept in (m.state_dict(), m.state_dict(keep_vars=True)):  # what has no shape cannot be detached
        assert kept["weight"] is m.weight and kept["running_mean"] is m.running_mean
        assert kept["num_batches_tracked"].item() == 0
    m(torch.ones(3, 2))
    plain, whole = m.state_dict(), m.state_dict(keep_vars=True)
    assert plain["weight"] is not m.weight and not plain["weight"].requires_grad and whole["weight"] is m.weight
    assert plain["running_mean"] is not m.running_mean and whole["running_mean"] is m.running_mean

    class Partly(Growing):
        """It has a shape of its own beside those that wait."""

        def __init__(self):
            super().__init__()
            self.register_buffer("known", torch.ones(2))

    m = Partly()
    assert m.state_dict()["known"] is not m.known and m.state_dict(keep_vars=True)["known"] is m.known


def test_uninitialized_tensors():
    p = nn.UninitializedParameter(requires_grad=False, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="uninitialized"):
        p.shape  # noqa: B018
    with pytest.raises(ValueError, match="uninitialized parameter"):
        p + 1
    with pytest.raises(RuntimeError, match="share memory"):
        p.share_memory_()
    p.materialize((2, 3))
    assert type(p) is nn.Parameter and p.shape == (2, 3) and p.dtype is torch.float64 and not p.requires_grad
    b = nn.UninitializedBuffer()
    b.materialize((2,), dtype=torch.float16)
    assert type(b) is torch.Tensor and isinstance(b, nn.Buffer) and b.dtype is torch.float16
    with pytest.raises(NotImplementedError):
        LazyModuleMixin.initialize_parameters(Growing(), 1)
    with pytest.raises(RuntimeError, match="DataParallel"):
        Growing()._replicate_for_data_parallel()
