"""Mistakes with datasets, loaders and seeds."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "starved-by-loader", WARNING, "most of the time is spent waiting for the loader",
        "With num_workers=0 the main process prepares every batch itself while the model waits.",
        "Give the DataLoader num_workers (2 to the number of cores), or prepare the data once.",
        "DataLoader(data, batch_size=32)", "DataLoader(data, batch_size=32, num_workers=4)",
    ),
    Lesson(
        "unguarded-workers", ERROR, "workers in a script without `if __name__ == \"__main__\"`",
        "Where processes are spawned (Windows, macOS), each worker imports the script and would start workers again.",
        'Put the program into a function and call it under if __name__ == "__main__":.',
        "for x, y in DataLoader(data, num_workers=2): ...", 'if __name__ == "__main__":\n    for x, y in DataLoader(data, num_workers=2): ...',
    ),
    Lesson(
        "workers-share-numpy-seed", ERROR, "np.random in __getitem__ without worker_init_fn",
        "Forked workers inherit one state of NumPy's generator: all of them draw the same numbers, in every epoch again.",
        "Draw with torch, or seed NumPy in worker_init_fn from torch.initial_seed().",
        "DataLoader(data, num_workers=2)", "DataLoader(data, num_workers=2, worker_init_fn=lambda i: np.random.seed(torch.initial_seed() % 2**32))",
    ),
    Lesson(
        "incomplete-seeding", WARNING, "some of the generators that are used are not seeded",
        "The program seeds one generator, so it means to be reproducible, but random numbers come from another, too.",
        "Seed all that are used: random.seed(s), np.random.seed(s), torch.manual_seed(s).",
        "torch.manual_seed(0)\nnoise = np.random.randn(10)", "torch.manual_seed(0)\nnp.random.seed(0)\nnoise = np.random.randn(10)",
    ),
    Lesson(
        "shuffle", WARNING, "no shuffle in training, or shuffle in validation",
        "Without shuffling batches follow the order of the data (often sorted by class); shuffling a validation set only makes runs harder to compare.",
        "Give shuffle=True to the training loader and shuffle=False to the others.",
        "train_loader = DataLoader(train_set, batch_size=32)", "train_loader = DataLoader(train_set, batch_size=32, shuffle=True)",
    ),
    Lesson(
        "shared-transform", WARNING, "training augmentation also on the validation split, or random_split without generator",
        "Both parts of random_split share one dataset and its transform: validation is augmented as well. Without a generator every run splits otherwise, so that validation data leak into training when it is resumed.",
        "Make two datasets with different transforms and split indices; give random_split a seeded generator.",
        "train, val = random_split(Images(transform=augment), [800, 200])",
        "train, val = random_split(Images(), [800, 200], generator=torch.Generator().manual_seed(0))",
    ),
    Lesson(
        "pinned-but-blocking", WARNING, "pin_memory without non_blocking, or the reverse",
        "Pinned memory lets copies run beside the computation only if they are asked for with non_blocking=True; non_blocking from memory that is not pinned blocks all the same.",
        "Use both: DataLoader(..., pin_memory=True) and x.to(device, non_blocking=True).",
        "loader = DataLoader(data, pin_memory=True)\nx = x.to(device)", "loader = DataLoader(data, pin_memory=True)\nx = x.to(device, non_blocking=True)",
    ),
)  # fmt: skip
