"""`DistributedDataParallel`: a module with the same parameters in all processes. With one process, the module itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import distributed as dist
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Calls the module; gradients of all processes would be averaged, and there is one.

    >>> import flambeau as torch
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = torch.nn.parallel.distributed.DistributedDataParallel(torch.nn.Linear(2, 3))
    >>> list(model.state_dict()), model(torch.ones(1, 2)).shape
    (['module.weight', 'module.bias'], torch.Size([1, 3]))
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ):
        super().__init__()
        self.process_group = dist.distributed_c10d.current(process_group)
        if self.process_group.size() > 1:
            raise NotImplementedError("DistributedDataParallel: gradients of several processes are not averaged yet")
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                "device_ids can only be None or contain a single element: one process serves one device, "
                f"got device_ids {device_ids}"
            )
        self.dim, self.device = dim, trained[0].device
        self.device_type = self.device.type
        self.device_ids, self.output_device = device_ids, output_device
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.mixed_precision = gradient_as_bucket_view, mixed_precision
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.module = module
        self._hook: tuple[Any, Any] | None = None

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients stay in this process inside; there is no other."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Processes may have different numbers of batches inside; there is one."""
        yield

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """How gradients would travel. They need not: the hook is kept and not called."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self._hook = (state, hook)

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """The inputs for each device: one."""
        return (inputs,), (kwargs,)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The outputs of all devices: of one."""
        return outputs[0]

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore
