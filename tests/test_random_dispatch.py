"""Random operations as `__torch_dispatch__` sees them, and writes, in graphs that `make_fx` records with and without elements."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def chances():
    return torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])


def counts():
    return torch.tensor([[9.0, 9.0, 9.0], [20.0, 20.0, 20.0]])


NOISE = [aten.bernoulli_.float, aten.div_.Tensor, aten.mul.Tensor]
CALLS = {  # what PyTorch 2.13 shows
    "bernoulli": (torch.bernoulli, [aten.bernoulli.default]),
    "bernoulli(p)": (lambda x: x.bernoulli(0.3), [aten.bernoulli.p]),
    "bernoulli_": (lambda x: x.bernoulli_(), [aten.bernoulli_.float]),
    "bernoulli_(tensor)": (lambda x: x.bernoulli_(chances()), [aten.bernoulli_.Tensor]),
    "multinomial": (lambda x: torch.multinomial(x, 2), [aten.multinomial.default]),
    "normal(tensor, tensor)": (lambda x: torch.normal(x, x), [aten.normal.Tensor_Tensor]),
    "normal(tensor)": (torch.normal, [aten.normal.Tensor_float]),
    "normal(number, tensor)": (lambda x: torch.normal(1.0, x), [aten.normal.float_Tensor]),
    "normal(number, number)": (lambda x: torch.normal(0.0, 1, (2, 3)), [aten.normal.float_float]),
    "normal_": (lambda x: x.normal_(1, 2), [aten.normal_.default]),
    "uniform_": (lambda x: x.uniform_(to=2), [aten.uniform_.default]),
    "exponential_": (lambda x: x.exponential_(), [aten.exponential_.default]),
    "geometric_": (lambda x: x.geometric_(0.5), [aten.geometric_.default]),
    "cauchy_": (lambda x: x.cauchy_(), [aten.cauchy_.default]),
    "log_normal_": (lambda x: x.log_normal_(), [aten.log_normal_.default]),
    "random_": (lambda x: x.random_(), [aten.random_.default]),
    "random_(to)": (lambda x: x.random_(5), [aten.random_.to]),
    "random_(from, to)": (lambda x: x.random_(2, 5), [getattr(aten.random_, "from")]),
    "rand": (lambda x: torch.rand(2, 3), [aten.rand.default]),
    "rand(generator)": (lambda x: torch.rand(2, 3, generator=torch.Generator()), [aten.rand.generator]),
    "rand_like": (torch.rand_like, [aten.rand_like.default]),
    "randn_like": (torch.randn_like, [aten.randn_like.default]),
    "randint_like": (lambda x: torch.randint_like(x, 1, 5), [aten.randint_like.low_dtype]),
    "randint": (lambda x: torch.randint(5, (2, 3)), [aten.randint.default]),
    "randint(low)": (lambda x: torch.randint(low=1, high=5, size=(2, 3)), [aten.randint.low]),
    "randperm": (lambda x: torch.randperm(5), [aten.randperm.default]),
    "poisson": (torch.poisson, [aten.poisson.default]),
    "binomial": (lambda x: torch.binomial(counts(), x), [aten.binomial.default]),
    "gamma": (torch._standard_gamma, [aten._standard_gamma.default]),
    "dirichlet": (torch._sample_dirichlet, [aten._sample_dirichlet.default]),
    "dropout": (F.dropout, [aten.empty_like.default, *NOISE]),
    "dropout in place": (lambda x: F.dropout(x, inplace=True), [aten.empty_like.default, *NOISE[:2], aten.mul_.Tensor]),
    "dropout1d": (lambda x: F.dropout1d(x[None]), [aten.unsqueeze.default, aten.new_empty.default, *NOISE]),
    "rrelu": (
        lambda x: F.rrelu(x - 0.3, training=True),
        [aten.sub.Tensor, aten.empty_like.default, aten.detach.default, aten.rrelu_with_noise.default],
    ),
    "rand(out=)": (lambda x: torch.rand(2, 3, out=torch.empty(2, 3)), [aten.empty.memory_format, aten.rand.out]),
    "rand_like, requires grad": (lambda x: torch.rand_like(x, requires_grad=True).detach(), [aten.rand_like.default, aten.detach.default]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_mode_sees_operators_that_draw(name):
    call, expected = CALLS[name]
    torch.manual_seed(3)
    plain = call(chances())
    torch.manual_seed(3)
    with Log() as log:
        made = call(chances())
    assert [f for f in log.seen if f is not aten.lift_fresh.default] == expected
    assert torch.equal(made, plain)  # and what it draws is what is drawn without it


DRAWN = [n for n in CALLS if "generator" not in n and "out=" not in n]
GRAPHS = [(n, mode, batched) for n in DRAWN for mode in ("real", "fake") for batched in (False, True)]
GRAPHS.remove(("rrelu", "fake", True))  # it is refused, see below


@pytest.mark.parametrize(("name", "mode", "batched"), GRAPHS)
def test_graphs_draw_anew(name, mode, batched):
    f = call = CALLS[name][0]
    if batched:
        f = lambda x: torch.func.vmap(call, randomness="different")(x)
    x = torch.stack([chances(), chances()]) if batched else chances()
    graph = make_fx(f, tracing_mode=mode)(x.clone())
    torch.manual_seed(5)
    expected = f(x.clone())
    torch.manual_seed(5)
    assert torch.allclose(graph(x.clone()), expected)
    assert not torch.equal(graph(x.clone()), expected) or not expected.is_floating_point() or expected.numel() < 7


def test_slopes_of_unknown_elements_are_refused():
    f = torch.func.vmap(CALLS["rrelu"][0], randomness="different")
    with pytest.raises(RuntimeError, match="tracing_mode='real'"):
        make_fx(f, tracing_mode="fake")(torch.stack([chances(), chances()]))


HISTORIES = {
    "bernoulli": torch.bernoulli, "normal": lambda x: torch.normal(x, x), "poisson": torch.poisson,
    "gamma": torch._standard_gamma, "dirichlet": lambda x: torch._sample_dirichlet(x)[:, 0],
    "dropout": F.dropout, "rrelu": lambda x: F.rrelu(x - 0.3, training=True), "uniform_": lambda x: (x * 2).uniform_(),
    "bernoulli_": lambda x: (x * 2).bernoulli_(x), "rand_like": lambda x: torch.rand_like(x) * x,
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_samples_have_their_history_above_a_mode(name):
    def gradient(mode):
        torch.manual_seed(3)
        x = chances().requires_grad_()
        if mode is None:
            y = HISTORIES[name](x)
        else:
            with mode:
                y = HISTORIES[name](x)
        (y * y).sum().backward()
        return y, x.grad

    (plain, expected), (seen, found) = gradient(None), gradient(Log())
    assert torch.allclose(seen, plain) and torch.allclose(found, expected)


def test_leaves_are_not_overwritten_under_a_mode():
    x = chances().requires_grad_()
    with Log(), pytest.raises(RuntimeError, match="leaf"):
        x.normal_()


def _write(target):
    def f(x, i):
        target(x, i)
        return x

    return f


WRITES = {
    "x[i, 0] = 0": lambda x, i: x.__setitem__((i, 0), 0), "x[i] += 1": lambda x, i: x.__setitem__(i, x[i] + 1),
    "index_fill_": lambda x, i: x.index_fill_(0, i, 3.0), "index_add_": lambda x, i: x.index_add_(0, i, x * 1),
    "scatter_": lambda x, i: x.scatter_(0, i[None], 5.0), "masked_scatter_": lambda x, i: x.masked_scatter_(x > 2, x * 3),
    "index_copy_": lambda x, i: x.index_copy_(0, i, x * 2), "cumsum_": lambda x, i: x.cumsum_(0), "tril_": lambda x, i: x.tril_(),
    "renorm_": lambda x, i: x.renorm_(2, 0, 1.0), "addmm_": lambda x, i: x.addmm_(x[:, :2], x),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", WRITES)
def test_graphs_have_writes(name, mode):
    f, x, i = _write(WRITES[name]), torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([1, 0])
    graph = make_fx(f, tracing_mode=mode)(x.clone(), i)
    assert torch.equal(graph(x * 2, i), f(x * 2, i))


INSIDE = {
    "detach": lambda x: x.detach() * 2, "transpose in place": lambda x: x.clone().t_().mul_(3),
    "copy_": lambda x: x.copy_(x.t() * 1), "device": lambda x: torch.ones(3, 3, device=x.device) @ x,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", INSIDE)
def test_graphs_of_vmap(name, mode):
    f = lambda x: torch.func.vmap(INSIDE[name])(x)
    x = torch.arange(18.0).reshape(2, 3, 3)
    assert torch.equal(make_fx(f, tracing_mode=mode)(x.clone())(x * 2), f(x * 2))
