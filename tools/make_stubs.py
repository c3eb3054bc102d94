"""Writes weft/_C.pyi, docs/ops.md and docs/names.md; `--check` tells whether they are right.

The stub is what editors and type checkers see of the extension, docs/ops.md the records: the op
table is the only source of both. docs/names.md lists every public name and where it is written.
"""

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stub import group, stub

import weft
from weft import _library_ops

ROOT = Path(__file__).resolve().parent.parent


def ops_page() -> str:
    lines = ["# Operators", "", "Written by tools/make_stubs.py from the op table.", ""]
    for name, overloads in group(_library_ops.records(), "public_name").items():
        kinds = ("function", "method", "inplace")
        public = [r for r in overloads if "call" in r or any(r[kind] for kind in kinds)]
        if not public:
            continue
        lines += [f"## {name}", ""]
        for r in public:
            doc = inspect.cleandoc(r["doc"]).split("\n\n>>>")[0].split("\n>>>")[0].strip()
            lines += [f"`{r['schema']}`", "", doc, "", f"Record: `{r['file']}`", ""]
    return "\n".join(lines)


HOMES = (
    "", "Tensor", "nn", "nn.functional", "nn.attention", "nn.attention.bias",
    "nn.attention.flex_attention", "nn.grad", "nn.init", "nn.parameter", "nn.parallel", "nn.utils",
    "nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn",
    "nn.utils.stateless", "optim", "optim.lr_scheduler", "optim.swa_utils", "autograd",
    "autograd.forward_ad", "autograd.functional", "autograd.graph", "func", "batching", "compiler",
    "amp", "distributions", "distributions.constraints", "distributions.transforms",
    "distributions.utils", "array_api", "array_api.fft", "array_api.linalg", "linalg", "fft",
    "special", "signal.windows", "random", "masked", "nested", "sparse", "serialization",
    "safetensors", "utils.checkpoint", "utils.data", "utils.dlpack", "utils.benchmark",
    "utils.collect_env", "utils.flop_counter", "memory", "profiler", "utils.hooks",
    "multiprocessing", "jit", "export", "fx", "onnx", "testing", "accelerator", "cuda", "cpu",
    "xpu", "mps", "mtia", "distributed", "distributed.checkpoint", "distributed.device_mesh",
    "distributed.fsdp", "distributed.ray", "distributed.tensor", "futures", "hub", "library",
    "overrides", "quasirandom", "utils._pytree", "utils.tensorboard", "utils.weak", "vision",
    "vision.datasets", "vision.io", "vision.models", "vision.ops", "vision.transforms",
    "vision.transforms.functional", "vision.transforms.v2", "vision.transforms.v2.functional",
    "vision.utils",
)  # fmt: skip


def namespace(home: str) -> Any:
    return weft.Tensor if home == "Tensor" else importlib.import_module(f"weft.{home}".rstrip("."))


def public_names(home: str) -> Iterator[tuple[str, Any]]:
    """What a user can call or read in a namespace: no modules, nothing of the language's own."""
    space: Any = namespace(home)
    for name in sorted(n for n in getattr(space, "__all__", dir(space)) if not n.startswith("_")):
        thing = getattr(space, name)
        own = getattr(thing, "__module__", None) or "weft"
        foreign = own.split(".")[0] not in ("weft", "torch", "builtins")
        if not (isinstance(thing, types.ModuleType) or foreign or thing is None):
            yield name, thing


class Places:
    """File and first sentence of a name: of its record, of Python's source, or of the binding's."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        for r in reversed(_library_ops.records()):
            for name in (r["name"], r["public_name"], *r["aliases"]):
                self.records[name] = r
        self.binding: dict[str, str] = {}
        for file in sorted((ROOT / "src/python").glob("*.cpp")):
            text = file.read_text()
            named = re.findall(r'[{(]"(\w+)",|(?:add|ready)_type\([^"]*"[\w.]*?(\w+)",', text)
            for name in (name for pair in named for name in pair if name):
                self.binding.setdefault(name, f"src/python/{file.name}")

    def of(self, home: str, name: str, thing: Any) -> tuple[str, str]:
        source = getattr(thing, "fget", None) or thing
        source = inspect.unwrap(source)
        source = getattr(source, "__func__", source)
        own = getattr(thing, "__name__", name)
        code = getattr(source, "__code__", None)
        doc = (getattr(thing, "__doc__", None) or "").strip()
        if isinstance(thing, (weft.dtype, weft.layout, weft.memory_format, float, bool)):
            kind = type(thing)
            return "weft/__init__.py", f"{repr(thing)}, a {kind.__name__.replace('_', ' ')}."
        if code is not None:
            file = "weft/" + code.co_filename.rpartition("/weft/")[2]
        elif isinstance(thing, type) and thing.__module__.startswith("weft."):
            file = thing.__module__.replace(".", "/") + ".py"
            if not (ROOT / file).exists():
                file = file.removesuffix(".py") + "/__init__.py"
        else:
            keys = (f"{home}.{name}", name, name.removesuffix("_"), own)
            record = next((self.records[k] for k in keys if k in self.records), None)
            if record is None:
                return self.binding.get(name, "src/python/types.cpp"), doc
            file, doc = record["file"], record["doc"]
        return file, doc


def names_page() -> str:
    places = Places()
    lines = ["# Public names", "", "Written by tools/make_stubs.py.", ""]
    for home in HOMES:
        lines += [f"## {'.'.join(filter(None, ('weft', home)))}", ""]
        for name, thing in public_names(home):
            file, doc = places.of(home, name, thing)
            first = " ".join(doc.split("\n\n")[0].split(">>>")[0].split())
            first = re.split(r"(?<=[^.]\.)\s", first, maxsplit=1)[0]
            lines.append(f"- `{name}` ({file}){': ' + first if first else ''}")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    wanted = {
        ROOT / "weft/_C.pyi": stub(),
        ROOT / "docs/ops.md": ops_page(),
        ROOT / "docs/names.md": names_page(),
    }
    wrong = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    if "--check" not in sys.argv:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    print(*(f"{p.relative_to(ROOT)} is not what the table says" for p in wrong), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
