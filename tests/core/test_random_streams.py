"""The CPU random streams against values observed from PyTorch.

Each recorded draw starts from seed 2024 and comes with the low 24 bits of the word that follows it,
so that a draw which takes too much or too little of the stream fails as well.
"""

from __future__ import annotations

import subprocess
import sys
import zlib

import ml_dtypes
import numpy as np
import pytest

from flambeau._core import random_draws as draws
from flambeau._core import random_samplers as samplers
from flambeau._core import random_transforms as transforms
from flambeau._core.random import MersenneState

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
WEIGHTS = np.float32([0.1, 0.2, 0.3, 0.4])
SEED = 2024

SMALL = {
    "uniform float32": (
        lambda e: draws.uniform(e, 6, np.float32),
        [0.53171587, 0.83126795, 0.971838, 0.11930084, 0.16690224, 0.34945893],
        3606974,
    ),
    "uniform float64": (
        lambda e: draws.uniform(e, 4, np.float64),
        [0.25372732026738665, 0.7747043317543358, 0.33521823650125215, 0.7199396577107312],
        8134441,
    ),
    "uniform float16": (
        lambda e: draws.uniform(e, 6, np.float16),
        [0.53173828125, 0.8310546875, 0.9716796875, 0.11932373046875, 0.1668701171875, 0.349365234375],
        3606974,
    ),
    "uniform bfloat16": (
        lambda e: draws.uniform(e, 6, BFLOAT16),
        [0.53125, 0.83203125, 0.97265625, 0.119140625, 0.1669921875, 0.349609375],
        3606974,
    ),
    "uniform range": (
        lambda e: draws.uniform(e, 6, np.float32, -1.7, 3.3),
        [0.9585793, 2.4563398, 3.15919, -1.1034958, -0.8654888, 0.047294617],
        3606974,
    ),
    "uniform range float64": (
        lambda e: draws.uniform(e, 4, np.float64, -1.7, 3.3),
        [-0.4313633986630667, 2.173521658771679, -0.023908817493739187, 1.899698288553656],
        8134441,
    ),
    "normal few": (
        lambda e: transforms.normal(e, 5, np.float32),
        [-0.040429167, 1.7259921, -0.81403875, 1.3721666, 0.5059648],
        2910435,
    ),
    "normal few float64": (
        lambda e: transforms.normal(e, 5, np.float64, 1.1, 2.3),
        [1.0070129150503486, 5.069781876528563, -0.7722891578457627, 4.255983258615953, 2.263719011221924],
        2910435,
    ),
    "normal ragged": (
        lambda e: transforms.normal(e, 18, np.float32),
        [
            -1.2262355,
            -0.009314819,
            0.36995515,
            0.41439798,
            1.8567189,
            1.9775826,
            -0.432156,
            1.3667177,
            0.7130762,
            -0.38694373,
            1.6579235,
            -1.3084688,
            0.9961833,
            0.93907714,
            1.4147526,
            0.6343358,
            -0.07764512,
            -1.1175426,
        ],
        11587430,
    ),
    "normal ragged float16": (
        lambda e: transforms.normal(e, 18, np.float16),
        [
            -1.2265625,
            -0.00931549072265625,
            0.1236572265625,
            -2.181640625,
            0.369873046875,
            0.414306640625,
            1.8564453125,
            1.9775390625,
            -0.43212890625,
            1.3671875,
            0.84326171875,
            -0.0421142578125,
            1.658203125,
            -1.30859375,
            0.99609375,
            0.93896484375,
            1.4150390625,
            0.63427734375,
        ],
        16487607,
    ),
    "normal ragged scaled": (
        lambda e: transforms.normal(e, 17, np.float32, 0.5, 0.02),
        [
            0.47547528,
            0.4563863,
            0.5073991,
            0.50828797,
            0.53713435,
            0.5395517,
            0.49135688,
            0.52733433,
            0.51426154,
            0.4991576,
            0.5331585,
            0.4738306,
            0.5199237,
            0.51878154,
            0.52829504,
            0.5126867,
            0.4984471,
        ],
        11692873,
    ),
    "normal strided": (
        lambda e: transforms.normal(e, 17, np.float32, contiguous=False),
        [
            -0.040429167,
            1.7259921,
            -0.81403875,
            1.3721666,
            0.5059648,
            -0.4823374,
            -0.7852526,
            0.6680798,
            -0.4439435,
            0.1888347,
            0.5986074,
            0.64581287,
            0.63060623,
            -1.4668297,
            -0.67975587,
            -0.6970295,
            0.7893269,
        ],
        9472756,
    ),
    "normal of tensors": (
        lambda e: transforms.normal_tensor(e, np.float32([1, 2, 3]), np.float32([0.5, 1, 2]), np.float32),
        [0.97978544, 3.7259922, 1.3719225],
        8134441,
    ),
    "randint": (lambda e: draws.randint(e, 8, np.int64, -5, 100), [57, 30, 89, 0, 58, 0, 20, 6], 8134441),
    "randint just narrow": (
        lambda e: draws.randint(e, 4, np.int64, 0, 2**28 - 1),
        [109584017, 30723590, 49859179, 220105355],
        2800155,
    ),
    "randint just wide": (
        lambda e: draws.randint(e, 4, np.int64, 0, 2**28),
        [30723578, 220105344, 140080676, 77512887],
        8134441,
    ),
    "randint 64 bits": (
        lambda e: draws.randint(e, 3, np.int64, -(2**62), 2**62),
        [-2988104780043989510, -938778005468181888, -1140894927902116316],
        3606974,
    ),
    "randint bool": (
        lambda e: draws.randint(e, 8, np.bool_, 0, 2),
        [False, False, False, False, True, False, False, True],
        8134441,
    ),
    "randint rounded bounds": (
        lambda e: draws.randint(e, 6, BFLOAT16, 0, 300),
        [196.0, 210.0, 290.0, 258.0, 255.0, 140.0],
        3606974,
    ),
    "random_ int32": (
        lambda e: draws.random_full(e, 4, np.int32),
        [378019464, 1104465402, 855165536, 1025411712],
        2800155,
    ),
    "random_ int8": (lambda e: draws.random_full(e, 6, np.int8), [8, 122, 96, 0, 27, 36], 3606974),
    "random_ float64": (
        lambda e: draws.random_full(e, 3, np.float64),
        [2285372530018630.0, 6977916279620841.0, 3019377449989283.0],
        3606974,
    ),
    "random_ from": (lambda e: draws.random_from(e, 5, np.int16, -300), [448, 8562, 8348, 20460, 23507], 5862948),
    "random_ from least": (
        lambda e: draws.random_from(e, 3, np.int64, -(2**63)),
        [-7599790798471377414, -5550464023895569792, 3470791090525271588],
        3606974,
    ),
    "randperm": (lambda e: draws.randperm(e, 12), [8, 10, 6, 11, 7, 1, 5, 0, 9, 4, 3, 2], 9437500),
    "bernoulli": (
        lambda e: draws.bernoulli(e, 12, np.float32, 0.3),
        [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0],
        3805535,
    ),
    "bernoulli of tensor": (
        lambda e: draws.bernoulli_tensor(e, np.linspace(0, 1, 9, dtype=np.float32), np.int64),
        [0, 0, 0, 1, 1, 1, 1, 1, 1],
        12569727,
    ),
    "dropout": (
        lambda e: draws.keep_mask(e, 12, 1 - 0.3),
        [True, False, True, False, False, True, True, True, True, True, True, True],
        3805535,
    ),
    "exponential": (
        lambda e: transforms.exponential(e, 5, np.float64, 1.7),
        [0.172155425373911, 0.8766715637263469, 0.2401743925749398, 0.7486765828561639, 1.2413810976214932],
        2551745,
    ),
    "geometric": (lambda e: transforms.geometric(e, 8, np.int64, 0.2), [7, 2, 5, 2, 1, 7, 5, 4], 5108645),
    "log_normal": (
        lambda e: transforms.log_normal(e, 5, np.float32),
        [2.5071375, 85.79702, 0.53361666, 42.280807, 7.477732],
        2910435,
    ),
    "cauchy": (
        lambda e: transforms.cauchy(e, 5, np.float32),
        [-0.97685057, 1.1686497, -0.5694816, 0.8269527, 2.4982505],
        2551745,
    ),
    "multinomial one": (lambda e: transforms.multinomial(e, WEIGHTS, 1), [2], 8134441),
    "multinomial distinct": (lambda e: transforms.multinomial(e, WEIGHTS, 3), [2, 0, 3], 8134441),
    "multinomial repeated": (lambda e: transforms.multinomial(e, WEIGHTS, 8, True), [1, 3, 2, 3, 3, 1, 2, 2], 5108645),
    "poisson": (
        lambda e: samplers.poisson(e, np.float32([0, 0.5, 3, 9.9, 10, 40, 1000])),
        [0.0, 0.0, 4.0, 9.0, 14.0, 40.0, 989.0],
        16657989,
    ),
    "gamma": (
        lambda e: samplers.standard_gamma(e, np.float32([0, 0.01, 0.5, 1, 3, 200])),
        [1.1754944e-38, 1.5555164e-13, 0.0065162666, 0.20908722, 3.9131763, 208.24521],
        3608075,
    ),
    "dirichlet": (
        lambda e: samplers.dirichlet(e, np.float32([0.5, 1, 3])),
        [0.18789455, 0.04359864, 0.7685068],
        5108645,
    ),
    "binomial": (
        lambda e: samplers.binomial(
            e, np.float32([10, 10, 100, 1000, 1e6, 5]), np.float32([0.3, 0.7, 0.5, 0.33, 0.2, 1])
        ),
        [4.0, 8.0, 49.0, 311.0, 200404.0, 5.0],
        1314907,
    ),
}

LARGE = {
    "draws.uniform(e, 70000, np.float32)": (lambda e: draws.uniform(e, 70000, np.float32), 3776338797, 4418884),
    "draws.uniform(e, 70000, np.float64)": (lambda e: draws.uniform(e, 70000, np.float64), 3603203474, 12203203),
    "draws.uniform(e, 70000, BFLOAT16, 0.1, 0.7)": (
        lambda e: draws.uniform(e, 70000, BFLOAT16, 0.1, 0.7),
        2050602556,
        4418884,
    ),
    "draws.uniform(e, 70000, np.float64, -1.7, 3.3)": (
        lambda e: draws.uniform(e, 70000, np.float64, -1.7, 3.3),
        1330942231,
        12203203,
    ),
    "draws.uniform(e, 1000, np.complex64)": (lambda e: draws.uniform(e, 1000, np.complex64), 2079524545, 10820834),
    "transforms.normal(e, 70001, np.float32)": (lambda e: transforms.normal(e, 70001, np.float32), 1027482460, 2821071),
    "transforms.normal(e, 70001, np.float32, 0.3, 1.7)": (
        lambda e: transforms.normal(e, 70001, np.float32, 0.3, 1.7),
        323005662,
        2821071,
    ),
    "transforms.normal(e, 70001, np.float16)": (lambda e: transforms.normal(e, 70001, np.float16), 4272747661, 7176557),
    "transforms.normal(e, 999, np.complex64)": (
        lambda e: transforms.normal(e, 999, np.complex64),
        2727540581,
        12455142,
    ),
    "draws.randint(e, 70000, np.int64, 0, 1000)": (
        lambda e: draws.randint(e, 70000, np.int64, 0, 1000),
        2484039956,
        4418884,
    ),
    "draws.randint(e, 70000, np.int64, 0, 2**40 + 1)": (
        lambda e: draws.randint(e, 70000, np.int64, 0, 2**40 + 1),
        1821454727,
        12203203,
    ),
    "draws.randperm(e, 1000)": (lambda e: draws.randperm(e, 1000), 1384958269, 3150360),
    "draws.randperm(e, 70000, np.int32)": (lambda e: draws.randperm(e, 70000, np.int32), 3495543987, 16195619),
    "draws.keep_mask(e, 70000, 0.9)": (lambda e: draws.keep_mask(e, 70000, 0.9), 1461450876, 12203203),
    "transforms.exponential(e, 70000, np.float32)": (
        lambda e: transforms.exponential(e, 70000, np.float32),
        230920336,
        12203203,
    ),
    "samplers.poisson(e, np.full(2000, 4.5, np.float32))": (
        lambda e: samplers.poisson(e, np.full(2000, 4.5, np.float32)),
        2124883434,
        9880005,
    ),
    "samplers.standard_gamma(e, np.full(2000, 0.7, np.float32))": (
        lambda e: samplers.standard_gamma(e, np.full(2000, 0.7, np.float32)),
        3288017010,
        14125470,
    ),
}

# What `test_mixed_draws` gives: a checksum and the word that follows.
MIXED = (716773601, 7606913)

# After randn(3), which keeps a sample, and rand(700), which crosses a block.
STATES = [
    (0, 1428598270, 0),
    (-1, 3695376578, 18446744073709551615),
    (9223372036854775813, 2356526246, 9223372036854775813),
    (123456789, 1836922579, 123456789),
]


def following(engine):
    """The low 24 bits of the next word."""
    return int(engine.words(1)[0]) & 0xFFFFFF


def checksum(*arrays):
    return zlib.crc32(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))


@pytest.mark.parametrize("name", SMALL)
def test_small_draws(name):
    draw, expected, word = SMALL[name]
    engine = MersenneState(SEED)
    drawn = draw(engine)
    assert np.array_equal(drawn.reshape(-1), np.array(expected).astype(drawn.dtype))
    assert following(engine) == word


@pytest.mark.parametrize("name", LARGE)
def test_large_draws(name):
    draw, expected, word = LARGE[name]
    engine = MersenneState(SEED)
    assert checksum(draw(engine)) == expected
    assert following(engine) == word


def test_mixed_draws():
    e = MersenneState(7)
    drawn = [
        transforms.normal(e, 5, np.float32),
        draws.uniform(e, 3, np.float32),
        transforms.normal(e, 2, np.float32),
        transforms.normal(e, 40, np.float32),
        transforms.normal(e, 1, np.float32),
        transforms.log_normal(e, 3, np.float32),
        transforms.normal(e, 1, np.float32),
        draws.randperm(e, 9, np.float32),
        draws.uniform(e, 1000, np.float32)[::50],
        transforms.normal(e, 1, np.float32),
    ]
    assert (checksum(*drawn), following(e)) == MIXED


@pytest.mark.parametrize(("seed", "expected", "initial"), STATES)
def test_state_bytes(seed, expected, initial):
    engine = MersenneState(seed)
    transforms.normal(engine, 3, np.float32)
    draws.uniform(engine, 700, np.float32)
    state = engine.get_state()
    assert state.shape == (5056,) and checksum(state) == expected
    assert engine.initial_seed == initial


def test_state_round_trip():
    first, second = MersenneState(3), MersenneState(4)
    transforms.normal(first, 5, np.float64)
    second.set_state(first.get_state())
    assert second.initial_seed == 3
    for count in (1, 20, 3000):
        assert np.array_equal(transforms.normal(first, count, np.float32), transforms.normal(second, count, np.float32))
    assert np.array_equal(first.get_state(), second.get_state())


def test_seed_drops_the_kept_sample():
    engine = MersenneState(3)
    expected = transforms.normal(engine, 1, np.float64)
    engine.seed(3)
    assert np.array_equal(transforms.normal(engine, 1, np.float64), expected)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seed_out_of_range(seed):
    with pytest.raises(ValueError, match="64 bits"):
        MersenneState(seed)


def test_set_state_refuses_other_things():
    engine = MersenneState(1)
    state = engine.get_state()
    with pytest.raises(TypeError):
        engine.set_state(state.tolist())
    with pytest.raises(TypeError):
        engine.set_state(state.astype(np.float32))
    for size in (10, 5048, 5055):
        with pytest.raises(RuntimeError, match="5056"):
            engine.set_state(state[:size])
    with pytest.raises(RuntimeError, match="mt19937"):
        engine.set_state(np.zeros(5056, np.uint8))
    broken = state.copy()
    broken[8:12] = 255  # a negative count of words left
    with pytest.raises(RuntimeError, match="mt19937"):
        engine.set_state(broken)
    assert np.array_equal(engine.get_state(), state)


@pytest.mark.parametrize("parts", [[1, 623, 1], [624, 624], [3000, 7], [100, 5000, 33], [0, 624, 0]])
def test_words_do_not_depend_on_how_they_are_asked(parts):
    whole = np.random.MT19937()
    whole._legacy_seeding(9)
    expected = whole.random_raw(sum(parts)).astype(np.uint32)
    engine = MersenneState(9)
    assert np.array_equal(np.concatenate([engine.words(count) for count in parts]), expected)


def test_uniform_stays_below_its_open_end():
    engine = MersenneState(1)
    assert draws.uniform(engine, 100000, BFLOAT16).max() < 1
    assert draws.uniform(engine, 100000, np.float32, 1.0, 2.0).max() < 2


def test_permutation_is_one():
    engine = MersenneState(1)
    for n in (0, 1, 2, 65, 513, 5000):
        assert np.array_equal(np.sort(draws.randperm(engine, n)), np.arange(n))


def test_bad_arguments():
    e = MersenneState(1)
    with pytest.raises(RuntimeError):
        draws.randint(e, 3, np.int64, 5, 5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        draws.randint(e, 3, np.uint8, -1, 5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        draws.randint(e, 3, np.float16, 0, 2**30)
    with pytest.raises(NotImplementedError):
        draws.uniform(e, 3, np.int32)
    with pytest.raises(NotImplementedError):
        draws.random_full(e, 3, np.uint16)
    with pytest.raises(RuntimeError):
        transforms.normal(e, 3, np.float32, 0.0, -1.0)
    with pytest.raises(RuntimeError):
        draws.bernoulli(e, 3, np.float32, 1.5)
    with pytest.raises(RuntimeError):
        draws.bernoulli_tensor(e, np.float32([0.5, 1.5]), np.float32)
    with pytest.raises(RuntimeError):
        transforms.exponential(e, 3, np.float32, 0.0)
    with pytest.raises(RuntimeError):
        draws.randperm(e, 300, np.uint8)
    with pytest.raises(RuntimeError):
        samplers.poisson(e, np.float32([-1.0]))
    with pytest.raises(NotImplementedError):
        samplers.standard_gamma(e, np.float16([1.0]))


def test_a_new_generator_needs_no_generator_of_numpy():
    """Programs make one for every draw."""
    program = "import sys, flambeau as t; t.rand(3, generator=t.Generator().manual_seed(7)); assert 'numpy.random' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
