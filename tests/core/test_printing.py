"""Golden texts for tensor printing: numbers, layout, suffixes and print options."""

import ml_dtypes
import numpy as np
import pytest

from flambeau._core import printing
from flambeau._core.printing import get_printoptions, printoptions, set_printoptions, tensor_repr

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def default_options():
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def text(values, dtype="float32", **options):
    numpy_dtype = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    return tensor_repr(np.asarray(values, dtype=numpy_dtype), dtype_name=dtype, **options)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, -0.0], "tensor([0., -0.])"),
        ([1.0, 20.0], "tensor([ 1., 20.])"),
        ([1.5, -2.0], "tensor([ 1.5000, -2.0000])"),
        ([NAN, INF, -INF], "tensor([nan, inf, -inf])"),
        ([NAN, 1.5, -INF, 0.0], "tensor([   nan, 1.5000,   -inf, 0.0000])"),
        ([NAN, 1.0, -INF, -0.0], "tensor([nan, 1., -inf, -0.])"),
        ([1e9, 1.0], "tensor([1.0000e+09, 1.0000e+00])"),
        ([70000.0, 1.0], "tensor([7.0000e+04, 1.0000e+00])"),
        ([1000.0, 1.0], "tensor([1000.,    1.])"),
        ([1e-5, 0.0], "tensor([1.0000e-05, 0.0000e+00])"),
        ([1e-9, 2.5, -3.0, 0.0], "tensor([ 1.0000e-09,  2.5000e+00, -3.0000e+00,  0.0000e+00])"),
        (3.25, "tensor(3.2500)"),
        (-0.0, "tensor(-0.)"),
        (NAN, "tensor(nan)"),
    ],
)
def test_float_notation(values, expected):
    assert text(values) == expected


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1, -20], "int64", "tensor([  1, -20])"),
        (3, "uint8", "tensor(3, dtype=torch.uint8)"),
        ([2**64 - 1], "uint64", "tensor([18446744073709551615], dtype=torch.uint64)"),
        ([True, False], "bool", "tensor([ True, False])"),
        (True, "bool", "tensor(True)"),
        ([1e308, 1e-308], "float64", "tensor([1.0000e+308, 1.0000e-308], dtype=torch.float64)"),
        ([5e-324], "float64", "tensor([4.9407e-324], dtype=torch.float64)"),
        ([1.0, 2.5], "bfloat16", "tensor([1.0000, 2.5000], dtype=torch.bfloat16)"),
        ([1.0, NAN], "float8_e4m3fn", "tensor([1., nan], dtype=torch.float8_e4m3fn)"),
        ([1 + 2j, -3 - 4.5j], "complex64", "tensor([ 1.+2.0000j, -3.-4.5000j])"),
        (1, "complex64", "tensor(1.+0.j)"),
        ([complex(NAN, -INF), complex(-0.0, -0.0)], "complex64", "tensor([nan-infj, -0.-0.j])"),
        ([1j], "complex128", "tensor([0.+1.j], dtype=torch.complex128)"),
    ],
)
def test_dtypes(values, dtype, expected):
    assert text(values, dtype) == expected


def test_default_dtypes_go_unsaid():
    assert text([1.0], "float64", default_float="float64") == "tensor([1.])"
    assert text([1j], "complex128", default_float="float64") == "tensor([0.+1.j])"
    assert text([1.0], default_float="float64") == "tensor([1.], dtype=torch.float32)"
    assert text([1j], "complex64", default_complex="complex128").endswith("torch.complex64)")


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((0,), "float32", "tensor([])"),
        ((0,), "int64", "tensor([], dtype=torch.int64)"),
        ((0, 3), "float32", "tensor([], size=(0, 3))"),
        ((2, 0, 3), "bool", "tensor([], size=(2, 0, 3), dtype=torch.bool)"),
        ((2, 0), "complex64", "tensor([], size=(2, 0), dtype=torch.complex64)"),
    ],
)
def test_empty(shape, dtype, expected):
    assert text(np.empty(shape), dtype) == expected


def test_nested_lists():
    assert text(np.arange(24.0).reshape(2, 3, 4) / 7) == (
        "tensor([[[0.0000, 0.1429, 0.2857, 0.4286],\n"
        "         [0.5714, 0.7143, 0.8571, 1.0000],\n"
        "         [1.1429, 1.2857, 1.4286, 1.5714]],\n"
        "\n"
        "        [[1.7143, 1.8571, 2.0000, 2.1429],\n"
        "         [2.2857, 2.4286, 2.5714, 2.7143],\n"
        "         [2.8571, 3.0000, 3.1429, 3.2857]]])"
    )


def test_rows_wrap():
    assert text(np.arange(30), "int64") == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )
    set_printoptions(precision=2, linewidth=24)
    assert text(np.arange(8) / 3) == (
        "tensor([0.00, 0.33,\n        0.67, 1.00,\n        1.33, 1.67,\n        2.00, 2.33])"
    )
    assert text(np.arange(3) / 3 + 1j, "complex64") == ("tensor([0.00+1.j,\n        0.33+1.j,\n        0.67+1.j])")


def test_indent_follows_prefix():
    set_printoptions(linewidth=12)
    assert text([1, 2], "int64", prefix="x(") == "x([1, 2])"
    assert text([1, 2, 3, 4], "int64", prefix="x(") == "x([1, 2, 3,\n   4])"


def test_summary_shows_edges():
    assert text(np.arange(1001), "int64") == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    set_printoptions(threshold=2, edgeitems=1)
    assert text(np.arange(24).reshape(2, 3, 4) * 1j, "complex64") == (
        "tensor([[[0.+0.j,  ..., 0.+3.j],\n"
        "         ...,\n"
        "         [0.+8.j,  ..., 0.+11.j]],\n"
        "\n"
        "        [[0.+12.j,  ..., 0.+15.j],\n"
        "         ...,\n"
        "         [0.+20.j,  ..., 0.+23.j]]])"
    )


def test_summary_reads_only_the_edges():
    values = np.broadcast_to(np.float32(1), (10**6, 10**6))
    assert tensor_repr(values, dtype_name="float32").startswith("tensor([[1., 1., 1.,  ..., 1.")
    hidden = np.ones(2000)
    hidden[1000] = 1e20
    assert text(hidden) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_no_edge_items():
    set_printoptions(threshold=2, edgeitems=0)
    assert text(np.zeros((3, 3))) == "tensor([...], size=(3, 3))"
    assert text([1.0, 2.0]) == "tensor([1., 2.], size=(2,))"
    set_printoptions(threshold=0)
    assert text(1.0) == "tensor(1., size=())"


def test_suffixes():
    assert text([0.0, 1.0], "float64", requires_grad=True) == (
        "tensor([0., 1.], dtype=torch.float64, requires_grad=True)"
    )
    assert text([1.0], device="cuda:0", requires_grad=True, grad_fn="MulBackward0") == (
        "tensor([1.], device='cuda:0', grad_fn=<MulBackward0>)"
    )
    assert text([1.0], extra=("tangent=1",)) == "tensor([1.], tangent=1)"


def test_suffix_wraps_to_its_own_line():
    assert text(np.full(9, 2.5), grad_fn="MulBackward0") == (
        "tensor([2.5000, 2.5000, 2.5000, 2.5000, 2.5000, 2.5000, 2.5000, 2.5000, 2.5000],\n"
        "       grad_fn=<MulBackward0>)"
    )
    set_printoptions(linewidth=20)
    assert text([[0.0, 1.0], [2.0, 3.0]], "float64", requires_grad=True) == (
        "tensor([[0., 1.],\n        [2., 3.]],\n       dtype=torch.float64,\n       requires_grad=True)"
    )


def test_meta():
    def meta(dtype, *shape, **options):
        return tensor_repr(None, dtype_name=dtype, is_meta=True, shape=shape, **options)

    assert meta("float32", 3) == "tensor(..., device='meta', size=(3,))"
    assert meta("int64", 3, 2) == "tensor(..., device='meta', size=(3, 2), dtype=torch.int64)"
    assert meta("float16", 3, 0, requires_grad=True) == (
        "tensor(..., device='meta', size=(3, 0), dtype=torch.float16,\n       requires_grad=True)"
    )
    with pytest.raises(ValueError, match="shape"):
        tensor_repr(None, dtype_name="float32", is_meta=True)


def test_precision_and_sci_mode():
    set_printoptions(precision=0)
    assert text([1.5, 2.0]) == "tensor([2, 2])"
    set_printoptions(precision=1, sci_mode=True)
    assert text([1.0, 2.0]) == "tensor([1.0e+00, 2.0e+00])"
    assert text([0.0, NAN]) == "tensor([0., nan])"
    set_printoptions(sci_mode=False)
    assert text([1e10, 1.0]) == "tensor([10000000000.,           1.])"
    assert text([1e-9, 2.5]) == "tensor([0.0, 2.5])"


def test_profiles():
    set_printoptions(profile="short")
    assert (get_printoptions()["precision"], get_printoptions()["edgeitems"]) == (2, 2)
    set_printoptions(profile="full", linewidth=100)
    assert get_printoptions() == {"precision": 4, "threshold": INF, "edgeitems": 3, "linewidth": 100, "sci_mode": None}
    set_printoptions(profile="unknown")
    assert get_printoptions()["linewidth"] == 100


def test_sci_mode_returns_to_automatic():
    set_printoptions(sci_mode=True)
    set_printoptions(precision=3)
    assert printing.PRINT_OPTIONS.sci_mode is None


def test_printoptions_restores():
    set_printoptions(precision=6, sci_mode=True)
    before = get_printoptions()
    with pytest.raises(KeyError), printoptions(precision=1):
        assert text(0.25) == "tensor(0.2)"
        raise KeyError
    assert get_printoptions() == before
