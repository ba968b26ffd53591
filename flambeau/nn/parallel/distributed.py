"""`DistributedDataParallel`: a module with the same parameters in all processes, whose gradients are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import distributed as dist
from ..._autograd.modes import is_grad_enabled
from ..._core.state import CAPTURE, local, modes
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...distributed._reducer import BYTES, FIRST_BYTES, Reducer
from ...distributed._states import broadcast_all, verify
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ..modules.module import Module
from ..modules.sparse import Embedding, EmbeddingBag
from .scatter_gather import scatter_kwargs

__all__ = ["DistributedDataParallel"]


def _find_tensors(found: Any) -> list[Tensor]:
    """The tensors in an output: in lists, dictionaries and objects with fields."""
    if isinstance(found, Tensor):
        return [found]
    if isinstance(found, dict):
        found = list(found.values())
    elif hasattr(found, "__dataclass_fields__"):
        found = [getattr(found, name) for name in found.__dataclass_fields__]
    if isinstance(found, (list, tuple)):
        return [tensor for value in found for tensor in _find_tensors(value)]
    return []


class _Uneven(JoinHook):
    """What a process does that has no more inputs."""

    def __init__(self, ddp: DistributedDataParallel, divide_by_initial_world_size: bool):
        self.ddp = ddp
        ddp._divide_by_all = divide_by_initial_world_size

    def main_hook(self) -> None:
        ddp = self.ddp
        if ddp._will_sync_buffers():
            ddp._sync_buffers(joined=True)
        ddp.require_forward_param_sync = ddp._anyone_syncs(False)
        if ddp.require_forward_param_sync:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp = self.ddp
        root = ddp._common_rank(is_last_joiner)
        broadcast_all(ddp._states(), ddp.process_group, root)


class DistributedDataParallel(Module, Joinable):
    """A module in several processes: each computes with its own inputs, gradients are averaged during `backward`.

    Parameters and buffers begin as those of rank 0. Gradients travel in buckets while the backward pass still runs.

    >>> import flambeau as torch
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3))
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
        Joinable.__init__(self)
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group()
        self.process_group = dist.distributed_c10d.current(process_group)
        for name, value in (
            ("mixed_precision", mixed_precision),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("bucket_cap_mb_list", bucket_cap_mb_list),
            ("skip_all_reduce_unused_params", skip_all_reduce_unused_params or None),
        ):
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not implemented; leave it out")
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        trained = [(n, p) for n, p in self._of(module.named_parameters()) if p.requires_grad]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                "device_ids can only be None or contain a single element: one process serves one device, "
                f"got device_ids {device_ids}"
            )
        kinds = {p.device for _, p in trained}
        if len({d.type for d in kinds}) != 1:
            raise ValueError(
                f"DistributedDataParallel's input module must be on the same type of devices, but input module parameters "
                f"locate in {sorted({d.type for d in kinds})}."
            )
        if (device_ids or output_device is not None) and (
            len(kinds) > 1 or next(iter(kinds)).type == "cpu" or not device_ids
        ):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
                f"GPU modules or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module "
                f"parameters {kinds}."
            )
        self.dim, self.device, self.module = dim, trained[0][1].device, module
        self.is_multi_device_module = len(kinds) > 1
        self.device_type = self.device.type
        self.device_ids = list(device_ids) if device_ids else None
        self.output_device = output_device if output_device is not None or not self.device_ids else self.device_ids[0]
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.mixed_precision = gradient_as_bucket_view, mixed_precision
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.bucket_bytes_cap = BYTES if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20))
        self._limits = (FIRST_BYTES, BYTES) if bucket_cap_mb is None else (self.bucket_bytes_cap,)
        self._comm_hooks: list[tuple[Any, Any]] = []
        self._divide_by_all = True
        names, parameters = [n for n, _ in trained], [p for _, p in trained]
        if init_sync:
            verify(parameters, names, self.process_group)
            broadcast_all(self._states(), self.process_group)
        self._make_reducer(names, parameters)

    def _make_reducer(self, names: list[str], parameters: list[Tensor]) -> None:
        sparse = {m.weight for m in self.module.modules() if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse}
        self.reducer = Reducer(
            parameters, self.process_group, self._limits, self.find_unused_parameters, self.gradient_as_bucket_view,
            self.static_graph, names, {i for i, p in enumerate(parameters) if p in sparse},
        )  # fmt: skip

    def _of(self, named: Any) -> list[tuple[str, Tensor]]:
        return [(name, tensor) for name, tensor in named if name not in self.parameters_to_ignore]

    def _buffers_of_module(self) -> list[Tensor]:
        return [t for _, t in self._of(self.module.named_buffers())]

    def _states(self) -> list[Tensor]:
        return [t for _, t in self._of(self.module.named_parameters())] + self._buffers_of_module()

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not dist.group.WORLD:
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group."
            )
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "reducer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = dist.distributed_c10d.current()
        trained = [(n, p) for n, p in self._of(self.module.named_parameters()) if p.requires_grad]
        self._make_reducer([n for n, _ in trained], [p for _, p in trained])

    # -- a step --

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the module; if gradients are to be averaged, the backward pass that follows does it."""
        if modes.on & CAPTURE and local.captures:
            local.captures[-1].stop("DistributedDataParallel makes calls to other processes")
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        work = Join.notify_join_context(self)
        if self._join_config.enable:
            if work is not None and not self._divide_by_all:
                self.reducer.working = work, work._result[0]
            self._anyone_syncs(syncs)
        if self._will_sync_buffers():
            self._sync_buffers()
        if self.device_ids:
            moved, named = scatter_kwargs(inputs, kwargs, [self.device], self.dim)
            inputs, kwargs = (moved[0], named[0]) if moved else ((), {})
        out = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = syncs
        if not syncs:
            self.reducer.do_not_expect()
            return out
        looks = self.find_unused_parameters and not self.static_graph
        self.reducer.prepare_for_backward(_find_tensors(out) if looks else ())
        return out

    def _will_sync_buffers(self) -> bool:
        return self.require_forward_param_sync and self.broadcast_buffers and self.process_group.size() > 1

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward pass takes the buffers of rank 0."""
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_of_module())

    def _sync_buffers(self, joined: bool = False) -> None:
        buffers = self._buffers_of_module()
        if buffers:
            root = self._common_rank(not joined) if self._join_config.enable else 0
            broadcast_all(buffers, self.process_group, root)

    def _common_rank(self, candidate: bool) -> int:
        """The highest rank that offers its tensors."""
        rank = ops.tensor([self.process_group.rank() if candidate else -1], device=self.device)
        dist.all_reduce(rank, dist.ReduceOp.MAX, self.process_group)
        if rank.item() < 0:
            raise ValueError("BUG! Expected rank_cond to be true for at least one process.")
        return int(rank.item())

    def _anyone_syncs(self, own: bool) -> bool:
        """In `join`: whether the processes that still work average the gradients of this step."""
        flag = ops.tensor([int(own)], device=self.device)
        dist.all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes inside stay in this process and add up; the next pass outside averages them."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # -- uneven inputs --

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A block in which processes may have different numbers of batches."""
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does that has no more inputs: zeros for gradients."""
        return _Uneven(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group whose gradients are averaged."""
        return self.process_group

    # -- how gradients travel --

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """hook(state, bucket) sends a bucket of gradients instead of `all_reduce`, and returns a future of the mean."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._comm_hooks.append((hook, state))
        self.reducer.hook = lambda bucket: hook(state, bucket)

    _register_comm_hook = register_comm_hook

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        from ...distributed.algorithms.ddp_comm_hooks import default_hooks

        half = "FP16" in str(comm_hook_type)
        hook = default_hooks.fp16_compress_hook if half else default_hooks.allreduce_hook
        self.register_comm_hook(self.process_group, hook)

    def _set_static_graph(self) -> None:
        """The graph is the same in every step."""
        self.static_graph = self.reducer.static = True
        self.reducer._rebuilt = False

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """The inputs for each device: one."""
        return (inputs,), (kwargs,)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The outputs of all devices: of one."""
        return outputs[0]

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        sizes = [bucket.memory.numel() * bucket.memory.element_size() for bucket in self.reducer.buckets]
        return {
            "world_size": self.process_group.size(), "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__, "backend_name": self.process_group.name(),
            "bucket_cap_bytes": self.bucket_bytes_cap, "bucket_sizes": ", ".join(map(str, sizes)),
            "find_unused_parameters": self.find_unused_parameters, "broadcast_buffers": self.broadcast_buffers,
            "gradient_as_bucket_view": self.gradient_as_bucket_view, "static_graph": self.static_graph,
            "num_parameter_tensors": len(self.reducer.parameters),
        }  # fmt: skip

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore
