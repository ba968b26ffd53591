"""Runs graphs node by node, each by its own Python function: what programs are compared with."""

import numpy as np

import flambeau as torch
from flambeau._compile.capture import Capture
from flambeau._compile.graph import Value, replaced
from flambeau._compile.program import Program
from flambeau._tensor import detached


def captured(function, inputs):
    """The graph of a call, and the number of its outputs."""
    with Capture(inputs, external=lambda t: False) as tape:
        out = function(*inputs)
    return tape.finish([out] if isinstance(out, torch.Tensor) else list(out))


def interpreted(graph, inputs):
    values = {v: detached(t) for v, t in graph.constants.items()}
    values.update(zip(graph.inputs, map(detached, inputs)))
    with torch.no_grad():
        for node in graph.nodes:
            args, named = replaced((node.args, node.named or {}), Value, values.__getitem__)
            out = node.op(*args, **named)
            values.update(zip(node.outs, out if node.several else (out,)))
    return [values[v] for v in graph.outputs]


def same_bits(a, b):
    x, y = a._array, b._array
    if a.dtype is not b.dtype or x.shape != y.shape:
        return False
    if not all(n < 2 or s == t for n, s, t in zip(x.shape, x.strides, y.strides)):
        return False
    x, y = np.array(x, order="C"), np.array(y, order="C")
    if a.is_floating_point():  # one NaN is as good as another
        x[x != x] = y[y != y] = 0
        if not torch.equal(torch.isnan(a), torch.isnan(b)):
            return False
    return x.tobytes() == y.tobytes()


def agrees(function, make, runs=3):
    """Whether the program of a function does with further inputs what its nodes do one by one, writes to inputs included."""
    graph = captured(function, make(0))
    program = Program(graph)
    for seed in range(1, 1 + runs):
        given, other = make(seed), make(seed)
        expected, found = interpreted(graph, given), program.run(other)
        assert len(found) == len(expected)
        for a, b in zip([*found, *other], [*expected, *given]):
            assert same_bits(a, b), (graph, seed, a, b)
    return program
