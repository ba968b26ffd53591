"""Programs as users write them, called several times with changes in between, and how compiled ones are compared."""

import flambeau as torch
from flambeau.utils._pytree import tree_leaves


class Programs(dict):
    """Programs by their names."""

    def program(self, run):
        """A program: `run(wrap)` yields results; `wrap` is `torch.compile` or nothing."""
        self[run.__name__] = run
        return run


def x(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape or (2, 3)).numel()).view(shape or (2, 3))


def compare(run):
    """Asserts that a compiled program gives what it gives eagerly."""
    found = []
    for wrap in (lambda f: f, torch.compile):
        torch.manual_seed(7)
        found.append([tree_leaves(part) for part in run(wrap)])
    eager, compiled = found
    assert len(eager) == len(compiled)
    for i, (expected, got) in enumerate(zip(eager, compiled)):
        assert len(expected) == len(got), i
        for a, b in zip(expected, got):
            assert a.dtype is b.dtype and torch.equal(a, b), (i, a, b)
