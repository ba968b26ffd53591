"""What to do about an error, by a phrase of its text."""

from __future__ import annotations

import re
from typing import TypeVar

from .names import argument_advice

E = TypeVar("E", bound=BaseException)

# (phrase, advice). The first phrase that an error's text has counts; texts that already say what to do are not here.
ADVICE: tuple[tuple[str, str], ...] = (
    ("shapes cannot be multiplied", "the last dimension of the first must equal the first of the second: {shapes}"),
    ("must match the size of tensor b", "sizes must be equal or 1, counted from the last dimension; use unsqueeze, expand or reshape to make them so"),
    ("The expanded size of the tensor", "only dimensions of size 1 can be expanded; use repeat to copy, or unsqueeze where a dimension is missing"),
    ("is invalid for input of size", "the sizes must multiply to the number of elements; one of them may be -1, which is then computed"),
    ("Sizes of tensors must match except in dimension", "cat joins along one dimension, all others must be equal; stack makes a new dimension"),
    ("stack expects each tensor to be equal size", "pad them to one size first, as with nn.utils.rnn.pad_sequence"),
    ("multi-target not supported", "class indices have one dimension less than the scores: target.squeeze(1), or argmax(1) for one-hot rows"),
    ("expected target dtype to be Long", "class indices are int64: target.long(). Probabilities as targets must have the shape of the scores"),
    ("expected scalar type Long", "indices are int64: convert them with .long()"),
    ("is out of bounds.", "classes count from 0 to C - 1, where C is the size of dimension 1 of the scores: look at target.min() and target.max()"),
    ("index out of range in self", "indices go from 0 to num_embeddings - 1: make the table larger (vocabulary size + 1 for padding) or look at the indices' maximum"),
    ("to have one of the following scalar types: Long, Int", "indices are integers: convert them with .long()"),
    ("does not require grad and does not have a grad_fn", "nothing that needs a gradient led here: a parameter may be frozen, or detach(), .item(), numpy(), no_grad() or argmax cut the graph"),
    ("grad can be implicitly created only for scalar outputs", "reduce it first, as with .mean() or .sum(), or give backward() a gradient of the same shape"),
    ("does not require gradients", "set requires_grad_() on it before it is used, or leave it out of the inputs"),
    ("appears to not have been used in the graph", "pass allow_unused=True if that is right, or use the tensor itself, not a copy made before"),
    ("a leaf Variable that requires grad", "do it under torch.no_grad(), or on a clone"),
    ("cannot be converted to Scalar", "reduce it first, as with .mean(), or take one element: x[0].item(); .tolist() gives all"),
    ("only one element tensors can be converted to Python scalars", "reduce it first, as with .mean(), or take one element: x[0].item()"),
    ("Boolean value of Tensor with more than one value", "use .any() or .all(); for masks & | ~ instead of and, or, not"),
    ("optimizer got an empty parameter list", "the model has no registered parameters: keep layers as attributes or in nn.ModuleList, not in a Python list; a generator can be read only once"),
    ("Expected all tensors to be on the same device", "move model and batch to one device: model.to(device), x = x.to(device) (its result must be kept)"),
    ("Torch not compiled with CUDA enabled", "there is no GPU here: device = 'cuda' if torch.cuda.is_available() else 'cpu'"),
    ("No CUDA GPUs are available", "choose the device as 'cuda' if torch.cuda.is_available() else 'cpu'"),
    ("Attempting to deserialize object on a CUDA device", "load with map_location='cpu'"),
    ("have the same dtype", "convert one: NumPy makes float64, which .float() turns into float32"),
    ("Found dtype", "convert one of them, as with .float()"),
    ("result type", "in place the result must fit the tensor's dtype: use the form without the underscore, or convert first"),
    ("can't be cast to the desired output type", "use the form without the underscore, or convert first"),
    ("channels, but got", "images are (N, C, H, W): permute(0, 3, 1, 2) from channels last, or give the layer as many input channels"),
    ("Expected more than 1 value per channel when training", "a batch of one has no variance: use a larger batch (drop_last=True in the loader) or model.eval()"),
    ("should have more than 1 value per channel", "a batch of one has no variance: use a larger batch (drop_last=True in the loader) or model.eval()"),
    ("running_mean should contain", "the layer's num_features must be the size of dimension 1"),
    ("Given normalized_shape", "normalized_shape are the last sizes of the input: permute if the features stand elsewhere"),
    ("Kernel size can't be greater than actual input size", "the input is smaller than the kernel: pad it, or use a smaller kernel or fewer poolings"),
    ("Output size is too small", "the input is too small for so many poolings or strides: feed larger images or leave layers out"),
    ("all elements of target should be between 0 and 1", "binary targets are 0 or 1 (or probabilities): divide by their maximum, or use another loss"),
    ("all elements of input should be between 0 and 1", "binary_cross_entropy takes probabilities: use binary_cross_entropy_with_logits on raw scores"),
    ("Target size", "give target the input's shape: target.unsqueeze(1), or squeeze(1) for the input"),
    ("Dimension out of range", "dimensions count from 0 or, from the end, from -1; unsqueeze adds one"),
    ("Index tensor must have the same number of dimensions", "gather and scatter take an index with as many dimensions as the input: index.unsqueeze(1)"),
    ("The shape of the mask", "a mask has the leading sizes of what it selects from"),
    ("expected sequence of length", "all rows must have one length: pad them, or keep a list of tensors"),
    ("input.size(-1) must be equal to input_size", "the last dimension of the input is input_size; with batch_first=True the input is (N, L, features)"),
    ("hidden[0] size", "a hidden state is (layers * directions, N, hidden_size), also with batch_first=True; N may have changed in the last batch"),
    ("embed_dim must be divisible by num_heads", "choose num_heads so that it divides embed_dim"),
    ("was expecting embedding dimension of", "the last dimension of query, key and value is embed_dim"),
    ("A must be batches of square matrices", "the last two sizes must be equal"),
    ("The diagonal element", "the matrix has no inverse: add a small multiple of the identity, or use lstsq or pinv"),
    ("input is not positive-definite", "add a small multiple of the identity, as in A + 1e-6 * torch.eye(n)"),
    ("Expected size for first two dimensions of batch2", "batch2 is (b, n, p) where batch1 is (b, m, n): transpose(1, 2) swaps its last two dimensions"),
    ("must be a matrix", "mm takes two matrices; matmul, or @, takes vectors too"),
    ("is out of bounds for dimension", "indices go from 0 to size - 1, or from -size to -1 when they count from the end"),
    ("too many indices for tensor", "it has fewer dimensions than there are indices: look at its .shape"),
    ("could not infer output dtype", "convert it first: x.float().mean()"),
    ("Only Tensors of floating point and complex dtype", "make it of floats: torch.tensor([1.0]), or x.float()"),
    ("not implemented for 'Long'", "convert it to floats first: x.float()"),
    ("to match target batch_size", "scores and targets must count the same rows: a view or reshape before the loss may have mixed dimensions"),
    ("weight should contain", "the layer's num_features must be the size of dimension 1"),
    ("Invalid learning rate", "choose lr above 0, often 1e-3 for Adam and 0.01 to 0.1 for SGD"),
    ("before Module.__init__() call", "call super().__init__() first in the class's __init__"),
    ('is missing the required "forward" function', "define forward(self, x) in the class; look at its spelling and indentation"),
    ("probability has to be between 0 and 1", "p is the share that is dropped"),
    ("must be Tensor, not list", "make a tensor of it: torch.tensor(…)"),
    ("device type at start of device string", "devices are 'cpu' and 'cuda', or 'cuda:0' for the first GPU"),
    ("must be torch.dtype, not str", "write torch.float32, without quotes"),
    ("num_samples should be a positive integer value", "the dataset is empty: look at its path and its length"),
    ("DataLoader worker", "run with num_workers=0 to see the worker's own error"),
    ("out of memory", "use a smaller batch, torch.no_grad() for evaluation, gradient accumulation or checkpointing"),
)  # fmt: skip


def advice_for(text: str) -> str:
    """What to do about an error with this text; empty if nothing is known."""
    for phrase, advice in ADVICE:
        if phrase in text:
            found = re.search(r"\((\d+)x(\d+) and (\d+)x(\d+)\)", text)
            return advice.replace("{shapes}", _shapes(*found.groups()) if found else "see their shapes")
    return argument_advice(text)


def teach(error: BaseException, where: str = "", fix: str = "") -> None:
    """Adds to an error of ours what to do about it and where in a model it was; said again, only the place changes."""
    if not error.args or not isinstance(error.args[0], str):
        return
    known = error.__dict__.get("_said")
    if known is not None and not where:
        return
    text, usual = known or (error.args[0], advice_for(error.args[0]))
    error.__dict__["_said"] = text, fix or usual
    lines = [text, where, (fix or usual) and f"fix: {fix or usual}"]
    error.args = ("\n  ".join([line for line in lines if line]), *error.args[1:])


def taught(error: E) -> E:
    """An error with what to do about it."""
    teach(error)
    return error


def _shapes(a: str, b: str, c: str, d: str) -> str:
    said = f"{b} and {c} differ"
    return said + (f"; the second transposed, with .T, would fit ({d})" if b == d else "")
