"""`fully_shard`: parameters, gradients and optimizer state divided among processes, whole only while a module computes."""

from __future__ import annotations

import contextlib
import functools
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._autograd import engine
from ..._autograd.modes import is_grad_enabled, no_grad
from ..._core.state import CAPTURE, local, modes
from ..._tensor import Tensor, wrap
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...utils._pytree import tree_flatten, tree_map
from .. import _collectives as calls
from .._kinds import ReduceOp, _make_nccl_premul_sum
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import DTensor, made, plain
from ..tensor._utils import piece
from ..tensor.placement_types import Replicate, Shard

__all__ = [
    "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle",
    "fully_shard", "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip


class MixedPrecisionPolicy:
    """The dtypes to compute and to exchange in."""

    def __init__(
        self,
        param_dtype: Any = None,
        reduce_dtype: Any = None,
        output_dtype: Any = None,
        cast_forward_inputs: bool = True,
    ):
        self.param_dtype, self.reduce_dtype = param_dtype, reduce_dtype
        self.output_dtype, self.cast_forward_inputs = output_dtype, cast_forward_inputs


class OffloadPolicy:
    """Parameters stay where they are."""


class CPUOffloadPolicy(OffloadPolicy):
    """Parameters rest in the memory of the CPU."""

    def __init__(self, pin_memory: bool = True):
        self.pin_memory = pin_memory


class _Room:
    """Memory that can be given back to the system while arrays over it stay valid."""

    def __init__(self, nbytes: int):
        self._memory = mmap.mmap(-1, max(nbytes, 1))

    def array(self, count: int, dtype: Any) -> np.ndarray:
        return np.frombuffer(self._memory, dtype, count)

    def give_back(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            self._memory.madvise(mmap.MADV_DONTNEED)


class _Parameter:
    """A parameter: its part (a DTensor, which the module has at rest) and the whole (which it has while it computes)."""

    def __init__(self, owners: list[tuple[Module, str]], given: Parameter, mesh: DeviceMesh, dim: int, dtype: Any):
        self.owners, self.shape, self.group, self.dim = owners, given.shape, mesh.get_group(mesh.ndim - 1), dim
        rank, size = self.group.rank(), self.group.size()
        begin, length = piece(given.shape[dim], size, rank)
        places: list[Any] = [Replicate()] * (mesh.ndim - 1) + [Shard(dim)]
        with no_grad():
            own = given.detach().narrow(dim, begin, length).clone()
        self.part = Parameter(made(own, mesh, places, given.shape), given.requires_grad)
        for name, value in given.__dict__.items():
            if not name.startswith("_"):
                setattr(self.part, name, value)
        self.dtype = dtype or given.dtype
        self.chunk = -(-given.shape[dim] // size)
        rest = [n for d, n in enumerate(given.shape) if d != dim]
        self.padded = [self.chunk * size, *rest]
        count = int(np.prod(self.padded))
        self.room = _Room(count * self.dtype.itemsize)
        array = self.room.array(count, self.dtype.numpy).reshape(self.padded)
        self.gathering = wrap(array, self.dtype)
        self.waiting: Any = None  # a part of the gradient that is not reduced over replicas yet
        whole = array[: given.shape[dim]]
        self.whole = Parameter(wrap(np.moveaxis(whole, 0, dim), self.dtype), given.requires_grad)
        self.give_part()

    def give_part(self) -> None:
        for module, name in self.owners:
            module._parameters[name] = self.part

    def give_whole(self) -> None:
        for module, name in self.owners:
            module._parameters[name] = self.whole

    def _adopt(self) -> None:
        """Takes a part that the program put in the place of the old one: `to_empty`, or a state dict that was assigned."""
        module, name = self.owners[0]
        found = module._parameters[name]
        if found is not self.part and isinstance(found, DTensor):
            self.part = found
            self.give_part()

    def gather(self) -> Any:
        """Starts to fill the whole with the parts of all processes."""
        self._adopt()
        own = plain(self.part).detach().to(self.dtype).movedim(self.dim, 0)
        if own.shape[0] != self.chunk:
            padded = own.new_zeros((self.chunk, *own.shape[1:]))
            padded[: own.shape[0]] = own
            own = padded
        return calls.all_gather_into_tensor(self.gathering, own.contiguous(), self.group, async_op=True)

    def reduce(self, dtype: Any, op: Any) -> Any:
        """Starts to average the gradient; the work, and room for this process's part."""
        g = self.whole.grad.detach()
        self.whole.grad = None
        g = g.to(dtype or g.dtype).movedim(self.dim, 0)
        if g.shape[0] != self.padded[0]:
            padded = g.new_zeros(self.padded)
            padded[: g.shape[0]] = g
            g = padded
        out = g.new_empty((self.chunk, *self.padded[1:]))
        return calls.reduce_scatter_tensor(out, g.contiguous(), op, self.group, async_op=True), out

    def take_gradient(self, out: Tensor, replicas: Any, waits: bool, op: Any, hook: Any) -> None:
        """Takes a part of a gradient, which may have to wait until it is reduced over replicas with later ones."""
        own = plain(self.part)
        out = out[: own.shape[self.dim]].movedim(0, self.dim).contiguous()
        if replicas is not None:
            if self.waiting is not None:
                out, self.waiting = self.waiting.add_(out), None
            if waits:
                self.waiting = out
                return
            calls.all_reduce(out, op, replicas)
        if hook is not None:
            hook(out)
        out = out.to(own.dtype)
        held = self.part._autograd_meta.grad if self.part._autograd_meta is not None else None
        if held is None:
            self.part.grad = out
        else:
            held.add_(out)


@contextlib.contextmanager
def _unrecorded() -> Any:
    """A block that no recording of a compiled program sees; the program ends there, and Python runs it."""
    held = local.captures if modes.on & CAPTURE else ()
    if not held:
        yield
        return
    held[-1].stop("fully_shard makes calls to other processes")
    watching, local.captures, local.function_modes = local.function_modes, (), ()
    try:
        yield
    finally:
        local.captures, local.function_modes = held, watching


class _Unit:
    """The parameters of one call of `fully_shard`: gathered together, given back together."""

    def __init__(self, modules: Sequence[Module], mesh: DeviceMesh, options: dict[str, Any]):
        self.modules, self.mesh = list(modules), mesh
        self.policy: MixedPrecisionPolicy = options["mp_policy"]
        self.reshard_after_forward: Any = options["reshard_after_forward"]
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 and mesh.size(0) > 1 else None
        self.is_whole = self.has_hook = False
        self.reduces_replicas = self.syncs = self.reshard_after_backward = True
        self.works: list[Any] = []
        self.reducing: list[tuple[_Parameter, Any, Tensor]] = []
        found: dict[int, tuple[Any, list[tuple[Module, str]]]] = {}
        for top in self.modules:
            for module in _own_modules(top, options["ignored_params"]):
                for name, p in module._parameters.items():
                    if p is not None and not isinstance(p, DTensor) and p not in options["ignored_params"]:
                        found.setdefault(id(p), (p, []))[1].append((module, name))
        place = options["shard_placement_fn"]
        self.parameters = []
        for p, owners in found.values():
            chosen = place(p) if place is not None else None
            dtype = self.policy.param_dtype if p.is_floating_point() else None
            self.parameters.append(_Parameter(owners, p, mesh, chosen.dim if chosen is not None else 0, dtype))
        for parameter in self.parameters:
            if parameter.whole.requires_grad:
                parameter.whole.register_post_accumulate_grad_hook(lambda _: self._arrived())
        self.awaited = sum(p.whole.requires_grad for p in self.parameters)
        self.came = 0

    def unshard(self, wait: bool = True) -> None:
        if not self.is_whole:
            if not self.works:
                with no_grad():
                    self.works = [p.gather() for p in self.parameters]
            if wait:
                for work in self.works:
                    work.wait()
                self.works, self.is_whole = [], True
                for p in self.parameters:
                    p.give_whole()

    def reshard(self, keep: bool = False) -> None:
        if self.is_whole:
            for p in self.parameters:
                p.give_part()
                if not keep:
                    p.room.give_back()
            self.is_whole = keep

    def before(self, module: Module, args: Any, kwargs: Any) -> Any:
        with _unrecorded():
            return self._before(args, kwargs)

    def _before(self, args: Any, kwargs: Any) -> Any:
        self.unshard()
        for p in self.parameters:
            p.give_whole()
        if self.policy.param_dtype is not None and self.policy.cast_forward_inputs:
            cast = lambda x: x.to(self.policy.param_dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
            return tree_map(cast, args), tree_map(cast, kwargs)
        return args, kwargs

    def after(self, module: Module, args: Any, output: Any) -> Any:
        with _unrecorded():
            return self._after(output)

    def _after(self, output: Any) -> Any:
        if self.policy.output_dtype is not None:
            dtype = self.policy.output_dtype
            output = tree_map(lambda x: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x, output)
        if is_grad_enabled():
            for x in tree_flatten(output)[0]:
                if isinstance(x, Tensor) and x.requires_grad and x._edge is not None:
                    x.register_hook(self._before_backward)
        reshard = self.reshard_after_forward
        if reshard is None:
            reshard = not self.is_root
        if reshard or not is_grad_enabled():
            self.reshard()
        return output  # otherwise the module keeps them until backward, which may run parts of it again (checkpoints)

    is_root = False

    def _before_backward(self, g: Any) -> None:
        if not self.has_hook:
            self.has_hook = True
            engine.queue_callback(self._end, outermost=True)
        if self.unshards_in_backward:
            self.unshard()
            for p in self.parameters:
                p.give_whole()

    def _arrived(self) -> None:
        if not self.has_hook:
            self.has_hook = True
            engine.queue_callback(self._end, outermost=True)
        self.came += 1
        if self.came == self.awaited:
            self._reduce()

    def _reduce(self) -> None:
        """All gradients are there: they are sent, and the whole parameters are not needed any more."""
        self.came = 0
        if self.syncs:
            with no_grad():
                for p in self.parameters:
                    if p.whole.grad is not None:
                        self.reducing.append((p, *p.reduce(self.policy.reduce_dtype, self.operation)))
        if self.reshard_after_backward:
            self.reshard()

    operation: Any = ReduceOp.AVG  # of gradients inside of a group of parts
    factor: float | None = None  # by which their sum over all processes is divided; None: their number
    hook: Any = None  # is given each part of a gradient before the parameter gets it
    unshards_in_backward = True

    def divide_by(self, factor: float) -> None:
        self.factor, self.operation = factor, _make_nccl_premul_sum(1.0 / factor)

    def _end(self) -> None:
        self.has_hook = False
        self._reduce()
        with no_grad():
            for p, work, out in self.reducing:
                work.wait()
                op = ReduceOp.AVG if self.factor is None else ReduceOp.SUM
                p.take_gradient(out, self.replicas, not self.reduces_replicas, op, self.hook)
        self.reducing = []
        for p in self.parameters:
            p.give_part()


def _own_modules(top: Module, ignored: Any) -> list[Module]:
    """The modules inside whose parameters no inner unit has."""
    found, stack = [], [top]
    while stack:
        module = stack.pop()
        if module is not top and isinstance(module, FSDPModule):
            continue
        found.append(module)
        stack.extend([child for child in reversed(list(module.children()))])
    return list(dict.fromkeys(found))


class UnshardHandle:
    """What `unshard(async_op=True)` returns: `wait` waits for the parameters."""

    def __init__(self, _unit: _Unit | None):
        self._unit = _unit

    def wait(self) -> None:
        """Waits until the parameters are whole."""
        if self._unit is not None:
            self._unit.unshard()


class FSDPModule:
    """What modules become by `fully_shard`."""

    _fsdp: _Unit
    _torchdynamo_disable = True  # its parameters come and go while it runs: torch.compile leaves it as it is

    def _units(self, recurse: bool = True) -> list[_Unit]:
        modules: Any = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return list(dict.fromkeys(m._fsdp for m in modules if isinstance(m, FSDPModule)))

    def reshard(self) -> None:
        """Gives the memory of the whole parameters back."""
        self._fsdp.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers the whole parameters."""
        self._fsdp.unshard(wait=not async_op)
        return UnshardHandle(self._fsdp) if async_op else None

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether gradients of the next passes are averaged; otherwise they add up, whole, in this process."""
        for unit in self._units(recurse):
            unit.syncs = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether this is the last backward pass of a step; every pass is complete when it ends."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are averaged over replicas (of a mesh with two dimensions); otherwise they wait for later ones."""
        for unit in self._units(recurse):
            unit.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether memory is given back after forward."""
        for unit in self._units(recurse):
            unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether memory is given back after backward."""
        for unit in self._units(recurse):
            unit.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Modules whose parameters are fetched while this one computes."""
        self.register_forward_pre_hook(  # type: ignore[attr-defined]
            lambda *_: [m._fsdp.unshard(wait=False) for m in modules] and None
        )

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Modules whose parameters are fetched while this one's gradients are computed."""
        self.register_full_backward_pre_hook(  # type: ignore[attr-defined]
            lambda *_: [m._fsdp.unshard(wait=False) for m in modules] and None
        )

    def set_gradient_divide_factor(self, factor: float) -> None:
        """The number that the sum of this module's gradients is divided by, instead of the number of processes."""
        self._fsdp.divide_by(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Whether gradients are divided before and after they are added instead of meanwhile; the result is the same."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether the whole parameters are there in backward; without them, only where nothing needs their values."""
        self._fsdp.unshards_in_backward = unshard_in_backward

    def set_all_reduce_hook(self, hook: Any, *, stream: Any = None) -> None:
        """hook(tensor) changes each part of this module's gradients in place, after it was reduced."""
        self._fsdp.hook = hook

    @contextlib.contextmanager
    def _whole(self, writeback: bool = True) -> Any:
        """A block in which the parameters are whole; changes are kept."""
        units = self._units()
        for unit in units:
            unit.unshard()
        try:
            yield
        finally:
            with no_grad():
                for unit in units:
                    for p in unit.parameters if writeback else ():
                        begin, length = piece(p.shape[p.dim], p.group.size(), p.group.rank())
                        plain(p.part).detach().copy_(p.whole.detach().narrow(p.dim, begin, length))
                    unit.reshard()


@dataclass(frozen=True)
class DataParallelMeshDims:
    """Which dimensions of a mesh parameters are divided along (`shard`), and which they are copied along (`replicate`)."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set")

    @property
    def shard_names(self) -> tuple[str, ...]:
        """The names of dimensions that parameters are divided along."""
        return (self.shard,) if isinstance(self.shard, str) else tuple(self.shard or ())

    @property
    def replicate_names(self) -> tuple[str, ...]:
        """The names of dimensions that parameters are copied along."""
        return (self.replicate,) if isinstance(self.replicate, str) else tuple(self.replicate or ())

    def part_of(self, mesh: DeviceMesh) -> DeviceMesh:
        """The mesh of these dimensions alone: first the copies, then the parts."""
        if len(self.shard_names) != 1 or len(self.replicate_names) > 1:
            raise NotImplementedError(
                f"fully_shard divides along one dimension of a mesh and copies along one at most, got {self}; give init_device_mesh "
                "a mesh with these dimensions made one"
            )
        return mesh[(*self.replicate_names, *self.shard_names)] if self.replicate_names else mesh[self.shard_names[0]]


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Has a method of a module gather its parameters first and give them back afterwards, as `forward` does.

    Nothing happens for a module that `fully_shard` did not divide.
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    unit = module._fsdp

    @functools.wraps(method)
    def divided(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unit.before(module, args, kwargs)
        return unit.after(module, args, method(*args, **kwargs))

    setattr(module, method_name, divided)


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Has modules wait for each other's calls between processes; those of one process are made in one order anyway."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: DataParallelMeshDims | None = None,
) -> Any:
    """Divides the parameters of a module among processes: each becomes a DTensor with `Shard(0)`.

    `dp_mesh_dims` names the dimensions of a larger mesh that parameters are divided and copied along.

    They are gathered before forward and backward and given back afterwards; gradients are averaged into parts. Call it for
    inner modules first: what they hold is gathered by itself.

    >>> import flambeau as torch
    >>> from flambeau.distributed.fsdp import fully_shard
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = fully_shard(torch.nn.Linear(2, 3))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.weight.placements, model.weight.grad.full_tensor()[0]
    ((Shard(dim=0),), tensor([1., 1.]))
    >>> torch.distributed.destroy_process_group()
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for one in modules:
        if isinstance(one, FSDPModule):
            raise ValueError("fully_shard: the module is divided already; call it once, inner modules first")
    mesh = mesh or DeviceMesh("cpu")
    if dp_mesh_dims is not None:
        mesh = dp_mesh_dims.part_of(mesh)
    if mesh.ndim > 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if isinstance(reshard_after_forward, int) and not isinstance(reshard_after_forward, bool):
        reshard_after_forward = True  # parts of another size would be another gathering
    options = {
        "mp_policy": mp_policy or MixedPrecisionPolicy(), "reshard_after_forward": reshard_after_forward,
        "shard_placement_fn": shard_placement_fn, "ignored_params": ignored_params or set(),
    }  # fmt: skip
    unit = _Unit(modules, mesh, options)
    unit.is_root = True
    for one in modules:
        for inner in one.modules():
            if isinstance(inner, FSDPModule):
                inner._fsdp.is_root = False
        one.__class__ = type(f"FSDP{type(one).__name__}", (FSDPModule, type(one)), {})
        one._fsdp = unit
        one.register_forward_pre_hook(unit.before, with_kwargs=True, prepend=True)
        one.register_forward_hook(unit.after)
    return module
