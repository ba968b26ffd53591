"""Every way of computing a convolution, in each role that it suits, against plain products of matrices in double precision."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend.cpu import cpu
from flambeau._kernel.render.tiles import lanes
from flambeau._ops.layers.convolution import WAYS, columns, description, matrices
from flambeau._ops.layers.convolution.description import describe, output_size, run, way

CASES = {  # the way that it is made for: images, weight, stride, padding, dilation, groups
    "lines": ((2, 16, 300), (32, 16, 5), (2,), (2,), (1,), 1),
    "patches": ((2, 3, 35, 33), (48, 3, 8, 8), (8, 8), (0, 0), (1, 1), 1),
    "patches of many positions": ((2, 3, 67, 66), (24, 3, 4, 4), (4, 4), (0, 0), (1, 1), 1),
    "patches of lines": ((3, 16, 515), (24, 16, 2), (2,), (0,), (1,), 1),
    "patches of volumes": ((2, 6, 7, 13, 12), (48, 6, 2, 4, 4), (2, 4, 4), (0, 0, 0), (1, 1, 1), 1),
    "patches of one volume": ((1, 64, 4, 4, 6), (48, 64, 2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), 1),
    "volumes": ((2, 8, 6, 9, 10), (16, 8, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "volumes in steps": ((2, 16, 9, 10, 8), (24, 16, 3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    "volumes in long steps": ((2, 16, 11, 10, 8), (24, 16, 2, 3, 3), (4, 1, 2), (1, 0, 1), (2, 1, 1), 1),
    "volumes of few channels": ((1, 1, 6, 37, 35), (16, 1, 3, 7, 7), (1, 2, 2), (1, 3, 3), (1, 1, 1), 1),
    "columns of slices": ((2, 16, 6, 9, 10), (24, 16, 3, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 1), 1),
    "groups": ((2, 24, 14, 15), (48, 3, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    "winograd": ((2, 16, 15, 14), (24, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "lanes": ((2, 32, 15, 14), (32, 32, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "columns": ((2, 256, 7, 7), (300, 256, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "columns of groups": ((2, 80, 15, 14), (96, 40, 3, 3), (2, 1), (1, 1), (1, 1), 2),
    "columns of volumes": ((2, 80, 5, 9, 10), (96, 40, 3, 3, 3), (2, 1, 1), (1, 0, 1), (1, 1, 2), 2),
    "matrices": ((2, 16, 9, 8), (12, 16, 1, 1), (1, 1), (0, 0), (1, 1), 1),
}


def _described(case, d=np.float32):
    x, weight, stride, padding, dilation, groups = case
    counts = output_size(x[2:], weight[2:], stride, padding, dilation)
    return describe(cpu, np.dtype(d), x, (x[0], weight[0], *counts), weight[2:], stride, padding, dilation, groups)


def _operands(conv, role):
    rng = np.random.default_rng(0)
    shapes = {"products": ("image", "weight"), "adjoint": ("result", "weight"), "sums": ("image", "result")}[role]
    made = [rng.standard_normal(getattr(conv, f"{name}_shape")) for name in shapes]
    if role != "sums":
        made.append(rng.standard_normal(conv.outputs if role == "products" else conv.inputs))
    return made


def _name(function):
    return function.__module__.rpartition(".")[2]


@pytest.mark.slow
@pytest.mark.parametrize("role", ["products", "adjoint", "sums"])
@pytest.mark.parametrize("name", CASES)
def test_all_ways_that_suit_agree(name, role):
    conv = _described(CASES[name])
    operands = _operands(conv, role)
    exact = getattr(matrices, role)(conv._replace(dtype=np.dtype(np.float64)), *operands)
    ways = [w for w in WAYS if w.suits(conv, role)]
    assert ways[-1] is matrices
    for one in ways:
        made = getattr(one, role)(conv, *[a.astype(np.float32) for a in operands])
        assert made.dtype == np.float32 and made.shape == exact.shape
        assert np.abs(made - exact).max() <= 1e-5 * np.abs(exact).max(), one.__name__


@pytest.mark.parametrize("name", CASES)
def test_the_way_that_is_taken(name):
    assert _name(way(_described(CASES[name]), "products")) == name.partition(" ")[0]


@pytest.mark.parametrize(
    "channels, width, name", [(3, 8, "groups"), (0.75, 2, "groups"), (0.75, 0.5, "lanes"), (1, 2, "lanes")]
)
def test_few_channels_are_dealt_with_plane_by_plane_where_rows_fill_vectors_better(channels, width, name):
    """Numbers below 3 count in vectors."""
    n = lanes("f32")
    inputs = channels if channels > 2 else int(channels * n)
    if name == "lanes" and inputs <= 4:
        pytest.skip("so few channels are always dealt with plane by plane")
    width = int(width * n) if width < 8 else width
    conv = _described(((4, inputs, 64, width), (32, inputs, 5, 3), (1, 1), (2, 1), (1, 1), 1))
    assert _name(way(conv, "products")) == name


def test_the_choice_depends_on_the_role_and_is_kept():
    conv = _described(((2, 3, 20, 20), (16, 3, 3, 3), (2, 2), (1, 1), (1, 1), 1))
    assert [_name(way(conv, role)) for role in ("products", "sums")] == ["groups", "groups"]
    assert _name(way(conv, "adjoint")) != "groups"  # which would read zeros between elements
    before = way.cache_info().hits
    run(conv, "products", *[a.astype(np.float32) for a in _operands(conv, "products")])
    assert way.cache_info().hits == before + 1 and way.cache_info().maxsize == 4096


def test_what_has_no_kernels_takes_matrices():
    case = CASES["winograd"]
    assert _name(way(_described(case, np.complex64), "products")) == "matrices"
    assert _name(way(_described(case)._replace(narrow=np.dtype(np.float16)), "adjoint")) == "matrices"


def test_little_work_is_one_product_over_columns():
    conv = _described(((1, 2, 9), (3, 2, 3), (1,), (1,), (1,), 1))
    assert {_name(way(conv, role)) for role in ("products", "adjoint", "sums")} == {"columns"}
    assert _name(way(conv._replace(groups=2, outputs=4), "products")) == "lines"  # of small groups
    assert _name(way(conv._replace(groups=2, outputs=80), "products")) == "columns"
    x, w = torch.ones(1, 2, 9), torch.ones(3, 2, 3)
    assert torch.conv1d(x, w, padding=1)[0, 0].tolist() == [4.0, *[6.0] * 7, 4.0]


@pytest.mark.parametrize("role", ["products", "adjoint", "sums"])
def test_windows_are_laid_out_in_parts(role, monkeypatch):
    conv = _described(((3, 4, 4, 5, 6), (6, 2, 2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2), 2))
    operands = _operands(conv, role)
    exact = getattr(matrices, role)(conv._replace(dtype=np.dtype(np.float64)), *operands)
    for windows in (1, 5, 11, 40, 1000):  # a row is 2 long, a slice 3 high, an image 5 deep
        monkeypatch.setattr(columns, "_BYTES", windows * 8 * conv.groups * conv.depth)
        assert np.allclose(getattr(columns, role)(conv, *operands), exact)


def test_one_dimension_stands_upright_where_threads_are_more_than_images():
    conv = _described(((1, 16, 300), (32, 16, 5), (2,), (2,), (1,), 1))
    seen = []
    plain = description.way

    def spying(conv, role):
        seen.append(conv)
        return plain(conv, role)

    description.way, before = spying, description.way
    try:
        for threads in (1, 2):
            one = conv._replace(threads=threads)
            run(one, "products", *[a.astype(np.float32) for a in _operands(one, "products")])
    finally:
        description.way = before
    assert [c.size for c in seen] == [(300,), (1, 300), (300,), (300, 1)]
