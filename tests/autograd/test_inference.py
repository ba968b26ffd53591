"""Inference mode: what it marks, what it refuses, and that other threads do not notice it."""

import threading

import pytest

import flambeau as torch


def made_inside():
    with torch.inference_mode():
        return torch.ones(3)


def test_results_are_inference_tensors_and_views_are_what_their_base_is():
    x = torch.ones(3, requires_grad=True)
    plain = torch.ones(3)
    with torch.inference_mode():
        assert (
            (x + 1).is_inference()
            and x.exp().is_inference()
            and x.sum().is_inference()
            and torch.zeros(2).is_inference()
        )
        assert (x @ x).is_inference() and x.clone().is_inference() and torch.nn.functional.softmax(x, 0).is_inference()
        for view in (x.detach(), plain[1:], plain.unbind()[0], plain.contiguous()):
            assert not view.is_inference() and not view.requires_grad
        for view in (x.view(3, 1), x[0]):
            assert not view.is_inference() and view.requires_grad and view.is_leaf
        assert torch.ones(3).view(-1).is_inference()
        assert not plain.add_(1).is_inference()
    assert not (plain + 1).is_inference()


def test_outside_only_views_of_inference_tensors_stay_inference_tensors():
    x = made_inside()
    assert x.view(-1).is_inference() and x.detach().is_inference() and x.contiguous().is_inference()
    assert not (x + 1).is_inference() and not x.clone().is_inference()


def test_what_is_refused_outside():
    x, w = made_inside(), torch.ones(3, requires_grad=True)
    for write in (
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x.fill_(2),
        lambda: x.copy_(torch.ones(3)),
        lambda: torch.add(w.detach(), 1, out=x),
    ):
        with pytest.raises(
            RuntimeError, match=r"Inplace update to inference tensor outside InferenceMode is not allowed"
        ):
            write()
        with torch.no_grad(), pytest.raises(RuntimeError, match=r"Inplace update to inference tensor"):
            write()
    with pytest.raises(RuntimeError, match=r"Setting requires_grad=True on inference tensor outside InferenceMode"):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match=r"Inference tensors do not track version counter"):
        assert x._version
    assert x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("function", [
    lambda x, w: x * w, lambda x, w: w / x, lambda x, w: torch.dot(x, w), lambda x, w: w.pow(x),
    lambda x, w: torch.nn.functional.linear(x, w), lambda x, w: torch.where(x > 0, w, w).mul(x),
])  # fmt: skip
def test_inference_tensors_are_not_saved_for_backward(function):
    with pytest.raises(RuntimeError, match=r"Inference tensors cannot be saved for backward"):
        function(made_inside(), torch.ones(3, requires_grad=True))


def test_inference_tensors_that_need_not_be_saved_may_take_part():
    w = torch.ones(3, requires_grad=True)
    (made_inside() + w - made_inside()).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_view_made_in_inference_mode_is_not_written_in_normal_mode():
    x = torch.ones(3, requires_grad=True).clone()
    with torch.inference_mode():
        view = x[:2]
        view.mul_(2)
    assert x.tolist() == [2.0, 2.0, 1.0]
    with pytest.raises(RuntimeError, match=r"A view was created in inference mode and is being modified inplace"):
        view.add_(torch.ones(2, requires_grad=True))


def test_leaves_made_inside_may_have_gradients_of_their_own():
    with torch.inference_mode():
        x, y = torch.ones(2, requires_grad=True), torch.ones(2)
        x.grad = torch.ones(2)
    assert x.is_inference() and x.grad.tolist() == [1.0, 1.0] and y.grad is None


def test_other_threads_are_not_in_inference_mode():
    found = {}

    def elsewhere():
        w = torch.ones(2, requires_grad=True)
        y = w * torch.ones(2)
        y.sum().backward()
        found.update(inference=y.is_inference(), grad=w.grad.tolist())
        with torch.inference_mode():
            found["inside"] = torch.ones(1).is_inference()

    with torch.inference_mode():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert (torch.ones(2) + 1).is_inference()
        with torch.inference_mode(False):
            assert not (torch.ones(2) + 1).is_inference()
            assert torch.is_grad_enabled()
        assert (torch.ones(2) + 1).is_inference()
    assert found == {"inference": False, "grad": [1.0, 1.0], "inside": True}
    assert not (torch.ones(2) + 1).is_inference()


def test_sparse_tensors_are_recorded_after_inference_mode():
    with torch.inference_mode():
        torch.ones(1)
    x = torch.ones(2, 2, requires_grad=True)
    x.to_sparse().to_dense().sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "call", [lambda x: x.std(), lambda x: x.var(1), lambda x: x.prod(), lambda x: x.norm(), lambda x: x.logsumexp(1)]
)
def test_leaves_of_inference_mode_are_not_kept_for_backward(call):
    with torch.inference_mode():
        x = torch.rand(3, 4).requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        call(x)
    assert call(x.clone()).requires_grad
