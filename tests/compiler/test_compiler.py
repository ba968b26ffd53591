"""torch.compile and the switches around it."""

import copy
import pickle

import pytest

import flambeau as torch
from flambeau import compiler, nn
from flambeau._compile import tune
from flambeau._dynamo import OptimizedModule


def test_modules_keep_their_state():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout())
    compiled = compiler.compile(model)
    assert isinstance(compiled, OptimizedModule) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [n for n, _ in compiled.named_parameters()] == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    compiled.eval()
    assert not model.training
    x = torch.ones(1, 2)
    assert torch.equal(compiled(x), model(x))
    compiled.extra = 3
    assert model.extra == 3 and compiled.extra == 3
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(other(x), model(x))
    compiled.load_state_dict(compiled.state_dict())


def test_functions():
    calls = []

    @compiler.compile(fullgraph=True, mode="reduce-overhead")
    def f(x):
        calls.append(x)
        return x + 1

    assert f(1) == 2 and f.__name__ == "f" and f._torchdynamo_orig_callable.__name__ == "f" and calls == [1]
    model = nn.Linear(1, 1)
    assert compiler.compile(model, disable=True) is model


def test_wrong_arguments():
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        compiler.compile(nn.Linear(1, 1), mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        compiler.compile(nn.Linear(1, 1), mode="default", options={})
    with pytest.raises(RuntimeError, match="Invalid backend"):
        compiler.compile(nn.Linear(1, 1), backend="nothing")
    with pytest.raises(AssertionError, match="callable"):
        compiler.compile(3)


def test_switches():
    def f():
        return 1

    for mark in (compiler.allow_in_graph, compiler.assume_constant_result):
        assert mark(f) is f
    for mark in (compiler.disable, compiler.disable(recursive=False)):
        assert mark(f)() == 1 and mark(f)._torchdynamo_disable
    assert not compiler.is_compiling() and not compiler.is_exporting() and "inductor" in compiler.list_backends()
    with compiler.set_stance("force_eager"):
        assert compiler._state["stance"] == "force_eager"
    assert compiler._state["stance"] == "default"
    with pytest.raises(RuntimeError, match="stance"):
        compiler.set_stance("upright")
    from flambeau import _dynamo, _inductor

    with _dynamo.config.patch(cache_size_limit=64):
        assert _dynamo.config.cache_size_limit == 64 and not _dynamo.is_compiling()
    assert "max_autotune" in _inductor.list_options()
    _dynamo.reset()


def test_numpy_functions():
    import numpy as np

    assert torch.equal(compiler.wrap_numpy(lambda a: np.square(a))(torch.tensor([2.0])), torch.tensor([4.0]))


def test_max_autotune_tries_forms_and_remembers_the_best(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    tried, time = [], tune._time
    monkeypatch.setattr(
        tune, "_time", lambda lowered, inputs: tried.append(len(lowered.parts)) or time(lowered, inputs)
    )

    def f(x, y):
        return ((x * y).relu() + x).square().sum(1)

    x, y = torch.randn(8, 8), torch.randn(8, 8)
    for count in (3, 3):  # the second function finds what the first one has found out
        compiled = compiler.compile(lambda x, y: f(x, y), mode="max-autotune")
        for _ in range(3):
            assert torch.equal(compiled(x, y), f(x, y))
        assert len(tried) == count
    with pytest.raises(RuntimeError, match="Unexpected optimization option quick"):
        compiler.compile(f, options={"quick": True})
    with pytest.raises(RuntimeError, match="Unexpected type of attr max_autotune, got int should be bool"):
        compiler.compile(f, options={"max_autotune": 1})
    assert compiler.compile(f, options={"max_autotune": True})._region.tune and not compiler.compile(f)._region.tune


def test_max_autotune_runs_what_changes_something_once():
    count = torch.zeros(3)

    @compiler.compile(mode="max-autotune")
    def f(x):
        count.add_(1)
        return x + count

    for number in range(1, 5):
        assert torch.equal(f(torch.zeros(3)), torch.full((3,), float(number)))


def test_breaks_can_be_errors():
    def f(x):
        y = x.sum().tolist()
        return x + y

    compiled = compiler.compile(f)
    with (
        torch._dynamo.error_on_graph_break(True),
        pytest.raises(torch._dynamo.exc.Unsupported, match="error_on_graph_break"),
    ):
        compiled(torch.ones(2))

    @compiler.compile
    def g(x):
        with torch._dynamo.error_on_graph_break(True):
            torch._dynamo.graph_break()
        return x

    with pytest.raises(torch._dynamo.exc.Unsupported):
        g(torch.ones(2))
    assert torch.equal(compiler.compile(f)(torch.ones(2)), torch.full((2,), 3.0))


def test_run_records_nothing_new():
    compiled = compiler.compile(lambda x: x * 2)
    only = torch._dynamo.run(compiled)
    assert torch.equal(only(torch.ones(2)), torch.full((2,), 2.0)) and not compiled._region.entries
    compiled(torch.ones(2))
    assert torch.equal(only(torch.ones(3)), torch.full((3,), 2.0)) and len(compiled._region.entries) == 1


def test_the_default_backend_and_limits_of_single_functions():
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    compiler.set_default_backend(backend)
    try:
        assert compiler.compile(lambda x: x + 1)(torch.ones(1)).item() == 2 and len(seen) == 1
    finally:
        compiler.set_default_backend(None)
    f = compiler.compile(lambda x, n: x + n, recompile_limit=2, dynamic=False)
    for n in range(5):
        assert f(torch.ones(1), n).item() == n + 1
    assert len(f._region.entries) == 2
    with pytest.raises(NotImplementedError, match="force_backend"):
        compiler.set_stance("default", force_backend=lambda graph, examples: graph.forward)
    with pytest.raises(RuntimeError, match="force_backend"):
        compiler.set_stance("force_eager", force_backend="eager")
    with compiler.set_stance("default", force_backend="eager", skip_guard_eval_unsafe=True):
        assert torch.compile(lambda x: x + 1)(torch.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="guard"):
        torch._dynamo.optimize(guard_export_fn=len)
    assert torch._inductor.compile(lambda x: x - 1, [torch.ones(1)])(torch.ones(1)).item() == 0


def test_marks_check_what_they_are_given():
    def both(x, y):
        return x

    with pytest.raises(TypeError, match="Signature mismatch"):
        torch.compiler.substitute_in_graph(both)(lambda x: x)
    with pytest.raises(TypeError, match="expects a function but got <class 'int'>"):
        torch.compiler.substitute_in_graph(3)
    assert torch.compiler.substitute_in_graph(both, skip_signature_check=True)(abs_of := lambda x: x) is abs_of
    assert torch._dynamo.substitute_in_graph(dict, is_embedded_type=True)(both) is both
    torch._dynamo.maybe_mark_dynamic(torch.ones(3), 5)  # passed over, where mark_dynamic refuses
    with pytest.raises(AssertionError, match="expects a callable"):
        torch._dynamo.nonstrict_trace(3)
    with pytest.raises(AssertionError, match="illegal without setting aten_graph=True"):
        torch._dynamo.export(torch.relu, decomposition_table={})
    with pytest.raises(NotImplementedError, match="options"):
        torch.compiler.nested_compile_region(both, options={})


def test_logs_by_name():
    import logging

    torch._logging.set_logs(dynamo=logging.INFO, guards=True, modules={"torch.made_up": logging.ERROR})
    assert logging.getLogger("torch._dynamo").level == logging.INFO
    assert logging.getLogger("torch.made_up").level == logging.ERROR
    with pytest.raises(ValueError, match="Unrecognized log level"):
        torch._logging.set_logs(aot=7)
    with pytest.raises(TypeError, match="nothing_such"):
        torch._logging.set_logs(nothing_such=True)
    torch._logging.set_logs(modules={"torch.made_up": 0})
    assert logging.getLogger("torch._dynamo").level == logging.NOTSET


def test_counters_of_what_was_recorded():
    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = torch.compile(lambda x: x.sin() + x.cos() * 2)
    compiled(torch.ones(3)), compiled(torch.ones(3))
    assert dict(counters["stats"]) == {"unique_graphs": 1, "calls_captured": 4}

    @torch.compile
    def breaks(x):
        torch._dynamo.graph_break("because")
        return x.sin()

    breaks(torch.ones(3)), breaks(torch.ones(3))
    assert counters["graph_break"].total() == 1 and "because" in next(iter(counters["graph_break"]))


def test_backends_that_count_and_keep_graphs():
    testing = torch._dynamo.testing
    counter, kept = testing.CompileCounterWithBackend("eager"), testing.EagerAndRecordGraphs()
    for backend in (counter, kept):
        made = torch.compile(lambda x: x.sin() + 1, backend=backend)(torch.zeros(2))
        assert testing.same([made], [torch.ones(2)]) and not testing.same([made], [torch.zeros(2)])
    assert counter.frame_count == 1 and counter.op_count == 2
    assert [node.op for node in kept.graphs[0].graph.nodes].count("placeholder") == 1
    x = testing.rand_strided((2, 3), (1, 4), dtype=torch.float64)
    assert x.stride() == (1, 4) and x.dtype is torch.float64 and testing.rand_strided((0, 2), (2, 1)).shape == (0, 2)


def test_fullgraph_raises_in_each_call_that_breaks():
    def scaled(x, way):
        return x * 3 if way and x.sum() > 0 else x * 2

    compiled = torch.compile(scaled, fullgraph=True)
    for _ in range(3):
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(torch.ones(2), True)
    assert compiled(torch.ones(2), False).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x: (print(end=""), x + 1, x.sum().item(), x * 2)[1]])
def test_errors_of_backends_are_told(function, monkeypatch):
    """In each call; unless they are to be suppressed, when functions run eagerly."""

    def failing(module, inputs):
        raise ValueError("this one cannot be compiled")

    compiled, _dynamo = torch.compile(function, backend=failing), torch._dynamo
    for _ in range(2):
        with pytest.raises(
            _dynamo.exc.BackendCompilerFailed, match="backend='failing' raised:\nValueError: this one"
        ) as told:
            compiled(torch.ones(2))
        assert isinstance(told.value.inner_exception, ValueError) and told.value.__cause__ is told.value.inner_exception
    monkeypatch.setattr(_dynamo.config, "suppress_errors", True)
    assert torch.compile(function, backend=failing)(torch.ones(2)).tolist() == [2, 2]
