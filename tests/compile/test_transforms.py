"""Transforms, forward mode and Jacobians inside of compiled functions: one program each, with eager's results in every call."""

import copy

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as forward_ad
from flambeau import nn
from flambeau.autograd import functional
from flambeau.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

F = nn.functional


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


MODEL = net()
OWN = dict(MODEL.named_parameters())
FIXED = {name: p.detach().clone() for name, p in OWN.items()}


def score(x):
    return (MODEL(x).sin() ** 2).sum()


def sample_loss(p, x, y):
    return F.cross_entropy(functional_call(MODEL, p, (x[None],)), y[:3].argmax()[None])


def dual(function, x, v):
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x, v)))
        return value, tangent


def written(x):
    y = torch.zeros_like(x)
    y[1:] = x[:-1]
    y.add_(x).mul_(2)
    y[0] += y[1]
    return y


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * 3 * x**2

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return Cube.apply(x), in_dims[0]


# Functions of a (5, 4) tensor x and a (5, 4) tensor y.
FORMS = {
    "vmap": lambda x, y: vmap(lambda a: a.sin().sum())(x),
    "vmap, two": lambda x, y: vmap(torch.dot)(x, y),
    "vmap, shared": lambda x, y: vmap(lambda a, b: a @ b, in_dims=(0, None))(x, y.T),
    "vmap, other dims": lambda x, y: vmap(lambda a, b: a * b + a.sum(), in_dims=(1, -1), out_dims=1)(x, y),
    "vmap, trees": lambda x, y: vmap(lambda d, t: {"s": d["a"] + t[0], "p": (d["b"] * t[1],)}, in_dims=({"a": 0, "b": None}, (0, 1)))(
        {"a": x, "b": y[0]}, (y, x.T)),
    "vmap, trees of results": lambda x, y: vmap(lambda a: (a, [a.exp(), a[0]]), out_dims=(1, [0, 0]))(x),
    "vmap, nothing mapped in a result": lambda x, y: vmap(lambda a: (a * 2, y.sum()), out_dims=(0, None))(x),
    "vmap, constant result": lambda x, y: vmap(lambda a: torch.ones(2) * 3)(x),
    "vmap, nested": lambda x, y: vmap(vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x, y),
    "vmap, three levels": lambda x, y: vmap(lambda a: vmap(lambda b: vmap(lambda c: a.sum() * b * c)(x[:, 0]))(y[0]))(y),
    "vmap, chunks": lambda x, y: vmap(lambda a, b: (a * b).cumsum(0), chunk_size=2)(x, y),
    "vmap, writes": lambda x, y: vmap(written)(x),
    "vmap, writes into the argument": lambda x, y: vmap(lambda a: a.mul_(2).add_(1))(x.clone()),
    "vmap, a write into a clone of a shared one": lambda x, y: vmap(lambda a: y.clone()[0].mul(a))(x),
    "vmap, where": lambda x, y: vmap(lambda a, b: torch.where(a > b, a, -b))(x, y),
    "vmap, index": lambda x, y: vmap(lambda a, i: a[i], in_dims=(0, 0))(x, y.argsort(1)),
    "vmap, gather": lambda x, y: vmap(lambda a, b: a.gather(0, b.argsort()).sort().values)(x, y),
    "vmap, linear algebra": lambda x, y: vmap(lambda a: torch.linalg.solve(torch.outer(a, a) + 3 * torch.eye(4), a))(x),
    "vmap, norm": lambda x, y: vmap(lambda a: F.layer_norm(a, (4,)).norm())(x),
    "vmap, softmax": lambda x, y: vmap(lambda a, b: F.softmax(a, 0) @ b)(x, y),
    "vmap, attention": lambda x, y: vmap(lambda a: F.scaled_dot_product_attention(a[:, None], a[:, None], y[0][:, None]))(x),
    "vmap, conv": lambda x, y: vmap(lambda a: F.conv1d(a[None, None], y[:1, :3][None]))(x),
    "vmap, module": lambda x, y: vmap(MODEL)(x),
    "vmap, item assignment of a number": lambda x, y: vmap(lambda a: torch.zeros_like(a).index_fill(0, torch.tensor([1]), 2.0) + a)(x),
    "vmap, empty tensors": lambda x, y: vmap(lambda a: a[:0].sum() + a.sum())(x),
    "vmap, dtype": lambda x, y: vmap(lambda a: (a > 0).sum() + a.long().double().mean())(x),
    "vmap, einsum": lambda x, y: vmap(lambda a, b: torch.einsum("i,j->ij", a, b))(x, y),
    "vmap, cond by where of sorted": lambda x, y: vmap(lambda a: torch.topk(a, 2).values)(x),
    "vmap of Function": lambda x, y: vmap(Cube.apply)(x),
    "grad": lambda x, y: grad(lambda a: (a.sin() * y).sum())(x),
    "grad, argnums": lambda x, y: grad(lambda a, b: (a * b.exp()).sum(), argnums=(0, 1))(x, y),
    "grad, aux": lambda x, y: grad(lambda a: ((a * y).sum(), a.exp()), has_aux=True)(x),
    "grad and value": lambda x, y: grad_and_value(lambda a: (a * y).cos().sum())(x),
    "grad, twice": lambda x, y: grad(lambda a: grad(lambda b: (b**3 * y).sum())(a).sum())(x),
    "grad of Function": lambda x, y: grad(lambda a: Cube.apply(a).sum())(x),
    "grad of module": lambda x, y: grad(score)(x),
    "vjp": lambda x, y: vjp(torch.sin, x)[1](y)[0],
    "vjp, used twice": lambda x, y: [vjp(torch.exp, x)[1](v)[0] for v in (x, y)],
    "jvp": lambda x, y: jvp(torch.sin, (x,), (y,)),
    "jvp, two": lambda x, y: jvp(lambda a, b: (a * b).tanh(), (x, y), (y, x)),
    "jvp, aux": lambda x, y: jvp(lambda a: (a * y, a + 1), (x,), (y,), has_aux=True),
    "jvp, writes": lambda x, y: jvp(written, (x,), (y,)),
    "jvp of module": lambda x, y: jvp(score, (x,), (y,)),
    "jvp of Function": lambda x, y: jvp(Cube.apply, (x,), (y,)),
    "jvp of jvp": lambda x, y: jvp(lambda a: jvp(torch.sin, (a,), (y,))[1], (x,), (x,)),
    "jvp of grad": lambda x, y: jvp(grad(score), (x,), (y,)),
    "jvp of views": lambda x, y: jvp(lambda a: a.T.reshape(2, 10).softmax(1)[:, 1:].contiguous(), (x,), (y,)),
    "linearize": lambda x, y: linearize(torch.tanh, x)[1](y),
    "jacrev": lambda x, y: jacrev(lambda a: a.sin() * y)(x),
    "jacrev, trees": lambda x, y: jacrev(lambda a, b: {"p": a @ b, "q": (b.exp(),)}, argnums=(0, 1))(x, y.T),
    "jacrev, chunks": lambda x, y: [jacrev(torch.exp, chunk_size=n)(x[0]) for n in (1, 3)],
    "jacfwd": lambda x, y: jacfwd(lambda a: a.sin() * y)(x),
    "jacfwd, aux": lambda x, y: jacfwd(lambda a: (a.exp(), a * 2), has_aux=True)(x[0]),
    "jacrev of module": lambda x, y: jacrev(MODEL)(x),
    "jacfwd of module": lambda x, y: jacfwd(MODEL)(x),
    "hessian": lambda x, y: hessian(score)(x[0]),
    "hessian of a product": lambda x, y: hessian(lambda a: (a * y).prod(1).sum())(x),
    "jacrev of jacrev": lambda x, y: jacrev(jacrev(lambda a: (a * y[0]).cos().sum()))(x[0]),
    "jacrev of jacfwd": lambda x, y: jacrev(jacfwd(lambda a: (a * y[0]).cos().sum()))(x[0]),
    "vmap of grad": lambda x, y: vmap(grad(lambda a, b: (a * b).sin().sum()))(x, y),
    "vmap of jacrev": lambda x, y: vmap(jacrev(lambda a: a.sin().cumsum(0)))(x),
    "vmap of jacfwd": lambda x, y: vmap(jacfwd(lambda a: a.sin().cumsum(0)))(x),
    "vmap of hessian": lambda x, y: vmap(hessian(lambda a: (a**3).prod()))(x),
    "vmap of jvp": lambda x, y: vmap(lambda a, b: jvp(lambda c: (c**2).sum(), (a,), (b,)))(x, y),
    "vmap of vjp": lambda x, y: vmap(lambda a, b: vjp(torch.tanh, a)[1](b)[0])(x, y),
    "grad of vmap": lambda x, y: grad(lambda a: vmap(lambda b, c: (b * c).sin().sum())(a, y).sum())(x),
    "jvp of vmap": lambda x, y: jvp(vmap(lambda a: a.softmax(0)), (x,), (y,)),
    "laplacian": lambda x, y: vmap(lambda a: torch.einsum("ii->", hessian(lambda b: score(b[None]))(a)))(x),
    "gradients of samples": lambda x, y: vmap(grad(sample_loss), in_dims=(None, 0, 0))(OWN, x, y),
    "gradients of samples, copies": lambda x, y: vmap(grad_and_value(sample_loss), in_dims=(None, 0, 0))(FIXED, x, y),
    "jacobian": lambda x, y: functional.jacobian(lambda a: a.sin() * y, x),
    "jacobian of two": lambda x, y: functional.jacobian(lambda a, b: (a @ b.T, a.sum()), (x, y), vectorize=True),
    "hessian of functional": lambda x, y: functional.hessian(lambda a: (a * y).cos().sum(), x),
    "vjp of functional": lambda x, y: functional.vjp(torch.sin, x, y),
    "jvp of functional": lambda x, y: functional.jvp(torch.sin, x, y),
    "hvp of functional": lambda x, y: functional.hvp(score, x, y),
    "vhp of functional": lambda x, y: functional.vhp(score, x, y),
    "dual": lambda x, y: dual(lambda a: (a.sin() * y).sum(1), x, y),
    "dual of module": lambda x, y: dual(MODEL, x, y),
    "dual, a second value": lambda x, y: dual(lambda a: torch.cat([a, y]).log_softmax(0), x, y),
}  # fmt: skip


def leaves(out):
    return torch.utils._pytree.tree_flatten(out)[0]


def same(a, b, exact=False):
    a, b = leaves(a), leaves(b)
    assert len(a) == len(b)
    for s, t in zip(a, b):
        if isinstance(t, torch.Tensor):
            assert (
                type(s) is type(t) and s.dtype is t.dtype and s.shape == t.shape and s.requires_grad == t.requires_grad
            )
            # what it may be a difference of
            large = float(t.detach().nan_to_num(0, 0, 0).abs().max()) if t.numel() else 1.0
            assert torch.allclose(s, t, rtol=1e-5, atol=5e-6 * max(1.0, large), equal_nan=True)
        else:
            assert s == t


def inputs(seed, requires_grad=False):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(5, 4, generator=g).requires_grad_(requires_grad) for _ in range(2)]


@pytest.fixture(autouse=True)
def counted():
    torch._dynamo.utils.counters.clear()


def programs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    function = FORMS[form]
    compiled = torch.compile(function, fullgraph=True)
    for seed in range(3):
        same(compiled(*inputs(seed)), function(*inputs(seed)))
    assert programs() == 1


# Their calls are tested without gradients, too, and other forms have gradients like theirs.
LONG = {
    "vmap, trees of results", "vmap, where", "vmap, linear algebra", "vmap, cond by where of sorted", "vmap of hessian", "vmap, nested",
    "laplacian", "jacfwd of module", "gradients of samples",
}  # fmt: skip


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[pytest.mark.slow] if form in LONG else []) for form in FORMS]
)
def test_backward_through_forms(form):
    function = FORMS[form]
    compiled = torch.compile(function, fullgraph=True)

    def gradients(f, seed):
        x, y = inputs(seed, requires_grad=True)
        out = f(x, y)
        total = sum([t.double().cos().sum() for t in leaves(out) if t.requires_grad])
        if not isinstance(total, torch.Tensor):
            return out, []
        return out, torch.autograd.grad(total, [x, y, *MODEL.parameters()], allow_unused=True)

    for seed in range(3):
        (out, found), (own, expected) = gradients(compiled, seed), gradients(function, seed)
        same(out, own)
        assert [g is None for g in found] == [g is None for g in expected]
        same([g for g in found if g is not None], [g for g in expected if g is not None])
    assert programs() == 1


class Twice:
    """Runs a program eagerly and compiled, from the same state and seeds, and compares results, states and random streams."""

    def __init__(self, make, calls=4, fullgraph=True):
        runs = []
        for compiled in (False, True):
            torch.manual_seed(0)
            function, arguments, state = make()
            call = torch.compile(function, fullgraph=fullgraph) if compiled else function
            seen = []
            for i in range(calls):
                torch.manual_seed(100 + i)
                given = arguments(i)
                try:
                    out = call(*given)
                except (RuntimeError, ValueError) as error:
                    out = type(error).__name__, str(error)
                seen.append(torch.utils._pytree.tree_map(self.kept, (out, state(), torch.rand(2))))
            runs.append(seen)
        for one, other in zip(*runs):
            same(one, other)

    @staticmethod
    def kept(a):
        return a.clone() if isinstance(a, torch.Tensor) else a


def nothing():
    return ()


def of_shape(*shape):
    return lambda i: (torch.randn(shape),)


RANDOM = {
    "dropout": lambda a: F.dropout(a, 0.5),
    "drawn": lambda a: a + torch.randn(4),
    "drawn like": lambda a: a + torch.rand_like(a),
    "written": lambda a: torch.zeros_like(a).normal_() + a,
    "bernoulli": lambda a: torch.bernoulli(torch.full((4,), 0.5)) + a,
    "permuted": lambda a: a[torch.randperm(4)],
    "multinomial": lambda a: a[torch.multinomial(torch.ones(4), 2)],
    "gradient": grad(lambda a: (F.dropout(a, 0.5) ** 2).sum()),
}


@pytest.mark.parametrize("form", RANDOM)
@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_random_numbers(form, randomness, chunk_size):
    mapped = vmap(RANDOM[form], randomness=randomness, chunk_size=chunk_size)
    Twice(lambda: (lambda x: mapped(x), of_shape(5, 4), nothing))
    assert programs() == 1


def nested_levels(x):
    with forward_ad.dual_level(), forward_ad.dual_level():
        return x


def of_each(function):
    return lambda x: vmap(function)(x)


WRONG = {
    "random": of_each(lambda a: a + torch.randn(4)),
    "item": of_each(lambda a: a * a.sum().item()),
    "branch": of_each(lambda a: a if a.sum() > 0 else -a),
    "shapes": of_each(lambda a: a @ torch.ones(7)),
    "sizes by elements": of_each(lambda a: a.nonzero()),
    "no scalar": lambda x: grad(lambda a: a * 2)(x),
    "in_dims": lambda x: vmap(lambda a: a, in_dims=7)(x),
    "shared write": lambda x: vmap(lambda a: x[0].add_(a))(x),
    "levels": nested_levels,
    "tangents": lambda x: jvp(torch.sin, (x,), (x[0],)),
}


@pytest.mark.parametrize("form", WRONG)
def test_errors_are_those_of_eager_calls(form):
    Twice(lambda: (WRONG[form], of_shape(5, 4), nothing))
    same(torch.compile(lambda x: vmap(torch.sin)(x))(torch.ones(3)), torch.ones(3).sin())  # nothing is left open


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_an_error_in_one_of_the_calls(wrong):
    now = [0]

    def make():
        def inner(a):
            if now[0] == wrong:
                raise ValueError("now")
            return jvp(torch.sin, (a,), (a,))[1].sum()

        def arguments(i):
            now[0] = i
            return (torch.randn(5, 4),)

        return lambda x: vmap(grad(inner))(x), arguments, nothing

    Twice(make)


def test_an_error_that_is_caught():
    def function(x):
        try:
            vmap(lambda a: a.sum().item())(x)
        except RuntimeError:
            return vmap(torch.sin)(x)

    Twice(lambda: (function, of_shape(5, 4), nothing))
    assert programs() == 1


def test_a_module_that_changes_between_calls():
    def make():
        model = net()

        def arguments(i):
            with torch.no_grad():
                if i == 1:
                    model[0].weight.mul_(2)
                if i == 2:
                    model[0].weight = nn.Parameter(torch.ones(8, 4))
                if i == 3:
                    model[0].bias.data = torch.ones(8)
                if i == 4:
                    model[1] = nn.ReLU()
            return (torch.randn(5, 4),)

        return lambda x: vmap(grad(lambda a: model(a).sum()))(x), arguments, nothing

    Twice(make, calls=6)


def test_parameters_that_change_between_calls():
    def make():
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh())
        values = {name: p.detach().clone() for name, p in model.named_parameters()}

        def arguments(i):
            if i == 1:
                values["0.weight"] = values["0.weight"] * 2
            if i == 2:
                values["0.weight"].mul_(2)
            if i == 3:
                model.eval()
            if i == 4:
                model[2] = nn.ReLU()
            return (torch.randn(5, 4),)

        of_sample = grad(lambda p, a: functional_call(model, p, (a,)).sum())
        mapped = vmap(of_sample, in_dims=(None, 0), randomness="different")
        return lambda x: mapped(values, x), arguments, lambda: list(model.parameters())

    Twice(make, calls=6)


def test_functional_call_takes_any_tensors():
    compiled = torch.compile(lambda p, x: functional_call(MODEL, p, (x,)), fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        given = {name: torch.randn_like(p) for name, p in OWN.items()}
        same(compiled(given, torch.ones(2, 4)), functional_call(MODEL, given, (torch.ones(2, 4),)))
    assert programs() == 1
    with torch.no_grad():
        MODEL[0].weight.mul_(1)  # whatever becomes of its own
    compiled(given, torch.ones(2, 4))
    assert programs() == 1


def normalized():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def function(x):
        return functional_call(model, (dict(model.named_parameters()), dict(model.named_buffers())), (x,))

    def arguments(i):
        model.train(i < 2)
        return (torch.randn(5, 4),)

    return function, arguments, lambda: list(model.buffers())


def ensemble():
    models = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(3)]
    base = copy.deepcopy(models[0])
    parameters, buffers = stack_module_state(models)
    one = lambda p, b, x: functional_call(base, (p, b), (x,))

    def arguments(i):
        base.train(i < 2)
        return (torch.randn(6, 4),)

    return lambda x: vmap(one, in_dims=(0, 0, None))(parameters, buffers, x), arguments, lambda: buffers


def ensemble_of_parts():
    models, base = [net() for _ in range(3)], net().to("meta")

    def function(x):
        return vmap(lambda p, b: functional_call(base, (p, b), (x,)))(*stack_module_state(models))

    def arguments(i):
        with torch.no_grad():
            models[i % 3][0].weight.mul_(2)
        return (torch.randn(6, 4),)

    return function, arguments, nothing


def private():
    """Gradients of samples, clipped, with noise."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss = lambda p, x, y: F.cross_entropy(functional_call(model, p, (x[None],)), y[None])

    def step(x, y):
        optimizer.zero_grad()
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        found, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(parameters, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
        factors = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for name, p in model.named_parameters():
            p.grad = torch.einsum("b...,b->...", found[name], factors) / len(x) + 0.01 * torch.randn_like(p)
        optimizer.step()
        return losses.mean()

    return step, lambda i: (torch.randn(5, 4), torch.randint(0, 3, (5,))), lambda: list(model.parameters())


def by_curvature():
    """The length of a step from a product with the Hessian."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        loss = lambda p: F.mse_loss(functional_call(model, p, (x,)), y)
        found, product = jvp(grad(loss), (parameters,), (grad(loss)(parameters),))
        square = sum((g * g).sum() for g in found.values())
        curved = sum((found[name] * product[name]).sum() for name in found)
        for name, p in model.named_parameters():
            p.grad = found[name] * (square / curved.abs().clamp(min=1e-3)).clamp(max=2)
        optimizer.step()
        return square, curved

    return step, lambda i: (torch.randn(6, 4), torch.randn(6, 3)), lambda: list(model.parameters())


def inner_loops():
    """Learning to learn (MAML)."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def task(p, x, y, later, wanted):
        loss = lambda p, x, y: F.mse_loss(functional_call(model, p, (x,)), y)
        for _ in range(2):
            found = grad(loss)(p, x, y)
            p = {name: p[name] - 0.1 * found[name] for name in p}
        return loss(p, later, wanted)

    def step(*data):
        optimizer.zero_grad()
        loss = vmap(task, in_dims=(None, 0, 0, 0, 0))(dict(model.named_parameters()), *data).mean()
        loss.backward()
        optimizer.step()
        return loss

    shapes = (3, 5, 4), (3, 5, 3), (3, 5, 4), (3, 5, 3)
    return step, lambda i: tuple(torch.randn(s) for s in shapes), lambda: list(model.parameters())


def equation():
    """A network that solves Burgers' equation: a loss with second derivatives."""
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    u = lambda p, t, x: functional_call(model, p, (torch.stack([t, x])[None],)).squeeze()

    def residual(p, t, x):
        return grad(u, 1)(p, t, x) + u(p, t, x) * grad(u, 2)(p, t, x) - 0.01 * grad(grad(u, 2), 2)(p, t, x)

    def step(t, x):
        optimizer.zero_grad()
        loss = (vmap(residual, in_dims=(None, 0, 0))(dict(model.named_parameters()), t, x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (torch.rand(7), torch.rand(7)), lambda: list(model.parameters())


def equation_by_grad():
    """The same by gradients of gradients, of an argument that the step itself lets record."""
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        x.requires_grad_()
        u = model(x)
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
        loss = ((second[:, 0] + u[:, 0]) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss, x.requires_grad

    given = []

    def arguments(i):
        given.append(torch.rand(7, 2))
        return given[-1:]

    return step, arguments, lambda: (list(model.parameters()), [(x.requires_grad, x.grad) for x in given])


def counted_inside():
    """Numbers of the run inside of transforms."""
    steps = {"count": 0}

    def step(x):
        steps["count"] += 1
        mean = x.mean().item()
        return vmap(lambda a: a * steps["count"] + mean)(x), jvp(lambda a: a * steps["count"], (x,), (x,))[1], mean

    return step, of_shape(3, 4), lambda: steps["count"]


PROGRAMS = {
    made.__name__: made
    for made in (
        normalized, ensemble, ensemble_of_parts, private, by_curvature, inner_loops, equation, equation_by_grad, counted_inside,
    )
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program):
    Twice(PROGRAMS[program], calls=6)
    assert programs() <= 2


def test_the_flag_of_an_argument_is_set_in_each_call():
    def setting(flag):
        def function(x):
            x.requires_grad = flag
            return x.detach() * 2

        return function

    for flag in (True, False):
        compiled = torch.compile(setting(flag), fullgraph=True)
        for _ in range(3):
            x = torch.ones(3, requires_grad=not flag)
            assert compiled(x).sum() == 6 and x.requires_grad is flag
    assert programs() == 2


def test_states_of_generators_are_steps():
    own = torch.Generator()

    def function(x):
        state = own.get_state()
        first = torch.rand(2, generator=own)
        own.set_state(state)
        again = torch.rand(2, generator=own)
        return x + first, x + again, torch.rand(2, generator=own.manual_seed(3))

    compiled = torch.compile(function, fullgraph=True)
    for seed in range(3):
        own.manual_seed(seed)
        expected = function(torch.ones(2))
        own.manual_seed(seed)
        same(compiled(torch.ones(2)), expected)


def test_a_compiled_function_inside_of_transforms_runs_as_before():
    inner = torch.compile(lambda a: a.sin() * 2)
    x = torch.randn(3, 4)
    for _ in range(2):
        same(vmap(grad(lambda a: inner(a).sum()))(x), 2 * x.cos())
        same(torch.compile(lambda x: vmap(grad(lambda a: inner(a).sum()))(x), fullgraph=True)(x), 2 * x.cos())
