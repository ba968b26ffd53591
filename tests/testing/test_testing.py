"""assert_close, make_tensor, FileCheck."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.testing import FileCheck, assert_allclose, assert_close, make_tensor

t = torch.tensor


@pytest.mark.parametrize(
    "actual, expected, options",
    [
        (t([1.0, 2.0]), t([1.0, 2.0 + 1e-6]), {}),
        (t([1, 2]), t([1, 2]), {}),
        (t([1.0]), t([1.0]).double(), {"check_dtype": False}),
        (t([1, 2], dtype=torch.int32), t([1, 2]), {"check_dtype": False}),
        (t([float("nan")]), t([float("nan")]), {"equal_nan": True}),
        (t([float("inf")]), t([float("inf")]), {}),
        (t([]), t([]), {}),
        (1.0, 1.0 + 1e-9, {}),
        ((1, [t(2.0)]), [1, (t(2.0),)], {}),
        ({"a": None}, {"a": None}, {}),
        (np.array([1.0]), np.array([1.0]), {}),
        (torch.nn.Parameter(t([1.0])), t([1.0]), {}),
        (torch.eye(2).to_sparse(), torch.eye(2), {"check_layout": False}),
        (t([1.0, 2.0]), t([1.05, 2.0]), {"rtol": 0.0, "atol": 0.1}),
    ],
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    "actual, expected, options, message",
    [
        (
            t([1.0, 2.0]),
            t([1.0, 2.5]),
            {},
            r"Mismatched elements: 1 / 2 \(50.0%\)\nGreatest absolute difference: 0.5 at index \(1,\) \(up to 1e-05 allowed\)\nGreatest relative difference: 0.2",
        ),
        (t([1, 2]), t([1, 3]), {}, r"not equal!\n\nMismatched elements: 1 / 2"),
        (t([[1.0, 2.0]]), t([[1.0, 4.0]]), {}, r"at index \(0, 1\)"),
        (t(1.0), t(2.0), {}, r"Expected 2.0 but got 1.0"),
        (t([1.0]), t([1.0]).double(), {}, "attribute 'dtype' do not match: torch.float32 != torch.float64"),
        (t([1.0]), t([[1.0]]), {}, "attribute 'shape' do not match"),
        (t([[1.0, 2], [3, 4]]).t(), t([[1.0, 3], [2, 4]]), {"check_stride": True}, r"'stride\(\)'"),
        (torch.eye(2).to_sparse(), torch.eye(2), {}, "attribute 'layout'"),
        (torch.eye(2).to_sparse(), 2 * torch.eye(2).to_sparse(), {}, "Sparse COO values are not close"),
        (torch.eye(2).to_sparse_csr(), (2 * torch.eye(2)).to_sparse_csr(), {}, "Sparse CSR values are not close"),
        (t([float("nan")]), t([float("nan")]), {}, "not close"),
        (1, 1.0, {}, r"\(d\)types do not match"),
        (True, False, {}, "Booleans mismatch"),
        ([1, 2], [1, 2, 3], {}, "length of the sequences mismatch: 2 != 3"),
        ({"a": 1}, {"b": 1}, {}, r"Missing keys in the actual mapping: \['b'\]"),
        ({"a": [t(1.0)]}, {"a": [t(2.0)]}, {}, r"item \['a'\]\[0\]"),
        (None, t(1.0), {}, "None mismatch"),
        (1.0, 2.0, {"msg": "mine"}, "^mine$"),
        (1.0, 2.0, {"msg": lambda m: "mine: " + m}, "^mine: Scalars"),
        (t([1.0], dtype=torch.float16), t([1.01], dtype=torch.float16), {}, "up to 0.001 allowed"),
    ],
)
def test_not_close(actual, expected, options, message):
    with pytest.raises(AssertionError, match=message):
        assert_close(actual, expected, **options)


def test_wrong_use():
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(1.0, 1.0, rtol=1.0)
    for a, b in ((t([1.0]), [1.0]), ("a", "a"), (1.0, t(1.0)), (np.array([1.0]), t([1.0]))):
        with pytest.raises(TypeError, match="No comparison pair"):
            assert_close(a, b)
    with pytest.warns(FutureWarning):
        assert_allclose(t([1.0]), [1.0])


def test_tensors_that_cannot_be_compared_by_their_elements():
    meta = torch.empty(3, device="meta")
    assert_close(meta, meta.clone())
    with pytest.raises(AssertionError, match="shape"):
        assert_close(meta, torch.empty(2, device="meta"))
    whole = torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.qint8)
    rows = torch.quantize_per_channel(torch.ones(4), torch.full((4,), 0.5), torch.zeros(4), 0, torch.qint8)
    with pytest.raises(AssertionError, match="qscheme"):
        assert_close(whole, rows)
    with pytest.raises(AssertionError, match="is_quantized"):
        assert_close(torch.ones(4), whole, check_dtype=False)
    with pytest.raises(AssertionError, match="number of sparse dimensions"):
        assert_close(torch.eye(2).to_sparse(), torch.eye(2).to_sparse(1))


def test_make_tensor():
    x = make_tensor(3, 4, dtype=torch.float32, device="cpu", low=2, high=3, noncontiguous=True)
    assert x.shape == (3, 4) and not x.is_contiguous() and ((x >= 2) & (x < 3)).all()
    assert make_tensor((5,), dtype=torch.uint8, device="cpu", low=-10, high=300).dtype is torch.uint8
    assert (make_tensor(50, dtype=torch.int8, device="cpu", low=0, high=2, exclude_zero=True) == 1).all()
    assert make_tensor((), dtype=torch.complex64, device="cpu", requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="less than"):
        make_tensor(1, dtype=torch.float32, device="cpu", low=1, high=0)
    for dtype, low, high in ((torch.float32, 1e40, 1e41), (torch.uint8, -5, -2), (torch.bool, 3, 4)):
        with pytest.raises(ValueError, match="only supports"):
            make_tensor(1, dtype=dtype, device="cpu", low=low, high=high)
    assert make_tensor(9, dtype=torch.float32, device="cpu", low=-1e50, high=1e50).isfinite().all()
    assert make_tensor(9, dtype=torch.bool, device="cpu", exclude_zero=True).all()
    kept = make_tensor(2, 3, dtype=torch.float32, device="cpu", memory_format=torch.preserve_format)
    assert kept.is_contiguous(memory_format=torch.preserve_format)
    with pytest.warns(FutureWarning, match="low==high"):
        make_tensor(1, dtype=torch.float32, device="cpu", low=1, high=1)
    with pytest.raises(ValueError, match="not supported for boolean"):
        make_tensor(1, dtype=torch.bool, device="cpu", requires_grad=True)


def test_make_tensor_follows_the_seed():
    torch.manual_seed(0)
    assert make_tensor(2, dtype=torch.float32, device="cpu").tolist() == pytest.approx([-0.0674, 4.8280], abs=1e-4)


def test_file_check():
    text = "one two\nthree three four\nfive"
    FileCheck().check("one").check_same("two").check_next("three").check_count("three", 1, exactly=True).check(
        "five"
    ).run(text)
    FileCheck().check_dag("four").check_dag("one").check("five").run(text)
    FileCheck().check("one").check_not("six").run(text)
    for wrong in (
        FileCheck().check("five").check("one"),
        FileCheck().check("one").check_not("two").check("three"),
        FileCheck().check("one").check_same("four"),
        FileCheck().check("one").check_next("five"),
        FileCheck().check_count("three", 3),
        FileCheck().check_regex("s[e]ven"),
    ):
        with pytest.raises(RuntimeError, match="Expected to"):
            wrong.run(text)


def test_tolerances_of_dtypes():
    """What libraries' own comparisons ask for."""
    tolerances = torch.testing._comparison.get_tolerances
    assert tolerances(torch.float32, torch.ones(2, dtype=torch.float16), rtol=None, atol=None) == (1e-3, 1e-5)
    assert tolerances(torch.int64, rtol=0.5, atol=0.25) == (0.5, 0.25)
    with pytest.raises(ValueError, match=r"got no atol\.\n\nThe failure occurred for item \['a'\]"):
        tolerances(torch.float32, rtol=0.5, atol=None, id=("a",))
    with pytest.raises(TypeError, match="or a torch"):
        torch.testing._comparison.default_tolerances(1.5)
    assert torch.testing._comparison.default_tolerances(torch.int8, dtype_precisions={torch.int8: (1, 2)}) == (1, 2)


def test_equal_bounds_of_made_tensors():
    with pytest.warns(FutureWarning, match="torch.full"):
        assert torch.testing.make_tensor(2, dtype=torch.float32, device="cpu", low=3, high=3).tolist() == [3, 3]
    with pytest.raises(ValueError, match="must be less than"):
        torch.testing.make_tensor(2, dtype=torch.int64, device="cpu", low=3, high=3)
