"""Views by plans: the same arrays, links, histories and errors as by the Python functions."""

import gc
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._kernel.native.views import MOST

native = isinstance(getattr(torch.exp, "__self__", None), site.Site)
pytestmark = pytest.mark.skipif(not native, reason="the native entry is switched off or not known here")

CALLS = [
    "x.view(2, 12)", "x.view((2, 12))", "x.view(-1)", "x.reshape(3, 8)", "x.reshape(-1, 2)", "x.permute(1, 0, 2)", "x.permute((2, 0, 1))",
    "x.transpose(0, -1)", "x.swapaxes(0, 1)", "x.unsqueeze(0)", "x.unsqueeze(-1)", "x.squeeze()", "x.squeeze(1)", "x[:1].squeeze(0)",
    "x.select(1, -1)", "x.narrow(2, 1, 2)", "x.flatten(1)", "x.unflatten(2, (2, -1))", "x.movedim(0, 2)", "x.diagonal(0, 1, 2)",
    "x.unfold(2, 2, 1)", "x[:1].expand(4, 3, 4)", "x[:1].expand(-1, 3, 4)", "x[0].t()", "x[0].diagonal()", "torch.broadcast_to(x[:1], (5, 3, 4))",
    "x.chunk(2, 2)", "x.chunk(3)", "x.split(2, 2)", "x.split([1, 3], dim=2)", "x.split_with_sizes((1, 2), 1)", "x.unbind()", "x.unbind(dim=1)",
    "x.tensor_split(2, 2)", "x.tensor_split((1, 2), 2)", "torch.hsplit(x, 3)", "torch.dsplit(x, 2)", "x.transpose(0, 1).view(3, 2, 2, 2)",
    "x.transpose(1, 2).transpose(0, 1)", "x.view(2, 12).unbind(1)", "x.select(0, 1).select(0, 2).select(0, 3)",
]  # fmt: skip


def made(text, x):
    out = eval(text, {"torch": torch, "x": x})
    return out if isinstance(out, tuple) else (out,)


def agree(outs, expected, x):
    assert len(outs) == len(expected)
    for t, e in zip(outs, expected):
        assert t.shape == e.shape and t.stride() == e.stride() and t.storage_offset() == e.storage_offset()
        assert t.dtype is e.dtype and t.data_ptr() == e.data_ptr() and t.requires_grad == e.requires_grad
        assert np.array_equal(t.detach().numpy(), e.detach().numpy()) and t._array.flags.writeable
        assert t._view[1:3] == e._view[1:3] and t._view[3:] == e._view[3:] and t._storage is e._storage is x._storage
        assert (t.grad_fn is None) == (e.grad_fn is None) and t._base is e._base is x
        if e.grad_fn is not None:
            assert t.grad_fn.name() == e.grad_fn.name() and t.output_nr == e.output_nr
            assert t.grad_fn.saved == e.grad_fn.saved and t.grad_fn.info == e.grad_fn.info


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("text", CALLS)
def test_views_are_those_of_python(text, history):
    x = torch.arange(24.0).reshape(2, 3, 4).clone().requires_grad_(history)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            with site.switched_off():
                expected = made(text, x)
            for _ in range(4):
                outs = made(text, x)
                agree(outs, expected, x)


@pytest.mark.parametrize("text", CALLS)
def test_gradients_of_views(text):
    x = torch.arange(24.0).reshape(2, 3, 4).clone().requires_grad_()

    def gradient():
        outs = made(text, x)
        return torch.autograd.grad(sum((t * t).sum() * (i + 1) for i, t in enumerate(outs)), x)[0]

    with site.switched_off():
        expected = gradient()
    for _ in range(4):
        assert gradient().equal(expected)


def test_what_is_planned():
    x = torch.rand(4, 6)
    for name, args in {"view": (3, 8), "permute": (1, 0), "chunk": (2, 1), "unbind": (), "expand": (4, 6)}.items():
        function = getattr(torch.Tensor, name)
        for _ in range(4):
            function(x, *args)
        kept = [p for _, words, (p, _) in function.__self__.table.kept if words[0] == -1]
        assert kept, name


def test_writes_into_views_reach_the_base_and_its_other_views():
    for _ in range(4):
        x = torch.zeros(2, 6)
        y = x * 1
        parts = y.view(3, 4), y.t(), y.view(12)[:3]
        parts[0].add_(1)
        assert y.eq(1).all() and parts[1]._version == y._version == 1 and parts[2].eq(1).all()
        leaf = torch.ones(2, 6, requires_grad=True)
        whole = leaf * 2
        whole.view(12).narrow(0, 0, 3).mul_(5)
        whole.sum().backward()
        assert leaf.grad.flatten().tolist() == [10.0] * 3 + [2.0] * 9
        with pytest.raises(RuntimeError):
            (leaf * 2).unbind(0)[0].mul_(2)  # one of several views
        with torch.no_grad():
            view = whole.view(12)
        with pytest.raises(RuntimeError):
            view.mul_(leaf.view(12))


def test_errors_after_plans():
    x = torch.rand(2, 6)
    for _ in range(4):
        x.view(3, 4), x.unbind(0), x.chunk(2, 1), x.narrow(1, 0, 3), x.expand(2, 6)
    for call in (
        lambda: x.view(5, 4), lambda: x.t().view(12), lambda: x.narrow(1, 4, 3), lambda: x.chunk(0), lambda: x.expand(3, 6), lambda: x.view(3.0, 4),
        lambda: x.unbind(2), lambda: x.permute(0, 0), lambda: x.transpose(0, 2), lambda: x.view(), lambda: x.split(-1),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            call()


def test_elements_of_other_arguments_count():
    x = torch.arange(6)
    for start in (0, 1, 2, 3, 1, 0, 2):
        assert x.narrow(0, torch.tensor(start), 2).tolist() == [start, start + 1]
        assert [len(t) for t in x.tensor_split(torch.tensor([start]))] == [start, 6 - start]


def test_other_kinds_of_tensors():
    class Own(torch.Tensor):
        pass

    x = torch.rand(2, 6)
    for _ in range(4):
        x.view(12), x.unbind()
    assert isinstance(x.as_subclass(Own).view(12), Own)
    assert type(torch.nn.Parameter(x).view(12)) is torch.Tensor and torch.nn.Parameter(x).view(12).requires_grad
    with torch.inference_mode():
        made = x.view(12)
        assert torch.rand(2, 6).view(12).is_inference() and not made.is_inference()
    assert torch.func.vmap(lambda t: t.view(2, 3))(x).shape == (2, 2, 3)
    assert torch.rand(2, 6, device="meta").view(12).device.type == "meta"
    read_only = np.ones((2, 6), np.float32)
    assert torch.from_numpy(read_only).view(12).data_ptr() == read_only.ctypes.data


def test_long_chains_of_views():
    x = torch.rand(2, 6)
    t = x
    for _ in range(200):
        t = t.view(12).view(2, 6)
    assert t._base is x and t.equal(x) and t._view[4] <= 33


@pytest.mark.parametrize("count", [100, MOST, MOST + 1])
def test_many_views_of_one_call(count):
    x = torch.arange(2.0 * count).view(count, 2).clone()
    with site.switched_off():
        expected = x.unbind()
    for _ in range(3):
        agree(x.unbind(), expected, x)


def test_live_views_are_not_looked_at_for_every_few_that_come():
    x = torch.zeros(4000)
    views = list(x)
    storage = x._storage
    assert len(storage.views) == 4000 and storage.most > 4000  # so each was looked at once or twice
    del views
    for _ in range(4):
        x.view(40, 100).unbind()
        list(x)
    assert len(storage.views) < 3 * 4000  # those that are gone are forgotten


def test_many_views_of_what_a_node_keeps():
    x = torch.ones(300, requires_grad=True)
    for _ in range(4):
        y = x.exp()
        torch.stack(list(y)).sum().backward()
    assert len(y._storage.views) == 300 and torch.equal(x.grad, 4 * x.detach().exp())


@pytest.mark.slow
def test_nothing_is_kept_alive():
    x = torch.rand(4, 6, requires_grad=True)
    for _ in range(4):
        x.view(24), x.unbind(), x.tensor_split(2, 1)
    gc.collect()
    watched = [None, x, x.dtype, x._array.dtype, torch.Tensor.view.__self__]
    before = [sys.getrefcount(o) for o in watched]
    blocks = sys.getallocatedblocks()
    for _ in range(2000):
        x.view(24), x.unbind(), x.tensor_split(2, 1)
        with torch.no_grad():
            x.view(24), x.unbind()
    x._storage.views.clear()
    gc.collect()
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(a - b) < 50 for a, b in zip(before, after)), list(zip(before, after))
    assert abs(sys.getallocatedblocks() - blocks) < 500
