"""Tensors with a mask: what they print, compute and refuse, as observed on PyTorch."""

import copy
import math

import pytest

import flambeau as torch
from flambeau.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

DATA = torch.arange(6.0).reshape(2, 3) + 1
MASK = torch.tensor([[True, False, True], [False, False, True]])


def _make():
    return masked_tensor(DATA, MASK)


def test_printing():
    assert repr(_make()) == (
        "MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n    [      --,       --,   6.0000]\n  ]\n)"
    )
    assert repr(masked_tensor(DATA.long()[0], MASK[0])) == "MaskedTensor(\n  [1,       --, 3]\n)"
    assert repr(_make().sum()) == "MaskedTensor( 10.0000, True)"
    assert repr(masked_tensor(torch.tensor(1.0), torch.tensor(False))) == "MaskedTensor(--, False)"


def _seen(result):
    assert is_masked_tensor(result)
    return result.to_tensor(-9).tolist()


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda x: -x, [[-1, -9, -3], [-9, -9, -6]]),
        (lambda x: torch.floor(x / 2), [[0, -9, 1], [-9, -9, 3]]),
        (lambda x: +x, [[1, -9, 3], [-9, -9, 6]]),
        (lambda x: (x / 12).logit(), [[math.log(1 / 11), -9, math.log(1 / 3)], [-9, -9, 0]]),
        (lambda x: x.unfold(1, 2, 1)[0], [[1, -9], [-9, 3]]),
        (lambda x: x * x, [[1, -9, 9], [-9, -9, 36]]),
        (lambda x: 2 * x, [[2, -9, 6], [-9, -9, 12]]),
        (lambda x: x + DATA, [[2, -9, 6], [-9, -9, 12]]),
        (lambda x: x.clamp(2, 4), [[2, -9, 3], [-9, -9, 4]]),
        (lambda x: x.clone().add_(x), [[2, -9, 6], [-9, -9, 12]]),
        (lambda x: x.sum(1), [4, 6]),
        (lambda x: x.sum(0), [1, -9, 9]),
        (lambda x: x.mean(dim=0, keepdim=True), [[1, -9, 4.5]]),
        (lambda x: x.prod(), 18),
        (lambda x: x.amin(1), [1, 6]),
        (lambda x: torch.amax(x, 0), [1, -9, 6]),
        (lambda x: x.argmax(1), [2, 2]),
        (lambda x: x.t(), [[1, -9], [-9, -9], [3, 6]]),
        (lambda x: x[1], [-9, -9, 6]),
        (lambda x: torch.cat([x, x]), [[1, -9, 3], [-9, -9, 6], [1, -9, 3], [-9, -9, 6]]),
        (lambda x: torch.where(DATA > 3, x, x * 2), [[2, -9, 6], [-9, -9, 6]]),
        (lambda x: torch.ones_like(x), [[1, -9, 1], [-9, -9, 1]]),
        (lambda x: x.double(), [[1, -9, 3], [-9, -9, 6]]),
    ],
)
def test_operations(compute, expected):
    torch.testing.assert_close(
        torch.tensor(_seen(compute(_make())), dtype=torch.float32), torch.tensor(expected, dtype=torch.float32)
    )


def test_truth_and_softmax():
    some = masked_tensor(torch.tensor([True, False]), torch.tensor([False, True]))
    assert not some._is_any_true().get_data() and (~some)._is_any_true().get_data()
    assert bool(_make().all()) is True
    made = torch.softmax(_make(), 1)
    torch.testing.assert_close(made.to_tensor(0.0).sum(1), torch.ones(2))
    assert made.get_mask() is not None and torch.equal(made.get_mask(), MASK)


def test_gradients_reach_what_counts():
    x = masked_tensor(DATA, MASK, requires_grad=True)
    x.exp().sum().backward()
    assert is_masked_tensor(x.grad)
    torch.testing.assert_close(x.grad.to_tensor(0.0), DATA.exp() * MASK)
    data = DATA.clone().requires_grad_()
    as_masked_tensor(data, MASK).mean().backward()
    torch.testing.assert_close(data.grad, MASK / 3)
    data = DATA.clone().requires_grad_()
    as_masked_tensor(data, MASK).prod(1).sum().backward()
    assert data.grad.tolist() == [[3, 0, 1], [0, 0, 1]]


def test_data_is_a_copy_and_copies_are_masked():
    data = DATA.clone()
    made = masked_tensor(data, MASK)
    data.zero_()
    assert made.sum().item() == 10
    again = copy.deepcopy(made)
    assert isinstance(again, MaskedTensor) and torch.equal(again.get_mask(), MASK)


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: _make() + masked_tensor(DATA, ~MASK), ValueError, "Input masks must match"),
        (lambda: masked_tensor(DATA, MASK[0]), ValueError, "must equal mask.dim"),
        (lambda: masked_tensor(DATA, MASK[:, :2]), ValueError, "must equal mask.size"),
        (lambda: masked_tensor(DATA, DATA), TypeError, "mask must have dtype bool"),
        (lambda: masked_tensor([1.0], MASK), TypeError, "data must be a Tensor"),
        (lambda: _make() @ _make().t(), TypeError, "unsupported operand"),
        (lambda: torch.nn.functional.layer_norm(_make(), (3,)), TypeError, "no implementation"),
    ],
)
def test_refusals(use, kind, text):
    with pytest.raises(kind, match=text):
        use()


def test_a_copy_of_what_has_a_history_warns():
    x = DATA.clone().requires_grad_()
    with pytest.warns(UserWarning, match="not recommended to create a MaskedTensor"):
        assert not masked_tensor(x, MASK).requires_grad
    as_masked_tensor(x, MASK).sum().backward()
    assert x.grad.tolist() == MASK.float().tolist()
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        masked_tensor(DATA.long(), MASK, requires_grad=True)
