"""Switches and private names around autograd that programs use."""

import threading
import warnings

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as fwAD


def test_multithreading_is_remembered():
    assert torch.autograd.is_multithreading_enabled()
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()


def test_tangents_can_be_switched_off():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
        with fwAD._set_fwd_grad_enabled(False):
            assert not fwAD._is_fwd_grad_enabled()
            assert fwAD.unpack_dual(x).tangent is None
            y = x * x
        assert fwAD.unpack_dual(y).tangent is None
        assert fwAD.unpack_dual(x * x).tangent.tolist() == [4.0]


def test_tangents_that_do_not_fit():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="Trying to set a forward gradient that has a different size"):
            fwAD.make_dual(torch.ones(2), torch.ones(3))
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fwAD.make_dual(torch.ones(2), x)
        y = x.clone()
        y.detach_()
        assert fwAD.unpack_dual(y * 2).tangent is None


def test_writes_that_autograd_does_not_see():
    x = torch.ones(2, requires_grad=True).clone()
    x.add_(1)
    y = x.exp()
    with torch.autograd._unsafe_preserve_version_counter((x, y)):
        x.mul_(2)
        y.mul_(3)
    assert (x._version, y._version) == (1, 0)
    torch._C._autograd._unsafe_set_version_counter((x,), (5,))
    assert x._version == 5
    with pytest.raises(RuntimeError, match="Cannot set a version_counter to a value below 0"):
        torch._C._autograd._unsafe_set_version_counter((x,), (-1,))


def test_objects_of_a_thread():
    torch._C._stash_obj_in_tls("kept", 1)
    there = []
    thread = threading.Thread(target=lambda: there.append(torch._C._is_key_in_tls("kept")))
    thread.start()
    thread.join()
    assert there == [False] and torch._C._get_obj_in_tls("kept") == 1
    torch._C._remove_obj_from_tls("kept")
    assert not torch._C._is_key_in_tls("kept")
    with pytest.raises(RuntimeError, match="nothing was kept"):
        torch._C._get_obj_in_tls("kept")


def test_hooks_after_accumulation_return_nothing():
    x = torch.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        x.sum().backward()


def test_out_of_what_requires_grad():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"out=\.\.\. arguments don't support automatic differentiation, but one of"):
        torch.mul(x, x, out=torch.empty(2))


def test_functions_tell_of_old_names_and_may_leave_out_gradients():
    seen = []

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            first, second = x.clone(), x.clone()
            ctx.mark_non_differentiable(second)
            ctx._materialize_non_diff_grads = False
            return first, second

        @staticmethod
        def backward(ctx, g, other):
            seen.append((other, ctx.saved_variables[0].tolist()))
            return g

    x = torch.ones(1, requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Two.apply(x)[0].backward()
    assert seen == [(None, [1.0])]
    assert [w.category for w in told] == [DeprecationWarning] and "'saved_variables' is deprecated" in str(
        told[0].message
    )


def test_gradients_go_through_what_another_thread_computed():
    x = torch.ones(2, requires_grad=True)
    future = torch.jit._fork(lambda t: t * 3, x)
    torch.jit._wait(future).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_recording_is_switched_for_the_thread():
    try:
        torch._C._set_grad_enabled(False)
        assert not torch.is_grad_enabled()
    finally:
        torch._C._set_grad_enabled(True)
