"""Gradients that are averaged over all processes at first, and later over those of a machine only.

`PostLocalSGDOptimizer` then averages the parameters of all now and then.
"""

from __future__ import annotations

from typing import Any

from ....futures import Future
from ..._subgroups import new_subgroups
from .default_hooks import allreduce_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """When `post_localSGD_hook` changes from all processes to those of `subgroup` (by default, of this machine)."""

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ):
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter, self.post_local_gradient_allreduce = (
            start_localSGD_iter,
            post_local_gradient_allreduce,
        )
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Counts backward passes, by their last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future:
    """The mean over all processes for the first passes, then over the subgroup, or (if the state says so) none at all."""
    number = state.iter
    state.maybe_increase_iter(bucket)
    if number < state.start_localSGD_iter:
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        done: Future = Future()
        done.set_result(bucket.buffer())
        return done
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
