"""Changes of whole exported programs."""

from __future__ import annotations

from typing import Any

from .._backend.placement import as_device
from .._core.devices import device
from .._tensor import Tensor
from ..nn.parameter import Parameter
from .exported_program import ExportedProgram, with_examples

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep: ExportedProgram, location: Any) -> ExportedProgram:
    """Moves a program to another device, or from some devices to others: parameters, constants, examples and operators that name one.

    >>> import flambeau as torch
    >>> ep = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))
    >>> moved = move_to_device_pass(ep, "meta")
    >>> moved.state_dict["weight"].device, moved.graph.output_node().args[0][0].meta["val"].device
    (device(type='meta'), device(type='meta'))
    """

    def place(old: Any) -> device:
        if isinstance(location, dict):
            return as_device(location.get(str(old), location.get(old.type, old)))
        return as_device(location)

    def moved(t: Any) -> Any:
        if not isinstance(t, Tensor) or place(t.device) == t.device:
            return t
        made = t.detach().to(place(t.device))
        return Parameter(made, requires_grad=t.requires_grad) if isinstance(t, Parameter) else made

    for table in (ep.state_dict, ep.constants):
        table.update({name: moved(t) for name, t in table.items()})
    if ep.example_inputs is not None:
        ep.example_inputs = with_examples(ep, moved)
    for node in ep.graph.nodes:
        if isinstance(node.kwargs.get("device"), device):
            node.kwargs = {**node.kwargs, "device": place(node.kwargs["device"])}
        vals = node.meta.get("val")
        for val in vals if isinstance(vals, (list, tuple)) else [vals]:
            if isinstance(val, Tensor):
                val.__dict__["_wrapper_device"] = place(val.device)
    ep.graph_module.recompile()
    return ep
