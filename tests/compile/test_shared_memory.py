"""Compiled functions that write through tensors which share memory: arguments, views, elements that lie in one place."""

import pytest

import flambeau as torch

WRITES = {
    "a squeeze that changes nothing": lambda x: x.squeeze_().add_(1),
    "results into what was squeezed": lambda x: torch.neg(x.squeeze_(), out=x),
    "rows of what was squeezed": lambda x: x.squeeze_().index_fill_(0, torch.tensor([0]), 1),
    "one of its elements": lambda x: x.fill_(x[1]),
    "rows that are one": lambda x: x.expand(2, 3).index_fill_(0, torch.tensor([0]), 3),
    "rows that are one, by index": lambda x: x.expand(2, 3).index_put_((torch.tensor([0]),), torch.tensor(5.0)),
    "windows that overlap": lambda x: x.unfold(0, 2, 1).index_fill_(0, torch.tensor([0]), 3),
    "rows that are one, by mask": lambda x: x.expand(2, 3).masked_fill_(x > 1, 7),
    "terms of a product": lambda x: x.addcmul_(x + 1, x + 2, value=2).addcdiv_(x + 3, x * x + 1),
}


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_those_of_eager_runs(name):
    compiled = torch.compile(WRITES[name])
    expected = torch.arange(3.0)
    WRITES[name](expected)
    for _ in range(3):
        x = torch.arange(3.0)
        shown = x.view(1, 3)
        compiled(x)
        assert torch.equal(x, expected) and torch.equal(shown[0], expected)


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
def test_a_mode_does_not_undo_what_is_written_to_expanded_memory():
    x = torch.arange(3.0)
    with torch.overrides.BaseTorchFunctionMode():
        x.expand(2, 3).index_fill_(0, torch.tensor([0]), 3)
    assert x.tolist() == [3, 3, 3]


@pytest.mark.parametrize("function", [lambda a, b: a * 2, lambda a, b: a * b, lambda a, b: (a @ b, b.exp())[0]])
def test_a_leaf_that_is_given_twice_has_one_gradient(function):
    compiled = torch.compile(function)
    for _ in range(3):
        x, y = (torch.arange(3.0, requires_grad=True) for _ in range(2))
        compiled(x, x).sum().backward()
        function(y, y).sum().backward()
        assert torch.equal(x.grad, y.grad)
    (first,) = torch.autograd.grad(compiled(x, x).sum(), x)
    assert torch.equal(first, y.grad)


def test_self_attention_has_one_gradient():
    layer = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    compiled = torch.compile(layer)
    x, y = (torch.arange(8.0).view(1, 2, 4).requires_grad_() for _ in range(2))
    compiled(x, x, x)[0].square().sum().backward()
    layer(y, y, y)[0].square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


CONJUGATES = {
    "written": lambda x, y: x.conj().mul_(y),
    "written beside": lambda x, y: (z := x.conj(), x.mul_(2), z + 1)[2],
    "its imaginary part written": lambda x, y: x.conj().imag.mul_(2),
    "copied into": lambda x, y: x.conj().copy_(y),
    "out": lambda x, y: torch.add(x, y.detach(), out=x.conj()),
    "given": lambda x, y: x.conj(),
    "given of what was made": lambda x, y: (x * y).conj()[0],
    "given twice turned": lambda x, y: x.conj().conj(),
    "made, written and given": lambda x, y: (z := (x * y).conj(), z.add_(1))[0],
    "only read": lambda x, y: (x.conj() @ y).abs() + (x * y).conj().imag,
    "of a transposed one": lambda x, y: (x.mH @ y).real,
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CONJUGATES)
def test_conjugates_are_views(name, grad):
    function = CONJUGATES[name]
    compiled = torch.compile(function)

    def state(function):
        x = torch.complex(torch.arange(9.0), torch.arange(9.0).flip(0)).view(3, 3)
        y = (x + 1j).requires_grad_(grad)
        x = x.T if name == "only read" else x
        out = function(x, y)
        shares = out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        if out.requires_grad:
            out.abs().sum().backward()
        return x.detach().tolist(), out.detach().tolist(), y.grad, out.is_conj(), out.is_neg(), shares

    expected = state(function)
    for _ in range(3):
        torch.testing.assert_close(state(compiled), expected)


HISTORIES = {
    "a whole argument": lambda x, y: x.mul_(y),
    "a view": lambda x, y: x[1:].mul_(y[1:]),
    "a copy beside": lambda x, y: (x.copy_(y * 2), y * 3)[1],
    "one element": lambda x, y: (x.__setitem__(0, y[1]), y * 1)[1],
    "none, but a wish": lambda x, y: (x.requires_grad_(), y * x)[1],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_what_is_written_has_its_history(name):
    function = HISTORIES[name]
    compiled = torch.compile(function)

    def state(function):
        x = torch.arange(1.0, 4.0)
        y = (x + 1).requires_grad_()
        out = function(x, y)
        (x.sum() * 10 + (out * torch.arange(out.numel())).sum()).backward()
        return x.tolist(), y.grad.tolist(), x.requires_grad, x.is_leaf

    expected = state(function)
    for _ in range(3):
        assert state(compiled) == expected


def test_a_buffer_that_is_written_has_its_history():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((3,), 2.0))
            self.register_buffer("state", torch.zeros(3))

        def forward(self, x):
            self.state.copy_(x * self.weight)
            return x + 1

    layer = Layer()
    compiled = torch.compile(layer)
    for k in range(3):
        compiled(torch.arange(3.0) + k)
        (found,) = torch.autograd.grad(layer.state.sum(), layer.weight)
        assert found.tolist() == [k, k + 1, k + 2]
        layer.state.detach_()


WEIGHT = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
TIED, BELOW = torch.nn.Parameter(WEIGHT.data), WEIGHT.data


def _divided(x):
    length = WEIGHT.detach().norm()
    return (WEIGHT * x).sum() / length


def _halved(x):
    WEIGHT.data.mul_(0.5)
    WEIGHT.data.mul_(2)
    return (WEIGHT * x).sum()


@pytest.mark.parametrize("backend", ["inductor", lambda graph, examples: graph.forward])
@pytest.mark.parametrize(
    "function",
    [_divided, _halved, lambda x: (BELOW * WEIGHT * x).sum(), lambda x: (WEIGHT * x).sum() + (TIED * x * 2).sum()],
)
@pytest.mark.parametrize("given", [torch.ones(2), BELOW])
def test_leaves_that_are_found_by_what_lies_in_their_memory_have_gradients(function, given, backend):
    found = []
    for one in (function, torch.compile(function, backend=backend)):
        for _ in range(3):
            WEIGHT.grad, TIED.grad = torch.zeros(2), torch.zeros(2)
            out = one(given)
            out.backward()
            found.append([out.item(), WEIGHT.grad.tolist(), TIED.grad.tolist()])
    assert found[:3] == found[3:]


@pytest.mark.parametrize(
    "write",
    [
        lambda p, x: p.data.mul_(0.5),
        lambda p, x: p.data[1:].add_(1),
        lambda p, x: p.data.copy_(x),
        lambda p, x: p.data.normal_(),
        lambda p, x: torch._foreach_mul_([p.data], 0.5),
        lambda p, x: p.detach().add_(p.data.mul_(2)),
    ],
)
@pytest.mark.parametrize("given", [False, True])
def test_writes_through_data_are_not_counted_as_the_tensors_own(write, given):
    seen = []
    for compiled in (False, True):
        torch.manual_seed(0)
        p, x = torch.nn.Parameter(torch.randn(3)), torch.ones(3)

        def step(q, x):
            write(q if given else p, x)
            return x * 2

        step = torch.compile(step, fullgraph=True) if compiled else step
        for _ in range(4):
            loss, before, p.grad = (p * p).sum(), p._version, None
            step(p if given else None, x)
            counted = p._version - before
            if counted:
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    loss.backward()
            else:
                loss.backward()
            seen.append((counted, p.tolist(), None if p.grad is None else p.grad.tolist()))
    assert seen[:4] == seen[4:]


def test_data_that_is_written_in_place_is_recorded():
    def step(w, x):
        w.data -= 0.5 * x
        return w * 2

    compiled, w, expected = torch.compile(step, fullgraph=True), *[torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    for _ in range(3):
        assert torch.equal(compiled(w, torch.ones(3)), step(expected, torch.ones(3)))
    assert torch.equal(w, expected) and w._version == expected._version == 0 and len(compiled._region.entries) == 1
