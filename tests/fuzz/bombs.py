"""Small TorchScript archives and programs that ask for much memory. None may take more than ROOM: a MemoryError fails."""

import io
import resource
import zipfile

import flambeau as torch

ROOM = 700 << 20  # bytes of memory beyond what the loaded package takes


class Small(torch.nn.Module):
    def forward(self, x):
        return x


def sound():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Small()), file)
    with zipfile.ZipFile(file) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(records, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return file.getvalue()


def named(records, ending):
    return next(name for name in records if name.endswith(ending))


def changed(ending, data, **options):
    records = sound()
    records[named(records, ending)] = data
    return packed(records, **options)


def overlapping():
    """Many entries of the table of contents for one record."""
    records = sound()
    data = bytearray(packed({**records, "archive/data/0": bytes(1 << 16)}, zipfile.ZIP_STORED))
    table = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    entries = bytes(data[table:end])
    at = entries.rindex(b"PK\1\2")
    more = b"".join(entries[at:].replace(b"data/0", b"data/%d" % n) for n in range(1, 10))
    count = int.from_bytes(data[end + 10 : end + 12], "little") + 9
    tail = bytearray(data[end:])
    tail[8:12] = count.to_bytes(2, "little") * 2
    tail[12:16] = (len(entries) + len(more)).to_bytes(4, "little")
    return bytes(data[:end]) + more + bytes(tail)


FILES = {
    "source": lambda: changed(".py", sound()[named(sound(), ".py")] + b"\nx=0" * (15 << 20)),
    "lists": lambda: changed("data.pkl", b"\x80\x02(" + b"]" * (60 << 20) + b"l."),
    "tuples": lambda: changed("constants.pkl", b"\x80\x02(" + b"N\x85" * (30 << 20) + b"t."),
    "memo": lambda: changed("data.pkl", b"\x80\x02" + b"]q\x00" * (20 << 20) + b"."),
    "many records": lambda: packed({**sound(), **{f"archive/code/{n}.py": b"#" * (20 << 20) for n in range(8)}}),
    "other methods": lambda: changed(".py", b"#" * (20 << 20), method=zipfile.ZIP_BZIP2),
    "overlapping": overlapping,
    "typed lists": lambda: changed(
        "constants.pkl", b"\x80\x02](" + b"N" * 30_000 + b"eq\x000(" + b"ctorch.jit._pickle\nbuild_intlist\nq\x010"
        + b"h\x01h\x00\x85R" * 5_000 + b"t.", method=zipfile.ZIP_STORED),
    "modules": lambda: changed(
        "data.pkl", b"\x80\x02c__torch__\nSmall\nq\x000(" + b"h\x00)\x81" * 200_000 + b"t.", method=zipfile.ZIP_STORED),
}  # fmt: skip
PROGRAMS = {
    "ljust": "return s.ljust(10000000000)", "rjust": "return s.rjust(10000000000, '-')", "center": "return s.center(10000000000)",
    "zfill": "return s.zfill(10000000000)", "expandtabs": "return '\\t'.expandtabs(2000000000)", "times": "return s * (10000000000)",
    "doubled": "for i in range(40):\n        s = s + s\n    return s", "in place": "for i in range(40):\n        s += s\n    return s",
    "replaced": "t = s * 100000\n    return t.replace('a', t)", "joined": "t = s * 1000000\n    return t.join([t, t]).join([t] * 10000)",
    "formatted": "t = s * 10000000\n    return '{} {} {} {} {} {} {} {}'.format(t, t, t, t, t, t, t, t)",
    "percent": "return '%1000000000d' % 5", "list": "return str(len([0] * (10000000000)))", "range": "return str(list(range(10000000000)))",
    "added lists": "l = [0]\n    for i in range(40):\n        l = l + l\n    return str(len(l))",
    "extended": "l = [0]\n    for i in range(40):\n        l.extend(l)\n    return str(len(l))",
    "elements": "return str(torch.ones(1).expand(10000000000).tolist())",
    "comprehension": "return str(len([0 for i in range(10000000000)]))",
}  # fmt: skip


def main():
    torch.jit.load(io.BytesIO(packed(sound())))
    for kind in (*FILES, *PROGRAMS):
        if kind in FILES:
            data = FILES[kind]()
            print(kind, len(data), "bytes", end=" ", flush=True)
            run = lambda data=data: torch.jit.load(io.BytesIO(data))
        else:
            unit = torch.jit.CompilationUnit(f"def f(s: str) -> str:\n    {PROGRAMS[kind]}\n")
            print(kind, end=" ", flush=True)
            run = lambda unit=unit: unit.f("a")
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
        try:
            run()
            print("taken")
        except RuntimeError as error:
            print("refused:", str(error)[:150])
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("end")


if __name__ == "__main__":
    main()
