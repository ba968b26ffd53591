"""Initialization: values against known ones of PyTorch for the same seeds, patterns, fans, errors."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import init

E = torch.empty

SEEDED = [
    (lambda: init.uniform_(E(2, 3), -1, 1), [-0.00748682022, 0.536443591, -0.823045135, -0.735939026, -0.385154366, 0.268157363]),
    (lambda: init.normal_(E(2, 3), -1, 2), [2.08199215, -1.5868578, -5.35757875, 0.136862561, -3.16904473, -3.7971909]),
    (lambda: init.trunc_normal_(E(2, 3)), [1.54099607, -0.293428898, -0.719257593, 0.568431258, -1.08452237, -1.39859545]),
    (lambda: init.trunc_normal_(E(()), std=2.0), -0.586857796),  # the first is refused
    (lambda: init.trunc_normal_(E(2, 3), std=3.0), [1.21004057, -0.880286694, 1.11118054, 1.70529377, -1.78990614, 0.546109438]),
    (lambda: init.trunc_normal_(E(2, 3), 0, 1, 0.5, 2), [1.24438488, 0.753288388, 0.632716179, 0.698045731, 0.961134195, 1.06012607]),
    (lambda: init.trunc_normal_(E(2, 3), 3, 1, -2, 2), [1.24756408, 1.71919608, 1.81095243, 1.98826623, 1.09794402, 1.34763575]),
    (lambda: init.xavier_uniform_(E(2, 3), 1.5), [-0.0123021007, 0.881466746, -1.35240114, -1.20927119, -0.632873178, 0.440627486]),
    (lambda: init.xavier_normal_(E(2, 3)), [0.974611521, -0.18558073, -1.37798738, 0.359507501, -0.685912132, -0.884549379]),
    (lambda: init.kaiming_uniform_(E(2, 3), 0.1), [-0.0105354171, 0.754880786, -1.15818512, -1.03560984, -0.54198736, 0.377349734]),
    (lambda: init.kaiming_normal_(E(2, 3), mode="fan_out", nonlinearity="relu"), [1.54099607, -0.293428898, -2.17878938, 0.568431258, -1.08452237, -1.39859545]),
    (lambda: init.orthogonal_(E(2, 3)), [0.573980927, -0.109294608, -0.811542153, -0.345415115, -0.930882692, -0.11893554]),
    (lambda: init.orthogonal_(E(3, 2), gain=2), [1.06990504, -0.339860171, -1.51272166, 0.680367649, -0.752977967, -1.84975541]),
    (lambda: init.sparse_(E(5, 2), 0.3), [0.0154099613, -0.00293428916, 0, 0.0056843129, -0.0108452234, 0, 0.00403346866, 0.00838026311, 0, 0]),
    (lambda: init.normal_(E(64))[-3:], [-1.23413503, 1.81972528, -0.551528692]),
    (lambda: init.kaiming_uniform_(E(1, 3, dtype=torch.float64)), [1.32951066, 0.587803342, -0.114882385]),
    (lambda: init.kaiming_uniform_(E(1, 3, dtype=torch.bfloat16)), [-0.010559082, 0.7578125, -1.1640625]),
    (lambda: init.trunc_normal_(E(3, dtype=torch.float16), std=2.0), [1.13671875, -0.586914062, -1.43847656]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SEEDED)))
def test_known_values(number):
    make, expected = SEEDED[number]
    torch.manual_seed(0)
    np.testing.assert_allclose(make().flatten().double().numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda g: init.uniform_(E(3), generator=g), [0.00426352024, 0.105569363, 0.285842478]),
        (lambda g: init.uniform_(E(3), 0, 1, g), [0.00426352024, 0.105569363, 0.285842478]),
        (lambda g: init.trunc_normal_(E(3), generator=g), [0.803276062, 0.174833387, 0.0889780968]),
        (lambda g: init.kaiming_normal_(E(1, 3), generator=g), [0.655872166, 0.142750874, 0.0726503134]),
        (lambda g: init.orthogonal_(E(1, 3), generator=g), [0.97145021, 0.21143654, 0.107606567]),
    ],
)
def test_generator(make, expected):
    before = torch.random.get_rng_state()
    made = make(torch.Generator().manual_seed(3))
    np.testing.assert_allclose(made.flatten().numpy(), expected, rtol=4e-7)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_truncated_far_from_the_mean():
    with pytest.warns(UserWarning, match="2 std"):
        made = init.trunc_normal_(E(100), 4.5, 1, -2, 2)
    assert made.min() >= -2 and made.max() <= 2 and made.mean() > 1


def test_gains():
    assert (
        init.calculate_gain("linear") == init.calculate_gain("conv_transpose2d") == init.calculate_gain("sigmoid") == 1
    )
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("leaky_relu") == init.calculate_gain("leaky_relu", 0.01)
    assert init.calculate_gain("leaky_relu", 1) == 1
    for args in (("leaky_relu", True), ("leaky_relu", "x"), ("softmax",)):
        with pytest.raises(ValueError):
            init.calculate_gain(*args)


def test_fans():
    assert init._calculate_fan_in_and_fan_out(E(2, 3, 4, 5)) == (60, 40)
    assert init._calculate_correct_fan(E(2, 3), "FAN_OUT") == 2
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init._calculate_fan_in_and_fan_out(E(2))
    with pytest.raises(ValueError, match="fan_in"):
        init.kaiming_uniform_(E(2, 2), mode="both")


def test_constants_write_into_parameters():
    weight = torch.nn.Parameter(E(2, 3))
    for function, value in ((init.ones_, 1), (init.zeros_, 0), (lambda t: init.constant_(t, 2.5), 2.5)):
        assert function(weight) is weight
        assert weight.requires_grad and weight.is_leaf and (weight == value).all()


def test_patterns():
    assert init.eye_(E(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    x = torch.randn(1, 4, 5, 6)
    same = torch.nn.functional.conv2d(x, init.dirac_(E(4, 4, 3, 3)), padding=1)
    assert torch.equal(same, x)
    grouped = init.dirac_(E(4, 2, 2), groups=2)
    assert grouped[:2].tolist() == grouped[2:].tolist() == [[[0, 1], [0, 0]], [[0, 0], [0, 1]]]
    for bad in (lambda: init.eye_(E(2)), lambda: init.dirac_(E(2)), lambda: init.dirac_(E(4, 2, 2), 3),
                lambda: init.orthogonal_(E(3)), lambda: init.sparse_(E(3), 0.1)):  # fmt: skip
        with pytest.raises(ValueError):
            bad()


def test_orthogonal_rows():
    made = init.orthogonal_(E(4, 3, 5, dtype=torch.float64), gain=3)
    flat = made.reshape(4, 15)
    np.testing.assert_allclose((flat @ flat.T).numpy(), 9 * np.eye(4), atol=1e-12)


def test_sparse_share():
    made = init.sparse_(E(10, 4), 0.35)
    assert (made == 0).sum(0).tolist() == [4, 4, 4, 4]


def test_no_elements():
    empty = E(0, 3)
    with pytest.warns(UserWarning, match="zero-element"):
        assert init.kaiming_uniform_(empty) is empty
    assert init.orthogonal_(empty) is empty


def test_meta():
    for function in (init.trunc_normal_, init.orthogonal_, init.xavier_uniform_, lambda t: init.sparse_(t, 0.1)):
        assert function(E(4, 3, device="meta")).is_meta


@pytest.mark.parametrize(
    "name",
    ["uniform", "normal", "eye", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal"],
)
def test_old_spelling(name):
    weight = E(3, 3)
    torch.manual_seed(1)
    with pytest.warns(FutureWarning, match=name):
        assert getattr(init, name)(weight) is weight
    torch.manual_seed(1)
    assert torch.equal(weight, getattr(init, name + "_")(E(3, 3)))
