"""Where in a model an error happened: the path of the module, what it expects, what it was given."""

from __future__ import annotations

from typing import Any

from .advice import teach
from .frames import is_ours, users_frame

_KINDS = (RuntimeError, IndexError, ValueError, TypeError)
# What layers say of their input, by the attribute that tells it.
_EXPECTS = {
    "in_features": "expects {} features in the last dimension",
    "in_channels": "expects {} channels in dimension 1",
    "num_features": "expects {} features in dimension 1",
    "num_embeddings": "expects integers from 0 to {} - 1",
    "normalized_shape": "expects the last sizes {}",
    "num_channels": "expects {} channels in dimension 1",
    "input_size": "expects {} features in the last dimension",
    "embed_dim": "expects {} features in the last dimension",
}


def locate(error: Exception, module: Any, args: tuple[Any, ...]) -> None:
    """An error leaves a module: says which module it was, as seen from this one."""
    if error.__class__ not in _KINDS or not _is_ours(error):
        return
    found = error.__dict__.get("_place")  # the innermost module, and what is said of it
    if found is None:
        found = error.__dict__["_place"] = module, _described(module, args), _fix(module, args)
    inner, given, fix = found
    path = next(("." + name for name, m in module.named_modules() if m is inner and name), "")
    if inner is not module and not path:  # it is not a part of this one, which only calls it
        return
    kind, name = type(inner).__name__, _variable(module) + path
    teach(error, f"in {name}{'' if name == kind else f' ({kind})'}{given}", fix)


def _fix(module: Any, args: tuple[Any, ...]) -> str:
    """What to do about a linear layer, which most errors are about."""
    want, shape = module.__dict__.get("in_features"), getattr(args[0], "shape", ()) if args else ()
    if want is None or not shape or shape[-1] == want:
        return ""
    kind, width = type(module).__name__, shape[-1]
    for d in range(len(shape) - 2, 0, -1):
        width *= shape[d]
        if width == want:
            return f"flatten its input first: x.flatten({d}) has {want} features"
    return f"make it {kind}({shape[-1]}, …), or let what comes before give {want} features"


def _is_ours(error: Exception) -> bool:
    """Whether the package raised an error, not the program itself."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is None or is_ours(step.tb_frame)


def _described(module: Any, args: tuple[Any, ...]) -> str:
    given = [a for a in args if hasattr(a, "shape")]
    text = ""
    for name, says in _EXPECTS.items():
        value = module.__dict__.get(name)
        if value is not None:
            text += ": " + says.format(list(value) if isinstance(value, tuple) else value)
            break
    if given:
        shapes = ", ".join(f"{list(a.shape)}{_origin(a)}" for a in given)
        text += f"{',' if ':' in text else ':'} got {shapes}"
    return text


def _origin(a: Any) -> str:
    """What made an operand, if it has a history."""
    node = getattr(a, "grad_fn", None)
    return "" if node is None else f" from {node.name().removesuffix('0').removesuffix('Backward')}"


def _variable(module: Any) -> str:
    """What the program calls a module: the name of a variable, or its class."""
    frame = users_frame()
    if frame is not None:
        for names in (frame.f_locals, frame.f_globals):
            for name, value in names.items():
                if value is module and name != "self":
                    return name
    return type(module).__name__
