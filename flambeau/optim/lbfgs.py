"""L-BFGS: a quasi-Newton method that evaluates the loss itself, with an optional line search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .._autograd.modes import enable_grad, no_grad
from .._core.dtypes import COMPLEX
from .._core.state import SPARSE
from .._ops.registry import ops
from .._tensor import Tensor
from ._elementwise import check_tensor_lr
from .optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]


class _Point(NamedTuple):
    """A place on the search line: distance, loss, gradient and slope along the line."""

    t: Any
    loss: float
    gradient: Tensor
    slope: Any


def _cubic_minimum(a: _Point, b: _Point, bounds: Any = None) -> Any:
    """Where the cubic through two points with their slopes is least, within bounds (by default between them)."""
    if bounds is None:
        bounds = (a.t, b.t) if a.t <= b.t else (b.t, a.t)
    first, last = (a, b) if a.t <= b.t else (b, a)
    one = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    inside = one**2 - a.slope * b.slope
    if not inside >= 0:
        return (bounds[0] + bounds[1]) / 2.0
    two = inside.sqrt() if isinstance(inside, Tensor) else inside**0.5
    share = (last.slope + two - one) / (last.slope - first.slope + 2 * two)
    place = last.t - (last.t - first.t) * share
    return min(max(place, bounds[0]), bounds[1])


class _WolfeSearch:
    """Looks for a distance along a direction that satisfies the strong Wolfe conditions."""

    def __init__(
        self,
        evaluate: Callable[[Any], tuple[float, Tensor]],
        direction: Tensor,
        start: _Point,
        least: float,
        limit: int,
        sufficient: float,
        curvature: float,
    ):
        self.evaluate, self.direction, self.start = evaluate, direction, start
        self.sufficient, self.curvature = sufficient, curvature  # constants of the Wolfe conditions
        self.least = least  # brackets of smaller steps are not cut further
        self.limit = limit  # of trials after the first
        self.trials = 0

    def point(self, t: Any) -> _Point:
        loss, gradient = self.evaluate(t)
        self.trials += 1
        return _Point(t, loss, gradient, gradient.dot(self.direction))

    def too_high(self, p: _Point) -> bool:
        return bool(p.loss > self.start.loss + self.sufficient * p.t * self.start.slope)

    def flat(self, p: _Point) -> bool:
        return bool(abs(p.slope) <= -self.curvature * self.start.slope)

    def bracket(self, t: Any) -> list[_Point]:
        """Points around an acceptable one; a single point is acceptable itself."""
        previous, p = self.start, self.point(t)
        for number in range(self.limit):
            if self.too_high(p) or (number > 1 and p.loss >= previous.loss):
                return [previous, p]
            if self.flat(p):
                return [p]
            if p.slope >= 0:
                return [previous, p]
            bounds = p.t + 0.01 * (p.t - previous.t), p.t * 10
            previous, p = p, self.point(_cubic_minimum(previous, p, bounds))
        return [self.start, p]

    def run(self, t: Any) -> _Point:
        points = self.bracket(t)
        if len(points) == 1:
            return points[0]
        low, high = sorted(points, key=lambda p: p.loss)  # stable: of equals the first counts as lower
        a, b = points
        size, stuck = self.direction.abs().max(), False
        while self.trials <= self.limit:
            if abs(b.t - a.t) * size < self.least:
                break
            t, stuck = self._inside(a, b, stuck)
            p = self.point(t)
            if self.too_high(p) or p.loss >= low.loss:
                a, b = (p, b) if high is a else (a, p)
                low, high = (a, b) if a.loss <= b.loss else (b, a)
                continue
            if self.flat(p):
                return p
            if p.slope * (high.t - low.t) >= 0:
                a, b = (low, b) if high is a else (a, low)
                high = low
                # the old low point now stands where the high one was; the new low point takes the other place
                a, b = (p, b) if b is high else (a, p)
            else:
                a, b = (p, b) if low is a else (a, p)
            low = p
        return low

    @staticmethod
    def _inside(a: _Point, b: _Point, stuck: bool) -> tuple[Any, bool]:
        """The next distance between two points, kept away from the ends if the last one was close to one."""
        t = _cubic_minimum(a, b)
        least, most = (a.t, b.t) if a.t <= b.t else (b.t, a.t)
        margin = 0.1 * (most - least)
        if min(most - t, t - least) >= margin:
            return t, False
        if stuck or t >= most or t <= least:
            return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
        return t, True


def _cubic_interpolate(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None) -> Any:
    """Where the cubic with values `f` and slopes `g` at two places is least."""
    return _cubic_minimum(_Point(x1, f1, g1, g1), _Point(x2, f2, g2, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, Any, Tensor], tuple[Any, Tensor]], x: Any, t: Any, d: Tensor, f: Any, g: Tensor, gtd: Any,
    c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[Any, Tensor, Any, int]:  # fmt: skip
    """(loss, gradient, distance, evaluations) of a line search from `x` along `d`, beginning with the distance `t`."""
    start = _Point(0, f, g, gtd)
    search = _WolfeSearch(lambda t: obj_func(x, t, d), d, start, tolerance_change, max_ls, c1, c2)
    found = search.run(t)
    return found.loss, found.gradient, found.t, search.trials


def _number(loss: Any) -> float:
    return float(loss.detach() if isinstance(loss, Tensor) else loss)


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure, which it calls up to `max_eval` times.

    `line_search_fn` is None (steps of length `lr`) or "strong_wolfe". All parameters are one group.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([3.0]))
    >>> optimizer = torch.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((p - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure); p
    Parameter containing:
    tensor([1.], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # -- all parameters as one vector ------------------------------------------------------------------------------

    def _flat_gradient(self) -> Tensor:
        parts = []
        for p in self._params:
            g = p.grad
            if g is None:
                g = ops.zeros_like(p.detach())
            elif g._k & SPARSE:
                g = g.to_dense()
            parts.append((ops.view_as_real(g) if g.dtype.category == COMPLEX else g).reshape(-1))
        return ops.cat(parts, 0)

    def _move(self, direction: Tensor, t: Any) -> None:
        start = 0
        for p in self._params:
            real = ops.view_as_real(p) if p.dtype.category == COMPLEX else p
            count = real.numel()
            real.add_(direction[start : start + count].view_as(real), alpha=float(t))
            start += count

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[float, Tensor]:
        with enable_grad():
            loss = _number(closure())
        return loss, self._flat_gradient()

    # -- steps -----------------------------------------------------------------------------------------------------

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Makes up to `max_iter` iterations; the first loss is returned."""
        (group,) = self.param_groups
        max_iter, tolerance = group["max_iter"], group["tolerance_grad"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            original = closure()
        loss, gradient = _number(original), self._flat_gradient()
        evaluations = 1
        state["func_evals"] += 1
        if gradient.abs().max() <= tolerance:
            return original
        for number in range(1, max_iter + 1):
            state["n_iter"] += 1
            direction = self._direction(state, group, gradient)
            first = state["n_iter"] == 1
            t: Any = group["lr"].reshape(()) if isinstance(group["lr"], Tensor) else group["lr"]
            if first:
                t = min(1.0, 1.0 / gradient.abs().sum()) * t
            state.update(d=direction, t=t, prev_flat_grad=gradient.clone(), prev_loss=loss)
            slope, before = gradient.dot(direction), loss
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is not None:
                limit = group["max_eval"] - evaluations
                loss, gradient, t, calls = self._search(closure, group, t, direction, (loss, gradient, slope), limit)
                state["t"] = t
            else:
                self._move(direction, t)
                calls = int(number != max_iter)
                if calls:  # at the end nobody would look at the new gradient
                    loss, gradient = self._evaluate(closure)
            evaluations += calls
            state["func_evals"] += calls
            if number == max_iter or evaluations >= group["max_eval"] or gradient.abs().max() <= tolerance:
                break
            if (direction * t).abs().max() <= group["tolerance_change"] or abs(loss - before) < group[
                "tolerance_change"
            ]:
                break
        return original

    def _search(
        self, closure: Callable[[], Any], group: dict[str, Any], t: Any, direction: Tensor,
        start: tuple[float, Tensor, Any], limit: int,
    ) -> tuple[float, Tensor, Any, int]:  # fmt: skip
        """(loss, gradient, distance, evaluations) of a line search; the parameters are moved to the point found."""
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        origin = [p.clone() for p in self._params]

        def evaluate(origin: list[Tensor], t: Any, direction: Tensor) -> tuple[float, Tensor]:
            self._move(direction, t)
            found = self._evaluate(closure)
            for p, kept in zip(self._params, origin):
                p.copy_(kept)
            return found

        least = group["tolerance_change"]
        found = _strong_wolfe(evaluate, origin, t, direction, *start, tolerance_change=least, max_ls=limit)
        self._move(direction, found[2])
        return found

    def _direction(self, state: dict[str, Any], group: dict[str, Any], gradient: Tensor) -> Tensor:
        """Downhill, scaled by the curvature that the last steps have shown."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(changes) == group["history_size"]:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        weights = state.setdefault("al", [None] * group["history_size"])
        direction = -gradient
        for i in reversed(range(len(changes))):
            weights[i] = steps[i].dot(direction) * inverses[i]
            direction.add_(changes[i], alpha=-float(weights[i]))
        direction = direction * state["H_diag"]
        for i in range(len(changes)):
            direction.add_(steps[i], alpha=float(weights[i] - changes[i].dot(direction) * inverses[i]))
        return direction
