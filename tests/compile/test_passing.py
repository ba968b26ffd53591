"""What a compiled backward pass has read is free before it has ended, unless somebody needs it."""

import weakref

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._compile.steps import Call
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


@pytest.mark.slow
def test_gradients_are_those_of_the_eager_pass():
    model, x = layers()
    model(x).square().mean().backward()
    expected = gradients(model)
    _, program = trained(model, x)
    assert program.ends and sum(map(len, program.released)) >= 4
    for got, wanted in zip(gradients(model), expected):
        torch.testing.assert_close(got, wanted)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_some_gradients_alone():
    model, x = layers()
    region, _ = trained(model, x)
    loss = region(x)
    (first,) = torch.autograd.grad(loss, [model[0].weight], retain_graph=True)
    (again,) = torch.autograd.grad(loss, [model[0].weight])
    assert torch.equal(first, again)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, [model[0].weight])


@pytest.mark.slow
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


@pytest.mark.slow
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


# -- memory of what was read ---------------------------------------------------------------------------------------------


def pictures():
    """Layers with small gradients over large values: what is computed on the way lies in those that were read."""
    torch.manual_seed(0)
    inner = [one for _ in range(4) for one in (nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True))]
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), *inner), torch.randn(4, 1, 64, 64)


def test_values_that_were_read_have_room_for_others(monkeypatch):
    model, x = pictures()
    model(x).square().mean().backward()
    expected = gradients(model)
    region, program = trained(model, x)
    assert program.overwritten and not program.ends
    monkeypatch.setattr("flambeau._compile.program.wrap", None)  # nothing is copied
    model.zero_grad()
    region(x).backward()
    for got, wanted in zip(gradients(model), expected):
        torch.testing.assert_close(got, wanted)


def test_what_somebody_else_has_is_not_written_over():
    model, x = pictures()
    region, _ = trained(model, x)
    expected = gradients(model)
    loss = region(x)
    seen = loss.grad_fn.saved[0]
    before = [t.clone() for t in seen]
    model.zero_grad()
    loss.backward()
    assert all(torch.equal(t, b) for t, b in zip(seen, before))
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), expected))


def test_a_kept_graph_of_pictures_gives_the_same_again():
    model, x = pictures()
    region, _ = trained(model, x, retain_graph=True)
    loss = region(x)
    found = [torch.autograd.grad(loss, list(model.parameters()), retain_graph=i < 2) for i in range(3)]
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))


def test_calls_that_wait_for_their_pass_have_memory_of_their_own():
    model, x = pictures()
    region, _ = trained(model, x)
    both = [x, x.flip(-1)]
    wanted = [torch.autograd.grad(region(t), list(model.parameters())) for t in both]
    waiting = [region(t) for t in both]
    for loss, expected in [*zip(waiting, wanted)][::-1]:
        found = torch.autograd.grad(loss, list(model.parameters()))
        assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_results_that_are_values_of_the_backward_pass_stay():
    model, x = pictures()

    def function(t):
        inner = model[:3](t)
        return model[3:](inner).square().mean(), inner

    region = Region(function)
    for _ in range(3):
        loss, inner = region(x)
        before = inner.clone()
        loss.backward()
        assert torch.equal(inner, before)


@pytest.mark.slow
def test_a_program_that_is_tried_in_several_forms_has_its_inputs():
    model, x = layers()
    tuned = torch.compile(lambda t: model(t).square().mean(), mode="max-autotune")
    model(x).square().mean().backward()
    expected = gradients(model)
    for _ in range(3):
        model.zero_grad()
        tuned(x).backward()
        for got, wanted in zip(gradients(model), expected):
            torch.testing.assert_close(got, wanted)


def test_what_is_written_over_a_value_is_kept_once():
    """`relu_()` after a batch norm: its result is what was there, for whoever reads it later."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 20, 20)
    region = Region(lambda: model(x).sum())
    region().backward()
    large = [t for t in region().grad_fn.saved[0] if t.numel() == 2 * 8 * 18 * 18]
    assert len(large) == 2  # of the convolution, and of relu


@pytest.mark.parametrize("channels_last", [False, True])
def test_gradients_of_maxima_are_one_loop(channels_last):
    x = torch.randn(4, 8, 12, 12)
    x = (x.contiguous(memory_format=torch.channels_last) if channels_last else x).requires_grad_()
    function = lambda x: nn.functional.max_pool2d(x, 3, 2, 1)
    compiled, weight = torch.compile(function), torch.randn(4, 8, 6, 6)
    for _ in range(3):
        wanted, got = [torch.autograd.grad((f(x) * weight).sum(), x)[0] for f in (function, compiled)]
        assert torch.equal(wanted, got) and wanted.stride() == got.stride()
    program = compiled._region.entries[0].program.backward_program
    assert [node.name for node in program.graph.nodes] == ["max_pool_backward"]
    assert channels_last or not any([isinstance(part, Call) for part in program._lowered.parts])
