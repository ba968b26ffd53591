"""`DTensor`: a tensor divided among the processes of a mesh. Its memory is that of the local part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._autograd.modes import no_grad
from ..._core.sizes import Size
from ..._core.state import GRAD, local
from ..._tensor import Tensor, alias, detached, meta_of
from ..._tensor.constructors import alias_op, as_subclass
from ...autograd.function import Function
from .._states import broadcast_all
from ..device_mesh import DeviceMesh
from . import _redistribute
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._utils import compute_local_shape_and_global_offset, normalized
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


class outside:
    """A block in which tensors of this class count as plain ones."""

    def __enter__(self) -> None:
        self._before, local.overrides_off = local.overrides_off, True

    def __exit__(self, *error: Any) -> None:
        local.overrides_off = self._before


class DTensor(Tensor):
    """A tensor divided among the processes of a mesh (`Shard`), whole in each of them (`Replicate`), or their sum (`Partial`).

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(torch.arange(6.0).view(3, 2), mesh, [Shard(0)])
    >>> x.shape, (x @ x.T).sum().full_tensor()
    (torch.Size([3, 2]), tensor(117.))
    >>> torch.distributed.destroy_process_group()
    """

    by_functions = True  # operators of `torch.ops.aten` come as the functions that they are

    device_mesh: DeviceMesh
    placements: tuple[Placement, ...]
    _global: Size

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from . import _rules  # which stands on this class

        return _rules.call(func, args, kwargs or {})

    # -- making --

    def __new__(cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> DTensor:
        out = made(detached(local_tensor), spec.mesh, spec.placements, spec.shape)
        return out.requires_grad_(requires_grad)

    def __init__(self, *args: Any, **named: Any) -> None:
        """Nothing: `__new__` has made it."""

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Any = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
    ) -> DTensor:
        """A tensor of the local parts of all processes."""
        mesh = device_mesh or DeviceMesh("cpu")
        placements = normalized(placements or [Replicate()] * mesh.ndim, local_tensor.dim())
        if len(placements) != mesh.ndim:
            raise ValueError(
                f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(placements)}, "
                f"and device_mesh.ndim: {mesh.ndim}."
            )
        if run_check:
            for dim, placement in enumerate(placements):
                if isinstance(placement, Replicate):
                    broadcast_all([local_tensor], mesh.get_group(dim))
        if shape is None:
            shape = list(local_tensor.shape)
            for dim, placement in enumerate(placements):
                if isinstance(placement, Shard):
                    shape[placement.dim] *= mesh.size(dim)
        return made(local_tensor, mesh, placements, shape)

    # -- taking apart --

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """The part of this process; gradients of it flow back."""
        part = plain(self)
        if grad_placements is not None and self._k & GRAD:
            part = _Local.apply(part, self, tuple(grad_placements))
        return part

    @property
    def _local_tensor(self) -> Tensor:
        return alias(self) if self._edge is not None or not self._k & GRAD else detached(self)

    @property
    def _spec(self) -> DTensorSpec:
        return DTensorSpec(self.device_mesh, self.placements, TensorMeta(self._global, self.stride(), self.dtype))

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """The whole tensor, in every process."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(
        self, device_mesh: Any = None, placements: Any = None, *, async_op: bool = False, **dtypes: Any
    ) -> DTensor:
        """The same tensor with other placements."""
        mesh = device_mesh or self.device_mesh
        if mesh != self.device_mesh:
            raise NotImplementedError("redistribute: from one mesh to another is not implemented; use full_tensor()")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placements = normalized(placements, len(self._global))
        for old, new in zip(self.placements, placements):
            if isinstance(new, Partial) and old != new:
                raise RuntimeError(
                    f"Can not redistribute from {old} to {new}, redistributing to Partial is for internal use only!"
                )
        return self._placed(placements)

    def _placed(self, placements: Any) -> DTensor:
        placements = tuple(placements)
        if placements == self.placements:
            return self
        part = _redistribute.redistribute(plain(self), self.device_mesh, self.placements, placements, self._global)
        return made(part, self.device_mesh, placements, self._global)

    def __create_chunk_list__(self) -> list[Any]:
        from ..checkpoint.metadata import ChunkStorageMetadata  # which few programs need

        shape, offset = compute_local_shape_and_global_offset(self._global, self.device_mesh, self.placements)
        return [ChunkStorageMetadata(Size(offset), Size(shape))]

    # -- what is said of the whole --

    @property
    def shape(self) -> Size:
        return self._global

    def size(self, dim: int | None = None) -> Any:
        """The size of the whole tensor."""
        return self._global if dim is None else self._global[dim]

    def numel(self) -> int:
        return self._global.numel()

    nelement = numel

    def dim(self) -> int:
        return len(self._global)

    ndimension = dim
    ndim = property(dim)

    def stride(self, dim: int | None = None) -> Any:
        """Strides of the whole tensor, as if it were dense."""
        strides, step = [], 1
        for n in reversed(self._global):
            strides.append(step)
            step *= max(n, 1)
        found = tuple(reversed(strides))
        return found if dim is None else found[dim]

    def __len__(self) -> int:
        if not self._global:
            raise TypeError("len() of a 0-d tensor")
        return self._global[0]

    @property
    def T(self) -> Any:
        return self.permute(*reversed(range(self.dim())))

    @property
    def mT(self) -> Any:
        return self.transpose(-2, -1)

    @property
    def grad(self) -> Any:
        """The gradient, which lies as the tensor does."""
        held = None if self._autograd_meta is None else self._autograd_meta.grad
        return None if held is None else made(held, self.device_mesh, self.placements, self._global)

    @grad.setter
    def grad(self, g: Any) -> None:
        if isinstance(g, DTensor):
            g = plain(g.redistribute(placements=self.placements))
        meta_of(self).grad = g

    @grad.deleter
    def grad(self) -> None:
        meta_of(self).grad = None

    @property
    def data(self) -> Any:
        return made(detached(self), self.device_mesh, self.placements, self._global)

    @data.setter
    def data(self, value: Any) -> None:
        with outside():
            Tensor.data.__set__(self, plain(value) if isinstance(value, DTensor) else value)  # type: ignore[attr-defined]

    def item(self) -> Any:
        return self.full_tensor().item()

    def tolist(self) -> Any:
        return self.full_tensor().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self._global else repr(self)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        kind = "Parameter containing:\n" if getattr(self, "_is_param", False) else ""
        return f"{kind}DTensor(local_tensor={detached(self)}, device_mesh={self.device_mesh}, placements={self.placements})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        with no_grad():
            copy = made(detached(self).clone(), self.device_mesh, self.placements, self._global)
        copy.requires_grad_(bool(self._k & GRAD))
        if getattr(self, "_is_param", False):
            copy._is_param = True
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NotImplementedError(
            "a DTensor cannot be pickled: save full_tensor(), or use torch.distributed.checkpoint, which keeps the parts"
        )


class _Local(Function):
    """The local part; its gradient comes with placements of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, whole: DTensor, placements: Any) -> Tensor:
        ctx.given = whole.device_mesh, placements, whole.placements, whole._global
        return alias_op(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        mesh, placements, own, shape = ctx.given
        own = [Replicate() if isinstance(p, Partial) else p for p in own]
        return _redistribute.redistribute(g, mesh, placements, own, shape), None, None


def made(part: Tensor, mesh: DeviceMesh, placements: Any, shape: Any) -> DTensor:
    """A DTensor over a local tensor, with its history."""
    out = as_subclass(part, DTensor)
    out.device_mesh, out.placements, out._global = mesh, tuple(placements), Size(shape)
    return out


def plain(tensor: DTensor) -> Tensor:
    """The local tensor; gradients of it flow to the DTensor."""
    if not tensor._k & GRAD or tensor._edge is not None:
        return alias(tensor)
    with outside():
        return alias_op(tensor)


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Any = None, *, src_data_rank: int | None = 0
) -> DTensor:
    """A tensor divided among processes: the one that rank `src_data_rank` of each line of the mesh has."""
    mesh = device_mesh or DeviceMesh("cpu")
    if isinstance(tensor, DTensor):
        if mesh != tensor.device_mesh or (placements and tuple(placements) != tensor.placements):
            raise ValueError(f"Cannot distribute a DTensor with placements {tensor.placements}: use redistribute")
        return tensor
    if tensor._edge is not None:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = normalized(placements or [Replicate()] * mesh.ndim, tensor.dim())
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(placements)}, and "
            f"device_mesh.ndim: {mesh.ndim}."
        )
    with no_grad():
        part = detached(tensor).clone()
        if src_data_rank is not None:
            for dim in range(mesh.ndim):
                broadcast_all([part], mesh.get_group(dim), src_data_rank)
        for dim, placement in enumerate(placements):
            if isinstance(placement, Shard):
                part = _redistribute.cut(part, placement.dim, mesh.get_group(dim))
            elif isinstance(placement, Partial):
                part = part / mesh.size(dim)
    out = made(part, mesh, placements, tensor.shape)
    return out.requires_grad_(bool(tensor._k & GRAD))


def distribute_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[..., Any] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:
    """Makes parameters and buffers of a module DTensors: partition_fn(name, module, mesh) divides, the rest is replicated."""
    from ...nn.parameter import Parameter  # of the layer above

    mesh = device_mesh or DeviceMesh("cpu")
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, parameter in part._parameters.items():
            if parameter is not None and not isinstance(parameter, DTensor):
                whole = distribute_tensor(parameter.detach(), mesh)
                part._parameters[key] = Parameter(whole, parameter.requires_grad)
        for key, buffer in part._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                part._buffers[key] = distribute_tensor(buffer, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module
