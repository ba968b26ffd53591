"""What a watched program leaves behind, that it computes what it computes without, and that it obeys between two steps."""

import os
import threading
import time
import warnings

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.watch import recorder as recording
from flambeau.watch.control import Stopped
from flambeau.watch.recorder import Recorder
from flambeau.watch.store import NAME, records, series


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Dropout(0.1))
        self.side = nn.Conv2d(4, 4, 1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.stem(x)
        return self.head((x + self.side(x)).mean((2, 3)))


def train(steps=12, after=lambda n: None):
    """A small training program; gives its weights and the next random number."""
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(16, 1, 6, 6), torch.randint(0, 3, (16,))), 4, shuffle=True)
    n = 0
    while n < steps:
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            n += 1
            after(n)
        print(f"step {n} accuracy: {n / 100}")
    return [p.detach().clone() for p in net.parameters()], torch.rand(1).item()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder, weights and next number with the watch, and without)."""
    folder = tmp_path_factory.mktemp("run")
    plain = train()
    with Recorder(folder, {"program": "train.py"}):
        watched = train()
    return folder, watched, plain


def test_the_program_computes_what_it_computes_without(run):
    _, (watched, number), (plain, expected) = run
    assert number == expected and all(torch.equal(a, b) for a, b in zip(watched, plain))


def test_what_is_recorded(run):
    found = series(run[0] / NAME)
    steps = list(range(1, 13))
    assert found["loss"][0] == found["lr"][0] == found["time/loader"][0] == steps
    assert set(found["lr"][1]) == {0.01} and all(v > 0 for v in found["time/backward"][1])
    assert found["metric/accuracy"] == ([4, 8, 12], [0.04, 0.08, 0.12])
    assert {
        "gradient/stem.0",
        "gradient/side",
        "gradient/head",
        "gradient/all",
        "update/head",
        "dead/stem.1",
    } <= found.keys()
    assert found["gradient/head"][0][:1] == [1] and 0 < found["update/head"][1][0] < 1
    assert found["memory/resident" if os.path.exists("/proc/self/statm") else "memory/peak"][1][-1] > 10


def test_histograms_images_graph_and_state(run):
    found = list(records(run[0] / NAME))
    histograms = {r["n"]: r for r in found if "h" in r}
    assert {"weights/head", "activations/stem.1", "activations/head"} <= histograms.keys()
    assert sum(histograms["weights/head"]["c"]) == 12 and histograms["activations/stem.1"]["r"][0] == 0
    images = next(r for r in found if "images" in r)
    assert images["shape"] == [4, 1, 6, 6] and len(images["png"]) == len(images["labels"]) == 4
    assert found[0]["run"]["program"] == "train.py" and found[-1]["state"] == "ended"


def test_the_graph_follows_values(run):
    graph = next(r["graph"] for r in records(run[0] / NAME) if "graph" in r)
    kinds = {n["path"]: n["kind"] for n in graph["nodes"]}
    shapes = {n["path"]: (n["in"], n["out"]) for n in graph["nodes"]}
    assert (
        graph["name"] == "Net"
        and kinds["stem"] == "Sequential"
        and shapes["stem.0"] == ("[4, 1, 6, 6]", "[4, 4, 6, 6]")
    )
    add, mean = (next(p for p, k in kinds.items() if k == kind) for kind in ("add", "mean"))
    edges = {tuple(e) for e in graph["edges"]}
    assert {
        ("stem.0", "stem.1"),
        ("stem.1", "stem.2"),
        ("stem.2", "side"),
        ("stem.2", add),
        ("side", add),
        (add, mean),
        (mean, "head"),
    } == edges


def test_parameters_of_no_module_and_of_two_models(tmp_path):
    a, b, w = nn.Linear(2, 2), nn.Linear(2, 2), nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([*a.parameters(), *b.parameters(), w], lr=0.1)
    with Recorder(tmp_path, {}):
        (b(a(torch.ones(1, 2))) * w).sum().backward()
        opt.step()
    names = {n for n in series(tmp_path / NAME) if n.startswith("gradient/")}
    assert "gradient/parameter 0" in names and "gradient/Linear" in names


def test_relu_as_a_function_and_results_in_dictionaries(tmp_path):
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            out, _ = self.rnn(x)
            return {"logits": self.head(nn.functional.relu(out)[:, -1]), "more": [out]}

    torch.manual_seed(0)  # some elements are below zero
    net = Functional()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path, {}):
        net(torch.ones(2, 5, 3))["logits"].sum().backward()
        opt.step()
    found = list(records(tmp_path / NAME))
    names = {r["n"] for r in found if "h" in r}
    line = next(n for n in names if "relu" in n)
    assert line.startswith("activations/relu, test_recorder.py:") and "activations/rnn" in names
    assert line.replace("activations", "dead") in series(tmp_path / NAME)
    graph = next(r["graph"] for r in found if "graph" in r)
    relu = next(n["path"] for n in graph["nodes"] if n["kind"] == "relu")
    assert {("rnn", relu), (relu, "head")} <= {tuple(e) for e in graph["edges"]}


def test_a_module_that_was_never_made_says_so_as_without(tmp_path):
    class Forgetful(nn.Module):
        def __init__(self):
            pass

        def forward(self, x):
            return x

    with pytest.raises(AttributeError) as plain:
        Forgetful()(1)
    with pytest.raises(AttributeError) as watched, Recorder(tmp_path, {}):
        Forgetful()(1)
    assert str(plain.value) == str(watched.value)


def obeying(tmp_path, ask):
    """Trains in a thread of its own under a recorder; `ask(recorder, steps)` runs beside it."""
    recorder = Recorder(tmp_path, {})
    done = []
    failed = []

    def beside():
        try:
            ask(recorder, done)
        except BaseException as error:
            failed.append(error)
        finally:
            recorder.control.ask("stop")

    other = threading.Thread(target=beside)
    with pytest.raises(Stopped), recorder:
        train(1 << 30, lambda n: (done.append(n), n == 1 and other.start()))
    other.join()
    assert not failed, failed
    return recorder, len(done)


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_pause_resume_checkpoint_stop(tmp_path):
    def ask(recorder, done):
        recorder.control.ask("checkpoint")
        recorder.control.ask("pause")
        until(lambda: recorder.state == "paused")
        at = len(done)
        time.sleep(0.1)
        assert len(done) == at
        recorder.control.ask("resume")
        until(lambda: len(done) > at + 2)

    _, steps = obeying(tmp_path, ask)
    found = list(records(tmp_path / NAME))
    states = [r["state"] for r in found if "state" in r]
    assert states == ["running", "paused", "running", "stopping", "stopped"] and found[-1]["step"] >= steps
    saved = next(r for r in found if "checkpoint" in r)
    kept = torch.load(saved["checkpoint"])
    assert kept["step"] == saved["step"] and set(kept["models"]["Net"]) == set(Net().state_dict())
    assert len(kept["optimizers"][0]["state"]) == 6
    at = series(tmp_path / NAME)["at"][1]
    assert at == sorted(at)


def test_stopping_is_an_interrupt():
    assert issubclass(Stopped, KeyboardInterrupt)


def test_looks_are_spaced_by_their_cost(tmp_path):
    recorder = Recorder(tmp_path, {})
    recorder.cost, recorder.last, recorder.planned = 1.0, 0.0, 0
    recorder._plan(10, 1.0)  # steps of 0.1 s, a look of 1 s: a hundredth of the time
    assert recorder.next == 10 + 1000
    recorder.cost = 0.0
    recorder._plan(2400, 2.0)
    assert recorder.next == 2400 + 2400 // recording._PART
    recorder.writer.close()


def test_failures_are_written_down(tmp_path):
    with pytest.raises(ValueError), Recorder(tmp_path, {}):
        raise ValueError("too bad")
    assert list(records(tmp_path / NAME))[-1]["error"] == "ValueError: too bad"


def test_a_forked_child_writes_nothing(tmp_path):
    with Recorder(tmp_path, {}) as recorder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads and forks: what this is about
            child = os.fork()
        if not child:
            recorder._heard("loss: 1\n")
            os._exit(0 if not recorder.texts and recorder.pending.maxlen == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_fast_steps_share_rows():
    from flambeau._observe.steps import Step

    steps = [(Step(i, i / 1000, {"loss": [float(i % 7)]}, [0.001] * 6, None), [0.1]) for i in range(1, 1501)]
    rows = recording._rows(steps)
    assert len(rows) == 300 and rows[0][0] == 1 and rows[-1][0] == 1500
    assert rows[0][1]["loss"] == 0.0 and rows[1][1]["loss"] == 6.0 and abs(rows[0][1]["time/forward"] - 1) < 1e-9
