"""Classification, ranking and regression metrics give scikit-learn's figures on random data, over uneven batches."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.metrics as metrics


@pytest.fixture(scope="module", autouse=True)
def _scikit_learn():
    """Imported by the worker that has these tests: it takes seconds, and all workers read this file."""
    global sk
    sk = pytest.importorskip("sklearn.metrics")


CLASSES, LABELS, N = 5, 4, 200
SEEDS = [0, 1]


def binary(seed):
    r = np.random.RandomState(seed)
    target = r.randint(0, 2, N)
    return np.round(r.rand(N) * 0.7 + target * 0.2, 2), target  # rounded: ties among the scores


def multiclass(seed):
    r = np.random.RandomState(seed)
    target = r.randint(0, CLASSES, N)
    logits = r.randn(N, CLASSES) + 1.5 * np.eye(CLASSES)[target]
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return scores, target


def multilabel(seed):
    r = np.random.RandomState(seed)
    target = r.randint(0, 2, (N, LABELS))
    return np.round(r.rand(N, LABELS) * 0.7 + target * 0.2, 2), target


def over_batches(metric, scores, target):
    """The metric after three updates with batches of different sizes."""
    for part in (slice(0, 7), slice(7, 120), slice(120, None)):
        metric.update(torch.tensor(scores[part]), torch.tensor(target[part]))
    return metric.compute().double().numpy()


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


SCORES = {"Precision": "precision_score", "Recall": "recall_score", "F1Score": "f1_score"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SCORES)
def test_binary_scores(name, seed):
    scores, target = binary(seed)
    close(
        over_batches(getattr(metrics, name)("binary"), scores, target), getattr(sk, SCORES[name])(target, scores > 0.5)
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("name", SCORES)
def test_multiclass_scores(name, average, seed):
    scores, target = multiclass(seed)
    metric = getattr(metrics, name)("multiclass", num_classes=CLASSES, average=average)
    expected = getattr(sk, SCORES[name])(target, scores.argmax(1), average=None if average == "none" else average)
    close(over_batches(metric, scores, target), expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("name", SCORES)
def test_multilabel_scores(name, average, seed):
    scores, target = multilabel(seed)
    metric = getattr(metrics, name)("multilabel", num_labels=LABELS, average=average)
    expected = getattr(sk, SCORES[name])(target, scores > 0.5, average=None if average == "none" else average)
    close(over_batches(metric, scores, target), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_accuracy(seed):
    scores, target = binary(seed)
    close(over_batches(metrics.Accuracy("binary"), scores, target), sk.accuracy_score(target, scores > 0.5))
    scores, target = multiclass(seed)
    best = scores.argmax(1)
    micro, macro = (metrics.Accuracy("multiclass", num_classes=CLASSES, average=a) for a in ("micro", "macro"))
    close(over_batches(micro, scores, target), sk.accuracy_score(target, best))
    close(over_batches(macro, scores, target), sk.balanced_accuracy_score(target, best))
    top = metrics.Accuracy("multiclass", num_classes=CLASSES, average="micro", top_k=2)
    close(over_batches(top, scores, target), sk.top_k_accuracy_score(target, scores, k=2))
    scores, target = multilabel(seed)
    micro = metrics.Accuracy("multilabel", num_labels=LABELS, average="micro")
    close(over_batches(micro, scores, target), sk.accuracy_score(target.ravel(), scores.ravel() > 0.5))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_confusion_matrix(normalize, seed):
    scores, target = multiclass(seed)
    metric = metrics.ConfusionMatrix("multiclass", num_classes=CLASSES, normalize=normalize)
    close(over_batches(metric, scores, target), sk.confusion_matrix(target, scores.argmax(1), normalize=normalize))
    scores, target = binary(seed)
    metric = metrics.ConfusionMatrix("binary", normalize=normalize)
    close(over_batches(metric, scores, target), sk.confusion_matrix(target, scores > 0.5, normalize=normalize))
    if normalize is None:
        scores, target = multilabel(seed)
        metric = metrics.ConfusionMatrix("multilabel", num_labels=LABELS)
        close(over_batches(metric, scores, target), sk.multilabel_confusion_matrix(target, scores > 0.5))


@pytest.mark.parametrize("seed", SEEDS)
def test_area_under_the_roc_curve(seed):
    scores, target = binary(seed)
    close(over_batches(metrics.AUROC("binary"), scores, target), sk.roc_auc_score(target, scores))
    scores, target = multiclass(seed)
    for average in ("macro", "weighted"):
        metric = metrics.AUROC("multiclass", num_classes=CLASSES, average=average)
        close(
            over_batches(metric, scores, target), sk.roc_auc_score(target, scores, multi_class="ovr", average=average)
        )
    scores, target = multilabel(seed)
    for average in ("micro", "macro", "weighted"):
        metric = metrics.AUROC("multilabel", num_labels=LABELS, average=average)
        close(over_batches(metric, scores, target), sk.roc_auc_score(target, scores, average=average))


@pytest.mark.parametrize("seed", SEEDS)
def test_average_precision(seed):
    scores, target = binary(seed)
    close(over_batches(metrics.AveragePrecision("binary"), scores, target), sk.average_precision_score(target, scores))
    scores, target = multiclass(seed)
    metric = metrics.AveragePrecision("multiclass", num_classes=CLASSES)
    close(over_batches(metric, scores, target), sk.average_precision_score(np.eye(CLASSES)[target], scores))
    scores, target = multilabel(seed)
    for average in ("micro", "macro", "weighted"):
        metric = metrics.AveragePrecision("multilabel", num_labels=LABELS, average=average)
        close(over_batches(metric, scores, target), sk.average_precision_score(target, scores, average=average))


REGRESSION = {
    "MeanSquaredError": ({}, "mean_squared_error"),
    "MeanSquaredError of roots": ({"squared": False}, "mean_squared_error"),
    "MeanAbsoluteError": ({}, "mean_absolute_error"),
    "MeanAbsolutePercentageError": ({}, "mean_absolute_percentage_error"),
    "R2Score": ({}, "r2_score"),
    "ExplainedVariance": ({}, "explained_variance_score"),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", REGRESSION)
def test_regression(name, seed):
    options, theirs = REGRESSION[name]
    r = np.random.RandomState(seed)
    target = r.randn(N) * 3 + 1
    prediction = target + r.randn(N)
    metric = getattr(metrics, name.split()[0])(**options).set_dtype(torch.float64)
    expected = getattr(sk, theirs)(target, prediction)
    close(over_batches(metric, prediction, target), expected**0.5 if options else expected)


def test_a_collection_gives_the_same_figures_as_its_metrics():
    scores, target = multiclass(3)
    best = scores.argmax(1)
    both = metrics.MetricCollection(
        {
            "precision": metrics.Precision("multiclass", num_classes=CLASSES, average="macro"),
            "recall": metrics.Recall("multiclass", num_classes=CLASSES, average="macro"),
            "accuracy": metrics.Accuracy("multiclass", num_classes=CLASSES, average="micro"),
        }
    )
    for part in (slice(0, 50), slice(50, None)):
        both.update(torch.tensor(scores[part]), torch.tensor(target[part]))
    found = {name: value.item() for name, value in both.compute().items()}
    close(found["precision"], sk.precision_score(target, best, average="macro"))
    close(found["recall"], sk.recall_score(target, best, average="macro"))
    close(found["accuracy"], sk.accuracy_score(target, best))
