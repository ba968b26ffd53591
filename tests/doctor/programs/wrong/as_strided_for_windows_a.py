import torch

x = torch.arange(8.0)
#+ windows = x.unfold(0, 3, 1)
windows = x.as_strided((6, 3), (1, 1))  #!- as-strided-for-windows
print(windows.mean(1))
