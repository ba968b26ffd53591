"""Base of metrics around metrics: states, updates and saving are those of the metric inside."""

from __future__ import annotations

from typing import Any

from ..metric import Metric


class WrapperMetric(Metric):
    """A metric that holds other metrics and leaves counting and synchronising to them."""

    _delegates = True

    def _filter_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        return kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch and returns its figure."""
        raise NotImplementedError

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch."""
        raise NotImplementedError

    def compute(self) -> Any:
        """The figure so far."""
        raise NotImplementedError
