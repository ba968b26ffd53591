"""Scores of texts and images against worked examples and their definitions."""

import pytest

import flambeau as torch
import flambeau.metrics as metrics
from flambeau.metrics import functional as F


def test_perplexity_is_that_of_cross_entropy():
    torch.manual_seed(0)
    logits, target = torch.randn(2, 7, 11), torch.randint(11, (2, 7))
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, 11), target.reshape(-1)).exp()
    assert torch.allclose(F.perplexity(logits, target), expected)
    target[0, 3:] = -100
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, 11), target.reshape(-1)).exp()
    metric = metrics.Perplexity(ignore_index=-100)
    metric.update(logits[:1], target[:1])
    metric.update(logits[1:], target[1:])
    assert torch.allclose(metric.compute(), expected)


PREDS = ["the cat is on the mat", "hello there"]
TARGET = [["there is a cat on the mat", "a cat is on the mat"], ["hello there you"]]


def test_bleu():
    # matching n-grams 7/8, 5/6, 3/4, 2/3; lengths 8 and 9
    precisions = torch.tensor([7 / 8, 5 / 6, 3 / 4, 2 / 3])
    expected = torch.exp(torch.tensor(1 - 9 / 8)) * precisions.log().mean().exp()
    assert torch.allclose(F.bleu_score(PREDS, TARGET), expected)
    metric = metrics.BLEUScore()
    for sentence, references in zip(PREDS, TARGET):
        metric.update([sentence], [references])
    assert torch.allclose(metric.compute(), expected)
    assert F.bleu_score(["a"], [["b"]]) == 0
    with pytest.raises(ValueError, match="size"):
        F.bleu_score(PREDS, TARGET[:1])


def test_error_rates():
    said = ["this is the prediction", "there is an other sample"]
    meant = ["this is the reference", "there is another one"]
    for name, metric, expected in (
        ("word_error_rate", metrics.WordErrorRate, 4 / 8),
        ("match_error_rate", metrics.MatchErrorRate, 4 / 9),
        ("char_error_rate", metrics.CharErrorRate, 14 / 41),
        ("word_information_preserved", metrics.WordInfoPreserved, 5 / 8 * 5 / 9),
        ("word_information_lost", metrics.WordInfoLost, 1 - 5 / 8 * 5 / 9),
    ):
        assert getattr(F, name)(said, meant) == pytest.approx(expected)
        counted = metric()
        for pair in zip(said, meant):
            counted.update(*pair)
        assert counted.compute() == pytest.approx(expected)


def test_edit_distance():
    assert F.edit_distance(["rain", "lnaguaeg"], ["shine", "language"], reduction=None).tolist() == [3, 4]
    assert F.edit_distance(["rain"], ["shine"], substitution_cost=2) == 5
    assert F.edit_distance([""], ["abc"]) == 3 == F.edit_distance(["abc"], [""])


def test_signal_to_noise():
    torch.manual_seed(0)
    a, b = torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 8)
    expected = 10 * torch.log10(1 / ((a - b) ** 2).mean())
    assert torch.allclose(F.peak_signal_noise_ratio(a, b, data_range=1.0), expected)
    metric = metrics.PeakSignalNoiseRatio(data_range=1.0)
    metric.update(a[:1], b[:1])
    metric.update(a[1:], b[1:])
    assert torch.allclose(metric.compute(), expected)
    each = F.peak_signal_noise_ratio(a, b, data_range=1.0, dim=(1, 2, 3), reduction="none")
    assert each.shape == (2,) and torch.allclose(each[0], F.peak_signal_noise_ratio(a[0], b[0], data_range=1.0))


def test_structural_similarity():
    """Against the definition, at one place, with weights written out; and what it must be for equal and opposite images."""
    torch.manual_seed(0)
    a, b = torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16)
    _, full = F.structural_similarity_index_measure(a, b, data_range=1.0, return_full_image=True)
    line = torch.exp(-((torch.arange(11) - 5) ** 2) / 4.5)
    weights = torch.outer(line, line) / line.sum() ** 2
    x, y = a[0, 0, 2:13, 3:14], b[0, 0, 2:13, 3:14]
    mx, my = (weights * x).sum(), (weights * y).sum()
    vx, vy, c = (weights * x**2).sum() - mx**2, (weights * y**2).sum() - my**2, (weights * x * y).sum() - mx * my
    expected = (2 * mx * my + 1e-4) * (2 * c + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))
    assert torch.allclose(full[0, 0, 7, 8], expected, atol=1e-5)
    assert torch.allclose(F.structural_similarity_index_measure(a, a), torch.tensor(1.0))
    assert F.structural_similarity_index_measure(a, 1 - a) < 0
    metric = metrics.StructuralSimilarityIndexMeasure(data_range=1.0)
    metric.update(torch.cat([a, b]), torch.cat([b, b]))
    assert torch.allclose(metric.compute(), (full.mean() + 1) / 2)
    with pytest.raises(ValueError, match="odd"):
        F.structural_similarity_index_measure(a, b, kernel_size=4)


def test_similarity_over_scales_and_its_gradient():
    torch.manual_seed(0)
    a = torch.rand(1, 1, 180, 180)
    b = (a + 0.2 * torch.rand(1, 1, 180, 180)).requires_grad_()
    value = F.multiscale_structural_similarity_index_measure(b, a, data_range=1.0)
    assert 0.8 < value < 1
    value.backward()
    assert b.grad.abs().sum() > 0
    assert torch.allclose(metrics.MultiScaleStructuralSimilarityIndexMeasure(data_range=1.0)(a, a), torch.tensor(1.0))


def test_total_variation():
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert F.total_variation(image) == 12 * 4 + 12 * 1
    assert metrics.TotalVariation(reduction="mean")(torch.cat([image, image * 0])) == 30
    down, across = F.image_gradients(image)
    assert (
        down[0, 0, 0].tolist() == [4] * 4
        and down[0, 0, 3].tolist() == [0] * 4
        and across[0, 0, 0].tolist() == [1, 1, 1, 0]
    )


def test_pairs_of_rows():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    assert F.pairwise_euclidean_distance(x)[0].tolist() == [0, 5, 10]
    assert F.pairwise_manhattan_distance(x, reduction="sum").tolist() == [21, 14, 21]
    assert torch.allclose(F.pairwise_cosine_similarity(x[1:], x[1:]), torch.ones(2, 2))
