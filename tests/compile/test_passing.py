"""What a compiled backward pass has read is free before it has ended, unless somebody needs it."""

import weakref

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler._region import Region

ROWS, WIDTH = 600, 700  # results of layers are large enough to end a stretch


def layers():
    torch.manual_seed(0)
    model = nn.Sequential(*[one for _ in range(4) for one in (nn.Linear(WIDTH, WIDTH), nn.Tanh())], nn.Linear(WIDTH, 3))
    return model, torch.randn(ROWS, WIDTH)


def trained(model, x, times=3, **how):
    """A region that has run some times, and its program of the backward pass."""
    region = Region(lambda t: model(t).square().mean())
    for _ in range(times):
        model.zero_grad()
        region(x).backward(**how)
    assert region.problem is None
    return region, region.entries[0].program.backward_program._lowered


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def test_gradients_are_those_of_the_eager_pass():
    model, x = layers()
    model(x).square().mean().backward()
    expected = gradients(model)
    _, program = trained(model, x)
    assert program.ends and sum(map(len, program.released)) >= 4
    for got, wanted in zip(gradients(model), expected):
        torch.testing.assert_close(got, wanted)


def test_what_was_read_is_free_before_the_end():
    model, x = layers()
    region, program = trained(model, x)
    loss = region(x)
    saved = [weakref.ref(t) for t in loss.grad_fn.saved[0]]
    alive = []
    run = program.started

    def started(*args):
        alive.append(sum(t() is not None for t in saved))
        return run(*args)

    program.started = started
    loss.backward()
    assert alive == sorted(alive, reverse=True) and alive[0] - alive[-1] >= 3
    assert not any(t() is not None for t in saved)


def test_a_graph_that_is_kept_keeps_all():
    model, x = layers()
    region, _ = trained(model, x)
    model.zero_grad()
    loss = region(x)
    loss.backward(retain_graph=True)
    once = gradients(model)
    loss.backward()
    for got, wanted in zip(gradients(model), once):
        torch.testing.assert_close(got, 2 * wanted)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_some_gradients_alone():
    model, x = layers()
    region, _ = trained(model, x)
    loss = region(x)
    (first,) = torch.autograd.grad(loss, [model[0].weight], retain_graph=True)
    (again,) = torch.autograd.grad(loss, [model[0].weight])
    assert torch.equal(first, again)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, [model[0].weight])


def test_a_pass_that_fails_is_over():
    """What it has read is gone: another one must not compute with what is left."""
    model, x = layers()
    region, program = trained(model, x)
    loss, run = region(x), program.started

    def started(*args):
        raise MemoryError("no memory")

    program.started = started
    with pytest.raises(MemoryError):
        loss.backward()
    program.started = run
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    region(x).backward()


def test_tensors_that_others_have_stay():
    model, x = layers()

    def hidden(t):
        inner = model[:2](t)
        return model[2:](inner).square().mean(), inner

    region = Region(hidden)
    for _ in range(3):
        loss, inner = region(x)
        loss.backward()
    torch.testing.assert_close(inner, model[:2](x))
