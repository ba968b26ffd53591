"""Draws docs/figures/scaling.svg and prints the table of docs/scaling.md: efficiency by the cost model, from 64 to 4,096 ranks.

python benchmarks/scaling_figure.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from flambeau.distributed._costs import Cluster, Link, Work, strategies  # noqa: E402

RANKS = [64, 128, 256, 512, 1024, 2048, 4096]
G = 1e9
# Transformers in bfloat16 with Adam in float32 (12 bytes a parameter with the copy), 6 FLOP for each parameter and token.
ONE, THIRTEEN = (
    Work(2 * G, 2 * G, 12 * G, 6 * G, 6 * G * 8192, 24, 0.08 * G),
    Work(26 * G, 26 * G, 156 * G, 16 * G, 6 * 13 * G * 4096, 40, 0.65 * G),
)
ETHERNET = Link(30e-6, 12.5e9 / 8, ring=True)  # 100 Gbit/s for a host of eight
CASES: dict[str, tuple[Work, dict[str, Any]]] = {
    "1B, 8 k tokens a rank": (ONE, {}),
    "1B, 1 k tokens a rank": (Work(2 * G, 2 * G, 12 * G, 0.75 * G, 6 * G * 1024, 24, 0.08 * G), {}),
    "13B, 4 k tokens a rank": (THIRTEEN, {}),
    "13B, 4 k tokens, 100 Gbit/s a host": (THIRTEEN, {"between": ETHERNET}),
}
COLORS = {"DDP": "#c0392b", "FSDP": "#2471a3", "HSDP": "#1e8449", "2-D": "#8e44ad"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 190, 48, 34, 62


def short(name: str) -> str:
    return name.split(" (")[0]


def points(work: Work, options: dict[str, Any]) -> dict[str, list[tuple[int, float, bool]]]:
    """(ranks, efficiency, whether it fits) for every strategy."""
    found: dict[str, list[tuple[int, float, bool]]] = {}
    for ranks in RANKS:
        cluster = Cluster(ranks // 8, 8, **options)
        for cost in strategies(work, cluster)[1:]:
            alone = work.flops / cluster.flops
            found.setdefault(short(cost.name), []).append(
                (ranks, cost.efficiency(alone), cost.memory <= cluster.memory)
            )
    return found


def panel(title: str, case: tuple[Work, dict[str, Any]], x0: float, y0: float) -> list[str]:
    out = [f'<text x="{x0}" y="{y0 - 10}" font-weight="bold">{title}</text>']
    for i in range(6):
        y = y0 + HEIGHT * (1 - i / 5)
        out.append(f'<line x1="{x0}" x2="{x0 + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{20 * i} %</text>')
    at = lambda i: x0 + WIDTH * i / (len(RANKS) - 1)
    for i, ranks in enumerate(RANKS):
        out.append(f'<text x="{at(i):.1f}" y="{y0 + HEIGHT + 16}" text-anchor="middle">{ranks}</text>')
    for name, line in points(*case).items():
        places = [(at(i), y0 + HEIGHT * (1 - e), fits) for i, (_, e, fits) in enumerate(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        dash = "" if all(fits for *_, fits in places) else ' stroke-dasharray="5 4"'
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"{dash}/>')
        out += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS[name] if fits else "white"}" stroke="{COLORS[name]}"/>'
            for x, y, fits in places
        ]
    return out


def figure() -> str:
    width, height = 2 * (WIDTH + LEFT) + 40, 2 * (HEIGHT + GAP) + TOP
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for i, (title, case) in enumerate(CASES.items()):
        out += panel(title, case, LEFT + (i % 2) * (WIDTH + LEFT + 20), TOP + (i // 2) * (HEIGHT + GAP))
    for i, (name, color) in enumerate(COLORS.items()):
        x, y = LEFT + 90 * i, height - 14
        out.append(
            f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{color}" stroke-width="2"/><text x="{x + 28}" y="{y}">{name}</text>'
        )
    out.append(f'<text x="{LEFT + 400}" y="{height - 14}">dashed, hollow: does not fit into 80 GiB</text></svg>')
    return "\n".join(out) + "\n"


def main() -> None:
    target = ROOT / "docs" / "figures" / "scaling.svg"
    target.write_text(figure())
    print("| model | strategy | " + " | ".join(map(str, RANKS)) + " |\n" + "| --- " * (len(RANKS) + 2) + "|")
    for title, case in CASES.items():
        for name, line in points(*case).items():
            print(
                f"| {title} | {name} | "
                + " | ".join(f"{100 * e:.0f}{'' if fits else ' (no room)'}" for _, e, fits in line)
                + " |"
            )


if __name__ == "__main__":
    main()
