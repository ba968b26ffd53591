"""What nodes kept, by PyTorch's names, and hooks on single saved tensors."""

import pytest

import flambeau as torch


def leaf():
    return torch.tensor([2.0, 3.0], requires_grad=True)


def test_values():
    x = leaf()
    node = (x * 5.0 * x).grad_fn
    assert node._saved_self.tolist() == [10.0, 15.0] and node._saved_other is x
    y = x.exp()
    assert torch.equal(y.grad_fn._saved_result, y)
    assert x.cumsum(0).grad_fn._saved_dim == 0
    with pytest.raises(AttributeError, match="_saved_nothing"):
        assert node._saved_nothing


def test_freed():
    x = leaf()
    y = x * x
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        assert y.grad_fn._saved_self
    with pytest.raises(RuntimeError, match="after it has been freed"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


def test_hooks_on_one_saved_tensor():
    x = leaf()
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    raw.register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v) * 10)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert torch.allclose(x.grad, y.detach() * 10)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        (x * x).grad_fn._raw_saved_self.register_hooks(None, None)
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        (x + x).grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        (x * x).grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), lambda t: t)


def test_versions_are_told_with_their_origin():
    x = leaf()
    y = x + 1
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"\[torch.FloatTensor \[2\]\], which is output 0 of Add,.*is at version 1; expected version 0",
    ):
        z.sum().backward()


def test_the_result_of_erfinv_may_be_written_to():
    x = torch.tensor([0.1, -0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.erfinv(t).mul_(2), (x,))
