"""Moves definitions of other programs into one: scripted modules and functions inside of what is scripted or traced."""

from __future__ import annotations

import re
from typing import Any

from ._program import Program
from ._script_module import RecursiveScriptModule


class Adoption:
    """Adds what other programs define to `program`, each program once and under names of its own. Their constants are
    added to `constants`, which become those of `program` in the end."""

    def __init__(self, program: Program, constants: list[Any]):
        self.program, self.constants = program, constants
        self._known: dict[Program, tuple[str, int]] = {}  # the names' new beginning and the first constant

    def _move(self, theirs: Program) -> None:
        if theirs in self._known:
            return
        number = 0
        while any(path.startswith(f"__torch__.___torch_mangle_{number}.") for path in self.program.sources):
            number += 1
        self._known[theirs] = f"__torch__.___torch_mangle_{number}.", len(self.constants)
        self.constants += theirs.constants
        for path, text in theirs.sources.items():
            self.program.add(self.name(theirs, path), self.name(theirs, text))

    def name(self, theirs: Program, text: str) -> str:
        """A full name of another program in this one, or a text with all its names and constants."""
        self._move(theirs)
        prefix, first = self._known[theirs]
        text = re.sub(r"\b__torch__\.", prefix, text)
        return re.sub(r"\bCONSTANTS\.c(\d+)", lambda m: f"CONSTANTS.c{int(m[1]) + first}", text)

    def module(self, theirs: RecursiveScriptModule) -> RecursiveScriptModule:
        """A module of another program as one of this program; parameters and buffers are shared."""
        script = theirs._script
        made = RecursiveScriptModule(self.program.definition(self.name(script.program, script.path)))
        for table in ("_parameters", "_buffers", "_attributes"):
            made.__dict__[table].update(theirs.__dict__[table])
        made.__dict__["_modules"].update({name: self.module(child) for name, child in theirs._modules.items()})
        made.__dict__["training"] = theirs.training
        return made
