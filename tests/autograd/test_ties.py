"""Gradients where several elements are the result."""

import pytest

import flambeau as torch


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_the_median_of_all_shares_its_gradient(name):
    x = torch.tensor([[1.0, 2.0, 2.0], [2.0, 3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    getattr(torch, name)(x).backward()
    assert torch.allclose(x.grad, torch.tensor([[0, 1, 1], [1, 0, 0]], dtype=torch.float64) / 3)


def test_the_median_along_a_dimension_has_one_place():
    x = torch.tensor([[1.0, 2.0, 2.0, 2.0, 3.0]], requires_grad=True)
    values, places = x.median(1)
    values.sum().backward()
    assert x.grad.sum().item() == 1.0 and x.grad[0, places.item()].item() == 1.0


def test_a_missing_median():
    x = torch.tensor([1.0, float("nan"), float("nan")], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
