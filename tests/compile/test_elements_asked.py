"""Our own functions and derivatives that look at elements do so in each run of a program, not only in the recorded one."""

import warnings

import pytest

import flambeau as torch
from flambeau import func

X = torch.tensor([[0.0, 1.0, 2.0, -3.0], [2.0, 3.0, 0.0, 5.0], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 1.0, 2.0]])
NAN = X.clone()
NAN[0, 1] = float("nan")
SINGULAR = torch.diag(torch.tensor([1.0, 2.0, 0.0, 3.0]))

# a function, elements with which it is recorded, and others for which its derivative goes another way
DERIVATIVES = {
    "cumprod": (lambda a: a.cumprod(1), X + 1, X),
    "prod": (lambda a: (a * 1).prod(1), X + 1, X),
    "prod16": (lambda a: (a * 1).prod(1), (X + 1).bfloat16(), X.bfloat16()),
    "prod16 of all": (lambda a: (a * 1).prod(), (X + 1).bfloat16(), X.bfloat16()),
    "max": (lambda a: (a * 1).max(), X, NAN),
    "max16": (lambda a: (a * 1).max(), X.bfloat16(), NAN.bfloat16()),
    "det": (torch.det, torch.eye(4) + X, SINGULAR),
}


def gradient(function, x):
    x = x.clone().requires_grad_()
    function(x).sum().backward()
    return x.grad


def by_grad(function, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0] * 2


def of_the_gradient(function, x):
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    return torch.autograd.grad(g.square().sum(), x)[0] * 2


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_gradients_of_compiled_functions(name):
    function, first, second = DERIVATIVES[name]
    compiled = torch.compile(function, fullgraph=True)
    for x in (first, second, second, first):
        same(gradient(function, x), gradient(compiled, x))


@pytest.mark.parametrize("way", [by_grad, of_the_gradient])
@pytest.mark.parametrize("name", ["cumprod", "prod", "prod16", "det"])
def test_gradients_inside_of_compiled_functions(name, way):
    function, first, second = DERIVATIVES[name]
    compiled = torch.compile(lambda x: way(function, x))
    for x in (first, second, second, first):
        same(way(function, x), compiled(x))


@pytest.mark.parametrize("name", ["cumprod", "prod", "prod16", "det"])
def test_gradients_of_samples(name):
    function, first, second = DERIVATIVES[name]
    if name != "det":
        function = lambda a: getattr(a, name.removesuffix("16"))(0)
    else:
        first, second = torch.stack([first, first * 2]), torch.stack([first, second])
    each = func.vmap(func.grad(lambda a: function(a).sum()))
    compiled = torch.compile(each)
    for x in (first, second, second, first):
        same(each(x), compiled(x))


@pytest.mark.parametrize("name", ["cumprod", "prod"])
def test_second_derivatives_of_samples(name):
    _, first, second = DERIVATIVES[name]
    each = func.vmap(func.hessian(lambda a: getattr(a, name)(0).sum()))
    compiled = torch.compile(each, fullgraph=True)
    for x in (first, second, first):
        torch.testing.assert_close(each(x), compiled(x))


def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))


@pytest.mark.parametrize(
    "way",
    [
        lambda x: func.jvp(chosen, (x,), (x + 1,)),
        lambda x: func.jacfwd(chosen)(x),
        lambda x: func.jvp(func.grad(lambda a: chosen(a).sum()), (x,), (x + 1,)),
    ],
    ids=["jvp", "jacfwd", "jvp of grad"],
)
def test_tangents_go_through_branches(way):
    compiled, x = torch.compile(way), torch.tensor([1.0, 2.0, 3.0])
    for elements in (x, -x, x):
        torch.testing.assert_close(way(elements), compiled(elements))


def parts(name, number):
    return lambda a, w: (getattr(torch.linalg, name)(a)[number] * w).real.sum()


@pytest.mark.parametrize("name, number", [("svd", 0), ("svd", 2), ("eigh", 1), ("eig", 1)])
def test_what_depends_on_a_phase_is_refused(name, number):
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 3, dtype=torch.complex64)
    function = parts(name, number)
    compiled = torch.compile(function)
    for scale in (0.0, 0.0, 1.0, 0.0):
        for call in (function, compiled):
            loss = call((x + x.mH).clone().requires_grad_(), w * scale)
            if scale:
                with pytest.raises(RuntimeError, match="phase of complex"):
                    loss.backward()
            else:
                loss.backward()


def inverse(s, w):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.istft(s, 16, window=w)


S = torch.stft(torch.linspace(-1, 1, 64), 16, window=torch.ones(16), return_complex=True)
INTEGERS, ALL = torch.arange(12).reshape(3, 4), torch.ones(3, 4, dtype=torch.bool)
ERRORS = {
    "cov": (lambda a, w: torch.cov(a, fweights=w), (X, torch.tensor([1, 2, 0, 1])), (X, torch.tensor([1, 2, -1, 1]))),
    "median": (lambda a, m: torch.masked.median(a, 1, mask=m), (INTEGERS, ALL), (INTEGERS, ALL & (INTEGERS > 3))),
    "istft": (inverse, (S, torch.ones(16)), (S, torch.zeros(16))),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_refused_by_its_elements(name):
    function, good, bad = ERRORS[name]
    compiled = torch.compile(function)
    for _ in range(2):
        same(function(*good), compiled(*good))
    with pytest.raises((RuntimeError, ValueError)) as expected:
        function(*bad)
    with pytest.raises(type(expected.value)) as found:
        compiled(*bad)
    assert str(found.value) == str(expected.value)
    same(function(*good), compiled(*good))


def test_a_shape_that_depends_on_elements():
    torch.manual_seed(0)
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    dependent = a.clone()
    dependent[:, 1] = dependent[:, 0]
    residuals = lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd")[1]
    compiled = torch.compile(residuals)
    for x in (a, dependent, a):
        same(residuals(x, b), compiled(x, b))


NUMBERS = {
    "product": lambda x, s: x * x * s.item(), "list": lambda x, s: torch._foreach_mul([x * x], s.tolist())[0],
    "addcdiv": lambda x, s: torch._foreach_addcdiv([x * x], [x], [x + 2], s)[0], "alpha": lambda x, s: torch.add(x * x, x**3, alpha=s.item()),
    "power": lambda x, s: (x + 1) ** s.item(), "bound": lambda x, s: (x * x).clamp(s.item()), "slope": lambda x, s: torch.nn.functional.leaky_relu(-x * x, s.item()),
}  # fmt: skip


def _twice(f, x, s):
    (g,) = torch.autograd.grad(f(x, s).sum(), x, create_graph=True)
    return torch.autograd.grad(g.square().sum(), x)[0]


def _twice_by_transforms(f, x, s):
    return func.grad(lambda x: func.grad(lambda x: f(x, s).sum())(x).square().sum())(x)


@pytest.mark.parametrize("way", [_twice, _twice_by_transforms])
@pytest.mark.parametrize("name", NUMBERS)
def test_second_derivatives_by_numbers_that_are_read(name, way):
    f, x = NUMBERS[name], torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    compiled = torch.compile(lambda x, s: way(f, x, s))
    for number in (1.0, 2.0, 5.0, -3.0):
        s = torch.tensor([number])
        torch.testing.assert_close(compiled(x, s), way(f, x, s))


PLACES = {
    "embedding": lambda w, i: torch.nn.functional.embedding(i, w), "rows": lambda w, i: w[i], "index_select": lambda w, i: w.index_select(0, i),
    "gather": lambda w, i: w.gather(0, i[:, None]), "nll_loss": lambda w, i: torch.nn.functional.nll_loss(w[:1], i),
    "index_add": lambda w, i: torch.zeros(5, 2).index_add(0, i, w[:1]), "take": lambda w, i: w.take(i),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_gradients_alone_refuse_places_that_are_not_there(name):
    f = torch.compile(lambda w, i: func.grad(lambda w: PLACES[name](w, i).sum())(w))
    w = torch.arange(10.0).reshape(5, 2)
    same(f(w, torch.tensor([1])), func.grad(lambda w: PLACES[name](w, torch.tensor([1])).sum())(w))
    for bad in (99, -77):
        with pytest.raises((IndexError, RuntimeError)):
            f(w, torch.tensor([bad]))
