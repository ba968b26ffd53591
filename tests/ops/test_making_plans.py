"""Plans of functions that make tensors of numbers alone: the same results as without plans, and when there must be none."""

import inspect
import math
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site

native = isinstance(getattr(torch.zeros, "__self__", None), site.Site)
needs_plans = pytest.mark.skipif(not native, reason="the native entry is switched off or not known here")


def again(call, times=4):
    """What the last of some calls gives, which a plan makes if there can be one."""
    if native:
        site.wait()
    return [call() for _ in range(times)][-1]


def plans(function):
    return [kept[2][0] for kept in function.__self__.table.kept if kept[2][0].counts[0]]


CALLS = {
    "zeros": lambda: torch.zeros(2, 3), "sizes": lambda: torch.zeros((2, 3)), "list": lambda: torch.ones([2, 3]),
    "options": lambda: torch.zeros(torch.Size((2, 3)), dtype=torch.int32, device="cpu"),
    "device": lambda: torch.ones(2, 3, device=torch.device("cpu"), dtype=torch.bool), "scalar": lambda: torch.zeros(()),
    "nothing": lambda: torch.ones(0, 4), "full": lambda: torch.full((2, 3), 2.5), "whole": lambda: torch.full((3,), 7),
    "truth": lambda: torch.full((3,), True), "negative zero": lambda: torch.full((2,), -0.0),
    "half": lambda: torch.ones(5, dtype=torch.bfloat16), "double complex": lambda: torch.ones(2, dtype=torch.complex128),
    "arange": lambda: torch.arange(5), "between": lambda: torch.arange(1, 3, 0.5), "linspace": lambda: torch.linspace(0, 1, 7),
    "eye": lambda: torch.eye(3, 4), "triangle": lambda: torch.tril_indices(3, 3), "number": lambda: torch.tensor(2.5),
    "numbers": lambda: torch.tensor([1.0, -2.5, 3.0]), "integers": lambda: torch.tensor((1, -2, 2**62)),
    "mixed": lambda: torch.tensor([1, 2.5]), "single": lambda: torch.tensor([1, 2], dtype=torch.float32),
    "double": lambda: torch.tensor([0.1, 2], dtype=torch.float64), "small": lambda: torch.tensor([1, 2], dtype=torch.int8),
    "truths": lambda: torch.tensor([True, False]), "unusual": lambda: torch.tensor([math.inf, -math.inf, 1e300, 1e-300]),
    "many": lambda: torch.zeros(40, 1000), "further": lambda: torch.arange(3000), "nested": lambda: torch.tensor([[1, 2], [3, 4]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_python_functions(name):
    call = CALLS[name]
    with site.switched_off():
        expected = call()
    first = again(call)
    first.fill_(0)
    made = again(call)
    assert made.dtype is expected.dtype and made.shape == expected.shape and made.stride() == expected.stride()
    assert made._array.tobytes() == expected._array.tobytes() and not made.requires_grad
    made.fill_(1)  # memory of its own
    assert call()._array.tobytes() == expected._array.tobytes()


@needs_plans
def test_such_calls_have_plans():
    site.forget_all()
    for call in (CALLS["zeros"], CALLS["options"], CALLS["arange"], CALLS["numbers"]):
        again(call)
    again(lambda: torch.empty(3, 4))
    assert [len(plans(f)) for f in (torch.zeros, torch.arange, torch.tensor, torch.empty)] == [2, 1, 1, 1]
    again(lambda: torch.tensor([4.0, 5.0, 6.0]))
    assert len(plans(torch.tensor)) == 1  # for any three floats


def test_each_call_has_its_own_numbers():
    again(lambda: torch.tensor([1.0, 2.0]))
    for a in (0.5, -3.0, 1e-40, 2.0**100, math.inf, math.nan):
        np.testing.assert_array_equal(torch.tensor([a, 1.0])._array, np.float32([a, 1]))
    again(lambda: torch.tensor([1, 2]))
    assert torch.tensor([-1, 2**63 - 1]).tolist() == [-1, 2**63 - 1]
    with pytest.raises(ValueError, match="Overflow"):
        torch.tensor([1, 2**63])
    again(lambda: torch.tensor([1.0, 2.0], requires_grad=0))
    assert torch.tensor([1.0, 2.0], requires_grad=1).requires_grad


def test_a_tensor_among_the_numbers_is_read_each_time():
    n = torch.tensor(3)
    again(lambda: torch.arange(n))
    again(lambda: torch.full((2,), n))
    assert torch.arange(n.fill_(5)).tolist() == [0, 1, 2, 3, 4] and torch.full((2,), n).tolist() == [5, 5]


def test_what_was_set_since_counts():
    again(CALLS["zeros"]), again(CALLS["numbers"])
    torch.set_default_dtype(torch.float64)
    try:
        assert CALLS["zeros"]().dtype is torch.float64 and CALLS["numbers"]().dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert CALLS["zeros"]().is_meta and CALLS["numbers"]().is_meta
    with torch.inference_mode():
        assert again(CALLS["zeros"]).is_inference()
    assert not CALLS["zeros"]().is_inference() and not CALLS["zeros"]().is_meta
    assert again(lambda: torch.zeros(2, 3, requires_grad=True)).requires_grad
    out = torch.ones(2, 3)
    assert torch.zeros(2, 3, out=out) is out and not out.any()


def test_memory_is_filled_where_deterministic_algorithms_are_demanded():
    again(lambda: torch.empty(3))
    torch.use_deterministic_algorithms(True)
    try:
        assert again(lambda: torch.empty(3)).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_modes_see_such_calls():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    seen = []
    again(CALLS["zeros"])
    with Mode():
        again(CALLS["zeros"], 1)
    assert seen == [torch.zeros]
    assert torch.vmap(lambda x: x + CALLS["zeros"]())(torch.ones(4, 2, 3)).shape == (4, 2, 3)


DRAWS = {
    "rand": lambda: torch.rand(3), "rows": lambda: torch.rand((4, 16)), "one": lambda: torch.randn(1), "odd": lambda: torch.randn(7),
    "row": lambda: torch.randn(16), "ragged": lambda: torch.randn(37), "double": lambda: torch.rand(2, dtype=torch.float64),
    "integers": lambda: torch.randint(-3, 100, (5,)), "wide": lambda: torch.randint(2**40, (3,)), "order": lambda: torch.randperm(9),
    "normal": lambda: torch.normal(2.0, 3.0, (4,)), "normals": lambda: torch.normal(2.0, 3.0, (20,)),
}  # fmt: skip


def test_draws_are_those_of_the_python_functions():
    torch.manual_seed(3)
    with site.switched_off():
        expected = [call() for _ in range(4) for call in DRAWS.values()]
    state = torch.get_rng_state()
    if native:
        site.wait()
    torch.manual_seed(3)
    made = [call() for _ in range(4) for call in DRAWS.values()]
    for one, other in zip(made, expected):
        assert one.dtype is other.dtype and one.shape == other.shape and one._array.tobytes() == other._array.tobytes()
    assert torch.equal(torch.get_rng_state(), state)
    torch.set_rng_state(state)
    first = DRAWS["odd"]()
    torch.set_rng_state(state)
    assert torch.equal(DRAWS["odd"](), first)  # with the second of a pair that was kept


@needs_plans
def test_draws_have_plans():
    site.forget_all()
    for name in ("rand", "odd", "ragged", "integers", "order", "normal"):
        again(DRAWS[name])
    functions = (torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal)
    assert [len(plans(f)) for f in functions] == [1, 2, 1, 1, 1]


def test_another_thread_may_be_drawing():
    again(DRAWS["odd"])
    engine = torch.default_generator._engine
    torch.manual_seed(1)
    expected = DRAWS["odd"]()
    torch.manual_seed(1)
    got, waits = [], threading.Event()

    def draw():
        waits.set()
        got.append(DRAWS["odd"]())

    other = threading.Thread(target=draw)
    with engine.lock:
        other.start()
        waits.wait()
        other.join(0.05)
        assert not got
    other.join()
    assert torch.equal(got[0], expected)


def test_the_generator_may_be_another_one():
    again(DRAWS["rand"])
    before, other = torch.default_generator.graphsafe_get_state(), torch.Generator().manual_seed(5)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(5))
    try:
        torch.default_generator.graphsafe_set_state(other)
        assert torch.equal(DRAWS["rand"](), expected)
    finally:
        torch.default_generator.graphsafe_set_state(before)


def test_samples_of_a_batch_are_drawn_as_vmap_says():
    again(DRAWS["rand"])
    with pytest.raises(RuntimeError, match="random"):
        torch.vmap(lambda x: x + DRAWS["rand"]())(torch.ones(4, 3))
    drawn = torch.vmap(lambda x: x + DRAWS["rand"](), randomness="different")(torch.zeros(4, 3))
    assert not torch.equal(drawn[0], drawn[1])
    p = torch.full((3,), 0.5)
    again(lambda: torch.bernoulli(p))
    drawn = torch.vmap(lambda x: x + torch.bernoulli(p), randomness="different")(torch.zeros(64, 3))
    assert not torch.equal(drawn[:32], drawn[32:]) and drawn.std(0).min() > 0


CHOICES = [  # PyTorch's, of three rounds
    ([[0, 1, 0, 1], [0, 0, 0, 1]], [[1], [0]], [[3, 1, 0, 0], [3, 0, 3, 0]], [0, 3, 2]),
    ([[0, 1, 0, 1], [1, 0, 0, 0]], [[1], [2]], [[3, 3, 1, 1], [0, 0, 2, 0]], [0, 0, 0]),
    ([[0, 1, 0, 0], [0, 0, 0, 0]], [[1], [3]], [[1, 3, 1, 1], [3, 0, 3, 2]], [1, 3, 0]),
]


def test_choices_are_those_of_pytorch():
    weights = torch.tensor([[0.1, 0.6, 0.0, 0.3], [0.5, 0.1, 0.2, 0.2]])

    def choices():
        ones, one = torch.bernoulli(weights).int(), torch.multinomial(weights, 1)
        several = torch.multinomial(weights, 4, replacement=True), torch.multinomial(weights[1], 3, replacement=True)
        return tuple(t.tolist() for t in (ones, one, *several))

    for _ in range(2):  # plans are made in the first round, and must not move the stream by themselves
        again(choices, 3)
        torch.manual_seed(11)
        assert [choices() for _ in range(3)] == CHOICES
        assert torch.rand(1).item() == 0.10567843914031982
    drop = torch.nn.functional.dropout
    assert 0 < again(lambda: drop(torch.ones(100, 100))).eq(0).sum() < 10_000  # the interpreter is kept for its lock
    if native:
        assert len(plans(torch.bernoulli)) >= 1 and len(plans(torch.multinomial)) >= 3


@pytest.mark.parametrize("wrong", [[-1.0, 2.0], [0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_a_plan_asks_whether_weights_are_good(wrong):
    good = torch.tensor([0.5, 0.25])
    again(lambda: torch.multinomial(good, 1))
    again(lambda: torch.bernoulli(good))
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="probabilit"):
        torch.multinomial(torch.tensor(wrong), 1)
    if wrong != [0.0, 0.0]:
        with pytest.raises(RuntimeError, match="probability"):
            torch.bernoulli(torch.tensor(wrong))
    assert torch.equal(torch.get_rng_state(), state)


def test_signatures_are_those_of_the_python_functions():
    kinds = {p.kind for p in inspect.signature(torch.rand).parameters.values()}
    assert kinds == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    assert {"dtype", "device", "requires_grad"} <= inspect.signature(torch.zeros).parameters.keys()
