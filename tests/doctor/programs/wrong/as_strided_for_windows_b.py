import torch


def windows(series, size):
    n = series.numel() - size + 1
    #+ return series.unfold(0, size, 1)
    return torch.as_strided(series, size=(n, size), stride=(1, 1))  #!- as-strided-for-windows


print(windows(torch.arange(6.0), 3).sum(1))
