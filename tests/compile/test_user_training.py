"""Programs whose modules, optimizers, tensors or settings change between calls. Compiled results are the eager ones."""

import random

import pytest
from user_programs import Programs, compare, x

import flambeau as torch
from flambeau import nn

F = nn.functional
PROGRAMS = Programs()
program = PROGRAMS.program


@program
def generator_of_layers(wrap):
    layers = [nn.Linear(3, 3), nn.Linear(3, 3)]

    @wrap
    def f(t):
        for layer in (m for m in layers if m.training):
            t = layer(t)
        return t

    yield f(x())
    layers[0].eval()
    yield f(x())
    layers.append(nn.Linear(3, 2))
    yield f(x())


@program
def hook_added_later(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    f = wrap(m)
    yield f(x())
    handle = m[0].register_forward_hook(lambda mod, args, out: out * 10)
    yield f(x())
    handle.remove()
    yield f(x())
    m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    yield f(x())


@program
def backward_hook_added_later(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    seen = []
    for i in range(4):
        m.zero_grad()
        f(x().requires_grad_()).sum().backward()
        yield m.weight.grad.clone()
        if i == 1:
            m.weight.register_hook(lambda g: g * 2)
        if i == 2:
            m.register_full_backward_hook(lambda mod, gi, go: seen.append(len(gi)))
    yield torch.tensor(len(seen))


@program
def buffer_replaced(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(3))

        def forward(self, t):
            return t + self.b

    m = M()
    f = wrap(m)
    yield f(x())
    m.b = torch.full((3,), 4.0)
    yield f(x())
    m.b.mul_(2)
    yield f(x())
    m.register_buffer("b", torch.zeros(1))
    yield f(x())
    m.b = None
    m.b = torch.ones(2, 1)
    yield f(x())


@program
def state_dict_loaded(wrap):
    m, other = nn.Linear(3, 2), nn.Linear(3, 2)
    f = wrap(m)
    yield f(x())
    m.load_state_dict(other.state_dict())
    yield f(x())
    m.load_state_dict(nn.Linear(3, 2).state_dict(), assign=True)
    yield f(x())


@program
def to_dtype(wrap):
    m = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    f = wrap(m)
    yield f(x())
    m.double()
    yield f(x().double())
    m.to(torch.bfloat16)
    yield f(x().bfloat16())
    m.float()
    yield f(x())


@program
def requires_grad_toggled(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    f = wrap(m)
    for i in range(5):
        m.zero_grad()
        m[0].weight.requires_grad_(i % 2 == 0)
        f(x()).sum().backward()
        yield [p.grad if p.grad is not None else torch.zeros(1) for p in m.parameters()]


@program
def train_eval(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    f = wrap(m)
    for mode in (True, False, True, True, False):
        m.train(mode)
        yield f(x())
    m[2].train()
    yield f(x())


@program
def tying_changes(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, t):
            return self.b(self.a(t))

    m = M()
    f = wrap(m)
    for i in range(4):
        m.zero_grad()
        f(x()).sum().backward()
        yield [p.grad.clone() for p in m.parameters()]
        if i == 0:
            m.b.weight = m.a.weight
        if i == 1:
            m.b = m.a
        if i == 2:
            m.b = nn.Linear(3, 3)


@program
def list_of_tensors_grows(wrap):
    history = []

    @wrap
    def f(t):
        history.append(t * 2)
        return sum(history)

    for i in range(5):
        yield f(x() + i)
    yield history


@program
def list_argument_grows(wrap):
    f = wrap(lambda ts: torch.stack(ts).sum(0))
    ts = []
    for i in range(4):
        ts.append(x() + i)
        yield f(ts)


@program
def autocast_toggled(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    yield f(x())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield f(x())
    with torch.autocast("cpu", enabled=False):
        yield f(x())
    with torch.autocast("cpu", dtype=torch.float16):
        yield f(x())
    yield f(x())


@program
def default_dtype(wrap):
    f = wrap(lambda t: torch.zeros(3) + torch.tensor(1.5) + t)
    yield f(x())
    torch.set_default_dtype(torch.float64)
    try:
        yield f(x())
    finally:
        torch.set_default_dtype(torch.float32)
    yield f(x())


@program
def default_device(wrap):
    f, given = wrap(lambda t: (t * 2, torch.zeros(3))[1]), x()
    yield torch.tensor(f(given).is_meta)
    with torch.device("meta"):
        found = f(given).is_meta
    yield torch.tensor(found), torch.tensor(f(given).is_meta)


def _trained(wrap, change, optimizer=torch.optim.SGD, steps=5, **options):
    m = nn.Linear(3, 2)
    o = optimizer(m.parameters(), **options)

    @wrap
    def step(t):
        o.zero_grad()
        loss = m(t).square().sum()
        loss.backward()
        o.step()
        return loss

    for i in range(steps):
        yield step(x()), [p.detach().clone() for p in m.parameters()]
        change(i, m, o)


@program
def lr_changed_by_hand(wrap):
    def change(i, m, o):
        for group in o.param_groups:
            group["lr"] *= 0.5

    yield from _trained(wrap, change, lr=0.1)


@program
def momentum_changed(wrap):
    def change(i, m, o):
        if i == 2:
            o.param_groups[0]["momentum"] = 0.9

    yield from _trained(wrap, change, lr=0.01)


@program
def betas_changed(wrap):
    def change(i, m, o):
        if i == 1:
            o.param_groups[0]["betas"] = (0.5, 0.9)

    yield from _trained(wrap, change, torch.optim.Adam, lr=0.01)


@program
def param_group_added(wrap):
    extra = nn.Parameter(torch.ones(2))

    def change(i, m, o):
        if i == 1:
            o.add_param_group({"params": [extra], "lr": 1.0})
            extra.grad = torch.ones(2)
        if i == 3:
            extra.grad = torch.ones(2) * 2

    yield from _trained(wrap, change, lr=0.01)
    yield extra.detach()


@program
def optimizer_state_loaded(wrap):
    import copy

    saved = []

    def change(i, m, o):
        if i == 1:
            saved.append(copy.deepcopy(o.state_dict()))
        if i == 3:
            o.load_state_dict(saved[0])

    yield from _trained(wrap, change, torch.optim.AdamW, lr=0.01, steps=6)


@program
def parameter_data_swapped(wrap):
    def change(i, m, o):
        if i == 1:
            m.weight.data = torch.ones(2, 3)
        if i == 2:
            with torch.no_grad():
                m.weight.copy_(torch.full((2, 3), 0.5))
        if i == 3:
            m.weight = nn.Parameter(torch.ones(2, 3))

    yield from _trained(wrap, change, lr=0.01)


@program
def gradient_accumulates(wrap):
    m = nn.Linear(3, 2)

    @wrap
    def f(t):
        m(t).sum().backward()

    for i in range(4):
        f(x())
        yield m.weight.grad.clone()
        if i == 1:
            m.weight.grad = None
        if i == 2:
            m.weight.grad.zero_()


@program
def attribute_on_an_input(wrap):
    @wrap
    def f(t):
        return t * getattr(t, "scale", 1.0)

    for i in range(4):
        t = x()
        if i % 2:
            t.scale = 2.0 + i
        yield f(t)


@program
def attribute_on_a_parameter(wrap):
    m = nn.Linear(3, 2)

    @wrap
    def f(t):
        return m(t) * (2.0 if hasattr(m.weight, "is_hot") else 1.0)

    yield f(x())
    m.weight.is_hot = True
    yield f(x())
    del m.weight.is_hot
    yield f(x())


@program
def tensor_method_replaced(wrap):
    f = wrap(lambda t: t.relu() + 1)
    yield f(x() - 3)
    before = torch.Tensor.__dict__["relu"]
    torch.Tensor.relu = lambda self: self * 100
    try:
        yield f(x() - 3)
    finally:
        torch.Tensor.relu = before
    yield f(x() - 3)


@program
def torch_function_replaced(wrap):
    f = wrap(lambda t: torch.tanh(t) + 1)
    yield f(x())
    before = torch.tanh
    torch.tanh = lambda t: t * 7
    try:
        yield f(x())
    finally:
        torch.tanh = before
    yield f(x())


@program
def functional_replaced(wrap):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    f = wrap(lambda t: F.softmax(m(t), -1))
    yield f(x())
    before = F.softmax
    F.softmax = lambda t, dim: t * 5
    try:
        yield f(x())
    finally:
        F.softmax = before
    yield f(x())


@program
def forward_replaced_on_instance(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    yield f(x())
    m.forward = lambda t: t.sum(1)
    yield f(x())
    del m.forward
    yield f(x())


@program
def forward_replaced_on_class(wrap):
    class M(nn.Module):
        def forward(self, t):
            return t + 1

    m = M()
    f = wrap(m)
    yield f(x())
    M.forward = lambda self, t: t + 2
    yield f(x())


@program
def aliasing_arguments(wrap):
    def f(a, b):
        a = a * 1
        b.add_(1)
        return a + b

    f = wrap(f)
    one, two = x(), x()
    yield f(one, two)
    yield f(one, one)
    base = torch.zeros(3, 3)
    yield f(base[:2], base[1:]), base
    yield f(x(), x())


@program
def strides_change(wrap):
    f = wrap(lambda t: t.reshape(-1) * torch.arange(6))
    yield f(x())
    yield f(x(3, 2).t())
    yield f(x(1, 3).expand(2, 3))


@program
def view_of_weight_outside(wrap):
    m = nn.Linear(3, 2)
    row = m.weight.detach()[0]
    f = wrap(m)
    yield f(x())
    row.fill_(2.0)
    yield f(x())


@program
def no_grad_toggled(wrap):
    m = nn.Linear(3, 2)
    f = wrap(m)
    yield f(x()).requires_grad + torch.zeros(1)
    with torch.no_grad():
        yield f(x()).requires_grad + torch.zeros(1)
    with torch.inference_mode():
        yield torch.tensor(float(f(x()).is_inference()))
    yield f(x()).requires_grad + torch.zeros(1)


@program
def backward_from_some_of_the_outputs(wrap):
    def several(a, b, c):
        h = a * b
        return h.sum(), h.sqrt(), torch.exp(b).sum(), (torch.cat([c, a]) * 2).split(2)

    f = wrap(several)
    for which in (0, 0, 1, 2, 3):
        a, b, c = (torch.full((3,), v, requires_grad=True) for v in (4.0 if which == 1 else 0.0, 1.0, 2.0))
        out = f(a, b, c)[which]
        (out if which < 3 else out[1]).sum().backward()  # sqrt has an infinite derivative at zero
        yield [t.grad for t in (a, b, c) if t.grad is not None]
    a, b, c = (torch.full((3,), v, requires_grad=True) for v in (0.0, 1.0, 2.0))
    (first,) = torch.autograd.grad(f(a, b, c)[2], b, create_graph=True)
    yield torch.autograd.grad(first.sum(), b)


@program
def leaf_made_inside(wrap):
    def inner_gradient(t, twice):
        own = t.detach().clone().requires_grad_()
        (own * own).sum().backward()
        if twice:
            (own * 3).sum().backward()
        return own.grad + t

    f, t = wrap(inner_gradient), x().requires_grad_()
    for twice in (False, False, False, True, True):
        out = f(t, twice)
        out.sum().backward()
        yield out.detach(), t.grad.clone()

    def kept(t):
        own = t.detach().clone().requires_grad_()
        (own * own).sum().backward()
        return own

    f = wrap(kept)
    for _ in range(3):
        yield f(t).grad


@program
def write_to_a_leaf(wrap):
    t = x().requires_grad_()
    for write in (lambda t: t.add_(1), lambda t: t.clamp_(0), lambda t: t.zero_(), lambda t: t[0].mul_(2)):
        f = wrap(write)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
                f(t)
        with torch.no_grad():
            yield f(t).clone()
        yield t.detach().clone()


@program
def module_list_reordered(wrap):
    m = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])

    @wrap
    def f(t):
        for layer in m:
            t = layer(t)
        return t

    yield f(x())
    m[0], m[1] = m[1], m[0]
    yield f(x())
    m.insert(0, nn.ReLU())
    yield f(x())


@program
def module_dict_changed(wrap):
    m = nn.ModuleDict({"a": nn.Linear(3, 3)})
    f = wrap(lambda t: sum(layer(t) for layer in m.values()))
    yield f(x())
    m["b"] = nn.Linear(3, 3)
    yield f(x())
    m["a"] = nn.Identity()
    yield f(x())


@program
def numbers_of_other_types(wrap):
    f = wrap(lambda t, k: t * k)
    for k in (2, 2.0, True, torch.tensor(2), 1, 0.0, -0.0):
        yield f(x(), k)


@program
def counter_attribute(wrap):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, t):
            self.calls += 1
            return t * self.calls

    m = M()
    f = wrap(m)
    for _ in range(12):
        yield f(x())
    yield torch.tensor(m.calls)


@program
def random_between_calls(wrap):
    f = wrap(lambda t: F.dropout(t, 0.5) + torch.randn(3))
    for i in range(4):
        yield f(x())
        torch.randn(5 * i + 1)


@program
def python_random_numbers(wrap):
    generator = random.Random(3)
    draw, state = generator.random, {"draws": False}
    f = wrap(lambda t: t * (draw() if state["draws"] else 2.0))
    yield f(x())
    state["draws"] = True
    for _ in range(3):
        yield f(x())


@program
def weight_norm_and_parametrization(wrap):
    m = nn.Linear(3, 2)
    f = wrap(lambda t: m(t))
    yield f(x())
    nn.utils.parametrizations.weight_norm(m)
    yield f(x())
    with torch.no_grad():
        m.parametrizations.weight.original0.mul_(2)
    yield f(x())
    nn.utils.parametrize.remove_parametrizations(m, "weight")
    yield f(x())


@program
def kwargs_order_and_presence(wrap):
    f = wrap(lambda t, **k: t * k.get("a", 1) + k.get("b", 0))
    yield f(x())
    yield f(x(), a=2)
    yield f(x(), b=2)
    yield f(x(), b=3, a=2)
    yield f(x(), a=2, b=3)


@program
def threads_and_deterministic(wrap):
    f = wrap(lambda t: t.cumsum(0) * torch.get_num_threads())
    yield f(x())
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield f(x())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_do_what_they_do_eagerly(name):
    compare(PROGRAMS[name])
