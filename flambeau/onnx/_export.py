"""`export`: a model is recorded on examples, and the recording is written as an ONNX model."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .._autograd.modes import no_grad
from .._compile.graph import values_in
from .._core.symbolic import SymInt
from .._kernel.native.site import Site
from .._library.schema_texts import gives_view, schemas_of
from .._ops.registry import ops
from .._tensor import Tensor
from ..export.exported_program import ExportedProgram
from ..jit._trace_code import prune
from ..jit._tracer import ARITHMETIC, Tracer, TracerWarning, Value
from ..jit._tracing import record_call
from ..nn.modules.module import Module
from ..utils._pytree import tree_leaves
from . import _table_folds, _table_layers, _table_places, _table_shapes
from ._builder import Builder
from ._load import load
from ._table import row_of
from ._table_places import put_between
from .errors import OnnxExporterError, OnnxExporterWarning, UnsupportedOperatorError

_FILES = (
    _table_folds,
    _table_layers,
    _table_places,
    _table_shapes,
)  # their rows are in the table once they are imported
_VERSIONS = range(11, 22)
_DEFAULT = 18
_LAST = (1 << 63) - 1
custom: dict[tuple[str, int], Any] = {}  # forms that programs registered: (operator, first version) -> function


class _State(threading.local):
    exporting = False


_state = _State()


def is_in_onnx_export() -> bool:
    """Whether a model is being exported now."""
    return _state.exporting


def _load_onnx() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError as error:
        raise OnnxExporterError(
            "torch.onnx.export needs the package onnx, which is not installed: pip install flambeau[onnx]"
        ) from error
    return onnx


@contextmanager
def select_model_mode_for_export(model: Any, mode: Any) -> Any:
    """Inside, a model is in evaluation or training as the export asks; afterwards as before."""
    if not isinstance(model, Module) or getattr(mode, "name", "EVAL") == "PRESERVE":
        yield
        return
    before = [(m, m.training) for m in model.modules()]
    model.train(getattr(mode, "name", "EVAL") == "TRAINING")
    try:
        yield
    finally:
        for module, training in before:
            module.__dict__["training"] = training


class ONNXProgram:
    """An exported model, as `export(..., dynamo=True)` gives it. Called, it runs what was exported and gives a tuple of tensors.

    `inputs` and `results` are those of the run that was recorded, `model` is what it was recorded from.
    """

    def __init__(self, model_proto: Any, model: Any = None, inputs: Any = (), results: Any = ()):
        self.model_proto, self.model, self.inputs, self.results = model_proto, model, list(inputs), list(results)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        with no_grad():
            made = load(self.model_proto.SerializeToString())(*args, **kwargs)
        return made if isinstance(made, tuple) else (made,)

    def save(self, destination: Any, *, external_data: bool | None = None, **options: Any) -> None:
        """Writes the model to a path or file object; with `external_data` its weights to a file beside it."""
        _refuse("ONNXProgram.save", options)
        _write(self.model_proto, destination, bool(external_data))


def _refuse(name: str, options: dict[str, Any]) -> None:
    """Arguments of PyTorch that ask for something which is not done here."""
    asked = [option for option, value in options.items() if value]
    if asked:
        raise NotImplementedError(f"{name}: the arguments {', '.join(asked)} are not supported: leave them out")


def _write(model: Any, f: Any, external: bool = False) -> None:
    if external:
        if not isinstance(f, (str, os.PathLike)):
            raise ValueError("external_data needs a path: the weights are written to a file beside the model")
        path = os.fspath(f)
        # The package moves the weights out of what it is given.
        whole = type(model).FromString(model.SerializeToString())
        options = {"save_as_external_data": True, "location": f"{os.path.basename(path)}.data", "size_threshold": 0}
        _load_onnx().save_model(whole, path, **options)
        return
    data = model.SerializeToString()
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            file.write(data)
    else:
        f.write(data)


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Any = None,
    export_params: bool = True,
    verbose: bool | None = None,
    training: Any = None,
    input_names: Any = None,
    output_names: Any = None,
    operator_export_type: Any = None,
    opset_version: int | None = None,
    do_constant_folding: bool = True,
    dynamic_axes: Any = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Any = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
    dynamo: bool = False,
    dynamic_shapes: Any = None,
    custom_translation_table: Any = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    external_data: bool = False,
) -> Any:
    """Writes a model as ONNX to a path or file object. It runs once on `args`, as in `torch.jit.trace`.

    `dynamic_axes` names dimensions that may have other sizes: {"input": {0: "batch"}}. A program of `torch.export` brings its own
    arguments and sizes. `verify` runs what was exported and warns if it gives something else; `external_data` writes weights to a file
    beside the model. Needs the package onnx.
    """
    asked = {
        "export_modules_as_functions": export_modules_as_functions,
        "custom_translation_table": custom_translation_table,
    }
    asked |= {"report": report, "profile": profile, "dump_exported_program": dump_exported_program}
    _refuse("torch.onnx.export", asked)
    onnx = _load_onnx()
    if isinstance(model, ExportedProgram):
        model, args, kwargs, dynamic_shapes, training = _of_program(model, args, kwargs, dynamic_shapes)
    opset = _DEFAULT if opset_version is None else int(opset_version)
    if opset not in _VERSIONS:
        raise ValueError(f"opset_version {opset} is not supported: {_VERSIONS[0]} to {_VERSIONS[-1]} are")
    if isinstance(args, Tensor):
        args = (args,)
    args = tuple(args)
    named = dict(kwargs or {})
    if args and isinstance(args[-1], dict) and not named and _are_names(model, args[-1]):
        args, named = args[:-1], args[-1]  # the last dictionary names arguments
    tracer, parameters, out = _recorded(model, args, named, training)
    axes = _dynamic(dynamic_axes, dynamic_shapes, parameters, input_names)
    proto = _Writer(onnx, opset, tracer).model(
        parameters, out, list(input_names or ()), list(output_names or ()), axes, bool(export_params),
        bool(keep_initializers_as_inputs), dict(custom_opsets or {}),
    )  # fmt: skip
    inputs = [v.example for _, part in parameters for v in values_in(part)]
    program = ONNXProgram(proto, model, inputs, [v.example for v in values_in(out)])
    if verify:
        check(program)
    if f is not None:
        _write(proto, f, external_data)
    return program if dynamo or f is None else None


def _are_names(model: Any, given: dict[Any, Any]) -> bool:
    """Whether the keys of a dictionary are arguments of a model; otherwise it is one itself."""
    try:
        parameters = inspect.signature(model.forward if isinstance(model, Module) else model).parameters.values()
    except (TypeError, ValueError):
        return all(isinstance(k, str) for k in given)
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return all(k in names for k in given) or any(p.kind is p.VAR_KEYWORD for p in parameters)


def check(program: ONNXProgram) -> None:
    """Warns if an exported program does not give what the model gave."""
    for place, (made, wanted) in enumerate(zip(program(*program.inputs), map(ops.as_tensor, program.results))):
        if made.shape != wanted.shape or not ops.allclose(made.double(), wanted.double(), 1e-3, 1e-4, equal_nan=True):
            warnings.warn(
                f"the exported model gives another result number {place} than the model",
                OnnxExporterWarning,
                stacklevel=3,
            )


class _Mode(NamedTuple):
    name: str


def _of_program(ep: ExportedProgram, args: Any, kwargs: Any, dynamic_shapes: Any) -> tuple[Any, ...]:
    """An exported program as a module with arguments and the sizes that change."""
    if not args and not kwargs:
        if ep.example_inputs is None:
            raise OnnxExporterError("the exported program has no example inputs: give args")
        args, kwargs = ep.example_inputs
    if dynamic_shapes is None:
        dynamic_shapes = {}
        for node in ep.graph.nodes:
            val = node.meta.get("val")
            if node.op == "placeholder" and node.name in ep.graph_signature.user_inputs and isinstance(val, Tensor):
                sizes = {d: str(s) for d, s in enumerate(val.shape) if isinstance(s, SymInt)}
                dynamic_shapes[node.name] = {
                    d: s if s.isidentifier() else f"{node.name}_dim_{d}" for d, s in sizes.items()
                }
    return ep.module(check_guards=False), tuple(args), kwargs, dynamic_shapes, _Mode("PRESERVE")


def _has_form(op: str) -> bool:
    """Whether an operator, or a number computed from sizes, can be written."""
    name = op if "::" in op else f"aten::{op}"
    return op in ARITHMETIC or row_of(op) is not None or any(n == name for n, _ in custom)


def _sizes_in(node: Any) -> list[int]:
    """The plain numbers that a node is given as sizes."""
    return [
        v
        for schema in schemas_of(node.op).values()
        for a, value in zip(schema.positional, node.args)
        if "SymInt" in a.declared
        for v in tree_leaves(value)
        if isinstance(v, int) and v > 1
    ]


class _Recorder(Tracer):
    """A recording of operators that have a form in ONNX, as far as there are any."""

    exports = True  # conditions choose among the results of both branches

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._taken_apart: set[str] = set()  # operators that are being recorded in parts
        self.parts: dict[int, str] = {}  # nodes -> the operator that they are part of

    def in_parts(self, op: str, function: Any, args: Any, named: dict[str, Any]) -> Any:
        if _has_form(op) or op in self._taken_apart:
            return None
        function = function.__self__.slow if isinstance(getattr(function, "__self__", None), Site) else function
        inside = getattr(function, "__wrapped__", None)  # the function itself, behind what asks
        if inside is None:
            return None
        items, nodes, constants = self.call.items, len(self.call.items), len(self.constants)
        self._taken_apart.add(op)
        try:
            with self.again():
                out = inside(*args, **named)
            told = all(self.is_known(t) for t in tree_leaves(out) if isinstance(t, Tensor))
            if told and len(self.constants) == constants and all(_has_form(n.op) for n in items[nodes:]):
                self.parts.update((id(n), op) for n in items[nodes:])
                return out
        except Exception:  # the operator itself says what is wrong
            pass
        finally:
            self._taken_apart.discard(op)
        del items[nodes:], self.constants[constants:]
        return None


def _recorded(model: Any, args: tuple[Any, ...], named: dict[str, Any], training: Any) -> tuple[Any, ...]:
    """A recording of the model."""
    _state.exporting = True
    try:
        with no_grad(), select_model_mode_for_export(model, training), warnings.catch_warnings():
            warnings.simplefilter("default", TracerWarning)
            return record_call(model, args, named, _Recorder)
    finally:
        _state.exporting = False


def _each_input(sizes: Any) -> Iterator[Any]:
    """What is said of each tensor of an argument, which may be a structure of them."""
    nested = isinstance(sizes, (list, tuple)) and any(isinstance(part, (dict, list, tuple)) for part in sizes)
    if nested or (isinstance(sizes, dict) and any(not isinstance(k, int) for k in sizes)):
        for part in sizes.values() if isinstance(sizes, dict) else sizes:
            yield from _each_input(part)
    else:
        yield sizes


def _dynamic(dynamic_axes: Any, dynamic_shapes: Any, parameters: Any, input_names: Any) -> dict[str, dict[int, str]]:
    """{name: {dimension: symbol}} of all forms in which dynamic dimensions are given."""
    found: dict[str, dict[int, str]] = {}
    for name, dims in (dynamic_axes or {}).items():
        items = (
            dims.items()
            if isinstance(dims, dict)
            else [(d, f"{name}_dynamic_axes_{i + 1}") for i, d in enumerate(dims)]
        )
        found[name] = {int(d): str(symbol) for d, symbol in items}
    names = list(input_names or ()) or [n for n, _ in parameters]
    given = dynamic_shapes or {}
    pairs = (
        zip(names, given)
        if isinstance(given, (tuple, list))
        else ((dict(zip([n for n, _ in parameters], names)).get(k, k), v) for k, v in given.items())
    )
    flat = [(name, list(_each_input(dims))) for name, dims in pairs]
    for name, dims in [(f"{n}.{i}" if len(parts) > 1 else n, d) for n, parts in flat for i, d in enumerate(parts)]:
        items = dims.items() if isinstance(dims, dict) else enumerate(dims or ())
        symbols = {int(d): str(getattr(s, "__name__", s)) for d, s in items if s is not None}
        if symbols:
            found[name] = {d: s if s.isidentifier() else f"{name}_dim_{d}" for d, s in symbols.items()}
    return found


class _Writer:
    """Writes a recording as an ONNX model."""

    def __init__(self, onnx: Any, opset: int, tracer: Any):
        self.onnx, self.opset, self.tracer = onnx, opset, tracer
        self.b = Builder(onnx, opset)

    def model(
        self, parameters: Any, out: Any, input_names: list[str], output_names: list[str], axes: dict[str, dict[int, str]],
        export_params: bool, as_inputs: bool, domains: dict[str, int],
    ) -> Any:  # fmt: skip
        b, helper = self.b, self.onnx.helper
        b.open = bool(axes)
        outputs = list(values_in(out))
        prune(self.tracer.top, set(outputs))
        inputs = self._inputs(parameters, input_names, axes)
        examples = {self.b.names[v]: v.example for _, part in parameters for v in values_in(part)}
        changing = {examples[k].shape[d] for k, dims in axes.items() if k in examples for d in dims} - {0, 1}
        for node in self.tracer.top.nodes():
            if id(node) in self.tracer.parts and any(
                abs(v - n) < 2 or v % n == 0 for v in _sizes_in(node) for n in changing
            ):
                raise OnnxExporterError(
                    f"aten::{self.tracer.parts[id(node)]} is written in parts, of which {node.op} has sizes of the example: it cannot be "
                    "exported with sizes that change"
                )
            self._node(node)
        results, final = [], []
        for i, value in enumerate(outputs):
            name = output_names[i] if i < len(output_names) else f"output_{i}" if len(outputs) > 1 else "output"
            final.append(helper.make_node("Identity", [b.name(value)], [name], name=f"/Identity_{name}"))
            kind = b.element(value.example.dtype) if isinstance(value.example, Tensor) else 7
            shape = self._output_shape(value, axes.get(name), bool(axes))
            results.append(helper.make_tensor_value_info(name, kind, shape))
        self._drop_identities(final, outputs, {i.name for i in inputs})
        stored = list(b.initializers.values())
        if as_inputs or not export_params:
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in stored
                       if as_inputs or not t.name.startswith("onnx::")]  # fmt: skip
        if not export_params:
            stored = [t for t in stored if t.name.startswith("onnx::")]
        graph = helper.make_graph([*b.nodes, *final], "main_graph", inputs, results, stored)
        versions = [helper.make_opsetid("", self.opset)]
        versions += [helper.make_opsetid(d, domains.get(d, 1)) for d in sorted(b.domains - {""})]
        made = helper.make_model(graph, opset_imports=versions, producer_name="flambeau")
        made.ir_version = min(made.ir_version, 8 if self.opset < 19 else 9 if self.opset < 21 else 10)
        return self._with_shapes(made, outputs) if axes else made

    def _with_shapes(self, model: Any, outputs: list[Value]) -> Any:
        """The model with shapes of results as ONNX infers them; what it cannot infer gets symbols."""
        made = self.onnx.shape_inference.infer_shapes(model)
        for result, value in zip(made.graph.output, outputs):
            kind = result.type.tensor_type
            if not kind.HasField("shape") and isinstance(value.example, Tensor):
                for d in range(len(value.example.shape)):
                    kind.shape.dim.add().dim_param = f"{result.name}_dim_{d}"
                if not value.example.shape:
                    kind.shape.SetInParent()
        return made

    def _drop_identities(self, final: list[Any], outputs: list[Value], inputs: set[str]) -> None:
        """A result that a node makes for nobody else gets its final name at once."""
        b = self.b
        for node in list(final):
            inner, name = node.input[0], node.output[0]
            makers = [m for m in b.nodes if inner in m.output]
            users = sum(list(m.input).count(inner) for m in (*b.nodes, *final))
            if len(makers) == 1 and users == 1 and inner not in inputs:
                place = list(makers[0].output).index(inner)
                makers[0].output[place] = name
                final.remove(node)

    def _inputs(self, parameters: Any, names: list[str], axes: dict[str, dict[int, str]]) -> list[Any]:
        made, number = [], 0
        for parameter, structure in parameters:
            values = list(values_in(structure))
            for i, value in enumerate(values):
                name = names[number] if number < len(names) else parameter if len(values) == 1 else f"{parameter}.{i}"
                number += 1
                self.b.names[value] = name
                shape = [axes.get(name, {}).get(d, n) for d, n in enumerate(value.example.shape)]
                made.append(self.onnx.helper.make_tensor_value_info(name, self.b.element(value.example.dtype), shape))
        return made

    def _output_shape(self, value: Value, named: dict[int, str] | None, open_sizes: bool) -> Any:
        if not isinstance(value.example, Tensor):
            return [1]
        sizes = list(value.example.shape)
        if named is not None:
            return [named.get(d, named.get(d - len(sizes), n)) for d, n in enumerate(sizes)]
        return None if open_sizes else sizes

    def _node(self, node: Any) -> None:
        row = self._row(node.op)
        if row is None and self._is_constant(node):
            return
        if row is None:
            name = node.op if "::" in node.op else f"aten::{node.op}"
            raise UnsupportedOperatorError(name, self.opset)
        made = row(self.b, node, *node.args, **node.named)
        results = made if isinstance(made, (list, tuple)) else [made]
        for value, name in zip(node.outs, results):
            self.b.names[value] = name
        if node.op.endswith("_") and not node.op.endswith("__") and isinstance(node.args[0], Value):
            self._written(node.args[0], results[0])

    def _is_constant(self, node: Any) -> bool:
        """Whether a node depends on nothing (`linspace`, a window); if so its results are stored."""
        random = any(a.name == "generator" for s in schemas_of(node.op).values() for a in s.arguments)
        if random or "::" in node.op or next(values_in([*node.args, *node.named.values()]), None) is not None:
            return False
        for value in node.outs:
            self.b.names[value] = self.b.constant(value.example.numpy(), value.example.dtype.numpy)
        return True

    def _row(self, op: str) -> Any:
        name = op if "::" in op else f"aten::{op}"
        fitting = [v for (n, v) in custom if n == name and v <= self.opset]
        if fitting:
            return _custom_row(custom[name, max(fitting)])
        return row_of(op)

    def _written(self, value: Value, name: str) -> None:
        """A write in place: the tensor now stands elsewhere in the graph, and so does what it is a part of."""
        b = self.b
        b.names[value] = name
        maker = value.node
        if maker is None or next(values_in(maker.args), None) is None:
            return
        if not gives_view(maker.op) or value.example._view is None:
            return
        base = maker.args[0]
        if maker.op not in ("select", "slice") or (maker.op == "select" and isinstance(maker.args[2], Value)):
            raise OnnxExporterError(f"a write in place into a part made by {maker.op} cannot be exported")
        dim = maker.args[1] % len(base.example.shape)
        if maker.op == "select":
            start, part = maker.args[2], b.unsqueeze(name, [dim])
            end = _LAST if start == -1 else start + 1
        else:
            (start, end, step), part = (*maker.args[2:5], *(None, None, 1)[len(maker.args[2:5]) :]), name
            if step != 1:
                raise OnnxExporterError("a write in place into every second element cannot be exported")
        self._written(base, put_between(b, b.name(base), part, dim, start, _LAST if end is None else end))


def _custom_row(function: Any) -> Any:
    from .symbolic_helper import GraphContext, GraphValue

    def row(b: Builder, node: Any, *args: Any, **named: Any) -> Any:
        graph = GraphContext(b)
        values = [GraphValue(b, a) for a in args]
        made = function(graph, *values, **named)
        return [v.name for v in made] if isinstance(made, (tuple, list)) else made.name

    return row
