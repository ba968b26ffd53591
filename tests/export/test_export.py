"""`torch.export` imports, describes sizes, and says that it cannot capture yet."""

import dataclasses

import pytest

import flambeau as torch
from flambeau.export import Dim, ExportedProgram, dims
from flambeau.utils import _pytree


def test_sizes_have_names_and_bounds():
    batch = Dim("batch", min=1, max=4)
    assert (batch.__name__, batch.min, batch.max) == ("batch", 1, 4)
    derived = 2 * batch + 1
    assert (repr(derived), derived.min, derived.max) == ("2*batch + 1", 3, 9)
    assert repr(3 * (batch - 1)) == "3*batch - 3"
    assert [d.__name__ for d in dims("a", "b")] == ["a", "b"]
    assert repr(Dim.AUTO) == "DimHint(AUTO)"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: Dim("1b"), AssertionError, "valid identifier"),
        (lambda: Dim("b", min=5, max=2), AssertionError, "inconsistent min=5, max=2"),
        (lambda: Dim("b") * Dim("b"), NotImplementedError, "positive integer was expected"),
        (lambda: 1 - Dim("b"), NotImplementedError, "negate"),
    ],
)
def test_wrong_sizes_are_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_registered_dataclasses_are_containers():
    @dataclasses.dataclass
    class Pair:
        first: torch.Tensor
        second: torch.Tensor

    torch.export.register_dataclass(Pair)
    made = _pytree.tree_map(lambda t: t + 1, Pair(torch.zeros(1), torch.ones(1)))
    assert (made.first.item(), made.second.item()) == (1.0, 2.0)


def test_capture_says_that_it_is_missing():
    for use in (lambda: torch.export.export(torch.nn.ReLU(), ()), lambda: torch.export.load("x"), ExportedProgram):
        with pytest.raises(NotImplementedError, match="capture"):
            use()
