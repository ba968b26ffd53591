"""Where explanations in circulation differ from PyTorch: its behaviour is the one here."""

from collections import OrderedDict

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


def test_mixed_floats_promote_in_elementwise_operations_only():
    assert (torch.ones(2) + torch.ones(2).half()).dtype is torch.float32
    with pytest.raises(RuntimeError):
        torch.ones(2, 2) @ torch.ones(2, 2).half()


def test_parameters_include_frozen_ones():
    model = nn.Linear(2, 2)
    model.weight.requires_grad = False
    assert len(list(model.parameters())) == 2


@pytest.mark.parametrize(
    "error, action",
    [
        (TypeError, lambda: nn.Embedding(vocab_size=10, embedding_dim=2)),
        (TypeError, lambda: nn.Sequential(("fc1", nn.Linear(1, 1)))),
        (AttributeError, lambda: nn.MAELoss()),
        (TypeError, lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(
            torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0), verbose=True)),
        (AttributeError, lambda: nn.Linear(1, 1).bias.zero__()),
        (AttributeError, lambda: F.mse_reconstruction_loss(torch.ones(1), torch.ones(1))),
        (TypeError, lambda: torch.cuda.amp.autocast(device_type="cuda", dtype=torch.float16)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_does_not_exist(error, action):
    with pytest.raises(error):
        action()


def test_what_exists_instead():
    assert nn.Embedding(num_embeddings=10, embedding_dim=2).weight.shape == (10, 2)
    assert nn.Sequential(OrderedDict(fc1=nn.Linear(1, 1))).fc1.in_features == 1
    assert nn.L1Loss()(torch.ones(2), torch.zeros(2)) == 1
    with torch.no_grad():
        assert nn.Linear(1, 1).bias.zero_() == 0
    with torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16):
        pass
    assert nn.utils.clip_grad_norm_ and nn.utils.clip_grad_value_


def test_float64_elements_say_so():
    assert repr(torch.from_numpy(np.array([99.0]))[0]) == "tensor(99., dtype=torch.float64)"


def test_sigmoid_and_bce_stay_finite():
    loss = nn.BCELoss()(torch.sigmoid(torch.tensor([-500.0])), torch.ones(1))
    assert loss == 100 and nn.BCEWithLogitsLoss()(torch.tensor([-500.0]), torch.ones(1)) == 500


def test_loaders_convert_other_samples():
    batch = next(iter(torch.utils.data.DataLoader([{"x": np.ones(2), "y": 1.5, "z": "name"}] * 2, batch_size=2)))
    assert batch["x"].shape == (2, 2) and batch["y"].dtype is torch.float64 and batch["z"] == ["name"] * 2


def test_scalars_broadcast():
    assert (torch.tensor(2.0) * torch.tensor(3.0)).shape == () and (torch.tensor(2.0) + torch.ones(2, 2)).shape == (
        2,
        2,
    )


def test_single_images_and_single_elements():
    assert nn.Conv2d(3, 2, 3)(torch.ones(3, 5, 5)).shape == (2, 3, 3)
    assert torch.tensor([[[7]]]).item() == 7


def test_nll_averages():
    log_probabilities, y = torch.randn(4, 3).log_softmax(1), torch.tensor([0, 1, 2, 0])
    each = -log_probabilities[torch.arange(4), y]
    assert torch.allclose(F.nll_loss(log_probabilities, y), each.mean())
    assert torch.allclose(F.nll_loss(log_probabilities, y, reduction="sum"), each.sum())


def test_dropout_keeps_with_one_minus_p():
    torch.manual_seed(0)
    kept = (F.dropout(torch.ones(10_000), p=0.9) != 0).float().mean().item()
    assert kept == pytest.approx(0.1, abs=0.02)
