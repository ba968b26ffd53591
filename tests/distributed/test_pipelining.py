"""Pipelines: chunks, orders and errors in this process, whole steps in worlds of two and four."""

from pathlib import Path

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import _orders, microbatch

from .world import free_port, needs_mpi, run

CHECKS = Path(__file__).parent / "pipeline_checks.py"


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_gradients_are_those_of_one_process(size):
    names = ["schedules", "cut_models", "split_by_paths"] + (["replicas_of_stages"] if size == 4 else [])
    run(CHECKS, names, size)


def test_chunks():
    x = torch.arange(10.0).reshape(5, 2)
    args, kwargs = microbatch.split_args_kwargs_into_chunks((x, 3), {"k": {"a": x}}, 2)
    assert (
        [a.shape[0] for a, _ in args] == [3, 2] and args[1][1] == 3 and kwargs[1]["k"]["a"].tolist() == [[6, 7], [8, 9]]
    )
    assert len(microbatch.split_args_kwargs_into_chunks((x,), {}, 8)[0]) == 5
    specs = (microbatch.TensorChunkSpec(1), microbatch._Replicate)
    args, _ = microbatch.split_args_kwargs_into_chunks((x, x), None, 2, specs)
    assert args[0][0].shape == (5, 1) and args[1][1] is x
    merged = microbatch.merge_chunks([(x, 1), (x, 2)], (microbatch.TensorChunkSpec(1), microbatch.sum_reducer))
    assert merged[0].shape == (5, 4) and merged[1] == 3
    assert microbatch.merge_chunks([{"a": x}, {"a": x}], None)["a"].shape == (10, 2)


def test_orders_run_every_pass_once_and_in_time():
    assert "".join(what for _, what, _ in _orders.one_by_one(0, 2, 4)) == "FFBFBFBB"
    assert "".join(what for _, what, _ in _orders.one_by_one(1, 2, 3)) == "FBFBFB"
    everyone = [_orders.interleaved([r, r + 2], r, 2, 4) for r in range(2)]
    for orders, kinds in [(everyone, "FB"), (_orders.without_bubbles([0, 1, 1, 0], 4), "FIW")]:
        for order in orders:
            assert len(set(order)) == len(order) == 2 * 4 * len(kinds)
        done, places = set(), [0] * len(orders)
        while any(place < len(order) for place, order in zip(places, orders)):  # no process waits for ever
            before = len(done)
            for r, order in enumerate(orders):
                while places[r] < len(order):
                    stage, what, m = order[places[r]]
                    needs = (stage - 1, "F", m) if what == "F" else (stage + 1, what, m)
                    if what != "W" and 0 <= needs[0] < 4 and needs not in done:
                        break
                    done.add(order[places[r]])
                    places[r] += 1
            assert len(done) > before


def test_errors():
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    try:
        net, cpu = nn.Linear(2, 2), torch.device("cpu")
        with pytest.raises(ValueError, match="Stage index 3 is out of range of 2"):
            pipelining.PipelineStage(net, 3, 2, cpu)
        with pytest.raises(ValueError, match="Unknown schedule name 'x'"):
            pipelining.schedules.get_schedule_class("x")
        with pytest.raises(ValueError, match="2 stages on 1 processes"):
            two = [pipelining.PipelineStage(net, i, 2, cpu) for i in range(2)]
            pipelining.ScheduleGPipe(two[0], 2)
        schedule = pipelining.ScheduleGPipe(pipelining.PipelineStage(net, 0, 1, cpu), 4, nn.MSELoss())
        with pytest.raises(ValueError, match="must give a target"):
            schedule.step(torch.ones(8, 2))
        with pytest.raises(ValueError, match="Expecting 4 arg_mbs but got 2"):
            schedule.step(torch.ones(2, 2), target=torch.ones(2, 2))
        with pytest.raises(AttributeError, match="has no attribute"):
            pipelining.pipeline(net, (torch.ones(1, 2),), split_spec={"zz": pipelining.SplitPoint.END})
        with pytest.warns(UserWarning, match=r"used by stages \[0, 1\]: each trains a copy"):
            pipelining.pipeline(
                nn.Sequential(net, net), (torch.ones(1, 2),), split_spec={"0": pipelining.SplitPoint.END}
            )
        net.weight.grad = None
        out = schedule.step(torch.ones(8, 2), target=torch.zeros(8, 2))
        assert out.shape == (8, 2) and net.weight.grad is not None
    finally:
        dist.destroy_process_group()
