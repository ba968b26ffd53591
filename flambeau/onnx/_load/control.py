"""ONNX operators with graphs inside: branches, loops, and functions of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .operators import Node, axis_of, operator
from .program import Program, as_tensor

__all__: list[str] = []


def _graph(node: Node, name: str, inputs: int | None = None) -> Program:
    found = node.get(name)
    if not isinstance(found, Program):
        raise OnnxModelError(f"the graph {name!r} is missing")
    if inputs is not None and len(found.inputs) != inputs:
        raise OnnxModelError(f"the graph {name!r} takes {len(found.inputs)} inputs, and gets {inputs}")
    return found


def _single(value: Any) -> Any:
    """The number or truth that a value of one element holds."""
    if isinstance(value, Tensor):
        return value.item()
    return value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else value


@operator("Call", raw=True, domain="flambeau")
def call(node: Node, *inputs: Any, values: Any = None, device: Any = None) -> Any:
    """A function of the model. Inputs that are not given are absent in it, too."""
    body = _graph(node, "body")
    if len(inputs) > len(body.inputs):
        raise OnnxModelError(f"{body.label} takes {len(body.inputs)} inputs, and gets {len(inputs)}")
    return tuple(body.run([*inputs, *[None] * (len(body.inputs) - len(inputs))], {}, device))


@operator("If", raw=True)
def branch(node: Node, condition: Any, values: Any = None, device: Any = None) -> Any:
    taken = _graph(node, "then_branch" if _single(condition) else "else_branch", 0)
    return tuple(taken.run([], values, device))


@operator("Loop", raw=True)
def loop(node: Node, count: Any, condition: Any = None, *state: Any, values: Any = None, device: Any = None) -> Any:
    body = _graph(node, "body", 2 + len(state))
    carried = len(state)
    limit = None if count is None else int(_single(count))
    going = condition is None or bool(_single(condition))
    collected: list[list[Any]] = [[] for _ in body.outputs[1 + carried :]]
    done = 0
    while going and (limit is None or done < limit):
        made = body.run([np.asarray(done), np.asarray(True), *state], values, device)
        going = bool(_single(made[0]))
        state = tuple(made[1 : 1 + carried])
        for into, value in zip(collected, made[1 + carried :]):
            into.append(as_tensor(value, device))
        done += 1
    return (*state, *(ops.stack(c) if c else ops.zeros((0,), device=device) for c in collected))


@operator("Scan", raw=True)
def scan(node: Node, *inputs: Any, values: Any = None, device: Any = None) -> Any:
    count = node.int("num_scan_inputs")
    if count is None or not 1 <= count <= len(inputs) or node.opset < 9:
        raise OnnxModelError("Scan needs num_scan_inputs that fits its inputs, and opset 9 or later")
    carried = len(inputs) - count
    body = _graph(node, "body", len(inputs))
    given = [as_tensor(v, device) for v in inputs]
    state, parts = given[:carried], given[carried:]
    scans = len(body.outputs) - carried
    in_axes, in_turns = node.list("scan_input_axes", [0] * count), node.list("scan_input_directions", [0] * count)
    out_axes, out_turns = node.list("scan_output_axes", [0] * scans), node.list("scan_output_directions", [0] * scans)
    axes = [axis_of(a, p.ndim) for a, p in zip(in_axes, parts)]
    length = parts[0].shape[axes[0]]
    if any(p.shape[a] != length for p, a in zip(parts, axes)):
        raise OnnxModelError("the inputs of Scan have different lengths")
    collected: list[list[Any]] = [[] for _ in range(scans)]
    for step in range(length):
        now = [p.select(a, length - 1 - step if turn else step) for p, a, turn in zip(parts, axes, in_turns)]
        made = [as_tensor(v, device) for v in body.run([*state, *now], values, device)]
        state = made[:carried]
        for into, value in zip(collected, made[carried:]):
            into.append(value)
    results = [ops.stack(c[::-1] if turn else c, axis) for c, axis, turn in zip(collected, out_axes, out_turns)]
    return (*state, *results)


@operator("SequenceMap", raw=True)
def sequence_map(node: Node, first: Any, *others: Any, values: Any = None, device: Any = None) -> Any:
    body = _graph(node, "body", 1 + len(others))
    made = []
    for i, value in enumerate(first):
        rest = [o[i] if isinstance(o, list) else o for o in others]
        made.append([as_tensor(v, device) for v in body.run([value, *rest], values, device)])
    return tuple([m[i] for m in made] for i in range(len(body.outputs)))
