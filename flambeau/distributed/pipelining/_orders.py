"""In which order a process runs forward and backward passes of its stages: lists of (stage, what, part of the batch).

What is "F" (forward), "B" (backward), or "I" and "W", a backward pass in two steps: gradients of inputs, which other
processes wait for, and gradients of weights. A process waits only for what it needs, and sending never waits, so every order
in which a part's passes follow each other is right; the orders differ in memory and in idle time.
"""

from __future__ import annotations

from collections.abc import Sequence

Action = tuple[int, str, int]


def all_forward_first(stages: Sequence[int], parts: int) -> list[Action]:
    """All forward passes, stage by stage, then all backward passes."""
    there = [(stage, "F", m) for stage in stages for m in range(parts)]
    return there + [(stage, "B", m) for stage in reversed(stages) for m in reversed(range(parts))]


def one_by_one(stage: int, stages: int, parts: int) -> list[Action]:
    """As many forward passes as there are stages to come, then a backward pass after each one."""
    ahead = min(parts, stages - stage)
    order: list[Action] = [(stage, "F", m) for m in range(ahead)]
    for m in range(parts):
        order.append((stage, "B", m))
        if m + ahead < parts:
            order.append((stage, "F", m + ahead))
    return order


def interleaved(local: Sequence[int], rank: int, ranks: int, parts: int) -> list[Action]:
    """`one_by_one` for several stages of a process, which take turns for a round of parts each."""
    rounds = max(1, parts // ranks)
    if parts % rounds:
        raise ValueError(
            f"Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds ({rounds}), but got "
            f"{parts}."
        )
    size, count = parts // rounds, len(local)
    total = count * parts

    def at(i: int, back: bool) -> Action:
        turn, within = divmod(i, size)
        place, m = turn % count, turn // count * size + within
        return (local[count - 1 - place], "B", m) if back else (local[place], "F", m)

    ahead = min(total, 2 * (ranks - 1 - rank) + (count - 1) * size + 1)
    order = [at(i, False) for i in range(ahead)]
    for i in range(total):
        order.append(at(i, True))
        if i + ahead < total:
            order.append(at(i + ahead, False))
    return order


def without_bubbles(homes: Sequence[int], parts: int) -> list[list[Action]]:
    """The order of every process when gradients of weights fill the time in which there is nothing else to do.

    `homes[stage]` is the process of a stage. Passes are handed out one at a time to all processes at once: gradients that
    others wait for first, then forward passes, up to a number of parts that are under way, then gradients of weights.
    """
    stages, ranks = len(homes), max(homes) + 1
    orders: list[list[Action]] = [[] for _ in range(ranks)]
    done: set[Action] = set()
    limit = [ranks * homes.count(r) + 1 for r in range(ranks)]
    under_way = [0] * ranks
    total = 3 * stages * parts

    def ready(action: Action) -> bool:
        stage, what, m = action
        if action in done:
            return False
        if what == "F":
            return stage == 0 or (stage - 1, "F", m) in done
        if what == "I":
            return (stage, "F", m) in done and (stage == stages - 1 or (stage + 1, "I", m) in done)
        return (stage, "I", m) in done

    def choice(rank: int) -> Action | None:
        local = [s for s in range(stages) if homes[s] == rank]
        for what in "IFW":
            if what == "F" and under_way[rank] >= limit[rank]:
                continue
            for m in range(parts):
                for stage in reversed(local):
                    if ready((stage, what, m)):
                        return stage, what, m
        return None

    while len(done) < total:
        chosen = [choice(rank) for rank in range(ranks)]
        if not any(chosen):
            limit = [n + 1 for n in limit]
        for rank, action in enumerate(chosen):
            if action is not None:
                orders[rank].append(action)
                done.add(action)
                under_way[rank] += {"F": 1, "I": 0, "W": -1}[action[1]]
    return orders
