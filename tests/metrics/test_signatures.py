"""Signatures that are made of a table look and behave as written ones: for people, for pickle, for subclasses."""

import inspect
import pickle
from typing import get_type_hints

import pytest

import flambeau as torch
from flambeau.metrics import Metric, classification
from flambeau.metrics import functional as F
from flambeau.metrics.functional import classification as functions

CLASSES = [getattr(classification, name) for name in classification.__all__]
FUNCTIONS = [getattr(functions, name) for name in functions.__all__]


@pytest.mark.parametrize("made", CLASSES + FUNCTIONS, ids=lambda made: made.__name__)
def test_every_argument_has_a_type(made):
    parameters = inspect.signature(made).parameters.values()
    assert all(p.annotation is not p.empty for p in parameters)
    assert made.__doc__ and pickle.loads(pickle.dumps(made)) is made


def test_signatures():
    assert (
        str(inspect.signature(classification.MulticlassJaccardIndex))
        == "(num_classes: int, average: str | None = 'macro', ignore_index: int | None = None, "
        "validate_args: bool = True, zero_division: float = 0, **kwargs: Any) -> None"
    )
    names = list(inspect.signature(classification.MulticlassRecallAtFixedPrecision).parameters)
    assert names[:3] == ["num_classes", "min_precision", "thresholds"]
    assert list(inspect.signature(classification.Accuracy).parameters)[:3] == ["task", "threshold", "num_classes"]
    assert get_type_hints(classification.BinaryAccuracy.__init__)["ignore_index"] == int | None
    assert get_type_hints(F.accuracy)["return"] is torch.Tensor


def test_arguments_by_place_and_by_name():
    by_place = classification.MulticlassJaccardIndex(3, "weighted", 1)
    by_name = classification.MulticlassJaccardIndex(num_classes=3, average="weighted", ignore_index=1)
    assert vars(by_place)["average"] == vars(by_name)["average"] == "weighted" and by_place.ignore_index == 1
    assert type(classification.JaccardIndex("multilabel", 0.3, num_labels=2)) is classification.MultilabelJaccardIndex
    point = classification.RecallAtFixedPrecision("multiclass", 0.5, num_classes=3)
    assert point.min_precision == 0.5 and point.num_classes == 3
    preds, target = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2])
    assert F.jaccard_index(preds, target, "multiclass", 0.5, 3) == F.multiclass_jaccard_index(preds, target, 3)


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: classification.MulticlassConfusionMatrix(), TypeError),
        (lambda: classification.RecallAtFixedPrecision("binary"), TypeError),
        (lambda: classification.BinaryAccuracy(0.5, "global", None, True, 0, 1), TypeError),
        (lambda: classification.BinaryAccuracy(unknown=1), ValueError),
        (lambda: classification.BinaryAccuracy(threshold=2.0), ValueError),
        (lambda: classification.CohenKappa("multilabel", num_classes=3), ValueError),
        (lambda: classification.Accuracy("multiclass"), ValueError),
        (lambda: F.accuracy(torch.tensor([1]), torch.tensor([1])), TypeError),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(error):
        make()


class Renamed(classification.MulticlassAccuracy):
    """A subclass with arguments of its own."""

    def __init__(self, classes: int, **kwargs):
        super().__init__(num_classes=classes, average="micro", **kwargs)
        self.classes = classes


def test_subclasses():
    metric = Renamed(3, compute_on_cpu=True)
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    assert list(inspect.signature(Renamed).parameters) == ["classes", "kwargs"]
    assert isinstance(metric, classification.MulticlassStatScores) and isinstance(metric, Metric)
    restored = pickle.loads(pickle.dumps(metric))
    assert type(restored) is Renamed and restored.classes == 3 and restored.compute_on_cpu
    assert restored.compute() == metric.compute()
