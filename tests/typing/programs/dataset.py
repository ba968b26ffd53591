"""A dataset of one's own, a sampler, a collate function."""

from collections.abc import Iterator

import flambeau as torch
from flambeau import Tensor
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_sequence
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, Sampler, random_split


class Sequences(Dataset[tuple[Tensor, int]]):
    def __init__(self, n: int) -> None:
        self.lengths = torch.randint(1, 6, (n,)).tolist()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return torch.arange(self.lengths[i], dtype=torch.float32), i % 2


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        for i in range(4):
            yield torch.full((2,), float(i))


class Backwards(Sampler[int]):
    def __init__(self, data: Sequences) -> None:
        self.data = data

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data) - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.data)


def collate(batch: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    sequences, labels = zip(*batch)
    lengths = torch.tensor([len(s) for s in sequences])
    return pad_sequence(list(sequences), batch_first=True), lengths, torch.as_tensor(labels)


data = Sequences(10)
loader = DataLoader(data, batch_size=4, sampler=Backwards(data), collate_fn=collate, drop_last=False)
for padded, lengths, labels in loader:
    packed = pack_padded_sequence(padded.unsqueeze(-1), lengths, batch_first=True, enforce_sorted=False)
    assert padded.shape[0] == labels.numel()
    assert packed.data.dim() == 2
first, second = random_split(data, [7, 3], generator=torch.Generator().manual_seed(0))
print(len(first), len(second), [batch.sum().item() for batch in DataLoader(Stream(), batch_size=2)])
