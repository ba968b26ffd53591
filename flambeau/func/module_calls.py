"""Modules as functions of their parameters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .._core.state import GRAD
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
    with _Swapped(module, values, tie_weights, strict):
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


class _Swapped:
    """A block in which a module's parameters and buffers are replaced by name."""

    def __init__(self, module: Any, values: dict[str, Tensor], tie_weights: bool, strict: bool):
        self.values = values
        names = defaultdict(list)  # of each tensor of the module
        for members in (module.named_parameters, module.named_buffers):
            for name, tensor in members(remove_duplicate=False):
                names[tensor].append(name)
        groups = list(names.values()) if tie_weights else [[name] for group in names.values() for name in group]
        unknown = values.keys() - {name for group in groups for name in group}
        if strict:
            self._check(module, groups, unknown)
        self.places = []  # (table, name in it, value, dotted name)
        for group in groups:
            chosen = [values[name] for name in group if name in values]
            if not chosen:
                continue
            if any(value is not chosen[0] for value in chosen):
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted(group)}, which are tied. Consider using "
                    "tie_weights=False"
                )
            if not isinstance(chosen[0], Tensor):
                raise TypeError(f"{chosen[0]} is not an instance of torch.Tensor")
            self.places += [(*_place(module, name), chosen[0], name) for name in group]

    def _check(self, module: Any, groups: list[list[str]], unknown: set[str]) -> None:
        missing = [group[0] for group in groups if not any(name in self.values for name in group)]
        problems = [
            f"{what} key(s): " + ", ".join(map(repr, sorted(keys))) + "."
            for what, keys in (("Unexpected", unknown), ("Missing", missing))
            if keys
        ]
        if problems:
            raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems))

    def __enter__(self) -> None:
        self.saved = [table[name] for table, name, _, _ in self.places]
        for table, name, value, _ in self.places:
            table[name] = value

    def __exit__(self, *error: Any) -> None:
        for (table, name, _, path), old in zip(self.places, self.saved):
            if path in self.values and name in table:
                self.values[path] = table[name]  # the module may have assigned another
            table[name] = old


def _place(module: Any, path: str) -> tuple[dict[str, Any], str]:
    """(table, name) where a module keeps a parameter or buffer."""
    owner_path, _, name = path.rpartition(".")
    owner = module.get_submodule(owner_path)
    return (owner._parameters if name in owner._parameters else owner._buffers), name


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
