"""What PyTorch's own tests of `torch.compile` ask for: what `fullgraph` accepts, marks, answers that are not stale."""

import collections
import functools
import random
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

dynamo = torch._dynamo
whole = functools.partial(torch.compile, fullgraph=True)


def silent(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x + 1


# as text: the test runner makes other code of the statement
spaces = {}
exec("def asserted(x):\n    assert x.sum() > 0, 'not positive'\n    return x * 2\n", spaces)
asserted = spaces["asserted"]


ACCEPTED = {
    "random numbers of Python": lambda x: x * random.uniform(1.0, 1.0),
    "warnings that are caught": silent,
    "arrays": lambda x: torch.from_numpy(np.sort(x.numpy()[::-1].copy())),
    "names of types": lambda x: x.type(),
    "statements that assert": asserted,
    "attributes of tensors": lambda x: setattr(x.sin(), "data", x * 2),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_whole_graph_refuses_only_what_pytorch_refuses(name):
    function = ACCEPTED[name]
    x = torch.tensor([2.0, 1.0])
    compiled = whole(function)
    for _ in range(2):
        assert str(compiled(x)) == str(function(x))


def test_what_pytorch_refuses_raises():
    for function in (lambda x: x * 2 if x.sum() > 0 else x, lambda x: (dynamo.graph_break(), x + 1)[1]):
        with pytest.raises(dynamo.exc.Unsupported):
            whole(function)(torch.ones(2))
    with pytest.raises(AssertionError, match="not positive"):
        whole(asserted)(-torch.ones(2))


def test_numbers_of_tensors_are_accepted_where_they_are_asked_for():
    with dynamo.config.patch(capture_scalar_outputs=True):
        found = whole(lambda x: torch.zeros(max(x.item(), 2)))
        assert found(torch.tensor(3)).shape == (3,) and found(torch.tensor(1)).shape == (2,)


def test_lazy_layers_are_made_in_a_whole_graph():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LazyLinear(3)

        def forward(self, x):
            return self.layer(x)

    compiled = whole(Lazy())
    assert compiled(torch.ones(1, 2)).shape == compiled(torch.ones(1, 2)).shape == (1, 3)


def test_functions_that_are_steps_of_a_graph_run_as_they_are():
    def broken(x):
        dynamo.graph_break()
        return x + 1

    for mark in (torch.compiler.allow_in_graph, dynamo.nonstrict_trace):

        def marked(x):
            dynamo.graph_break()
            return x + 1

        assert mark(marked) is marked
        assert whole(lambda x, f=marked: f(x) * 2)(torch.ones(1)).item() == 4
    with pytest.raises(dynamo.exc.Unsupported):
        whole(broken)(torch.ones(1))
    with pytest.raises(AssertionError):
        torch.compiler.allow_in_graph(3)


class Fixed(torch.autograd.Function):
    """Neither the result nor the gradients are computed from what is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return torch.ones(x.shape)

    @staticmethod
    def backward(ctx, g):
        return torch.full(ctx.shape, 2.0)


def test_parameters_that_no_operation_reads_get_their_gradients():
    weight = torch.ones(3, requires_grad=True)
    compiled = whole(lambda: Fixed.apply(weight))
    for _ in range(3):
        weight.grad = None
        compiled().sum().backward()
        assert weight.grad is not None and weight.grad.tolist() == [2.0, 2.0, 2.0]


def test_gradients_that_are_set_belong_to_the_arguments():
    @torch.compile
    def set_gradients(x, y):
        x.grad, y._grad = y + 1, x * 2
        return x.grad.data

    for _ in range(3):
        x, y = [torch.ones(2, requires_grad=True).clone() for _ in range(2)]
        x.retain_grad()
        y.retain_grad()
        set_gradients(x, y)
        assert x.grad.tolist() == y.grad.tolist() == [2.0, 2.0]


def test_a_recording_takes_over_no_functions():
    class Like:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return 3

    asked = torch.compile(torch.overrides.has_torch_function_unary)
    assert [asked(a) for a in (Like(), 4, torch.ones(1), Like())] == [True, False, False, True]


def test_wrappers_of_compiled_functions_are_not_what_they_wrap():
    for decorated in (torch.compile(lambda x: x + 1), torch.compiler.disable(lambda x: x + 1)):

        @functools.wraps(decorated)
        def more(x, decorated=decorated):
            return decorated(x) * 10

        assert torch.compile(more)(torch.ones(1)).item() == 20
        assert dynamo.eval_frame.innermost_fn(decorated)(torch.ones(1)).item() == 2
        assert dynamo.eval_frame.innermost_fn(more) is more


def test_a_compiled_module_is_in_the_mode_of_the_original():
    module = nn.Linear(2, 2).eval()
    compiled = torch.compile(module)
    assert not compiled.training
    compiled.train()
    assert module.training and compiled.training
    module.eval()
    assert not compiled.training
    module.note = 3
    del compiled.note
    assert not hasattr(module, "note")


def test_marks_and_switches():
    @dynamo.mark_static
    class Marked(nn.Linear): ...

    assert issubclass(Marked, nn.Linear)
    dynamo.decorators.mark_unbacked(torch.ones(3, 2), 0)
    dynamo.config.reorderable_logging_functions.add(print)
    try:
        assert torch.compiler.config.reorderable_logging_functions == {print}
        assert b"recompile_limit" in dynamo.config.save_config()
    finally:
        dynamo.config.reorderable_logging_functions.clear()
    with torch.compiler.config.patch(recompile_limit=3, job_id="mine"):
        assert dynamo.config.recompile_limit == 3 and torch.compiler.config.job_id == "mine"
    assert dynamo.config.recompile_limit == 8 and torch._inductor.config.triton.cudagraph_trees
    with pytest.raises(AttributeError):
        torch.compiler.config.nothing  # noqa: B018

    compiled = torch.compile(lambda x, n: x * n)
    compiled(torch.ones(2), 2)
    with dynamo.config.patch(error_on_recompile=True), pytest.raises(dynamo.exc.RecompileError):
        compiled(torch.ones(2), "a")


def test_a_tuple_keeps_its_attributes():
    class Pair(collections.namedtuple("Pair", "first second")): ...

    @torch.compile
    def paired(x):
        pair = Pair(x * 2, x + 1)
        pair.note = x * 3
        return pair

    for value in (1.0, 2.0, 3.0):
        assert paired(torch.tensor(value)).note.item() == 3 * value


def test_a_compiled_module_compiles_more_in_the_same_way():
    module = nn.Linear(2, 2)
    more = torch.compile(module, fullgraph=True).dynamo_ctx(lambda x: (dynamo.graph_break(), module(x))[1])
    with pytest.raises(dynamo.exc.Unsupported):
        more(torch.ones(1, 2))


def test_disabled_hooks_for_saved_tensors_decorate():
    @torch.autograd.graph.disable_saved_tensors_hooks("not here")
    def inside():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    with pytest.raises(RuntimeError, match="not here"):
        inside()
