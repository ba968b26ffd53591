"""What other projects' tests take from PyTorch's own tests: a small part, with the same behaviour."""
