"""Products of bytes against NumPy: every instruction that this CPU has, every edge of a tile, on one thread and several."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau._backend import quantized, quantized_products, threads
from flambeau._core.dtypes import qint8, qint32, quint8
from flambeau._core.quantizers import Quantizer, per_channel_affine, per_tensor_affine
from flambeau._kernel.products import gemm_int8, gemm_int8_tiles


def operands(rng, m, k, n):
    codes = rng.integers(0, 256, (m, k)).astype(np.uint8)
    weight = rng.integers(-128, 128, (n, k)).astype(np.int8)
    return codes, weight, rng.integers(-1000, 1000, n).astype(np.int32), *rng.random((2, n)).astype(np.float32)


@pytest.mark.parametrize("variant", gemm_int8.variants())
@pytest.mark.parametrize("grid", [(1, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_every_instruction(variant, grid):
    rng = np.random.default_rng(0)
    function = gemm_int8.gemm(variant, grid)
    for m in (1, 2, 4, 7, 16, 17, 32, 50, 97):
        for k in (64, 768):
            for n in (1, 3, 4, 9, 16, 17, 32, 130):
                codes, weight, corrections, scales, biases = operands(rng, m, k, n)
                given = gemm_int8.arranged(variant, weight).T
                made = function(codes, given, corrections, scales, biases, np.zeros(1, np.uint8))
                taken = codes.view(np.int8) if gemm_int8.offset(variant) else codes
                sums = taken.astype(np.int32) @ weight.T.astype(np.int32) - corrections
                np.testing.assert_array_equal(made, sums.astype(np.float32) * scales + biases)


def test_weights_as_tiles_read_them():
    """Sixteen columns side by side, four neighbours of the depth each; rows of zeros fill the last block."""
    weight = np.random.default_rng(3).integers(-128, 128, (21, 128)).astype(np.int8)
    made = gemm_int8_tiles.arranged(weight)
    assert made.shape == weight.shape and made.strides == (128, 1)
    flat = np.lib.stride_tricks.as_strided(made, (2, 2, 16, 16, 4), (2048, 1024, 64, 4, 1))
    for column in range(32):
        for p in range(128):
            expected = weight[column, p] if column < 21 else 0
            assert flat[column // 16, p // 64, p % 64 // 4, column % 16, p % 4] == expected


def test_largest_codes_do_not_saturate():
    codes, weight = np.full((4, 64), 255, np.uint8), np.full((4, 64), -128, np.int8)
    packed = quantized_products.Weight(weight, 1.0)
    made = packed.linear(quantized_products.padded_rows(codes), 1.0, 0, None)
    np.testing.assert_array_equal(made, np.full((4, 4), -255 * 128 * 64))


@pytest.mark.parametrize("depth", [1, 63, 64, 100, 200])
def test_depths_that_are_no_whole_vectors(depth):
    rng = np.random.default_rng(1)
    codes, weight, _, scales, biases = operands(rng, 5, depth, 6)
    packed = quantized_products.Weight(weight, scales)
    expected = ((codes.astype(np.int64) - 77) @ weight.T.astype(np.int64)) * (scales * 0.5) + biases
    made = packed.linear(quantized_products.padded_rows(codes), 0.5, 77, biases)
    np.testing.assert_allclose(made, expected, rtol=1e-5)
    x = (codes.astype(np.float32) - 77) * np.float32(0.5)
    np.testing.assert_array_equal(quantized_products.quantized_rows(x, 0.5, 77), quantized_products.padded_rows(codes))


def test_large_products_on_all_threads():
    rng = np.random.default_rng(2)
    codes, weight, _, scales, biases = operands(rng, 65, 1024, 700)
    packed = quantized_products.Weight(weight, scales)
    made = packed.linear(quantized_products.padded_rows(codes), 0.5, 77, biases)
    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        np.testing.assert_array_equal(made, packed.linear(quantized_products.padded_rows(codes), 0.5, 77, biases))
    finally:
        threads.set_num_threads(before)


def test_rounding_to_codes():
    x = np.array([0.25, 0.75, -0.25, 1e9, -1e9, np.nan, np.inf, -np.inf], np.float32)
    whole = Quantizer(per_tensor_affine, 0.5, 3)
    assert quantized.quantize(x, whole, quint8).tolist() == [
        4,
        4,
        2,
        255,
        0,
        255,
        255,
        0,
    ]  # half to even, after the shift
    assert quantized.quantize(x, whole, qint8).tolist() == [4, 4, 2, 127, -128, 127, 127, -128]
    assert quantized.quantize(x, whole, qint32)[[3, 4, 5]].tolist() == [2000000000, -2000000000, 2147483647]
    by_channel = Quantizer(per_channel_affine, np.array([0.5, 1.0]), np.array([0, 1]), 1)
    q = quantized.quantize(np.array([[1.0, 1.0], [-1.0, 3.0]], np.float32), by_channel, qint8)
    assert q.tolist() == [[2, 2], [-2, 4]]
    np.testing.assert_array_equal(quantized.dequantize(q, by_channel), [[1, 1], [-1, 3]])


def test_codes_keep_the_memory_format():
    x = np.zeros((2, 3, 4, 5), np.float32).transpose(0, 3, 1, 2)
    q = quantized.quantize(x, Quantizer(per_tensor_affine, 0.5, 3), quint8)
    assert q.strides == tuple(s // 4 for s in x.strides)
    assert quantized.dequantize(q, Quantizer(per_tensor_affine, 0.5, 3)).strides == x.strides


_GUARDED = """
import numpy as np
from guarded import guarded
from flambeau._kernel.products import gemm_int8
variant = {variant!r}
assert variant in gemm_int8.variants()  # asks for the right to use tiles
function = gemm_int8.gemm(variant, (1, 1, 1))
for m in (1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64):
    codes, weight = guarded(np.full((m, 64), 3, np.uint8), True), np.full((33, 64), 2, np.int8)
    given, others = gemm_int8.arranged(variant, weight).T, [np.zeros(33, np.int32), *np.ones((2, 33), np.float32)]
    made = function(codes, given, *others, np.zeros(1, np.uint8))
    assert (made == 3 * 2 * 64 + 1).all(), m
"""


@pytest.mark.slow
@pytest.mark.parametrize("variant", [v for v in gemm_int8.variants() if v in ("tiles", "sdot")])
def test_no_row_is_read_that_is_not_there(variant):
    """A page without rights begins behind the last row."""
    tests, package = Path(__file__).parents[1], Path(flambeau.__file__).parents[1]
    path = os.pathsep.join(map(str, (package, tests / "fuzz")))
    run = subprocess.run(
        [sys.executable, "-c", _GUARDED.format(variant=variant)], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, (run.returncode, run.stderr[-1000:])
