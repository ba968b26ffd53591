"""Reads how tensors are made, viewed and shared with NumPy."""

from __future__ import annotations

import ast

from .source import Source, constant

_STRIDED = ("transpose", "permute", "t", "swapaxes", "movedim", "moveaxis", "swapdims")
_TYPED = ("Tensor", "FloatTensor", "LongTensor", "IntTensor", "DoubleTensor", "HalfTensor")
_FILLS = ("uniform_", "normal_", "fill_", "zero_", "copy_", "random_", "bernoulli_", "exponential_", "resize_")


def check(source: Source) -> None:
    for call in source.calls:
        name = source.called(call) or source.method(call)
        if name == "as_strided":
            source.find("as-strided-for-windows", call, "Windows are cut by hand with as_strided.", 0.8)
        elif source.called(call) in _TYPED:
            _constructor(source, call)
        elif source.method(call) == "view":
            _view(source, call)
    _shared(source)


def _constructor(source: Source, call: ast.Call) -> None:
    if len(call.args) != 1 or call.keywords:
        return
    known = [constant(v) for v, i in source.origins(call.args[0])]
    if not known or not all(isinstance(k, (int, float)) and not isinstance(k, bool) for k in known):
        return
    for above in source.ancestors(call):
        if isinstance(above, ast.Call) and (source.called(above) == "Parameter" or source.method(above) in _FILLS):
            return
        if isinstance(above, ast.Assign):
            name = ast.unparse(above.targets[0])
            scope = source.class_of(call) or source.function(call)
            for n in ast.walk(scope):
                if isinstance(n, ast.Call) and source.method(n) in _FILLS and ast.unparse(n.func.value) == name:
                    return
                if (
                    isinstance(n, ast.Call)
                    and ".init." in source.name(n.func)
                    and n.args
                    and ast.unparse(n.args[0]) == name
                ):
                    return
                if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == name:
                    return
            break
        if isinstance(above, ast.stmt):
            break
    source.find(
        "uninitialised-tensor-constructor",
        call,
        f"{ast.unparse(call)} makes elements that are not initialised; it does not hold that value.",
        0.9,
    )


def _view(source: Source, call: ast.Call) -> None:
    receiver = call.func.value
    for value, _ in source.origins(receiver):
        if (isinstance(value, ast.Call) and (source.method(value) in _STRIDED or source.called(value) in _STRIDED)) or (
            isinstance(value, ast.Attribute) and value.attr in ("T", "mT", "H")
        ):
            source.find(
                "view-after-transpose",
                call,
                "view on a tensor that was transposed: its elements do not lie in order.",
                0.6,
            )


def _shared(source: Source) -> None:
    """`x = torch.from_numpy(a)`, then `a[…] = …` while x is used."""
    for call in source.calls:
        if (
            source.called(call) not in ("from_numpy", "as_tensor")
            or not call.args
            or not isinstance(call.args[0], (ast.Name, ast.Attribute))
        ):
            continue
        if source.called(call) == "as_tensor" and not _is_array(source, call.args[0]):
            continue
        _kept_each_round(source, call)
        statement = source.parents.get(call)
        if not isinstance(statement, ast.Assign):
            continue
        array = ast.unparse(call.args[0])
        tensor = ast.unparse(statement.targets[0])
        scope = source.function(call)
        rebound = [
            n.lineno
            for n in ast.walk(scope)
            if isinstance(n, ast.Assign) and any(ast.unparse(t) == array for t in n.targets)
        ]
        for node in ast.walk(scope):
            line = getattr(node, "lineno", 0)
            if not _writes(source, node, array) or line <= call.lineno:
                continue
            if any(call.lineno < r < line for r in rebound):
                continue
            if any(
                isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == tensor and n.lineno > line
                for n in ast.walk(scope)
            ):
                source.find(
                    "shared-array-changed",
                    node,
                    f"`{array}` is changed, and with it `{tensor}`, which shares its memory.",
                    0.85,
                )


def _kept_each_round(source: Source, call: ast.Call) -> None:
    """A loop that keeps `torch.from_numpy(a)` of every round and writes into the same `a` in every round."""
    loop = next(iter(source.loops(call)), None)
    if loop is None:
        return
    array, statement = ast.unparse(call.args[0]), source.parents.get(call)
    inside = [n for part in loop.body for n in ast.walk(part)]
    values: list[ast.AST] = [call]
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        values += [n for n in inside if isinstance(n, ast.Name) and n.id == name and n.lineno > call.lineno]
    bound = [n for n in (*inside, *ast.walk(loop.target if isinstance(loop, ast.For) else loop.test))
             if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store) and ast.unparse(n) == array
             and not isinstance(source.parents.get(n), ast.AugAssign)]  # fmt: skip
    writers = [n for n in inside if _writes(source, n, array)]
    if writers and not bound and any(_is_kept(source, v) for v in values):
        source.find(
            "shared-array-changed", writers[0],
            f"`{array}` is written in every round, and the tensors kept of the rounds before share its memory.", 0.85,
        )  # fmt: skip


def _is_kept(source: Source, value: ast.AST) -> bool:
    """Whether a value goes into a collection as it is (perhaps as part of a tuple)."""
    above = source.parents.get(value)
    if isinstance(above, (ast.Tuple, ast.List, ast.Dict)):
        value, above = above, source.parents.get(above)
    if isinstance(above, ast.Call):
        return source.method(above) in ("append", "appendleft", "add", "insert", "put") and value in above.args
    return (
        isinstance(above, ast.Assign)
        and isinstance(above.targets[0], ast.Subscript)
        and not isinstance(above.targets[0].slice, (ast.Slice, ast.Tuple))
        and any(isinstance(v, (ast.List, ast.Dict)) for v, _ in source.origins(above.targets[0].value))
    )


def _is_array(source: Source, node: ast.expr) -> bool:
    return any(kind.startswith("numpy") for kind in source.kinds(node))


def _writes(source: Source, node: ast.AST, array: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Subscript) and ast.unparse(t.value) == array for t in node.targets)
    if isinstance(node, ast.AugAssign):
        target = node.target.value if isinstance(node.target, ast.Subscript) else node.target
        return ast.unparse(target) == array
    if isinstance(node, ast.Call):
        if (
            source.method(node) in ("fill", "sort", "partition", "put", "itemset", "resize")
            and ast.unparse(node.func.value) == array
        ):
            return True
        return any(k.arg == "out" and ast.unparse(k.value) == array for k in node.keywords) or (
            source.name(node.func)
            in ("numpy.random.shuffle", "random.shuffle", "numpy.copyto", "numpy.put", "numpy.fill_diagonal")
            and bool(node.args)
            and ast.unparse(node.args[0]) == array
        )
    return False
