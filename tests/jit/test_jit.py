"""TorchScript's names, futures and types."""

import copy
import pickle

import pytest

import flambeau as torch
from flambeau import jit, nn
from flambeau.futures import Future, collect_all, wait_all


def test_marks():
    def f(x):
        return x + 1

    for mark in (jit.export, jit.unused, jit.ignore, jit.ignore(drop=True), jit.interface, jit.script_if_tracing):
        assert mark(f) is f
    assert jit.annotate(int, 3) == 3 and not jit.is_scripting() and not jit.is_tracing()
    assert jit.isinstance([1], list[int]) and not jit.isinstance(["a"], list[int])
    assert jit.isinstance({"a": 1}, dict[str, int]) and jit.isinstance((1, "a"), tuple[int, str])


def test_scripted_modules_share_state():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout())
    scripted = jit.script(model)
    assert isinstance(scripted, jit.ScriptModule) and jit.script(scripted) is scripted
    assert list(scripted.state_dict()) == list(model.state_dict())
    assert scripted[0] is model[0] and scripted.original_name == "Sequential" and len(scripted) == 2
    scripted.eval()
    assert not model.training and not model[1].training
    x = torch.ones(1, 2)
    assert torch.equal(scripted(x), model(x))
    for other in (copy.deepcopy(scripted), pickle.loads(pickle.dumps(scripted))):
        assert torch.equal(other(x), model(x)) and other[0] is not model[0]


def test_futures():
    future = Future()
    chained = future.then(lambda f: f.wait() * 2)
    assert not future.done()
    future.set_result(4)
    assert chained.wait() == 8
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(5)
    failed = Future()
    failed.set_exception(ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        wait_all([future, failed])
    assert collect_all([]).wait() == []
    for wait in (jit.wait, lambda nothing: wait_all([nothing]), lambda nothing: collect_all([future, nothing])):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            wait(None)
    with pytest.raises(RuntimeError, match=r"Can not pickle torch\.futures\.Future"):
        pickle.dumps(future)
    assert jit.wait(jit.fork(lambda a: a + 1, 2)) == 3


def test_errors_of_callbacks(capsys):
    future = Future()

    def bad(done):
        raise ValueError(f"not {done.wait()}")

    chained = future.then(bad)
    future.add_done_callback(bad)
    future.set_result(7)
    assert "Got the following error when running the callback: ValueError: not 7" in capsys.readouterr().err
    future.add_done_callback(lambda: None)
    assert future.wait() == 7 and "takes 0 positional arguments" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ValueError: not 7"):
        chained.wait()


def test_types():
    from flambeau import types
    from flambeau._core.symbolic import SymInt

    assert types._dtype is torch.dtype and types._device is torch.device
    assert SymInt(3) * 2 == 6 and not isinstance(3, SymInt) and torch.ones(SymInt(2)).shape == (2,)
