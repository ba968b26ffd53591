"""Programs give the very bits that their nodes give one by one, from the first run on."""

import threading

import pytest
from program_reference import agrees, captured, interpreted, same_bits

import flambeau as torch
from flambeau._compile.capture import Capture
from flambeau._compile.program import Program
from flambeau._compile.running import Stretch

F = torch.nn.functional


def random(*shapes, dtype=torch.float32):
    def make(seed):
        g = torch.Generator().manual_seed(seed)
        return [torch.randn(s, generator=g).to(dtype) for s in shapes]

    return make


def native(program):
    """Whether a program is a single native call."""
    return [type(part) for part in program._lowered.parts] == [Stretch]


def _written(x):
    y = x * 2
    y.add_(1)
    z = torch.zeros(3)
    z.add_(y[2])
    z[1:].mul_(y[0, 1:])
    x.mul_(2)
    return y + z, z


def _filled(x):
    y = x * 2
    y[0] = 5
    y[1].fill_(2)
    y[2].copy_(y[0])
    y[1:] += y[0, 1:].sum()
    return y


NATIVE = {
    "pointwise": (lambda x, y: (torch.tanh(x * y) + torch.sigmoid(x - y) * 2).exp().mul(0.5).clamp(-1, 1).sum(1), (4, 3), (4, 3)),
    "products": (lambda x, y: torch.softmax(x @ y, -1)[:, 1].log(), (4, 3), (3, 5)),
    "views": (lambda x: x.view(2, 6).t().reshape(3, 4).transpose(0, 1).contiguous() + 1, (4, 3)),
    "writes": (_written, (4, 3)),
    "made": (lambda x: x + torch.arange(3) * torch.ones(4, 3) - torch.tensor([1.0, 2.0, 3.0]), (4, 3)),
    "norms": (lambda x: F.layer_norm(x, (3,)) + x.abs(), (4, 3)),
    "broadcast": (lambda x, y: (x + y) * x.sum(1, keepdim=True) / y.exp(), (4, 1), (3,)),
    "turned": (lambda x, y: x.t() + y * 2, (4, 3), (3, 4)),
    "several": (lambda x: torch.cat([x, x * 2], 1).split(3, 1), (4, 3)),
    "large": (lambda x, y: (x * y + x).relu().t().contiguous().sum(0), (700, 600), (600,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NATIVE)
def test_a_program_of_kernels_is_one_native_call(name):
    function, *shapes = NATIVE[name]
    assert native(agrees(function, random(*shapes)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.bool])
def test_dtypes(dtype):
    def function(x, y):
        z = torch.where(x > y, x, y).to(torch.float32).mul(3).to(x.dtype)
        return z, (x == y).sum(), x.t() | y.t() if dtype is torch.bool else x.t() * y.t() + 2

    agrees(function, random((5, 7), (5, 7), dtype=dtype))


def test_python_takes_the_steps_that_are_no_kernels():
    def function(x):
        q, r = torch.linalg.qr(x @ x.t() + torch.eye(4))
        return (q * 2).sum() + torch.linalg.pinv(r).sum(), x.sort(0)[0].cumsum(0)

    program = agrees(function, random((4, 3)))
    assert not native(program)


def test_writes_by_functions_of_pythons():
    agrees(_filled, random((4, 3)))


def test_empty_tensors():
    agrees(lambda x, y: (x * 2 + y, torch.cat([x, y]).sum(0), x @ y.t()), random((0, 3), (1, 3)))


def test_inputs_that_share_memory():
    base = torch.arange(12.0)

    def make(seed):
        whole = base.clone() + seed
        return [whole[:8], whole[4:]]

    agrees(lambda x, y: (x.mul_(2) + y, y + 1), make)


def test_outputs_are_new_each_time_and_share_what_they_shared():
    def function(x):
        y = x + 1
        return y, y.t(), y[0]

    (x,) = random((4, 3))(0)
    program = Program(captured(function, [x]))
    program.run([x])
    first, turned, row = program.run([x])
    again, *_ = program.run([x * 2])
    assert not torch.equal(first, again)
    first.zero_()
    assert not turned.any() and not row.any() and turned._version == 1
    assert again.any()


def test_an_input_may_be_an_output():
    (x,) = random((4, 3))(0)
    program = Program(captured(lambda x: (x, x.t(), x.mul_(2)), [x]))
    for _ in range(2):
        before = x._version
        same, turned, _ = program.run([x])
        assert same.data_ptr() == turned.data_ptr() == x.data_ptr()
        assert x._version == before + 1


def test_wrong_indices_raise_as_they_do_without_a_program():
    table, index = torch.randn(10, 4), torch.tensor([1, 5, 9])
    graph = captured(lambda t, i: F.embedding(i, t * 2) + t.gather(0, i[:, None]).sum(), [table, index])
    program = Program(graph)
    for _ in range(2):
        assert same_bits(program.run([table, index])[0], interpreted(graph, [table, index])[0])
        with pytest.raises(IndexError):
            program.run([table, torch.tensor([1, 5, 10])])
    with pytest.raises(IndexError):
        Program(graph).run([table, torch.tensor([1, -1, 3])])


def test_threads_have_arenas_of_their_own():
    make = random((300, 50), (50, 40))
    graph = captured(lambda x, w: torch.softmax(x @ w, 1).log().sum(0) + x.std(), make(0))
    program, wrong = Program(graph), []

    def work(seed):
        given = make(seed)
        expected = interpreted(graph, given)[0]
        for _ in range(30):
            if not same_bits(program.run(given)[0], expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_an_error_in_a_step_leaves_the_program_usable():
    def fragile(x):
        if float(x.sum()) > 100:
            raise ValueError("too much")
        return x * 2

    from flambeau._core.steps import python_step

    step = python_step(fragile)
    program = Program(captured(lambda x: step(x * 1) + 1, [torch.ones(3)]))
    for _ in range(2):
        assert program.run([torch.ones(3)])[0].tolist() == [3.0] * 3
        with pytest.raises(ValueError, match="too much"):
            program.run([torch.full((3,), 99.0)])


MODELS = {
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)), (5, 6)),
    "cnn": (
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten()
        ),
        (2, 2, 8, 8),
    ),
    "encoder": (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_forward_and_backward_of_models(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    names = [n for n, p in model.named_parameters()]

    def function(x, *parameters):
        out = torch.func.functional_call(model, dict(zip(names, parameters)), (x,))
        loss = (out[0] if isinstance(out, tuple) else out).pow(2).mean()
        return loss, *torch.autograd.grad(loss, parameters)

    def inputs(seed):
        torch.manual_seed(seed)
        return [torch.randn(shape), *[torch.randn_like(p).requires_grad_() for p in model.parameters()]]

    own = {id(t._array) for t in model.buffers()}
    given = inputs(0)
    with Capture(given, external=lambda t: id(t._array) in own) as tape:
        outs = function(*given)
    graph = tape.finish(list(outs))
    program = Program(graph)
    for seed in (1, 2, 3):
        given = inputs(seed)
        state = {n: t.clone() for n, t in model.named_buffers()}
        expected = interpreted(graph, given)
        after = [t.clone() for t in model.buffers()]
        with torch.no_grad():
            for n, t in model.named_buffers():
                t.copy_(state[n])
        found = program.run(given)
        for a, b in zip([*found, *model.buffers()], [*expected, *after]):
            assert same_bits(a, b)


def test_running_statistics_are_those_of_eager_runs():
    torch.manual_seed(0)
    mine, other = torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(8)
    own = {id(t._array) for t in (*mine.parameters(), *mine.buffers())}
    x = torch.randn(4, 8, 6, 6)
    with Capture([x], external=lambda t: id(t._array) in own) as tape:
        out = mine(x)
    program = Program(tape.finish([out]))
    other(x)
    for seed in range(3):
        (x,) = random((4, 8, 6, 6))(seed)
        assert same_bits(program.run([x])[0], other(x).detach())
        assert all(same_bits(a, b) for a, b in zip(mine.buffers(), other.buffers()))
    assert native(program)


LAYERS = {
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (2, 16, 12, 12), (16, 16, 3, 3)),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2), (2, 16, 13, 13), (32, 16, 3, 3)),
    "pooled": (lambda x: F.max_pool2d(F.avg_pool2d(x, 2), 3, 2, 1), (2, 3, 20, 20)),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k + 1, is_causal=True), (2, 3, 40, 16), (2, 3, 40, 16)),
    "normalized": (lambda x, w: F.layer_norm(x, (64,), w, None) + F.group_norm(x[:, :, None], 8)[:, :, 0], (300, 64), (64,)),
    "long": (lambda x: x.mean() + x.sum() + x.amax(), (1 << 19,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_run_natively_with_their_gradients(name):
    function, *shapes = LAYERS[name]

    def with_gradients(*inputs):
        out = function(*inputs)
        return out, *torch.autograd.grad(out.square().sum(), inputs)

    def make(seed):
        return [t.requires_grad_() for t in random(*shapes)(seed)]

    assert native(agrees(with_gradients, make, 2))
