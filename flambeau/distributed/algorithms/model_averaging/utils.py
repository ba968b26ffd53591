"""Means of parameters over the processes of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...._autograd.modes import no_grad
from ...._tensor import Tensor
from ..._collectives import all_reduce
from ..._groups import ProcessGroup, get_world_size

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterator[Any], process_group: ProcessGroup) -> None:
    """Replaces parameters by their means over the processes."""
    with no_grad():
        for parameter in list(params):
            data = parameter.detach()
            all_reduce(data, group=process_group)
            data /= get_world_size(process_group)


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Those of some parameters, or of an optimizer's groups of them, that have gradients."""
    found = []
    for each in params:
        if not isinstance(each, (Tensor, dict)):
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
        parameters = [each] if isinstance(each, Tensor) else each["params"]
        found += [parameter for parameter in parameters if parameter.grad is not None]
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: ProcessGroup) -> None:
    """Replaces parameters that have gradients by their means over the processes."""
    average_parameters(iter(get_params_to_average(params)), process_group)
