"""Gradient checkpointing: activations computed again instead of kept."""

import functools

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils import checkpoint as ckpt
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential


def gradients(model, x, run):
    model.zero_grad()
    torch.manual_seed(5)
    run(model, x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def equal(a, b):
    return all(torch.allclose(x, y, atol=1e-6) for x, y in zip(a, b))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.5)) for _ in range(4)])


@pytest.mark.parametrize("reentrant", [False, True])
def test_forward_runs_again(model, reentrant):
    x, calls = torch.randn(3, 6, requires_grad=True), []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    plain = gradients(model, x, lambda m, v: m(v))
    assert len(calls) == 1
    again = gradients(model, x, lambda m, v: checkpoint(m, v, use_reentrant=reentrant))
    assert len(calls) == 3 and equal(plain, again)


def test_less_is_kept(model):
    def kept(run):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            run(torch.randn(30, 6, requires_grad=True))
        return sum(sizes)

    assert kept(lambda x: checkpoint(model, x, use_reentrant=False)) < kept(model) / 2


def test_sequential(model):
    x = torch.randn(3, 6, requires_grad=True)
    plain = gradients(model, x, lambda m, v: m(v))
    assert equal(plain, gradients(model, x, lambda m, v: checkpoint_sequential(m, 2, v, use_reentrant=False)))


def test_random_state_is_restored_unless_told_otherwise():
    drop, masks = nn.Dropout(0.5), []
    drop.register_forward_hook(lambda m, i, out: masks.append(out.detach() != 0))
    for preserve in (True, False):
        masks.clear()
        torch.manual_seed(0)
        x = torch.ones(100, requires_grad=True)
        checkpoint(lambda v: drop(v).square(), x, use_reentrant=False, preserve_rng_state=preserve).sum().backward()
        assert torch.equal(masks[0], masks[1]) is preserve


def _mixed(x, y=None):
    return torch.mm(torch.mm(x, x).relu(), x)


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_casts_as_the_forward_pass_did(reentrant):
    x = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = checkpoint(_mixed, x, None, use_reentrant=reentrant)
    assert out.dtype is torch.bfloat16
    out.float().sum().backward()
    found, x.grad = x.grad, None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = _mixed(x)
    expected.float().sum().backward()
    assert torch.equal(found, x.grad)


def test_the_reentrant_form_does_not_go_with_grad():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\) or passing an `inputs` parameter"):
        torch.autograd.grad(checkpoint(torch.exp, x, use_reentrant=True).sum(), x)
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        checkpoint(torch.exp, x)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(torch.exp, x, use_reentrant=True, context_fn=lambda: None)


def test_recomputed_tensors_must_be_what_they_were():
    x = torch.ones(2, requires_grad=True)
    calls = []

    def changing(t):
        calls.append(0)
        return t.double().exp() if len(calls) > 1 else t.exp()

    with pytest.raises(ckpt.CheckpointError, match="have different metadata"):
        checkpoint(changing, x, use_reentrant=False).sum().backward()


@pytest.mark.parametrize(("stop", "expected"), [(True, 3), (False, 4)])
def test_early_stop(stop, expected):
    x = torch.ones(2, requires_grad=True)
    counts = []

    def steps(t):
        for _ in range(2):
            t = t.sin()
            counts.append(0)
        return t

    with ckpt.set_checkpoint_early_stop(stop):
        out = checkpoint(steps, x, use_reentrant=False)
    out.sum().backward()
    assert len(counts) == expected


def test_selective_checkpointing_keeps_what_the_policy_says():
    x = torch.randn(3, 3, requires_grad=True)
    computed = []

    def policy(ctx, op, *args, **named):
        computed.append((ctx.is_recompute, str(op)))
        return (
            ckpt.CheckpointPolicy.MUST_SAVE
            if op == torch.ops.aten.mm.default
            else ckpt.CheckpointPolicy.PREFER_RECOMPUTE
        )

    keep = functools.partial(ckpt.create_selective_checkpoint_contexts, policy)
    out = checkpoint(lambda t: torch.mm(t, t).sin().cos(), x, use_reentrant=False, context_fn=keep).sum()
    out.backward(retain_graph=True)
    found, x.grad = x.grad, None
    torch.mm(x, x).sin().cos().sum().backward()
    assert torch.allclose(found, x.grad)
    assert computed == [
        (False, f"aten.{name}.default") for name in ("mm", "sin", "cos")
    ]  # asked once for each operation
    with pytest.raises(ValueError, match="to be an OpOverload"):
        ckpt.create_selective_checkpoint_contexts([torch.ops.aten.mm])
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        ckpt.create_selective_checkpoint_contexts(None)


def test_recomputed_values_live_for_one_backward_pass():
    runs = []

    def f(x):
        runs.append(1)
        return x.exp().sin()

    x = torch.ones(2, requires_grad=True)
    out = checkpoint(f, x, use_reentrant=False)
    for expected in (2, 3):
        out.sum().backward(retain_graph=True)
        assert len(runs) == expected


def test_a_group_of_passes_shares_a_recomputation():
    runs = []

    def f(x):
        runs.append(1)
        y = x.sin().cos()
        return y, y.sin().cos()

    x = torch.ones(2, requires_grad=True)
    y, z = checkpoint(f, x, use_reentrant=False)
    with torch.utils.checkpoint.GraphExecGroup():
        (g,) = torch.autograd.grad(z, y, torch.ones(2))
        torch.autograd.grad(y, x, g)
    assert len(runs) == 2
    out = checkpoint(lambda t: t.sin().cos(), x, use_reentrant=False)
    with torch.utils.checkpoint.GraphExecGroup():
        out.sum().backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="Performing two backward calls that overlap"):
            out.sum().backward()


def _first_then(first, then):
    left = [first]
    return lambda x: (left.pop() if left else then)(x)


def test_debug_names_the_operations_that_differ():
    x = torch.ones(1, requires_grad=True)
    f = _first_then(lambda t: t.sin().exp(), lambda t: t.sin() * torch.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match=r"you passed `debug=True` to checkpoint[^\n]*\n[^\n]*exp[^\n]*\n[^\n]*mul"):
        checkpoint(f, x, use_reentrant=False, debug=True).backward()


def test_more_tensors_are_saved_again():
    x = torch.ones(1, requires_grad=True)
    f = _first_then(lambda t: t.sin().exp(), lambda t: t.sin().exp().sin())
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        out = checkpoint(f, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="trying to save more tensors during recomputation"):
        out.backward()


def test_saved_tensors_without_history_stay_the_same_objects():
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            found.append(ctx.saved_tensors[0])
            return g, None

    found = []
    x, y = torch.ones(1, requires_grad=True), torch.ones(1)
    checkpoint(Keeps.apply, x, y, use_reentrant=False).backward()
    assert found[0] is y


def test_default_device_and_what_is_detached():
    from flambeau.utils.checkpoint import DefaultDeviceType, detach_variable

    assert DefaultDeviceType.get_device_type() == ("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.ones(2, requires_grad=True)
    y, z = detach_variable((x, (x * 2).detach()))
    assert y.is_leaf and y is not x and y.requires_grad and not z.requires_grad
    with pytest.raises(RuntimeError, match=r"Got Unsupported input type: list$"):
        detach_variable([x])


@pytest.mark.parametrize("which", [0, 1])
def test_inputs_that_were_written_to_are_not_used_again(which):
    """Of the numbers that are there now, the derivative would be another one."""
    leaf = torch.full((3,), 2.0, requires_grad=True)
    given = leaf * 1, torch.ones(3)
    out = checkpoint(lambda x, weight: (x * weight).sin(), *given, use_reentrant=False)
    given[which][0].abs_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
