"""Plans: what was planned with some numbers gives, with others, what the Python functions give."""

import importlib.util
import itertools
import threading
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._kernel.native import plan, site
from flambeau._ops.plans.patterns import Unplannable
from flambeau._ops.plans.watching import CallWatch, Watched
from flambeau._ops.registry import functions, methods, records

_spec = importlib.util.spec_from_file_location("samples", Path(__file__).resolve().parent.parent / "samples.py")
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)
SAMPLES, operands = samples.SAMPLES, samples.operands
native = isinstance(getattr(torch.exp, "__self__", None), site.Site)
pytestmark = [
    pytest.mark.skipif(not native, reason="the native entry is switched off or not known here"),
    pytest.mark.filterwarnings("ignore"),
]


def other(values):
    """The same operands with other numbers in them."""
    random = np.random.default_rng(1)

    def turned(t):
        if not t.numel() or t.ndim == 0:
            return t.detach()
        order = torch.from_numpy(random.permutation(t.numel()))
        return t.detach().reshape(-1)[order].reshape(t.shape) if t.is_contiguous() else t.detach()

    return {name: turned(t) for name, t in values.items()}


def run(text, values):
    space = {"torch": torch, "dev": "cpu", "ones": torch.ones, **values}
    torch.manual_seed(0)
    if ";" in text:
        exec(text, space)
        return space["out"]
    return eval(text, space)


def agree(made, expected, text):
    if isinstance(expected, torch.Tensor):
        assert made.dtype is expected.dtype and made.shape == expected.shape and made.stride() == expected.stride(), (
            text
        )
        a, b = made.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg()
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6 if a.dtype.itemsize > 2 else 1e-2, equal_nan=True)
    elif isinstance(expected, (tuple, list)):
        assert type(made) is type(expected) and len(made) == len(expected), text
        for m, e in zip(made, expected):
            agree(m, e, text)


@pytest.mark.parametrize("family", sorted(SAMPLES))
def test_samples_of_all_operations(family):
    first, second = operands(torch), other(operands(torch))
    first = {name: t.detach() for name, t in first.items()}
    texts, compared = [t for t in repeatable(family) if "autograd.grad" not in t], 0
    for text in texts:
        try:
            with torch.no_grad(), site.switched_off():
                expected = run(text, second)
        except Exception:  # samples that need gradients, or numbers in their order
            continue
        with torch.no_grad():
            for _ in range(3):
                run(text, first)
            agree(run(text, second), expected, text)
        compared += 1
    assert compared >= 0.6 * len(texts), f"only {compared} of {len(texts)} were compared"


def repeatable(family):
    return [t for t in SAMPLES[family] if not any(word in t for word in ("rand", "empty", "repr", "dropout"))]


def gradients(text, values):
    """The gradients of a weighted sum of the result by all operands; None if there are none."""
    leaves = {name: t.detach().requires_grad_(t.is_floating_point() or t.is_complex()) for name, t in values.items()}
    out = run(text, leaves)
    if "autograd.grad" in text:  # a sample of second derivatives
        return [out]
    parts = [
        t
        for t in (out if isinstance(out, (tuple, list)) else (out,))
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    if not parts:
        return None
    weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64).reshape(t.shape).to(t.dtype) for t in parts]
    inputs = [t for t in leaves.values() if t.requires_grad]
    return torch.autograd.grad(parts, inputs, weights, allow_unused=True)


@pytest.mark.parametrize("family", sorted(SAMPLES))
def test_histories_of_all_operations(family):
    """Nodes made after the pattern of one call lead to the gradients of another."""
    first, second = operands(torch), other(operands(torch))
    for text in repeatable(family):
        if "detach" in text:
            continue
        try:
            with site.switched_off():
                expected = gradients(text, second)
        except Exception:  # samples that write to leaves, or whose derivative is not there
            continue
        if expected is None:
            continue
        for _ in range(3):
            gradients(text, first)
        for made, wanted in zip(gradients(text, second), expected):
            assert (made is None) == (wanted is None), text
            if wanted is not None:
                agree(made, wanted, text)


def test_how_much_is_planned():
    """Most functions that say so have plans for ordinary arguments."""
    x, w = torch.rand(4, 6), torch.rand(6, 6)
    calls = {
        "sum": (x, 1), "mean": (x,), "amax": (x, 0), "argmax": (x, -1), "max": (x, 1), "softmax": (x, -1), "log_softmax": (x, 0),
        "cumsum": (x, 1), "std": (x,), "var": (x, 1), "mm": (x, w), "matmul": (x, w), "addmm": (x, x, w), "norm": (x,), "any": (x > 0,),
    }  # fmt: skip
    for name, args in calls.items():
        function = functions[name]
        for _ in range(3):
            function(*args)
        plans = [p for _, _, (p, _) in function.__self__.table.kept]
        assert any(p.counts[0] for p in plans), name


def test_named_arguments_and_defaults():
    x = torch.rand(3, 4, 5)
    for _ in range(4):
        for call in (
            lambda: x.sum(dim=1), lambda: torch.sum(input=x, dim=1), lambda: torch.sum(x, 1, keepdim=False), lambda: x.sum((1,)),
            lambda: x.sum([1]), lambda: torch.sum(dim=1, input=x),
        ):  # fmt: skip
            np.testing.assert_allclose(call().numpy(), x.numpy().sum(1), rtol=1e-6)
        assert x.sum(dim=(0, 2), keepdim=True).shape == (1, 4, 1) and x.sum(1, True).shape == (3, 1, 5)
        assert x.sum(dim=1, dtype=torch.float64).dtype is torch.float64 and x.sum(1).dtype is torch.float32
        with pytest.raises(TypeError):
            torch.sum(x, 1, False, torch.float64)  # which must be named
        with pytest.raises(TypeError):
            torch.sum(x, 1, dim=1)
        with pytest.raises(TypeError):
            torch.sum(x, whatever=1)
        with pytest.raises(IndexError):
            torch.sum(x, 3)


def test_questions_are_asked_again():
    table = torch.rand(5, 3)
    good, bad = torch.tensor([0, 4]), torch.tensor([0, 5])
    for _ in range(4):
        assert torch.embedding(table, good).equal(torch.stack([table[0], table[4]]))
        with pytest.raises(IndexError, match="out of range"):
            torch.embedding(table, bad)


def test_warnings_come_each_time():
    x = torch.rand(2, 3)
    for _ in range(4):
        with pytest.warns(UserWarning, match="Implicit dimension"):
            torch.nn.functional.softmax(x)


def test_history_comes_from_the_python_function():
    x, w = torch.rand(3, 4, requires_grad=True), torch.rand(2, 4, requires_grad=True)
    for _ in range(4):
        out = torch.nn.functional.linear(x, w)
        assert out.requires_grad and out.grad_fn is not None
        with torch.no_grad():
            assert not torch.nn.functional.linear(x, w).requires_grad
        with torch.inference_mode():
            made = torch.nn.functional.linear(x, w)
            assert made.is_inference() and not made.requires_grad
        assert not torch.nn.functional.linear(x.detach(), w.detach()).is_inference()


def test_a_watched_array_lets_nobody_look():
    array = np.arange(6.0).reshape(2, 3)
    seen = CallWatch(plan.Plan(1), [array])
    (x,) = seen.given
    assert x.shape == (2, 3) and x.reshape(3, 2).T.shape == (2, 3) and isinstance(x[0], Watched)
    for look in (
        lambda: x + 1, lambda: np.sum(x), lambda: x.sum(), lambda: x.copy(), lambda: x.astype(int), lambda: float(x[0, 0]),
        lambda: bool(x[:1, :1].reshape(())), lambda: x.tolist(), lambda: x[x > 1], lambda: x[[0]], lambda: x.fill(0),
        lambda: x.__setitem__(0, 1), lambda: list(x), lambda: np.concatenate([x, x]), lambda: x.max(), lambda: x @ x.T,
    ):  # fmt: skip
        with pytest.raises(Unplannable):
            look()


def test_sites_stand_for_methods_too():
    planned = [
        name for name, function in functions.items() if isinstance(getattr(function, "__self__", None), site.Site)
    ]
    assert len(planned) > 100 and "sum" in planned
    for name in {n for n in planned if not n.startswith("__")} & set(methods):
        assert getattr(torch.Tensor, name) is functions[name] or methods[name] is not functions[name]


def test_calls_inside_of_a_watched_call_are_not_watched():
    """A function may work on memory of its own, by functions that are planned themselves: nobody waits for himself."""
    from flambeau._ops.plans.sites import _planned

    def outer(input):
        inner = torch.arange(6.0).reshape(2, 3)
        for _ in range(4):
            inner.sum(1)
            torch.softmax(inner, -1)
        return torch.sum(input, 1)

    function = _planned(outer, "outer")
    x = torch.rand(4, 5)
    done = []

    def work():
        for _ in range(4):
            done.append(function(x))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert len(done) == 4 and all(t.equal(x.sum(1)) for t in done)


def plans_of(function):
    """How many plans a function has that say what to do."""
    return sum(p.counts[0] > 0 for _, _, (p, _) in function.__self__.table.kept)


def test_where_shapes_change_all_the_time_few_are_planned():
    function, x = torch.logsumexp, torch.rand(300, 5)
    for _ in range(4):
        for n in range(1, 300):
            function(x[:n], 1)
    made = plans_of(function)
    assert 8 < made < 40
    for _ in range(10):
        y = function(x, 1)
    assert plans_of(function) == made + 1
    with site.switched_off():
        assert torch.equal(y, function(x, 1))


def test_calls_that_take_turns_do_not_make_each_other_forgotten():
    """A program of some hundred different calls, the second time through: each has its plan, wherever its sighting is written down."""
    names = ["sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "std", "argmax", "argmin", "all", "any"]
    operands = [torch.rand(n, m) for n in (2, 3, 5) for m in range(2, 30)]
    site.forget_all()
    missing = []
    for start in range(0, len(operands), 7):  # tables of up to eight plans take what comes for the second time
        for _ in range(2):
            for name in names:
                for x in operands[start : start + 7]:
                    getattr(torch, name)(x, 1)
        missing += [
            (start, name) for name in names if plans_of(getattr(torch, name)) < len(operands[start : start + 7])
        ]
        for name in names:
            getattr(torch, name).__self__.table.forget()
    assert not missing


def test_what_comes_once_is_not_planned():
    function = torch.amax
    before = plans_of(function)
    for n in range(3, 23):
        function(torch.rand(n, 31), 1)
    assert plans_of(function) == before
    function(torch.rand(7, 31), 1)
    assert plans_of(function) == before + 1


def test_nodes_keep_what_is_not_returned():
    """Layer norm keeps the statistics of rows; they are those of the call that the node belongs to."""
    norm, w = torch.nn.functional.layer_norm, torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    rows = [torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, -3.0]], dtype=torch.float32) * (i + 1) for i in range(4)]
    made = []
    for row in rows:
        x = row.clone().requires_grad_()
        made.append((x, norm(x, (3,), w)))
    assert plans_of(norm) and made[-1][1].grad_fn.name() == "NativeLayerNormBackward0"
    for x, out in made:
        mean, root = x.detach().mean(1, True), (x.detach().var(1, correction=0, keepdim=True) + 1e-5).sqrt()
        y = (x.detach() - mean) / root
        g = torch.tensor([[1.0, -1.0, 0.5], [2.0, 0.0, 1.0]]) * w.detach()
        wanted = (g - g.mean(1, True) - y * (g * y).mean(1, True)) / root
        (by_x,) = torch.autograd.grad(out, x, torch.tensor([[1.0, -1.0, 0.5], [2.0, 0.0, 1.0]]), retain_graph=True)
        torch.testing.assert_close(by_x, wanted)
        (twice,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        assert torch.autograd.grad(twice.square().sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4, 5, 5), (8, 32, 128)])
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "instance_norm"])
def test_norms_are_planned_forwards_and_backwards(name, shape):
    """Inputs of any rank, also some that are worth more than one thread; the node is the norm itself."""
    norm = getattr(torch.nn.functional, name)
    size = shape[-1] if name == "layer_norm" else shape[1]
    x, w, b, g = torch.randn(shape), torch.randn(size), torch.randn(size), torch.randn(shape)

    def run():
        leaves = [t.clone().requires_grad_() for t in (x, w, b)]
        if name == "layer_norm":
            out = norm(leaves[0], (size,), *leaves[1:])
        else:
            out = norm(leaves[0], 2, *leaves[1:]) if name == "group_norm" else norm(leaves[0], None, None, *leaves[1:])
        return out, torch.autograd.grad(out, leaves, g)

    with site.switched_off():
        expected, gradients = run()
    before = plans_of(norm)
    for _ in range(4):
        out, found = run()
        assert out.equal(expected) and all(a.equal(b) for a, b in zip(found, gradients))
        assert out.grad_fn.name() == expected.grad_fn.name()
        assert out.grad_fn.name() in ("NativeLayerNormBackward0", "NativeGroupNormBackward0", "ViewBackward0")
    assert plans_of(norm) == before + 1
    derivative = records["norm_rows" if name == "layer_norm" else "norm_blocks"].derivatives[0]
    assert plans_of(next(c.cell_contents for c in derivative.__closure__ if hasattr(c.cell_contents, "__self__")))


def test_batch_norm_moves_its_running_statistics_outside_of_the_plan():
    """The part that is planned gives new running statistics; each call writes them and counts the write."""
    norm, x = torch.nn.functional.batch_norm, torch.randn(3, 4, 5)

    def moved(times):
        mean, variance = torch.zeros(4), torch.ones(4)
        outs = [norm(x * (i + 1), mean, variance, training=True) for i in range(times)]
        return [*outs, *[norm(x, mean, variance) for _ in range(3)], mean, variance], mean._version

    with site.switched_off():
        expected, version = moved(5)
    made, count = moved(5)
    assert count == version == 5
    assert all(a.equal(b) for a, b in zip(made, expected))
    assert plans_of(records["batch_norm"].call) and plans_of(records["batch_norm_given"].call)


def test_records_that_are_planned_by_themselves():
    """Functions that take any number of arguments, or write, cannot be planned; the records they call are."""
    x, i = [torch.randn(4, 6) for _ in range(4)], torch.tensor([[0, 3, 1, 2, 0, 0]])
    calls = {
        "flip": lambda a: a.flip(0, 1), "roll": lambda a: a.roll((1, 2), (0, 1)), "repeat": lambda a: a.repeat(2, 1, 3),
        "scatter": lambda a: a.scatter(0, i, 2.0), "scatter_add": lambda a: a.scatter_add(0, i, a),
        "index_add": lambda a: a.index_add(0, i[0, :4], a), "index_copy": lambda a: a.index_copy(0, i[0, :4], a),
        "median": lambda a: a.median(1).values,
    }  # fmt: skip
    for name, call in calls.items():
        for a in x:
            made = call(a)
            with site.switched_off():
                assert made.equal(call(a)), name
        assert plans_of(records[name].call), name
    for _ in range(3):
        x[0].scatter(0, i, 1.0)
    with pytest.raises(RuntimeError, match="out of bounds"):  # asked again by the plan
        x[0].scatter(0, i + 1, 1.0)


def test_inference_tensors_are_refused_by_planned_calls():
    norm, w = torch.nn.functional.layer_norm, torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        inner = torch.rand(2, 3)
    for _ in range(4):
        norm(torch.rand(2, 3), (3,), w)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        norm(inner, (3,), w)


def test_bad_arguments_after_a_plan():
    x, y, losses = torch.rand(3, 4, requires_grad=True), torch.rand(3, 4), torch.nn.functional
    for _ in range(4):
        losses.mse_loss(x, y)
        losses.layer_norm(x, (4,))
        torch.gather(x, 1, torch.tensor([[0], [1], [3]]))
    for call, kind, words in (
        (lambda: losses.mse_loss(x, y, reduction="nothing"), ValueError, "not a valid value"),
        (lambda: losses.layer_norm(x, (3,)), RuntimeError, "normalized_shape"),
        (lambda: losses.layer_norm(x.to(torch.int64), (4,)), RuntimeError, "not implemented"),
        (lambda: torch.gather(x, 1, torch.tensor([[0], [1], [4]])), RuntimeError, "out of bounds"),
        (lambda: torch.gather(x, 2, torch.tensor([[0], [1], [3]])), IndexError, "Dimension out of range"),
        (lambda: losses.mse_loss(x, torch.rand(3, 5)), RuntimeError, "size"),
    ):
        with pytest.raises(kind, match=words):
            call()


def test_derivatives_are_planned():
    """A backward pass through planned derivatives gives what the Python functions give, with other numbers and lists too."""
    x = [torch.rand(3, 5, requires_grad=True) for _ in range(6)]
    w = torch.linspace(-1.0, 1.0, 15).reshape(3, 5)
    calls = (
        lambda a: (a.softmax(1) * w).sum(), lambda a: a.std(1).sum(), lambda a: a.max(1).values.sum(), lambda a: (a @ w.t()).sum(),
        lambda a: torch.cat([a, a * 2.0]).square().sum(), lambda a: a.cumsum(1).square().sum(),
        lambda a: torch.nn.functional.layer_norm(a, (5,), w[0]).square().sum(),
    )  # fmt: skip
    for call in calls:
        for a in x:
            (made,) = torch.autograd.grad(call(a), a)
            with site.switched_off():
                (expected,) = torch.autograd.grad(call(a), a)
            torch.testing.assert_close(made, expected, rtol=1e-6, atol=1e-7)
        (first,) = torch.autograd.grad(call(x[0]), x[0], create_graph=True)
        if first.requires_grad:
            (made,) = torch.autograd.grad((first * w).sum(), x[0], allow_unused=True)
            with site.switched_off():
                (again,) = torch.autograd.grad(call(x[0]), x[0], create_graph=True)
                (expected,) = torch.autograd.grad((again * w).sum(), x[0], allow_unused=True)
            if expected is not None:
                torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-6)


def test_lists_are_part_of_a_description():
    from flambeau._ops.plans.sites import _planned

    def total(tensors, scale=1.0):
        out = tensors[0]
        for t in tensors[1:]:
            out = out + t * scale
        return out

    function = _planned(total, "total")
    a, b, c = torch.rand(3, 4), torch.rand(3, 4), torch.rand(3, 4)
    for _ in range(4):
        assert function([a, b]).equal(a + b) and function((a, b, c)).equal(a + b + c)
        assert function([b, c], scale=2.0).equal(b + c * 2.0) and function([a, b.t().contiguous().t()]).equal(a + b)
        with pytest.raises(RuntimeError, match="size"):
            function([a, torch.rand(2, 2)])
    assert plans_of(function)


def test_what_is_written_unseen_is_not_planned():
    """Views that NumPy makes of watched memory cannot be written to, whatever stands there already."""
    x, v = torch.zeros(4, 4, requires_grad=True), torch.rand(4)
    for g in (torch.zeros(4, 4), torch.zeros(4, 4), torch.zeros(4, 4), torch.ones(4, 4)):
        (made,) = torch.autograd.grad(torch.diagonal_scatter(x, v), x, g)
        assert made.equal(g * (1.0 - torch.eye(4)))


def test_histories_of_several_nodes():
    """A loss of several steps has all its nodes again, each with what its own call kept."""
    loss, y = torch.nn.functional.soft_margin_loss, torch.tensor([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
    from flambeau._ops.plans.sites import _planned

    def steps(input, target):
        return (torch.exp(input) * torch.sigmoid(input * target)).sum()

    function = _planned(steps, "steps")
    made = []
    for i in range(5):
        x = (torch.arange(6.0).reshape(2, 3) / (i + 2)).requires_grad_()
        made.append((x, function(x, y), loss(x, y)))
    assert plans_of(function)
    names = {made[-1][1].grad_fn.name(), *[f.name() for f, _ in made[-1][1].grad_fn.next_functions]}
    assert names == {"SumBackward0", "MulBackward0"}
    for x, first, second in made:
        by_first, by_second = torch.autograd.grad(first + second, x, create_graph=True)[0], None
        with site.switched_off():
            (expected,) = torch.autograd.grad(steps(x, y) + loss(x, y), x, create_graph=True)
            by_second = torch.autograd.grad(expected.square().sum(), x)[0]
        torch.testing.assert_close(by_first, expected)
        torch.testing.assert_close(torch.autograd.grad(by_first.square().sum(), x)[0], by_second)


def test_results_that_are_none():
    """Gradients of a joint derivative for which nobody asks are None, before and after there is a plan."""
    x, y = torch.rand(3, 4, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    index = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2], [2, 0, 0, 1]])
    for _ in range(5):
        made = torch.autograd.grad(torch.scatter_reduce(x, 0, index, y, "amax").sum(), [x, y])
        with site.switched_off():
            expected = torch.autograd.grad(torch.scatter_reduce(x, 0, index, y, "amax").sum(), [x, y])
        for a, b in zip(made, expected):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_of_middle_size_are_planned(threads):
    """Such take as long as the interpreter does; they let other threads run."""
    x = torch.randn(300, 257)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for name, call in {"sum": lambda: x[:, 1:].sum(-1), "softmax": lambda: torch.softmax(x, -1)}.items():
            with site.switched_off():
                expected = call()
            function = getattr(torch, name)
            for _ in range(4):
                assert torch.equal(call(), expected)
            assert any(p.counts[0] and p.long for _, _, (p, _) in function.__self__.table.kept)
    finally:
        torch.set_num_threads(before)


def test_large_calls_are_planned_if_their_loops_share_work():
    x = torch.randn(1024, 600)
    calls = {"cumsum": lambda: torch.cumsum(x, 1), "prod": lambda: torch.prod(x, 1), "mm": lambda: torch.mm(x, x.t())}
    more = {}
    for name, call in calls.items():
        before = plans_of(getattr(torch, name))
        with site.switched_off():
            expected = call()
        for _ in range(3):
            assert torch.equal(call(), expected)
        more[name] = plans_of(getattr(torch, name)) - before
    assert more == {"cumsum": 1, "prod": 1, "mm": 1}


@pytest.mark.parametrize("threads", [1, 2])
def test_large_products_share_their_memory_one_at_a_time(threads):
    """Other threads of the interpreter run meanwhile. Those that find the memory in use do without the plan."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        pairs = [(torch.randn(1024, 300), torch.randn(300, 500)) for _ in range(3)]
        with site.switched_off():
            expected = [torch.mm(*pair) for pair in pairs]
        for _ in range(4):
            assert torch.equal(torch.mm(*pairs[0]), expected[0])
        used = CallWatch.used
        assert any(p.long == used.buffer_info()[0] for _, _, (p, _) in torch.mm.__self__.table.kept)
        wrong = []

        def work(pair, wanted):
            wrong.extend(1 for _ in range(40) if not torch.equal(torch.mm(*pair), wanted))

        workers = [threading.Thread(target=work, args=given) for given in zip(pairs, expected)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not wrong and not used[0]
        used[0] = 1
        assert torch.equal(torch.mm(*pairs[1]), expected[1]) and used[0]
    finally:
        CallWatch.used[0] = 0
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nn.functional.pad(x, (1, 2, 2, 1), mode="reflect"),
        lambda x: nn.functional.pad(x, (1, 2, 2, 1), mode="replicate"),
        lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda x: nn.functional.interpolate(x, size=(5, 11), mode="bicubic", align_corners=True),
        lambda x: nn.functional.glu(x, 2),
    ],
)
def test_nodes_may_keep_what_comes_from_sizes_alone(call):
    for turn in range(4):
        x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(turn), requires_grad=True)
        y = call(x)
        (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
        with site.switched_off():
            want = call(x)
            (h,) = torch.autograd.grad(want, x, torch.ones_like(want))
        assert torch.equal(y, want) and torch.equal(g, h) and y.grad_fn.name() == want.grad_fn.name()


def test_history_beside_operands_without_gradients():
    """Operands that need no gradient may have other dtypes: plans know the history of such calls, of whatever shapes they are."""
    x, keep = torch.randn(3, 4, requires_grad=True), torch.rand(3, 4) > 0.5
    halves, row = torch.randn(3, 4).half(), torch.randn(4)
    for call, factor in (
        (lambda: x * keep, keep.float()),
        (lambda: x * halves, halves.float()),
        (lambda: x * row, row.expand(3, 4)),
        (lambda: torch.where(keep, x, 2.0), keep.float()),
    ):
        for _ in range(4):
            made = call()
            assert made._edge[0].info is None
            (gradient,) = torch.autograd.grad(made.sum(), x)
            assert torch.equal(gradient, factor)
    (gradient,) = torch.autograd.grad((row.requires_grad_() * x).sum(), row)
    assert torch.allclose(gradient, x.detach().sum(0))


def test_gradients_beside_operands_of_another_dtype():
    """Neither numbers nor integers have a say in the gradient's dtype, though a formula may take their logarithm."""
    for dtype, other in itertools.product(
        (torch.bfloat16, torch.float16, torch.float32),
        (torch.tensor(1.7), torch.tensor(1.7, dtype=torch.float64), torch.tensor([2, 3, 4, 5], dtype=torch.int32)),
    ):
        x = torch.rand(3, 4).to(dtype).requires_grad_()
        for call in (torch.pow, torch.mul, torch.atan2, lambda x, y: torch.pow(y, x), torch.xlogy):
            for turn in range(4):
                made = call(x, other)
                (gradient,) = torch.autograd.grad(made.sum(), x, create_graph=turn == 3)
                assert made.dtype is dtype and gradient.dtype is dtype, (dtype, other)


F = nn.functional
DRAWN = {
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.25),
    "attention mask": lambda x: F.scaled_dot_product_attention(x, x, x, x @ x.mT, dropout_p=0.25),
    "dropout": lambda x: F.dropout(x, 0.25),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.25, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.25, True),
    "dropout2d": lambda x: F.dropout2d(x, 0.25),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x, 2, 4),
    "bernoulli": lambda x: x.sigmoid().bernoulli(),
    "rand_like": torch.rand_like,
    "randn_like": lambda x: torch.randn_like(x) * x,
    "normal": lambda x: torch.normal(x, 1.0),
    "randn": lambda x: torch.randn(8, 8) @ x,
    "multinomial": lambda x: x[0, 0].softmax(-1).multinomial(2),
    "poisson": lambda x: torch.poisson(x.abs()),
    "lstm": nn.LSTM(8, 4, 2, dropout=0.25, batch_first=True),
    "mha": nn.MultiheadAttention(8, 2, dropout=0.25, batch_first=True),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", DRAWN)
def test_no_call_draws_more_than_the_first_one(name, grad):
    """A call that is watched for a plan must not move the stream: what comes after it would be others than without plans."""
    torch.manual_seed(0)
    x = torch.randn(2, 8, 8) if name in ("lstm", "mha") else torch.randn(2, 4, 8, 8)
    given = (x.requires_grad_(grad),) * (3 if name == "mha" else 1)

    def drawn():
        torch.manual_seed(1)
        made = DRAWN[name](*given)
        return (made[0] if isinstance(made, tuple) else made).detach(), torch.get_rng_state()

    first, then = drawn()
    for _ in range(12):
        made, now = drawn()
        assert torch.equal(made, first) and torch.equal(now, then)


def test_numpy_names_have_plans():
    x = torch.arange(24.0).reshape(2, 3, 4)
    before = plans_of(torch.sum)
    for _ in range(4):
        assert torch.sum(x, axis=(0, 2), keepdims=True).flatten().tolist() == [60.0, 92.0, 124.0]
    assert plans_of(torch.sum) == before + 1
    with pytest.raises(TypeError):
        torch.sum(x, 0, axis=1)


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (3, 1, 2, 2), (2, 2, 3, 3)])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_joined_images_have_plans(shape, order):
    x = torch.rand(*shape).contiguous(memory_format=order)
    before = plans_of(torch.cat)
    made = [torch.cat([x, x + 1], 1) for _ in range(4)]
    assert plans_of(torch.cat) == before + 1
    assert all(torch.equal(m[:, shape[1] :], x + 1) and m.stride() == made[0].stride() for m in made)


@pytest.mark.parametrize("text", [
    "torch.fft.rfft2(x[:, :300])", "x.roll(3, 1)", "torch.cat([x, x], 1)", "torch.stack([x, x], -1)", "x.flip(0)", "x.flip(1)",
    "torch.cat([x[:, ::2], x[:, 1::2]], 1)", "x.index_select(0, i)", "x.max(0)", "x.cumsum(0)",
])  # fmt: skip
def test_work_that_threads_share_is_planned_for_their_number(text):
    """Another number of threads ends all plans: they say how many there are."""
    x, i, before = torch.rand(512, 1200), torch.arange(600) % 512, torch.get_num_threads()
    with site.switched_off():
        wanted = run(text, {"x": x, "i": i})
    try:
        for count in (2, 1, 3):
            torch.set_num_threads(count)
            assert not any(table.kept for table in plan.Table.all)
            for _ in range(6):
                agree(run(text, {"x": x, "i": i}), wanted, text)
            assert any(table.kept for table in plan.Table.all)
    finally:
        torch.set_num_threads(before)


def test_wrong_places_are_found_by_threads_that_have_a_plan():
    x, before = torch.rand(2000, 512), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for wrong in (0, 0, 0, 2000, 0, -1):
            i = torch.arange(1000)
            i[700] = wrong
            if 0 <= wrong < 2000:
                assert torch.equal(x.index_select(0, i), x[i])
            else:
                with pytest.raises((IndexError, RuntimeError), match="out of"):
                    x.index_select(0, i)
    finally:
        torch.set_num_threads(before)


def test_questions_about_batches_are_planned():
    """Kernels look at what went wrong with each matrix or row, and plans ask whether anything did."""
    n = 40
    bad = torch.eye(3).repeat(n, 1, 1)
    bad[17, 2, 2] = 0
    good, column = torch.eye(3).repeat(n, 1, 1), torch.ones(n, 3, 1)
    x, index = torch.rand(n, 5), torch.zeros(n, 1, dtype=torch.int64)
    outside = index.clone()
    outside[17] = 5
    for name, right, wrong, message in (
        ("linalg.inv", (good,), (bad,), "Batch element 17"), ("linalg.solve", (good, column), (bad, column), "Batch element 17"),
        ("linalg.cholesky", (good,), (bad,), "Batch element 17"), ("gather", (x, 1, index), (x, 1, outside), "index 5 is out of bounds"),
    ):  # fmt: skip
        call = functions[name]
        for _ in range(4):
            call(*right)
        assert any(p.counts[0] for _, _, (p, _) in call.__self__.table.kept), name
        with pytest.raises(RuntimeError, match=message):
            call(*wrong)


def test_long_lists_are_planned():
    """Batches are put together of many samples; of those with histories, only few are."""
    for count, grad in ((60, False), (128, False), (200, False), (60, True), (30, True)):
        given = [torch.rand(3, 4) for _ in range(count)]
        given[-1].requires_grad_(grad)
        for _ in range(5):
            for made, dim in ((torch.stack(given), 0), (torch.cat(given, 1), 1), (torch.stack(given, -1), 2)):
                wanted = np.concatenate(
                    [t.detach().numpy()[(slice(None),) * dim + (None,) * (made.ndim == 3)] for t in given], dim
                )
                np.testing.assert_array_equal(made.detach().numpy(), wanted)
                assert made.requires_grad == grad
                if grad:
                    made.sum().backward()
        if count < 130 and not grad:
            assert any(p.counts[0] for _, _, (p, values) in torch.stack.__self__.table.kept if len(values) > count)
    assert given[-1].grad.eq(15).all()
