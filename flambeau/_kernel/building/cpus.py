"""CPUs by name, and what a CPU must be able to do to run code that was made for one: in LLVM's words, and in those of Linux."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Mapping
from typing import NamedTuple

from .target import Target

# Words of /proc/cpuinfo that name instructions; the others are about the system.
_INSTRUCTIONS = r"sse|ssse|pni$|avx|amx|fma|f16c$|bmi|abm$|popcnt$|movbe$|aes$|vaes$|v?pclmul|gfni$|sha_ni$|adx$|cmov$|cx16$|lahf_lm$|rd(rand|seed)$"
_OF_ARM = r"(?!evtstrm$|cpuid$|paca$|pacg$|bti$|mte)"
# What LLVM calls instructions for which Linux has another word; otherwise it is the same without underscores.
_LLVM = {
    "abm": "lzcnt", "amx_bf16": "amx-bf16", "amx_int8": "amx-int8", "amx_tile": "amx-tile", "asimd": "neon", "asimddp": "dotprod",
    "atomics": "lse", "bmi1": "bmi", "crc32": "crc", "fp": "fp-armv8", "lahf_lm": "sahf", "pclmulqdq": "pclmul", "pni": "sse3",
    "sse4_1": "sse4.1", "sse4_2": "sse4.2",
}  # fmt: skip


class Cpu(NamedTuple):
    """What LLVM is told of a CPU, and the words that Linux must have for the one that runs the code."""

    name: str
    features: str
    words: frozenset[str]

    def target(self, llvm: str) -> Target:
        kind = "x86_64" if self.name.startswith("x86") else "aarch64"
        same = kind == os.uname().machine.replace("arm64", "aarch64")
        return Target(llvm, self.name, self.features, "" if same else f"{kind}-unknown-linux-gnu")


def _cpu(name: str, features: str, words: str, base: Cpu | None = None) -> Cpu:
    own = ",".join("+" + f for f in features.split())
    if base is None:
        return Cpu(name, own, frozenset(words.split()))
    return Cpu(name, f"{base.features},{own}", base.words | set(words.split()))


_V1 = _cpu("x86-64", "sse2", "sse2")
_V2 = _cpu("x86-64-v2", "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3", "cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3", _V1)
_V3 = _cpu(
    "x86-64-v3", "avx avx2 bmi bmi2 f16c fma lzcnt movbe pclmul", "abm avx avx2 bmi1 bmi2 f16c fma movbe pclmulqdq", _V2
)
_V4 = _cpu(
    "x86-64-v4", "avx512bw avx512cd avx512dq avx512f avx512vl", "avx512bw avx512cd avx512dq avx512f avx512vl", _V3
)
_ARM = _cpu("generic", "fp-armv8 neon", "asimd fp")
_A72 = _cpu("cortex-a72", "crc", "crc32", _ARM)
_N1 = _cpu("neoverse-n1", "dotprod lse", "asimddp asimdhp asimdrdm atomics fphp lrcpc", _A72)
_V = _cpu("neoverse-v1", "sve", "bf16 fcma i8mm jscvt sve", _N1)
_NAMED = {"x86_64": (_V1, _V2, _V3, _V4), "aarch64": (_ARM, _A72, _N1, _V)}


def named(name: str, machine: str = "") -> Cpu:
    """A CPU of this machine's kind, or of another, by its name."""
    kind = machine or platform.machine().lower()
    known = {cpu.name: cpu for cpu in _NAMED.get(kind, ())}
    if name not in known:
        raise ValueError(
            f"no CPU is known as {name!r}: on {kind} machines packages are made for {', '.join(known) or 'no other CPU'}, "
            "or for the machine itself if none is named"
        )
    return known[name]


def able() -> list[Cpu]:
    """The CPUs by name whose code this one runs, the ablest first."""
    own = words()
    return [cpu for cpu in reversed(_NAMED.get(platform.machine().lower(), ())) if cpu.words <= own]


def features() -> dict[str, bool]:
    """What this machine can do, in LLVM's words; nothing if the system does not say."""
    return {_LLVM.get(word, word.replace("_", "")): True for word in words()}


def vectors(features: Mapping[str, bool]) -> tuple[int, int]:
    """Width in bytes and number of the vector registers of a CPU that can do this, in LLVM's words."""
    if features.get("avx512f"):
        return 64, 32
    if features.get("avx"):
        return 32, 16
    return 16, 32 if features.get("neon") else 16


@functools.cache
def words() -> frozenset[str]:
    """The instructions that every core of this machine has, in Linux' words; empty if the system does not say."""
    found: list[frozenset[str]] = []
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    wanted = _INSTRUCTIONS if name.startswith("flags") else _OF_ARM
                    found.append(frozenset(w for w in value.split() if re.match(wanted, w)))
    except OSError:
        return frozenset()
    return frozenset.intersection(*found) if found else frozenset()
