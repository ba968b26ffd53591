"""What the parts of a training loop are: loops, calls of backward, steps of optimizers and schedulers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source import Source

CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")


class Loops:
    """Training loops of a file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.backwards = [c for c in source.calls if source.method(c) == "backward" or _is_backward(source, c)]
        steps = [c for c in source.calls if source.method(c) == "step"]
        self.scheduler_steps = [c for c in steps if self.is_kind(c.func.value, "lr_scheduler")]
        self.scaler_steps = [
            c for c in steps if self.is_kind(c.func.value, "GradScaler") or (c.args and self.is_optimizer(c.args[0]))
        ]
        others = {id(c) for c in (*self.scheduler_steps, *self.scaler_steps)}
        self.optimizer_steps = [c for c in steps if id(c) not in others and self.is_optimizer(c.func.value)]
        self.clips = [c for c in source.calls if source.called(c) in CLIPPING]

    def is_kind(self, node: ast.expr, word: str) -> bool:
        return any(word in kind for kind in self.source.kinds(node))

    def is_optimizer(self, node: ast.expr) -> bool:
        """Whether a value is an optimizer: by where it was made, or by its name where that is unknown."""
        kinds = self.source.kinds(node)
        if kinds:
            return any(".optim" in kind and "lr_scheduler" not in kind for kind in kinds)
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return "opt" in name.lower()

    def all_loops(self, node: ast.AST, depth: int = 0) -> list[ast.AST]:
        """Loops around a node, those around calls of its function included, the innermost first."""
        found: list[ast.AST] = list(self.source.loops(node))
        function = self.source.function(node)
        if isinstance(function, ast.FunctionDef) and depth < 3:
            for call in self.calls_of(function):
                outer = self.all_loops(call, depth + 1)
                if outer:
                    return [*found, *outer]
        return found

    def calls_of(self, function: ast.FunctionDef) -> Iterator[ast.Call]:
        for call in self.source.calls:
            func = call.func
            name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
            if name == function.name and self.source.function(call) is not function:
                yield call

    def inside(self, node: ast.AST, calls: list[ast.Call]) -> list[ast.Call]:
        """Those of some calls that stand inside of a node."""
        within = {id(n) for n in ast.walk(node)}
        return [c for c in calls if id(c) in within]

    def trains(self, loop: ast.AST) -> bool:
        """Whether a loop is over batches: it calls backward itself, not in a loop inside of it."""
        return any(self.source.loops(c)[:1] == [loop] for c in self.inside(loop, self.backwards)) or any(
            self.source.loops(c)[:1] == [loop] and self.runs_backward(c)
            for c in ast.walk(loop)
            if isinstance(c, ast.Call)
        )

    def runs_backward(self, call: ast.Call) -> bool:
        """Whether a call is of a function of this file that calls backward without a loop of its own."""
        func = call.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        return any(
            self.source.function(b) is f and not self.source.loops(b)
            for f in self.source.functions.get(name, ())
            for b in self.backwards
        )

    def over_epochs(self, loop: ast.AST) -> bool:
        """Whether a loop is over epochs: a loop over batches runs inside of it, perhaps in a function that it calls."""
        for node in ast.walk(loop):
            if node is not loop and isinstance(node, (ast.For, ast.While)) and self.trains(node):
                return True
            if isinstance(node, ast.Call):
                func = node.func
                name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
                for function in self.source.functions.get(name, ()):
                    if any(self.trains(n) for n in ast.walk(function) if isinstance(n, (ast.For, ast.While))):
                        return True
        return False


def _is_backward(source: Source, call: ast.Call) -> bool:
    return source.name(call.func) in ("torch.autograd.backward", "flambeau.autograd.backward")


def under_no_grad(source: Source, node: ast.AST) -> bool:
    """Whether a node runs under no_grad, as its surroundings in the file show."""
    for above in source.ancestors(node):
        if isinstance(above, (ast.With, ast.AsyncWith)):
            for item in above.items:
                called = source.called(item.context_expr)
                if called in ("no_grad", "inference_mode") or (called == "set_grad_enabled"):
                    return True
        if isinstance(above, ast.FunctionDef):
            for decorator in above.decorator_list:
                plain = decorator.func if isinstance(decorator, ast.Call) else decorator
                if source.torch(plain) in ("no_grad", "inference_mode"):
                    return True
            return False
    return False
