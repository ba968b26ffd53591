"""TorchScript programs: definitions by their full names, read from source text, and the classes that modules are of."""

from __future__ import annotations

import ast
from collections import namedtuple
from typing import Any

from ._errors import Problem
from ._machine import Function
from ._values import EnumValue, NamedValue

_LONGEST = 1 << 26  # characters of source in one file


class ScriptClass:
    """A class of a program: attributes with types, which of them are parameters and buffers, and methods."""

    script_callable = True

    def __init__(self, program: Program, path: str, definition: ast.ClassDef, source: str):
        self.program, self.path, self.source, self.name = program, path, source, definition.name
        self.base = definition.bases[0].id if definition.bases and isinstance(definition.bases[0], ast.Name) else ""
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.types: dict[str, str] = {}
        self.constants: dict[str, Any] = {}  # `Final` attributes, which stand in the text
        self.methods: dict[str, Function] = {}
        self.members: dict[str, EnumValue] = {}
        for node in definition.body:
            self._take(node)
        if self.base == "NamedTuple":
            try:
                plain: Any = namedtuple(self.name, list(self.types))
            except ValueError as error:
                raise Problem(f"{self.path}: {error}") from None
            self._named = type(self.name, (NamedValue, plain), {"fields": tuple(self.types), "__slots__": ()})

    def _take(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self.methods[node.name] = Function(self.program, node, f"{self.path}.{node.name}")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.constants[node.target.id] = _constant(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self.types[node.target.id] = ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self._take_list(node.targets[0].id, node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.types[key.value] = ast.unparse(node.value)
        elif not isinstance(node, ast.Pass):
            raise Problem(f"{self.path}: a class of a program has only attributes and methods")

    def _take_list(self, name: str, value: ast.expr) -> None:
        if name in ("__parameters__", "__buffers__") and isinstance(value, ast.List):
            found = [e.value for e in value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
            setattr(self, name.strip("_"), found)
        elif self.base == "Enum" and isinstance(value, ast.Constant):
            self.members[name] = EnumValue(self, name, value.value)

    def member(self, value: Any) -> EnumValue:
        """The member of an enumeration with this value."""
        for found in self.members.values():
            if found.value == value and type(found.value) is type(value):
                return found
        raise RuntimeError(f"{self.path} has no member with the value {value!r:.100}")

    def method(self, name: str) -> Function:
        found = self.methods.get(name)
        if found is None:
            raise RuntimeError(f"{self.path} has no method {name!r:.100}")
        return found

    def __call__(self, *args: Any, **named: Any) -> Any:
        """A named tuple of this class."""
        if self.base != "NamedTuple":
            raise RuntimeError(f"{self.path}: objects of this class cannot be made by a program")
        values = [*args, *(named[name] for name in list(self.types)[len(args) :])]
        return self._named(*values)

    def method_source(self, name: str) -> str:
        """The text of a method, as it stands in the class but without the type of `self`."""
        node = self.method(name).definition
        lines = self.source.splitlines()[node.lineno - 1 : node.end_lineno]
        text = "\n".join(line[2:] for line in lines)
        kind = node.args.args[0].annotation if node.args.args else None
        return text.replace(f": {ast.unparse(kind)}", "", 1) if kind is not None else text

    def __deepcopy__(self, memo: Any) -> ScriptClass:
        return self


def _constant(node: ast.expr) -> Any:
    """The value that stands in the text of a class."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(map(_constant, node.elts))
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_constant(node.operand)
    if isinstance(node, ast.Constant):
        return node.value
    raise Problem(f"a constant of a program cannot be {ast.unparse(node)[:80]!r}")


class Program:
    """All definitions of an archive or a trace. `sources` maps full names such as `__torch__.Net` to their text."""

    def __init__(self, constants: tuple[Any, ...] = ()):
        self.constants = constants
        self.sources: dict[str, str] = {}
        self._made: dict[str, Any] = {}
        self.read_file: Any = None  # gives the text of a file of an archive by its name, or None

    def constant(self, name: str) -> Any:
        if not name[:1] == "c" or not name[1:].isdigit() or int(name[1:]) >= len(self.constants):
            raise RuntimeError(f"the program names a constant {name!r:.100} that the archive does not have")
        return self.constants[int(name[1:])]

    def definition(self, path: str) -> Any:
        """The class or function with this full name."""
        found = self._made.get(path)
        if found is None:
            if path not in self.sources and self.read_file is not None:
                self._read(path.rpartition(".")[0])
            text = self.sources.get(path)
            if text is None:
                holder, _, name = path.rpartition(".")
                if holder.count(".") and isinstance(member := self._member(holder, name), EnumValue):
                    return member
                raise RuntimeError(f"Unknown type or function in the program: {path:.200}")
            found = self._made[path] = self._define(path, text)
        return found

    def _member(self, holder: str, name: str) -> Any:
        """The member of an enumeration, if `holder` is the full name of one."""
        if holder not in self.sources and self.read_file is not None:
            self._read(holder.rpartition(".")[0])
        return self.definition(holder).members.get(name) if "(Enum):" in self.sources.get(holder, "") else None

    def _read(self, module: str) -> None:
        """Reads the file of a module and keeps the text of each of its definitions."""
        text = self.read_file("code/" + module.replace(".", "/") + ".py")
        if text is None:
            return
        lines = text.splitlines()
        for node in parsed(text, module).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self.sources.setdefault(f"{module}.{node.name}", "\n".join(lines[node.lineno - 1 : node.end_lineno]))
            elif not (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "op_version_set"):
                raise Problem(f"{module}: a program has only classes and functions, not {type(node).__name__}")

    def _define(self, path: str, text: str) -> Any:
        (node,) = parsed(text, path).body
        if isinstance(node, ast.ClassDef):
            return ScriptClass(self, path, node, text)
        if isinstance(node, ast.FunctionDef):
            return Function(self, node, path)
        raise Problem(f"{path} is neither a class nor a function")

    def add(self, path: str, text: str) -> None:
        """Adds a definition; none with that name may be there."""
        if path in self.sources:
            raise RuntimeError(f"{path} is defined twice")
        self.sources[path] = text

    def check(self) -> None:
        """Compiles everything that can be reached: what is wrong in a program is known before any of it runs."""
        seen: set[str] = set()
        while len(seen) < len(self._made):
            for path, found in list(self._made.items()):
                if path not in seen:
                    seen.add(path)
                    for function in found.methods.values() if isinstance(found, ScriptClass) else [found]:
                        function._compile()

    def files(self) -> dict[str, str]:
        """The text of every file of an archive, by its name."""
        made: dict[str, list[str]] = {}
        for path, text in self.sources.items():
            made.setdefault("code/" + path.rpartition(".")[0].replace(".", "/") + ".py", []).append(text)
        return {name: "\n".join(texts) + "\n" for name, texts in made.items()}


def parsed(text: str, name: str) -> ast.Module:
    """The syntax tree of source; any problem in it is a RuntimeError."""
    if len(text) > _LONGEST:
        raise RuntimeError(f"{name}: the program is too long")
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuntimeError(f"{name}: the program cannot be read: {error}") from None
