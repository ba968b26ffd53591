"""Modules as functions of their parameters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .._core.state import CAPTURE, GRAD, local, modes
from .._ops.registry import ops
from .._tensor import Tensor, detached


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *, tie_weights: bool = True,
    strict: bool = False,
) -> Any:  # fmt: skip
    """Calls a module with other parameters and buffers in place of its own.

    A tensor that the module has under several names is replaced under all of them, unless `tie_weights` is False.
    With `strict`, all names must be given.

    >>> import flambeau as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.tensor([[3.0, 4.0]]))
    tensor([[7.]])
    """
    values = _merged(parameter_and_buffer_dicts)
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with Swapped(module, values, tie_weights, strict):
        return module(*given, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (list, tuple)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    values: dict[str, Tensor] = {}
    for d in dicts:
        repeated = [key for key in d if key in values]
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        values.update(d)
    return values


class Swapped:
    """A block in which a module's parameters, buffers and other tensors are replaced by name."""

    def __init__(self, module: Any, values: dict[str, Tensor], tie_weights: bool, strict: bool):
        self.module, self.values = module, values
        wanted = dict(values)
        if tie_weights or strict:
            groups = _names_of_tensors(module)
            if tie_weights:
                _tie(wanted, groups)
            if strict:
                _check_names(module, values, wanted, groups)
        self.places = []  # (module, name in it, value, dotted name)
        for path, value in wanted.items():
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            owner, name = _owner(module, path)
            self.places.append((owner, name, value, path))

    def __enter__(self) -> None:
        if modes.on & CAPTURE and local.captures:
            local.captures[-1].exchanging(self.module)
        self.saved = [_member(owner, name) for owner, name, _, _ in self.places]
        for owner, name, value, _ in self.places:
            _put(owner, name, value)

    def __exit__(self, *error: Any) -> None:
        for (owner, name, _, path), old in zip(self.places, self.saved):
            current = _member(owner, name)
            if path in self.values and current is not _NOTHING:
                self.values[path] = current  # the module may have assigned another
            _put(owner, name, old)


_NOTHING = object()


def _names_of_tensors(module: Any) -> list[list[str]]:
    """The names of each parameter and buffer."""
    names = defaultdict(list)
    for members in (module.named_parameters, module.named_buffers):
        for name, tensor in members(remove_duplicate=False):
            names[tensor].append(name)
    return list(names.values())


def _tie(wanted: dict[str, Tensor], groups: list[list[str]]) -> None:
    """Gives a value to the other names of the tensor that it replaces."""
    for group in groups:
        chosen = [wanted[name] for name in group if name in wanted]
        if any(value is not chosen[0] for value in chosen):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(group)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if chosen:
            wanted.update(dict.fromkeys(group, chosen[0]))


def _check_names(module: Any, values: Any, wanted: Any, groups: list[list[str]]) -> None:
    """Raises unless the names are those of the module's parameters and buffers."""
    names = {name for group in groups for name in group}
    problems = [
        f"{what} key(s): " + ", ".join(map(repr, sorted(keys))) + "."
        for what, keys in (("Unexpected", values.keys() - names), ("Missing", names - wanted.keys()))
        if keys
    ]
    if problems:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems))


def _owner(module: Any, path: str) -> tuple[Any, str]:
    """(module, name in it) of a dotted name."""
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(module, parent):
            raise AttributeError(f"{type(module).__name__} has no attribute `{parent}`")
        module = getattr(module, parent)
    held = _member(module, name)
    if held is not _NOTHING and held is not None and not isinstance(held, Tensor):
        raise TypeError(f"attribute `{name}`: {held} is not an instance of torch.Tensor")
    return module, name


def _member(owner: Any, name: str) -> Any:
    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table[name]
    return getattr(owner, name, _NOTHING)


def _put(owner: Any, name: str, value: Any) -> None:
    """Puts a tensor where a module keeps one of that name, without the checks of an assignment."""
    if value is _NOTHING:
        if hasattr(owner, name):
            delattr(owner, name)
    elif name in owner._parameters:
        owner._parameters[name] = value
    elif name in owner._buffers:
        owner._buffers[name] = value
    else:
        setattr(owner, name, value)


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several equal modules, stacked along a new first dimension."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    for name, p in models[0].named_parameters():
        if any((dict(m.named_parameters())[name]._k ^ p._k) & GRAD for m in models):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    parameters = {
        name: ops.requires_grad_(
            detached(ops.stack([dict(m.named_parameters())[name] for m in models])), p._k & GRAD != 0
        )
        for name, p in models[0].named_parameters()
    }
    buffers = {
        name: ops.stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()
    }
    return parameters, buffers
