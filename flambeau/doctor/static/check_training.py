"""Reads training loops: zeroing, clipping, schedulers, accumulation, logging, updates by hand, mixed precision."""

from __future__ import annotations

import ast

from .check_devices import is_loss
from .loops import Loops, under_no_grad
from .source import Source, constant, keyword


def check(source: Source) -> None:
    loops = Loops(source)
    _zeroing(source, loops)
    _clipping(source, loops)
    _schedulers(source, loops)
    _accumulation(source, loops)
    _retained(source, loops)
    _logging(source, loops)
    _evaluation_logging(source, loops)
    _updates(source)
    _mixed_precision(source, loops)
    for call in source.calls:
        if source.name(call.func).endswith("optim.Adam") or source.name(call.func).endswith("optim.adam.Adam"):
            _decay(source, call)


def _decay(source: Source, call: ast.Call) -> None:
    given = keyword(call, "weight_decay", 4)
    groups = [
        v
        for a in call.args[:1]
        for n in ast.walk(a)
        if isinstance(n, ast.Dict)
        for k, v in zip(n.keys, n.values)
        if constant(k) == "weight_decay"
    ]
    if constant(keyword(call, "decoupled_weight_decay")) is True:
        return
    for value in [given, *groups]:
        if value is None:
            continue
        known = [constant(v, "unknown") for v, i in source.origins(value)]
        if any(isinstance(k, (int, float)) and k > 0 for k in known):
            source.find(
                "adam-weight-decay", call, "Adam is given weight_decay; it mixes the decay into the scaled gradient."
            )
            return


def _zeroing(source: Source, loops: Loops) -> None:
    if not loops.optimizer_steps and not loops.scaler_steps:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("zero_grad", "zero_"):
            return
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store):
            return
        if isinstance(node, ast.Call) and source.name(node.func) in ("torch.autograd.grad", "flambeau.autograd.grad"):
            return
    for call in loops.backwards:
        if loops.all_loops(call):
            source.find(
                "missing-zero-grad",
                call,
                "No gradient is ever set to zero: each backward adds to those of all steps before.",
                0.85,
            )


def _clipping(source: Source, loops: Loops) -> None:
    steps = [*loops.optimizer_steps, *loops.scaler_steps]
    for clip in loops.clips:
        around = source.loops(clip)
        place = around[0] if around else source.function(clip)
        function = source.function(clip)
        before = [
            (c.lineno, kind)
            for kind, calls in (("backward", loops.backwards), ("step", steps))
            for c in loops.inside(place, calls)
            if c.lineno < clip.lineno and source.function(c) is function and not source.apart(c, clip)
        ]
        after = [
            (c.lineno, kind)
            for kind, calls in (("backward", loops.backwards), ("step", steps))
            for c in loops.inside(place, calls)
            if c.lineno > clip.lineno and source.function(c) is function and not source.apart(c, clip)
        ]
        last = max(before)[1] if before else None
        following = min(after)[1] if after else None
        if last == "step" and following != "step":
            source.find("clipping-order", clip, "The gradients are clipped after the step that used them.")
        elif last is None and following == "backward":
            source.find("clipping-order", clip, "The gradients are clipped before backward computes them.")
        elif last == "backward" and _scaled(source, loops, place, clip) and not _unscaled(source, place, clip):
            source.find(
                "clipping-order",
                clip,
                "The gradients are clipped while they are still multiplied by the scale (no unscale_ before).",
            )


def _scaled(source: Source, loops: Loops, place: ast.AST, clip: ast.Call) -> bool:
    return any(
        isinstance(c.func, ast.Attribute)
        and source.method(c.func.value) == "scale"
        and loops.is_kind(c.func.value.func.value, "GradScaler")
        for c in loops.inside(place, loops.backwards)
        if not source.apart(c, clip)
    )


def _unscaled(source: Source, place: ast.AST, clip: ast.Call) -> bool:
    return any(
        isinstance(n, ast.Call) and source.method(n) == "unscale_" and n.lineno <= clip.lineno for n in ast.walk(place)
    )


def _schedulers(source: Source, loops: Loops) -> None:
    for call in source.calls:
        name = source.name(call.func)
        if "lr_scheduler" in name and keyword(call, "verbose") is not None:
            source.find("plateau-without-metric", call, f"{name.rpartition('.')[2]} no longer takes `verbose`.")
    for call in loops.scheduler_steps:
        receiver = call.func.value
        kinds = {kind.rpartition(".")[2] for kind in source.kinds(receiver)}
        if kinds == {"ReduceLROnPlateau"} and not call.args and not call.keywords:
            source.find(
                "plateau-without-metric",
                call,
                "ReduceLROnPlateau.step() is called without the metric that it watches.",
                0.95,
            )
        if len(kinds) == 1:
            made = next((v for v, i in source.origins(receiver) if isinstance(v, ast.Call)), None)
            if made is not None:
                _cadence(source, loops, call, kinds.pop(), made)


def _cadence(source: Source, loops: Loops, call: ast.Call, kind: str, made: ast.Call) -> None:
    around = loops.all_loops(call)
    if not around:
        return
    inner = around[0]
    per_batch = loops.trains(inner)
    per_epoch = not per_batch and loops.over_epochs(inner)
    outer = next((l for l in around[1:] if isinstance(l, (ast.For, ast.While))), None)
    if kind == "OneCycleLR" and per_epoch:
        total = keyword(made, "total_steps", 2)
        same = total is not None and isinstance(inner, ast.For) and _same_count(source, total, inner)
        if not same:
            source.find("scheduler-cadence", call, "OneCycleLR counts batches, but it is stepped once per epoch.")
    if not per_batch or outer is None:
        return
    if kind == "StepLR":
        size = _number(source, keyword(made, "step_size", 1))
        slow = size is not None and size <= 100
    elif kind == "MultiStepLR":
        given = keyword(made, "milestones", 1)
        slow = isinstance(given, (ast.List, ast.Tuple)) and any((_number(source, e) or 1e9) <= 200 for e in given.elts)
    elif kind == "ExponentialLR":
        gamma = _number(source, keyword(made, "gamma", 1))
        slow = gamma is not None and gamma < 0.99
    elif kind == "CosineAnnealingLR":
        given = keyword(made, "T_max", 1)
        slow = given is not None and isinstance(outer, ast.For) and _same_count(source, given, outer)
    else:
        slow = False
    if slow:
        source.find("scheduler-cadence", call, f"{kind} counts epochs, but it is stepped after every batch.")


def _number(source: Source, node: ast.expr | None) -> float | None:
    known = [constant(v) for v, i in source.origins(node)]
    return known[0] if len(known) == 1 and isinstance(known[0], (int, float)) else None


def _same_count(source: Source, count: ast.expr, loop: ast.For) -> bool:
    """Whether a loop runs as many times as an expression says."""
    if not (
        isinstance(loop.iter, ast.Call)
        and isinstance(loop.iter.func, ast.Name)
        and loop.iter.func.id == "range"
        and loop.iter.args
    ):
        return False
    upper = loop.iter.args[min(1, len(loop.iter.args) - 1)]
    if ast.dump(upper) == ast.dump(count):
        return True
    first, second = _number(source, upper), _number(source, count)
    return first is not None and first == second


def _accumulation(source: Source, loops: Loops) -> None:
    """Steps under `if (i + 1) % k == 0` in the loop that calls backward every time, with a loss that is not divided."""
    for call in loops.backwards:
        around = source.loops(call)
        if not around or not isinstance(call.func, ast.Attribute) or _counted(source, call, around[0]):
            continue
        steps = [
            c
            for c in loops.inside(around[0], [*loops.optimizer_steps, *loops.scaler_steps])
            if source.loops(c)[:1] == around[:1]
        ]
        if steps and all(_counted(source, c, around[0]) for c in steps) and not _divided(source, call, around[0]):
            source.find(
                "undivided-accumulation",
                call,
                "Gradients of several batches are added up, but the loss is not divided by their number.",
                0.85,
            )


def _counted(source: Source, node: ast.AST, loop: ast.AST) -> bool:
    for above in source.ancestors(node):
        if above is loop:
            return False
        if isinstance(above, ast.If) and any(
            isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(above.test)
        ):
            return not any(
                constant(n.right) == 1
                for n in ast.walk(above.test)
                if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)
            )
    return False


def _differentiated(call: ast.Call) -> list[ast.expr]:
    """What a call of `backward` differentiates: of `loss.backward()` the loss, of `accelerator.backward(loss)` its argument."""
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [*own, *call.args[:1]]


def _divided(source: Source, call: ast.Call, loop: ast.AST) -> bool:
    """Whether the loss (or the gradients) are scaled anywhere in the loop."""
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Div, ast.Mult)):
            return True
        if isinstance(node, ast.Call) and source.method(node) in ("div_", "mul_", "div", "mul", "true_divide"):
            return True
        if isinstance(node, ast.keyword) and node.arg == "reduction" and constant(node.value) == "sum":
            return True
    names = _differentiated(call)
    seen = 0
    while names and seen < 10:
        node = names.pop()
        seen += 1
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Div, ast.Mult)) for n in ast.walk(node)):
            return True
        for n in ast.walk(node):
            if isinstance(n, ast.Name):
                names.extend(v for v, i in source.origins(n) if v is not n)
                if isinstance(n.ctx, ast.Load) and n.id in source.functions:
                    names.extend(r for f in source.functions[n.id] for r in source.returns(f))
    return False


def _retained(source: Source, loops: Loops) -> None:
    """retain_graph=True in a loop in which nothing else goes through the graph."""
    for call in loops.backwards:
        if constant(keyword(call, "retain_graph")) is not True or constant(keyword(call, "create_graph")) is True:
            continue
        around = loops.all_loops(call)
        place = around[0] if around else source.function(call)
        others = [c for c in loops.inside(place, loops.backwards) if c is not call]
        grads = [
            n for n in ast.walk(place) if isinstance(n, ast.Call) and source.name(n.func).endswith("autograd.grad")
        ]
        if around and not others and not grads:
            source.find(
                "backward-twice", call, "retain_graph=True keeps the graph although nothing goes through it again.", 0.8
            )


def _logging(source: Source, loops: Loops) -> None:
    """`total += loss`, `losses.append(loss)` for a loss on which backward is called in the same loop."""
    for call in loops.backwards:
        around = source.loops(call)
        if not around or not isinstance(call.func, ast.Attribute):
            continue
        parts = [n for value in _differentiated(call) for n in ast.walk(value)]
        losses = {n.id for n in parts if isinstance(n, ast.Name)} | {
            n.attr for n in parts if isinstance(n, ast.Attribute)
        }
        outer = around[-1]
        for node in ast.walk(outer):
            kept, where = _kept(source, node)
            if kept is None or not _carries(kept, losses) or source.function(node) is not source.function(call):
                continue
            if where and (where in losses or _used_in_backward(source, loops, where, outer)):
                continue
            if under_no_grad(source, node) or _of_another_loop(source, node, losses, around):
                continue
            if where and _set_anew(source, where, around[0]):
                continue
            source.find(
                "graph-kept-by-logging", node, "The loss is kept together with its graph; take loss.item().", 0.9
            )


def _of_another_loop(source: Source, node: ast.AST, losses: set[str], around: list[ast.AST]) -> bool:
    """Whether a loss of this name is computed anew in a loop beside the one that calls backward, as in an evaluation."""
    inner = source.loops(node)[:1]
    return bool(inner) and inner[0] not in around and any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in losses for n in ast.walk(inner[0])
    )  # fmt: skip


def _evaluation_logging(source: Source, loops: Loops) -> None:
    """`total += criterion(model(x), y)` in a loop that computes no gradients, outside of no_grad."""
    for node in ast.walk(source.tree):
        kept, where = _kept(source, node)
        if kept is None or not where or not source.loops(node) or isinstance(node, ast.Call):
            continue
        losses = [kept, *(v for v, i in source.origins(kept) if isinstance(kept, ast.Name))]
        if not any(isinstance(v, ast.Call) and is_loss(source, v) for v in losses) or under_no_grad(source, node):
            continue
        function = source.function(node)
        returned = isinstance(function, ast.FunctionDef) and any(
            _named(n) == where for r in source.returns(function) for n in [r, *getattr(r, "elts", ())]
        )
        switched = "set_grad_enabled" in source.text or "inference_mode" in source.text
        guarded = isinstance(function, ast.FunctionDef) and any(
            under_no_grad(source, c) for c in loops.calls_of(function)
        )
        summed = loops.inside(source.loops(node)[-1], loops.backwards)
        if not (returned or guarded or switched or summed or _used_in_backward(source, loops, where, source.tree)):
            source.find(
                "graph-kept-by-logging", node, "The loss is kept together with its graph; take loss.item().", 0.75
            )


def _kept(source: Source, node: ast.AST) -> tuple[ast.expr | None, str]:
    """The expression that a statement keeps, and the name that keeps it."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.value, _named(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        name = _named(node.targets[0])
        if name and _named(node.value.left) == name:
            return node.value.right, name
        if name and _named(node.value.right) == name:
            return node.value.left, name
    if isinstance(node, ast.Call) and source.method(node) == "append" and node.args:
        return node.args[0], _named(node.func.value)
    return _kept_by_method(source, node)


def _kept_by_method(source: Source, node: ast.AST) -> tuple[ast.expr | None, str]:
    """The same for a call of a method of this file that adds its argument to an attribute (a meter)."""
    for method in source.functions.get(source.method(node), ()):
        given = zip((a.arg for a in method.args.args[1:]), node.args, strict=False)
        inside = [n for n in ast.walk(method) if isinstance(n, (ast.AugAssign, ast.Assign))]
        inside += [n for n in ast.walk(method) if isinstance(n, ast.Call) and source.method(n) == "append"]
        for parameter, argument in given:
            for inner in inside:
                kept, where = _kept(source, inner)
                owned = kept is not None and f"self.{where}" in ast.unparse(inner)
                if owned and _carries(kept, {parameter}) and not under_no_grad(source, inner):
                    return argument, where
    return None, ""


def _named(node: ast.AST) -> str:
    if isinstance(node, ast.Subscript):
        return _named(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _carries(node: ast.expr, losses: set[str]) -> bool:
    """Whether an expression is a loss itself, perhaps scaled, in a tuple or a dict."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(node) in losses and (
            isinstance(node, ast.Name) or (isinstance(node.value, ast.Name) and node.value.id == "self")
        )
    if isinstance(node, ast.BinOp):
        return _carries(node.left, losses) or _carries(node.right, losses)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_carries(e, losses) for e in node.elts)
    if isinstance(node, ast.Dict):
        return any(_carries(v, losses) for v in node.values)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("mean", "sum", "clone", "cpu")
    ):
        return _carries(node.func.value, losses)
    return False


def _used_in_backward(source: Source, loops: Loops, name: str, place: ast.AST) -> bool:
    """Whether what was gathered is itself differentiated."""
    for call in loops.backwards:
        reached = _differentiated(call) if isinstance(call.func, ast.Attribute) else list(call.args)
        for node in reached:
            for n in ast.walk(node):
                if _named(n) == name:
                    return True
                if isinstance(n, ast.Name) and any(
                    _named(m) == name for v, i in source.origins(n) if v is not n for m in ast.walk(v)
                ):
                    return True
    return False


def _set_anew(source: Source, name: str, loop: ast.AST) -> bool:
    """Whether a name starts anew in every turn of the loop."""
    return any(
        isinstance(n, ast.Assign)
        and any(_named(t) == name for t in n.targets)
        and not any(_named(m) == name for m in ast.walk(n.value))
        for n in ast.walk(loop)
    )


def _updates(source: Source) -> None:
    """`w -= lr * w.grad` outside of no_grad; `w = w - lr * w.grad`, which makes w no leaf any more."""
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, (ast.Sub, ast.Add))
            and isinstance(node.target, (ast.Name, ast.Attribute, ast.Subscript))
        ):
            if (
                _reads_grad(node.value)
                and not _data(node.target)
                and _grad_of(node.value, node.target)
                and not under_no_grad(source, node)
            ):
                source.find(
                    "leaf-update-without-no-grad",
                    node,
                    f"{ast.unparse(node.target)} is updated in place while autograd records.",
                )
        elif (
            isinstance(node, ast.Call)
            and source.method(node) in ("sub_", "add_")
            and node.args
            and _reads_grad(node.args[0])
        ):
            target = node.func.value
            if not _data(target) and _grad_of(node.args[0], target) and not under_no_grad(source, node):
                source.find(
                    "leaf-update-without-no-grad",
                    node,
                    f"{ast.unparse(target)} is updated in place while autograd records.",
                )
        elif (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.value, ast.BinOp)
            and isinstance(node.value.op, (ast.Sub, ast.Add))
        ):
            target = node.targets[0]
            same = ast.unparse(target) == ast.unparse(node.value.left)
            if same and _reads_grad(node.value.right) and _grad_of(node.value.right, target) and source.loops(node):
                if not _made_leaf(source, target, source.loops(node)[-1]):
                    source.find(
                        "non-leaf-weights",
                        node,
                        f"{ast.unparse(target)} is rebuilt by an operation: it is no leaf any more and its .grad stays None.",
                    )


def _reads_grad(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(node))


def _grad_of(value: ast.AST, target: ast.AST) -> bool:
    text = ast.unparse(target)
    return any(
        isinstance(n, ast.Attribute) and n.attr == "grad" and ast.unparse(n.value) == text for n in ast.walk(value)
    )


def _data(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("data", "grad") for n in ast.walk(node))


def _made_leaf(source: Source, target: ast.AST, place: ast.AST) -> bool:
    text = ast.unparse(target)
    for n in ast.walk(place):
        if isinstance(n, ast.Call) and source.method(n) in ("requires_grad_", "detach", "detach_", "retain_grad"):
            return True
        if (
            isinstance(n, ast.Assign)
            and isinstance(n.targets[0], ast.Attribute)
            and n.targets[0].attr == "requires_grad"
        ):
            return ast.unparse(n.targets[0].value) == text
    return False


def _mixed_precision(source: Source, loops: Loops) -> None:
    if not loops.backwards:
        return
    casts = [(c, _autocast_dtype(source, c)) for c in source.calls if source.called(c) == "autocast"]
    scalers = [c for c in source.calls if source.called(c) == "GradScaler"]
    used = [s for s in scalers if constant(keyword(s, "enabled")) is not False]
    if not any(isinstance(n, ast.Attribute) and n.attr == "scale" for n in ast.walk(source.tree)):
        used = [s for s in used if False]
    for call, dtype in casts:
        if (
            dtype == "float16"
            and not used
            and not scalers
            and not under_no_grad(source, call)
            and _trains_under(source, loops, call)
        ):
            source.find(
                "fp16-without-scaler",
                call,
                "The loss is computed in float16 but never scaled: small gradients become zero.",
            )
    if scalers and casts and {dtype for _, dtype in casts} == {"bfloat16"}:
        for scaler in scalers:
            if keyword(scaler, "enabled") is None or constant(keyword(scaler, "enabled")) is True:
                source.find(
                    "fp16-without-scaler", scaler, "A GradScaler is used with bfloat16, which needs none.", 0.85
                )


def _trains_under(source: Source, loops: Loops, call: ast.Call) -> bool:
    """Whether the function (or the loop) with this autocast also calls backward, or is called by one that does."""
    function = source.function(call)
    return any(source.function(b) is function for b in loops.backwards) or (
        isinstance(function, ast.FunctionDef) and any(True for _ in loops.calls_of(function))
    )


def _autocast_dtype(source: Source, call: ast.Call) -> str:
    """The dtype that an autocast computes in; "" where that is unknown."""
    name = source.name(call.func)
    by_device = "cuda.amp" in name
    given = keyword(call, "dtype", 1)
    if given is not None:
        names = {source.torch(v) for v, i in source.origins(given)}
        dtype = names.pop() if len(names) == 1 else ""
        return {"half": "float16"}.get(dtype, dtype)
    if by_device:
        return "float16"
    kind = keyword(call, "device_type", 0)
    device = [constant(v) for v, i in source.origins(kind)]
    return {"cuda": "float16", "cpu": "bfloat16"}.get(str(device[0]) if len(device) == 1 else "", "")
