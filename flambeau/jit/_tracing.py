"""`trace`: runs a module or function on examples and makes a program of what it did."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from .._autograd.modes import no_grad
from .._compile.graph import replaced, values_in
from .._errors.frames import warn_user
from .._ops.registry import ops
from .._tensor import Tensor
from ..nn.modules.module import Module
from ..utils._pytree import tree_leaves
from ._adoption import Adoption
from ._program import Program
from ._recorded_graph import recorded_graph
from ._script_module import ScriptModule
from ._trace_code import Writer, traced_module, type_of
from ._trace_scripts import Scripts
from ._tracer import TracedFloat, TracedInt, Tracer, TracerWarning, Value, watched
from ._units import ScriptFunction


class TracingCheckError(Exception):
    """A trace that does not compute what the program does."""


def _copied(example: Any) -> Any:
    """The example with tensors of its own."""
    if isinstance(example, Tensor):
        made = example.detach().clone()
        return made.requires_grad_(example.requires_grad) if example.requires_grad else made
    if isinstance(example, (tuple, list)):
        parts = [_copied(e) for e in example]
        return type(example)(*parts) if hasattr(example, "_fields") else type(example)(parts)
    if isinstance(example, dict):
        return {k: _copied(v) for k, v in example.items()}
    type_of(example)
    raise RuntimeError(
        f"Type '{type(example).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of "
        "Tensors can be traced"
    )


def declare(tracer: Tracer, example: Any, name: str) -> Any:
    """Makes the tensors of an example inputs of a recording; gives their values in the same structure."""
    if isinstance(example, Tensor):
        return tracer.add_input(example, name)
    if isinstance(example, dict):
        return {k: declare(tracer, v, "") for k, v in example.items()}
    if isinstance(example, (tuple, list)):
        return (list if isinstance(example, list) else tuple)(declare(tracer, e, "") for e in example)
    return example


def found(tracer: Tracer, out: Any, strict: bool = True, top: bool = True) -> Any:
    """The values of results, in their structure."""
    if isinstance(out, (Tensor, TracedInt, TracedFloat)):
        return tracer.value_of(out)
    if isinstance(out, (list, dict)) and strict:
        kind = type(out).__name__
        raise RuntimeError(
            f"Encountering a {kind} at the output of the tracer might cause the trace to be incorrect, this is only valid if "
            f"the container structure does not change based on the module's inputs. Consider using a constant container "
            "instead (for a list, use a tuple; for a dict, a NamedTuple), or pass strict=False to call torch.jit.trace"
        )
    if isinstance(out, dict):
        return {k: found(tracer, v, strict, False) for k, v in out.items()}
    if isinstance(out, (tuple, list)):
        return (list if isinstance(out, list) else tuple)(found(tracer, o, strict, False) for o in out)
    if top or out is not None:
        kind = type(out).__name__
        if top and not isinstance(out, (int, float)):
            raise RuntimeError(
                f"Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions, got {kind}"
            )
    return out


def placed_names(function: Any) -> tuple[list[str], bool]:
    """The names of the parameters that take one argument by position, and whether there may be more arguments."""
    try:
        found = inspect.signature(function.forward if isinstance(function, Module) else function).parameters.values()
    except (TypeError, ValueError):
        return [], True
    placed = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return placed, any(p.kind is p.VAR_POSITIONAL for p in found)


def _parameter_names(function: Any, count: int) -> list[str]:
    names = placed_names(function)[0][:count]
    first = int(isinstance(function, Module) or inspect.ismethod(function))  # `self` counts, too
    return names + [f"argument_{i + first}" for i in range(len(names), count)]


def as_tuple(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, (tuple, list)) else (example,)


def record(
    root: Module | None,
    function: Any,
    example: Any,
    named: Any,
    strict: bool = True,
    constants: list[Any] | None = None,
    scripts: Scripts | None = None,
    kind: type[Tracer] = Tracer,
) -> tuple[Any, ...]:
    """Runs a function in a recording: (tracer, [(name, values of an input)], values of the results)."""
    args, options = _copied(as_tuple(example)) if named is None else (), None if named is None else _copied(named)
    tracer = kind(root, constants, scripts)
    if named is None:
        parameters = [(n, declare(tracer, a, n)) for n, a in zip(_parameter_names(function, len(args)), args)]
    else:
        parameters = [(n, declare(tracer, a, n)) for n, a in options.items()]  # type: ignore[union-attr]
    with watched(), tracer:
        out = function(**options) if named is not None else function(*args)  # type: ignore[arg-type]
    return tracer, parameters, found(tracer, out, strict)


def _is_traced(value: Any) -> bool:
    if isinstance(value, (tuple, list, dict)):
        return bool(value) and all(map(_is_traced, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Tensor)


def record_call(
    model: Any, args: tuple[Any, ...], named: dict[str, Any], kind: type[Tracer] = Tracer
) -> tuple[Any, ...]:
    """Like `record`, for a call in which arguments that are no tensors are part of the program."""
    names = _parameter_names(model, len(args))
    fixed = {k: v for k, v in (*enumerate(args), *named.items()) if not _is_traced(v)}
    examples = {str(k): v for k, v in (*enumerate(args), *named.items()) if k not in fixed}

    def call(**given: Any) -> Any:
        placed = [fixed[i] if i in fixed else given.pop(str(i)) for i in range(len(args))]
        return model(*placed, **given, **{k: v for k, v in fixed.items() if isinstance(k, str)})

    root = model if isinstance(model, Module) else None
    tracer, parameters, out = record(root, call, None, examples, strict=False, kind=kind)
    return tracer, [(names[int(n)] if n.isdigit() else n, v) for n, v in parameters], out


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """Runs a module or function on examples and records the operations: the result does the same operations on other
    inputs. Sizes are followed, but branches and loops are those of the example: use `torch.jit.script` to keep them.

    >>> import flambeau as torch
    >>> traced = torch.jit.trace(lambda x: x.reshape(x.size(0), -1).sum(1), torch.ones(2, 2, 2))
    >>> traced(torch.ones(3, 2, 2))
    tensor([4., 4., 4.])
    >>> print(traced.code)
    def <lambda>(x: Tensor) -> Tensor:
      _2 = torch.size(x, 0)
      _3 = torch.reshape(x, [_2, -1])
      _4 = torch.sum(_3, [1], False)
      return _4
    <BLANKLINE>
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is."
        )
        return func
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if example_kwarg_inputs is not None and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    owner = getattr(func, "__self__", None)
    if isinstance(func, Module) or (isinstance(owner, Module) and func.__name__ == "forward"):
        module = func if isinstance(func, Module) else owner
        given = example_inputs if example_kwarg_inputs is None else example_kwarg_inputs
        return trace_module(
            module, {"forward": given}, optimize, check_trace, check_inputs, check_tolerance, strict,
            example_inputs_is_kwarg=example_kwarg_inputs is not None,
        )  # fmt: skip
    tracer, parameters, out = record(None, func, example_inputs, example_kwarg_inputs, strict, scripts=Scripts(None))
    _check_constants(tracer)
    program = Program()
    writer = Writer(tracer, {}, Adoption(program, tracer.constants))
    name = getattr(func, "__name__", "forward")
    writer.top("forward", parameters, out)
    program.add("__torch__.forward", writer.methods[""][0])
    program.constants = tuple(tracer.constants)
    made = ScriptFunction(program, "__torch__.forward", func, name)
    if check_trace:
        _check(made, func, example_inputs, example_kwarg_inputs, check_inputs, check_tolerance)
    return made


def _check_constants(tracer: Tracer) -> None:
    if any(value.requires_grad and not value.is_leaf for value in tracer.constants):
        raise RuntimeError(
            "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input"
        )


def _check(traced: Any, function: Any, example: Any, named: Any, more: Any, tolerance: float) -> None:
    """Warns if the program and what was recorded differ on the examples."""
    calls = [((), named)] if named is not None else [(as_tuple(example), {})]
    calls += [(as_tuple(inputs), {}) for inputs in more or ()]
    for args, options in calls:
        with no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want, got = function(*_copied(args), **_copied(options)), traced(*_copied(args), **_copied(options))
        for number, (a, b) in enumerate(
            zip(*([t for t in tree_leaves(v) if isinstance(t, Tensor)] for v in (want, got))), 1
        ):
            if a.shape != b.shape or not ops.allclose(a, b, tolerance, tolerance * 10, equal_nan=True):
                warn_user(
                    f"Output nr {number}. of the traced function does not match the corresponding output of the Python function",
                    TracerWarning,
                )


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Traces methods of a module on examples, {"forward": inputs, …}; gives a module with these methods."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    constants: list[Any] = []
    scripts = Scripts(mod)
    recordings = []
    for name, example in inputs.items():
        function = mod if name == "forward" else getattr(mod, name)
        named = example if example_inputs_is_kwarg else None
        tracer, parameters, out = record(mod, function, example, named, strict, constants, scripts)
        _check_constants(tracer)
        recordings.append((name, tracer, parameters, out))

    def write(writer: Writer) -> None:
        for name, tracer, parameters, out in recordings:
            writer.tracer = tracer
            writer.top(name, parameters, out)

    made = traced_module(recordings[-1][1], mod, write)
    if check_trace:
        for name, example in inputs.items():
            function = mod if name == "forward" else getattr(mod, name)
            mine = made if name == "forward" else getattr(made, name)
            named = example if example_inputs_is_kwarg else None
            more = check_inputs if name == "forward" else None
            _check(
                mine,
                function,
                example,
                named,
                [m[name] if isinstance(m, dict) else m for m in more or ()],
                check_tolerance,
            )
    return made


def _get_trace_graph(
    f: Any,
    args: Any = (),
    kwargs: Any = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> tuple[Any, ...]:
    """The graph of a trace, with the sizes of all values and the scopes that hooks set, and the results."""
    if kwargs:
        raise NotImplementedError("_get_trace_graph takes no keyword arguments for the function")
    root = f if isinstance(f, Module) else None
    tracer, parameters, out = record(root, f, args, None, strict)
    graph = recorded_graph(tracer, list(values_in(out)))
    given = (tuple(replaced(value, Value, _example) for _, value in parameters),) if return_inputs else ()
    return graph, replaced(out, Value, _example), *given


def _example(value: Value) -> Any:
    return value.example
