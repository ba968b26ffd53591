"""Metrics over batches."""

import pytest

import flambeau as torch
from flambeau.metrics import Accuracy, F1Score

PREDICTED, TRUE = torch.tensor([0, 1, 2, 2, 1, 0, 3]), torch.tensor([0, 2, 2, 2, 1, 1, 3])


def test_accuracy_over_batches():
    metric = Accuracy(task="multiclass", num_classes=5, average="micro").to("cpu")
    for p, t in zip(PREDICTED.split(3), TRUE.split(3)):
        metric.update(p, t)
    assert f"{metric.compute():.4f}" == "0.7143"
    metric.reset()
    metric.update(TRUE, TRUE)
    assert metric.compute() == 1


def test_macro_f1():
    metric = F1Score(task="multiclass", num_classes=4, average="macro")
    for p, t in zip(PREDICTED.split(3), TRUE.split(3)):
        metric.update(p, t)
    scores = []
    for c in range(4):
        hit = ((PREDICTED == c) & (TRUE == c)).sum()
        scores.append(2 * hit / ((PREDICTED == c).sum() + (TRUE == c).sum()))
    assert metric.compute().item() == pytest.approx(torch.stack(scores).mean().item())


def test_accuracy_by_hand():
    logits = torch.nn.functional.one_hot(PREDICTED, 4).float()
    assert (logits.argmax(dim=1) == TRUE).sum().item() / len(TRUE) == pytest.approx(5 / 7)
