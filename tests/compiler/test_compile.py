"""Compiled functions, modules and training steps beside the same run eagerly."""

import copy
import cProfile
import sys
import threading

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.exc import Unsupported

F = nn.functional


def programs(compiled):
    return len(getattr(compiled, "_region", None).entries)


def _mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 4)), torch.randn(5, 6)


def _cnn():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
    ), torch.randn(5, 3, 8, 8)  # fmt: skip


class _Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(10, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class _Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.qkv = nn.Embedding(9, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.places = nn.Parameter(torch.randn(7, 8))

    def forward(self, i):
        x = self.embedding(i) + self.places[torch.arange(i.shape[1])]
        q, k, v = (z.view(*x.shape[:2], 2, 4).transpose(1, 2) for z in self.qkv(self.norm(x)).split(8, dim=2))
        return (x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)).mean(1)[
            :, :4
        ]


MODELS = {
    "mlp": _mlp, "cnn": _cnn, "lstm": lambda: (_Last(), torch.randn(5, 3, 6)),
    "attention": lambda: (_Attention(), torch.randint(0, 9, (5, 7))),
    "encoder": lambda: (
        nn.Sequential(nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), nn.Flatten(), nn.Linear(18, 4)), torch.randn(5, 3, 6)
    ),
}  # fmt: skip


def _trained(make, how, steps=6):
    """Losses and the final state of a model that was trained eagerly or compiled ("model" or the whole "step")."""
    torch.manual_seed(0)
    model, x = make()
    target = torch.tensor([0, 1, 2, 3, 1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)
    run = torch.compile(model) if how == "model" else model

    def step(x):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        return loss

    whole = torch.compile(step) if how == "step" else step
    torch.manual_seed(1)
    losses = []
    for i in range(steps):
        losses.append(whole(x.flip(0) if i % 2 else x).item())
    if how != "eager":
        assert programs(whole if how == "step" else run) == 1
    return losses, {**model.state_dict(), "epoch": torch.tensor(scheduler.last_epoch)}


@pytest.mark.parametrize("how", ["model", "step"])
@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_the_eager_run(name, how):
    losses, state = _trained(MODELS[name], "eager")
    found, other = _trained(MODELS[name], how)
    assert found == pytest.approx(losses, rel=1e-6)
    for key, t in state.items():
        parts = [t.double(), other[key].double()]
        if key.endswith("in_proj_bias"):  # that of the keys has no gradient but rounding, which Adam makes large
            parts = [torch.cat((p.chunk(3)[0], p.chunk(3)[2])) for p in parts]
        assert torch.allclose(*parts, rtol=1e-4, atol=1e-6), key


@pytest.mark.parametrize("name", MODELS)
def test_inference(name):
    torch.manual_seed(0)
    model, x = MODELS[name]()
    model.eval()
    compiled = torch.compile(model, fullgraph=True)
    with torch.no_grad():
        for given in (x, x.flip(0), x):
            assert torch.equal(compiled(given), model(given))
    assert programs(compiled) == 1


def test_gradients_go_through():
    def f(x, y):
        return (x * y).sin().sum(0), x.exp() * 2

    compiled = torch.compile(f)
    for _ in range(3):
        leaves = [torch.randn(3, 4, requires_grad=True) for _ in range(2)]
        got = [torch.autograd.grad(sum(t.sum() for t in g(leaves[0] * 2, leaves[1])), leaves) for g in (f, compiled)]
        assert all(torch.allclose(a, b) for a, b in zip(*got))
    assert programs(compiled) == 1
    a, _ = compiled(*leaves)
    a.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        a.sum().backward()


def test_arguments_of_all_kinds():
    @torch.compile
    def f(pair, *more, scale, names=None):
        a, b = pair
        return {"sum": a + b["x"] * scale, "rest": [t + 1 for t in more], "names": names, "first": a}

    def expected(pair, *more, scale, names=None):
        return {"sum": pair[0] + pair[1]["x"] * scale, "rest": [t + 1 for t in more], "names": names, "first": pair[0]}

    for scale in (2, 3, 2):
        a, b, c = (torch.randn(3) for _ in range(3))
        got, wanted = (g((a, {"x": b}), c, scale=scale, names=("u", 1)) for g in (f, expected))
        assert torch.equal(got["sum"], wanted["sum"]) and torch.equal(got["rest"][0], c + 1)
        assert got["names"] == ("u", 1) and got["first"] is a


def test_writes_to_arguments_and_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.last = None

        def forward(self, x):
            self.seen += x.sum()
            x.mul_(2)
            self.last = x + 1
            return x + self.seen

    plain, compiled = Counter(), torch.compile(Counter())
    for i in range(4):
        a, b = torch.full((2,), i + 1.0), torch.full((2,), i + 1.0)
        assert torch.equal(plain(a), compiled(b)) and torch.equal(a, b)
        assert plain.seen == compiled.seen and torch.equal(plain.last, compiled.last)


def test_arguments_with_a_history_that_are_written_to():
    def f(x):
        x.mul_(2)
        return x.sin()

    compiled = torch.compile(f)
    for _ in range(3):
        found = []
        for g in (f, compiled):
            leaf = torch.tensor([0.5, 1.0], requires_grad=True)
            x = leaf * 3
            out = g(x) + x
            found.append([out.detach(), *torch.autograd.grad(out.sum(), leaf)])
        assert all(torch.equal(a, b) for a, b in zip(*found))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        compiled(torch.ones(2, requires_grad=True))


def test_arguments_that_are_returned_are_themselves():
    x = torch.ones(2, requires_grad=True) * 2
    for f in (lambda x: x, lambda x: (x, x.sum()), lambda x: (x, x.sum().item())):
        compiled = torch.compile(f)
        for _ in range(3):
            out = compiled(x)
            assert (out if isinstance(out, torch.Tensor) else out[0]) is x


def test_random_numbers_are_those_of_the_eager_run():
    def f(x):
        y = F.dropout(x, 0.5) + torch.rand(3) + torch.randn_like(x) + torch.randint(0, 5, (3,))
        return y + torch.bernoulli(x.sigmoid()) + torch.multinomial(x.abs() + 1, 3) + torch.zeros(3).normal_()

    compiled, inputs = torch.compile(f), [torch.tensor([0.5, 1.0, -0.5]) * i for i in range(5)]
    torch.manual_seed(0)
    expected = [f(x) for x in inputs]
    torch.manual_seed(0)
    assert all(torch.equal(compiled(x), e) for x, e in zip(inputs, expected)) and programs(compiled) == 1


@pytest.mark.parametrize("function, reason", [
    (lambda x: x * 2 if x.sum() > 0 else x, "bool"),
    (lambda x: x * x.sum().tolist(), "tolist"),
    (lambda x: [print(end=""), x][1] * 2, "print"),
])  # fmt: skip
def test_what_cannot_be_recorded_runs_eagerly_or_raises(function, reason):
    compiled, whole = torch.compile(function), torch.compile(function, fullgraph=True)
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0, 3.0]), torch.tensor([5.0])):
        assert torch.equal(compiled(x), function(x))
    with pytest.raises(Unsupported, match=reason) as found:
        whole(torch.ones(2))
    assert "test_compile.py" in str(found.value)


KEPT = {}


@pytest.mark.parametrize("function", [
    lambda x: x[x > 0] * 2,
    lambda x: x.nonzero(),
    lambda x: x * float(x.sum()),
    lambda x: min(x[0], x[1]) * max([x[1], x[0]]),
    lambda x: x * (id(KEPT) == id(KEPT)),
    lambda x: (lambda y: y + x)(x) if callable(lambda y: x) else x,
    lambda x: KEPT.update(pair=(x * 2, x)) or x + KEPT["pair"][0],
    lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(),
    lambda x: torch.from_numpy(x.numpy() * 2),
    lambda x: x.t_() + 1,
])  # fmt: skip
def test_what_pytorch_would_record_never_raises(function):
    whole = torch.compile(function, fullgraph=True)
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0, 3.0]), torch.tensor([5.0, 4.0])):
        assert torch.equal(whole(x.clone()), function(x.clone()))


def test_modules_of_a_function_that_cannot_be_recorded_are_compiled_by_themselves():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    seen = {}

    def step(x):
        loss = model(x).pow(2).mean()
        loss.backward()
        seen[len(seen)] = loss.tolist()
        return loss

    compiled = torch.compile(step)
    for i in range(4):
        x = torch.randn(5, 3)
        model.zero_grad()
        compiled(x)
        got = model[0].weight.grad
        model.zero_grad()
        model(x).pow(2).mean().backward()
        assert torch.equal(got, model[0].weight.grad) and len(seen) == i + 1
        assert "_compiled_call_impl" not in model.__dict__
    (part,) = compiled._region.parts.values()
    assert len(part.entries) == 1 and compiled._region.problem.reason.startswith("tolist")


def test_gradients_add_up_over_passes():
    found = []
    for how in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        def step(batches):
            for x in batches:
                (model(x).pow(2).mean() / len(batches)).backward()
            optimizer.step()
            optimizer.zero_grad()

        run = how(step)
        for i in range(5):
            run([torch.full((2, 3), i + 1.0), torch.full((2, 3), i - 1.0)])
        found.append(model.weight.detach())
    assert torch.equal(*found)


@pytest.mark.slow
def test_hooks_are_called_once_for_each_pass():
    seen = []
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    model[0].weight.register_hook(lambda g: seen.append("leaf"))
    compiled = torch.compile(model)
    for _ in range(3):
        compiled(torch.ones(2, 3)).sum().backward()
    assert seen == ["leaf"] * 3 and programs(compiled) == 1
    model[1].register_full_backward_hook(lambda *given: seen.append("module"))
    for _ in range(3):
        compiled(torch.ones(2, 3)).sum().backward()
    assert seen.count("module") == 3 and seen.count("leaf") == 6


def test_objects_that_are_returned_are_made_anew():
    class Pair:
        def __init__(self, a):
            self.a = a

    compiled = torch.compile(lambda x: Pair(x * 2))
    assert [compiled(torch.tensor(float(i))).a.item() for i in range(3)] == [0.0, 2.0, 4.0]


def test_transforms_inside_and_outside():
    w = torch.randn(2, 4)
    f = lambda x: torch.func.grad(lambda z: (z * w).sin().sum())(x) + torch.func.vmap(lambda r: r.sum() * r)(x)
    compiled = torch.compile(f)
    g = lambda x: (x * w).sin().sum()
    inner = torch.compile(g)
    for i in range(3):
        x = torch.ones(2, 4) * i
        assert torch.allclose(compiled(x), f(x)) and torch.equal(torch.func.grad(inner)(x), torch.func.grad(g)(x))
        assert torch.allclose(
            torch.func.vmap(inner)(torch.stack([x, x + 1])), torch.func.vmap(g)(torch.stack([x, x + 1]))
        )


def test_seeds_set_inside():
    def f(x):
        torch.manual_seed(5)
        return x + torch.rand(2)

    compiled = torch.compile(f)
    assert all(torch.equal(compiled(torch.zeros(2)), f(torch.zeros(2))) for _ in range(3))


def test_backends_get_graphs():
    seen = []

    def backend(module, examples):
        seen.append((module, [t.shape for t in examples]))
        return module.forward

    linear = nn.Linear(3, 2)
    compiled = torch.compile(lambda x: torch.relu(linear(x)) * 2, backend=backend)
    for _ in range(2):
        x = torch.randn(4, 3, requires_grad=True)
        out = compiled(x)
        assert torch.equal(out, torch.relu(linear(x)) * 2)
        (g,) = torch.autograd.grad(out.sum(), x)
        assert torch.equal(g, torch.autograd.grad((torch.relu(linear(x)) * 2).sum(), x)[0])
    assert len(seen) == 1 and (4, 3) in seen[0][1] and "relu" in seen[0][0].code


def test_functions_kept_out_and_stances():
    calls = []

    @torch.compiler.disable
    def outside(x):
        calls.append(float(x.sum()))

    def noted(x):
        doubled = x * 2
        outside(doubled)
        return (doubled + 1) * 3

    compiled = torch.compile(noted)
    for i in range(3):
        assert compiled(torch.full((2,), float(i))).tolist() == [(2.0 * i + 1) * 3] * 2
    assert calls == [0.0, 4.0, 8.0] and programs(compiled) == 1
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        compiled(torch.ones(5))
    with torch.compiler.set_stance("force_eager"):
        assert compiled(torch.ones(5)).shape == (5,)
    assert programs(compiled) == 1
    torch.compiler.reset()
    assert programs(compiled) == 0


def test_explain():
    found = torch._dynamo.explain(lambda x: x.sin() + 1)(torch.ones(2))
    assert found.graph_count == 1 and found.ops_per_graph == [["sin", "add"]] and "sin" in str(found)
    found = torch._dynamo.explain(lambda x: x * x.sum().tolist())(torch.ones(2))
    assert found.graph_break_count == 1 and "tolist" in str(found)


def test_tensors_that_classes_take_over_run_eagerly():
    class Own(torch.Tensor):
        pass

    compiled = torch.compile(lambda x: x * 2)
    for _ in range(3):
        assert type(compiled(torch.ones(2).as_subclass(Own))) is Own
        assert torch.equal(compiled(torch.eye(2).to_sparse()).to_dense(), 2 * torch.eye(2))
        assert type(compiled(torch.ones(2))) is torch.Tensor
    assert programs(compiled) == 1


@pytest.mark.slow
def test_first_calls_in_many_threads():
    """Recordings replace builtins of the whole process: no program takes that for something that its run did."""
    before = getattr, hasattr, setattr, delattr, vars, dir
    wrong = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for _ in range(8):
        model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))

        def work(seed, model=model):
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
            expected = model._orig_mod(x)
            wrong.extend([seed for _ in range(5) if not torch.equal(model(x), expected)])

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    sys.setswitchinterval(interval)
    assert not wrong and before == (getattr, hasattr, setattr, delattr, vars, dir)


def test_profiles_go_on_after_a_recording():
    compiled = torch.compile(lambda x: x * 2 + 1)
    profile = cProfile.Profile()
    profile.enable()
    out = compiled(torch.ones(3))
    sorted([3, 1, 2])
    profile.disable()
    assert out.tolist() == [3.0, 3.0, 3.0] and programs(compiled) == 1
    assert any("sorted" in str(entry.code) for entry in profile.getstats())


def test_copies_and_threads():
    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    x = torch.randn(3, 4)
    expected = model(x)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    wrong = []

    def work(seed):
        given = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        wanted = model._orig_mod(given)
        wrong.extend([seed for _ in range(50) if not torch.equal(model(given), wanted)])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_distributions_check_their_arguments_in_programs():
    from flambeau.distributions import Categorical, Normal, kl_divergence

    @torch.compile(fullgraph=True)
    def bound(mean, scale):
        code = Normal(mean, scale)
        z = code.rsample()
        return code.log_prob(z).sum() + kl_divergence(code, Normal(mean * 0, 1.0)).sum()

    for _ in range(3):
        torch.manual_seed(3)
        got = bound(torch.ones(4), torch.full((4,), 0.5))
        torch.manual_seed(3)
        assert torch.equal(got, bound._region.function(torch.ones(4), torch.full((4,), 0.5)))
    with pytest.raises(ValueError, match="Expected parameter loc"):
        bound(torch.tensor([1.0, float("nan"), 1.0, 1.0]), torch.ones(4))

    @torch.compile(fullgraph=True)
    def score(logits, x):
        return Categorical(logits=logits).log_prob(x)

    assert torch.equal(score(torch.zeros(2, 2), torch.tensor([0, 1])), score(torch.zeros(2, 2), torch.tensor([1, 1])))


def test_tensors_are_taken_apart_in_programs():
    f = torch.compile(lambda t: sum(a * i for i, a in enumerate(t)), fullgraph=True)
    for _ in range(3):
        x = torch.randn(3, 2)
        assert torch.equal(f(x), x[1] + x[2] * 2)


def test_second_derivatives_of_compiled_modules():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    run = torch.compile(model)
    found = []
    for f in (model, run, run):
        model.zero_grad()
        x = torch.arange(6.0).view(2, 3).div(5).requires_grad_()
        (slope,) = torch.autograd.grad(f(x * 2).sum(), x, create_graph=True)
        (slope.norm(2, 1) - 1).square().mean().backward()
        found.append([x.grad.tolist(), *[p.grad.tolist() for p in model.parameters() if p.grad is not None]])
    assert found[0] == found[1] == found[2]
    assert run._region.problem is None
    noisy = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(
            noisy(torch.ones(2, 3, requires_grad=True)).sum(), noisy._orig_mod[0].weight, create_graph=True
        )


def test_products_of_turned_operands_are_recorded():
    def f(q, k):
        q, k = (t.view(2, 4, 2, 3).permute(0, 2, 1, 3) for t in (q, k))
        return torch.einsum("b h i d, b h j d -> b h i j", q[:, :, 1:], k).softmax(-1)

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(3):
        q, k = torch.randn(2, 4, 6, requires_grad=True), torch.randn(2, 4, 6)
        assert torch.equal(compiled(q, k), f(q, k))


def test_numbers_put_where_a_mask_or_an_index_says_are_recorded():
    def f(x, i):
        mask = torch.ones(3, 3, dtype=torch.bool).triu(1)
        filled = x.masked_fill(mask, float("-inf")).softmax(-1).index_fill(0, i, 0.5)
        return (filled + x.scatter(0, i.view(2, 1), 2.0)).sum()

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(3):
        x, i = torch.randn(3, 3, requires_grad=True), torch.tensor([0, 2])
        own = x.detach().clone().requires_grad_()
        compiled(x, i).backward()
        f(own, i).backward()
        assert torch.equal(x.grad, own.grad)


def test_first_calls_of_backends_draw_the_numbers_of_the_eager_run():
    def f(x, generator=None):
        return F.dropout(x, 0.5) + torch.rand(40, generator=generator) + x[torch.randperm(40)]

    x, own = torch.arange(40.0), torch.Generator()
    for generator in (None, own):
        compiled = torch.compile(lambda x: f(x, generator), backend=lambda module, examples: module.forward)
        own.manual_seed(1)
        torch.manual_seed(1)
        expected = [f(x, generator) for _ in range(3)]
        own.manual_seed(1)
        torch.manual_seed(1)
        assert all(torch.equal(compiled(x), e) for e in expected)


def test_backends_get_writes_draws_and_shapes():
    seen = []

    def backend(module, examples):
        module.graph.eliminate_dead_code()
        module.recompile()
        seen.append(module)
        return module.forward

    def names():
        return [node.target.__name__ for node in seen.pop().graph.nodes if node.op == "call_function"]

    def written(x, y):
        z = x.clone()
        z[0] = 5
        z.clamp_(max=y.sum(0))
        return z > y, z

    x, y = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    for made, wanted in zip(torch.compile(written, backend=backend, fullgraph=True)(x, y), written(x, y)):
        assert torch.equal(made, wanted)
    assert [tuple(node.meta["val"].shape) for node in seen[0].graph.nodes if "val" in node.meta][:2] == [(2, 3), (2, 3)]
    found = names()
    assert {"fill_.Scalar", "copy_.default", "gt.Tensor", "sum.dim_IntList"} <= set(found)

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 2)
    )
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for i in range(3):
        x = torch.randn(2, 3, 8, 8)
        torch.manual_seed(i)
        made = compiled(x)
        torch.manual_seed(i)
        wanted = other(x)
        assert torch.equal(made, wanted)
        for a, b in zip(
            torch.autograd.grad(made.sum(), model.parameters()), torch.autograd.grad(wanted.sum(), other.parameters())
        ):
            torch.testing.assert_close(a, b)
    for a, b in zip(model.buffers(), other.buffers()):
        assert torch.equal(a, b)
    assert len(seen) == 1 and "convolution.default" in names()


def test_graphs_for_backends_tell_where_there_is_no_history():
    def f(x, w):
        with torch.no_grad():
            scale = x.abs().max()
        return (x / scale) * x.detach() + w.data * x

    compiled = torch.compile(f, backend=lambda module, examples: module.forward, fullgraph=True)
    for _ in range(2):
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        (made,), (wanted,) = (torch.autograd.grad(g(x, w).sum(), x) for g in (compiled, f))
        assert torch.equal(made, wanted) and not compiled(x.detach(), w).requires_grad


def test_results_go_to_tensors_that_are_given():
    compiled = torch.compile(lambda x, out: torch.sort(x, out=out)[0] * 2)
    for _ in range(3):
        x, out = torch.randn(3), (torch.empty(3), torch.empty(3, dtype=torch.int64))
        assert torch.equal(compiled(x, out), x.sort()[0] * 2) and torch.equal(out[0], x.sort()[0])


def test_who_asks_for_inference_tensors_is_answered():
    def function(x):
        return x + 1 if x.is_inference() else x - 1

    with torch.inference_mode():
        made = torch.ones(2)
    for options in ({}, {"backend": lambda graph, _: graph.forward}):
        compiled = torch.compile(function, **options)
        for x in (torch.ones(2), made, torch.ones(2), made):
            assert torch.equal(compiled(x), function(x))


def test_an_argument_may_be_called_self():
    def added(self, x):
        return self + x

    assert torch.compile(added)(self=torch.ones(2), x=1).tolist() == [2.0, 2.0]
