"""One source file: its tree, what its names stand for, and where values came from, as far as reading can tell."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from ..findings import Finding

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = Function | ast.Module | ast.ClassDef
# Methods whose result is the same values in another form.
PASSING = frozenset(
    [
        "squeeze",
        "unsqueeze",
        "view",
        "reshape",
        "flatten",
        "contiguous",
        "clone",
        "to",
        "float",
        "double",
        "half",
        "cpu",
        "cuda",
        "type",
        "expand",
        "permute",
        "transpose",
        "t",
        "view_as",
        "clamp",
        "clamp_min",
    ]
)
_DEPTH = 12


class Source:
    """A parsed file with parents, imports, assignments and calls."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text, path)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.imports: dict[str, str] = {}
        self.assigned: dict[tuple[ast.AST, str], list[tuple[int, ast.expr, int | None]]] = defaultdict(list)
        self.functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        self.classes: dict[str, ast.ClassDef] = {}
        self.calls: list[ast.Call] = []
        self.findings: list[Finding] = []
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        for node in ast.walk(self.tree):
            self._note(node)
        self.calls.sort(key=lambda call: (call.lineno, call.col_offset))

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for a in node.names:
                self.imports[a.asname or a.name.partition(".")[0]] = a.name if a.asname else a.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for a in node.names:
                self.imports[a.asname or a.name] = f"{node.module}.{a.name}"
        elif isinstance(node, ast.FunctionDef):
            self.functions[node.name].append(node)
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif (isinstance(node, ast.AnnAssign) and node.value is not None) or isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, item.context_expr)

    def _assign(self, target: ast.expr, value: ast.expr, index: int | None = None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            pairs = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for i, element in enumerate(target.elts):
                if pairs:
                    self._assign(element, value.elts[i])
                else:
                    self._assign(element, value, i)
            return
        key = self.key(target)
        if key is not None:
            self.assigned[key].append((target.lineno, value, index))

    # -- places -------------------------------------------------------------------------------------------------

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function(self, node: ast.AST) -> ast.AST:
        """The function that a node belongs to, or the module."""
        for above in self.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return above
        return self.tree

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class around a node (through its method)."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def loops(self, node: ast.AST) -> list[ast.For | ast.While]:
        """The loops around a node in its function, the innermost first."""
        found: list[ast.For | ast.While] = []
        child = node
        for above in self.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                break
            if (
                isinstance(above, (ast.For, ast.While))
                and child not in above.orelse
                and child is not getattr(above, "iter", None)
            ):
                found.append(above)
            child = above
        return found

    def apart(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether two nodes stand in different branches of one `if`: never both run."""
        inside = {id(a): a for a in self.ancestors(first)}
        for above in self.ancestors(second):
            if isinstance(above, ast.If) and id(above) in inside:
                in_body = [any(n in (node, *self.ancestors(node)) for n in above.body) for node in (first, second)]
                if in_body[0] != in_body[1]:
                    return True
        return False

    def key(self, target: ast.AST) -> tuple[ast.AST, str] | None:
        """Under which key a name or an attribute of self is kept."""
        if isinstance(target, ast.Name):
            return self.function(target), target.id
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            owner = self.class_of(target)
            return None if owner is None else (owner, target.attr)
        return None

    # -- names --------------------------------------------------------------------------------------------------

    def name(self, node: ast.AST | None) -> str:
        """The dotted name that an expression stands for, with imports followed: "torch.nn.functional.softmax"; or ""."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id if node.id in self.classes or node.id in self.functions else "")
        if isinstance(node, ast.Attribute):
            base = self.name(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def torch(self, node: ast.AST | None) -> str:
        """The last part of a name of torch ("softmax", "Linear"), or "" for others."""
        name = self.name(node)
        return name.rpartition(".")[2] if name.startswith(("torch", "flambeau")) else ""

    def called(self, call: ast.AST | None) -> str:
        """What a call calls, of torch; or ""."""
        return self.torch(call.func) if isinstance(call, ast.Call) else ""

    def method(self, call: ast.AST) -> str:
        """The name of the method that a call calls on something that is no module; or ""."""
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not self.name(call.func):
            return call.func.attr
        return ""

    # -- values -------------------------------------------------------------------------------------------------

    def origins(self, node: ast.expr | None, depth: int = 0) -> list[tuple[ast.expr, int | None]]:
        """The expressions that a value may come from, with the index into a tuple; names are followed."""
        if node is None or depth > _DEPTH:
            return []
        key = self.key(node)
        if key is None:
            return [(node, None)]
        found = self._assignments(node, key)
        if not found and isinstance(node, ast.Name):
            found = self._arguments(node)
        out: list[tuple[ast.expr, int | None]] = []
        for value, index in found:
            if index is None and value is not node:
                out.extend(self.origins(value, depth + 1))
            else:
                out.append((value, index))
        return out or [(node, None)]

    def _assignments(self, node: ast.expr, key: tuple[ast.AST, str]) -> list[tuple[ast.expr, int | None]]:
        scope, name = key
        if isinstance(scope, ast.ClassDef):
            return [(value, index) for _, value, index in self.assigned.get(key, ())]
        while True:
            known = [entry for entry in self.assigned.get((scope, name), ()) if not _within(node, entry[1])]
            if known:
                before = [entry for entry in known if entry[0] <= node.lineno]
                if scope is not self.function(node):
                    before = known
                _line, value, index = (before or known)[-1]
                return [(value, index)]
            if self._is_parameter(scope, name) or scope is self.tree:
                return []
            scope = self.function(scope)

    @staticmethod
    def _is_parameter(scope: ast.AST, name: str) -> bool:
        if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        a = scope.args
        return any(p.arg == name for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))

    def _arguments(self, node: ast.Name) -> list[tuple[ast.expr, int | None]]:
        """What the calls in this file give for a parameter."""
        scope = self.function(node)
        while scope is not self.tree and not self._is_parameter(scope, node.id):
            scope = self.function(scope)
        if not isinstance(scope, ast.FunctionDef):
            return []
        names = [p.arg for p in (*scope.args.posonlyargs, *scope.args.args)]
        owner = self.parents.get(scope)
        called = scope.name
        if isinstance(owner, ast.ClassDef):
            names = names[1:]
            called = owner.name if scope.name == "__init__" else scope.name
        found: list[tuple[ast.expr, int | None]] = []
        for call in self.calls:
            func = call.func
            if not (isinstance(func, ast.Name) and func.id == called) and not (
                isinstance(owner, ast.ClassDef)
                and isinstance(func, ast.Attribute)
                and func.attr == called
                and scope.name != "__init__"
            ):
                continue
            given = next((k.value for k in call.keywords if k.arg == node.id), None)
            if given is None and node.id in names and names.index(node.id) < len(call.args):
                given = call.args[names.index(node.id)]
            if given is not None and not isinstance(given, ast.Starred):
                found.append((given, None))
        if not found and node.id in names:  # the default
            defaults = scope.args.defaults
            place = names.index(node.id) - (len(names) - len(defaults))
            if place >= 0:
                found.append((defaults[place], None))
        return found

    def kinds(self, node: ast.expr | None, depth: int = 0) -> set[str]:
        """The classes that an object may be of, as dotted names, for what a constructor or a chain of methods made."""
        found = set()
        for value, index in self.origins(node):
            if index is not None or not isinstance(value, ast.Call):
                continue
            name = self.name(value.func)
            if name:
                found.add(name)
                found |= self._returned_kinds(name, depth)
            elif isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "cuda", "cpu", "train", "eval", "float",
                                                                            "double", "half", "requires_grad_", "apply"):  # fmt: skip
                if depth < _DEPTH:
                    found |= self.kinds(value.func.value, depth + 1)
        return found

    def _returned_kinds(self, name: str, depth: int) -> set[str]:
        found = set()
        if depth < _DEPTH:
            for function in self.functions.get(name, ()):
                for result in self.returns(function):
                    found |= self.kinds(result, depth + 1)
        return found

    def returns(self, function: ast.FunctionDef) -> list[ast.expr]:
        """The expressions that a function returns."""
        return [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and node.value is not None and self.function(node) is function
        ]

    def is_module_class(self, node: ast.ClassDef, depth: int = 0) -> bool:
        """Whether a class derives from torch.nn.Module, as far as this file shows."""
        for base in node.bases:
            name = self.name(base)
            if name.startswith(("torch.nn", "flambeau.nn")):
                return True
            if name in self.classes and self.classes[name] is not node and depth < _DEPTH:
                if self.is_module_class(self.classes[name], depth + 1):
                    return True
        return False

    def module_classes(self) -> list[ast.ClassDef]:
        return [node for node in self.classes.values() if self.is_module_class(node)]

    def is_model(self, node: ast.expr | None) -> bool:
        """Whether an expression is a module, as far as this file shows."""
        for kind in self.kinds(node):
            if kind in self.classes and self.is_module_class(self.classes[kind]):
                return True
            if kind.startswith(("torch.nn.", "flambeau.nn.")) and ".functional" not in kind and ".utils" not in kind:
                if "Loss" not in kind and not kind.endswith("Parameter"):
                    return True
            if kind.startswith("torchvision.models."):
                return True
        return False

    def producers(self, node: ast.expr | None, depth: int = 0) -> set[str]:
        """The last operations that may have made a value ("softmax", "sigmoid", …); forms that keep values are looked through."""
        if node is None or depth > _DEPTH:
            return set()
        found: set[str] = set()
        for value, index in self.origins(node):
            found |= self._made_by(value, index, depth + 1) or {"?"}
        return found

    def _made_by(self, value: ast.expr, index: int | None, depth: int) -> set[str]:
        if depth > _DEPTH:
            return set()
        if isinstance(value, ast.Subscript):
            return self.producers(value.value, depth)
        if isinstance(value, ast.IfExp):
            return self.producers(value.body, depth) & self.producers(value.orelse, depth)
        if isinstance(value, (ast.Tuple, ast.List)) and index is not None and index < len(value.elts):
            return self.producers(value.elts[index], depth)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and isinstance(value.right, ast.Constant):
            return self.producers(value.left, depth)  # x + 1e-8
        if not isinstance(value, ast.Call):
            return {"?"}
        called = self.called(value)
        if called in PASSING and value.args:
            return self.producers(value.args[0], depth)
        if called:
            return {called}
        if isinstance(value.func, ast.Call):  # nn.Softmax(1)(x)
            return self._module_result(value.func, index, depth)
        if isinstance(value.func, ast.Name) and value.func.id in self.functions:
            return self._function_result(self.functions[value.func.id][-1], index, depth)
        method = self.method(value)
        receiver = value.func.value if isinstance(value.func, ast.Attribute) else None
        if method == "forward":
            return self._object_result(receiver, index, depth)
        if method in PASSING:
            return self.producers(receiver, depth)
        found = self._object_result(value.func, index, depth)
        if not found and method and receiver is not None:
            if isinstance(receiver, ast.Name) and receiver.id == "self":
                owner = self.class_of(value)
                own = [f for f in self.functions.get(method, ()) if self.parents.get(f) is owner]
                if own:
                    return self._function_result(own[0], index, depth)
            return {method}
        return found

    def _object_result(self, node: ast.expr | None, index: int | None, depth: int) -> set[str]:
        found: set[str] = set()
        for value, _ in self.origins(node):
            while isinstance(value, ast.Call) and self.method(value) in ("to", "cuda", "cpu", "train", "eval"):
                inner = value.func.value
                value = next((v for v, i in self.origins(inner) if i is None), inner)
            if isinstance(value, ast.Call):
                found |= self._module_result(value, index, depth)
        return found

    def _module_result(self, made: ast.Call, index: int | None, depth: int) -> set[str]:
        """What comes out of a module that was made by this call."""
        if depth > _DEPTH:
            return set()
        name = self.name(made.func)
        if name in self.classes:
            forward = [f for f in self.functions.get("forward", ()) if self.parents.get(f) is self.classes[name]]
            if not forward:
                for base in self.classes[name].bases:
                    forward = forward or [
                        f
                        for f in self.functions.get("forward", ())
                        if self.parents.get(f) is self.classes.get(self.name(base))
                    ]
            return self._function_result(forward[0], index, depth) if forward else set()
        short = self.torch(made.func)
        if short == "Sequential" and made.args:
            last = made.args[-1]
            return self._object_result(last, index, depth + 1) if not isinstance(last, ast.Starred) else set()
        if short in _LAYERS:
            return {_LAYERS[short]}
        if name in self.functions:
            found: set[str] = set()
            for result in self.returns(self.functions[name][-1]):
                found |= self._object_result(result, index, depth + 1)
            return found
        return {short} if short else set()

    def _function_result(self, function: ast.FunctionDef, index: int | None, depth: int) -> set[str]:
        found: set[str] = set()
        for result in self.returns(function):
            if index is not None and isinstance(result, ast.Tuple):
                result = result.elts[index] if index < len(result.elts) else result
            found |= self.producers(result, depth + 1)
        return found

    # -- findings -----------------------------------------------------------------------------------------------

    def find(self, id: str, node: ast.AST, message: str, confidence: float = 0.9, line: int | None = None) -> Finding:
        """Notes a finding at a node."""
        one_line = line is None and getattr(node, "end_lineno", None) == node.lineno
        finding = Finding(
            id, self.path, line or node.lineno, message, confidence, ["the source shows it"],
            getattr(node, "col_offset", None) if one_line else None, getattr(node, "end_col_offset", None) if one_line else None,
        )  # fmt: skip
        self.findings.append(finding)
        return finding


_LAYERS = {
    "Softmax": "softmax", "Softmax2d": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid", "LogSigmoid": "logsigmoid",
    "Softmin": "softmin",
}  # fmt: skip


def _within(node: ast.AST, value: ast.AST) -> bool:
    """Whether a node is part of an expression (x = f(x): the x inside is an older one)."""
    return any(inner is node for inner in ast.walk(value))


def keyword(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument of a call, by name or position."""
    for k in call.keywords:
        if k.arg == name:
            return k.value
    if position is not None and position < len(call.args):
        return call.args[position]
    return None


def constant(node: ast.AST | None, default: object = None) -> object:
    """The value of a constant (negative numbers too), or the default."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) else default
    return default
