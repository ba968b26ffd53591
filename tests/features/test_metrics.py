"""Metrics over batches."""

import pytest

import flambeau as torch
from flambeau.metrics import Accuracy, F1Score

predicted, true = torch.tensor([0, 1, 2, 2, 1, 0, 3]), torch.tensor([0, 2, 2, 2, 1, 1, 3])


def test_accuracy_over_batches():
    metric = Accuracy(task="multiclass", num_classes=5, average="micro").to("cpu")
    for p, t in zip(predicted.split(3), true.split(3)):
        metric.update(p, t)
    assert f"{metric.compute():.4f}" == "0.7143"
    metric.reset()
    metric.update(true, true)
    assert metric.compute() == 1


def test_macro_f1():
    metric = F1Score(task="multiclass", num_classes=4, average="macro")
    for p, t in zip(predicted.split(3), true.split(3)):
        metric.update(p, t)
    scores = []
    for c in range(4):
        hit = ((predicted == c) & (true == c)).sum()
        scores.append(2 * hit / ((predicted == c).sum() + (true == c).sum()))
    assert metric.compute().item() == pytest.approx(torch.stack(scores).mean().item())


def test_accuracy_by_hand():
    logits = torch.nn.functional.one_hot(predicted, 4).float()
    assert (logits.argmax(dim=1) == true).sum().item() / len(true) == pytest.approx(5 / 7)
