"""Mistakes with checkpoints."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "load-without-map-location", WARNING, "torch.load without map_location",
        "A checkpoint remembers the device of each tensor: one from a GPU cannot be loaded where there is none.",
        'Give map_location=device (or "cpu").',
        'torch.load("weights.pt")', 'torch.load("weights.pt", map_location="cpu")',
    ),
    Lesson(
        "whole-model-pickled", WARNING, "torch.save(model) instead of its state_dict",
        "The pickle names the class and its module: the file breaks when code moves, and loading it runs code.",
        "Save model.state_dict() and load it into a new model.",
        'torch.save(model, "model.pt")', 'torch.save(model.state_dict(), "model.pt")',
    ),
    Lesson(
        "checkpoint-without-optimizer", ERROR, "training is resumed without the optimizer's state",
        "Moments and counts of steps start from nothing: the loss jumps after every resume.",
        "Save and load optimizer.state_dict() (and the scheduler's) with the model.",
        'torch.save({"model": model.state_dict(), "epoch": epoch}, path)',
        'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)',
    ),
)  # fmt: skip
