"""An exported program as the JSON that `.pt2` archives hold."""

from __future__ import annotations

import math
import operator
from typing import Any

from .._core.config import sym_float
from .._core.devices import device
from .._core.dtypes import dtype
from .._core.expressions import Expr
from .._core.layouts import layout, memory_format
from .._core.symbolic import SymBool, SymFloat, SymInt
from .._tensor import Tensor
from ..fx import Node
from ..torch_version import __version__
from ..utils._pytree import TreeSpec, treespec_dumps
from ._schema import ARITHMETIC, INPUTS, OUTPUTS, VERSION, code_of
from .exported_program import ExportedProgram
from .graph_signature import ConstantArgument, InputKind, InputSpec, OutputSpec, SymIntArgument


def program_as_json(ep: ExportedProgram) -> dict[str, Any]:
    """The program without the elements of its tensors."""
    return {
        "graph_module": {
            "graph": _Graph(ep).made,
            "signature": {
                "input_specs": [_input_spec(s) for s in ep.graph_signature.input_specs],
                "output_specs": [_output_spec(s) for s in ep.graph_signature.output_specs],
            },
            "module_call_graph": [
                {"fqn": c.fqn, "signature": _call_signature(c.signature)} for c in ep.module_call_graph
            ],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {
            str(k): {"min_val": r.lower, "max_val": r.upper} for k, r in ep.range_constraints.items()
        },
        "schema_version": {"major": VERSION[0], "minor": VERSION[1]},
        "verifiers": [ep.dialect],
        "torch_version": str(__version__),
        "guards_code": list(ep._guards),
    }


def _call_signature(signature: Any) -> Any:
    if signature is None:
        return None
    return {
        "inputs": [_spec_argument(a) for a in signature.inputs],
        "outputs": [_spec_argument(a) for a in signature.outputs],
        "in_spec": _tree(signature.in_spec),
        "out_spec": _tree(signature.out_spec),
        "forward_arg_names": signature.forward_arg_names,
    }


def _tree(spec: TreeSpec) -> str:
    return treespec_dumps(spec)


# -- the signature -----------------------------------------------------------------------------------------------------


def _spec_argument(arg: Any) -> dict[str, Any]:
    if isinstance(arg, ConstantArgument):
        return _constant(arg.value)
    if isinstance(arg, SymIntArgument):
        return {"as_sym_int": {"as_name": arg.name}}
    return {"as_tensor": {"name": arg.name}}


def _input_spec(spec: InputSpec) -> dict[str, Any]:
    if spec.kind in INPUTS:
        kind, target = INPUTS[spec.kind]
        more = {"persistent": spec.persistent} if spec.kind is InputKind.BUFFER else {}
        return {kind: {"arg": {"name": spec.arg.name}, target: spec.target, **more}}
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _constant(spec.arg.value)}}
    return {"user_input": {"arg": _spec_argument(spec.arg)}}


def _output_spec(spec: OutputSpec) -> dict[str, Any]:
    if spec.kind in OUTPUTS:
        kind, target = OUTPUTS[spec.kind]
        return {kind: {"arg": {"name": spec.arg.name}, target: spec.target}}
    return {"user_output": {"arg": _spec_argument(spec.arg)}}


# -- the graph -----------------------------------------------------------------------------------------------------------


def _constant(value: Any) -> dict[str, Any]:
    if value is None:
        return {"as_none": True}
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    if isinstance(value, float):
        return {"as_float": _float(value)}
    if isinstance(value, complex):
        return {"as_complex": {"real": _float(value.real), "imag": _float(value.imag)}}
    if isinstance(value, str):
        return {"as_string": value}
    if isinstance(value, dtype):
        return {"as_scalar_type": code_of(value)}
    if isinstance(value, memory_format):
        return {"as_memory_format": code_of(value)}
    if isinstance(value, layout):
        return {"as_layout": code_of(value)}
    if isinstance(value, device):
        return {"as_device": _device(value)}
    raise NotImplementedError(f"torch.export.save: an archive holds no {type(value).__name__}")


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _device(value: device) -> dict[str, Any]:
    return {"type": value.type, "index": value.index}


def _size(value: Any) -> dict[str, Any]:
    """A size or stride: a number, or an expression with the number of the example."""
    if isinstance(value, SymInt) and isinstance(value.node, Expr):
        return {"as_expr": {"expr_str": value.node.source(), "hint": {"as_int": int(value)}}}
    return {"as_int": int(value)}


def tensor_meta(t: Any) -> dict[str, Any]:
    """What is known of a tensor besides its elements."""
    strides = getattr(t, "__dict__", {}).get("_strides") or t.stride()
    return {
        "dtype": code_of(t.dtype), "sizes": [_size(n) for n in t.shape], "requires_grad": bool(t.requires_grad),
        "device": _device(t.device), "strides": [_size(n) for n in strides], "storage_offset": {"as_int": 0}, "layout": 7,
    }  # fmt: skip


class _Graph:
    """The JSON of a graph, in `made`."""

    def __init__(self, ep: ExportedProgram):
        self.tensors: dict[str, Any] = {}
        self.sizes: dict[str, Any] = {}
        self.floats: dict[str, Any] = {}
        self.conditions: dict[str, Any] = {}
        inputs, outputs, nodes = [], [], []
        specs = {s.arg.name: s.arg for s in ep.graph_signature.input_specs}
        for node in ep.graph.nodes:
            if node.op == "placeholder":
                arg = specs[node.name]
                inputs.append(
                    _constant(arg.value) if isinstance(arg, ConstantArgument) else self.result(node, node.name)
                )
            elif node.op == "output":
                outputs = [self.argument(a) for a in node.args[0]]
            elif node.op == "call_function":
                if node.target is not operator.getitem:
                    nodes.append(self.node(node))
            else:
                raise NotImplementedError(f"torch.export.save: the graph has a {node.op} of {node.target}")
        self.made = {
            "inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": self.tensors, "sym_int_values": self.sizes,
            "sym_bool_values": self.conditions, "is_single_tensor_return": False, "custom_obj_values": {},
            "sym_float_values": self.floats,
        }  # fmt: skip

    def result(self, node: Any, name: str, val: Any = None) -> dict[str, Any]:
        """A result of a node, of which what is known is written down."""
        val = node.meta.get("val") if val is None else val
        if isinstance(val, Tensor):
            self.tensors[name] = tensor_meta(val)
            return {"as_tensor": {"name": name}}
        if isinstance(val, (SymBool, bool)):
            self.conditions[name] = {"as_bool": bool(val)}
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(val, (SymInt, int)):
            self.sizes[name] = _size(val)
            return {"as_sym_int": {"as_name": name}}
        if isinstance(val, (SymFloat, float)):
            self.floats[name] = {"as_float": float(val)}
            return {"as_sym_float": {"as_name": name}}
        raise NotImplementedError(f"torch.export.save: it is not known what {name} is (node.meta['val'])")

    def node(self, node: Node) -> dict[str, Any]:
        schema = getattr(node.target, "_schema", None)
        name = getattr(node.target, "__name__", "")
        plain = getattr(node.target, "__module__", "") == "_operator" and name in ARITHMETIC
        if schema is None and not plain and node.target is not sym_float:
            raise NotImplementedError(f"torch.export.save: {node.target} has no schema to be known by in a file")
        if schema is None:
            inputs = [{"name": "ab"[i], "arg": self.argument(a), "kind": 1} for i, a in enumerate(node.args)]
            target, outputs = f"_operator.{name}" if plain else "torch.sym_float", [self.result(node, node.name)]
        else:
            target = f"torch.ops.{node.target}"
            inputs = [
                {"name": a.name, "arg": self.argument(v, a.declared), "kind": 1}
                for a, v in zip(schema.arguments, node.args)
            ]
            declared = {a.name: a.declared for a in schema.arguments}
            inputs += [{"name": k, "arg": self.argument(v, declared[k]), "kind": 2} for k, v in node.kwargs.items()]
            outputs = self.outputs(node, schema)
        return {
            "target": target, "inputs": inputs, "outputs": outputs, "metadata": _metadata(node), "is_hop_single_tensor_return": None,
            "name": node.name,
        }  # fmt: skip

    def outputs(self, node: Node, schema: Any) -> list[Any]:
        val = node.meta.get("val")
        if not isinstance(val, (tuple, list)):
            returns = [r for r in schema.returns if r.declared != "()"]
            return [self.result(node, node.name)] if returns else []
        parts = {user.args[1]: user.name for user in node.users if user.target is operator.getitem}
        names = [parts.get(i, f"{node.name}_unused_{i}") for i in range(len(val))]
        made = [self.result(node, name, v) for name, v in zip(names, val)]
        if len(schema.returns) == 1:
            return [{"as_tensors": [m["as_tensor"] for m in made]}]
        return made

    def argument(self, a: Any, declared: str = "") -> dict[str, Any]:
        if isinstance(a, Node):
            val = a.meta.get("val")
            if isinstance(val, Tensor):
                return {"as_tensor": {"name": a.name}}
            if isinstance(val, (SymBool, bool)):
                return {"as_sym_bool": {"as_name": a.name}}
            return {"as_sym_float" if isinstance(val, (SymFloat, float)) else "as_sym_int": {"as_name": a.name}}
        if isinstance(a, (list, tuple)):
            return self.listed(list(a), declared)
        return _constant(a)

    def listed(self, a: list[Any], declared: str) -> dict[str, Any]:
        if any(isinstance(x, Node) for x in a):
            parts = [self.argument(x) for x in a]
            kinds = {next(iter(p)) for p in parts}
            if kinds == {"as_tensor"}:
                return {"as_tensors": [p["as_tensor"] for p in parts]}
            if "as_tensor" in kinds:
                return {"as_optional_tensors": parts}
            return {"as_sym_ints": [p.get("as_sym_int") or p for p in parts]}
        if "Tensor" in declared:
            return {"as_optional_tensors": [_constant(x) for x in a]} if a else {"as_tensors": []}
        kinds = {type(x) for x in a}
        if kinds <= {bool} and a:
            return {"as_bools": a}
        if kinds <= {int, bool} and "float" not in declared:
            return {"as_ints": [int(x) for x in a]}
        if kinds <= {int, float, bool}:
            return {"as_floats": [_float(float(x)) for x in a]}
        if kinds == {str}:
            return {"as_strings": a}
        raise NotImplementedError(f"torch.export.save: an archive holds no list such as {a}")


def _metadata(node: Node) -> dict[str, str]:
    found = {}
    if node.meta.get("stack_trace"):
        found["stack_trace"] = node.meta["stack_trace"]
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join(f"{key},{path},{kind}" for key, (path, kind) in stack.items())
    return found
