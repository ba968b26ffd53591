"""`Metric`: state that is filled batch by batch and gives a figure; how it is kept, moved, merged and synchronised."""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .._autograd.modes import set_grad_enabled
from .._core import dtypes
from .._core.devices import device as Device
from .._ops.registry import ops
from .._tensor import Tensor
from ..nn import Module
from .utilities import rank_zero_warn
from .utilities.data import dim_zero_cat, dim_zero_max, dim_zero_mean, dim_zero_min, dim_zero_sum
from .utilities.distributed import distributed_available, gather_all_tensors
from .utilities.exceptions import TorchMetricsUserError

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": dim_zero_sum, "mean": dim_zero_mean, "cat": dim_zero_cat, "min": dim_zero_min, "max": dim_zero_max,
}  # fmt: skip
_CONSTANTS = ("higher_is_better", "is_differentiable", "full_state_update", "plot_lower_bound", "plot_upper_bound")
_PLAIN = frozenset((Tensor, bool, int, list))
_FLAGS = {"compute_on_cpu": False, "dist_sync_on_step": False, "sync_on_compute": True, "compute_with_cache": True}


def _squeezed(value: Any) -> Any:
    """Tensors of one element as scalars, also within lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return value.squeeze() if value.numel() == 1 else value
    if isinstance(value, dict):
        return {key: _squeezed(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_squeezed(item) for item in value)
    return value


def _counting(update: Callable[..., None]) -> Callable[..., None]:
    """An `update` that counts its calls and forgets the computed figure; the history is kept in `forward` only."""

    @functools.wraps(update)
    def wrapped(self: Metric, *args: Any, **kwargs: Any) -> None:
        if self._updating:  # called by the update of a subclass
            update(self, *args, **kwargs)
            return
        if self._is_synced:
            raise TorchMetricsUserError("The states are those of all processes; call `unsync` before `update`.")
        self._computed = None
        self._update_count += 1
        self._updating = True
        try:
            with set_grad_enabled(self._enable_grad):
                update(self, *args, **kwargs)
        finally:
            self._updating = False
        if self.compute_on_cpu:
            self._lists_to_cpu()

    return wrapped


def _caching(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A `compute` that synchronises the processes and remembers its result until the next update."""

    @functools.wraps(compute)
    def wrapped(self: Metric, *args: Any, **kwargs: Any) -> Any:
        if self._computing:
            return compute(self, *args, **kwargs)
        if not self._update_count:
            rank_zero_warn(
                f"`compute` of {type(self).__name__} is called before `update`: its states hold no data.", UserWarning
            )
        if self._computed is not None:
            return self._computed
        self._computing = True
        try:
            with self.sync_context(should_sync=self._to_sync, should_unsync=self._should_unsync):
                value = _squeezed(compute(self, *args, **kwargs))
        finally:
            self._computing = False
        if self.compute_with_cache:
            self._computed = value
        return value

    return wrapped


@functools.cache
def _update_parameters(metric: type[Metric]) -> tuple[frozenset[str], bool]:
    """Names that the class's `update` takes, and whether it takes any keyword."""
    kinds = inspect.Parameter
    parameters = list(inspect.signature(metric.update).parameters.values())[1:]
    names = {p.name for p in parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)}
    return frozenset(names), any(p.kind is kinds.VAR_KEYWORD for p in parameters)


class Metric(Module, ABC):
    """Base of all metrics: `add_state` in `__init__`, `update` fills the states, `compute` makes the figure of them.

    Calling the metric gives the figure of one batch and adds the batch to the states.

    >>> import flambeau as torch
    >>> class Share(Metric):
    ...     full_state_update = False
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.add_state("hits", torch.tensor(0), dist_reduce_fx="sum")
    ...         self.add_state("total", torch.tensor(0), dist_reduce_fx="sum")
    ...     def update(self, preds, target):
    ...         self.hits += (preds == target).sum()
    ...         self.total += target.numel()
    ...     def compute(self):
    ...         return self.hits / self.total
    >>> share = Share()
    >>> share(torch.tensor([1, 2]), torch.tensor([1, 0])), share(torch.tensor([3, 3]), torch.tensor([3, 3]))
    (tensor(0.5000), tensor(1.))
    >>> share.compute()
    tensor(0.7500)
    """

    is_differentiable: bool | None = None
    higher_is_better: bool | None = None
    full_state_update: bool | None = None  # False: `forward` may merge the batch's states into the others
    plot_lower_bound: float | None = None
    plot_upper_bound: float | None = None
    # What the states depend on, besides the data. Metrics with one `update` and equal options share their states in a
    # collection; None says that the states are the metric's own.
    _update_options: tuple[str, ...] | None = None
    _delegates = False  # whether counting, remembering and synchronising are left to metrics inside

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, wrap in (("update", _counting), ("compute", _caching)):
            if name in cls.__dict__ and not cls._delegates:
                setattr(cls, name, wrap(cls.__dict__[name]))

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, default in _FLAGS.items():
            value = kwargs.pop(name, default)
            if not isinstance(value, bool):
                raise ValueError(f"Expected keyword argument `{name}` to be an `bool` but got {value}")
            setattr(self, name, value)
        self.process_group = kwargs.pop("process_group", None)
        self.dist_sync_fn = kwargs.pop("dist_sync_fn", None)
        if self.dist_sync_fn is not None and not callable(self.dist_sync_fn):
            raise ValueError(
                f"Expected keyword argument `dist_sync_fn` to be an callable function but got {self.dist_sync_fn}"
            )
        self.distributed_available_fn = kwargs.pop("distributed_available_fn", None) or distributed_available
        if kwargs:
            raise ValueError(f"Unexpected keyword arguments: {', '.join(f'`{name}`' for name in kwargs)}")
        self._device = Device("cpu")
        self._dtype = dtypes.default.float
        self._defaults: dict[str, Any] = {}
        self._persistent: dict[str, bool] = {}
        self._reductions: dict[str, Callable[..., Any] | None] = {}
        self._computed: Any = None
        self._forward_cache: Any = None
        self._cache: dict[str, Any] | None = None
        self._update_count = 0
        self._to_sync = self.sync_on_compute
        self._should_unsync = True
        self._enable_grad = self._is_synced = self._updating = self._computing = False

    def add_state(
        self,
        name: str,
        default: Tensor | list[Any],
        dist_reduce_fx: str | Callable[..., Any] | None = None,
        persistent: bool = False,
    ) -> None:
        """Declares a state: an attribute that starts as `default` (a tensor or an empty list) and `reset` restores.

        `dist_reduce_fx` ("sum", "mean", "cat", "min", "max" or a function of stacked states) says how the states of
        several processes become one.
        """
        if not isinstance(default, (Tensor, list)) or (isinstance(default, list) and default):
            raise ValueError("state variable must be a tensor or any empty list (where you can append tensors)")
        if isinstance(dist_reduce_fx, str) and dist_reduce_fx in REDUCTIONS:
            dist_reduce_fx = REDUCTIONS[dist_reduce_fx]
        elif dist_reduce_fx is not None and not callable(dist_reduce_fx):
            raise ValueError("`dist_reduce_fx` must be callable or one of ['mean', 'sum', 'cat', 'min', 'max', None]")
        if isinstance(default, Tensor):
            default = default.contiguous()
        self._defaults[name] = copy.deepcopy(default)
        self._persistent[name] = persistent
        self._reductions[name] = dist_reduce_fx
        setattr(self, name, default)

    @abstractmethod
    def update(self, *_: Any, **__: Any) -> None:
        """Adds a batch to the states."""

    @abstractmethod
    def compute(self) -> Any:
        """The figure of all data since the last reset."""

    # States

    @property
    def metric_state(self) -> dict[str, Any]:
        """The present values of the states."""
        return {name: getattr(self, name) for name in self._defaults}

    def _set_states(self, states: Mapping[str, Any]) -> None:
        self.__dict__.update(states)

    def _copied_states(self) -> dict[str, Any]:
        return {
            name: value.detach().clone() if isinstance(value, Tensor) else list(value)
            for name, value in self.metric_state.items()
        }

    def reset(self) -> None:
        """Puts the states back to their defaults."""
        self._update_count = 0
        self._computed = self._forward_cache = self._cache = None
        self._is_synced = False
        for name, default in self._defaults.items():
            setattr(self, name, default.detach().clone().to(self._device) if isinstance(default, Tensor) else [])

    @property
    def update_called(self) -> bool:
        """Whether there is data since the last reset."""
        return self._update_count > 0

    @property
    def _update_called(self) -> bool:
        return self._update_count > 0

    @property
    def update_count(self) -> int:
        """Updates since the last reset."""
        return self._update_count

    def _lists_to_cpu(self) -> None:
        for name, value in self.metric_state.items():
            if isinstance(value, list):
                setattr(self, name, [item.to("cpu") for item in value])

    # A batch

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch to the states and returns the figure of this batch alone."""
        if self._is_synced:
            raise TorchMetricsUserError("The states are those of all processes; call `unsync` before `forward`.")
        if self._merges:
            self._forward_cache = self._forward_merging(args, kwargs, (self,))[0]
        else:
            self._forward_cache = self._forward_twice(args, kwargs)
        return self._forward_cache

    @property
    def _merges(self) -> bool:
        """Whether a batch's states can be merged into the others."""
        return self.full_state_update is False and not self.dist_sync_on_step

    def _forward_twice(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Updates the states, then computes the batch from fresh ones: for metrics that look at their states."""
        self.update(*args, **kwargs)
        states, count = self.metric_state, self._update_count
        with self._one_batch():
            self.update(*args, **kwargs)
            value = self.compute()
        self._set_states(states)
        self._update_count = count
        return value

    def _forward_merging(self, args: Sequence[Any], kwargs: Mapping[str, Any], members: Sequence[Metric]) -> list[Any]:
        """Updates fresh states, gives each member's figure of them, and merges them into those of before."""
        before, count = self.metric_state, self._update_count
        with self._one_batch():
            self.update(*args, **kwargs)
            values = [self.compute()]
        batch = self.metric_state
        for member in members[1:]:
            member._set_states(batch)
            member._update_count, member._computed = 1, None
            with member._batch_compute():
                values.append(member.compute())
            member._computed = None
        self._set_states({name: before[name] for name in batch})
        self._update_count = count
        self._reduce_states(batch)
        self._update_count = count + 1
        self._computed = None
        return values

    @contextmanager
    def _batch_compute(self) -> Iterator[None]:
        """Within it `compute` takes this process's states only, unless `dist_sync_on_step` says otherwise."""
        to_sync = self._to_sync
        self._to_sync = self.dist_sync_on_step
        try:
            yield
        finally:
            self._to_sync = to_sync

    @contextmanager
    def _one_batch(self) -> Iterator[None]:
        """Within it the states start fresh and keep the history of what is computed."""
        on_cpu, self.compute_on_cpu = self.compute_on_cpu, False
        self.reset()
        self._enable_grad = True
        try:
            with self._batch_compute():
                yield
        finally:
            self._enable_grad, self._computed, self._is_synced, self.compute_on_cpu = False, None, False, on_cpu

    # Merging and synchronising

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Takes in the states of another metric of this class, or a dictionary of states, as if it had seen the data.

        >>> import flambeau as torch
        >>> from flambeau.metrics import SumMetric
        >>> first, second = SumMetric(), SumMetric()
        >>> first.update(2.0); second.update(3.0); first.merge_state(second); first.compute()
        tensor(5.)
        """
        if isinstance(incoming_state, Metric):
            if not isinstance(incoming_state, type(self)):
                raise ValueError(
                    f"Expected incoming state to be an instance of {type(self).__name__} but got {type(incoming_state)}"
                )
            states, count = incoming_state.metric_state, incoming_state._update_count
        elif isinstance(incoming_state, dict):
            states, count = incoming_state, 1
        else:
            raise ValueError(
                f"Expected incoming state to be a dict or an instance of Metric but got {type(incoming_state)}"
            )
        self._reduce_states(states, count)
        self._update_count += count
        self._computed = None

    def _reduce_states(self, incoming_state: Mapping[str, Any], count: int = 1) -> None:
        """Merges states that have seen `count` updates into those here."""
        for name, theirs in incoming_state.items():
            ours, reduction = getattr(self, name), self._reductions[name]
            if isinstance(theirs, Tensor):
                theirs = theirs.detach()
            elif isinstance(theirs, list):
                theirs = [item.detach() if isinstance(item, Tensor) else item for item in theirs]
            if isinstance(ours, list):
                merged = ours + (theirs if isinstance(theirs, list) else [theirs])
            elif not self._update_count:
                merged = theirs
            elif reduction is dim_zero_sum:
                merged = ours + theirs
            elif reduction is dim_zero_mean:
                merged = (self._update_count * ours + count * theirs).float() / (self._update_count + count)
            elif reduction is dim_zero_cat:
                merged = ops.cat([ours, theirs])
            else:
                merged = ops.stack([ours, theirs])
                merged = merged if reduction is None else reduction(merged)
            setattr(self, name, merged)

    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        """Replaces the states by those of all processes together; `unsync` brings this process's back."""
        if self._is_synced and should_sync:
            raise TorchMetricsUserError("The Metric has already been synced.")
        available = distributed_available or self.distributed_available_fn
        if not should_sync or not available():
            return
        self._cache = self._copied_states()
        gather = dist_sync_fn or self.dist_sync_fn or gather_all_tensors
        group = process_group or self.process_group
        for name, reduction in self._reductions.items():
            setattr(self, name, self._gathered(getattr(self, name), reduction, gather, group))
        self._is_synced = True

    def _gathered(self, state: Any, reduction: Any, gather: Callable[..., list[Tensor]], group: Any) -> Any:
        if isinstance(state, Tensor):
            stacked = ops.stack(gather(state, group=group))
            return stacked if reduction is None else reduction(stacked)
        whole = dim_zero_cat(state) if state else ops.zeros(0, dtype=self._dtype, device=self._device)
        parts = [part for part in gather(whole, group=group) if part.numel()]
        return reduction(parts) if parts and reduction is not None else parts

    def unsync(self, should_unsync: bool = True) -> None:
        """Brings back the states that this process had before `sync`."""
        if not should_unsync:
            return
        if not self._is_synced:
            raise TorchMetricsUserError("The Metric has already been un-synced.")
        if self._cache is None:
            raise TorchMetricsUserError("The internal cache should exist to unsync the Metric.")
        self._set_states(self._cache)
        self._is_synced, self._cache = False, None

    @contextmanager
    def sync_context(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        should_unsync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> Iterator[None]:
        """Within it the states are those of all processes together."""
        before = self._is_synced
        self.sync(dist_sync_fn, process_group, should_sync and not before, distributed_available)
        try:
            yield
        finally:
            self.unsync(self._is_synced and not before and should_unsync)

    # Where it lives, how it is saved

    @property
    def device(self) -> Device:
        """Where the states are."""
        return self._device

    @property
    def dtype(self) -> Any:
        """Type of floating states."""
        return self._dtype

    def type(self, dst_type: Any) -> Metric:
        """Does nothing, as a model's precision is not that of its metrics; see `set_dtype`."""
        return self

    def float(self) -> Metric:
        """Does nothing; see `set_dtype`."""
        return self

    def double(self) -> Metric:
        """Does nothing; see `set_dtype`."""
        return self

    def half(self) -> Metric:
        """Does nothing; see `set_dtype`."""
        return self

    def bfloat16(self) -> Metric:
        """Does nothing; see `set_dtype`."""
        return self

    def set_dtype(self, dst_type: Any) -> Metric:
        """Gives the floating states another type."""
        return super().type(dst_type)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
        super()._apply(fn, *args, **kwargs)
        probe = fn(ops.zeros(1, dtype=self._dtype, device=self._device))
        self._device, self._dtype = probe.device, probe.dtype

        def moved(value: Any) -> Any:
            if isinstance(value, Tensor):
                return fn(value) if value.is_floating_point() else value.to(self._device)
            return type(value)(moved(item) for item in value) if isinstance(value, (list, tuple)) else value

        self._defaults = {name: moved(value) for name, value in self._defaults.items()}
        for table in (self.metric_state, self._cache or {}):
            for name, value in table.items():
                table[name] = moved(value)
            if table is not self._cache:
                self._set_states(table)
        self._computed, self._forward_cache = moved(self._computed), moved(self._forward_cache)
        return self

    def persistent(self, mode: bool = False) -> None:
        """Says whether all states go into `state_dict`."""
        self._persistent = dict.fromkeys(self._persistent, mode)

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The states that are persistent."""
        found = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        for name, value in self.metric_state.items():
            if self._persistent[name]:
                if not keep_vars:
                    value = value.detach() if isinstance(value, Tensor) else [item.detach() for item in value]
                found[prefix + name] = copy.deepcopy(value)
        return found

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in self._defaults:
            if prefix + name in state_dict:
                setattr(self, name, state_dict.pop(prefix + name))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def clone(self) -> Metric:
        """A copy with its own states."""
        return copy.deepcopy(self)

    def __setattr__(self, name: str, value: Any) -> None:
        known = self.__dict__
        if name in known and (
            value is None or type(value) in _PLAIN
        ):  # what states and flags are: no module's business
            known[name] = value
            return
        if name in _CONSTANTS:
            raise RuntimeError(f"Can't change const `{name}`.")
        super().__setattr__(name, value)

    def _filter_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        """Those keyword arguments that this metric's `update` takes."""
        names, any_name = _update_parameters(type(self))
        return kwargs if any_name else {name: value for name, value in kwargs.items() if name in names}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draws the present figure, or the given ones, with matplotlib; returns the figure and its axes."""
        from .utilities.plot import plot_values  # needs matplotlib

        values = self.compute() if val is None else val
        return plot_values(values, ax, type(self).__name__, self.plot_lower_bound, self.plot_upper_bound)

    __hash__ = object.__hash__
    __iter__ = None
