"""Loads machine code from object files (ELF of x86-64 and AArch64), as a linker does: sections are laid into memory, addresses
written where the code needs them, and the memory made executable. LLVM is not needed for it.

Nothing in a file is believed before it is checked: what lies outside of it, or is not known here, raises `Unloadable`.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

_MACHINES = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183}
_HEADER, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_TABLE, _RELA, _EMPTY, _REL = 2, 4, 8, 9  # kinds of sections
_WRITABLE, _IN_MEMORY = 1, 2
_STUB, _POINTER = 16, 8  # bytes of a jump to anywhere, and where in it the address stands
_JUMPS = {62: bytes.fromhex("ff2502000000 9090"), 183: bytes.fromhex("50000058 00021fd6")}
_BY_POINTER = {9, 41, 42, 311, 312}  # relocations that need a pointer, of either machine
_MOST = 1 << 28  # bytes of a kernel


class Unloadable(RuntimeError):
    """An object file that is damaged, or that needs something that the loader does not know."""


@functools.cache
def machine() -> int:
    """The number of this machine's kind in object files; 0 if it has other files, or is unknown."""
    return _MACHINES.get(os.uname().machine.lower(), 0) if sys.platform.startswith("linux") else 0


def process_symbol(name: str) -> int:
    """The address of a function of the C library or the interpreter; 0 if there is none of the name."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def load(data: bytes, resolve: Callable[[str], int]) -> dict[str, int]:
    """The addresses of an object file's functions, by name. `resolve` gives those of functions that it calls.

    The memory is never given back: threads may run in it until the process ends.
    """
    try:
        return _Object(data, resolve).load()
    except (struct.error, UnicodeDecodeError, OverflowError) as error:
        raise Unloadable(f"the object file is not in order: {error}") from None


def jump(target: int) -> tuple[int, Any] | None:
    """The address of a function that goes on at `target`, and the word that says so, in which another target may be written at any
    time; None on systems whose pages the loader does not fill."""
    if not machine():
        return None
    page = mmap.PAGESIZE  # the code ends with an executable page, the word begins the writable one behind it
    content = bytearray(page - _POINTER) + _JUMPS[machine()] + target.to_bytes(8, "little")
    try:
        with _Memory(2 * page) as memory:
            memory.fill(content, page)
    except (MemoryError, Unloadable):
        return None
    return memory.address + page - _POINTER, ctypes.c_uint64.from_address(memory.address + page)


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    data: bytes
    size: int
    link: int
    info: int
    align: int


class _Symbol(NamedTuple):
    name: str
    place: int  # its section; 0: another file's
    value: int
    outside: bool


class _Object:
    def __init__(self, data: bytes, resolve: Callable[[str], int]):
        self.resolve = resolve
        head = _HEADER.unpack_from(data)
        if head[0][:6] != b"\x7fELF\x02\x01" or head[1] != 1:
            raise Unloadable("this is no object file")
        if head[2] != machine():
            raise Unloadable(f"the object file is for another kind of machine ({head[2]})")
        self.machine, start, count, names = head[2], head[6], head[12], head[13]
        raw = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
        texts = self._bytes(data, raw, names)
        self.sections = [
            _Section(_name(texts, s[0]), s[1], s[2], self._bytes(data, raw, i), s[5], s[6], s[7], max(s[8], 1))
            for i, s in enumerate(raw)
        ]
        self.symbols = self._symbols()
        self.at: dict[int, int] = {}  # where sections that are needed lie in the memory
        self.stubs: dict[int, int] = {}  # where symbols have a jump

    @staticmethod
    def _bytes(data: bytes, raw: Any, number: int) -> bytes:
        if not 0 <= number < len(raw):
            raise Unloadable("the object file names a section that it does not have")
        kind, start, size, align = (raw[number][i] for i in (1, 4, 5, 8))
        if size > _MOST or align > mmap.PAGESIZE or align & (align - 1):
            raise Unloadable("the object file has a section of an impossible size")
        if kind == _EMPTY or not kind:
            return b""
        if start + size > len(data):
            raise Unloadable("the object file is cut off")
        return data[start : start + size]

    def _symbols(self) -> list[_Symbol]:
        tables = [s for s in self.sections if s.kind == _TABLE]
        if len(tables) != 1 or tables[0].link >= len(self.sections):
            raise Unloadable("the object file has no table of symbols")
        names, found = self.sections[tables[0].link].data, []
        for name, info, _, place, value, _ in _SYMBOL.iter_unpack(tables[0].data):
            if place >= len(self.sections) and place < 0xFF00:
                raise Unloadable("a symbol lies in no section")
            found.append(_Symbol(_name(names, name), place, value, not place and info >> 4 != 0))
        return found

    def load(self) -> dict[str, int]:
        wanted = [i for i, s in enumerate(self.sections) if s.flags & _IN_MEMORY and s.name != ".eh_frame"]
        size = 0
        fixed = [i for i in wanted if not self.sections[i].flags & _WRITABLE]
        for i in fixed:
            size = self._place(i, size)
        size = -(-size // _STUB) * _STUB
        for i in self._pointed_at():
            self.stubs[i], size = size, size + _STUB
        size = closed = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        for i in wanted:
            if i not in self.at:
                size = self._place(i, size)
        if size > _MOST:
            raise Unloadable("the object file is too large")
        memory = bytearray(size)
        for i in wanted:
            memory[self.at[i] : self.at[i] + len(self.sections[i].data)] = self.sections[i].data
        with _Memory(size) as place:
            for i, stub in self.stubs.items():
                memory[stub : stub + _STUB] = _JUMPS[self.machine] + self._address(i, place.address).to_bytes(
                    8, "little"
                )
            for s in self.sections:
                if s.kind == _REL:
                    raise Unloadable("the object file has relocations of an old kind")
                if s.kind == _RELA and s.info in self.at:
                    self._relocate(s, memory, place.address)
            place.fill(memory, closed)
        return {
            s.name: place.address + self.at[s.place] + s.value
            for s in self.symbols
            if s.name and s.place in self.at and s.value < self.sections[s.place].size
        }

    def _pointed_at(self) -> list[int]:
        """The symbols that need a pointer in memory: those of other files, and those that code asks for by way of one."""
        asked = {
            info >> 32
            for s in self.sections
            if s.kind == _RELA and s.info in self.at
            for _, info, _ in _RELOCATION.iter_unpack(s.data)
            if info & 0xFFFFFFFF in _BY_POINTER
        }
        return [i for i, s in enumerate(self.symbols) if s.outside or i in asked]

    def _address(self, number: int, start: int) -> int:
        symbol = self.symbols[number]
        if symbol.place in self.at:
            return start + self.at[symbol.place] + symbol.value
        found = self.resolve(symbol.name) if symbol.outside else 0
        if not found:
            raise Unloadable(f"there is no function {symbol.name!r}")
        return found

    def _place(self, number: int, size: int) -> int:
        section = self.sections[number]
        self.at[number] = start = -(-size // section.align) * section.align
        return start + section.size

    def _relocate(self, section: _Section, memory: bytearray, address: int) -> None:
        """Writes the addresses that a section needs."""
        write = _intel if self.machine == 62 else _arm
        start, size = self.at[section.info], self.sections[section.info].size
        for offset, info, addend in _RELOCATION.iter_unpack(section.data):
            number, kind = info >> 32, info & 0xFFFFFFFF
            if offset + 4 > size or number >= len(self.symbols):
                raise Unloadable("a relocation lies outside of its section")
            stub = self.stubs.get(number, 0)
            target = address + stub if self.symbols[number].outside else self._address(number, address)
            pointer = address + stub + _POINTER if stub else 0
            write(memory, start + offset, address + start + offset, kind, target, pointer, addend)


def _name(texts: bytes, start: int) -> str:
    end = texts.find(b"\0", start)
    if start > len(texts) or end < 0:
        raise Unloadable("the object file has a name without end")
    return texts[start:end].decode("ascii")


def _put(memory: bytearray, at: int, value: int, size: int, signed: bool = True) -> None:
    """Writes a number, which must fit."""
    if at + size > len(memory) or not -(1 << 8 * size - 1) <= value < 1 << (8 * size - signed):
        raise Unloadable("an address is too far away")
    memory[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _intel(memory: bytearray, at: int, here: int, kind: int, target: int, pointer: int, addend: int) -> None:
    """Relocations of x86-64."""
    if kind == 1:  # R_X86_64_64
        _put(memory, at, target + addend, 8, False)
    elif kind in (2, 4):  # R_X86_64_PC32, R_X86_64_PLT32
        _put(memory, at, target + addend - here, 4)
    elif kind in (9, 41, 42) and pointer:  # R_X86_64_GOTPCREL and the forms of it that may be relaxed
        _put(memory, at, pointer + addend - here, 4)
    elif kind == 24:  # R_X86_64_PC64
        _put(memory, at, target + addend - here, 8)
    else:
        raise Unloadable(f"relocation {kind} is not known")


# R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_LDST8_ABS_LO12_NC to LDST128; R_AARCH64_TSTBR14, CONDBR19, JUMP26, CALL26: bits, place
_SHIFTS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_BRANCHES = {279: (14, 5), 280: (19, 5), 282: (26, 0), 283: (26, 0)}


def _arm(memory: bytearray, at: int, here: int, kind: int, target: int, pointer: int, addend: int) -> None:
    """Relocations of AArch64: most put bits of an address into an instruction."""
    value = target + addend
    if kind == 257:  # R_AARCH64_ABS64
        return _put(memory, at, value, 8, False)
    if kind in (260, 261):  # R_AARCH64_PREL64, R_AARCH64_PREL32
        return _put(memory, at, value - here, 8 if kind == 260 else 4)
    word = int.from_bytes(memory[at : at + 4], "little")
    if kind in (311, 312):  # R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC
        if not pointer:
            raise Unloadable(f"relocation {kind} without a pointer")
        value, kind = pointer + addend, 275 if kind == 311 else 286
    if kind in (274, 275, 276):  # R_AARCH64_ADR_PREL_LO21, R_AARCH64_ADR_PREL_PG_HI21 and its form without a check
        distance = value - here if kind == 274 else (value >> 12) - (here >> 12)
        _fits(distance, 21)
        word = word & ~0x60FFFFE0 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5
    elif kind in _SHIFTS:
        shift = _SHIFTS[kind]
        if value & (1 << shift) - 1:
            raise Unloadable("an address is not aligned")
        word = word & ~(0xFFF << 10) | (value & 0xFFF) >> shift << 10
    elif kind in _BRANCHES:
        bits, place = _BRANCHES[kind]
        distance = value - here >> 2
        _fits(distance, bits)
        mask = (1 << bits) - 1
        word = word & ~(mask << place) | (distance & mask) << place
    else:
        raise Unloadable(f"relocation {kind} is not known")
    return _put(memory, at, word, 4, False)


def _fits(distance: int, bits: int) -> None:
    if not -(1 << bits - 1) <= distance < 1 << bits - 1:
        raise Unloadable("an address is too far away")


# -- memory ------------------------------------------------------------------------------------------------------------------


class _Memory:
    """Pages for machine code; given back only if filling them fails."""

    def __init__(self, size: int):
        self.size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        found = _process().mmap(None, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if found in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"there is no memory for {size} bytes of machine code")
        self.address: int = found

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is not None:
            _process().munmap(self.address, self.size)

    def fill(self, content: bytearray, closed: int) -> None:
        """Writes bytes, and makes the first `closed` of them executable and no longer writable.

        Linux itself makes instructions see what was written to a page before it became executable."""
        ctypes.memmove(self.address, (ctypes.c_char * len(content)).from_buffer(content), len(content))
        if _process().mprotect(self.address, closed, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unloadable("this system does not allow a process to make machine code executable")


@functools.cache
def _process() -> Any:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library
