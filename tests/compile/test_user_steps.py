"""Programs that change something before Python takes a step of theirs (an optimizer's, a hook's, a schedule's), or call what is not followed.
Compiled results are the eager ones."""

import functools
import itertools

import numpy as np
import pytest
from user_programs import Programs, compare, x

import flambeau as torch
from flambeau import nn

PROGRAMS = Programs()
program = PROGRAMS.program


def _left(wrap, change, undo, hook=None, schedule=None):
    """A step that changes something before its optimizer or schedule looks at it; `undo` changes it back between calls."""
    p = nn.Parameter(torch.ones(3))
    o = torch.optim.SGD([p], lr=0.1)
    if hook is not None:
        o.register_step_pre_hook(hook)
    schedules = [] if schedule is None else [torch.optim.lr_scheduler.LambdaLR(o, schedule)]

    @wrap
    def step(t):
        o.zero_grad()
        (p * t).sum().backward()
        change(o, t)
        o.step()
        for one in schedules:
            one.step()
        return p.sum()

    for i in range(6):
        undo(o)
        yield step(x(3) * i), p.detach().clone(), torch.tensor(o.param_groups[0]["lr"])


@program
def lr_set_by_the_step(wrap):
    change = lambda o, t: o.param_groups[0].update(lr=0.5)
    yield from _left(wrap, change, lambda o: o.param_groups[0].update(lr=0.25))


@program
def flag_of_a_group_set_by_the_step(wrap):
    change = lambda o, t: o.param_groups[0].__setitem__("maximize", True)
    yield from _left(wrap, change, lambda o: o.param_groups[0].update(maximize=False))


_FACTOR = torch.ones(3)


@program
def global_of_a_hook_set_by_the_step(wrap):
    def hook(o, args, named):
        o.param_groups[0]["params"][0].grad.mul_(_FACTOR)

    def change(o, t):
        global _FACTOR
        _FACTOR = t + 1

    yield from _left(wrap, change, lambda o: None, hook)


@program
def text_of_a_hook_set_by_the_step(wrap):
    class State:
        kind = "usual"

    def hook(o, args, named):
        o.param_groups[0]["params"][0].grad.mul_(1 if State.kind == "usual" and state.kind == "usual" else 3)

    state = State()
    yield from _left(
        wrap, lambda o, t: setattr(state, "kind", "other"), lambda o: setattr(state, "kind", "usual"), hook
    )
    state.kind = "usual"
    yield from _left(
        wrap, lambda o, t: setattr(State, "kind", "other"), lambda o: setattr(State, "kind", "usual"), hook
    )


@program
def state_of_a_hook_of_all_optimizers_set_by_the_step(wrap):
    state = {"factor": 1.0}

    def hook(o, args, named):
        o.param_groups[0]["params"][0].grad.mul_(state["factor"])

    handle = torch.optim.optimizer.register_optimizer_step_pre_hook(hook)
    try:
        yield from _left(wrap, lambda o, t: state.update(factor=3.0), lambda o: state.update(factor=1.0))
    finally:
        handle.remove()


@program
def variable_of_a_schedule_set_by_the_step(wrap):
    factor = 1.0

    def put(value):
        nonlocal factor
        factor = value

    yield from _left(wrap, lambda o, t: put(0.25), lambda o: put(1.0), None, lambda epoch: factor / (epoch + 1))


@program
def closures_of_optimizers(wrap):
    p = nn.Parameter(torch.ones(3))
    o = torch.optim.LBFGS([p], lr=0.1)
    held = {}

    def loss_of(t):
        o.zero_grad()
        loss = (p * t - 2).square().sum()
        loss.backward()
        return loss

    class Trainer:
        def closure(self):
            return loss_of(self.t)

        def step(self, t):
            self.t = t * 2
            return o.step(self.closure)

    def by_dict(t):
        held["t"] = t
        return o.step(known)

    known = lambda: loss_of(held["t"])
    steps = (
        Trainer().step,
        by_dict,
        lambda t: o.step(lambda: loss_of(t)),
        lambda t: o.step(functools.partial(loss_of, t)),
    )
    for step in map(wrap, steps):
        for i in range(4):
            yield step(x(3) * i), p.detach().clone()


@program
def state_of_functions_that_are_not_followed(wrap):
    state = {"factor": 1.0}

    @torch.compiler.disable
    def outside(t):
        return t * state["factor"]

    def by_numpy(t):
        return torch.from_numpy(t.numpy() * np.float32(state["factor"]))

    branch = lambda t: torch.cond(t.sum() > 0, lambda u: u * state["factor"], lambda u: u - 1, (t,))
    operator = torch.library.custom_op(
        f"test_user_steps::op{next(_count)}", mutates_args=(), schema="(Tensor t) -> Tensor"
    )(by_numpy)
    operator.register_fake(torch.empty_like)
    for function in (outside, branch, operator):

        def f(t, function=function):
            state["factor"] = 3.0
            return function(t * 2) + 1

        g = wrap(f)
        for i in range(4):
            state["factor"] = 1.0
            yield g(x() + i)


_count = itertools.count()


@program
def overridable_function_of_the_program(wrap):
    state = {"factor": 1.0}

    @torch.overrides.wrap_torch_function(lambda t: (t,))
    def scaled(t):
        return t * state["factor"]

    f = wrap(lambda t: scaled(t) + 1)
    for i in range(4):
        state["factor"] = float(i // 2)
        yield f(x())


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_do_what_they_do_eagerly(name):
    compare(PROGRAMS[name])
