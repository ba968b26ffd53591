"""Steps of the optimizers against the same formulas written in NumPy, in double precision."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.cuda.optim import render
from flambeau._kernel.loops.pointwise import _layouts, render_pointwise
from flambeau.optim._elementwise import _NUMBERS

STEPS = 7


def decayed(p, g, group, decoupled):
    """Parameter and gradient after weight decay and sign."""
    g = -g if group.get("maximize") else g
    decay = group.get("weight_decay", 0)
    return (p * (1 - group["lr"] * decay), g) if decoupled else (p, g + decay * p)


def sgd(p, g, s, t, k):
    p, g = decayed(p, g, k, False)
    momentum = k.get("momentum", 0)
    if momentum:
        s["b"] = g if t == 1 else momentum * s["b"] + (1 - k.get("dampening", 0)) * g
        g = g + momentum * s["b"] if k.get("nesterov") else s["b"]
    return p - k["lr"] * g


def adam(p, g, s, t, k):
    p, g = decayed(p, g, k, k.get("decoupled_weight_decay", False))
    b1, b2 = k.get("betas", (0.9, 0.999))
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g**2
    v = s["v"]
    if k.get("amsgrad"):
        v = s["x"] = np.maximum(s.get("x", 0), v)
    return p - k["lr"] / (1 - b1**t) * s["m"] / (np.sqrt(v) / np.sqrt(1 - b2**t) + k.get("eps", 1e-8))


def adamw(p, g, s, t, k):
    return adam(p, g, s, t, {"weight_decay": 1e-2, "decoupled_weight_decay": True, **k})


def adadelta(p, g, s, t, k):
    p, g = decayed(p, g, k, False)
    rho, eps = 0.9, 1e-6
    s["v"] = rho * s.get("v", 0) + (1 - rho) * g**2
    delta = np.sqrt(s.get("a", 0) + eps) / np.sqrt(s["v"] + eps) * g
    s["a"] = rho * s.get("a", 0) + (1 - rho) * delta**2
    return p - k["lr"] * delta


def adagrad(p, g, s, t, k):
    p, g = decayed(p, g, k, False)
    s["v"] = s.get("v", k.get("initial_accumulator_value", 0)) + g**2
    return p - k["lr"] / (1 + (t - 1) * k.get("lr_decay", 0)) * g / (np.sqrt(s["v"]) + 1e-10)


def adamax(p, g, s, t, k):
    p, g = decayed(p, g, k, False)
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0), np.abs(g) + 1e-8)
    return p - k["lr"] / (1 - 0.9**t) * s["m"] / s["u"]


def asgd(p, g, s, t, k):
    p, g = decayed(p, g, k, False)
    lambd = k.get("lambd", 1e-4)
    eta = k["lr"] / (1 + lambd * k["lr"] * (t - 1)) ** 0.75
    return p * (1 - lambd * eta) - eta * g


def nadam(p, g, s, t, k):
    p, g = decayed(p, g, k, k.get("decoupled_weight_decay", False))
    mu, after = (0.9 * (1 - 0.5 * 0.96 ** (n * 4e-3)) for n in (t, t + 1))
    s["w"] = s.get("w", 1.0) * mu
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g**2
    spread = np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-8
    return p - k["lr"] * ((1 - mu) / (1 - s["w"]) * g + after / (1 - s["w"] * after) * s["m"]) / spread


def radam(p, g, s, t, k):
    p, g = decayed(p, g, k, k.get("decoupled_weight_decay", False))
    b1, b2 = k.get("betas", (0.9, 0.999))
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g**2
    step = s["m"] / (1 - b1**t)
    limit = 2 / (1 - b2) - 1
    length = limit - 2 * t * b2**t / (1 - b2**t)
    if length > 5:
        ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        step = step * np.sqrt(ratio) * np.sqrt(1 - b2**t) / (np.sqrt(s["v"]) + 1e-8)
    return p - k["lr"] * step


def rmsprop(p, g, s, t, k):
    p, g = decayed(p, g, k, False)
    s["v"] = 0.99 * s.get("v", 0) + 0.01 * g**2
    variance = s["v"]
    if k.get("centered"):
        s["m"] = 0.99 * s.get("m", 0) + 0.01 * g
        variance = variance - s["m"] ** 2
    step = g / (np.sqrt(variance) + 1e-8)
    if k.get("momentum"):
        step = s["b"] = k["momentum"] * s.get("b", 0) + step
    return p - k["lr"] * step


def rprop(p, g, s, t, k):
    g = -g if k.get("maximize") else g
    product = g * s.get("g", np.zeros_like(g))
    factor = np.where(product > 0, 1.2, np.where(product < 0, 0.5, 1.0))
    s["d"] = np.clip(s.get("d", k["lr"]) * factor, 1e-6, 50)
    s["g"] = np.where(product < 0, 0, g)
    return p - np.sign(s["g"]) * s["d"]


CASES = [
    ("SGD", sgd, {}), ("SGD", sgd, {"momentum": 0.9}), ("SGD", sgd, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", sgd, {"momentum": 0.5, "dampening": 0.3, "maximize": True}),
    ("Adam", adam, {}), ("Adam", adam, {"weight_decay": 0.1, "amsgrad": True}), ("Adam", adam, {"betas": (0.5, 0.7), "eps": 0.1}),
    ("Adam", adam, {"maximize": True, "decoupled_weight_decay": True, "weight_decay": 0.3}),
    ("AdamW", adamw, {}), ("AdamW", adamw, {"weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("Adadelta", adadelta, {}), ("Adadelta", adadelta, {"weight_decay": 0.1, "maximize": True}),
    ("Adagrad", adagrad, {}), ("Adagrad", adagrad, {"lr_decay": 0.2, "initial_accumulator_value": 0.5, "weight_decay": 0.1}),
    ("Adamax", adamax, {}), ("Adamax", adamax, {"weight_decay": 0.1, "maximize": True}),
    ("ASGD", asgd, {}), ("ASGD", asgd, {"lambd": 0.1, "weight_decay": 0.1}),
    ("NAdam", nadam, {}), ("NAdam", nadam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", radam, {}), ("RAdam", radam, {"betas": (0.8, 0.95), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", rmsprop, {}), ("RMSprop", rmsprop, {"centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("Rprop", rprop, {}), ("Rprop", rprop, {"maximize": True}),
]  # fmt: skip


def data(seed=0, shapes=((4, 3), (5,), (), (0, 2), (2, 3, 2))):
    generator = np.random.default_rng(seed)
    values = [generator.standard_normal(shape) for shape in shapes]
    gradients = [[generator.standard_normal(shape) for shape in shapes] for _ in range(STEPS)]
    return values, gradients


def expected(formula, values, gradients, settings):
    result = []
    for i, value in enumerate(values):
        state = {}
        for t, gs in enumerate(gradients, 1):
            value = formula(value, gs[i], state, t, settings)
        result.append(value)
    return result


def trained(name, params, gradients, settings):
    optimizer = getattr(torch.optim, name)(params, **settings)
    for gs in gradients:
        for p, g in zip(params, gs):
            p.grad = torch.tensor(g).to(p.dtype)
        optimizer.step()
    return optimizer


# Settings choose the same terms of a formula in every dtype: in bfloat16 the usual ones show how results are rounded.
BY_DTYPE = [
    pytest.param(*case, dtype, tolerance, marks=[pytest.mark.slow] if dtype == "bfloat16" and case[-1] else [])
    for dtype, tolerance in (("float64", 1e-8), ("float32", 2e-5), ("bfloat16", 0.1))
    for case in CASES
]


@pytest.mark.parametrize("name, formula, settings, dtype, tolerance", BY_DTYPE)
def test_formula(name, formula, settings, dtype, tolerance):
    values, gradients = data()
    settings = {"lr": 0.02, **settings}
    params = [torch.nn.Parameter(torch.tensor(v).to(getattr(torch, dtype))) for v in values]
    versions = [p._version for p in params]
    trained(name, params, gradients, settings)
    for p, want in zip(params, expected(formula, values, gradients, settings)):
        np.testing.assert_allclose(p.detach().double().numpy(), want, rtol=tolerance, atol=tolerance)
    assert all(p._version > v for p, v in zip(params, versions))


@pytest.mark.parametrize("name, formula, settings", CASES[::2])
def test_strides(name, formula, settings):
    """Parameters that are not contiguous change as others do, and their neighbours in memory do not."""
    values, gradients = data()
    settings = {"lr": 0.02, **settings}
    whole = [torch.stack([torch.tensor(v)] * 2, -1) for v in values]
    params = [torch.nn.Parameter(w[..., 0]) for w in whole]
    trained(name, params, gradients, settings)
    for p, w, v, want in zip(params, whole, values, expected(formula, values, gradients, settings)):
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-8, atol=1e-8)
        assert np.array_equal(w[..., 1].numpy(), v)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name, settings", [("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"amsgrad": True})])
def test_narrow_parameters_change_alike_however_they_lie(name, settings, dtype):
    """Side by side, when vectors do it, and with gaps."""
    values, gradients = data(shapes=((997,),))
    dense = torch.nn.Parameter(torch.tensor(values[0]).to(dtype))
    gaps = torch.nn.Parameter(torch.stack([dense.detach()] * 2, -1)[..., 0])
    for p in (dense, gaps):
        trained(name, [p], gradients, settings)
    assert torch.equal(dense, gaps) and not torch.equal(dense.detach(), torch.tensor(values[0]).to(dtype))


def test_a_kernel_with_numbers_has_one_loop_for_them():
    """Beside the one for operands that lie anyhow: it fits every step of an optimizer, however many states there are."""
    kernel = lambda m, p, g, s, rate, keep: (p - rate * (s * keep + g), s * keep + g)
    for narrow in ("bf16", "f32"):
        inputs = (narrow, narrow, narrow, "f64", "f64")
        assert _layouts(inputs, False) == [(False, False, False, True, True)]
        text = render_pointwise("kernel", kernel, inputs, (narrow, narrow), ("f32",) * 5)
        assert text.count("!llvm.loop !") <= 3  # vectors, what is left of them, gaps
    assert len(_layouts(("f32", "f32", "f32"), False)) == 2


@pytest.mark.parametrize("name, formula, settings", CASES[::3])
def test_complex(name, formula, settings):
    """Complex parameters change as their real and imaginary parts."""
    (re,), (im,) = (data(seed, [(3, 2)])[0] for seed in (1, 2))
    gre, gim = (data(seed, [(3, 2)])[1] for seed in (1, 2))
    settings = {"lr": 0.02, **settings}
    p = torch.nn.Parameter(torch.tensor(re + 1j * im))
    trained(name, [p], [[a[0] + 1j * b[0]] for a, b in zip(gre, gim)], settings)
    want = expected(formula, [re], gre, settings)[0] + 1j * expected(formula, [im], gim, settings)[0]
    np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-8, atol=1e-8)


def test_differentiable():
    """The derivative of a whole step, by the learning rate and by what the gradient came from, against differences."""

    def loss(w, lr):
        x = w.clone()
        x.grad = w * w + w
        optimizer = torch.optim.Adam([x], lr=lr, differentiable=True, weight_decay=0.1)
        optimizer.step()
        x.grad = x.clone() ** 2  # the step writes into x
        optimizer.step()
        return (x * x * x).sum()

    w = torch.tensor([0.3, -0.8, 1.5], dtype=torch.float64, requires_grad=True)
    lr = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)
    loss(w, lr).backward()
    with torch.no_grad():
        h = 1e-6
        slope = (loss(w, lr + h) - loss(w, lr - h)) / (2 * h)
        assert abs(slope - lr.grad) < 1e-6
        for i in range(3):
            step = torch.zeros(3, dtype=torch.float64)
            step[i] = h
            slope = (loss(w + step, lr) - loss(w - step, lr)) / (2 * h)
            assert abs(slope - w.grad[i]) < 1e-6


def test_large_groups_run_in_parallel():
    """The work of a group is cut anywhere: between parameters and within them."""
    shapes = [(300, 301), (7,), (1,), (250, 400), (0,), (33, 5)]
    values, gradients = data(3, shapes)
    params = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    trained("AdamW", params, gradients, {"lr": 0.02})
    for p, want in zip(params, expected(adamw, values, gradients, {"lr": 0.02})):
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-8, atol=1e-8)


def test_mixed_groups():
    """Parameters of several dtypes, some without gradients, in one group."""
    values, gradients = data(4, [(4,), (4,), (4,)])
    kinds = [torch.float32, torch.float64, torch.float16]
    params = [torch.nn.Parameter(torch.tensor(v).to(d)) for v, d in zip(values, kinds)]
    frozen = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([*params, frozen], lr=0.02)
    for gs in gradients:
        for p, g in zip(params, gs):
            p.grad = torch.tensor(g).to(p.dtype)
        optimizer.step()
    assert frozen not in optimizer.state and frozen.tolist() == [1, 1]
    for p, want, tolerance in zip(params, expected(adam, values, gradients, {"lr": 0.02}), (1e-5, 1e-8, 5e-3)):
        np.testing.assert_allclose(p.detach().double().numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_sparse_gradients(name):
    """Entries of a sparse gradient count as a dense gradient's on these rows; other rows stay."""
    value, gradient = np.random.default_rng(5).standard_normal((2, 4, 3))
    rows = [0, 2]
    p = torch.nn.Parameter(torch.tensor(value))
    p.grad = torch.sparse_coo_tensor(torch.tensor([rows]), torch.tensor(gradient[rows]), (4, 3))
    getattr(torch.optim, name)([p], lr=0.1).step()
    formula = {"SGD": sgd, "Adagrad": adagrad, "SparseAdam": adam}[name]
    want = value.copy()
    want[rows] = formula(value[rows], gradient[rows], {}, 1, {"lr": 0.1})
    np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-6, atol=1e-7)


def test_sparse_gradients_refused():
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.sparse_coo_tensor([[1]], [2.0], (3,))
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        torch.optim.Adam([p]).step()
    p.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        torch.optim.SparseAdam([p]).step()


def test_adafactor():
    value, gradient = np.random.default_rng(6).standard_normal((2, 4, 3))
    p = torch.nn.Parameter(torch.tensor(value))
    p.grad = torch.tensor(gradient)
    optimizer = torch.optim.Adafactor([p], lr=0.02, weight_decay=0.1)
    optimizer.step()
    row, column = (gradient**2).mean(1, keepdims=True), (gradient**2).mean(0, keepdims=True)
    update = gradient / np.sqrt(row @ column / row.mean())
    update /= max(1.0, np.sqrt((update**2).mean()))
    size = max(1e-3, np.sqrt((value**2).mean())) * 0.02
    np.testing.assert_allclose(p.detach().numpy(), value * (1 - 0.02 * 0.1) - size * update, rtol=1e-7)
    np.testing.assert_allclose(optimizer.state[p]["row_var"].numpy(), row, rtol=1e-7)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_muon_steps_are_nearly_orthogonal(shape):
    value, gradient = np.random.default_rng(7).standard_normal((2, *shape))
    p = torch.nn.Parameter(torch.tensor(value))
    p.grad = torch.tensor(gradient)
    torch.optim.Muon([p], lr=0.1, weight_decay=0.0).step()
    step = (value - p.detach().numpy()) / (0.1 * np.sqrt(max(1, shape[0] / shape[1])))
    singular = np.linalg.svd(step, compute_uv=False)
    assert singular.min() > 0.5 and singular.max() < 1.4
    assert np.sum(step * gradient) > 0


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum(search):
    """A quadratic in few variables is solved to high precision."""
    generator = np.random.default_rng(8)
    matrix = generator.standard_normal((5, 5))
    matrix = torch.tensor(matrix @ matrix.T + np.eye(5))
    target = torch.tensor(generator.standard_normal(5))
    p = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    optimizer = torch.optim.LBFGS([p], max_iter=100, line_search_fn=search)

    def closure():
        optimizer.zero_grad()
        loss = (p @ matrix @ p) / 2 - target @ p
        loss.backward()
        return loss

    first = optimizer.step(closure)
    optimizer.step(closure)
    assert closure() < first
    np.testing.assert_allclose(p.detach().numpy(), np.linalg.solve(matrix.numpy(), target.numpy()), atol=1e-5)


@pytest.mark.parametrize("name, formula, settings", [case for case in CASES if case[0] != "SGD"])
def test_kernel_text_for_gpus(name, formula, settings):
    """Every formula can be written down for a GPU: one element's work, a load and a store for each state."""
    optimizer = getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(1))], **settings)
    options, names, given = optimizer._settings(optimizer.param_groups[0])
    _, numbers = optimizer._formula.numbers(_NUMBERS, [1.0] * len(optimizer._scalars), given, options)
    text = render("step", optimizer._formula.update, options, "f32", len(names), len(numbers))
    assert text.count("*(const float*)") == 2 + len(names) and text.count("*(float*)") == 1 + len(names)
