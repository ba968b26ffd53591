"""Behaviour that published client libraries rely on, without needing those libraries."""

import flambeau as torch


def test_masked_write_of_values_with_history_into_a_plain_tensor():
    mask = torch.tensor([[True, False], [True, True]])
    source = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    target = torch.zeros(2, 2)
    target[mask] = 2 * source[mask]
    assert target.tolist() == [[2.0, 0.0], [6.0, 8.0]]
    target.sum().backward()
    assert source.grad.tolist() == [[2.0, 0.0], [2.0, 2.0]]
