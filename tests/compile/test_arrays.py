"""NumPy's arrays are constants of compiled programs as long as nobody changes their elements, and what its functions make of them is, too."""

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.steps, self.size, self.all = function, 0, np.linspace(1, 2, 4), [np.ones(2)]
        self.kept = None

    def forward(self, x):
        return self.function(self, x)


def _grid(self, x):
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 2), np.arange(2)), -1)
    return x + torch.as_tensor(grid).float().sum(-1)


def _tiled(self, x):
    return x + torch.from_numpy(np.tile(self.size[:2], (2, 1)).astype(np.float32))


def _of_the_step(self, x):
    self.steps += 1
    return x * float(self.size[self.steps % 4]) * float(np.interp(self.steps, [0, 10], [0.0, 1.0]))


WHOLE = {
    "grid": _grid,
    "tiled": _tiled,
    "product of sizes": lambda self, x: x.view(np.prod(x.shape)) * np.sqrt(x.shape[0]),
    "dimensions": lambda self, x: x.sum(tuple(np.unique([0, 0]).astype(int))),
    "index": lambda self, x: x[np.array([1, 0])],
    "element": lambda self, x: x * self.size[1],
    "branch": lambda self, x: x * 2 if np.any(self.size > 1.5) and self.all[0].shape == (2,) else x,
    "operand": lambda self, x: x.new_tensor(self.all[0]) + x,
    "users' function": lambda self, x: x * float(np.vectorize(lambda n: n + self.size[0])([1, 2]).sum()),
    "of the step": _of_the_step,
    "given": lambda self, x: torch.from_numpy(np.arange(3) + self.size[0]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_programs_with_arrays_are_recorded_and_see_changes_of_elements(name):
    eager, model = Model(WHOLE[name]), Model(WHOLE[name])
    compiled = torch.compile(model)
    for i in range(6):
        if i == 3:
            for own in (eager, model):
                own.size[:] = 0.5
                own.all[0] += 1
        x = torch.arange(4.0).view(2, 2) + i
        assert torch.equal(compiled(x), eager(x))
    assert compiled._region.problem is None and compiled._region.entries


def _counts(self, x):
    self.size[0] += 1
    return x * self.size[0]


def _sums(self, x):
    total = np.zeros(2, np.float32)
    torch.from_numpy(total).add_(x.detach()[0])
    return x * float(total[1])


def _gathers(self, x):
    total = np.zeros(2)
    total[0] = x.sum().item()
    return x * total[0]


def _fills(self, x):
    array = np.zeros(2, np.float32)
    t = torch.from_numpy(array)
    array[0] = 5
    return x * t


def _keeps(self, x):
    self.kept = np.arange(3.0) if self.kept is None else self.kept + x.shape[0]
    return x * self.kept[0]


CHANGING = {
    "counts": _counts, "sums": _sums, "gathers": _gathers, "fills": _fills, "keeps": _keeps,
    "gives": lambda self, x: torch.from_numpy(self.size),
    "gives a part": lambda self, x: torch.from_numpy(self.size[1:]),
    "reads": lambda self, x: x * float(np.asarray(x).sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
def test_what_is_done_to_arrays_is_done_in_each_call(name):
    eager, model = Model(CHANGING[name]), Model(CHANGING[name])
    compiled, given = torch.compile(model), []
    for i in range(4):
        x = torch.arange(4.0).view(2, 2) + i
        given.append((eager(x), compiled(x)))
        for own in (eager, model):
            own.size += 0.25
        assert all(torch.equal(a, b) for a, b in given)
        assert np.array_equal(eager.size, model.size) and str(eager.kept) == str(model.kept)


def test_results_over_the_memory_of_one_array_stay_together():
    def both(x):
        array = np.zeros(2, np.float32)
        return torch.from_numpy(array), torch.from_numpy(array[:1]), x

    compiled = torch.compile(both)
    for _ in range(3):
        whole, part, _ = compiled(torch.ones(1))
        part += 1
        assert whole.tolist() == [1, 0]


def test_arrays_that_are_arguments_are_no_reason_to_record_again():
    compiled = torch.compile(lambda x, a: x + torch.from_numpy(a))
    for i in range(3):
        assert compiled(torch.zeros(2), np.full(2, i, np.float32)).tolist() == [i, i]
    assert not compiled._region.entries and "ndarray" in str(compiled._region.problem)


def test_the_name_of_a_tensors_type_may_be_asked():
    compiled = torch.compile(
        lambda x: x.type("torch.DoubleTensor") * (2 if x.type() == "torch.FloatTensor" else 3), fullgraph=True
    )
    assert compiled(torch.ones(1)).item() == 2 and compiled(torch.ones(1).double()).item() == 3
    assert len(compiled._region.entries) == 2


def test_arrays_that_an_operator_makes_of_tensors_are_no_constants():
    def by_numpy(t):
        return torch.from_numpy(np.sin(t.numpy()))

    operator = torch.library.custom_op(
        "test_arrays::by_numpy", by_numpy, mutates_args=(), schema="(Tensor t) -> Tensor"
    )
    operator.register_fake(torch.empty_like)
    compiled = torch.compile(lambda t: operator(t * 2) + 1)
    for i in range(4):
        t = torch.arange(3.0) + i
        torch.testing.assert_close(compiled(t), (t * 2).sin() + 1)
