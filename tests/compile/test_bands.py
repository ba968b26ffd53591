"""Loops that make and use a large value band by band: the same bits, and no memory for that value."""

import random

import pytest
from program_reference import agrees

import flambeau as torch
from flambeau._compile import bands
from flambeau._compile.bands import Banded
from flambeau._kernel.building.llvm import NoCompiler
from flambeau.nn import functional as F


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def little(monkeypatch):
    """Small values count as large ones."""
    monkeypatch.setattr(bands, "strip_bytes", lambda: 2048)


def steps(program):
    return [step for part in program._lowered.parts for step in getattr(part, "steps", [part])]


def banded(program):
    return [step for step in steps(program) if isinstance(step, Banded)]


def make(*shapes, dtype=torch.float32):
    def made(seed):
        torch.manual_seed(seed)
        return [torch.randn(*shape, dtype=dtype) for shape in shapes]

    return made


# -- what is banded ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("rows", [600, 1777, 3000])  # the last is larger than what goes past the caches
def test_sums_of_what_elements_give_need_no_memory_for_these(rows):
    program = agrees(lambda x, y: (torch.tanh(x * y) + y).exp().sum(1), make((rows, 500), (rows, 500)))
    assert len(banded(program)) == 1 and program._lowered.arena < 600 * 500 * 4


@pytest.mark.usefixtures("threads")
def test_rows_go_through_several_programs_along_them():
    def function(x, weight):
        return torch.relu(F.layer_norm(F.softmax(x * 3, -1) + weight, (400,)).neg()).sum(-1)

    program = agrees(function, make((1000, 400), (400,)))
    (band,) = banded(program)
    assert len(band.loops) >= 4 and not program._lowered.arena


def test_what_is_returned_has_its_memory():
    program = agrees(lambda x: ((y := torch.sin(x)), F.softmax(y, -1)), make((600, 500)))
    assert not banded(program)


def test_what_another_operation_needs_has_its_memory():
    program = agrees(lambda x: ((y := torch.sin(x)).sum(-1), y.cumsum(0).mean()), make((600, 500)))
    assert not banded(program)


def test_units_differ():
    """Rows of one are columns of the other."""
    program = agrees(lambda x: torch.sin(x).transpose(0, 1).softmax(-1).sum(-1), make((600, 500)))
    assert all(len(band.loops) == 2 for band in banded(program))


def test_many_short_calls_are_not_worth_it():
    """Channels lie in pieces in each image."""
    program = agrees(lambda x: torch.relu(F.batch_norm(x, None, None, training=True)).clone(), make((8, 16, 64, 64)))
    assert not banded(program)


def test_small_values_stay_in_the_caches():
    program = agrees(lambda x: torch.sin(x).sum(-1), make((128, 64)))
    assert not banded(program)


def test_a_question_in_between(little):
    """A kernel's answer may end the program: what its operation reads is there then."""

    def function(x, index):
        rows = torch.sin(x)
        return F.nll_loss(rows.log_softmax(-1), index)

    def given(seed):
        torch.manual_seed(seed)
        return [torch.randn(128, 32), torch.randint(0, 32, (128,))]

    program = agrees(function, given)
    x, index = given(7)
    index[3] = 32
    with pytest.raises(IndexError):
        program.run([x, index])
    assert torch.equal(program.run(given(8))[0], function(*given(8)))


def test_without_a_compiler_loops_run_one_by_one(monkeypatch):
    def entry():
        raise NoCompiler("none")

    monkeypatch.setattr(bands.bands, "entry", entry)
    assert not banded(agrees(lambda x: torch.sin(x).sum(-1), make((600, 500))))


@pytest.mark.usefixtures("little")
def test_a_result_takes_the_place_of_an_operand():
    def function(x):
        a = x.cumsum(0)
        return torch.tanh(a * 2).softmax(-1).cumsum(0)

    program = agrees(function, make((128, 64)))
    (band,) = banded(program)
    assert band.alike and program._lowered.arena <= 128 * 64 * 4


# -- any chain -----------------------------------------------------------------------------------------------------------

CHAIN = [
    torch.tanh,
    torch.relu,
    lambda x: x * 2,
    lambda x: F.softmax(x, -1),
    lambda x: F.log_softmax(x, -1),
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: x + x.sum(-1, keepdim=True),
    lambda x: x - x.mean(0, keepdim=True),
    lambda x: x.transpose(0, 1).exp().transpose(0, 1).clamp(max=9),
    lambda x: x.cumsum(-1),
    lambda x: x / (1 + x.norm(dim=-1, keepdim=True)),
    lambda x: x.flip(0) + x,
    lambda x: x.view(-1).mul(2).view(x.shape),
    lambda x: x.amax(-1, keepdim=True) - x,
    lambda x: x.std(-1, keepdim=True) + x,
    lambda x: x.sort(-1)[0],
]
SHAPES = [(64, 32), (16, 8, 32), (30, 40), (48, 1, 16), (8, 4, 4, 16), (128, 64)]


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 400), marks=pytest.mark.slow)])
def test_any_chain_gives_eager_bits(seeds):
    found, before = 0, torch.get_num_threads()
    for seed in seeds:
        r = random.Random(seed)
        chain, kept = [r.choice(CHAIN) for _ in range(r.randint(2, 6))], [r.random() < 0.15 for _ in range(6)]
        shape, dtype = r.choice(SHAPES), r.choice([torch.float32, torch.float32, torch.float64])

        def function(x, chain=chain, kept=kept):
            results = []
            for part, keep in zip(chain, kept):
                x = part(x)
                results += [x] * keep
            return *results, x.sum(-1)

        torch.set_num_threads(r.choice([1, 2, 3]))
        try:
            found += len(banded(agrees(function, make(shape, dtype=dtype))))
        finally:
            torch.set_num_threads(before)
    assert found >= len(seeds) / 4
