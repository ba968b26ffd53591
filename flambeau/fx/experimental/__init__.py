"""Parts of `torch.fx` that other libraries touch. Shapes are always known here."""
