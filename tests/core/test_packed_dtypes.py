"""Dtypes of packed bits: memory of them is kept, moved and seen as bytes; nothing computes with them."""

import pickle

import pytest

import flambeau as torch

NAMES = [*(f"{sign}int{n}" for sign in ("", "u") for n in range(1, 8)), "bits8", "bits1x8", "bits2x4", "bits4x2"]


@pytest.mark.parametrize("name", [*NAMES, "float4_e2m1fn_x2", "bits16"])
def test_they_are_kept(name):
    d = getattr(torch, name)
    assert repr(d) == f"torch.{name}" and pickle.loads(pickle.dumps(d)) is d
    assert d.itemsize == (2 if name == "bits16" else 1)
    assert d.is_floating_point == name.startswith("float")
    data = torch.arange(8, dtype=torch.uint8)
    t = data.view(d)
    assert t.dtype is d and t.reshape(2, -1).dtype is d and t[1:].dtype is d
    assert t.view(torch.uint8).tolist() == data.tolist()
    assert torch.cat([t, t]).view(torch.uint8).tolist() == data.tolist() * 2
    assert torch.empty(3, dtype=d).element_size() == d.itemsize


@pytest.mark.parametrize("name", NAMES)
def test_nothing_computes_with_them(name):
    t = torch.arange(4, dtype=torch.uint8).view(getattr(torch, name))
    for call in (lambda: t + t, lambda: t.sum(), lambda: t.to(torch.float32), lambda: torch.ones(3).to(t.dtype)):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(TypeError):
        torch.iinfo(t.dtype)


def test_the_old_name_of_one_bit():
    assert torch.bit is torch.uint1
