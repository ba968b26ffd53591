"""The signatures that operations have in Python, made from their schemas: for `inspect`, `help` and the type stubs."""

from __future__ import annotations

import ast
import inspect
import keyword
import re
from typing import Any, NamedTuple

from .._core.dtypes import BY_NAME
from .schema import Argument, FunctionSchema
from .schema_texts import function_of, has_own_arguments, schemas_of, takes_out

_PLAIN = {
    "Tensor": "Tensor", "int": "_int", "SymInt": "_int", "float": "_float", "bool": "_bool", "str": "str",
    "Scalar": "_Number", "ScalarType": "_dtype", "Device": "_DeviceLike", "Layout": "_layout",
    "MemoryFormat": "_memory_format", "Generator": "Generator", "complex": "_complex", "Storage": "UntypedStorage",
}  # fmt: skip
_DTYPES = {4: "int64", 6: "float32", 3: "int32"}


class Parameter(NamedTuple):
    """One parameter in Python. `default` is its text, or None if there is none."""

    name: str
    kind: str
    default: str | None = None
    named: bool = False  # whether it must be given by name
    many: bool = False  # whether it takes all remaining positional arguments

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{'*' if self.many else ''}{self.name}: {self.kind}{default}"


class Form(NamedTuple):
    """One overload in Python."""

    parameters: tuple[Parameter, ...]
    result: str

    def __str__(self) -> str:
        parts: list[str] = []
        for p in self.parameters:
            if p.named and "*" not in parts and not any(q.many for q in self.parameters):
                parts.append("*")
            parts.append(str(p))
        return f"({', '.join(parts)}) -> {self.result}"

    def covers(self, other: Form) -> bool:
        """Whether it takes every call that another one takes."""
        own = {p.name: p for p in self.parameters}
        positional = [p for p in self.parameters if not p.named]
        others = [p for p in other.parameters if not p.named]
        missing = [p for p in self.parameters if p.default is None and p not in other.parameters]
        return (
            self.result == other.result
            and not missing
            and positional[: len(others)] == others
            and all(p in self.parameters for p in other.parameters if own.get(p.name) != p)
        )


def _type(declared: str) -> str:
    """The type of a declared argument in Python."""
    plain = re.sub(r"\([^)]*\)", "", declared)
    if plain.endswith("?"):
        return f"{_type(plain[:-1])} | None"
    listed = re.match(r"(.*)\[(\d*)\]$", plain)
    if listed is None:
        return _PLAIN.get(plain, "Any")
    item = _type(listed[1])
    if item == "_int":
        return "_int | _size" if listed[2] else "_size"
    if item == "Tensor" and listed[2]:
        return "Tensor | Sequence[Tensor]"
    return f"{item} | Sequence[{item}]" if listed[2] else f"Sequence[{item}]"


def _result(schema: FunctionSchema, name: str, named_results: frozenset[str]) -> str:
    kinds = [re.sub(r"\([^)]*\)", "", r.declared) for r in schema.returns]
    if not kinds:
        return "None"
    if len(kinds) == 1:
        if kinds[0] == "Scalar":
            return "_Scalar"
        return "tuple[Tensor, ...]" if kinds[0] == "Tensor[]" else _type(kinds[0])
    if name in named_results:
        return f"return_types.{name}"
    return f"tuple[{', '.join('Sequence[Tensor]' if k == 'Tensor[]' else _type(k) for k in kinds)}]"


def _default(a: Argument) -> str | None:
    if not a.has_default_value():
        return "None" if a.name == "generator" else None
    value = a.default
    if a.declared.startswith("ScalarType") and value is not None:
        return _DTYPES.get(value, "...")
    if a.declared.startswith("MemoryFormat") and value is not None:
        return "..."
    if isinstance(value, list):  # the same number for every dimension is given as one
        return repr(value[0]) if value and "[" in a.declared and len({*value}) == 1 else repr(tuple(value))
    return repr(value)


def _parameter(a: Argument, first_is_input: bool) -> Parameter:
    name = "input" if a.name == "self" and first_is_input else a.name
    name = name + "_" if keyword.iskeyword(name) else name
    return Parameter(name, _type(a.declared), _default(a), a.kwarg_only)


def _form(schema: FunctionSchema, name: str, method: bool, out: bool, named_results: frozenset[str]) -> list[Form]:
    arguments = [a for a in schema.arguments if not (method and a.name == "self")]
    parameters = [_parameter(a, not method) for a in arguments]
    result = _result(schema, name, named_results)
    if "pin_memory" in schema.kwarg_only:
        parameters = [p._replace(kind="_bool", default="False") if p.name == "pin_memory" else p for p in parameters]
        parameters.append(Parameter("requires_grad", "_bool", "False", True))
    if out and not method:
        kind = "Tensor | None" if len(schema.returns) == 1 else "Sequence[Tensor] | None"
        parameters.append(Parameter("out", kind, "None", True))
    forms = [Form(tuple(parameters), result)]
    positional = [p for p in parameters if not p.named]
    if len(positional) == 1 and positional[0].kind == "_size":  # sizes and dimensions one by one
        rest = [p for p in parameters if p.named]
        forms.append(Form((Parameter(positional[0].name, "_int", None, False, True), *rest), result))
    return forms


def forms_of(name: str, method: bool = False, named_results: frozenset[str] = frozenset()) -> list[Form]:
    """The overloads of an operator in Python, as a function or as a method; `out=` forms are part of the others."""
    function = function_of(name)
    out = takes_out(function)
    in_place = name.endswith("_") and not name.endswith("__")
    found: list[Form] = []
    for schema in schemas_of(name).values():
        if schema.written_named or (method and not any(a.name == "self" for a in schema.arguments)):
            continue
        if method and schema.arguments[0].name == "self" and "Tensor" not in schema.arguments[0].declared:
            continue
        found += _form(schema, name, method, out and not in_place, named_results)
    kept: list[Form] = []
    for i, form in enumerate(found):
        if not any(other.covers(form) for other in [*kept, *found[i + 1 :]]):
            kept.append(form)
    return kept


def merged(forms: list[Form]) -> list[Parameter]:
    """One list of parameters for all overloads: that of the longest, where what others lack need not be given."""
    forms = [f for f in forms if not any(p.many for p in f.parameters)] or forms
    by_name = {p.name for f in forms for p in f.parameters if p.named}
    longest = max(forms, key=lambda f: sum(p.name not in by_name for p in f.parameters))
    found: dict[str, Parameter] = {}
    for form in (longest, *forms):
        for p in form.parameters:
            if p.name in by_name or form is longest:
                found.setdefault(p.name, p._replace(named=p.name in by_name))
    optional = False
    made = []
    for p in sorted(found.values(), key=lambda p: (p.named, p.name == "out")):
        missing = any(all(q.name != p.name for q in f.parameters) for f in forms)
        if p.default is None and not p.many and (missing or (optional and not p.named)):
            p = p._replace(default="None")
        optional = optional or (p.default is not None and not p.named)
        made.append(p)
    return made


def signature_of(name: str) -> inspect.Signature | None:
    """The signature of an operator's function as `help` shows it; None where it is that of the function itself.

    >>> print(signature_of("sum"))
    (input, dim=None, keepdim=False, *, dtype=None, out=None)
    """
    forms = [] if has_own_arguments(name) else forms_of(name)
    if not forms:
        return None
    parameters = []
    for p in merged(forms):
        kind = inspect.Parameter.KEYWORD_ONLY if p.named else inspect.Parameter.POSITIONAL_OR_KEYWORD
        kind = inspect.Parameter.VAR_POSITIONAL if p.many else kind
        default = inspect.Parameter.empty if p.default is None or p.many else _value(p.default)
        parameters.append(inspect.Parameter(p.name, kind, default=default))
    return inspect.Signature(parameters)


def _value(text: str) -> Any:
    return BY_NAME[text] if text in BY_NAME else ast.literal_eval(text)
