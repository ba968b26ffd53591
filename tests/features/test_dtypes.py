"""Data types: sizes, defaults, casts, promotion and the limits of half precision."""

import pytest

import flambeau as torch
from flambeau import nn


@pytest.mark.parametrize(
    "name, alias, size",
    [
        ("float32", "float", 4), ("float64", "double", 8), ("float16", "half", 2), ("bfloat16", "bfloat16", 2),
        ("int64", "long", 8), ("int32", "int", 4), ("uint8", "uint8", 1), ("int8", "int8", 1), ("bool", "bool", 1),
    ],
)  # fmt: skip
def test_sizes_and_aliases(name, alias, size):
    kind = getattr(torch, name)
    assert getattr(torch, alias) is kind
    assert torch.zeros(3, dtype=kind).element_size() == size


def test_complex_tensors_may_require_grad():
    assert torch.tensor([1 + 2j], requires_grad=True).requires_grad


@pytest.mark.parametrize("data", [[1, 2], [True]])
def test_integers_and_bools_cannot(data):
    with pytest.raises(RuntimeError):
        torch.tensor(data, requires_grad=True)


def test_default_dtype():
    assert torch.get_default_dtype() is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor([1.0]).dtype is torch.float64
        assert torch.randn(2).dtype is torch.float64
        assert nn.Linear(2, 2).weight.dtype is torch.float64
        assert nn.Linear(2, 2)(torch.randn(1, 2)).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_casts():
    x = torch.tensor([1.9, -1.9])
    assert x.to(torch.int32).tolist() == [1, -1] and x.long().dtype is torch.int64
    kinds = [x.half(), x.bfloat16(), x.double(), x.double().float()]
    assert [t.dtype for t in kinds] == [torch.float16, torch.bfloat16, torch.float64, torch.float32]
    assert x.dtype is torch.float32


def test_promotion():
    half, single = torch.ones(2, dtype=torch.float16), torch.ones(2)
    assert (half + single).dtype is torch.float32
    assert (half * 2.5).dtype is torch.float16
    assert (torch.tensor([1]) * 2.5).dtype is torch.float32
    assert (torch.tensor([True]) + 1).dtype is torch.int64


def test_matrix_products_refuse_mixed_types():
    with pytest.raises(RuntimeError):
        torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float16)
    with pytest.raises(RuntimeError):
        nn.Linear(2, 2)(torch.ones(1, 2, dtype=torch.float64))


def test_what_half_precision_loses():
    assert torch.tensor(1e-8).half() == 0 and torch.tensor(1e-8).bfloat16() != 0
    assert torch.tensor(1 + 0.0004).half() == 1 and torch.tensor(1 + 0.0004).bfloat16() == 1


def test_range_of_bfloat16():
    big = torch.tensor(1e30)
    assert torch.isinf(big.half()) and torch.isfinite(big.bfloat16())
    half, brain, single = (torch.finfo(d) for d in (torch.float16, torch.bfloat16, torch.float32))
    assert half.max == 65504 and brain.max > 1e38
    assert brain.eps > half.eps > single.eps
