"""Masks chosen by sparsifiers, schedules of sparsity, and what stays when the masks are written into the weights."""

import pytest

import flambeau as torch
from flambeau.ao import pruning


def _model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))


@pytest.mark.parametrize(
    ("options", "zeros"),
    [
        ({"sparsity_level": 0.5}, [48, 16]),
        ({"sparsity_level": 0.7, "zeros_per_block": 2}, [34, 12]),
        ({"sparsity_level": 0.3, "sparse_block_shape": (2, 3)}, [30, 8]),
        ({"sparsity_level": 1.0, "zeros_per_block": 1}, [24, 8]),
        ({"sparsity_level": 0.0}, [0, 0]),
        ({"sparsity_level": 1.0}, [96, 32]),
    ],
)
def test_smallest_norms_are_hidden(options, zeros):
    model = _model()
    sparsifier = pruning.WeightNormSparsifier(**options)
    sparsifier.prepare(model, None)
    sparsifier.step()
    assert [int((model[i].weight == 0).sum()) for i in (0, 2)] == zeros
    if options == {"sparsity_level": 0.5}:
        blocks = model[0].parametrizations.weight.original.pow(2).reshape(24, 4).mean(1)
        hidden = (model[0].weight == 0).reshape(24, 4).all(1)
        assert blocks[hidden].max() < blocks[~hidden].min()


def test_masks_are_written_into_the_weights():
    model = _model()
    sparsifier = pruning.WeightNormSparsifier()
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight", "sparsity_level": 0.25}])
    sparsifier.step()
    shown = model[0].weight.clone()
    saved = sparsifier.state_dict()
    other = pruning.WeightNormSparsifier()
    copy = _model()
    other.prepare(copy, [{"tensor_fqn": "0.weight"}])
    other.load_state_dict(saved)
    assert torch.equal(copy[0].weight, shown)
    sparsifier.squash_mask(params_to_keep=("sparsity_level",))
    assert isinstance(model[0].weight, torch.nn.Parameter) and torch.equal(model[0].weight, shown)
    assert model[0].sparse_params == {"sparsity_level": 0.25}


def test_band():
    model = torch.nn.Sequential(torch.nn.Linear(5, 4))
    sparsifier = pruning.NearlyDiagonalSparsifier(3)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    assert (model[0].weight != 0).int().tolist() == [
        [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1],
    ]  # fmt: skip


def test_schedules():
    sparsifier = pruning.WeightNormSparsifier(1.0)
    sparsifier.prepare(_model(), None)
    cubic = pruning.CubicSL(sparsifier, init_sl=0.1, init_t=3, delta_t=1, total_t=5, initially_zero=True)
    seen = []
    for _ in range(8):
        sparsifier.step()
        cubic.step()
        seen.append(round(cubic.get_last_sl()[0], 4))
    assert seen == [0.0, 0.0, 0.1, 0.5392, 0.8056, 0.9424, 0.9928, 1.0]
    other = pruning.WeightNormSparsifier(0.5)
    other.prepare(_model(), None)
    rule = pruning.LambdaSL(other, lambda step: 0.9**step)
    other.step()
    rule.step()
    assert rule.get_last_sl() == [0.45, 0.45]


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="update_mask"):
        sparsifier = pruning.BaseSparsifier()
        sparsifier.prepare(_model(), None)
        sparsifier.step()
    with pytest.raises(TypeError, match="BaseSparsifier"):
        pruning.LambdaSL(object(), lambda step: 1.0)
    with pytest.raises(NotImplementedError, match="L-3"):
        pruning.WeightNormSparsifier(norm=3)
