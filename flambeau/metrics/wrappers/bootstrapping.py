"""`BootStrapper`: how certain a figure is, from copies of the metric that see resampled batches."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import ModuleList
from ..metric import Metric
from .abstract import WrapperMetric


class BootStrapper(WrapperMetric):
    """Copies of a metric, each updated with a resampled batch; gives mean, standard deviation, quantiles of the figures.

    `sampling_strategy`: "poisson" repeats each sample a random number of times, "multinomial" draws with replacement.
    """

    full_state_update = True

    def __init__(
        self,
        base_metric: Metric,
        num_bootstraps: int = 10,
        mean: bool = True,
        std: bool = True,
        quantile: float | Tensor | None = None,
        raw: bool = False,
        sampling_strategy: str = "poisson",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(base_metric, Metric):
            raise ValueError(
                f"Expected base metric to be an instance of torchmetrics.Metric but received {base_metric}"
            )
        if sampling_strategy not in ("poisson", "multinomial"):
            raise ValueError(
                f"Expected `sampling_strategy` to be 'poisson' or 'multinomial' but received {sampling_strategy}"
            )
        self.metrics = ModuleList([base_metric.clone() for _ in range(num_bootstraps)])
        self.num_bootstraps, self.mean, self.std, self.raw = num_bootstraps, mean, std, raw
        self.quantile, self.sampling_strategy = quantile, sampling_strategy

    def _sample(self, size: int) -> Tensor:
        if self.sampling_strategy == "multinomial":
            return ops.randint(0, size, (size,))
        counts = ops.poisson(ops.ones(size)).long()
        return ops.repeat_interleave(ops.arange(size), counts)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Gives each copy its own sample of the batch."""
        size = next((len(v) for v in (*args, *kwargs.values()) if isinstance(v, Tensor)), None)
        if size is None:
            raise ValueError("None of the input contained tensors, so could not determine the sampling size")
        for metric in self.metrics:
            chosen = self._sample(size)
            if len(chosen):
                metric.update(
                    *(v[chosen] if isinstance(v, Tensor) else v for v in args),
                    **{k: v[chosen] if isinstance(v, Tensor) else v for k, v in kwargs.items()},
                )

    def compute(self) -> dict[str, Tensor]:
        """What was asked for of: "mean", "std", "quantile", "raw"."""
        values = ops.stack([metric.compute() for metric in self.metrics], 0)
        found = {}
        if self.mean:
            found["mean"] = values.mean(0)
        if self.std:
            found["std"] = values.std(0)
        if self.quantile is not None:
            found["quantile"] = ops.quantile(values, self.quantile)
        if self.raw:
            found["raw"] = values
        return found

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch and returns what was asked for of this batch alone."""
        before = [metric.metric_state for metric in self.metrics]
        counts = [metric._update_count for metric in self.metrics]
        for metric in self.metrics:
            metric.reset()
        self.update(*args, **kwargs)
        value = self.compute()
        for metric, states, count in zip(self.metrics, before, counts):
            batch, seen = metric.metric_state, metric._update_count
            metric._set_states(states)
            metric._update_count = count
            metric._reduce_states(batch, seen)
            metric._update_count = count + seen
            metric._computed = None
        return value

    def reset(self) -> None:
        """Resets all copies."""
        super().reset()
        for metric in self.metrics:
            metric.reset()
