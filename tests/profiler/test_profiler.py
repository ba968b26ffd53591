"""The profiler: what it records, how it is shown, and that nothing is left on afterwards."""

import gzip
import json
import re

import pytest

import flambeau as torch
from flambeau._core.state import local, modes
from flambeau.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def names(prof):
    return [event.name for event in prof.events()]


@pytest.fixture(autouse=True)
def nothing_is_left_on():
    yield
    assert local.profiler is None and not modes.on


def training_step(model, optimizer, x):
    optimizer.zero_grad()
    with record_function("forward"):
        loss = model(x).mean()
    loss.backward()
    optimizer.step()


@pytest.fixture
def step():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    return lambda: training_step(model, optimizer, torch.randn(5, 8))


def test_a_training_step_has_the_events_that_pytorch_has(step):
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        step()
    found = set(names(prof))
    assert {
        "forward", "aten::linear", "aten::addmm", "aten::relu", "aten::mean", "aten::mm", "aten::threshold_backward",
        "Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad", "AddmmBackward0",
        "autograd::engine::evaluate_function: AddmmBackward0", "torch::autograd::AccumulateGrad",
    } <= found  # fmt: skip


def test_events_are_nested(step):
    with profile() as prof:
        step()
    by_name = {event.name: event for event in prof.events()}
    assert by_name["aten::addmm"].cpu_parent is by_name["aten::linear"]
    forward = by_name["forward"]
    assert {child.name for child in forward.cpu_children} == {"aten::linear", "aten::relu", "aten::mean"}
    assert forward.cpu_time_total >= sum(child.cpu_time_total for child in forward.cpu_children)
    assert forward.self_cpu_time_total == pytest.approx(
        forward.cpu_time_total - sum(child.cpu_time_total for child in forward.cpu_children)
    )
    for event in prof.events():
        assert event.time_range.end >= event.time_range.start >= 0


def test_each_operation_is_counted_once():
    x = torch.randn(4, 4)
    with profile() as prof:
        for _ in range(3):
            x.exp()
        torch.cumsum(x, 0)
        x.mul_(2)
        x @ x
    averages = {event.key: event.count for event in prof.key_averages()}
    assert averages == {"aten::exp": 3, "aten::cumsum": 1, "aten::mul_": 1, "aten::matmul": 1, "aten::mm": 1}


def test_in_place_operations_are_done_in_place_while_profiled():
    x = torch.arange(4.0)
    view = x[1:3]
    with profile():
        x.add_(1)
        x.clamp_(max=3)
    assert x.tolist() == [1, 2, 3, 3] and view.tolist() == [2, 3]


def test_results_do_not_depend_on_the_profiler():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.GELU())
    x = torch.randn(2, 1, 5, 5)
    model(x).sum().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True):
        model(x).sum().backward()
    for p, g in zip(model.parameters(), plain):
        assert torch.allclose(p.grad, g, atol=1e-6)


def test_shapes_memory_and_flops():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as prof:
        torch.mm(a, b)
        a.t()
    product = next(e for e in prof.events() if e.name == "aten::mm")
    assert product.input_shapes == [[3, 4], [4, 5]]
    assert product.flops == 2 * 3 * 4 * 5 and product.self_cpu_memory_usage == 3 * 5 * 4
    assert next(e for e in prof.events() if e.name == "aten::t").cpu_memory_usage == 0  # a view
    grouped = prof.key_averages(group_by_input_shape=True)
    assert [e.input_shapes for e in grouped if e.key == "aten::mm"] == [[[3, 4], [4, 5]]]
    table = grouped.table()
    assert "Input Shapes" in table and "CPU Mem" in table and "Total FLOPs" in table and "60 B" in table


def test_table_has_pytorchs_columns():
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        torch.ones(3).exp()
    lines = prof.key_averages().table(sort_by="cpu_time_total", row_limit=1).splitlines()
    assert re.split(r"\s{2,}", lines[1].strip()) == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
    ]  # fmt: skip
    assert lines[0] == lines[2] == lines[4] and set(lines[0]) == {"-", " "} and len(lines) == 6
    assert lines[5].startswith("Self CPU time total: ")
    row = re.split(r"\s{2,}", lines[3].strip())
    assert row[0].startswith("aten::") and row[-1] == "1" and row[1].endswith("%") and row[2].endswith(("us", "ms"))


def test_sorting_and_limits():
    x = torch.ones(2)
    with profile() as prof:
        x.sin()
        for _ in range(3):
            x.exp()
    averages = prof.key_averages()
    lines = averages.table(sort_by="count", row_limit=1).splitlines()
    assert "aten::exp" in lines[3] and lines[3].split()[-1] == "3" and not any("aten::sin" in line for line in lines)
    with pytest.raises(AttributeError):
        averages.table(sort_by="nothing")
    assert "This report only display top-level ops statistics" in averages.table(top_level_events_only=True, header="H")


def test_labels_nest_and_decorate():
    @record_function("whole")
    def run(x):
        with record_function("part"):
            return x.exp()

    run(torch.ones(2))  # without a profiler a label is nothing
    with profile() as prof:
        run(torch.ones(2))
    part = next(e for e in prof.events() if e.name == "part")
    assert part.cpu_parent.name == "whole" and part.is_user_annotation


def test_an_error_closes_its_events():
    x = torch.ones(2, 3)
    with profile() as prof:
        with pytest.raises(RuntimeError), record_function("fails"):
            torch.mm(x, x)
        x.exp()
    assert [(e.name, e.cpu_parent and e.cpu_parent.name) for e in prof.events()] == [
        ("fails", None), ("aten::mm", "fails"), ("aten::exp", None),
    ]  # fmt: skip


def test_schedule():
    steps = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [steps(i).name for i in range(10)] == [
        "NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
    ]  # fmt: skip
    with pytest.raises(AssertionError):
        schedule(wait=-1, warmup=0, active=1)
    with pytest.warns(UserWarning, match="warmup"):
        early = schedule(wait=1, warmup=0, active=1, skip_first=2, skip_first_wait=1)
    assert early(2) is ProfilerAction.RECORD_AND_SAVE


def test_scheduled_steps_are_recorded():
    seen = []

    def ready(prof):
        seen.append((prof.step_num, [e.name for e in prof.events() if e.cpu_parent is None]))

    x = torch.ones(2)
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
        for _ in range(9):
            x.exp()
            prof.step()
    assert seen == [(4, ["ProfilerStep*"] * 2), (8, ["ProfilerStep*"] * 2)]
    assert prof.step_num == 9 and prof.current_action is ProfilerAction.NONE


@pytest.mark.parametrize("keep", [False, True])
def test_a_profile_that_ends_while_it_warms_up_has_the_events_of_earlier_cycles(keep):
    x = torch.ones(2)
    with profile(schedule=schedule(wait=0, warmup=1, active=1), acc_events=keep) as prof:
        for _ in range(4):
            x.exp()
            prof.step()
    assert sum(e.count for e in prof.key_averages() if e.key == "aten::exp") == (2 if keep else 0)


def test_without_a_start_there_is_nothing():
    prof = profile()
    for call in (prof.key_averages, prof.events, prof.stop):
        with pytest.raises(AssertionError, match="must be initialized"):
            call()


def test_trace_file(tmp_path, step):
    with profile(with_stack=True, record_shapes=True) as prof:
        step()
    prof.add_metadata("purpose", "test")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["purpose"] == "test" and trace["displayTimeUnit"] == "ms"
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == len(prof.events()) + 1
    for entry in spans:
        assert {"name", "ts", "dur", "pid", "tid", "cat"} <= entry.keys() and entry["dur"] >= 0
    assert {"cpu_op", "user_annotation"} <= {e["cat"] for e in spans}
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]


def test_tensorboard_trace_handler(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "logs"), worker_name="w", use_gzip=True)):
        torch.ones(2).exp()
    (found,) = (tmp_path / "logs").iterdir()
    assert found.name.startswith("w.") and found.name.endswith(".pt.trace.json.gz")


def test_stacks(tmp_path):
    def here():
        return torch.ones(100, 100) @ torch.ones(100, 100)

    with profile(with_stack=True) as prof:
        here()
    event = next(e for e in prof.events() if e.name == "aten::mm")
    assert "test_profiler.py" in event.stack[0] and event.stack[0].endswith(": here")
    assert "Source Location" in prof.key_averages(group_by_stack_n=2).table(max_src_column_width=120)
    prof.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines and all(re.fullmatch(r"\S+ \d+", line) for line in lines) and ";" in lines[0]


def test_modules_are_events_when_asked():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    with profile(with_modules=True) as prof:
        model(torch.ones(1, 2))
    found = [n for n in names(prof) if n.startswith("nn.Module")]
    assert found == ["nn.Module: Sequential_0", "nn.Module: Linear_0", "nn.Module: Linear_1"]


def test_data_loader_is_an_event():
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(4.0)), batch_size=2)
    with profile() as prof:
        for _ in loader:
            pass
    assert "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" in names(prof)


def test_older_interface():
    with torch.autograd.profiler.profile(record_shapes=True) as prof:
        torch.ones(2).exp()
    assert prof.self_cpu_time_total > 0 and prof.total_average().key == "Total"
    assert str(prof) == prof.table()
    with torch.autograd.profiler.profile(enabled=False) as off:
        torch.ones(2).exp()
    assert off is None


def test_recording_can_be_paused():
    x = torch.ones(2)
    with profile() as prof:
        x.exp()
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        x.sin()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        x.cos()
    assert names(prof) == ["aten::exp", "aten::cos"]


@pytest.mark.gpu
def test_times_on_a_gpu():
    x = torch.randn(512, 512, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as prof:
        y = x @ x
        y.exp()
    product = next(e for e in prof.events() if e.name == "aten::mm")
    assert product.device_time_total > 0 and product.self_device_memory_usage == 512 * 512 * 4
    table = prof.key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA" in table and "CUDA Mem" in table and "Self CUDA time total" in table


def test_children_of_events_that_overlap():
    from flambeau.autograd.profiler_util import EventList, FunctionEvent

    spans = [(1, 0, 1), (1, 1, 2), (0, 0, 2), (0, 1, 2), (0, 1, 3)]
    events = EventList(
        [FunctionEvent(i, "", thread, start, end, node_id=0) for i, (thread, start, end) in enumerate(spans)]
    )
    events._populate_cpu_children()
    assert [[child.id for child in event.cpu_children] for event in events] == [[], [], [], [], [3]]


def test_whether_a_profiler_runs():
    assert not torch.autograd._profiler_enabled()
    with torch.autograd.profiler.profile():
        assert torch.autograd._profiler_enabled()
    assert not torch.autograd._profiler_enabled()


def test_profilers_that_end_in_the_order_in_which_they_began():
    first, second, third = profile(), profile(), profile()
    x = torch.ones(2)
    for prof in (first, second, third):
        prof.start()
    x.exp()
    second.stop()
    x.sin()
    first.stop()
    x.cos()
    third.stop()
    x.tan()
    assert names(second) == ["aten::exp"]
    assert names(first) == ["aten::exp", "aten::sin"] and names(third) == ["aten::exp", "aten::sin", "aten::cos"]


def test_events_are_what_they_were_given():
    from flambeau.autograd.profiler import DeviceType, FunctionEvent

    outer = FunctionEvent(1, "outer", 0, 1.0, 9.0, cpu_memory_usage=5, node_id=3, metadata_json="{}")
    inner = FunctionEvent(2, "inner", 0, 2.0, 4.0, cpu_memory_usage=2)
    outer.append_cpu_child(inner)
    assert (outer.self_cpu_time_total, outer.self_cpu_memory_usage, outer.node_id) == (6.0, 3, 3)
    assert (inner.input_shapes, inner.flops, inner.device_index, inner.trace_name) == (None, None, 0, None)
    apart = FunctionEvent(3, "apart", 0, 1.0, 3.0, is_async=True)
    assert (apart.cpu_time_total, apart.self_cpu_time_total) == (2.0, 0)
    kernel = FunctionEvent(4, "kernel", 0, 1.0, 3.0, device_type=DeviceType.CUDA)
    assert (kernel.cpu_time_total, kernel.device_time_total) == (0, 2.0)


def test_record_function_takes_attributes():
    """Tracers leave notes on it."""
    block = torch.profiler.record_function("a")
    block.note = 1
    assert block.note == 1


def test_options_of_pytorchs_library_are_taken():
    from flambeau._C._profiler import _ExperimentalConfig

    with torch.profiler.profile(experimental_config=_ExperimentalConfig(verbose=True)) as prof:
        torch.ones(2).exp()
    assert prof.experimental_config.verbose and any("exp" in e.name for e in prof.events())
