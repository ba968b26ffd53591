"""What other projects' tests take from `torch.testing._internal` (names and answers observed in PyTorch)."""

import subprocess
import sys
import unittest

import pytest

import flambeau as torch
from flambeau.testing._internal import common_utils
from flambeau.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, subtest


@instantiate_parametrized_tests
class Example(TestCase):
    @parametrize("x", [1, 2.5, None, torch.float32, torch.device("cpu")])
    def test_one(self, x):
        self.assertIn(x, (1, 2.5, None, torch.float32, torch.device("cpu")))

    @parametrize("x", [1, 2])
    @parametrize("y", ["p"])
    def test_two(self, x, y):
        self.assertEqual(y, "p")

    @parametrize("x", [subtest(1, name="first"), subtest(2, decorators=[unittest.skip("no")])])
    def test_sub(self, x):
        self.assertEqual(x, 1)

    def test_plain(self):
        self.assertEqual(torch.rand(1), torch.tensor([0.0289792]), atol=1e-6, rtol=0)


def test_tests_with_parameters_have_names_by_their_values():
    names = [name for name in vars(Example) if name.startswith("test")]
    assert names == [
        "test_plain", "test_one_x_1", "test_one_x_2_5", "test_one_x2", "test_one_float32", "test_one_cpu", "test_sub_first",
        "test_sub_x_2", "test_two_x_1_y_p", "test_two_x_2_y_p",
    ]  # fmt: skip
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Example).run(result)
    assert (result.testsRun, len(result.skipped), result.errors, result.failures) == (10, 1, [], [])


def test_sets_of_values_must_fit():
    class Wrong(TestCase):
        @parametrize("x,y", [(1,)])
        def test_it(self, x, y): ...

    with pytest.raises(RuntimeError, match="Expected # values == # arg names"):
        instantiate_parametrized_tests(Wrong)
    with pytest.raises(ValueError, match="empty arg_values"):
        list(parametrize("x", []).sets("test"))


X = torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, X + 1e-7), (X, [1.0, 2.0]), (X, X.numpy()), ({"a": [X]}, {"a": [X]}), (1, 1.0), (True, 1), (X.shape, (2,)), (None, None),
        (torch.tensor(float("nan")), torch.tensor(float("nan"))), (torch.tensor(1.0), 1), ({1}, {1}), (range(2), [0, 1]), ("a", "a"),
    ],
)  # fmt: skip
def test_equal(x, y):
    TestCase().assertEqual(x, y)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (X, X + 1, "Tensor-likes are not close"), (X, X.double(), "dtype"), (X, X[:1], "shape"), ({"a": 1}, {"b": 1}, "keys"),
        ("a", "b", "String comparison failed"), (None, 1, "None mismatch"), (True, False, "Booleans mismatch"),
        ([{"a": X}], [{"a": X + 1}], r"item \[0\]\['a'\]"), (torch.float32, torch.float64, "Object comparison failed"),
    ],
)  # fmt: skip
def test_not_equal(x, y, said):
    with pytest.raises(AssertionError, match=said):
        TestCase().assertEqual(x, y)
    TestCase().assertNotEqual(x, y)
    with pytest.raises(AssertionError, match="more words"):
        TestCase().assertEqual(x, y, "more words")


def test_blocks():
    before = torch.get_rng_state()
    with common_utils.freeze_rng_state(), common_utils.set_default_dtype(torch.float64):
        assert torch.rand(2).dtype is torch.float64
    assert torch.equal(before, torch.get_rng_state()) and torch.get_default_dtype() is torch.float32
    apart = common_utils.noncontiguous_like(torch.ones(2, 2))
    assert not apart.is_contiguous() and torch.equal(apart, torch.ones(2, 2))
    assert common_utils.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))


@pytest.mark.slow
def test_a_file_of_tests_runs(tmp_path):
    path = tmp_path / "test_sums.py"
    path.write_text(
        "import torch\nfrom torch.testing._internal.common_utils import TestCase, run_tests\n"
        "class TestSums(TestCase):\n    def test_it(self):\n        self.assertEqual(torch.ones(2) + 1, [2, 2])\n"
        "if __name__ == '__main__':\n    run_tests()\n"
    )
    done = subprocess.run([sys.executable, "-m", "flambeau", "run", path], capture_output=True, text=True)
    assert done.returncode == 0 and "OK" in done.stderr
