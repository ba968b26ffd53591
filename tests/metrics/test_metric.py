"""The base class: states, batches, merging, synchronising, saving, arithmetic; collections and wrappers."""

import pickle

import pytest

import flambeau as torch
from flambeau import metrics
from flambeau.metrics import functional as F
from flambeau.metrics.utilities import dim_zero_cat
from flambeau.metrics.utilities.exceptions import TorchMetricsUserError


class Share(metrics.Metric):
    """Written as users write them, with in-place sums."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_state("hits", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0), dist_reduce_fx="sum", persistent=True)
        self.add_state("seen", [], dist_reduce_fx="cat")
        self.updates = 0

    def update(self, preds, target):
        self.updates += 1
        self.hits += (preds == target).sum()
        self.total += target.numel()
        self.seen.append(preds)

    def compute(self):
        return self.hits.float() / self.total


class Merged(Share):
    full_state_update = False


A, B = (torch.tensor([1, 2]), torch.tensor([1, 0])), (torch.tensor([3, 3, 3]), torch.tensor([3, 3, 3]))


@pytest.mark.parametrize("kind, updates", [(Share, 3), (Merged, 2)])
def test_a_call_gives_the_batch_and_adds_it(kind, updates):
    metric = kind()
    assert metric(*A) == 0.5 and metric.update_count == 1
    metric.update(*B)
    assert metric.compute() == 0.8 and metric.update_count == 2 and metric.updates == updates
    assert dim_zero_cat(metric.seen).tolist() == [1, 2, 3, 3, 3]
    metric.reset()
    assert metric.total == 0 and metric.seen == [] and not metric.update_called
    with pytest.warns(UserWarning, match="before `update`"):
        metric.compute()


def test_a_figure_is_computed_once():
    class Counting(Merged):
        calls = 0

        def compute(self):
            type(self).calls += 1
            return super().compute()

    metric = Counting()
    metric.update(*A)
    assert metric.compute() == metric.compute() == 0.5 and Counting.calls == 1
    metric.update(*B)
    assert metric.compute() == 0.8 and Counting.calls == 2
    fresh = Counting(compute_with_cache=False)
    fresh.update(*A)
    fresh.compute()
    fresh.compute()
    assert Counting.calls == 4


def test_merging():
    a, b = Merged(), Merged()
    a.update(*A)
    b.update(*B)
    a.merge_state(b)
    assert a.compute() == 0.8 and a.update_count == 2 and dim_zero_cat(a.seen).numel() == 5
    a.merge_state({"hits": torch.tensor(5), "total": torch.tensor(5)})
    assert a.compute() == 0.9
    with pytest.raises(ValueError):
        a.merge_state(metrics.SumMetric())


def test_synchronising_takes_the_states_of_all_processes():
    """Two processes, the second of which holds twice the first's states."""
    gather = lambda x, group=None: [x, 2 * x]
    metric = Merged(dist_sync_fn=gather, distributed_available_fn=lambda: True)
    metric.update(*A)
    assert metric.compute() == 0.5 and metric.hits == 1  # (1 + 2) / (2 + 4), and its own states afterwards
    with metric.sync_context():
        assert metric.hits == 3 and metric.seen.tolist() == [1, 2, 2, 4]
    metric.sync()
    with pytest.raises(TorchMetricsUserError):
        metric.sync()
    with pytest.raises(TorchMetricsUserError):
        metric(*A)
    metric.unsync()
    assert metric.hits == 1
    with pytest.raises(TorchMetricsUserError):
        metric.unsync()
    pearson = metrics.PearsonCorrCoef(dist_sync_fn=lambda x, group=None: [x, x], distributed_available_fn=lambda: True)
    pearson.update(torch.tensor([1.0, 2, 4]), torch.tensor([1.0, 3, 3]))
    once = F.pearson_corrcoef(torch.tensor([1.0, 2, 4]), torch.tensor([1.0, 3, 3]))
    assert torch.allclose(pearson.compute(), once)


def test_saving_copying_and_pickling(tmp_path):
    metric = Share()
    metric.update(*A)
    assert list(metric.state_dict()) == ["total"]
    metric.persistent(True)
    torch.save(metric.state_dict(), tmp_path / "metric.pt")
    other = Share()
    other.load_state_dict(torch.load(tmp_path / "metric.pt"))
    assert other.hits == 1 and other.total == 2 and other.seen[0].tolist() == [1, 2]
    copied, loaded = metric.clone(), pickle.loads(pickle.dumps(metric))
    metric.update(*B)
    for same in (copied, loaded):
        assert same.compute() == 0.5
        same.update(*B)
        assert same.compute() == 0.8
    model = torch.nn.Linear(1, 1)
    model.metric = Share()
    assert "metric.total" in model.state_dict() and not list(Share().parameters())


def test_types_of_states():
    metric = metrics.MeanMetric()
    assert metric.double().mean_value.dtype == torch.float32  # a model's precision is not that of its metrics
    assert metric.set_dtype(torch.float64).mean_value.dtype == torch.float64
    metric.reset()
    metric.update(1.5)
    assert metric.compute().dtype == torch.float64
    assert metric.to("meta").mean_value.device.type == "meta" and metric.device.type == "meta"


def test_figures_of_a_batch_have_a_history_and_states_have_none():
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    metric = metrics.MeanSquaredError()
    metric(x, torch.zeros(2)).backward()
    assert x.grad.tolist() == [1, 3]
    metric.update(x, torch.zeros(2))
    assert not metric.sum_squared_error.requires_grad and not metric.compute().requires_grad


@pytest.mark.parametrize("options", [{"nonsense": 1}, {"compute_on_cpu": 1}, {"dist_sync_fn": 3}])
def test_unknown_options(options):
    with pytest.raises(ValueError):
        metrics.SumMetric(**options)


def test_what_cannot_be_done():
    metric = Share()
    with pytest.raises(ValueError):
        metric.add_state("x", 3.0)
    with pytest.raises(ValueError):
        metric.add_state("x", torch.zeros(1), "middle")
    with pytest.raises(TypeError):
        iter(metric)
    with pytest.raises(RuntimeError):
        metric.is_differentiable = True
    with pytest.raises(TypeError):
        metrics.Metric()


def test_arithmetic():
    total, mean = metrics.SumMetric(), metrics.MeanMetric()
    for metric in (total, mean):
        metric.update([2.0, 4.0])
    assert (total + mean).compute() == 9 and (total - 1).compute() == 5 and (2 * total).compute() == 12
    assert (12 / total).compute() == 2 and (total**2).compute() == 36 and (total // 4).compute() == 1
    assert (total > mean).compute() and not (total == mean).compute()
    assert (total - 10).compute() == -4 and abs(total - 10).compute() == 4 and (-(total - 10)).compute() == -4
    mse = metrics.MeanSquaredError(num_outputs=2)
    both = mse[0] + metrics.MeanAbsoluteError()
    assert both(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 3.0]])) == 4 + 1.5
    assert pickle.loads(pickle.dumps(both)).compute() == 5.5
    both.reset()
    assert mse.total == 0
    assert repr(total + 1).startswith("CompositionalMetric(\n  add(")


# Aggregation


def test_values_that_are_no_numbers():
    values = torch.tensor([1.0, float("nan"), 4.0])
    for strategy, expected in (("ignore", 2.5), (0.0, 5 / 3)):
        metric = metrics.MeanMetric(nan_strategy=strategy)
        metric.update(values)
        assert metric.compute() == pytest.approx(expected)
    with pytest.warns(UserWarning, match="nan"):
        metrics.SumMetric()(values)
    with pytest.raises(RuntimeError, match="nan"):
        metrics.SumMetric(nan_strategy="error")(values)
    assert metrics.SumMetric(nan_strategy="disable")(values).isnan()
    with pytest.raises(ValueError):
        metrics.SumMetric(nan_strategy="other")


def test_aggregates():
    for metric, expected in ((metrics.MaxMetric(), 5), (metrics.MinMetric(), 1), (metrics.SumMetric(), 11)):
        assert metric([1.0, 2.0]) == {5: 2, 1: 1, 11: 3}[expected]
        metric.update(3.0)
        metric.update(torch.tensor(5))
        assert metric.compute() == expected
    cat = metrics.CatMetric()
    cat.update(1.0)
    cat.update([2.0, 3.0])
    assert cat.compute().tolist() == [1, 2, 3]


def test_running():
    mean = metrics.RunningMean(window=3)
    assert [float(mean(float(i))) for i in range(6)] == [0, 1, 2, 3, 4, 5]
    assert mean.compute() == 4
    window = metrics.Running(metrics.MeanSquaredError(), window=2)
    for error in (9.0, 1.0, 3.0):
        window.update(torch.tensor([error]), torch.tensor([0.0]))
    assert window.compute() == 5
    with pytest.raises(ValueError):
        metrics.Running(metrics.MaxMetric())


# Collections


def test_a_collection_updates_equal_states_once(monkeypatch):
    torch.manual_seed(0)
    make = lambda **options: metrics.MetricCollection(
        {
            "accuracy": metrics.Accuracy(task="multiclass", num_classes=3, average="macro"),
            "precision": metrics.Precision(task="multiclass", num_classes=3, average="macro"),
            "weighted": metrics.F1Score(task="multiclass", num_classes=3, average="weighted"),
            "micro": metrics.F1Score(task="multiclass", num_classes=3),
            "kappa": metrics.CohenKappa(task="multiclass", num_classes=3),
            "matrix": metrics.ConfusionMatrix(task="multiclass", num_classes=3),
        },
        **options,
    )
    grouped, apart = make(), make(compute_groups=False)
    assert sorted(map(sorted, grouped.compute_groups.values())) == [
        ["accuracy", "precision", "weighted"],
        ["kappa", "matrix"],
        ["micro"],
    ]
    assert len(apart.compute_groups) == 6
    for step in range(4):
        batch = torch.randint(3, (8,)), torch.randint(3, (8,))
        if step % 2:
            one, other = grouped(*batch), apart(*batch)
        else:
            grouped.update(*batch)
            apart.update(*batch)
            one, other = grouped.compute(), apart.compute()
        assert all(torch.equal(one[name], other[name]) for name in one) and list(one) == list(other)
    assert grouped["precision"].tp.tolist() == apart["precision"].tp.tolist() and grouped["weighted"].update_count == 4
    copied = pickle.loads(pickle.dumps(grouped.clone(prefix="new_")))
    grouped.reset()
    assert grouped["accuracy"].update_count == 0 and torch.equal(
        copied.compute()["new_micro"], apart.compute()["micro"]
    )


def test_names_in_a_collection():
    metric = metrics.MetricCollection(
        [metrics.MeanSquaredError(), metrics.MeanAbsoluteError()], prefix="val_", postfix="_x"
    )
    assert list(metric.keys()) == list(metric) == ["val_MeanSquaredError_x", "val_MeanAbsoluteError_x"]
    assert list(metric.keys(keep_base=True)) == ["MeanSquaredError", "MeanAbsoluteError"]
    assert metric["MeanSquaredError"] is metric["val_MeanSquaredError_x"] and len(metric) == 2
    assert "prefix=val_" in repr(metric)
    nested = metrics.MetricCollection({"b": metric, "a": metrics.R2Score()})
    assert list(nested.keys()) == ["a", "b_val_MeanSquaredError_x", "b_val_MeanAbsoluteError_x"]
    with pytest.raises(ValueError, match="two metrics"):
        metrics.MetricCollection([metrics.R2Score(), metrics.R2Score()])
    with pytest.raises(ValueError):
        metrics.MetricCollection([1])
    with pytest.raises(ValueError):
        metrics.MetricCollection([metrics.R2Score()], prefix=1)


def test_keywords_go_to_those_that_know_them():
    class Named(metrics.SumMetric):
        def update(self, value, scale=1.0):
            super().update(value * scale)

    both = metrics.MetricCollection([Named(), metrics.SumMetric()])
    both.update(value=torch.tensor(2.0), scale=3.0)
    assert both.compute() == {"Named": 6, "SumMetric": 2}


# Wrappers


def test_tracker():
    tracker = metrics.MetricTracker(metrics.MetricCollection([metrics.MeanSquaredError(), metrics.R2Score()]))
    with pytest.raises(ValueError):
        tracker.update(torch.rand(2), torch.rand(2))
    target = torch.tensor([0.0, 1.0, 2.0])
    for error in (2.0, 0.5, 1.0):
        tracker.increment()
        tracker.update(target + error, target)
    assert tracker.n_steps == 3 and tracker.compute_all()["MeanSquaredError"].tolist() == [4, 0.25, 1]
    values, steps = tracker.best_metric(return_step=True)
    assert values["MeanSquaredError"] == 0.25 and steps == {"MeanSquaredError": 1, "R2Score": 1}


def test_other_wrappers():
    preds, target = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 1])
    named = metrics.ClasswiseWrapper(metrics.MulticlassRecall(3, average=None), labels=["a", "b", "c"], prefix="r_")
    assert {k: float(v) for k, v in named(preds, target).items()} == {"r_a": 1, "r_b": 0.5, "r_c": 1}
    extremes = metrics.MinMaxMetric(metrics.MeanAbsoluteError())
    for error in (2.0, 1.0, 3.0):
        extremes(torch.tensor([error]), torch.tensor([0.0]))
    assert extremes.compute() == {"raw": 2, "max": 3, "min": 1}
    outputs = metrics.MultioutputWrapper(metrics.R2Score(), 2)
    x = torch.tensor([[1.0, 5.0], [2.0, float("nan")], [4.0, 1.0]])
    assert outputs(x, x).tolist() == [1, 1]
    tasks = metrics.MultitaskWrapper({"a": metrics.MeanSquaredError(), "b": metrics.BinaryAccuracy()})
    found = tasks({"a": torch.ones(2), "b": torch.ones(2).long()}, {"a": torch.zeros(2), "b": torch.ones(2).long()})
    assert found == {"a": 1, "b": 1} == tasks.compute()
    above = metrics.BinaryTargetTransformer(metrics.BinaryAccuracy(), threshold=3)
    assert above(torch.tensor([1, 0]), torch.tensor([5, 2])) == 1
    doubled = metrics.LambdaInputTransformer(metrics.SumMetric().__class__(), transform_pred=lambda p: p)
    assert isinstance(doubled, metrics.Metric)


def test_bootstrap():
    torch.manual_seed(0)
    metric = metrics.BootStrapper(metrics.MeanAbsoluteError(), num_bootstraps=30, quantile=0.5, raw=True)
    metric.update(torch.rand(100), torch.rand(100))
    found = metric.compute()
    assert found["raw"].shape == (30,) and abs(found["mean"] - 1 / 3) < 0.05 and 0.005 < found["std"] < 0.06
    assert torch.allclose(found["quantile"], found["raw"].quantile(0.5))


@pytest.mark.slow
def test_drawing():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    matrix = metrics.MulticlassConfusionMatrix(3)
    matrix.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    roc = metrics.BinaryROC()
    roc.update(torch.tensor([0.1, 0.9, 0.4]), torch.tensor([0, 1, 1]))
    accuracy = metrics.BinaryAccuracy()
    values = [accuracy(torch.tensor([0, 1]), torch.tensor([0, i])) for i in range(2)]
    for figure, axes in (matrix.plot(), roc.plot(), accuracy.plot(values)):
        assert axes.get_figure() is figure
        plt.close(figure)


@pytest.mark.slow
def test_the_alias_finds_all_parts():
    import subprocess
    import sys

    program = (
        "import flambeau; flambeau.install_as_torch(children=False)\n"
        "import torch, torchmetrics\n"
        "from torchmetrics import Accuracy, MetricCollection, functional\n"
        "from torchmetrics.classification import MulticlassF1Score\n"
        "from torchmetrics.functional.classification import multiclass_accuracy\n"
        "from torchmetrics.aggregation import MeanMetric\n"
        "from torchmetrics.regression import R2Score\n"
        "from torchmetrics.text import Perplexity\n"
        "from torchmetrics.image import PeakSignalNoiseRatio\n"
        "from torchmetrics.wrappers import MetricTracker\n"
        "from torchmetrics.utilities import dim_zero_cat\n"
        "assert torchmetrics.__name__ in ('flambeau.metrics', 'torchmetrics')\n"
        "print(Accuracy(task='binary')(torch.tensor([1, 0]), torch.tensor([1, 1])).item())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "0.5\n", done.stderr
