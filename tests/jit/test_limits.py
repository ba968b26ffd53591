"""Strings and lists of programs may not grow without end; below the limits they work as in Python."""

import io
import zipfile

import pytest

import flambeau as torch


def function(body, kind="str"):
    return torch.jit.CompilationUnit(f"def f(s: str) -> {kind}:\n    {body}\n").f


@pytest.mark.parametrize("body", [
    "return s.ljust(10 ** 10)", "return s.rjust(10 ** 10)", "return s.center(10 ** 10)", "return s.zfill(10 ** 10)",
    "return '\\t\\t'.expandtabs(10 ** 9)", "return s * (10 ** 10)", "return (s * 100000).replace('a', s * 100000)",
    "return (s * 1000000).join([s] * 1000)", "return str([0] * (10 ** 10))", "return str(list(range(10000000000)))",
    "return str([i for i in range(10000000000)])", "return str(torch.ones(1).expand(10000000000).tolist())",
])  # fmt: skip
def test_what_grows_too_large_is_refused(body):
    with pytest.raises(RuntimeError, match="too large"):
        function(body)("a")


@pytest.mark.slow
def test_nested_lists_are_not_shown_without_end():
    body = "l = [s]\n    for i in range(40):\n        l = [l, l]\n    return "
    for shown in ("str(l)", "'{}'.format(l)", "f'{l}'"):
        with pytest.raises(RuntimeError, match="too large"):
            function(body + shown)("a")


def test_below_the_limits_all_is_as_in_python():
    f = function("return s.ljust(3) + s.rjust(3, '-') + s.center(5, '*') + '7'.zfill(3) + 'a\\tb'.expandtabs(4)")
    assert f("a") == "a  --a**a**007a   b"
    assert function("return 'abcabc'.replace('b', 'xx', 1) + '-'.join(['p', 'q']) + s * 3")("z") == "axxcabcp-qzzz"
    assert function("return '{} and {}'.format(s, [1, 2])")("z") == "z and [1, 2]"
    assert function("return 'a%sb%d%%' % (s, 5)")("z") == "azb5%"
    assert function("return '%s' % s")("z") == "z"
    assert function("return [i * 2 for i in range(5) if i > 2]", "List[int]")("z") == [6, 8]
    assert function("l = [1]\n    l += [2]\n    l.extend([3])\n    return l + [4]", "List[int]")("z") == [1, 2, 3, 4]


@pytest.mark.parametrize("text", ["%5d", "%.2f", "%1000000000d", "%x"])
def test_formats_with_widths(text):
    with pytest.raises(RuntimeError, match="is not supported in TorchScript format strings"):
        function(f"return '{text}' % 5")("a")


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


def repacked(**changes):
    """A sound archive, compressed throughout, with the contents of some records changed."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Net()), file)
    made = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            change = next((change for key, change in changes.items() if info.filename.endswith(key)), None)
            new.writestr(info.filename, old.read(info) if change is None else change)
    made.seek(0)
    return made


def test_compressed_archives_load():
    assert torch.jit.load(repacked())(torch.ones(1)).tolist() == [2.0]


@pytest.mark.parametrize("name, parts", [
    (".py", (b"", b"#", b"")), ("data.pkl", (b"\x80\x02(", b"]", b"l.")), ("constants.pkl", (b"", b"N", b"")),
])  # fmt: skip
def test_small_archives_do_not_unpack_to_large_ones(name, parts):
    first, many, last = parts
    file = repacked(**{name: first + many * (40 << 20) + last})
    assert len(file.getvalue()) < 100_000
    with pytest.raises(RuntimeError, match="unpack to more than is sensible"):
        torch.jit.load(file)
