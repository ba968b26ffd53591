"""Texts of errors and warnings that programs match on: the key phrases are PyTorch's."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.data import DataLoader

SINGULAR, NEGATIVE = torch.zeros(2, 2), -torch.eye(2)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: torch.ones(2, 3) @ torch.ones(3, 2).double(), RuntimeError, "mat1 and mat2 must have the same dtype"),
        (lambda: nn.Linear(3, 2)(torch.ones(1, 3).double()), RuntimeError, "mat1 and mat2 must have the same dtype"),
        (lambda: nn.Linear(3, 2)(torch.ones(1, 3).double()), RuntimeError, "expected m1 and m2 to have the same dtype"),
        (lambda: torch.linalg.inv(SINGULAR), torch.linalg.LinAlgError, "inversion could not be completed because the input matrix is singular"),
        (lambda: torch.linalg.inv(SINGULAR.expand(3, 2, 2)), torch.linalg.LinAlgError, r"linalg.inv: \(Batch element 0\): The diagonal element 1 is zero"),
        (lambda: torch.linalg.cholesky(NEGATIVE), torch.linalg.LinAlgError, "the input is not positive-definite"),
        (lambda: torch.linalg.cholesky(NEGATIVE), torch.linalg.LinAlgError, "leading minor of order 1 is not positive-definite"),
        (lambda: torch.linalg.solve(SINGULAR, torch.ones(2)), torch.linalg.LinAlgError, "The solver failed because the input matrix is singular"),
        (lambda: torch.linalg.svd(torch.full((2, 2), float("nan"))), torch.linalg.LinAlgError, "the input matrix contained non-finite values"),
        (lambda: nn.utils.rnn.pack_sequence([torch.ones(1), torch.ones(2)]), RuntimeError, "You can pass `enforce_sorted=False`"),
        (lambda: F.binary_cross_entropy(torch.ones(2, 1), torch.ones(2)), ValueError, "Please ensure they have the same size"),
        (lambda: nn.init.xavier_uniform_(torch.ones(3)), ValueError, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"),
        (lambda: nn.init.orthogonal_(torch.ones(3)), ValueError, "Only tensors with 2 or more dimensions are supported"),
        (lambda: nn.init.dirac_(torch.ones(3)), ValueError, "Only tensors with 3, 4, or 5 dimensions are supported"),
        (lambda: nn.init.dirac_(torch.ones(3, 3, 3), groups=2), ValueError, "dim 0 must be divisible by groups"),
        (lambda: nn.init.eye_(torch.ones(3)), ValueError, "Only tensors with 2 dimensions are supported"),
        (lambda: nn.init.calculate_gain("x"), ValueError, "Unsupported nonlinearity x"),
        (lambda: nn.init.calculate_gain("leaky_relu", "x"), ValueError, "negative_slope x not a valid number"),
        (lambda: nn.init.kaiming_uniform_(torch.ones(2, 2), mode="x"), ValueError, "Mode x not supported, please use one of"),
        (lambda: F.ctc_loss(torch.zeros(0, 1, 3), torch.tensor([[1]]), (0,), (0,)), RuntimeError, "log_probs tensor must not be empty"),
        (lambda: F.binary_cross_entropy_with_logits(torch.ones(2), torch.ones(2).long()), RuntimeError, "Float can't be cast to the desired output type Long"),
        (lambda: torch.flip(torch.ones(2), (1.0,)), TypeError, "must be tuple of ints, but found element of type float at pos 0"),
        (lambda: torch.empty(2, device="meta").untyped_storage()[0], NotImplementedError, "Not available for 'meta' device type"),
        (lambda: torch.empty(2, device="meta").storage().tolist(), NotImplementedError, "Not available for 'meta' device type"),
        (lambda: torch.diff(torch.ones(2), prepend=torch.ones(2, 2)), RuntimeError, "diff expects|dimension"),
        (lambda: torch.diff(torch.ones(2, 3), prepend=torch.ones(1, 2)), RuntimeError, "diff expects the shape of tensor to prepend or append to match that of input"),
        (lambda: torch.normal(torch.ones(120), torch.ones(2, 5)), RuntimeError, r"The size of tensor a \(120\) must match the size of tensor b \(5\)"),
        (lambda: DataLoader([1], shuffle=True, sampler=[0]), ValueError, "sampler option is mutually exclusive with shuffle"),
        (lambda: DataLoader([1], num_workers=-1), ValueError, "num_workers option should be non-negative"),
        (lambda: DataLoader([1], batch_size=0), ValueError, "batch_size should be a positive integer value"),
        (lambda: DataLoader([1], persistent_workers=True), ValueError, "persistent_workers option needs num_workers > 0"),
        (lambda: nn.ModuleList([nn.Identity()])._get_abs_string_index(1), IndexError, "index 1 is out of range"),
        (lambda: torch.ones(3).mT, RuntimeError, "only supported on matrices or batches of matrices. Got 1-D tensor"),
    ],
)  # fmt: skip
def test_errors(call, error, phrase):
    with pytest.raises(error, match=phrase):
        call()


def read_only():
    array = np.ones(3)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda: F.mse_loss(torch.ones(2, 1), torch.ones(2)), r"Using a target size \(torch.Size\(\[2\]\)\)"),
        (lambda: F.l1_loss(torch.ones(2, 1), torch.ones(2)), "Please ensure they have the same size"),
        (lambda: F.mse_loss(torch.ones(2, 1), torch.ones(2)), "incorrect results due to broadcasting. Please ensure they"),
        (lambda: F.dropout2d(torch.ones(1, 2, 3, 3, 3)), "Received a 5-D input to dropout2d"),
        (lambda: F.dropout2d(torch.ones(2, 3, 3)), "assuming that channel-wise 1D dropout behavior is desired"),
        (lambda: F.softmax(torch.ones(2)), "Implicit dimension choice for softmax has been deprecated"),
        (lambda: F.log_softmax(torch.ones(2)), "Implicit dimension choice for log_softmax"),
        (lambda: F.softmin(torch.ones(2)), "Implicit dimension choice for softmin"),
        (lambda: nn.Softmax()(torch.ones(2)), "Implicit dimension choice for softmax"),
        (lambda: torch.cross(torch.ones(2, 3), torch.ones(2, 3)), "without specifying the dim arg is deprecated"),
        (lambda: torch.ones(3).T, "on tensors of dimension other than 2 to reverse their shape is deprecated"),
        (lambda: torch.from_numpy(read_only()), "The given NumPy array is not writable"),
        (lambda: torch.as_tensor(read_only()), "The given NumPy array is not writable"),
        (lambda: torch.stft(torch.ones(9), 4, return_complex=True), "A window was not provided"),
        (lambda: torch.istft(torch.ones(3, 9) + 0j, 4), "A window was not provided"),
        (lambda: torch.add(torch.ones(2), 2, torch.ones(2)), "This overload of add is deprecated"),
        (lambda: torch.ones(2).sub_(2, torch.ones(2)), "This overload of sub_ is deprecated"),
        (lambda: torch.addcmul(torch.ones(2), 2, torch.ones(2), torch.ones(2)), "This overload of addcmul is deprecated"),
        (lambda: torch.ones(2).new_tensor(torch.ones(2)), "To copy construct from a tensor, it is recommended"),
        (lambda: nn.init.kaiming_normal_(torch.ones(0, 3)), "Initializing zero-element tensors is a no-op"),
        (lambda: F.gumbel_softmax(torch.ones(2), eps=1.0), "`eps` parameter is deprecated"),
    ],
)  # fmt: skip
def test_warnings(call, phrase):
    with pytest.warns(UserWarning, match=phrase):
        call()


def test_a_copy_of_a_read_only_array_says_nothing(recwarn):
    torch.tensor(read_only())
    assert not recwarn.list


def test_a_checkpoint_that_does_not_fit_calls_no_hooks_of_state_dict():
    called = []
    layer = nn.Linear(2, 2)
    layer.register_state_dict_pre_hook(lambda *given: called.append(given))
    with pytest.raises(RuntimeError, match="reshaped"):
        layer.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.ones(2)})
    assert not called


def test_a_hook_with_another_shape_is_named():
    def shorten(g):
        return g[:1]

    x = torch.ones(3, requires_grad=True)
    x.register_hook(shorten)
    with pytest.raises(RuntimeError, match="hook 'shorten' has changed the size"):
        x.sum().backward()
