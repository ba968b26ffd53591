"""PyTorch's private home of `torch.func`; the names of it that programs import."""
