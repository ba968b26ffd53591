"""Who may take operations over: overriding classes and modes, below and above autograd, and autocast."""
