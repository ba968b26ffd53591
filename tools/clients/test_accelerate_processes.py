"""Accelerate on two CPU processes."""

import processes


def test_two_processes(record_property):
    size, *losses = processes.found("accelerate_steps.py")
    assert size == 2
    record_property("losses", losses)
