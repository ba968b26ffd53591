"""`MetricCollection`: several metrics on the same data, those with equal states updated once."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..nn import ModuleDict
from .metric import Metric
from .utilities import rank_zero_warn


class MetricCollection(ModuleDict):
    """Metrics that are called, updated and computed together; results come as a dictionary by name.

    Metrics that count the same things (precision and recall, say) form a group: only its first is updated, the others
    take its states. `compute_groups` switches that off, or names the groups.

    >>> import flambeau as torch
    >>> from flambeau.metrics.regression import MeanAbsoluteError, MeanSquaredError
    >>> both = MetricCollection([MeanSquaredError(), MeanAbsoluteError()], prefix="val_")
    >>> both(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    {'val_MeanSquaredError': tensor(2.), 'val_MeanAbsoluteError': tensor(1.)}
    """

    def __init__(
        self,
        metrics: Metric | MetricCollection | Sequence[Any] | dict[str, Any],
        *additional_metrics: Metric,
        prefix: str | None = None,
        postfix: str | None = None,
        compute_groups: bool | list[list[str]] = True,
    ) -> None:
        super().__init__()
        for name, value in (("prefix", prefix), ("postfix", postfix)):
            if value is not None and not isinstance(value, str):
                raise ValueError(f"Expected input `{name}` to be a string, but got {type(value)}")
        self.prefix, self.postfix = prefix, postfix
        self._enable_compute_groups = compute_groups
        self._groups: dict[int, list[str]] = {}
        self.add_metrics(metrics, *additional_metrics)

    # Members

    def add_metrics(self, metrics: Any, *additional_metrics: Metric) -> None:
        """Adds metrics: one, several, a dictionary by name, or those of another collection."""
        if isinstance(metrics, (Metric, MetricCollection)):
            metrics = [metrics]
        if isinstance(metrics, Sequence):
            metrics = list(metrics)
            others = [m for m in additional_metrics if not isinstance(m, (Metric, MetricCollection))]
            if others:
                rank_zero_warn(f"Arguments that are no metrics are left out: {others}", UserWarning)
            metrics.extend(m for m in additional_metrics if isinstance(m, (Metric, MetricCollection)))
        elif additional_metrics:
            raise ValueError(f"Further metrics can be given after metrics or a list of them, not after {type(metrics)}")
        if isinstance(metrics, dict):
            for name in sorted(metrics):
                self._add(name, metrics[name], f"{name}_")
        elif isinstance(metrics, list):
            for metric in metrics:
                name = type(metric).__name__
                if isinstance(metric, Metric) and name in self._modules:
                    raise ValueError(f"Encountered two metrics both named {name}")
                self._add(name, metric, "")
        else:
            raise ValueError(
                f"Unknown input to MetricCollection: expected a metric, a list or a dict, but got {type(metrics)}"
            )
        self._make_groups()

    def _add(self, name: str, metric: Any, prefix: str) -> None:
        if isinstance(metric, Metric):
            self._modules[name] = metric
        elif isinstance(metric, MetricCollection):
            for inner, member in metric.items(keep_base=False, copy_state=False):
                member.prefix, member.postfix = metric.prefix, metric.postfix
                self._modules[prefix + inner] = member
        else:
            raise ValueError(
                f"Value {metric} belonging to key {name} is not an instance of `torchmetrics.Metric` or "
                "`torchmetrics.MetricCollection`"
            )

    def _make_groups(self) -> None:
        """Puts metrics together whose states depend on the same things."""
        wished = self._enable_compute_groups
        if isinstance(wished, list):
            for name in (name for group in wished for name in group):
                if name not in self._modules:
                    raise ValueError(
                        f"Input {name} in `compute_groups` does not match a metric of the collection: {list(self._modules)}"
                    )
            rest = [[name] for name in self._modules if not any(name in group for group in wished)]
            self._groups = dict(enumerate([list(group) for group in wished] + rest))
            return
        found: dict[Any, list[str]] = {}
        for name, metric in self._modules.items():
            key: Any = name
            if wished and metric._update_options is not None:
                options = [repr(getattr(metric, option)) for option in metric._update_options]
                flags = (metric.full_state_update, metric.dist_sync_on_step, metric.compute_on_cpu)
                key = (type(metric).update, *options, *flags)
            found.setdefault(key, []).append(name)
        self._groups = dict(enumerate(found.values()))

    @property
    def compute_groups(self) -> dict[int, list[str]]:
        """Names of the metrics that share their states, by group."""
        return self._groups

    def _members(self) -> Iterator[list[Metric]]:
        for names in self._groups.values():
            yield [self._modules[name] for name in names]

    def _share(self, copied: bool = False) -> None:
        """Gives all members of each group the states of its first."""
        for first, *others in self._members():
            for other in others:
                if other._update_count != first._update_count or copied:
                    other._computed = None
                other._update_count, other._is_synced = first._update_count, first._is_synced
                other._set_states(first._copied_states() if copied else first.metric_state)

    # Data

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch to all metrics; each takes those keywords that it knows."""
        for first, *others in self._members():
            first.update(*args, **first._filter_kwargs(**kwargs))
            for other in others:
                other._computed = None

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Adds a batch to all metrics and returns its figures."""
        values: dict[str, Any] = {}
        for names in self._groups.values():
            members = [self._modules[name] for name in names]
            first = members[0]
            keywords = first._filter_kwargs(**kwargs)
            if len(members) > 1 and first._merges:
                values.update(zip(names, first._forward_merging(args, keywords, members)))
            else:
                values.update((name, member(*args, **keywords)) for name, member in zip(names, members))
        self._share()
        return self._named({name: values[name] for name in self._modules})

    def compute(self) -> dict[str, Any]:
        """The figures of all data since the last reset."""
        self._share()
        return self._named({name: metric.compute() for name, metric in self._modules.items()})

    def _named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Results under their full names; a metric that gives a dictionary gives several."""
        found: dict[str, Any] = {}
        entries = [key for value in values.values() if isinstance(value, dict) for key in value]
        repeated = len(set(entries)) != len(entries)
        for name, value in values.items():
            if not isinstance(value, dict):
                found[self._set_name(name)] = value
                continue
            for key, item in value.items():
                found[self._set_name(f"{name}_{key}" if repeated else key)] = item
        return found

    def reset(self) -> None:
        """Resets all metrics."""
        for metric in self._modules.values():
            metric.reset()

    # Names

    def _set_name(self, base: str) -> str:
        return f"{self.prefix or ''}{base}{self.postfix or ''}"

    def keys(self, keep_base: bool = False) -> Iterable[str]:
        """Names with prefix and postfix, or without them."""
        return self._modules.keys() if keep_base else OrderedDict.fromkeys(map(self._set_name, self._modules)).keys()

    def items(self, keep_base: bool = False, copy_state: bool = True) -> Iterable[tuple[str, Metric]]:
        """Names and metrics; `copy_state` gives the members of a group states of their own."""
        self._share(copy_state)
        return [(name if keep_base else self._set_name(name), metric) for name, metric in self._modules.items()]

    def values(self, copy_state: bool = True) -> Iterable[Metric]:
        """The metrics."""
        self._share(copy_state)
        return self._modules.values()

    def __getitem__(self, key: str, copy_state: bool = True) -> Metric:
        self._share(copy_state)
        if key not in self._modules and key.startswith(self.prefix or "") and key.endswith(self.postfix or ""):
            key = key.removeprefix(self.prefix or "").removesuffix(self.postfix or "")
        return self._modules[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    # The whole

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> MetricCollection:
        """A copy with its own states, and another prefix or postfix if given."""
        fresh = copy.deepcopy(self)
        for name, value in (("prefix", prefix), ("postfix", postfix)):
            if value is not None and not isinstance(value, str):
                raise ValueError(f"Expected input `{name}` to be a string, but got {type(value)}")
            if value:
                setattr(fresh, name, value)
        return fresh

    def persistent(self, mode: bool = True) -> None:
        """Says whether the states go into `state_dict`."""
        for metric in self._modules.values():
            metric.persistent(mode)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The persistent states of all metrics."""
        self._share()
        return super().state_dict(*args, **kwargs)

    @property
    def metric_state(self) -> dict[str, dict[str, Any]]:
        """The states by metric."""
        return {name: metric.metric_state for name, metric in self.items(keep_base=True, copy_state=False)}

    def set_dtype(self, dst_type: Any) -> MetricCollection:
        """Gives the floating states another type."""
        for metric in self._modules.values():
            metric.set_dtype(dst_type)
        return self

    def plot(self, val: Any = None, ax: Sequence[Any] | None = None, together: bool = False) -> Any:
        """Draws each metric's figure with matplotlib, or all in one with `together`."""
        found = self.compute() if val is None else val
        if together:
            from .utilities.plot import plot_values  # needs matplotlib

            return plot_values(found, ax, type(self).__name__)
        drawn = []
        for i, (name, metric) in enumerate(self.items(copy_state=False)):
            figures = [step[name] for step in found] if isinstance(found, Sequence) else found[name]
            drawn.append(metric.plot(figures, ax=None if ax is None else ax[i]))
        return drawn

    def __repr__(self) -> str:
        shown = super().__repr__()
        for name, value in (("prefix", self.prefix), ("postfix", self.postfix)):
            if value:
                shown = f"{shown[:-2]},\n  {name}={value}\n)"
        return shown
