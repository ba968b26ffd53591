"""`torch.monitor`: events, and statistics over windows of time."""

from datetime import datetime, timedelta

import pytest

from flambeau import monitor


@pytest.fixture
def seen():
    events = []
    handle = monitor.register_event_handler(events.append)
    yield events
    monitor.unregister_event_handler(handle)


def test_events_reach_those_who_registered(seen):
    now = datetime.now()
    event = monitor.Event("epoch", now, {"loss": 0.5, "stage": "warm", "last": False})
    monitor.log_event(event)
    assert seen == [event] and (event.name, event.timestamp, event.data["stage"]) == ("epoch", now, "warm")
    second = []
    handle = monitor.register_event_handler(second.append)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert len(seen) == 2 and not second


@pytest.mark.parametrize("args", [(1, datetime.now(), {}), ("x", 1, {}), ("x", datetime.now(), {"a": []})])
def test_events_of_other_types_are_refused(args):
    with pytest.raises(TypeError, match=r"Event\(\)"):
        monitor.Event(*args)


def test_what_a_window_has_is_aggregated(seen):
    stat = monitor.Stat("loss", list(monitor.Aggregation), timedelta(hours=1))
    assert stat.get()[monitor.MEAN] == 0.0
    stat.add(1.0)
    stat.add(4.0)
    assert stat.count == 2 and stat.name == "loss"
    wanted = {"value": 4.0, "mean": 2.5, "count": 2.0, "sum": 5.0, "max": 4.0, "min": 1.0}
    assert {a.name.lower(): v for a, v in stat.get().items()} == wanted
    assert not seen
    del stat
    assert [(e.name, e.data) for e in seen] == [(monitor.STAT_EVENT, {f"loss.{k}": v for k, v in wanted.items()})]


def test_windows_end_by_time_and_by_number(seen, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: clock[0])
    stat = monitor.Stat("n", [monitor.SUM], timedelta(seconds=10), max_samples=2)
    for number in (1, 2, 4):  # the third is one too many
        stat.add(number)
    assert [e.data for e in seen] == [{"n.sum": 3.0}] and stat.count == 0
    clock[0] = 11.0
    stat.add(8)
    clock[0] = 22.0
    stat.add(16)
    assert [e.data for e in seen] == [{"n.sum": 3.0}, {"n.sum": 8.0}] and stat.count == 1


def test_statistics_become_scalars(seen):
    written = []

    class Writer:
        def add_scalar(self, *args, **named):
            written.append((args, named))

    now = datetime.now()
    handler = monitor.TensorboardEventHandler(Writer())
    handler(monitor.Event("other", now, {"a": 1}))
    handler(monitor.Event(monitor.STAT_EVENT, now, {"a.sum": 1.0}))
    assert written == [(("a.sum", 1.0), {"walltime": now.timestamp()})]
