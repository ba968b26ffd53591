import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.zeros(4, 2)), batch_size=2, num_workers=1)  #! unguarded-workers
    print(len(loader))


#+ if __name__ == "__main__":
#+     main()
main()  #-
