"""What a run of a program makes belongs to who has it: memory is used again only when nobody does."""

import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau._compile import running
from flambeau._kernel.native.gifts import gift_words, giver
from flambeau._kernel.native.site import usable
from flambeau._tensor import Meta, meta_of, storage_of

KEPT = {
    "tensor": lambda t: t,
    "view": lambda t: t[1:],
    "detached": lambda t: t.detach(),
    "array": lambda t: t.numpy(),
    "buffer": lambda t: memoryview(t.numpy()),
    "storage": lambda t: t.untyped_storage(),
    "dlpack": lambda t: torch.from_dlpack(t),
    "history": lambda t: (t.requires_grad_() * t).grad_fn,
}


@pytest.mark.parametrize("kept", KEPT)
def test_what_somebody_keeps_of_a_result_is_not_written_again(kept):
    f = torch.compile(lambda x: x * 2 + 1)
    for _ in range(3):
        f(torch.zeros(4))
    out = f(torch.arange(4.0))
    place, holder = out.data_ptr(), KEPT[kept](out)
    del out
    for _ in range(3):
        assert f(torch.zeros(4)).data_ptr() != place
    assert holder is not None
    if kept == "array":
        assert holder.tolist() == [1.0, 3.0, 5.0, 7.0]


def test_memory_of_a_result_that_nobody_has_is_used_again():
    f = torch.compile(lambda x: x * 2 + 1)
    for _ in range(3):
        first = f(torch.zeros(4))
    place, seen = first.data_ptr(), weakref.ref(first)
    del first
    assert seen() is None  # the tensor itself is gone, as a result of an eager run is
    other = f(torch.ones(4))
    assert (other.data_ptr() == place) is usable()
    assert other.tolist() == [3.0] * 4


def test_an_array_that_is_observed_is_not_used_again():
    f = torch.compile(lambda x: x * 2 + 1)
    for _ in range(3):
        out = f(torch.zeros(4))
    seen = weakref.ref(out._array)
    del out
    f(torch.ones(4))
    assert seen() is None


def test_large_results_are_not_kept(monkeypatch):
    monkeypatch.setattr(running, "_KEPT", 8)
    f = torch.compile(lambda x: x * 2 + 1)
    for _ in range(3):
        out = f(torch.zeros(4))
    seen = weakref.ref(out._array)
    del out
    assert seen() is None


def _step(**given):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad(**given)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


@pytest.mark.parametrize("given", [{}, {"set_to_none": False}])
def test_gradients_that_somebody_keeps_stay_as_they_are(given):
    model, step = _step(**given)
    other, eager = _step(**given)
    compiled, x = torch.compile(step), torch.arange(6.0).view(2, 3)
    kept, expected = [], []
    for _ in range(5):
        compiled(x)
        kept.append([p.grad for p in model.parameters()])
        eager(x)
        expected.append([p.grad for p in other.parameters()])
    assert [[g.tolist() for g in own] for own in kept] == [[g.tolist() for g in own] for own in expected]


def test_leaves_that_want_more_than_a_first_gradient():
    def trained(compiled):
        model, _ = _step()
        seen = []
        model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
        x = torch.arange(6.0).view(2, 3)

        def forward(x):
            return model(x).square().mean()

        forward = torch.compile(forward) if compiled else forward
        for _ in range(4):
            forward(x).backward()  # gradients add up
        return seen, [p.grad.tolist() for p in model.parameters()]

    assert trained(True) == trained(False)


def test_a_stretch_finds_arrays_of_other_classes_by_itself():
    f = torch.compile(lambda x, y: (x + y).sum(0) * 2)
    x, y = torch.arange(6.0).view(2, 3), torch.ones(3)
    for _ in range(3):
        assert f(x, y).tolist() == [10.0, 14.0, 18.0]
    x._array = x._array.view(np.memmap)
    assert f(x, y).tolist() == [10.0, 14.0, 18.0]


def test_first_gradients_are_given_in_one_call_or_not_at_all():
    def leaves():
        return [torch.zeros(2, 3, requires_grad=True), torch.zeros(4, requires_grad=True)]

    def metas(made):
        return [meta_of(leaf) for leaf in made]  # made at the first need

    def give(gradients, leaves):  # numbers of tensors in a list, as programs have them
        return giver(Meta)(
            gift_words([(len(leaves) - i, leaf) for i, leaf in enumerate(leaves)]), [None, *gradients[::-1]]
        )

    own, gradients = leaves(), [torch.ones(2, 3), torch.ones(4)]
    metas(own)
    assert give(gradients, own) is usable()
    assert [leaf.grad is g for leaf, g in zip(own, gradients)] == [usable()] * 2
    for spoil in (
        lambda own, given: setattr(own[1], "grad", torch.ones(4)),  # there is one already
        lambda own, given: own[1].register_post_accumulate_grad_hook(lambda p: None),
        lambda own, given: setattr(own[1], "_autograd_meta", None),
        lambda own, given: given.__setitem__(1, torch.ones(8)[::2]),  # it lies in another way
        lambda own, given: storage_of(given[1]),  # others may count its writes
    ):
        own, given = leaves(), [torch.ones(2, 3), torch.ones(4)]
        metas(own)
        spoil(own, given)
        assert give(given, own) is False and own[0].grad is None


def test_results_of_a_program_in_inference_mode_are_inference_tensors():
    f = torch.compile(lambda x: x * 2 + 1)
    for _ in range(3):
        with torch.inference_mode():
            inside = f(torch.ones(3))
        outside = f(torch.ones(3))
        assert inside.is_inference() and not outside.is_inference()
