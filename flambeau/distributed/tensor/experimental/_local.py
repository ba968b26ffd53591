"""`local_map`: a function of local tensors as one of divided tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._tensor import Tensor
from .._dtensor import DTensor


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: Any = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """A function that gives the local parts of its arguments to `func`, and its results the placements `out_placements`.

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from flambeau.distributed.tensor.experimental import local_map
    >>> x = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> local_map(lambda part: part * 2, out_placements=[Shard(0)])(x).full_tensor()
    tensor([2., 2., 2., 2.])
    >>> torch.distributed.destroy_process_group()
    """
    if func is None:
        return lambda function: local_map(
            function,
            out_placements,
            in_placements,
            in_grad_placements,
            device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        mesh, given = device_mesh, []
        wanted = [None] * len(args) if in_placements is None else list(in_placements)
        if len(wanted) != len(args):
            raise AssertionError(f"in_placements length {len(wanted)} does not match the number of inputs {len(args)}!")
        grads = [None] * len(args) if in_grad_placements is None else list(in_grad_placements)
        for value, places, grad_places in zip(args, wanted, grads):
            if isinstance(value, DTensor):
                mesh = mesh or value.device_mesh
                if places is not None and tuple(places) != value.placements:
                    if not redistribute_inputs:
                        raise ValueError(
                            f"local_map: an input has the placements {value.placements}, but the function wants {tuple(places)}; "
                            "redistribute it, or give redistribute_inputs=True"
                        )
                    value = value.redistribute(placements=places)
                value = value.to_local(grad_placements=grad_places)
            given.append(value)
        out = func(*given, **kwargs)
        if mesh is None:
            return out
        several = isinstance(out, (tuple, list))
        outs = list(out) if several else [out]
        places_of = list(out_placements) if several else [out_placements]
        if len(places_of) != len(outs):
            raise AssertionError(f"local_map: {len(outs)} results, but placements for {len(places_of)}")
        made = [
            DTensor.from_local(value, mesh, places) if isinstance(value, Tensor) and places is not None else value
            for value, places in zip(outs, places_of)
        ]
        return type(out)(made) if several else made[0]

    return call
