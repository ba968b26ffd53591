"""Scripted functions check and convert their arguments, and fail with TorchScript's errors."""

from typing import Dict, List, Optional, Tuple  # noqa: UP035  (what programs write)

import pytest

import flambeau as torch
from flambeau import jit, nn


@jit.script
def add(x: torch.Tensor, n: int):
    return x + n


@jit.script
def kept(x):
    return x


@jit.script
def numbers(x: List[int], y: Optional[int] = None):  # noqa: UP006, UP045
    x.append(1)
    return x


@jit.script
def table(x: Dict[str, int]):  # noqa: UP006
    return x["q"]


@jit.script
def pair(x: Tuple[int, torch.Tensor]):  # noqa: UP006
    return x


@jit.script
def flag(x: bool, text: str = "a", share: float = 1.0):
    return x, text, share


@jit.script
def refuse(x):
    if x.sum() > 0:
        raise ValueError("bad value")
    assert x.sum() < -5, "must be low"
    return x.view(7)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, k: int = 2):
        return x * k


ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: add(ONE, "a"),
            r"add\(\) Expected a value of type 'int' for argument 'n' but instead found type 'str'",
        ),
        (lambda: add(ONE, 1.5), "found type 'float'"),
        (lambda: add(3, 1), "type 'Tensor' for argument 'x'"),
        (lambda: kept(3), r"type 'Tensor \(inferred\)'"),
        (lambda: numbers([1, 2.5]), r"type 'List\[int\]'"),
        (lambda: numbers([1], "a"), r"type 'Optional\[int\]'"),
        (lambda: table({1: 1}), r"type 'Dict\[str, int\]'"),
        (lambda: pair((1,)), r"type 'Tuple\[int, Tensor\]'"),
        (lambda: flag("x"), "type 'bool'"),
        (lambda: flag(True, 3), "type 'str'"),
        (lambda: add(ONE), r"missing value for argument 'n'. Declaration: add\(Tensor x, int n\)"),
        (lambda: add(ONE, 1, 2), "at most 2"),
        (lambda: add(ONE, 1, zz=2), "Unknown keyword argument 'zz'"),
        (lambda: jit.script(Scaled())(ONE, "a"), r"forward\(\) Expected a value of type 'int' for argument 'k'"),
    ],
)
def test_arguments_of_other_types_are_refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_arguments_are_converted():
    assert add(ONE, torch.tensor(3)).item() == add(ONE, n=3).item() == 4 and add(ONE, True).item() == 2
    given = (1, 2)
    assert numbers(given) == [1, 2, 1] and given == (1, 2)
    mine = [5]
    assert numbers(mine) == [5, 1] and mine == [5]
    assert pair([1, ONE]) == (1, ONE) and kept(None) is None
    assert flag(1, share=2) == (True, "a", 2.0) and isinstance(flag(True, "b", 2)[2], float)
    assert jit.script(Scaled())(ONE).item() == 2


def test_raised_errors_are_torchscripts():
    with pytest.raises(jit.Error, match=r"failed in the TorchScript interpreter(?s:.*)ValueError: bad value") as caught:
        refuse(ONE)
    assert caught.value.original_msg == "bad value" and not isinstance(caught.value, RuntimeError)
    with pytest.raises(jit.Error, match="AssertionError: must be low"):
        refuse(-ONE)
    with pytest.raises(RuntimeError, match="shape"):
        refuse(-9 * ONE)
    with pytest.raises(RuntimeError, match="KeyError"):
        table({"a": 1})


def test_methods_may_call_their_module_as_they_like():
    class Halved(nn.Module):
        def forward(this, x):
            return x / 2

    assert jit.script(Halved())(torch.ones(2)).tolist() == [0.5, 0.5]
