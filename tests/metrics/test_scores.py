"""Scores equal those of scikit-learn and SciPy (figures computed with them once), as functions and over batches."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.metrics as metrics
from flambeau.metrics import functional as F

R = np.random.RandomState(0)
N = 60
_by = R.randint(0, 2, N)
_bs = np.round(R.rand(N) * 0.6 + _by * 0.3, 2)
_my = R.randint(0, 4, N)
_ml = np.round(R.randn(N, 4) + 2 * np.eye(4)[_my], 2)
_ly = R.randint(0, 2, (N, 3))
_ls = np.round(R.rand(N, 3) * 0.6 + _ly * 0.3, 2)
_rt = R.randn(N, 2)
_rp = _rt + 0.5 * R.randn(N, 2)
BINARY = torch.tensor(_bs), torch.tensor(_by)
MULTICLASS = torch.tensor(_ml), torch.tensor(_my)
MULTILABEL = torch.tensor(_ls), torch.tensor(_ly)
NUMBERS = torch.tensor(_rp), torch.tensor(_rt)
COLUMN = NUMBERS[0][:, 0], NUMBERS[1][:, 0]


def class_name(name):
    special = {
        "f1_score": "F1Score",
        "auroc": "AUROC",
        "matthews_corrcoef": "MatthewsCorrCoef",
        "fbeta_score": "FBetaScore",
    }
    return special.get(name, "".join(part.capitalize() for part in name.split("_")))


def check(function, metric, data, expected, tolerance=2e-6):
    """The function on all data, and the metric over uneven batches with a call among the updates."""
    expected = torch.tensor(expected, dtype=torch.float64)
    got = function(*data)
    assert torch.allclose(got.double(), expected, atol=tolerance, rtol=tolerance), (got, expected)
    for i, (start, stop) in enumerate([(0, 7), (7, 30), (30, N)]):
        batch = [x[start:stop] for x in data]
        if i == 1:
            assert torch.allclose(metric(*batch).double(), function(*batch).double(), equal_nan=True)
        else:
            metric.update(*batch)
    assert torch.allclose(metric.compute().double(), expected, atol=tolerance, rtol=tolerance)


BINARY_SCORES = {
    "accuracy": 0.7666666667, "precision": 0.9230769231, "recall": 0.6666666667, "f1_score": 0.7741935484,
    "specificity": 0.9166666667, "negative_predictive_value": 0.6470588235, "hamming_distance": 0.2333333333,
    "cohen_kappa": 0.5454545455, "matthews_corrcoef": 0.5766967882, "jaccard_index": 0.6315789474,
    "auroc": 0.8987268519, "average_precision": 0.9252299267, "confusion_matrix": [[22, 2], [12, 24]],
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY_SCORES)
def test_binary(name):
    metric = getattr(metrics.classification, "Binary" + class_name(name))()
    check(getattr(F, "binary_" + name), metric, BINARY, BINARY_SCORES[name])
    assert torch.allclose(
        getattr(F, name)(*BINARY, task="binary").double(), torch.tensor(BINARY_SCORES[name]).double(), atol=1e-6
    )
    assert type(getattr(metrics, class_name(name))(task="binary")) is type(metric)


def test_binary_with_options():
    two = lambda p, t: F.binary_fbeta_score(p, t, beta=2.0)
    check(two, metrics.FBetaScore(task="binary", beta=2.0), BINARY, 0.7058823529)
    part = lambda p, t: F.binary_auroc(p, t, max_fpr=0.4)
    check(part, metrics.AUROC(task="binary", max_fpr=0.4), BINARY, 0.8417607060)


AVERAGED = {
    ("multiclass", "micro"): {"precision": 0.783333, "recall": 0.783333, "f1_score": 0.783333, "jaccard_index": 0.643836},
    ("multiclass", "macro"): {"precision": 0.760739, "recall": 0.77048, "f1_score": 0.76035, "jaccard_index": 0.625},
    ("multiclass", "weighted"): {"precision": 0.783983, "recall": 0.783333, "f1_score": 0.779333, "jaccard_index": 0.652288},
    ("multiclass", None): {
        "precision": [0.909091, 0.714286, 0.727273, 0.692308], "recall": [0.909091, 0.909091, 0.571429, 0.692308],
        "f1_score": [0.909091, 0.8, 0.64, 0.692308], "jaccard_index": [0.833333, 0.666667, 0.470588, 0.529412],
    },
    ("multilabel", "micro"): {"precision": 0.710145, "recall": 0.636364, "f1_score": 0.671233, "jaccard_index": 0.505155},
    ("multilabel", "macro"): {"precision": 0.710556, "recall": 0.637949, "f1_score": 0.670552, "jaccard_index": 0.509325},
    ("multilabel", "weighted"): {"precision": 0.709502, "recall": 0.636364, "f1_score": 0.669189, "jaccard_index": 0.507715},
    ("multilabel", None): {
        "precision": [0.64, 0.791667, 0.7], "recall": [0.615385, 0.76, 0.538462],
        "f1_score": [0.627451, 0.77551, 0.608696], "jaccard_index": [0.457143, 0.633333, 0.4375],
    },
}  # fmt: skip


@pytest.mark.parametrize("task, average, name", [(t, a, n) for (t, a), scores in AVERAGED.items() for n in scores])
def test_averages(task, average, name):
    data = MULTICLASS if task == "multiclass" else MULTILABEL
    number = {"num_classes": 4} if task == "multiclass" else {"num_labels": 3}
    function = lambda p, t: getattr(F, name)(p, t, task=task, average=average, **number)
    metric = getattr(metrics, class_name(name))(task=task, average=average, **number)
    check(function, metric, data, AVERAGED[task, average][name])


@pytest.mark.parametrize(
    "name, options, expected",
    [
        ("accuracy", {"average": "micro"}, 0.7833333333),
        ("accuracy", {"average": "macro"}, 0.7704795205),
        ("accuracy", {"average": "micro", "top_k": 2}, 0.9333333333),
        ("cohen_kappa", {}, 0.7044334975),
        ("cohen_kappa", {"weights": "linear"}, 0.7810218978),
        ("cohen_kappa", {"weights": "quadratic"}, 0.8475609756),
        ("matthews_corrcoef", {}, 0.7068441065),
        ("confusion_matrix", {}, [[20, 1, 1, 0], [1, 10, 0, 0], [1, 1, 8, 4], [0, 2, 2, 9]]),
        ("auroc", {}, 0.9584118958),
        ("auroc", {"average": "weighted"}, 0.9614031610),
        ("average_precision", {}, 0.8982117226),
        ("hinge_loss", {}, 0.6104226180),
    ],
)
def test_multiclass(name, options, expected):
    options = {"task": "multiclass", "num_classes": 4, **options}
    # Softmaxed here, so that scores are the same in batches and as a whole.
    data = MULTICLASS[0].softmax(1), MULTICLASS[1]
    check(lambda p, t: getattr(F, name)(p, t, **options), getattr(metrics, class_name(name))(**options), data, expected)


@pytest.mark.parametrize(
    "name, options, expected",
    [
        ("exact_match", {}, 0.35),
        ("hamming_distance", {}, 0.2666666667),
        ("auroc", {}, 0.8340786468),
        ("auroc", {"average": "micro"}, 0.8354558063),
        ("average_precision", {}, 0.8112453675),
        ("confusion_matrix", {}, [[[25, 9], [10, 16]], [[30, 5], [6, 19]], [[28, 6], [12, 14]]]),
    ],
)
def test_multilabel(name, options, expected):
    options = {"task": "multilabel", "num_labels": 3, **options}
    check(
        lambda p, t: getattr(F, name)(p, t, **options),
        getattr(metrics, class_name(name))(**options),
        MULTILABEL,
        expected,
    )


@pytest.mark.parametrize(
    "name, metric, expected",
    [
        ("coverage_error", metrics.MultilabelCoverageError, 1.5166666667),
        ("ranking_average_precision", metrics.MultilabelRankingAveragePrecision, 0.9097222222),
        ("ranking_loss", metrics.MultilabelRankingLoss, 0.1416666667),
    ],
)
def test_ranking(name, metric, expected):
    check(lambda p, t: getattr(F, "multilabel_" + name)(p, t, num_labels=3), metric(num_labels=3), MULTILABEL, expected)


def test_curves():
    preds, target = BINARY[0][:8], BINARY[1][:8]
    fpr, tpr, thresholds = F.binary_roc(preds, target)
    assert torch.allclose(fpr, torch.tensor([0.0, 0, 0, 0, 0.5, 0.5, 1]))
    assert torch.allclose(tpr, torch.tensor([0.0, 1 / 6, 4 / 6, 5 / 6, 5 / 6, 1, 1]))
    assert torch.allclose(thresholds.float(), torch.tensor([1.0, 0.76, 0.67, 0.57, 0.34, 0.31, 0.16]))
    precision, recall, thresholds = F.binary_precision_recall_curve(preds, target)
    assert torch.allclose(precision, torch.tensor([0.75, 6 / 7, 5 / 6, 1, 1, 1, 1]))
    assert torch.allclose(recall, torch.tensor([1, 1, 5 / 6, 5 / 6, 4 / 6, 1 / 6, 0]))
    assert torch.allclose(thresholds.float(), torch.tensor([0.16, 0.31, 0.34, 0.57, 0.67, 0.76]))


@pytest.mark.parametrize("task, data, number", [("binary", BINARY, {}), ("multilabel", MULTILABEL, {"num_labels": 3})])
def test_given_thresholds_give_the_exact_curve_if_they_are_all_scores(task, data, number):
    data = data[0].float(), data[1]
    every = data[0].unique()
    exact = F.auroc(*data, task=task, **number)
    assert torch.allclose(
        F.auroc(*data, task=task, thresholds=torch.cat([every, every.new_tensor([2.0])]), **number), exact
    )
    coarse = metrics.AUROC(task=task, thresholds=[0.9, 0.1, 0.5], **number)  # in any order, counts are those of each
    coarse.update(*data)
    for i, threshold in enumerate([0.9, 0.1, 0.5]):
        above = (data[0] >= threshold).long()
        matrix = F.confusion_matrix(above, data[1], task=task, **number)
        assert torch.equal(coarse.confmat[i], matrix)


def test_operating_points():
    precision, recall, _ = F.binary_precision_recall_curve(*BINARY)
    value, at = F.binary_recall_at_fixed_precision(*BINARY, min_precision=0.9)
    assert value == recall[precision >= 0.9].max()
    chosen = (BINARY[0] >= at).long()
    assert F.binary_recall(chosen, BINARY[1]) == value and F.binary_precision(chosen, BINARY[1]) >= 0.9
    metric = metrics.RecallAtFixedPrecision(task="binary", min_precision=0.9)
    metric.update(*BINARY)
    assert metric.compute() == (value, at)
    value, at = F.binary_specificity_at_sensitivity(*BINARY, min_sensitivity=0.8)
    chosen = (BINARY[0] >= at).long()
    assert F.binary_specificity(chosen, BINARY[1]) == value and F.binary_recall(chosen, BINARY[1]) >= 0.8
    with pytest.raises(ValueError, match="min_recall"):
        F.binary_precision_at_fixed_recall(*BINARY, min_recall=2.0)


@pytest.mark.parametrize(
    "name, metric, data, options, expected",
    [
        ("mean_squared_error", metrics.MeanSquaredError, COLUMN, {}, 0.2403452470),
        ("mean_squared_error", metrics.MeanSquaredError, COLUMN, {"squared": False}, 0.4902501881),
        ("mean_absolute_error", metrics.MeanAbsoluteError, COLUMN, {}, 0.3904769901),
        ("mean_absolute_percentage_error", metrics.MeanAbsolutePercentageError, COLUMN, {}, 1.6775784862),
        ("r2_score", metrics.R2Score, NUMBERS, {}, 0.6804128020),
        ("r2_score", metrics.R2Score, NUMBERS, {"multioutput": "raw_values"}, [0.652099, 0.708727]),
        ("r2_score", metrics.R2Score, NUMBERS, {"multioutput": "variance_weighted"}, 0.6860627908),
        ("explained_variance", metrics.ExplainedVariance, NUMBERS, {}, 0.6851441392),
        ("pearson_corrcoef", metrics.PearsonCorrCoef, COLUMN, {}, 0.8555252817),
        ("spearman_corrcoef", metrics.SpearmanCorrCoef, tuple((10 * x).round() for x in COLUMN), {}, 0.8062987765),
        ("mean_squared_log_error", metrics.MeanSquaredLogError, tuple(x.abs() for x in NUMBERS), {}, 0.0663179545),
        (
            "tweedie_deviance_score",
            metrics.TweedieDevianceScore,
            tuple(x.abs() for x in COLUMN),
            {"power": 1},
            0.3983397820,
        ),
        (
            "tweedie_deviance_score",
            metrics.TweedieDevianceScore,
            tuple(x.abs() for x in COLUMN),
            {"power": 2},
            2.3321825943,
        ),
        ("cosine_similarity", metrics.CosineSimilarity, NUMBERS, {"reduction": "mean"}, 0.7162963359),
    ],
)
def test_regression(name, metric, data, options, expected):
    check(lambda p, t: getattr(F, name)(p, t, **options), metric(**options), data, expected)


def test_divergence_of_distributions():
    p = MULTICLASS[0].softmax(1)
    q = p.flip(0)
    assert torch.allclose(F.kl_divergence(p, q), torch.tensor(1.2563619741).double(), atol=1e-6)
    assert torch.allclose(F.kl_divergence(p.log(), q.log(), log_prob=True), F.kl_divergence(p, q), atol=1e-5)
    metric = metrics.KLDivergence()
    metric.update(p[:20], q[:20])
    metric.update(p[20:], q[20:])
    assert torch.allclose(metric.compute(), F.kl_divergence(p, q))
    assert F.jensen_shannon_divergence(p, p) < 1e-6 < F.jensen_shannon_divergence(p, q) < 0.6932


def test_calibration():
    preds, target = torch.tensor([0.1, 0.1, 0.6, 0.6, 0.9]), torch.tensor([0, 1, 1, 1, 1])
    gaps = torch.tensor([0.4, 0.4, 0.1])  # in bins with 2, 2 and 1 of the samples
    assert torch.allclose(
        F.binary_calibration_error(preds, target, n_bins=5), (gaps * torch.tensor([0.4, 0.4, 0.2])).sum()
    )
    assert torch.allclose(F.binary_calibration_error(preds, target, n_bins=5, norm="max"), gaps.max())
    metric = metrics.CalibrationError(task="binary", n_bins=5, norm="l2")
    metric.update(preds, target)
    assert torch.allclose(metric.compute(), ((gaps**2) * torch.tensor([0.4, 0.4, 0.2])).sum().sqrt())


# What the options mean


def test_ignored_targets_do_not_count():
    preds, target = MULTICLASS[0], MULTICLASS[1].clone()
    ignored = torch.arange(N) % 3 == 0
    target[ignored] = -1
    for name in ("accuracy", "f1_score", "jaccard_index", "confusion_matrix", "auroc", "average_precision"):
        f = getattr(F, "multiclass_" + name)
        got = f(preds, target, num_classes=4, ignore_index=-1)
        assert torch.allclose(got.double(), f(preds[~ignored], target[~ignored], num_classes=4).double()), name
    with pytest.raises(RuntimeError, match="target"):
        F.multiclass_accuracy(preds, target, num_classes=4)


def test_samplewise_is_one_figure_for_each_sample():
    preds, target = torch.tensor(_ml.reshape(15, 4, 4)), torch.tensor(_my[:60].reshape(15, 4))
    got = F.multiclass_accuracy(preds, target, num_classes=4, average="micro", multidim_average="samplewise")
    each = [F.multiclass_accuracy(p[None], t[None], num_classes=4, average="micro") for p, t in zip(preds, target)]
    assert torch.allclose(got, torch.stack(each))
    metric = metrics.Accuracy(task="multiclass", num_classes=4, multidim_average="samplewise")
    metric.update(preds[:4], target[:4])
    metric.update(preds[4:], target[4:])
    assert torch.allclose(metric.compute(), got)
    with pytest.raises(ValueError, match="samplewise"):
        F.multiclass_accuracy(*MULTICLASS, num_classes=4, multidim_average="samplewise")


def test_scores_outside_zero_and_one_are_logits():
    logits = torch.logit(BINARY[0].clamp(0.01, 0.99)) + 1.5
    assert torch.equal(F.binary_accuracy(logits, BINARY[1]), F.binary_accuracy(logits.sigmoid(), BINARY[1]))
    assert torch.equal(F.binary_accuracy(logits, BINARY[1]), ((logits > 0).long() == BINARY[1]).float().mean())


def test_classes_that_do_not_occur_are_left_out_of_the_mean():
    preds, target = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0])
    assert F.multiclass_recall(preds, target, num_classes=9) == F.multiclass_recall(preds, target, num_classes=2)
    assert F.multiclass_precision(preds, target, num_classes=3, average=None, zero_division=1.0)[2] == 1
    with pytest.warns(UserWarning, match="nan"):
        few = F.multiclass_average_precision(torch.eye(3)[target], target, num_classes=3)
    assert few == 1


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: F.binary_accuracy(torch.rand(3), torch.tensor([0, 1])), RuntimeError),
        (lambda: F.binary_accuracy(torch.rand(2), torch.tensor([0, 2])), RuntimeError),
        (lambda: F.binary_accuracy(torch.rand(2), torch.rand(2)), ValueError),
        (lambda: F.binary_accuracy(torch.rand(2), torch.tensor([0, 1]), threshold=2.0), ValueError),
        (lambda: F.multiclass_accuracy(torch.rand(2, 3), torch.tensor([0, 1]), num_classes=4), ValueError),
        (lambda: F.multiclass_accuracy(torch.tensor([0, 5]), torch.tensor([0, 1]), num_classes=3), RuntimeError),
        (lambda: F.multiclass_accuracy(torch.rand(2, 3), torch.tensor([0, 1]), num_classes=3, top_k=4), ValueError),
        (lambda: F.multilabel_accuracy(torch.rand(2, 3), torch.zeros(2, 3).long(), num_labels=2), ValueError),
        (lambda: F.accuracy(torch.rand(2), torch.tensor([0, 1]), task="regression"), ValueError),
        (lambda: metrics.Accuracy(task="multiclass"), ValueError),
        (lambda: metrics.MulticlassF1Score(num_classes=3, average="mean"), ValueError),
        (lambda: F.binary_auroc(torch.tensor([0, 1]), torch.tensor([0, 1])), ValueError),
        (lambda: F.mean_squared_error(torch.rand(2), torch.rand(3)), RuntimeError),
        (lambda: F.r2_score(torch.rand(1), torch.rand(1)), ValueError),
        (lambda: F.perplexity(torch.rand(2, 3), torch.zeros(2).long()), ValueError),
    ],
)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()


def test_large_inputs_take_no_loop_over_samples():
    """A quarter of a million samples: a loop in Python would take minutes."""
    torch.manual_seed(0)
    preds, target = torch.rand(250_000), torch.randint(2, (250_000,))
    assert abs(float(F.binary_auroc(preds, target)) - 0.5) < 0.01
    assert abs(float(F.binary_auroc(preds, target, thresholds=200)) - 0.5) < 0.01
    assert (
        abs(float(F.multiclass_accuracy(torch.randint(100, (250_000,)), torch.randint(100, (250_000,)), 100)) - 0.01)
        < 0.005
    )
    assert abs(float(F.spearman_corrcoef(preds, torch.rand(250_000)))) < 0.02
