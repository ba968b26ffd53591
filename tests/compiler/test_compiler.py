"""torch.compile and the switches around it."""

import copy
import pickle

import pytest

import flambeau as torch
from flambeau import compiler, nn
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
