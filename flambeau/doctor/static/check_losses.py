"""Reads what goes into losses."""

from __future__ import annotations

import ast

from .source import Source

# Classes and functions of losses that the doctor knows, by what they take.
_TAKES = {
    "cross_entropy": "logits", "CrossEntropyLoss": "logits", "nll_loss": "log", "NLLLoss": "log",
    "binary_cross_entropy": "probability", "BCELoss": "probability",
    "binary_cross_entropy_with_logits": "binary logits", "BCEWithLogitsLoss": "binary logits",
}  # fmt: skip


def check(source: Source) -> None:
    for call in source.calls:
        _loss(source, call)
        _logarithm(source, call)


def loss_taking(source: Source, call: ast.Call) -> str:
    """What a call of a loss takes ("logits", "log", …), or ""."""
    called = source.called(call)
    if called in _TAKES and called.islower():
        return _TAKES[called]
    if isinstance(call.func, ast.Call):
        return _TAKES.get(source.called(call.func), "")
    taken = {
        _TAKES.get(kind.rpartition(".")[2], "")
        for kind in source.kinds(call.func)
        if "torch" in kind or "flambeau" in kind
    }
    return taken.pop() if len(taken) == 1 else ""


def _loss(source: Source, call: ast.Call) -> None:
    takes = loss_taking(source, call)
    if not takes or not call.args:
        return
    if len(call.args) > 1 and ast.dump(call.args[0]) == ast.dump(call.args[1]):
        return  # the entropy of targets
    made = source.producers(call.args[0])
    if made == {"softmax"}:
        if takes == "logits":
            source.find(
                "softmax-before-cross-entropy",
                call,
                "The input of this cross entropy comes out of a softmax; it takes logits.",
            )
        elif takes == "log":
            source.find(
                "softmax-into-nll",
                call,
                "The input of this NLL loss comes out of a softmax; it takes log-probabilities.",
            )
    elif made in ({"sigmoid"}, {"expit"}):
        if takes == "probability":
            source.find("sigmoid-and-bce", call, "A sigmoid and BCELoss are computed one after the other.")
        elif takes == "binary logits":
            source.find(
                "sigmoid-before-logits-loss",
                call,
                "The input of this loss already went through a sigmoid; it takes logits.",
            )


def _logarithm(source: Source, call: ast.Call) -> None:
    inner = None
    if source.called(call) == "log" and call.args:
        inner = call.args[0]
    elif source.method(call) == "log" and isinstance(call.func, ast.Attribute) and not call.args:
        inner = call.func.value
    if inner is not None and source.producers(inner) == {"softmax"}:
        source.find("log-of-softmax", call, "The logarithm of a softmax is taken by hand.")
