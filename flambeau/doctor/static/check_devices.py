"""Reads where models and batches are moved."""

from __future__ import annotations

import ast

from .check_models import FACTORIES
from .loops import under_no_grad
from .source import Source, constant, keyword

_FREE = {
    "tensor",
    "ones",
    "zeros",
    "rand",
    "randn",
    "arange",
    "eye",
    "full",
    "linspace",
    "randint",
    "randperm",
    "empty",
} & set(FACTORIES)


def check(source: Source) -> None:
    _hard_coded(source)
    moved = _moved_models(source)
    if moved:
        _batches(source)
        _made_on_the_fly(source)


def _asks(source: Source) -> bool:
    """Whether the program asks what devices there are."""
    return any(
        isinstance(n, ast.Attribute)
        and n.attr in ("is_available", "device_count", "current_accelerator", "is_initialized")
        for n in ast.walk(source.tree)
    ) or any(isinstance(n, ast.keyword) and n.arg == "choices" for n in ast.walk(source.tree))


def _is_cuda(node: ast.AST | None) -> bool:
    value = constant(node)
    return isinstance(value, str) and value.startswith("cuda")


def _hard_coded(source: Source) -> None:
    if _asks(source):
        return
    for call in source.calls:
        method, name = source.method(call), source.name(call.func)
        if method == "cuda":
            source.find("hard-coded-cuda", call, ".cuda() fails where there is no GPU.")
        elif (method == "to" and call.args and _is_cuda(call.args[0])) or (
            name == "torch.device" and call.args and _is_cuda(call.args[0])
        ):
            if not any(isinstance(a, ast.IfExp) for a in source.ancestors(call)):
                source.find("hard-coded-cuda", call, "The device is always CUDA; this fails where there is no GPU.")
        elif (name == "torch.set_default_device" and call.args and _is_cuda(call.args[0])) or (
            name.startswith("torch") and _is_cuda(keyword(call, "device"))
        ):
            source.find("hard-coded-cuda", call, "The device is always CUDA; this fails where there is no GPU.")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and _is_cuda(node.value) and "device" in ast.unparse(node.targets[0]).lower():
            source.find("hard-coded-cuda", node, "The device is always CUDA; this fails where there is no GPU.", 0.85)


def _may_be_other(source: Source, node: ast.expr | None) -> bool:
    """Whether a device may be another one than the CPU."""
    if node is None:
        return False
    for value, _ in source.origins(node):
        texts = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        if any(t.startswith(("cuda", "mps", "xpu", "meta")) for t in texts) or "accelerator" in ast.unparse(value):
            return True
    return False


def _moved_models(source: Source) -> list[ast.Call]:
    return [
        c
        for c in source.calls
        if isinstance(c.func, ast.Attribute)
        and (
            (
                source.method(c) == "to"
                and (c.args or keyword(c, "device"))
                and _may_be_other(source, c.args[0] if c.args else keyword(c, "device"))
            )
            or source.method(c) == "cuda"
        )
        and source.is_model(c.func.value)
    ]


def _moves(source: Source, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (
        source.method(node) in ("to", "cuda", "type_as") or keyword(node, "device") is not None
    )


def _batches(source: Source) -> None:
    """Loop variables that go into the model (or its loss) without being moved."""
    for loop in [n for n in ast.walk(source.tree) if isinstance(n, ast.For)]:
        if not _over_loader(source, loop):
            continue
        names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        body = [n for statement in loop.body for n in ast.walk(statement)]
        moved = {n.id for c in body if _moves(source, c) for n in ast.walk(c) if isinstance(n, ast.Name)}
        stored = {n.id for n in body if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        stray = names - moved - stored
        if not stray or any(_opaque(source, c, names) for c in body if isinstance(c, ast.Call)):
            continue
        for call in body:
            if not isinstance(call, ast.Call):
                continue
            given = {a.id for a in call.args if isinstance(a, ast.Name)} & stray
            if not given:
                continue
            if source.is_model(call.func) or is_loss(source, call):
                name = sorted(given)[0]
                source.find("device-mismatch", call, f"The model was moved to a device, but `{name}` was not.", 0.85)
                break


def is_loss(source: Source, call: ast.Call) -> bool:
    names = [source.called(call), *(k.rpartition(".")[2] for k in source.kinds(call.func))]
    return any("loss" in n.lower() or "cross_entropy" in n for n in names)


def _opaque(source: Source, call: ast.Call, names: set[str]) -> bool:
    """Whether a function that we cannot look into gets the whole batch (it may move it)."""
    if not isinstance(call.func, ast.Name) or source.is_model(call.func) or is_loss(source, call):
        return False
    return call.func.id not in ("len", "print", "range", "enumerate", "zip", "float", "int") and any(
        isinstance(a, ast.Name) and a.id in names for a in call.args
    )


def _over_loader(source: Source, loop: ast.For) -> bool:
    """Whether a loop's variables are on the CPU: batches of a loader, or of a collection of tensors made there."""
    for n in ast.walk(loop.iter):
        if isinstance(n, (ast.Name, ast.Attribute, ast.Call)):
            if any("DataLoader" in kind for kind in source.kinds(n)):
                return True
            if (
                isinstance(n, (ast.Name, ast.Attribute))
                and "loader" in (n.id if isinstance(n, ast.Name) else n.attr).lower()
            ):
                return True
    made = [n for value, _ in source.origins(loop.iter) for n in ast.walk(value) if isinstance(n, ast.Call)]
    return any(source.called(n) in _FREE and not _placed(source, n) for n in made) and not any(
        _moves(source, n) for n in made
    )


def _made_on_the_fly(source: Source) -> None:
    """torch.zeros(…) without a device in forward or in a loop, used beside what was moved."""
    for owner in source.module_classes():
        for forward in [f for f in owner.body if isinstance(f, ast.FunctionDef) and f.name == "forward"]:
            for call in [n for n in ast.walk(forward) if isinstance(n, ast.Call)]:
                if source.called(call) in _FREE and not _placed(source, call) and not under_no_grad(source, call):
                    source.find("device-mismatch", call, "This tensor is made on the CPU, wherever the model is.", 0.75)
    for call in source.calls:
        if not source.loops(call) or not (source.is_model(call.func) or is_loss(source, call)):
            continue
        for argument in call.args:
            for value, index in source.origins(argument):
                if (
                    index is None
                    and isinstance(value, ast.Call)
                    and source.called(value) in _FREE
                    and not _placed(source, value)
                ):
                    if source.function(value) is source.function(call):
                        source.find(
                            "device-mismatch",
                            call,
                            "The model was moved to a device, but this input is made on the CPU.",
                            0.8,
                        )


def _placed(source: Source, call: ast.Call) -> bool:
    """Whether a new tensor is given a device: by its argument, or moved at once or later."""
    if keyword(call, "device") is not None:
        return True
    child: ast.AST = call
    for above in source.ancestors(call):
        if isinstance(above, ast.Call) and _moves(source, above):
            return True
        if (
            isinstance(above, ast.Call)
            and above is not call
            and child in above.args
            and source.called(above) in ("Size", "range")
        ):
            return True
        if isinstance(above, (ast.Assign, ast.AnnAssign)):
            key = source.key(above.targets[0] if isinstance(above, ast.Assign) else above.target)
            scope = source.function(call)
            return key is not None and any(
                _moves(source, n) and any(isinstance(m, ast.Name) and m.id == key[1] for m in ast.walk(n))
                for n in ast.walk(scope)
                if isinstance(n, ast.Call)
            )
        if isinstance(above, ast.stmt):
            return False
        child = above
    return False
