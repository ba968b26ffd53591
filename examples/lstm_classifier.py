"""A bidirectional LSTM reads lines of Python's own library letter by letter and tells code from comments.

Comment signs and indentation are taken away first, lines with quotes left out. With the default 200 steps at least
96 % of the lines that it has not seen are told apart (about ten seconds on two cores). Runs on PyTorch, and unchanged
on flambeau: `flambeau run examples/lstm_classifier.py`.
"""

import argparse
import random
import tokenize
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

try:
    from tqdm import trange
except ImportError:
    trange = range

MODULES = (
    "argparse", "ast", "calendar", "cmd", "codecs", "configparser", "csv", "datetime", "difflib", "dis", "doctest",
    "fractions", "heapq", "inspect",
)  # fmt: skip


def lines_of(path):
    """(line, 1 if it is a comment and 0 if it is code) of a file; text in quotes is left out."""
    kinds: dict[int, set[int]] = {}
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            for number in range(token.start[0], token.end[0] + 1):
                kinds.setdefault(number, set()).add(token.type)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text, found = line.strip().strip("# "), kinds.get(number, set())
        if 15 <= len(text) <= 60 and text.isascii() and tokenize.STRING not in found:
            if line.strip().startswith("#"):
                yield text, 1
            elif tokenize.COMMENT not in found and tokenize.NAME in found:
                yield text, 0


class Lines(Dataset):
    """Lines as tensors of letters' numbers, half of them comments."""

    def __init__(self, seed):
        found = sorted({pair for name in MODULES for pair in lines_of(Path(tokenize.__file__).with_name(f"{name}.py"))})
        kinds = [[pair for pair in found if pair[1] == kind] for kind in (0, 1)]
        rng = random.Random(seed)
        count = min(map(len, kinds))
        self.pairs = [pair for pairs in kinds for pair in rng.sample(pairs, count)]
        rng.shuffle(self.pairs)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        text, kind = self.pairs[index]
        return torch.tensor([ord(letter) for letter in text]), kind


def collate(batch):
    """Letters (B, longest) padded with zeros, lengths, kinds."""
    texts, kinds = zip(*batch)
    return pad_sequence(texts, batch_first=True), torch.tensor([len(t) for t in texts]), torch.tensor(kinds)


class Classifier(nn.Module):
    def __init__(self, width=32, hidden=64):
        super().__init__()
        self.embedding = nn.Embedding(128, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * hidden, 1))

    def forward(self, letters, lengths):
        packed = pack_padded_sequence(self.embedding(letters), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)  # (2, B, hidden): forwards to the end, backwards to the beginning
        return self.head(torch.cat([last[0], last[1]], 1)).squeeze(1)


@torch.no_grad()
def accuracy_of(model, loader):
    model.eval()
    right = sum(((model(t, n) > 0).long() == kinds).sum().item() for t, n, kinds in loader)
    model.train()
    return right / len(loader.dataset)


def endless(loader):
    while True:
        yield from loader


def main(steps=200, batch_size=64, seed=0):
    torch.manual_seed(seed)
    lines = Lines(seed)
    train, test = torch.utils.data.random_split(lines, [0.8, 0.2])
    loader = DataLoader(train, batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    loss_of = nn.BCEWithLogitsLoss()
    batches = endless(loader)
    print(f"{len(train)} lines to learn from, {len(test)} to test")
    for _ in trange(steps):
        letters, lengths, kinds = next(batches)
        loss = loss_of(model(letters, lengths), kinds.float())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    accuracy = accuracy_of(model, DataLoader(test, 256, collate_fn=collate))
    print(f"loss {loss.item():.3f}   accuracy on new lines {accuracy:.1%}")
    model.eval()
    for text in ("if the queue is empty, wait for an item", "items = [x for x in queue if not x.done]"):
        letters, lengths, _ = collate([(torch.tensor([ord(letter) for letter in text]), 0)])
        print(f"{model(letters, lengths).sigmoid().item():6.1%} comment: {text}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
