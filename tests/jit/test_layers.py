"""Layers and losses of scripted modules that are saved and loaded do what they did."""

import io

import pytest

import flambeau as torch
from flambeau import Tensor, jit, nn


def stored(program):
    buffer = io.BytesIO()
    jit.save(program, buffer)
    buffer.seek(0)
    return jit.load(buffer)


def flat(result):
    return [result] if isinstance(result, Tensor) else [t for part in result or () for t in flat(part)]


def agree(layer, *calls):
    """The results of a layer and of its program, for each call's arguments, while training and after it."""
    for training in (True, False):
        program = stored(jit.script(layer.train(training)))
        for args in calls:
            for want, got in zip(flat(layer(*args)), flat(program(*args)), strict=True):
                assert torch.allclose(want, got, atol=1e-6), type(layer)


rows, images = torch.rand(3, 8), torch.rand(2, 4, 6, 6)
classes, signs = torch.tensor([0, 1, 5]), torch.tensor([1, -1, 1])


@pytest.mark.parametrize(
    "layer", [nn.GRUCell(8, 4), nn.RNNCell(8, 4, nonlinearity="relu"), nn.RNNCell(8, 4, bias=False)]
)
def test_cells(layer):
    agree(layer, (rows,), (rows, torch.rand(3, 4)), (rows[0],), (rows[0], torch.rand(4)))


def test_cells_with_two_states():
    both, one = (torch.rand(3, 4), torch.rand(3, 4)), (torch.rand(4), torch.rand(4))
    agree(nn.LSTMCell(8, 4), (rows,), (rows, both), (rows[0],), (rows[0], one))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Softsign(), nn.Tanhshrink(), nn.Softmin(1), nn.RReLU(0.3, 0.3), nn.AlphaDropout(0.0), nn.RMSNorm(8),
        nn.RMSNorm(8, eps=0.1, elementwise_affine=False),
    ],
)  # fmt: skip
def test_layers_of_rows(layer):
    agree(layer, (rows - 0.5,))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Softmax2d(), nn.InstanceNorm2d(4), nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.PixelUnshuffle(2), nn.ChannelShuffle(2), nn.Unfold((3, 2), padding=1, stride=2), nn.CircularPad2d((1, 0, 2, 1)),
        nn.AdaptiveMaxPool2d((3, 2)), nn.AdaptiveMaxPool2d(2, return_indices=True), nn.MaxPool2d(2, return_indices=True),
        nn.UpsamplingBilinear2d(scale_factor=2), nn.UpsamplingNearest2d(size=(5, 3)),
        nn.BatchNorm2d(4, track_running_stats=False, momentum=None), nn.LocalResponseNorm(3, 0.1, 0.5, 2.0),
        nn.LPPool2d(3.0, 2, 1, ceil_mode=True), nn.LPPool2d(2, (3, 2)),
    ],
)  # fmt: skip
def test_layers_of_images(layer):
    agree(layer, (images,))


def test_rarer_pooling():
    agree(nn.LPPool1d(2, 3), (images[0],))
    agree(nn.LPPool3d(1.5, 2), (images,))
    agree(nn.LocalResponseNorm(2), (rows[None],))
    for rank, size in ((1, (2, 4, 6)), (2, (2, 4, 6, 6)), (3, (2, 2, 4, 4, 4))):
        x = torch.rand(size)
        args = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
        agree(getattr(nn, f"MaxUnpool{rank}d")(2), args, (*args, list(size[2:])))
    for layer, x in (
        (nn.FractionalMaxPool2d(2, output_size=3, return_indices=True), images),
        (nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.7)), images[0]),
        (nn.FractionalMaxPool3d(2, output_size=(2, 3, 3)), images[None]),
    ):
        program = stored(jit.script(layer))
        for run in (layer, program):
            torch.manual_seed(0)
            results = flat(run(x))
            torch.manual_seed(0)
            assert all(map(torch.equal, results, flat(layer(x))))


def test_other_layers():
    agree(nn.Fold((4, 4), 2), (torch.rand(1, 8, 9),))
    for layer in (nn.Bilinear(8, 8, 3), nn.CosineSimilarity(), nn.PairwiseDistance(1, keepdim=True)):
        agree(layer, (rows, rows.flip(0)))
    for options in ({}, {"mode": "max", "padding_idx": 2}, {"mode": "sum"}):
        bags = (torch.tensor([[1, 2], [3, 4]]),), (torch.tensor([1, 2, 4, 5]), torch.tensor([0, 3]))
        weighed = ((*bags[0], None, torch.rand(2, 2)),) if options == {"mode": "sum"} else ()
        agree(nn.EmbeddingBag(9, 3, **options), *bags, *weighed)


def test_batch_norm_of_all_batches():
    layer = nn.BatchNorm2d(4, momentum=None)
    program = stored(jit.script(layer))
    for batch in (images, images * 2 + 1, images - 3):
        assert torch.allclose(layer(batch), program(batch), atol=1e-6)
    assert torch.allclose(layer.running_mean, program.running_mean) and program.num_batches_tracked.item() == 3
    assert torch.allclose(layer.eval()(images), program.eval()(images), atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", nn.SiLU()])
def test_transformers(norm_first, activation):
    options = {"dropout": 0.0, "norm_first": norm_first, "activation": activation}
    source, target = torch.rand(3, 4, 8), torch.rand(3, 4, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    agree(nn.TransformerDecoderLayer(8, 2, 16, **options), (target, source, causal))
    stack = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, **options), 2, nn.LayerNorm(8))
    hidden = torch.arange(12).view(4, 3) % 5 == 4
    agree(stack, (target, source, causal, None, None, hidden))
    if not isinstance(activation, nn.Module):
        agree(nn.Transformer(8, 2, 1, 1, 16, **options), (source, target, None, causal, None, hidden))


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(reduction):
    probabilities, other = rows, rows.flip(1)
    for kind in (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.KLDivLoss, nn.PoissonNLLLoss):
        agree(kind(reduction=reduction), (probabilities, other))
    agree(nn.SmoothL1Loss(beta=0.1, reduction=reduction), (rows, other))
    agree(nn.BCEWithLogitsLoss(pos_weight=torch.full((8,), 2.0), reduction=reduction), (rows, other))
    weight = torch.arange(1.0, 9.0)
    agree(nn.CrossEntropyLoss(weight, ignore_index=1, label_smoothing=0.1, reduction=reduction), (rows, classes))
    agree(nn.NLLLoss(weight, reduction=reduction), (rows, classes))
    agree(nn.MultiMarginLoss(p=2, reduction=reduction), (rows, classes))
    agree(nn.MultiLabelMarginLoss(reduction=reduction), (rows, torch.tensor([[0, 1, -1, 0, 0, 0, 0, 0]] * 3)))
    agree(nn.MultiLabelSoftMarginLoss(weight, reduction=reduction), (rows, (other > 0.5).float()))
    agree(nn.HingeEmbeddingLoss(0.3, reduction=reduction), (rows[:, 0], signs))
    agree(nn.SoftMarginLoss(reduction=reduction), (rows[:, 0], signs))
    agree(nn.CosineEmbeddingLoss(0.1, reduction=reduction), (rows, other, signs))
    agree(nn.MarginRankingLoss(0.2, reduction=reduction), (rows[:, 0], rows[:, 1], signs))
    agree(nn.TripletMarginLoss(0.5, swap=True, reduction=reduction), (rows, other, rows * 2))
    lengths = torch.tensor([6, 6]), torch.tensor([2, 2])
    agree(
        nn.CTCLoss(reduction=reduction), (torch.rand(6, 2, 5).log_softmax(-1), torch.tensor([[1, 2], [3, 4]]), *lengths)
    )


def test_divergence_of_a_batch():
    agree(nn.KLDivLoss(reduction="batchmean", log_target=True), (rows, rows.flip(1)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, steps: int) -> Tensor:
        states = torch.jit.annotate(list[Tensor], [])
        h = torch.zeros_like(x)
        for _ in range(steps):
            h = self.cell(self.out(h) + x, h)
            states.append(h)
        return torch.stack(states)


def test_types_are_named_by_annotate():
    agree(Decoder(), (rows, 3))


@pytest.mark.parametrize(
    "layer, size",
    [
        (nn.Upsample(scale_factor=2.0, mode="trilinear"), (1, 2, 3, 3, 3)),
        (nn.Upsample(size=5, mode="linear"), (1, 2, 4)),
        (nn.Upsample(scale_factor=1.7, mode="linear", recompute_scale_factor=True), (1, 2, 7)),
        (nn.Upsample(size=(3, 3), mode="area"), (1, 2, 6, 6)),
        (nn.AvgPool2d(2, divisor_override=3), (1, 2, 4, 4)),
        (nn.AdaptiveAvgPool2d((2, None)), (1, 2, 4, 5)),
        (nn.InstanceNorm2d(3), (3, 4, 4)),
        (nn.FeatureAlphaDropout(0.0), (2, 3, 4)),
    ],
)
def test_layers_whose_options_were_left_out(layer, size):
    agree(layer, (torch.rand(size),))


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("kind", [nn.Softmax, nn.LogSoftmax, nn.Softmin])
def test_softmax_without_a_dimension(kind):
    agree(kind(), (torch.rand(2, 3, 4),), (torch.rand(5),), (torch.rand(2, 3),))


def test_losses_that_call_functions():
    agree(nn.TripletMarginLoss(p=1), (rows, rows + 1, rows * 2))
    agree(nn.GaussianNLLLoss(), (rows, rows + 1, rows + 0.1))
    agree(nn.EmbeddingBag(6, 4, max_norm=0.5), (torch.tensor([[0, 5], [1, 2]]),))


def test_attention_of_one_sequence_and_with_further_keys():
    one, many = torch.rand(5, 4), torch.rand(5, 2, 4)
    mask = torch.ones(5, 5).triu(1).bool()
    agree(nn.MultiheadAttention(4, 2), (one, one, one), (many, many, many, None, False, mask))
    agree(nn.MultiheadAttention(4, 2, add_bias_kv=True), (many, many, many, mask[:2], True, mask))
    agree(nn.MultiheadAttention(4, 2, add_zero_attn=True, batch_first=True, bias=False), (many, many, many))


@pytest.mark.parametrize("layer", [nn.GRU(4, 3), nn.LSTM(4, 3, 2, bidirectional=True), nn.LSTM(4, 3, proj_size=2)])
def test_recurrence_over_one_sequence(layer):
    agree(layer, (torch.rand(5, 4),), (torch.rand(5, 2, 4),))


def test_recurrence_over_one_sequence_from_a_state():
    agree(nn.GRU(4, 3, batch_first=True), (torch.rand(5, 4), torch.rand(1, 3)))
    agree(nn.LSTM(4, 3), (torch.rand(5, 4), (torch.rand(1, 3), torch.rand(1, 3))))
