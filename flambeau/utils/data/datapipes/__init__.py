"""Datasets as chains of small steps: `IterDataPipe` for streams, `MapDataPipe` for samples with keys."""

from . import datapipe, iter, map
from ._decorator import (
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)  # fmt: skip

__all__ = [
    "argument_validation", "datapipe", "functional_datapipe", "guaranteed_datapipes_determinism", "iter", "map",
    "non_deterministic", "runtime_validation", "runtime_validation_disabled",
]  # fmt: skip
