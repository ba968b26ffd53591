"""Reads the JSON of `.pt2` archives. Files are not trusted: names, targets and numbers are checked before anything is made of them."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
from typing import Any

from .._backend.meta import empty_meta
from .._core.config import sym_float
from .._core.devices import device
from .._core.dtypes import BY_NAME
from .._core.expressions import read
from .._core.sizes import Size
from .._core.state import GRAD, META
from .._core.symbolic import SymBool, SymFloat, SymInt
from .._library.namespaces import OpOverload, ops
from .._library.operators import operators
from .._library.schema_texts import schemas_of
from .._subclasses.fake_tensor import FakeTensorMode
from .._tensor import Tensor, wrap
from ..fx import Graph, Node
from ..utils._pytree import treespec_loads
from ._autocast import Block, block_of, with_casts
from ._conversion import drop_unused
from ._schema import ARITHMETIC, DTYPES, FORMAT_NAMES, INPUTS, LAYOUT_NAMES, OUTPUTS, VERSION
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, ValueRanges
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

_DENIED = ("set_", "pin_memory", "_pin_memory", "from_file", "record_stream")  # reach beyond tensors
_RESERVED = frozenset(("self", "torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"))
_PATH = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_LARGEST = 1 << 48  # of sizes and strides


class FileError(RuntimeError):
    """A file that holds no program, or one that cannot be read here."""


def _name(value: Any) -> str:
    """A name that generated code may use."""
    if not isinstance(value, str) or not value.isidentifier() or keyword.iskeyword(value) or len(value) > 1000:
        raise FileError(f"the archive names a value {value!r:.100}, which is no name")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value) or len(value) > 2000:
        raise FileError(f"the archive names a tensor {value!r:.100}, which is no path")
    return value


def _one(union: Any) -> tuple[str, Any]:
    """Kind and value of a union: a dictionary with one entry (others may be None)."""
    if not isinstance(union, dict):
        raise FileError(f"expected a value with its kind in the archive, got {type(union).__name__}")
    found = [(k, v) for k, v in union.items() if v is not None]
    if len(found) != 1:
        raise FileError(f"expected a value with one kind in the archive, got {list(union)!r:.100}")
    return found[0]


def _number(value: Any) -> float:
    if isinstance(value, str):
        known = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
        if value not in known:
            raise FileError(f"the archive has a number {value!r:.50}")
        return known[value]
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise FileError(f"the archive has {value!r:.50} in the place of a whole number")
    return value


def _of(table: dict[int, Any], code: Any) -> Any:
    if code not in table:
        raise FileError(f"the archive uses kind {code!r:.50} of dtypes, layouts or formats, which is not known here")
    return table[code]


def _device(value: Any) -> device:
    kind, index = value["type"], value["index"]
    return device(kind) if index is None else device(kind, _whole(index))


def size_of(value: dict[str, Any]) -> Any:
    """A size of a tensor: a number, or one that changes with an example."""
    kind, found = _one(value)
    if kind == "as_int":
        n = _whole(found)
        if not 0 <= n <= _LARGEST:
            raise FileError(f"the archive has a size of {n}")
        return n
    if kind != "as_expr":
        raise FileError(f"the archive has a size of the kind {kind!r:.50}")
    try:
        e = read(str(found["expr_str"]))
    except ValueError as error:
        raise FileError(str(error)) from None
    hint = found.get("hint")
    example = 2 if hint is None else _whole(_one(hint)[1])
    return e.constant if e.constant is not None else SymInt(e, example)


def _target(text: Any) -> Any:
    """The operator of a node; nothing else can be called by a file."""
    if not isinstance(text, str):
        raise FileError("a node of the archive has no target")
    if text == "torch.sym_float":
        return sym_float
    parts = text.split(".")
    if parts[0] == "_operator" and len(parts) == 2 and parts[1] in ARITHMETIC:
        return getattr(operator, parts[1])
    if parts[:2] == ["torch", "ops"] and len(parts) == 5:
        space, name, overload = parts[2:]
        known = (
            bool(schemas_of(name))
            if space == "aten"
            else any(k.partition(".")[0] == f"{space}::{name}" for k in operators)
        )
        if known and name not in _DENIED:
            try:
                found = getattr(getattr(getattr(ops, space), name), overload)
            except AttributeError:
                found = None
            if isinstance(found, OpOverload) and hasattr(found, "_schema"):
                return found
    raise FileError(f"the archive calls {text!r:.200}, which is no operator here")


# Operators over graphs: the places of the graphs among their arguments.
_AUTOCAST = "torch.ops.higher_order.wrap_with_autocast"
_WITH_GRAPHS = {
    "torch.ops.higher_order.wrap_with_set_grad_enabled": (1, 1),
    "torch.ops.higher_order.cond": (1, 2),
    _AUTOCAST: (4, 4),
}


def _has_history(x: Any) -> bool:
    return isinstance(x, Node) and isinstance(x.meta.get("val"), Tensor)


class _Reader:
    """The graph of an archive, in `graph`."""

    def __init__(self, data: dict[str, Any], signature: dict[str, Any]):
        self.data, self.graph, self.mode = data, Graph(), FakeTensorMode()
        self.nodes: dict[str, Any] = {}
        self.block: Block | None = None  # of autocast, whose operators are read
        for given, spec in zip(data["inputs"], signature["input_specs"], strict=True):
            self.placeholder(given, spec)
        for node in data["nodes"]:
            self.node(node)
        outputs = tuple(self.argument(a) for a in data["outputs"])
        self.graph.output(outputs)
        self.outputs = outputs
        drop_unused(self.graph)

    def create(self, op: str, target: Any, args: Any, named: Any, name: str) -> Node:
        made = self.graph.create_node(op, target, args, named, name=_name(name))
        taken = any(n.name == name for n in self.nodes.values() if isinstance(n, Node))
        if made.name != name and name in vars(builtins) and name not in _RESERVED and not taken:
            made.name = name  # `input` is no problem as a name of a value
        if op == "placeholder":
            made.target = made.name
        self.nodes[name] = made
        return made

    def placeholder(self, given: Any, spec: Any) -> None:
        kind, value = _one(given)
        where, content = _one(spec)
        if where == "constant_input":
            node = self.create("placeholder", "", (), {}, content["name"])
            node.meta["val"] = self.argument(content["value"])
            return
        name = value["name"] if kind == "as_tensor" else value["as_name"] if kind.startswith("as_sym") else None
        if name is None:
            raise FileError(f"an input of the archive's graph is of the kind {kind!r:.50}")
        node = self.create("placeholder", "", (), {}, name)
        node.meta["val"] = self.described(kind, name)

    def described(self, kind: str, name: str) -> Any:
        if kind == "as_tensor":
            return self.tensor(self.data["tensor_values"][name])
        if kind == "as_sym_int":
            return size_of(self.data["sym_int_values"][name])
        if kind == "as_sym_bool":
            return SymBool(True)
        return SymFloat(0.0)

    def tensor(self, meta: dict[str, Any]) -> Any:
        """A fake tensor of the sizes that a file says."""
        sizes = [size_of(n) for n in meta["sizes"]]
        strides = [size_of(n) for n in meta["strides"]]
        if len(sizes) != len(strides) or len(sizes) > 64:
            raise FileError("a tensor of the archive has sizes and strides of different lengths")
        d = _of(DTYPES, meta["dtype"])
        try:
            bare = wrap(empty_meta(tuple(map(int, sizes)), d, tuple(map(int, strides))), d, META)
        except (ValueError, OverflowError, MemoryError):
            raise FileError(f"a tensor of the archive has sizes that no tensor has: {sizes!r:.200}") from None
        made = self.mode.fake(bare, _device(meta["device"]))
        if meta.get("requires_grad"):
            made._k |= GRAD
        if any(isinstance(n, SymInt) for n in sizes):
            made.__dict__["_sizes"] = tuple.__new__(Size, sizes)
            made.__dict__["_strides"] = tuple(strides)
        return made

    def node(self, node: dict[str, Any]) -> None:
        if node["target"] in _WITH_GRAPHS:
            self.with_graphs(node, *_WITH_GRAPHS[node["target"]])
            return
        target = _target(node["target"])
        args: list[Any] = []
        named: dict[str, Any] = {}
        for given in node["inputs"]:
            value = self.argument(given["arg"])
            if given.get("kind", 1) == 2 or self.by_name(target, given["name"]):
                named[_name(given["name"])] = value
            else:
                args.append(value)
        if self.block is not None:
            args, named = with_casts(self.graph, self.block, target, args, named)
        outputs = node["outputs"]
        kinds = [_one(o) for o in outputs]
        first = kinds[0][1] if len(kinds) == 1 and kinds[0][0] != "as_tensors" else None
        name = node.get("name") or (self.output_name(*kinds[0]) if first is not None else f"{target._opname}_parts")
        made = self.create("call_function", target, tuple(args), named, name)
        made.meta.update(_metadata(node.get("metadata") or {}))
        if first is not None:
            made.meta["val"] = self.described(kinds[0][0], self.output_name(*kinds[0]))
            self.nodes[self.output_name(*kinds[0])] = made
            return
        parts = [("as_tensor", part) for part in kinds[0][1]] if len(kinds) == 1 else kinds
        made.meta["val"] = self.parts(made, parts) if outputs else None
        if made.meta["val"] is not None and len(kinds) == 1:
            made.meta["val"] = list(made.meta["val"])

    def with_graphs(self, node: dict[str, Any], first: int, last: int) -> None:
        """An operator over graphs, by the operators of these: branches are both computed, and what has no history is cut off."""
        given = [_one(i["arg"]) for i in node["inputs"]]
        plain = [self.argument(i["arg"]) for i, (kind, _) in zip(node["inputs"], given) if kind != "as_graph"]
        condition, operands, block = plain[0], plain[1:], self.block
        if node["target"] == _AUTOCAST:
            self.block, operands = block_of(*plain[:3]), plain[4:]
        if len(operands) == 1 and isinstance(operands[0], list):
            operands = operands[0]
        branches = last > first
        if branches and not isinstance(condition, Node):
            raise FileError("a branch of the archive's program depends on nothing")
        if branches and not isinstance(condition.meta["val"], Tensor):  # of sizes
            condition = self.graph.call_function(
                ops.aten.scalar_tensor.default, (condition,), {"dtype": BY_NAME["bool"]}
            )
            condition.meta = {"val": self.mode.from_tensor(ops.aten.scalar_tensor.default(True, dtype=BY_NAME["bool"]))}
        if not branches and condition is False:
            operands = [self.added(ops.aten.detach.default, x) if _has_history(x) else x for x in operands]
        found = [
            self.inlined(value["graph"], operands) for kind, value in given[first : last + 1] if kind == "as_graph"
        ]
        self.block = block
        if len(found) != last - first + 1 or len({len(each) for each in found}) != 1:
            raise FileError("an operator of the archive's program has not the graphs that belong to it")
        made = found[0] if not branches else [self.added(ops.aten.where.self, condition, a, b) for a, b in zip(*found)]
        names = [
            v for o in node["outputs"] for k, value in [_one(o)] for v in (value if k == "as_tensors" else [value])
        ]
        for output, value in zip(names, made, strict=True):
            self.nodes[_name(output["name"])] = value

    def added(self, target: Any, *args: Any) -> Node:
        """A node that the archive does not have itself, which gives a tensor like its last argument."""
        made = self.graph.call_function(target, args)
        made.meta = {"val": args[-1].meta["val"].detach(), "nn_module_stack": args[-1].meta.get("nn_module_stack", {})}
        return made

    def inlined(self, graph: dict[str, Any], operands: list[Any]) -> list[Any]:
        """The results of an inner graph, whose operators become part of the whole."""
        nodes, data = self.nodes, self.data
        names = [_name(_one(i)[1]["name"]) for i in graph["inputs"]]
        self.nodes, self.data = dict(zip(names, operands, strict=True)), graph
        try:
            for node in graph["nodes"]:
                self.node(node)
            return [self.argument(a) for a in graph["outputs"]]
        finally:
            self.nodes, self.data = nodes, data

    def parts(self, made: Node, parts: list[tuple[str, Any]]) -> tuple[Any, ...]:
        vals = []
        for i, (kind, value) in enumerate(parts):
            if kind == "as_none":
                vals.append(None)
                continue
            name = self.output_name(kind, value)
            vals.append(self.described(kind, name))
            part = self.create("call_function", operator.getitem, (made, i), {}, name)
            part.meta.update({**made.meta, "val": vals[-1]})
        return tuple(vals)

    def by_name(self, target: Any, name: str) -> bool:
        schema = getattr(target, "_schema", None)
        return schema is not None and name in schema.kwarg_only

    def output_name(self, kind: str, value: Any) -> str:
        if kind == "as_tensor":
            return _name(value["name"])
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return _name(value["as_name"])
        raise FileError(f"a result in the archive's graph is of the kind {kind!r:.50}")

    def value(self, name: Any) -> Any:
        if name not in self.nodes:
            raise FileError(f"the archive's graph uses {name!r:.100} before it is made")
        return self.nodes[name]

    def argument(self, union: Any) -> Any:
        kind, value = _one(union)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(value)
        if kind == "as_tensor":
            return self.value(value["name"])
        if kind == "as_tensors":
            return [self.value(v["name"]) for v in value]
        if kind in ("as_optional_tensors", "as_optional_tensor"):
            listed = value if isinstance(value, list) else [value]
            made = [self.argument(v) for v in listed]
            return made if isinstance(value, list) else made[0]
        if kind == "as_nested_tensors":
            return [[self.value(v["name"]) for v in part] for part in value]
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self.symbol(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self.symbol(v) for v in value]
        raise FileError(f"the archive's graph has an argument of the kind {kind!r:.50}, which is not known here")

    def symbol(self, value: Any) -> Any:
        kind, found = _one(value)
        return self.value(found) if kind == "as_name" else _PLAIN[kind](found)


_PLAIN: dict[str, Any] = {
    "as_none": lambda v: None,
    "as_bool": bool,
    "as_int": _whole,
    "as_float": _number,
    "as_string": str,
    "as_complex": lambda v: complex(_number(v["real"]), _number(v["imag"])),
    "as_ints": lambda v: [_whole(n) for n in v],
    "as_floats": lambda v: [_number(n) for n in v],
    "as_bools": lambda v: [bool(b) for b in v],
    "as_strings": lambda v: [str(s) for s in v],
    "as_int_lists": lambda v: [[_whole(n) for n in part] for part in v],
    "as_scalar_type": lambda v: _of(DTYPES, v),
    "as_memory_format": lambda v: _of(FORMAT_NAMES, v),
    "as_layout": lambda v: _of(LAYOUT_NAMES, v),
    "as_device": _device,
}


def _metadata(found: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if isinstance(found.get("stack_trace"), str):
        made["stack_trace"] = "\n".join(line.replace("\r", "") for line in found["stack_trace"].split("\n"))
    made["nn_module_stack"] = {}
    for entry in str(found.get("nn_module_stack") or "").split(";"):
        parts = entry.split(",")
        if len(parts) >= 3 and not parts[0].startswith("_empty"):
            made["nn_module_stack"][parts[0]] = parts[1], ",".join(parts[2:])
    return made


# -- the program -----------------------------------------------------------------------------------------------------------


def program_from_json(data: Any, state: dict[str, Any], constants: dict[str, Any], examples: Any) -> ExportedProgram:
    """The program of an archive with the tensors that were found in it."""
    try:
        version = data["schema_version"]
        if version["major"] != VERSION[0]:
            raise FileError(
                f"Serialized schema version {version['major']}.{version['minor']} does not match our current schema version "
                f"{VERSION[0]}.{VERSION[1]}: export the model again"
            )
        return _program(data, state, constants, examples)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise FileError(f"the program in the archive is not in order: {type(error).__name__}: {error}") from error


def _program(data: dict[str, Any], state: dict[str, Any], constants: dict[str, Any], examples: Any) -> ExportedProgram:
    module = data["graph_module"]
    reader = _Reader(module["graph"], module["signature"])
    signature = ExportGraphSignature(
        [_input(s, reader) for s in module["signature"]["input_specs"]],
        [_output(s, reader) for s in module["signature"]["output_specs"]],
    )
    for spec in signature.input_specs:
        missing = spec.target is not None and spec.target not in state and spec.target not in constants
        if missing:
            raise FileError(f"the archive has no tensor for {spec.target!r:.100}")
    names = [n.name for n in reader.graph.nodes if n.op == "placeholder"]
    if names != [spec.arg.name for spec in signature.input_specs]:
        raise FileError("the inputs of the archive's graph are not those of its signature")
    targets = {spec.target for spec in signature.input_specs if spec.target is not None} | set(names)
    unknown = [spec.target for spec in signature.output_specs if spec.target is not None and spec.target not in targets]
    if unknown:
        raise FileError(f"the archive's program writes to {unknown[0]!r:.100}, which is no input of it")
    if len(signature.output_specs) != len(reader.outputs):
        raise FileError("the outputs of the archive's graph are not those of its signature")
    calls = [
        ModuleCallEntry(_module_path(c["fqn"]), _call(c["signature"], reader)) for c in module["module_call_graph"]
    ]
    if not calls or calls[0].signature is None:
        raise FileError("the archive does not say how its program is called")
    ranges = {}
    for name, limits in data["range_constraints"].items():
        low, high = limits["min_val"], limits["max_val"]
        ranges[read(name)] = ValueRanges(0 if low is None else _whole(low), None if high is None else _whole(high))
    made = ExportedProgram({}, reader.graph, signature, state, ranges, calls, examples, constants)
    made._guards = [str(text) for text in data.get("guards_code") or ()]
    made._dialect = str((data.get("verifiers") or ["TRAINING"])[0])
    return made


def _module_path(text: Any) -> str:
    return "" if text == "" else "".join(c for c in str(text) if c.isalnum() or c in "._@")


def _argument(union: Any, reader: _Reader) -> Any:
    kind, value = _one(union)
    kinds = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}
    if kind == "as_tensor":
        return TensorArgument(reader.value(value["name"]).name)
    if kind in kinds:
        of, found = _one(value)
        return kinds[kind](reader.value(found).name) if of == "as_name" else ConstantArgument("", reader.symbol(value))
    return ConstantArgument("", reader.argument(union))


def _kind_of(name: str, table: dict[Any, tuple[str, str]], what: str) -> tuple[Any, str]:
    for kind, (known, target) in table.items():
        if known == name:
            return kind, target
    raise FileError(f"an {what} of the archive's program is of the kind {name!r:.50}, which is not known here")


def _input(spec: Any, reader: _Reader) -> InputSpec:
    kind, content = _one(spec)
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, _argument(content["arg"], reader), None)
    if kind == "constant_input":
        node = reader.value(content["name"])
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, node.meta["val"]), None)
    which, target = _kind_of(kind, INPUTS, "input")
    arg = TensorArgument(reader.value(content["arg"]["name"]).name)
    persistent = bool(content["persistent"]) if kind == "buffer" else None
    return InputSpec(which, arg, _path(content[target]), persistent)


def _output(spec: Any, reader: _Reader) -> OutputSpec:
    kind, content = _one(spec)
    if kind == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, _argument(content["arg"], reader), None)
    which, target = _kind_of(kind, OUTPUTS, "output")
    return OutputSpec(which, TensorArgument(reader.value(content["arg"]["name"]).name), _path(content[target]))


def _call(signature: Any, reader: _Reader) -> ModuleCallSignature | None:
    if signature is None:
        return None
    in_spec, out_spec = treespec_loads(signature["in_spec"]), treespec_loads(signature["out_spec"])
    if in_spec.num_children != 2 or in_spec.child(1).type is not dict:
        raise FileError("the archive does not say how its program is called")
    keywords = in_spec.child(1).context
    placed = signature.get("forward_arg_names")
    placed = (
        [f"arg_{i}" for i in range(in_spec.child(0).num_children)]
        if placed is None
        else placed[: len(placed) - len(keywords)]
    )
    names = [_name(n) for n in (*placed, *keywords)]
    if len(set(names)) != len(names):
        raise FileError("two arguments of the archive's program have the same name")
    return ModuleCallSignature(
        [_argument(a, reader) for a in signature["inputs"]],
        [_argument(a, reader) for a in signature["outputs"]],
        in_spec,
        out_spec,
        names,
    )
