"""Reads how modules are written."""

from __future__ import annotations

import ast

from .source import Source, constant, keyword

# Layers of torch.nn that have no parameters; all others have.
_BARE = ["ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Softplus", "Softsign", "Hardtanh", "Hardswish", "Hardsigmoid", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "Flatten", "Unflatten", "Identity", "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "Upsample", "PixelShuffle", "ZeroPad2d", "ReflectionPad2d", "Threshold", "GLU", "Tanhshrink", "Softmin", "Softmax2d", "Fold", "Unfold", "CosineSimilarity", "PairwiseDistance", "Parameter", "Buffer", "Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "UninitializedParameter"]  # fmt: skip
FACTORIES = ["tensor", "ones", "zeros", "rand", "randn", "arange", "eye", "empty", "full", "linspace", "from_numpy", "randint", "randperm", "as_tensor", "logspace", "ones_like", "zeros_like", "rand_like", "randn_like", "Tensor", "FloatTensor", "tril", "triu", "normal"]  # fmt: skip


def check(source: Source) -> None:
    for owner in source.module_classes():
        methods = {f.name: f for f in owner.body if isinstance(f, ast.FunctionDef)}
        _super_init(source, owner, methods.get("__init__"))
        _lists(source, owner)
        _tensors(source, owner, methods)
        for method in _from_forward(methods):
            _layers_in_forward(source, method)
    for call in source.calls:
        _forward(source, call)
        _uniform(source, call)


def makes_layer(source: Source, node: ast.AST | None, depth: int = 0) -> bool:
    """Whether an expression makes a module with parameters."""
    if not isinstance(node, ast.Call) or depth > 6:
        return False
    name = source.name(node.func)
    if name in source.classes:
        owner = source.classes[name]
        return source.is_module_class(owner) and any(
            makes_layer(source, n, depth + 1) or source.called(n) == "Parameter"
            for n in ast.walk(owner)
            if isinstance(n, ast.Call) and n is not node
        )
    if not name.startswith(("torch.nn.", "flambeau.nn.")) or any(
        part in name for part in (".functional", ".init", ".utils", "Loss")
    ):
        return False
    short = name.rpartition(".")[2]
    if short == "Sequential":
        return any(makes_layer(source, a, depth + 1) for a in node.args)
    return short[:1].isupper() and short not in _BARE


def _holds_layers(source: Source, value: ast.expr, depth: int = 0) -> bool:
    if depth > 8:  # a list that is made from itself: layers = layers + [...]
        return False
    held = lambda part: _holds_layers(source, part, depth + 1)
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return any(makes_layer(source, e) for e in value.elts)
    if isinstance(value, ast.Dict):
        return any(makes_layer(source, e) for e in value.values)
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return makes_layer(source, value.elt)
    if isinstance(value, ast.DictComp):
        return makes_layer(source, value.value)
    if isinstance(value, ast.BinOp):
        return held(value.left) or held(value.right)
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("list", "tuple", "dict")
        and value.args
    ):
        return held(value.args[0])
    if isinstance(value, ast.Name):
        return any(v is not value and held(v) for v, i in source.origins(value) if i is None)
    return False


def _lists(source: Source, owner: ast.ClassDef) -> None:
    """`self.layers = [nn.Linear(…), …]`, or an empty list to which layers are appended."""
    for statement in ast.walk(owner):
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        key = source.key(target)
        if key is None or key[0] is not owner:
            continue
        name = key[1]
        held = _holds_layers(source, value)
        empty = (
            isinstance(value, (ast.List, ast.Dict))
            and not getattr(value, "elts", None)
            and not getattr(value, "keys", None)
        )
        if not held and not (empty and _filled(source, owner, name)):
            continue
        if not _registered(source, owner, name):
            source.find(
                "layers-in-a-list", statement, f"self.{name} holds layers in a plain {'dict' if isinstance(value, (ast.Dict, ast.DictComp)) else 'list'}: their parameters are not registered."
            )  # fmt: skip


def _own(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _filled(source: Source, owner: ast.ClassDef, name: str) -> bool:
    """Whether layers are put into self.name later."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _own(node.func.value, name):
            if node.func.attr in ("append", "extend", "insert", "update", "setdefault"):
                for a in node.args:
                    if any(makes_layer(source, v) for v, i in source.origins(a)) or _holds_layers(source, a):
                        return True
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Subscript)
            and _own(node.targets[0].value, name)
        ):
            if any(makes_layer(source, v) for v, i in source.origins(node.value)):
                return True
        if isinstance(node, ast.AugAssign) and _own(node.target, name) and _holds_layers(source, node.value):
            return True
    return False


def _registered(source: Source, owner: ast.ClassDef, name: str) -> bool:
    """Whether the layers of self.name are also registered: wrapped, or by add_module, register_module, setattr."""
    for node in ast.walk(owner):
        if not isinstance(node, ast.Call):
            continue
        called = source.called(node) or source.method(node)
        if called in ("ModuleList", "Sequential", "ModuleDict") and any(
            _own(n, name) for a in node.args for n in ast.walk(a)
        ):
            return True
        if called in ("add_module", "register_module") or (
            isinstance(node.func, ast.Name) and node.func.id == "setattr"
        ):
            return True
    return False


def _tensors(source: Source, owner: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> None:
    """`self.scale = torch.ones(8)` in __init__, read in forward."""
    init = methods.get("__init__")
    if init is None:
        return
    for (scope, name), entries in list(source.assigned.items()):
        if scope is not owner or not name:
            continue
        values = [v for _, v, i in entries]
        for line, value, _index in entries:
            made = any(is_factory(source, v) for v, i in source.origins(value) if i is None)
            if not made or not _inside(init, line):
                continue
            if len(values) > 1 and any(not _inside(init, other) for other, _, _ in entries):
                continue  # a state that methods replace
            uses = [
                n
                for m in methods.values()
                if m is not init
                for n in ast.walk(m)
                if _own(n, name) and isinstance(n.ctx, ast.Load)
            ]
            if not uses:
                continue
            moved = all(
                isinstance(p := source.parents.get(n), ast.Attribute) and p.attr in ("to", "cuda", "type_as", "shape", "size", "item", "tolist", "numpy")
                for n in uses
            )  # fmt: skip
            source.find(
                "unregistered-tensor", value, f"self.{name} is a plain tensor: it is neither a Parameter nor a buffer.",
                0.4 if moved else 0.85, line,
            )  # fmt: skip


def _inside(function: ast.FunctionDef, line: int) -> bool:
    return function.lineno <= line <= (function.end_lineno or function.lineno)


def is_factory(source: Source, value: ast.AST) -> bool:
    """Whether an expression makes a tensor from nothing: torch.ones(8) * 2."""
    if isinstance(value, ast.BinOp):
        return is_factory(source, value.left) or is_factory(source, value.right)
    if not isinstance(value, ast.Call):
        return False
    if source.called(value) in FACTORIES:
        return True
    return (
        bool(source.method(value))
        and isinstance(value.func, ast.Attribute)
        and value.func.attr not in ("item", "tolist", "numpy")
        and is_factory(source, value.func.value)
    )


def _super_init(source: Source, owner: ast.ClassDef, init: ast.FunctionDef | None) -> None:
    if init is None:
        return
    for node in ast.walk(init):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            return
    assigned = [
        n for n in ast.walk(init) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and _own(n, n.attr)
    ]
    if assigned:
        source.find(
            "missing-super-init", init, f"{owner.name}.__init__ does not call super().__init__().", 0.97, init.lineno
        )


def _from_forward(methods: dict[str, ast.FunctionDef]) -> list[ast.FunctionDef]:
    """forward, and the methods that it calls."""
    todo, found = ["forward"], []
    while todo:
        method = methods.get(todo.pop())
        if method is not None and method not in found and method.name != "__init__":
            found.append(method)
            todo += [
                n.func.attr
                for n in ast.walk(method)
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and _own(n.func, n.func.attr)
            ]
    return found


def _layers_in_forward(source: Source, forward: ast.FunctionDef) -> None:
    for node in ast.walk(forward):
        if not isinstance(node, ast.Call) or not makes_layer(source, node):
            continue
        above = list(source.ancestors(node))
        if any(isinstance(a, ast.Call) and makes_layer(source, a) for a in above):
            continue  # a part of a container that is reported itself
        guarded = any(isinstance(a, ast.If) for a in above if a in list(ast.walk(forward)))
        stored = any(
            isinstance(a, ast.Assign) and source.key(a.targets[0]) and isinstance(a.targets[0], ast.Attribute)
            for a in above
        )
        if guarded and stored:
            continue  # made once, at the first call
        source.find(
            "layer-made-in-forward",
            node,
            f"{source.name(node.func).rpartition('.')[2]} is made anew, with new weights, in every forward.",
        )


_MODEL_NAMES = (
    "model",
    "net",
    "network",
    "encoder",
    "decoder",
    "generator",
    "discriminator",
    "classifier",
    "module",
    "backbone",
)


def _forward(source: Source, call: ast.Call) -> None:
    if source.method(call) != "forward" or not isinstance(call.func, ast.Attribute):
        return
    receiver = call.func.value
    if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super":
        return
    if isinstance(receiver, ast.Name) and receiver.id in ("self", "cls"):
        return
    name = (
        receiver.id if isinstance(receiver, ast.Name) else receiver.attr if isinstance(receiver, ast.Attribute) else ""
    )
    known = any(makes_module(source, v) for v, i in source.origins(receiver)) or source.is_model(receiver)
    if known or name.lower() in _MODEL_NAMES:
        source.find(
            "calling-forward",
            call,
            f"{ast.unparse(receiver)}.forward(…) is called; its hooks do not run.",
            0.95 if known else 0.7,
        )


def makes_module(source: Source, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = source.name(node.func)
    return name in source.classes and source.is_module_class(source.classes[name])


def _uniform(source: Source, call: ast.Call) -> None:
    if source.called(call) == "Parameter" and call.args:
        for value, index in source.origins(call.args[0]):
            if index is None and source.called(value) == "rand" and _matrix(source, value):
                source.find(
                    "uniform-initial-weights", call, "These weights are drawn from [0, 1): all positive, and large."
                )
    if (
        source.called(call) == "uniform_"
        and "init" in source.name(call.func)
        and len(call.args) == 1
        and not keyword(call, "a")
    ):
        if "bias" not in ast.unparse(call.args[0]):
            source.find(
                "uniform-initial-weights",
                call,
                "init.uniform_ without bounds draws from [0, 1): all positive, and large.",
                0.8,
            )
    if source.called(call) == "rand" and constant(keyword(call, "requires_grad")) is True and _matrix(source, call):
        statement = source.parents.get(call)
        if (
            isinstance(statement, ast.Assign)
            and (key := source.key(statement.targets[0]))
            and _updated(source, key[1])
            and _multiplied(source, key[1])
        ):
            source.find(
                "uniform-initial-weights", call, "These weights are drawn from [0, 1): all positive, and large.", 0.8
            )


def _multiplied(source: Source, name: str) -> bool:
    """Whether a variable is a factor of a matrix product."""
    for node in ast.walk(source.tree):
        factors: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            factors = [node.left, node.right]
        elif isinstance(node, ast.Call) and (source.called(node) or source.method(node)) in (
            "matmul",
            "mm",
            "linear",
            "einsum",
            "addmm",
        ):
            factors = node.args
        if any(
            (isinstance(n, ast.Name) and n.id == name) or (isinstance(n, ast.Attribute) and n.attr == name)
            for f in factors
            for n in ast.walk(f)
        ):
            return True
    return False


def _updated(source: Source, name: str) -> bool:
    """Whether a variable is trained: in an optimizer, or updated by its gradient."""
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "grad"
            and isinstance(node.value, (ast.Name, ast.Attribute))
        ):
            if (node.value.id if isinstance(node.value, ast.Name) else node.value.attr) == name:
                return True
        if isinstance(node, ast.Call) and ".optim." in source.name(node.func):
            if any(
                (isinstance(n, ast.Name) and n.id == name) or (isinstance(n, ast.Attribute) and n.attr == name)
                for a in node.args
                for n in ast.walk(a)
            ):
                return True
    return False


def _matrix(source: Source, call: ast.Call) -> bool:
    sizes = call.args
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    return len(sizes) >= 2
