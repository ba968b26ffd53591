"""Recurrent networks against step-by-step NumPy, their derivatives, packed sequences and refusals of bad input."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._ops.layers.recurrent_arrays import Steps, Weights
from flambeau._ops.layers.recurrent_formulas import layer_formula

MODES = ("rnn_tanh", "rnn_relu", "gru", "lstm")
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(mode, x, h, c, wi, wh, bi, bh, wr=None):
    """One direction, one step after the other."""
    outs = []
    for step in x:
        a, b = step @ wi.T + bi, h @ wh.T + bh
        if mode == "lstm":
            i, f, g, o = np.split(a + b, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            h = h if wr is None else h @ wr.T
        elif mode == "gru":
            (r, z, n), (r_h, z_h, n_h) = np.split(a, 3, 1), np.split(b, 3, 1)
            z = sigmoid(z + z_h)
            n = np.tanh(n + sigmoid(r + r_h) * n_h)
            h = (1 - z) * n + z * h
        else:
            h = np.tanh(a + b) if mode == "rnn_tanh" else np.maximum(a + b, 0)
        outs.append(h)
    return np.stack(outs), h, c


def parameters(mode, features, size, directions=1, layers=1, projection=0, dtype=torch.float64):
    width = projection or size
    made = []
    for layer in range(layers):
        for _ in range(directions):
            columns = features if layer == 0 else width * directions
            shapes = [(GATES[mode] * size, columns), (GATES[mode] * size, width), (GATES[mode] * size,)]
            shapes += [shapes[-1], *([(projection, size)] if projection else [])]
            made += [torch.randn(s, dtype=dtype).div(size**0.5).requires_grad_() for s in shapes]
    return made


def states(mode, count, batch, size, projection=0, dtype=torch.float64):
    h = torch.randn(count, batch, projection or size, dtype=dtype)
    return (h, torch.randn(count, batch, size, dtype=dtype)) if mode == "lstm" else h


def call(mode, x, hx, params, layers=1, bidirectional=False, batch_first=False, dropout=0.0, train=False):
    return getattr(torch, mode)(x, hx, params, True, layers, dropout, train, bidirectional, batch_first)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "length, batch, features, size", [(5, 3, 4, 6), (1, 2, 3, 5), (4, 33, 8, 40), (3, 1, 2, 1), (2, 131, 3, 5)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values(mode, length, batch, features, size, dtype):
    torch.manual_seed(0)
    x = torch.randn(length, batch, features, dtype=dtype)
    hx, params = states(mode, 2, batch, size, dtype=dtype), parameters(mode, features, size, 2, dtype=dtype)
    out, *last = call(mode, x, hx, params, bidirectional=True)
    h, c = hx if mode == "lstm" else (hx, hx)
    arrays = [p.detach().numpy() for p in params]
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-11, "atol": 1e-12}
    for i, reverse in enumerate((False, True)):
        given = x.numpy()[::-1] if reverse else x.numpy()
        found, end, cell = reference(mode, given, h[i].numpy(), c[i].numpy(), *arrays[4 * i : 4 * i + 4])
        found = found[::-1] if reverse else found
        np.testing.assert_allclose(out.detach().numpy()[..., i * size : (i + 1) * size], found, **tolerance)
        np.testing.assert_allclose(last[0][i].detach().numpy(), end, **tolerance)
        if mode == "lstm":
            np.testing.assert_allclose(last[1][i].detach().numpy(), cell, **tolerance)


def test_projection():
    torch.manual_seed(0)
    x, hx = torch.randn(4, 3, 5, dtype=torch.float64), states("lstm", 1, 3, 7, 2)
    params = parameters("lstm", 5, 7, projection=2)
    out, h, c = call("lstm", x, hx, params)
    found, end, cell = reference(
        "lstm", x.numpy(), hx[0][0].numpy(), hx[1][0].numpy(), *[p.detach().numpy() for p in params]
    )
    np.testing.assert_allclose(out.detach().numpy(), found, rtol=1e-11)
    np.testing.assert_allclose(h[0].detach().numpy(), end, rtol=1e-11)
    np.testing.assert_allclose(c[0].detach().numpy(), cell, rtol=1e-11)


def test_wide_range_of_gates():
    """Gates that are shut or open for good: no overflow, and NaN stays NaN."""
    big = torch.tensor([[[-200.0], [200.0], [0.0], [float("nan")], [float("inf")]]])
    for mode in ("lstm", "gru"):
        params = [torch.ones(GATES[mode], 1), torch.zeros(GATES[mode], 1)]
        h = torch.zeros(1, 5, 1)
        hx = (h, h) if mode == "lstm" else h
        out = getattr(torch, mode)(big, hx, params, False, 1, 0.0, False, False, False)[0]
        assert torch.isfinite(out[0, :3]).all() and torch.isnan(out[0, 3]).all() and not torch.isnan(out[0, 4]).any()


def formula_gradients(mode, x, hx, params, cotangents, counts, directions):
    weights = [Weights(*(params[5 * i : 5 * i + 5])) for i in range(directions)]
    h, c = hx if mode == "lstm" else (hx, None)
    outs = [t for t in layer_formula(mode, x, h, c, weights, Steps(np.array(counts), False)) if t is not None]
    inputs = [x, h, *([c] if c is not None else []), *[p for p in params if p is not None]]
    return outs, torch.autograd.grad(outs, inputs, cotangents)


@pytest.mark.parametrize("mode, projection", [*[(mode, 0) for mode in MODES], ("lstm", 2)])
@pytest.mark.parametrize("counts", [(4, 4, 4), (5, 3, 3, 1), (35, 20, 9)])
@pytest.mark.parametrize("everywhere", [True, False])
def test_native_loops_equal_the_formula(mode, projection, counts, everywhere):
    """Values and all gradients, in both directions, for sequences of different lengths; where gradients come from one step alone,
    others are not gone through."""
    torch.manual_seed(1)
    batch, size = counts[0], 6
    x = torch.randn(sum(counts), 4, dtype=torch.float64, requires_grad=True)
    hx = states(mode, 2, batch, size, projection)
    h = hx[0] if mode == "lstm" else hx
    for t in hx if mode == "lstm" else (hx,):
        t.requires_grad_()
    params = parameters(mode, 4, size, 2, projection=projection)
    outs = getattr(torch, mode)(x, torch.tensor(counts), hx, params, True, 1, 0.0, False, True)
    cotangents = [torch.randn_like(t) if everywhere or t is outs[0] else torch.zeros_like(t) for t in outs]
    if not everywhere:
        cotangents[0][: counts[0]] = 0
        cotangents[0][counts[0] + counts[1] :] = 0
    inputs = [x, h, *([hx[1]] if mode == "lstm" else []), *params]
    found = torch.autograd.grad(outs, inputs, cotangents)
    each = len(params) // 2
    padded = params if projection else [*params[:each], None, *params[each:], None]
    expected, gradients = formula_gradients(mode, x, hx, padded, cotangents, counts, 2)
    for a, b in zip((*outs, *found), (*expected, *gradients), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_derivatives(mode):
    torch.manual_seed(2)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    hx = states(mode, 2, 2, 3)
    params = parameters(mode, 2, 3, 2)
    hs = [t.requires_grad_() for t in (hx if mode == "lstm" else (hx,))]

    def network(x, *rest):
        given, weights = rest[: len(hs)], rest[len(hs) :]
        return call(mode, x, given if mode == "lstm" else given[0], list(weights), bidirectional=True)

    assert torch.autograd.gradcheck(network, (x, *hs, *params))
    if mode != "rnn_relu":
        assert torch.autograd.gradgradcheck(network, (x, *hs, *params))


@pytest.mark.parametrize("mode", MODES)
def test_cells(mode):
    torch.manual_seed(3)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    params = parameters(mode, 3, 5)
    hx = states(mode, 1, 4, 5)
    hs = [t[0].clone().requires_grad_() for t in (hx if mode == "lstm" else (hx,))]

    def cell(x, *rest):
        given, weights = rest[: len(hs)], rest[len(hs) :]
        return getattr(torch, mode + "_cell")(x, given if mode == "lstm" else given[0], *weights)

    found = cell(x, *hs, *params)
    _, *expected = call(mode, x[None], hx, params)
    for a, b in zip(found if mode == "lstm" else (found,), expected):
        np.testing.assert_allclose(a.detach().numpy(), b[0].detach().numpy(), rtol=1e-12)
    assert torch.autograd.gradcheck(cell, (x, *hs, *params))
    if mode != "rnn_relu":
        assert torch.autograd.gradgradcheck(cell, (x, *hs, *params))
    one_bias = getattr(torch, mode + "_cell")(x, hs if mode == "lstm" else hs[0], *params[:2], params[2])
    zeros = torch.zeros_like(params[2])
    both = cell(x, *hs, *params[:3], zeros)
    assert torch.equal(one_bias[0], both[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_its_sequences(mode):
    """Each packed sequence comes out as if it were alone, whatever the number of threads."""
    torch.manual_seed(4)
    lengths = [9, 7, 7, 2] + [1] * 20
    x = torch.randn(9, len(lengths), 3)
    counts = torch.tensor([sum(n > t for n in lengths) for t in range(9)])
    data = torch.cat([x[t, :n] for t, n in enumerate(counts.tolist())])
    params = [p.detach() for p in parameters(mode, 3, 64, 2, dtype=torch.float32)]
    hx = states(mode, 2, len(lengths), 64, dtype=torch.float32)
    made = []
    before = torch.get_num_threads()
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            made.append(getattr(torch, mode)(data, counts, hx, params, True, 1, 0.0, False, True))
    finally:
        torch.set_num_threads(before)
    for a, b, c in zip(*made):
        assert torch.allclose(a, b, atol=1e-6) and torch.allclose(a, c, atol=1e-6)
    for i in (0, 1, 3, 23):
        own = tuple(t[:, i : i + 1] for t in hx) if mode == "lstm" else hx[:, i : i + 1]
        out, *last = call(mode, x[: lengths[i], i : i + 1], own, params, bidirectional=True)
        rows = [int(counts[:t].sum()) + i for t in range(lengths[i])]
        np.testing.assert_allclose(made[0][0].numpy()[rows], out[:, 0].numpy(), rtol=1e-4, atol=1e-5)
        for a, b in zip(made[0][1:], last):
            np.testing.assert_allclose(a[:, i].numpy(), b[:, 0].numpy(), rtol=1e-4, atol=1e-5)


def test_large_sizes_by_blocks():
    """More columns, depth and rows than a block of the packed product takes."""
    torch.manual_seed(5)
    params = [p.detach() for p in parameters("lstm", 3, 300, dtype=torch.float64)]
    x, hx = torch.randn(2, 200, 3, dtype=torch.float64), states("lstm", 1, 200, 300)
    out = call("lstm", x, hx, params)[0]
    found = reference("lstm", x.numpy(), hx[0][0].numpy(), hx[1][0].numpy(), *[p.numpy() for p in params])[0]
    np.testing.assert_allclose(out.numpy(), found, rtol=1e-9, atol=1e-11)


def test_gradients_that_never_came_and_repeated_passes():
    torch.manual_seed(6)
    params = parameters("lstm", 2, 3)
    x, hx = torch.randn(4, 2, 2, dtype=torch.float64), states("lstm", 1, 2, 3)
    out, h, c = call("lstm", x, hx, params)
    (whole,) = torch.autograd.grad(c.sum(), params[:1], retain_graph=True)
    (again,) = torch.autograd.grad(c.sum(), params[:1], retain_graph=True)
    (zero,) = torch.autograd.grad(c.sum() + 0 * out.sum() + 0 * h.sum(), params[:1])
    assert torch.equal(whole, again) and torch.allclose(whole, zero) and whole.abs().max() > 0


def test_written_weights_are_noticed():
    params = parameters("gru", 2, 3)
    out = call("gru", torch.randn(4, 2, 2, dtype=torch.float64), states("gru", 1, 2, 3), params)[0]
    with torch.no_grad():
        params[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_layouts_and_types():
    torch.manual_seed(7)
    params = [p.detach().float() for p in parameters("gru", 4, 5, 2)]
    x, h = torch.randn(2, 6, 4), states("gru", 2, 2, 5, dtype=torch.float32)
    out, last = call("gru", x, h, params, bidirectional=True, batch_first=True)
    straight, end = call("gru", x.transpose(0, 1).contiguous(), h, params, bidirectional=True)
    assert torch.equal(out, straight.transpose(0, 1)) and torch.equal(last, end)
    assert out.stride() == (10, 20, 1)  # a view of what was made step by step
    turned = [p.t().contiguous().t() if p.dim() == 2 else p for p in params]
    assert torch.allclose(
        call("gru", x.transpose(0, 1), h.transpose(1, 2).contiguous().transpose(1, 2), turned, bidirectional=True)[0],
        straight,
    )
    for d in (torch.bfloat16, torch.float16):
        half = call("gru", x.to(d), h.to(d), [p.to(d) for p in params], bidirectional=True, batch_first=True)
        assert half[0].dtype is d and torch.allclose(half[0].float(), out, atol=3e-2)
    complex_params = [p.to(torch.complex64) for p in params]
    found = call(
        "gru", x.to(torch.complex64), h.to(torch.complex64), complex_params, bidirectional=True, batch_first=True
    )[0]
    assert torch.allclose(found.real, out, atol=1e-5)


def test_other_readings():
    """On meta tensors, under vmap and forward mode, and with an empty batch."""
    torch.manual_seed(8)
    params = [p.detach() for p in parameters("lstm", 2, 3, 2)]
    hx = states("lstm", 2, 4, 3)
    meta = [p.to("meta") for p in params]
    out, h, c = call(
        "lstm",
        torch.empty(5, 4, 2, dtype=torch.float64, device="meta"),
        [t.to("meta") for t in hx],
        meta,
        bidirectional=True,
    )
    assert out.shape == (5, 4, 6) and h.shape == c.shape == (2, 4, 3) and out.device.type == "meta"
    xs = torch.randn(3, 5, 4, 2, dtype=torch.float64)
    network = lambda x: call("lstm", x, hx, params, bidirectional=True)[0]
    assert torch.allclose(torch.vmap(network)(xs), torch.stack([network(x) for x in xs]))
    _, tangent = torch.func.jvp(network, (xs[0],), (xs[1],))
    numeric = (network(xs[0] + 1e-6 * xs[1]) - network(xs[0] - 1e-6 * xs[1])) / 2e-6
    assert torch.allclose(tangent, numeric, atol=1e-7)
    empty = call("lstm", xs[0][:, :0], [t[:, :0] for t in hx], params, bidirectional=True)
    assert [tuple(t.shape) for t in empty] == [(5, 0, 6), (2, 0, 3), (2, 0, 3)]


def test_dropout_between_layers():
    """The random numbers are those of dropout on the output of each layer but the last."""
    params = parameters("gru", 2, 3, layers=2)
    x, h = torch.randn(4, 2, 2, dtype=torch.float64), states("gru", 2, 2, 3)
    torch.manual_seed(9)
    out, last = call("gru", x, h, params, layers=2, dropout=0.5, train=True)
    torch.manual_seed(9)
    between, first = call("gru", x, h[:1], params[:4])
    dropped = torch.nn.functional.dropout(between, 0.5)
    expected, second = call("gru", dropped, h[1:], params[4:])
    assert torch.equal(out, expected) and torch.equal(last, torch.cat([first, second]))
    assert torch.equal(call("gru", x, h, params, 2, dropout=0.5)[0], call("gru", x, h, params, 2)[0])


def test_named_arguments_and_forms():
    params, h = parameters("gru", 2, 3), states("gru", 1, 2, 3)
    x = torch.randn(4, 2, 2, dtype=torch.float64)
    options = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False}
    out = torch.gru(input=x, hx=h, params=params, batch_first=False, **options)[0]
    packed = torch.gru(data=x.reshape(8, 2), batch_sizes=torch.tensor([2] * 4), hx=h, params=params, **options)[0]
    assert torch.allclose(out.reshape(8, 3), packed)
    for bad in (
        (x, h),
        (x, [h], params, True, 1, 0.0, False, False, False),
        (x, h, params, True, 1, 0.0, False, 1, 2, 3),
    ):
        with pytest.raises(TypeError):
            torch.gru(*bad)
    with pytest.raises(TypeError):
        torch.gru(x, h, params, batch_second=True, **options)


@pytest.mark.parametrize("mode", MODES)
def test_refusals(mode):
    """Nothing that does not fit reaches native code."""
    x, params = torch.randn(5, 2, 3), parameters(mode, 3, 4, 2, 2, dtype=torch.float32)
    function = getattr(torch, mode)
    hx = lambda *shape: (torch.zeros(shape), torch.zeros(shape)) if mode == "lstm" else torch.zeros(shape)
    good = hx(4, 2, 4)
    padded = lambda x=x, hx=good, params=params, layers=2: function(
        x, hx, params, True, layers, 0.0, False, True, False
    )
    assert padded()[0].shape == (5, 2, 8)
    for bad in (hx(3, 2, 4), hx(4, 3, 4), hx(4, 1, 4), hx(4, 2, 5), hx(4, 2), hx(0, 2, 4)):
        with pytest.raises((RuntimeError, IndexError)):
            padded(hx=bad)
    for x_bad in (torch.randn(5, 2, 4), torch.randn(0, 2, 3), torch.randn(5, 3), x.double(), x.long()):
        with pytest.raises((RuntimeError, IndexError)):
            padded(x_bad)
    for wrong in (params[:-1], params[:-4], [], params + params):
        with pytest.raises(RuntimeError):
            padded(params=wrong)
    for i in range(16):
        changed = list(params)
        changed[i] = torch.randn([n - 1 for n in params[i].shape])
        with pytest.raises(RuntimeError):
            padded(params=changed)
    with pytest.raises(RuntimeError):
        padded(layers=1)
    rows = torch.randn(8, 3)
    packed = lambda sizes, data=rows: function(data, sizes, good, params, True, 2, 0.0, False, True)
    assert packed(torch.tensor([2, 2, 2, 1, 1]))[0].shape == (8, 8)
    assert packed(torch.tensor([2, 2]))[0].shape == (4, 8)
    for sizes in ([2, 2, 2, 2, 2], [2, 2, 2, 3, -1], [1, 2, 2], [3, 2, 2], [2**62, 2**62, 2], [], [[2, 2]], [-1]):
        with pytest.raises(RuntimeError):
            packed(torch.tensor(sizes, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Long"):
        packed(torch.tensor([2, 2], dtype=torch.int32))
    with pytest.raises(RuntimeError):
        packed(torch.tensor([2, 2]), torch.randn(8, 3, 1))


@pytest.mark.parametrize("mode", MODES)
def test_refusals_of_cells(mode):
    function = getattr(torch, mode + "_cell")
    x, h, params = (
        torch.randn(2, 3),
        torch.randn(2, 4),
        [p.detach() for p in parameters(mode, 3, 4, dtype=torch.float32)],
    )
    state = lambda h: (h, h) if mode == "lstm" else h
    assert function(x, state(h), *params)[0].shape[-1] == 4
    assert [tuple(t.shape) for t in (function(x[:0], state(h[:0]), *params),) if mode != "lstm"] in ([], [(0, 4)])
    for x_bad, h_bad in (
        (torch.randn(2, 5), h),
        (x, torch.randn(3, 4)),
        (x, torch.randn(2, 5)),
        (x, torch.randn(1, 4)),
        (x.double(), h),
    ):
        with pytest.raises(RuntimeError):
            function(x_bad, state(h_bad), *params)
    with pytest.raises(IndexError):
        function(x[0], state(h[0]), *params)
    for i in range(4):
        changed = list(params)
        changed[i] = torch.randn([n - 1 for n in params[i].shape])
        with pytest.raises(RuntimeError):
            function(x, state(h), *changed)
    with pytest.raises(TypeError):
        function(x, state(None), *params)
    if mode == "lstm":
        with pytest.raises(RuntimeError):
            function(x, (h,), *params)
        with pytest.raises(TypeError):
            function(x, h, *params)
        with pytest.raises(RuntimeError):
            function(x, (h, torch.randn(2, 5)), *params)


HOOKS = {  # the order in which gradients reach the parameters of a bidirectional network of two layers, as in PyTorch
    "GRU": "b_hh w_hh b_ih w_ih",
    "RNN": "b_hh w_hh b_ih w_ih",
    "LSTM": "w_ih w_hh b_hh b_ih",
}


@pytest.mark.parametrize("kind", HOOKS)
def test_order_of_hooks(kind):
    network = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True)
    met = []
    for name, p in network.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: met.append(name))
    network(torch.ones(5, 2, 3))[0].sum().backward()
    short = HOOKS[kind].replace("b_", "bias_").replace("w_", "weight_").split()
    expected = [name + tail for tail in ("_l1_reverse", "_l1", "_l0_reverse", "_l0") for name in short]
    if kind == "LSTM":  # the last ones when the input has no gradient
        expected[-4:] = ["weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0"]
    assert met == expected


@pytest.mark.parametrize("mode", MODES)
def test_states_and_weights_in_any_layout(mode):
    params = parameters(mode, 4, 6)
    x, hx = torch.rand(5, 3, 4, dtype=torch.float64), states(mode, 1, 3, 6)
    several = isinstance(hx, (tuple, list))

    def laid(t):
        """The same values, the last dimension outermost in memory."""
        return t.movedim(-1, 0).contiguous().movedim(0, -1)

    other = type(hx)(laid(t) for t in hx) if several else laid(hx)
    expected = call(mode, x, hx, params)
    for given in (
        (laid(x), hx, params),
        (x, other, params),
        (x, hx, [laid(p) for p in params]),
        (laid(x), other, params),
    ):
        for made, value in zip(call(mode, *given), expected):
            torch.testing.assert_close(made, value)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_copy_nothing_for_the_dtype_they_have(name):
    cell, x = getattr(torch.nn, name)(3, 4), torch.randn(2, 3, requires_grad=True)
    for _ in range(3):  # by Python first, then by a plan
        made = cell(x)
        seen, waiting = [], [(made[0] if isinstance(made, tuple) else made).grad_fn]
        while waiting:
            node = waiting.pop()
            seen.append(type(node).__name__)
            waiting += [n for n, _ in node.next_functions if n is not None]
        assert "ToCopyBackward0" not in seen and seen.count("AddmmBackward0") == 2
