"""What the demonstration draws: how the loss fell, and what the network reads."""

from __future__ import annotations

from typing import Any

import flambeau as torch


def curves(path: str, losses: list[float], accuracies: list[float]) -> None:
    """The loss of every batch with its running mean, and the validation accuracy after every epoch."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.2))
    axes.semilogy(losses, linewidth=0.5, alpha=0.4, color="tab:blue")
    smooth, mean = [], losses[0]
    for loss in losses:
        mean = 0.97 * mean + 0.03 * loss
        smooth.append(mean)
    axes.semilogy(smooth, color="tab:blue", label="training loss")
    axes.set(xlabel="batch", ylabel="cross entropy", title="reading drawn digits")
    right = axes.twinx()
    step = len(losses) / len(accuracies)
    places = [step * (i + 1) for i in range(len(accuracies))]
    right.plot(places, [100 * a for a in accuracies], "o-", color="tab:orange", label="validation accuracy")
    right.set_ylabel("validation accuracy (%)")
    lines = [*axes.get_lines()[1:], *right.get_lines()]
    axes.legend(lines, [line.get_label() for line in lines], loc="center right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def predictions(path: str, model: Any, images: Any, labels: Any) -> None:
    """The first hundred digits of a batch with what the network takes them for; mistakes in red."""
    import matplotlib.pyplot as plt

    model.eval()
    with torch.no_grad():
        read = model(images[:100]).argmax(1)
    figure, grid = plt.subplots(10, 10, figsize=(7, 7.8))
    for axes, image, label, answer in zip(grid.flat, images, labels, read):
        axes.imshow(image[0].numpy(), cmap="gray_r", vmin=0, vmax=1)
        axes.set_axis_off()
        axes.set_title(str(int(answer)), fontsize=8, pad=1, color="black" if answer == label else "red")
    figure.tight_layout(pad=0.4)
    figure.savefig(path, dpi=110)
    plt.close(figure)
