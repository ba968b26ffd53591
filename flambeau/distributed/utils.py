"""What PyTorch's programs import from here."""

from ..nn.utils.rnn import PackedSequence

__all__ = ["PackedSequence"]
