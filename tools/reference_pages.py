"""Writes the site's pages that come from the package itself: the reference, the table of operations, what differs from PyTorch.

    python tools/reference_pages.py docs        # docs/reference/*.md and docs/made/*.md

Nothing here is kept by hand: names, signatures and texts are those of the package, rows those of the records and of tests/conformance.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from op_support import Support, python_function, support  # noqa: E402

import flambeau  # noqa: E402

# Modules with a page of their own: name below the package, what it is for.
MODULES = {
    "nn": "layers, losses and containers",
    "nn.init": "first values of parameters",
    "nn.utils": "clipping, parametrization, packed sequences",
    "optim": "optimizers",
    "optim.lr_scheduler": "schedules of learning rates",
    "utils.data": "datasets, samplers, loaders",
    "utils.checkpoint": "recompute instead of keep",
    "utils.benchmark": "timers",
    "autograd": "derivatives, hooks, functions of your own",
    "func": "transforms of functions: grad, vmap, jacobians",
    "amp": "mixed precision",
    "compiler": "`torch.compile` and what it knows",
    "export": "programs as files",
    "jit": "TorchScript",
    "onnx": "ONNX files",
    "fx": "graphs of modules",
    "library": "operators of your own",
    "distributed": "many processes",
    "distributions": "probability",
    "profiler": "where the time goes",
    "cuda": "GPUs",
    "random": "seeds and streams",
    "hub": "models of others",
    "testing": "comparing tensors",
    "nested": "tensors of different lengths",
    "quantization": "integers for floats",
    "metrics": "scores, as torchmetrics has them",
    "vision": "pictures, as torchvision has them",
    "vision.transforms": "changing pictures",
    "vision.models": "networks for pictures",
    "doctor": "mistakes of training programs",
    "drawing": "tables, curves, pictures",
}
FURTHER = 4  # families with fewer operations share a page
_PLAIN = re.compile(r"([\\*_<>\[\]#|$~])")


def _escaped(line: str) -> str:
    """A line of a docstring as Markdown: what stands between backticks as it is, the rest without meaning."""
    parts = re.split(r"(``?[^`]+``?)", line)
    return "".join(p if i % 2 else _PLAIN.sub(r"\\\1", p) for i, p in enumerate(parts))


def markdown(doc: str | None) -> str:
    """A docstring as Markdown: paragraphs, indented parts and examples."""
    if not doc:
        return ""
    out: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        lines = paragraph.split("\n")
        example = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>>")), None)
        if example is not None:
            out += [_escaped(line) for line in lines[:example]]
            code = inspect.cleandoc("\n".join(lines[example:]))
            out += ["", "```python", re.sub(r" *# doctest:.*", "", code), "```", ""]
        elif lines[0].startswith("    "):
            out += ["", "```text", inspect.cleandoc(paragraph), "```", ""]
        else:
            out += ["", *(_escaped(line.strip()) for line in lines), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def _signature(value: Any, skip: int = 0) -> str:
    try:
        found = inspect.signature(value)
        kept = [p.replace(annotation=p.empty) for p in list(found.parameters.values())[skip:]]
        text = str(found.replace(parameters=kept, return_annotation=found.empty))
    except (TypeError, ValueError):
        return "(...)"
    return re.sub(
        r"<([\w. ]+?)(?: object)? at 0x[0-9a-f]+>",
        r"<\1>",
        re.sub(r"<(class|function) '?([\w.]+)'?[^>]*>", r"\2", text),
    )


def _entry(shown: str, label: str, signature: str, doc: str, note: str = "") -> str:
    return f"({label})=\n## `{shown}`\n\n`{shown}{signature}`\n\n{markdown(doc)}\n{note}\n"


def _label(path: str) -> str:
    return "op-" + path.lower().replace(".", "-").replace("_", "-")


FACTS: tuple[tuple[str, Callable[[Support], str]], ...] = (
    ("kind", lambda s: s.kind),
    ("dtypes", lambda s: s.dtypes),
    ("derivative", lambda s: s.derivative),
    ("`out=`", lambda s: s.out),
    ("in place", lambda s: s.in_place),
    ("vmap", lambda s: s.vmap),
    ("meta", lambda s: s.meta),
    ("CUDA", lambda s: s.cuda),
    ("ONNX", lambda s: s.onnx),
    ("autocast", lambda s: s.autocast),
)


def _shown(path: str) -> str:
    return path if path.startswith("Tensor.") else f"torch.{path}"


def operation_pages(rows: list[Support]) -> dict[str, str]:
    """A page for each family, and the table of all."""
    families: dict[str, list[Support]] = {}
    for row in rows:
        families.setdefault(row.family.split("_")[0] or "further", []).append(row)
    for name in [n for n, members in families.items() if len(members) < FURTHER]:
        families.setdefault("further", []).extend(families.pop(name))
    pages: dict[str, str] = {}
    for name, members in sorted(families.items()):
        first: dict[int, str] = {}
        parts = [f"# Operations: {name}\n"]
        for row in members:
            if id(row.function) in first:  # another name of one above
                parts.append(
                    f"({_label(row.path)})=\n## `{_shown(row.path)}`\n\nAnother name of [`{_shown(first[id(row.function)])}`](#{_label(first[id(row.function)])}).\n"
                )
                continue
            first[id(row.function)] = row.path
            facts = " · ".join(f"{title}: {of(row)}" for title, of in FACTS if of(row) != "–")
            parts.append(
                _entry(
                    _shown(row.path),
                    _label(row.path),
                    _signature(row.function),
                    inspect.getdoc(row.function) or "",
                    f"{facts}\n",
                )
            )
        pages[f"ops-{name}"] = "\n".join(parts)
    home = {row.path: page for page, name in ((f"ops-{n}", n) for n in families) for row in families[name]}
    head = "".join(f"<th>{title.strip('`')}</th>" for title, _ in FACTS)
    table = [f"<table class='docutils support'><thead><tr><th>operation</th>{head}</tr></thead><tbody>"]
    for s in rows:  # as HTML: a table of this length takes Sphinx half a minute
        link = f"<a href='{home[s.path]}.html#{_label(s.path)}'><code>{_shown(s.path)}</code></a>"
        table.append(f"<tr><td>{link}</td>" + "".join(f"<td>{of(s)}</td>" for _, of in FACTS) + "</tr>")
    table.append("</tbody></table>")
    pages["support"] = SUPPORT.format(count=len(rows), table="\n".join(table))
    return pages


SUPPORT = """---
hide-toc: true
---

# What every operation supports

{count} operations, one row each, read off their records when the site was built. `python tools/op_support.py NAME` prints a row.

- **kind**: a *body* is a formula for one element, from which the kernels of CPU and GPU and of the derivative are made; a *primitive* works on
  arrays, a *view* on none; a *composite* is made of several of these, and what is said of it holds for all of them.
- **dtypes**: of bodies by rule; of the others what they took when their samples were called with tensors of each kind (`tools/op_support.py
  --dtypes`), so there may be more. A dash: no sample with a floating operand. The conformance programs compare what is taken and refused with PyTorch.
- **derivative**: a dash where there is nothing to differentiate (comparisons, indices, factories). Forward mode and higher orders follow from it.
- **vmap**: whole batches by a *rule*, or sample by sample. **meta**: shapes without elements.
- **CUDA**: *generated* from the formula; *checked*: named in a sample that `tools/gpu_check.py` runs on a GPU and compares with the CPU.
- **ONNX**: whether the exporter has a row for an operator of this name (composites are exported by their parts).
- **autocast**: to the *lower* precision, to *single*, to the *widest* of the arguments, on CPU and CUDA or on the one that is named.

```{{raw}} html
{table}
```
"""


def _public(module: Any) -> Iterable[tuple[str, Any]]:
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    for name in sorted(set(names), key=str.lower):
        try:
            value = getattr(module, name)
        except Exception:  # a name that needs what is not installed
            continue
        if inspect.ismodule(value) or not callable(value):
            continue
        home = str(getattr(value, "__module__", ""))
        if home.startswith("flambeau") or home == "":
            yield name, value


def module_page(name: str, about: str) -> str:
    module = importlib.import_module(f"flambeau.{name}")
    parts = [f"# torch.{name}\n", f"{about[:1].upper()}{about[1:]}.\n", markdown(inspect.getdoc(module))]
    for what, value in _public(module):
        shown, label = (
            f"torch.{name}.{what}",
            f"api-{name}-{what}{'-class' * inspect.isclass(value)}".replace(".", "-").replace("_", "-"),
        )
        if inspect.isclass(value):
            doc = value.__doc__ or ""
            methods = [
                f"- `{m}{_signature(f, 1)}`: {_escaped((inspect.getdoc(f) or '').split(chr(10))[0])}"
                for m, f in vars(value).items()
                if inspect.isfunction(f) and not m.startswith("_") and m not in ("forward", "extra_repr") and f.__doc__
            ]
            parts.append(_entry(shown, label, _signature(value), doc, "\n".join(methods)))
        else:
            doc = python_function(value).__doc__ or value.__doc__ or ""
            parts.append(_entry(shown, label, _signature(value), doc))
    return "\n".join(parts)


def index(pages: Iterable[str]) -> str:
    operations = sorted(p for p in pages if p.startswith("ops-"))
    modules = "\n".join(f"| [torch.{m}](api-{m}.md) | {about} |" for m, about in MODULES.items())
    listed = "\n".join(["support", *operations, *(f"api-{m}" for m in MODULES)])
    families = ", ".join(f"[{p[4:]}]({p}.md)" for p in operations)
    return f"""# Reference

Written from the package when the site was built: names, signatures and docstrings. The examples are executed by `tests/test_docstrings.py`.
`torch` stands for flambeau, as in `import flambeau as torch`.

- [What every operation supports](support.md): dtypes, derivatives, forms, transforms, devices, in one table.
- Operations by family: {families}.

| module | |
| --- | --- |
{modules}

```{{toctree}}
:hidden:
:maxdepth: 1

{listed}
```
"""


# -- what differs from PyTorch --------------------------------------------------------------------------


def _conformance(name: str) -> set[str]:
    return {
        line
        for line in (ROOT / "tests" / "conformance" / f"{name}.txt").read_text().splitlines()
        if line and line[0] != "#"
    }


def counts() -> str:
    """How many rows of tests/conformance agree, beside how many were tried."""
    whole = {
        "ops": len(_conformance("ops")) + len(differing()),
        "modules": len(_conformance("modules")),
        "optims": len(_conformance("optims")),
    }
    said = {
        "ops": "operations of PyTorch's test database",
        "modules": "modules of `torch.nn`",
        "optims": "optimizers and schedulers",
    }
    rows = [f"| {what} | {len(_conformance(name))} | {whole[name]} |" for name, what in said.items()]
    return "\n".join(["| | agree | of |", "| --- | ---: | ---: |", *rows, ""])


def differing() -> dict[str, str]:
    """Operations that do not agree in all checks, with what differs: those of docs/op_differences.txt that the list of agreeing ones lacks."""
    lines = [
        line.split(": ", 1)
        for line in (ROOT / "docs" / "op_differences.txt").read_text().splitlines()
        if line[:1] != "#"
    ]
    agree = _conformance("ops")
    return {name: what for name, what in lines if name not in agree}


def missing_names() -> list[str]:
    """Of the names in docs/missing_names.txt those that the package still does not have."""

    def is_there(path: str) -> bool:
        *modules, name = path.split(".")
        try:
            return hasattr(functools.reduce(getattr, modules, flambeau), name)
        except AttributeError:
            return False

    lines = (ROOT / "docs" / "missing_names.txt").read_text().splitlines()
    return [line for line in lines if line[:1] != "#" and not is_there(line)]


def on_arm() -> str:
    rows, said = [], ""
    for line in (ROOT / "tests" / "conformance" / "aarch64.txt").read_text().splitlines():
        name, _, why = line.partition("  # ")
        said = said if why in ("the same", "") else why
        rows.append(f"| `{name.split()[1]}` | {said} |")
    return "\n".join(["| operation | what differs |", "| --- | --- |", *rows, ""])


def listed(rows: dict[str, str]) -> str:
    return "\n".join(
        [
            "| operation | what differs |",
            "| --- | --- |",
            *(f"| `{name}` | {_escaped(what)} |" for name, what in rows.items()),
            "",
        ]
    )


def write(folder: Path) -> None:
    reference, made = folder / "reference", folder / "made"
    for place in (reference, made):
        place.mkdir(exist_ok=True)
    pages = operation_pages(support())
    pages.update((f"api-{name}", module_page(name, about)) for name, about in MODULES.items())
    pages["index"] = index(pages)
    for stale in reference.glob("*.md"):
        stale.unlink()
    for name, text in pages.items():
        (reference / f"{name}.md").write_text(text)
    (made / "conformance.md").write_text(counts())
    (made / "differences.md").write_text(listed(differing()))
    (made / "missing.md").write_text(", ".join(f"`torch.{name}`" for name in missing_names()) + ".\n")
    (made / "aarch64.md").write_text(on_arm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
