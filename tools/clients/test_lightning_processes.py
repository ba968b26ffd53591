"""Lightning on two CPU processes."""

import processes


def test_two_processes(record_property):
    size, *losses = processes.found("lightning_ddp.py", launch=False)
    assert size == 2
    record_property("losses", losses)
