"""Mistakes between a model's output and its loss."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "softmax-before-cross-entropy", ERROR, "probabilities go into a cross entropy that takes logits",
        "cross_entropy applies log_softmax itself. A softmax before it squeezes the values into [0, 1]: the loss cannot come near zero and gradients are small.",
        "Leave the softmax out of the model; apply it only where probabilities are shown.",
        "loss = F.cross_entropy(torch.softmax(logits, dim=1), y)", "loss = F.cross_entropy(logits, y)",
    ),
    Lesson(
        "softmax-into-nll", ERROR, "probabilities, not their logarithms, go into nll_loss",
        "nll_loss takes log-probabilities. With probabilities the loss is negative and its gradient has nothing to do with likelihood.",
        "Use log_softmax before nll_loss, or cross_entropy on the logits.",
        "loss = F.nll_loss(F.softmax(logits, dim=1), y)", "loss = F.nll_loss(F.log_softmax(logits, dim=1), y)",
    ),
    Lesson(
        "log-of-softmax", WARNING, "log(softmax(x)) by hand",
        "Where a probability rounds to zero its logarithm is minus infinity and the gradient NaN; log_softmax computes both together without that.",
        "Use log_softmax.",
        "torch.log(torch.softmax(x, dim=1))", "torch.log_softmax(x, dim=1)",
    ),
    Lesson(
        "sigmoid-and-bce", WARNING, "Sigmoid with BCELoss instead of BCEWithLogitsLoss",
        "For large logits the sigmoid rounds to 0 or 1 and its logarithm and gradient are lost; BCEWithLogitsLoss computes both together.",
        "Drop the sigmoid and use BCEWithLogitsLoss (binary_cross_entropy_with_logits).",
        "loss = nn.BCELoss()(torch.sigmoid(logits), y)", "loss = nn.BCEWithLogitsLoss()(logits, y)",
    ),
    Lesson(
        "sigmoid-before-logits-loss", ERROR, "a sigmoid stands before a loss that takes logits",
        "BCEWithLogitsLoss applies the sigmoid itself: applied twice, outputs lie between 0.5 and 0.73 and the loss cannot fall.",
        "Leave the sigmoid out, or use BCELoss.",
        "loss = nn.BCEWithLogitsLoss()(torch.sigmoid(logits), y)", "loss = nn.BCEWithLogitsLoss()(logits, y)",
    ),
    Lesson(
        "float-class-targets", ERROR, "class targets have a floating dtype",
        "Class numbers must be int64; floating targets mean class probabilities, of the shape of the input.",
        "Convert the labels: y.long().",
        "F.cross_entropy(logits, y.float())", "F.cross_entropy(logits, y.long())",
    ),
    Lesson(
        "integer-bce-targets", ERROR, "integer targets for a binary loss",
        "Binary losses multiply with the target, which must have the dtype of the input.",
        "Convert the targets: y.float().",
        "F.binary_cross_entropy_with_logits(logits, y)  # y is int64", "F.binary_cross_entropy_with_logits(logits, y.float())",
    ),
    Lesson(
        "accidental-broadcast", ERROR, "(N, 1) with (N,) grows to (N, N)",
        "Broadcasting pairs every prediction with every target: the loss is a mean over N*N wrong pairs and the model learns the mean of the targets.",
        "Give both the same shape: squeeze(-1) the prediction or unsqueeze(-1) the target.",
        "loss = F.mse_loss(prediction, y)  # (N, 1) and (N,)", "loss = F.mse_loss(prediction.squeeze(-1), y)",
    ),
    Lesson(
        "non-scalar-loss", ERROR, "backward() on a loss that is not a scalar",
        "A gradient is that of one number; for a tensor PyTorch does not know the weights of its elements.",
        "Reduce the loss: loss.mean().backward() or loss.sum().backward().",
        'loss = F.mse_loss(a, b, reduction="none")\nloss.backward()', "loss = F.mse_loss(a, b)\nloss.backward()",
    ),
)  # fmt: skip
