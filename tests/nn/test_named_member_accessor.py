"""Tensors of modules by their names: taken out, put in, exchanged."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import _named_member_accessor as accessor


def _module():
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2))
    module.register_buffer("mean", torch.zeros(2))
    module.register_buffer("nothing", None)
    module.plain = torch.full((2,), 5.0)
    return module


def test_exchange():
    module, new = _module(), torch.full((2,), 7.0)
    for name in ("weight", "mean", "plain"):
        before = getattr(module, name)
        assert accessor.swap_tensor(module, name, new) is before
        assert getattr(module, name) is new
        assert accessor.swap_tensor(module, name, before) is new and getattr(module, name) is before
    assert accessor.swap_tensor(module, "nothing", new) is None and module.nothing is new
    assert accessor.swap_tensor(module, "weight", None).tolist() == [1, 1] and module.weight is None
    assert module._parameters["weight"] is None


def test_what_is_not_there():
    module, new = _module(), torch.ones(1)
    with pytest.raises(AttributeError, match="has no attribute `other`"):
        accessor.swap_tensor(module, "other", new)
    assert not isinstance(accessor.swap_tensor(module, "other", new, allow_missing=True), torch.Tensor)
    assert module.other is new
    for name in ("", "a.b"):
        with pytest.raises(KeyError, match="nor be empty"):
            accessor.swap_tensor(module, name, new)
    with pytest.raises(TypeError, match=r"is not an instance of torch\.nn\.Module"):
        accessor.swap_tensor(3, "weight", new)
    with pytest.raises(TypeError, match=r"is not an instance of torch\.Tensor"):
        accessor.swap_tensor(module, "weight", 3)
