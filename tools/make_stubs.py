"""Writes weft/_C.pyi and docs/ops.md from the op table; `--check` tells whether they are right.

The stub is what editors and type checkers see of the extension; the table is its only source.
"""

import keyword
import sys
from pathlib import Path

from weft import _C, _library

ROOT = Path(__file__).resolve().parent.parent
TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "int": "int",
    "int[]": "int | Sequence[int]",
    "float": "float",
    "bool": "_bool",
    "Scalar": "float",
    "dtype": "dtype",
    "str": "str",
}


def parameters(schema: str, method: bool) -> str:
    """The schema's parameters as Python ones."""
    inside = schema[schema.index("(") + 1 : schema.rindex(")", 0, schema.rindex("->"))]
    out = []
    optional = False  # Python wants defaults after the first one
    for part in filter(None, (p.strip() for p in inside.split(","))):
        if part == "*":
            out.append("*")
            optional = False
            continue
        kind, rest = part.split(" ", 1)
        name, _, default = rest.partition("=")
        hint = TYPES[kind.rstrip("?")] + (" | None" if kind.endswith("?") else "")
        if kind == "Tensor" and out:
            hint += " | float"
        optional = optional or bool(default) or kind.endswith("?")
        name += "_" if keyword.iskeyword(name) else ""
        out.append(f"{name}: {hint}" + (" = ..." if optional else ""))
    if method:
        out[0] = "self"
    return ", ".join(out)


def result(schema: str) -> str:
    text = schema[schema.rindex("->") + 2 :].strip()
    if text == "Tensor":
        return "Tensor"
    if text == "Tensor[]":
        return "tuple[Tensor, ...]"
    return f"tuple[{', '.join(['Tensor'] * (text.count(',') + 1))}]"


def group(records: list[dict], chosen: str, suffix: str = "") -> dict[str, list[dict]]:
    names: dict[str, list[dict]] = {}
    for r in records:
        if r[chosen]:
            for name in [r["public_name"], *r["aliases"]]:
                names.setdefault(name + suffix, []).append(r)
    return dict(sorted(names.items()))


def signatures(names: dict[str, list[dict]], method: bool, indent: str) -> list[str]:
    lines = []
    for name, overloads in names.items():
        for r in overloads:
            if len(overloads) > 1:
                lines.append(f"{indent}@overload")
            given, gives = parameters(r["schema"], method), result(r["schema"])
            lines.append(f"{indent}def {name}({given}) -> {gives}: ...")
    return lines


def stub() -> str:
    records = _C._records()
    lines = [
        "# Written by tools/make_stubs.py from the op table.",
        "from collections.abc import Sequence",
        "from typing import Any, overload",
        "",
        "_bool = bool",
        "",
        "class dtype:",
        "    is_floating_point: _bool",
        "    is_complex: _bool",
        "    itemsize: int",
        "",
        "class Size(tuple[int, ...]):",
        "    def numel(self) -> int: ...",
        "",
        "class Node: ...",
        "class HookHandle:",
        "    def remove(self) -> None: ...",
        "",
        "float32: dtype",
        "float64: dtype",
        "int64: dtype",
        "bool: dtype",
        "",
        "class Tensor:",
        "    shape: Size",
        "    dtype: dtype",
        "    ndim: int",
        "    requires_grad: _bool",
        "    is_leaf: _bool",
        "    grad: Tensor | None",
        "    grad_fn: Node | None",
        "    data: Tensor",
        "    def __getattr__(self, name: str) -> Any: ...",
    ]
    lines += signatures(group(records, "method"), True, "    ")
    lines += signatures(group(records, "inplace", "_"), True, "    ")
    lines += ["", *signatures(group(records, "function"), False, "")]
    lines += ["", "def __getattr__(name: str) -> Any: ..."]
    return "\n".join(lines) + "\n"


def ops_page() -> str:
    lines = ["# Operators", "", "Written by tools/make_stubs.py from the op table.", ""]
    for name, overloads in group(_library.records(), "public_name").items():
        kinds = ("function", "method", "inplace")
        public = [r for r in overloads if "call" in r or any(r[kind] for kind in kinds)]
        if not public:
            continue
        lines += [f"## {name}", ""]
        for r in public:
            doc = r["doc"].split("\n\n>>>")[0].split("\n>>>")[0].strip()
            lines += [f"`{r['schema']}`", "", doc, "", f"Record: `{r['file']}`", ""]
    return "\n".join(lines)


def main() -> int:
    wanted = {ROOT / "weft/_C.pyi": stub(), ROOT / "docs/ops.md": ops_page()}
    wrong = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    if "--check" not in sys.argv:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    print(*(f"{p.relative_to(ROOT)} is not what the table says" for p in wrong), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
