"""How a module's parameters are divided, what becomes of its inputs, and how its outputs lie."""

from __future__ import annotations

import fnmatch
import warnings
from abc import ABC, abstractmethod
from typing import Any

from ...._tensor import Tensor
from ....nn.modules.linear import Linear
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding
from ....nn.parameter import Parameter
from ...device_mesh import DeviceMesh
from .._dtensor import DTensor, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
    "parallelize_module",
]  # fmt: skip


def _laid(x: Any, mesh: DeviceMesh, given: Placement | None, wanted: Placement | None, local: bool = False) -> Any:
    """A tensor that lies as `given` (if it is plain), with the placement `wanted`."""
    if not isinstance(x, Tensor) or given is None:
        return x
    whole = x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, (given,))
    if wanted is not None:
        whole = whole.redistribute(placements=(wanted,))
    return whole.to_local() if local else whole


def _divide(module: Module, mesh: DeviceMesh, places: dict[str, Placement], other: Placement) -> None:
    """Makes the parameters of a module DTensors."""
    for name, p in module._parameters.items():
        if p is not None and not isinstance(p, DTensor):
            part = distribute_tensor(p.detach(), mesh, [places.get(name, other)])
            module._parameters[name] = Parameter(part, p.requires_grad)


class ParallelStyle(ABC):
    """What `parallelize_module` does with a module."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


class _Divided(ParallelStyle):
    """The style of a layer: its weights are divided, inputs and outputs get placements."""

    def __init__(self, given: Placement, wanted: Placement, out: Placement, use_local_output: bool):
        self.input_layouts, self.desired_input_layouts = (given,), (wanted,)
        self.output_layouts, self.use_local_output = (out,), use_local_output

    def _hook(self, module: Module, mesh: DeviceMesh) -> Module:
        def before(_: Any, args: Any) -> Any:
            return (_laid(args[0], mesh, self.input_layouts[0], self.desired_input_layouts[0]), *args[1:])

        def after(_: Any, args: Any, out: Any) -> Any:
            return _laid(out, mesh, self.output_layouts[0], self.output_layouts[0], self.use_local_output)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


class ColwiseParallel(_Divided):
    """Each process computes some of a layer's outputs.

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> net[0].weight.placements, net[2].weight.placements, net(torch.ones(1, 2)).shape
    ((Shard(dim=0),), (Shard(dim=1),), torch.Size([1, 2]))
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True):
        super().__init__(input_layouts or Replicate(), Replicate(), output_layouts or Shard(-1), use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if isinstance(module, Linear):
            _divide(module, device_mesh, {}, Shard(0))
        elif isinstance(module, Embedding):
            _divide(module, device_mesh, {}, Shard(1))
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")
        return self._hook(module, device_mesh)


class RowwiseParallel(_Divided):
    """Each process computes with some of a layer's inputs; the outputs are sums over processes."""

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True):
        super().__init__(input_layouts or Shard(-1), Shard(-1), output_layouts or Replicate(), use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if isinstance(module, Linear):
            _divide(module, device_mesh, {"weight": Shard(1)}, Replicate())
        elif isinstance(module, Embedding):
            self.desired_input_layouts = (Replicate(),)
            _divide(module, device_mesh, {}, Shard(0))
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")
        return self._hook(module, device_mesh)


class SequenceParallel(_Divided):
    """Norms and dropout on inputs that are divided along the sequence; parameters are replicated."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False):
        place = Shard(sequence_dim)
        super().__init__(place, place, place, use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        _divide(module, device_mesh, {}, Replicate())
        return self._hook(module, device_mesh)


def _listed(value: Any) -> tuple[Any, ...]:
    return () if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)


class PrepareModuleInput(ParallelStyle):
    """Gives the inputs of a module placements."""

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None, use_local_output: bool = False,
    ):  # fmt: skip
        self.given, self.wanted = _listed(input_layouts), _listed(desired_input_layouts)
        if len(self.given) != len(self.wanted):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.named, self.wanted_named = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def before(_: Any, args: Any, kwargs: Any) -> Any:
            if self.given and len(args) != len(self.given):
                raise ValueError("module inputs and input_layouts should have same length!")
            laid = [
                _laid(x, device_mesh, given, wanted, self.use_local_output)
                for x, given, wanted in zip(args, self.given, self.wanted)
            ]
            named = {
                key: _laid(x, device_mesh, self.named.get(key), self.wanted_named.get(key), self.use_local_output)
                if key in self.named
                else x
                for key, x in kwargs.items()
            }
            return tuple(laid) if self.given else args, named

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Gives the outputs of a module placements."""

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True):
        self.given, self.wanted = _listed(output_layouts), _listed(desired_output_layouts)
        if len(self.given) != len(self.wanted):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def after(_: Any, args: Any, out: Any) -> Any:
            outs = out if isinstance(out, tuple) else (out,)
            if len(outs) != len(self.given):
                raise ValueError("module outputs and output_layouts should have same length!")
            laid = [
                _laid(x, device_mesh, given, wanted, self.use_local_output)
                for x, given, wanted in zip(outs, self.given, self.wanted)
            ]
            return tuple(laid) if isinstance(out, tuple) else laid[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Gives the inputs and the outputs of a module placements."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts, input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Divides a module by a style, or inner modules by the styles of a plan: names, also with `*`, and styles."""
    mesh = device_mesh or DeviceMesh("cpu")
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module: a mesh with one dimension is needed, got {mesh}: take one by its name")
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported at the moment", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} found!"
        )
    for pattern, style in parallelize_plan.items():
        matched = [m for name, m in module.named_modules() if _matches(name, pattern)]
        if not matched:
            warnings.warn(f"parallelize_plan: there is no module {pattern!r}", stacklevel=2)
        for inner in matched:
            style._apply(inner, mesh)
    return module


def _matches(name: str, pattern: str) -> bool:
    """By parts between dots: a star stands for one."""
    names, patterns = name.split("."), pattern.split(".")
    return len(names) == len(patterns) and all(fnmatch.fnmatchcase(n, p) for n, p in zip(names, patterns))
