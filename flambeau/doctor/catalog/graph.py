"""Mistakes with autograd's graph, with views and with memory that is shared."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "inplace-on-needed-value", ERROR, "a value that backward needs was changed in place",
        "The derivative is computed from values of the forward pass; once they are overwritten it would be wrong, so an error is raised.",
        "Use the out-of-place form (x = x + 1), or clone() before writing.",
        "y = torch.exp(x)\ny += 1\ny.sum().backward()", "y = torch.exp(x)\ny = y + 1\ny.sum().backward()",
    ),
    Lesson(
        "leaf-update-without-no-grad", ERROR, "a weight is updated outside of no_grad",
        "The update itself would be recorded: in place it is refused, out of place the name is bound to a tensor that is no leaf.",
        "Wrap updates by hand in `with torch.no_grad():`.",
        "w -= lr * w.grad", "with torch.no_grad():\n    w -= lr * w.grad",
    ),
    Lesson(
        "backward-twice", ERROR, "backward runs again through a freed graph, or keeps it without need",
        "backward() frees what the graph kept. retain_graph=True in a loop hides the mistake and lets memory and time grow.",
        "Compute the loss anew for each backward (or add the losses), detach what is carried over, and drop retain_graph=True.",
        "loss.backward(retain_graph=True)", "loss.backward()",
    ),
    Lesson(
        "graph-kept-by-logging", ERROR, "losses are kept together with their graphs",
        "A loss tensor holds the whole graph of its step; summing or listing such losses keeps all of them in memory.",
        "Keep numbers: loss.item() (or loss.detach()).",
        "total += loss", "total += loss.item()",
    ),
    Lesson(
        "numpy-on-tracked", ERROR, ".numpy() on a tensor that requires grad",
        "NumPy cannot record operations, so PyTorch refuses.",
        "Call x.detach().numpy() (after .cpu() where needed).",
        "output.numpy()", "output.detach().numpy()",
    ),
    Lesson(
        "shared-array-changed", WARNING, "a NumPy array is changed after from_numpy",
        "The tensor and the array share memory: the tensor changes, too.",
        "Use torch.tensor(array), or from_numpy(array).clone().",
        "x = torch.from_numpy(a)\na[:] = 0", "x = torch.tensor(a)\na[:] = 0",
    ),
    Lesson(
        "write-through-view", WARNING, "a slice of a parameter, buffer or dataset is written without clone",
        "A slice is a view: writing to it changes the tensor that it came from.",
        "Call .clone() before you write.",
        "row = data[0]\nrow *= 2", "row = data[0].clone()\nrow *= 2",
    ),
    Lesson(
        "view-after-transpose", ERROR, "view on a tensor that is not contiguous",
        "After transpose or permute the elements do not lie in the order that view needs.",
        "Use reshape(...), or contiguous() first.",
        "x.transpose(1, 2).view(n, -1)", "x.transpose(1, 2).reshape(n, -1)",
    ),
    Lesson(
        "hidden-state-not-detached", ERROR, "a recurrent state is carried over chunks with its graph",
        "Each backward goes through all chunks so far: an error about a freed graph, or memory and time that grow with every chunk.",
        "Detach the state between chunks: h = h.detach().",
        "output, h = rnn(chunk, h)", "h = h.detach()\noutput, h = rnn(chunk, h)",
    ),
    Lesson(
        "non-leaf-weights", ERROR, "weights are rebuilt by operations, so that .grad stays None",
        "Only leaves collect gradients: the result of an operation on tracked tensors is none.",
        "Make weights leaves: torch.randn(n, requires_grad=True), or w = (0.1 * torch.randn(n)).requires_grad_().",
        "w = torch.randn(3, requires_grad=True) * 0.1", "w = (torch.randn(3) * 0.1).requires_grad_()",
    ),
    Lesson(
        "checkpoint-rng", ERROR, "a segment with dropout is checkpointed with preserve_rng_state=False",
        "The segment runs again for backward and draws another mask: the gradients belong to another network than the loss.",
        "Leave preserve_rng_state at True.",
        "checkpoint(block, x, preserve_rng_state=False)", "checkpoint(block, x, use_reentrant=False)",
    ),
    Lesson(
        "trace-of-branch", ERROR, "a data-dependent branch is traced, or a model in training mode",
        "A trace records what ran for the example: the other branch is lost, and dropout and batch norm stay in training mode.",
        "Use torch.jit.script (or torch.cond) for branches, and call model.eval() before tracing or exporting.",
        "torch.jit.trace(model, x)  # model.training is True", "model.eval()\ntorch.jit.trace(model, x)",
    ),
    Lesson(
        "as-strided-for-windows", WARNING, "as_strided by hand where unfold serves",
        "as_strided checks nothing: a wrong stride reads elements that do not belong to the windows, or fails far from the mistake.",
        "Use x.unfold(dimension, size, step).",
        "x.as_strided((n - 2, 3), (1, 1))", "x.unfold(0, 3, 1)",
    ),
)  # fmt: skip
