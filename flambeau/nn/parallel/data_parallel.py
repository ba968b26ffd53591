"""`DataParallel`: a module on all GPUs of this process, each with its part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._backend.placement import gpu_count
from ..modules.module import Module
from .comm import numbered
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Splits the batch over GPUs; with one device, or none, it just calls the module.

    >>> import flambeau as torch
    >>> torch.nn.DataParallel(torch.nn.Identity())(torch.ones(2)).cpu()
    tensor([1., 1.])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        ids = list(range(gpu_count())) if device_ids is None else list(device_ids)
        if not gpu_count():
            ids = []
        self.device_ids = ids
        self.output_device = (ids[0] if ids else None) if output_device is None else output_device
        if ids:
            self.src_device_obj = numbered(ids[0])
        if len(ids) == 1:
            module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the module, on each GPU with a part of the arguments."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return data_parallel(self.module, inputs, self.device_ids, self.output_device, self.dim, kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """Calls a module on several GPUs, each with its part of the inputs."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    devices = [numbered(i) for i in (range(gpu_count()) if device_ids is None else device_ids)]
    if not devices:
        return module(*inputs, **(module_kwargs or {}))
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.device != devices[0]:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {devices[0]} (device_ids[0]) but found one of them "
                f"on device: {tensor.device}"
            )
    parts, named = scatter_kwargs(inputs, module_kwargs, devices, dim)
    if not parts:
        parts, named = ((),), ({},)
    if len(devices) == 1:
        return module(*parts[0], **named[0])
    outputs = parallel_apply(replicate(module, devices[: len(parts)]), parts, named)
    return gather(outputs, devices[0] if output_device is None else numbered(output_device), dim)
