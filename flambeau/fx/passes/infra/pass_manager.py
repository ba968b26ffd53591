"""`PassManager`: passes over a graph module, one after the other, in an order that constraints allow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ....nn.modules.module import Module
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass) -> Pass:
    """A pass that gives a `PassResult`, for one that changes the module and gives nothing (or another module)."""
    if fn is None:
        return None

    @wraps(fn, assigned=())
    def wrapped(gm: GraphModule) -> Any:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        return PassResult(result if isinstance(result, GraphModule) else gm, True)

    wrapped.__name__ = fn.__name__ if inspect.isfunction(fn) else str(type(fn))
    return wrapped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that one pass comes before another."""
    return lambda a, b: not (a == that and b == this)


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for i, first in enumerate(passes):
        for j, second in enumerate(passes[i + 1 :], i + 1):
            if not constraint(first, second):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {first} before {second} but found {first} at index "
                    f"{i} and {second} at index{j} in pass list."
                )


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes in an order that the constraints allow."""
    if not constraints:
        return passes
    after: dict[int, list[int]] = {i: [] for i in range(len(passes))}
    missing = dict.fromkeys(after, 0)
    for i, first in enumerate(passes):
        for j, second in enumerate(passes):
            if i != j and not all(allows(second, first) for allows in constraints):
                after[i].append(j)  # the second may not come before the first
                missing[j] += 1
    ready = [i for i, count in missing.items() if not count]
    order = []
    while ready:
        i = ready.pop(0)
        order.append(i)
        for j in after[i]:
            missing[j] -= 1
            if not missing[j]:
                ready.append(j)
    if len(order) != len(passes):
        late = [passes[i] for i in after if i not in order]
        raise RuntimeError(f"Circular dependency detected within the following passes: {late}")
    return [passes[i] for i in order]


class PassManager:
    """Runs passes over a graph module, `steps` times or until none of them changes anything.

    Checks are functions of the module that raise. They run at the end, or after each pass.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
    >>> def tanh_for_relu(module):
    ...     for node in module.graph.find_nodes(op="call_function", target=torch.relu):
    ...         node.target = torch.tanh
    >>> manager = PassManager([pass_result_wrapper(tanh_for_relu)])
    >>> manager(torch.fx.symbolic_trace(lambda x: torch.relu(x))).graph_module(torch.zeros(1))
    tensor([0.])
    """

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Pass] = list(passes or ())
        self.constraints: list[Constraint] = list(constraints or ())
        self.steps = steps or 1
        self.checks: list[Callable[[Module], Any]] = []
        self._validated = False
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint: whether one pass may come before another."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises if the passes are in an order that a constraint forbids."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def solve_constraints(self) -> None:
        """Puts the passes into an order that the constraints allow."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], Any]) -> None:
        """Adds a function of the module that raises if something is wrong."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.checks.append(check)

    def check(self, module: Module) -> None:
        """Runs the checks."""
        for check in self.checks:
            check(module)

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self._checked(module)
        changed = False
        for _ in range(self.steps):
            changed_now = False
            for i, fn in enumerate(self.passes):
                name = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
                before = [p.__name__ if inspect.isfunction(p) else type(p).__name__ for p in self.passes[:i]]
                try:
                    result = fn(module)
                except Exception as error:
                    raise type(error)(
                        f"An error occurred when running the '{name}' pass after the following passes: {before}"
                    ) from error
                if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                    raise TypeError(
                        f"The result of the pass {name} should be type PassResult. Please wrap it with pass_result_wrapper()"
                    )
                module, changed_now = result.graph_module, changed_now or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self._checked(module)
            changed = changed or changed_now
            if not changed_now:
                break
        self._checked(module)
        return PassResult(module, changed)  # type: ignore[arg-type]

    def _checked(self, module: Module) -> None:
        if not self.suppress_check_failures:
            self.check(module)
