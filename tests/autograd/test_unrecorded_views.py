"""Views made where nothing is recorded, and saved tensors that may be written to."""

import copy

import pytest

import flambeau as torch
from flambeau._kernel.native.site import wait
from flambeau.autograd.graph import allow_mutation_on_saved_tensors


def blocks():
    return [(torch.no_grad, "no_grad mode"), (torch.inference_mode, "inference mode")]


@pytest.mark.parametrize("block, name", blocks())
def test_a_view_made_without_recording_reports_its_base(block, name):
    a = torch.ones(3, requires_grad=True).clone()
    with block():
        view = a[:]
        assert view.requires_grad and view.is_leaf and view._is_view() and not view.is_inference()
        assert not view.detach().requires_grad
    assert repr(view) == "tensor([1., 1., 1.], requires_grad=True)"
    with pytest.raises(RuntimeError, match=f"A view was created in {name} and is being modified inplace"):
        view.add_(1)
    with pytest.raises(RuntimeError, match=f"A view was created in {name} and is being modified inplace"):
        view.unsqueeze_(0)
    a.mul_(2)
    with pytest.raises(RuntimeError, match=f"A view was created in {name} and its base or another view"):
        _ = view.grad_fn
    with pytest.raises(RuntimeError, match="its base or another view"):
        _ = view.is_leaf
    assert repr(view) == "tensor([2., 2., 2.], grad_fn=<Invalid>)"
    plain = torch.ones(3)
    with block():
        view = plain[:]
    view.add_(1)
    assert view.grad_fn is None and view.is_leaf


@pytest.mark.parametrize("block", [torch.no_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)])
@pytest.mark.parametrize(
    "take",
    [
        lambda x: x.view(-1), lambda x: x[0], lambda x: x[:, 1:], lambda x: x.split(1)[0], lambda x: x.unbind()[0], lambda x: x.T,
        lambda x: x.narrow(0, 0, 1), lambda x: x.expand(2, 2, 3), lambda x: x.as_strided((2,), (1,)), lambda x: x.view(-1)[1:3],
        lambda x: x.unfold(1, 2, 1), lambda x: x.unsqueeze(0), lambda x: x.diagonal(),
    ],
)  # fmt: skip
def test_gradients_of_unrecorded_views_go_nowhere(block, take):
    wait()
    for leaf in (torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True) * 2):
        for _ in range(4):  # the first of them find a plan for the others
            with block():
                view = take(leaf)
            assert view.requires_grad and view.is_leaf and view.grad_fn is None and view._base is leaf
            out = view * 2
            assert out.requires_grad and out.grad_fn.next_functions[0] == (None, 0)
            part = view[0:1]
            assert part.requires_grad and not part.is_leaf and part.grad_fn.next_functions == ((None, 0),)
            factor = torch.ones((), requires_grad=True)
            (out * factor + view).sum().backward()
            assert factor.grad.item() == out.sum().item() and view.grad is None
            assert torch.autograd.grad((view * 3).sum(), leaf, allow_unused=True) == (None,)
            with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
                torch.autograd.grad((view * 3).sum(), view)
            with pytest.raises(RuntimeError, match="is a view of a view which was created in"):
                part.mul_(2)
    with block():
        assert not take(torch.ones(2, 3)).requires_grad


def test_unrecorded_views_can_be_leaves_of_their_own():
    x = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        view = x.view(-1)
    view.requires_grad_(False)
    assert view.requires_grad
    view.retain_grad()
    view.register_hook(lambda g: pytest.fail("nobody gets its gradient"))
    (view * 2).sum().backward()
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        view.numpy()
    assert copy.deepcopy(view).requires_grad
    with torch.no_grad():
        view = x.view(-1).requires_grad_()
    (view * 2).sum().backward()
    assert view.grad.tolist() == [2.0] * 6 and x.grad is None

    class Flat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.view(2, 3) * 5

    (Flat.apply(x) * 2).sum().backward()
    assert x.grad.tolist() == [[10.0] * 3] * 2


def test_other_bytes_are_no_view():
    x = torch.ones(2, requires_grad=True) * 1
    for view in (x.view(torch.int32), x.detach().view(torch.float16)):
        assert not view._is_view() and view._base is None
        view.detach_()
    x.mul_(2)
    assert x.view(torch.int32)._version == 1 and "requires_grad" not in repr(view)


def test_turning_without_recording_keeps_the_history():
    a = torch.ones(1, 2, 3, requires_grad=True).clone()
    with torch.no_grad():
        a.transpose_(0, 1)
    assert a.requires_grad and a.shape == (2, 1, 3) and a.grad_fn.name() == "CloneBackward0"
    part = torch.ones(2, 3, requires_grad=True).clone().unbind()[0]
    with torch.no_grad():
        part.unsqueeze_(0)
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        part.add_(1)


def test_inference_tensors_outside_of_their_mode():
    with torch.inference_mode():
        c = torch.ones(1, 2, 3, requires_grad=True)
        c.transpose_(0, 1)
        assert c.requires_grad and c.is_inference()
        d = torch.ones(2, 3)
    out = c.view(-1)
    assert out.is_inference() and not out.requires_grad and not out._is_view() and out.is_leaf
    assert not c.unbind()[0].requires_grad
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        d.transpose_(0, 1)
    s = torch.ones(2, 1, 3, requires_grad=True)
    c.add(s).sum().backward()
    assert c.grad.tolist() == torch.ones(2, 1, 3).tolist()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        c * s


def test_what_was_saved_is_copied_when_it_is_written():
    with allow_mutation_on_saved_tensors() as kept:
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a.clone()
        first, second = (b**2).sum(), (b**2).sum()
        assert len(kept.tid_to_weakhandle) == 1 and not kept.cloned
        b[1:].mul_(10)
        assert len(kept.cloned) == 1  # once for both
        first.backward(retain_graph=True)
        assert a.grad.tolist() == [2.0, 4.0]
        del first
        assert len(kept.cloned) == 1
        del second
        assert not kept.cloned
        x, y = torch.tensor([1.0], requires_grad=True), torch.tensor([3.0])
        out = x * y
        torch.sin(torch.tensor([2.0]), out=y)
        out.backward()
        assert x.grad.tolist() == [3.0] and not kept.cloned
        with pytest.raises(RuntimeError, match="contexts cannot be nested"), allow_mutation_on_saved_tensors():
            pass
        out = a.exp().sum()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        out.backward()


def test_writes_that_save_what_they_overwrite():
    with allow_mutation_on_saved_tensors():
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a.clone()
        b.cumprod_(0)
        b.sin_()
        b.sum().backward()
    c = torch.tensor([1.0, 2.0], requires_grad=True)
    c.cumprod(0).sin().sum().backward()
    assert torch.allclose(a.grad, c.grad)
