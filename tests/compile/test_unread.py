"""Steps of recurrent layers whose outputs nobody reads are not computed, and nothing else changes."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._ops.layers.recurrent_arrays import Steps
from flambeau.compiler._region import Region


def _spans(region):
    """Which steps' outputs are read of each layer of a program."""
    nodes = region.entries[0].program.forward_program.graph.nodes
    return [a.read for node in nodes if node.name == "recurrent_layer" for a in node.args if isinstance(a, Steps)]


def _found(call, layer, x):
    layer.zero_grad()
    x = x.clone().requires_grad_()
    call(x).square().sum().backward()
    return [x.grad, *[p.grad for p in layer.parameters()]]


def _compare(layer, function, x):
    """The steps that are read, after results and gradients of a function were compared with the eager ones."""
    region, expected = Region(function), _found(function, layer, x)
    for _ in range(3):
        for a, b in zip(expected, _found(region, layer, x), strict=True):
            assert torch.equal(a, b)
    return _spans(region)


KINDS = [(nn.LSTM, {}), (nn.GRU, {}), (nn.RNN, {}), pytest.param(nn.LSTM, {"proj_size": 5}, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_last_output(kind, more):
    layer = kind(6, 8, num_layers=2, bidirectional=True, batch_first=True, **more)
    for batch in (3, 16):
        x = torch.randn(batch, 7, 6)
        assert _compare(layer, lambda x: layer(x)[0][:, -1], x) == [(0, 7), (0, 7)]  # what is returned may show more
        assert _compare(layer, lambda x: layer(x)[0][:, -1] * 2, x) == [(0, 7), (6, 7)]
        with torch.no_grad():
            region = Region(lambda x: layer(x)[0][:, 2:4].exp())
            for _ in range(3):
                assert torch.equal(region(x), layer(x)[0][:, 2:4].exp())
            assert _spans(region) == [(0, 7), (2, 4)]


def test_states_that_are_read_need_all_steps():
    layer = nn.GRU(6, 8, bidirectional=True)
    x = torch.randn(7, 3, 6)

    def f(x):
        out, h = layer(x)
        return out[-1].sum() + h.sum()

    assert _compare(layer, f, x) == [(0, 7)]
    assert _compare(layer, lambda x: layer(x)[0].sum(0), x) == [(0, 7)]
    assert _compare(layer, lambda x: layer(x)[0][torch.tensor([1, 2])], x) == [(0, 7)]


def test_gradients_of_what_nobody_read():
    layer = nn.LSTM(6, 8, bidirectional=True)
    x = torch.randn(7, 3, 6)

    def hooked(x):
        out = layer(x)[0]
        out.register_hook(lambda g: g + 1)
        return out[-1] * 2

    def asked(x):
        out = layer(x)[0]
        (g,) = torch.autograd.grad(out, layer.weight_hh_l0_reverse, torch.ones_like(out), retain_graph=True)
        return (out[-1] * 2).sum() + g.sum()

    _compare(layer, hooked, x)
    _compare(layer, asked, x)


@pytest.mark.slow
def test_second_derivatives():
    layer = nn.LSTM(6, 8, bidirectional=True).double()
    x = torch.randn(5, 3, 6, dtype=torch.float64, requires_grad=True)
    function = lambda x: layer(x)[0][-1].exp()
    region, found = Region(function), []
    for call in (function, region, region):
        (g,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(g.square().sum(), x)[0])
    assert torch.allclose(found[0], found[1]) and torch.equal(found[1], found[2])


def test_whole_steps():
    layers = [nn.LSTM(6, 8, num_layers=2, bidirectional=True) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    x, losses = torch.randn(7, 16, 6), []
    for layer in layers:
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(layer=layer, optimizer=optimizer):
            optimizer.zero_grad()
            loss = layer(x)[0][-1].square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step, fullgraph=True) if layer is layers[1] else step
        losses.append([run().item() for _ in range(5)])
    assert losses[0] == losses[1]
    for a, b in zip(*[layer.parameters() for layer in layers]):
        assert torch.equal(a, b)
