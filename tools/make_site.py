"""What mkdocs.yml's site has beside the files of docs/: README and its like, and the API's pages.

A hook of MkDocs: it is imported by `make docs`. The pages of the API are what the names of each
namespace say of themselves (tools/make_stubs.py lists them), signature and docstring.
"""

import inspect
import linecache
import re
import sys
from pathlib import Path
from typing import Any

from make_stubs import HOMES, namespace, public_names
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")


LISTED: dict[type, str] = {}  # classes, by the first name they are listed under


class Bare(str):
    """An annotation that is shown without quotes."""

    __repr__ = str.__str__


def signature(full: str, thing: Any) -> str:
    """`full(...)` in Python, "" where the docstring says it (ops) or nothing is called."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [
        p.replace(annotation=Bare(p.annotation)) if isinstance(p.annotation, str) else p
        for p in found.parameters.values()
    ]
    result = found.return_annotation
    result = Bare(result) if isinstance(result, str) else result
    if isinstance(thing, type) or result == "None":
        result = inspect.Signature.empty
    return full + str(found.replace(parameters=bare, return_annotation=result))


def fenced(language: str, lines: list[str]) -> list[str]:
    return ["", f"```{language}", *lines, "```", ""]


def escaped(text: str) -> str:
    """Plain text as Markdown: only what is within backticks is markup."""
    parts = re.split(r"(`[^`\n]*`)", text)
    special = re.compile(r"[*_<>\[\]#|\\&]")
    return "".join(
        p if p[:1] == "`" else special.sub(lambda m: f"&#{ord(m[0])};", p) for p in parts
    )


SCHEMA = re.compile(r"[\w.]+\(.*\)( -> .*)?")
TITLE = re.compile(r"[A-Z]\w+:")
ITEM = re.compile(r" {4}(\S[^:]*): (.*)")


def markdown(doc: str) -> list[str]:
    """A docstring: schemas and examples as code, `Args:` and its like as lists."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", doc.strip("\n")):
        part_lines = part.split("\n")
        if SCHEMA.fullmatch(part_lines[0]):
            lines += fenced("{ .python .signature }", [part_lines.pop(0)])
        while part_lines:
            line = part_lines.pop(0)
            item = ITEM.fullmatch(line)
            if line.lstrip().startswith(">>>"):
                lines += fenced("pycon", [inspect.cleandoc("\n".join([line, *part_lines]))])
                break
            if TITLE.fullmatch(line) and part_lines:
                lines += ["", f"**{line[:-1]}**", ""]
            elif item:
                lines.append(f"- **{escaped(item[1])}**: {escaped(item[2])}")
            else:
                lines.append(escaped(line) if line[:8].strip() else line[4:8] + escaped(line[8:]))
        lines.append("")
    return lines


def entry(home: str, name: str, thing: Any, level: int = 2) -> list[str]:
    """A name of a namespace: heading, signature, docstring, and a class's own methods."""
    full = f"{home}.{name}"
    lines = [f"{'#' * level} {escaped(name)} {{ #{full} }}", ""]
    if isinstance(thing, type) and level == 2 and LISTED.setdefault(thing, full) != full:
        listed = LISTED[thing]
        return [*lines, f"Is [{listed}]({listed.rpartition('.')[0]}.md#{listed}).", ""]
    if not (callable(thing) or inspect.isdatadescriptor(thing)):
        return [*lines, f"`{thing!r}`, of class `{type(thing).__name__}`.", ""]
    called = signature(full, thing)
    lines += fenced("{ .python .signature }", [called]) if called else []
    lines += markdown(inspect.getdoc(thing) or "")
    if full.removeprefix("weft.") in HOMES:
        return [*lines, f"Its methods: [{full}]({full}.md).", ""]
    if isinstance(thing, type) and level == 2:
        for own, method in sorted(vars(thing).items()):
            if own[0] != "_" and getattr(method, "__doc__", None) and callable(getattr(thing, own)):
                lines += entry(full, own, getattr(thing, own), level + 1)
    return lines


def page(home: str) -> str:
    full = ".".join(filter(None, ("weft", home)))
    about = inspect.getdoc(namespace(home)) or ""
    lines = [f"# {full}", "", *markdown(about)]
    for name, thing in public_names(home):
        lines += entry(full, name, thing)
    return "\n".join(lines)


def root_page(name: str) -> str:
    """A file beside docs/, with its links as seen from there."""
    return (ROOT / name).read_text().replace("](docs/", "](").replace("](LICENSE)", "](LICENSE.md)")


def on_config(config: MkDocsConfig) -> None:
    """Lists the API's pages; and shows the sources of cells to what reads sources."""
    names = [".".join(filter(None, ("weft", home))) for home in HOMES]
    api = next(section for section in config.nav or [] if "API" in section)
    api["API"] = [{name: f"api/{name}.md"} for name in names]
    sys.addaudithook(keep_source)


def keep_source(event: str, args: tuple[Any, ...]) -> None:
    """`weft.compile` and `weft.jit` read the source of a cell as they read a file's.

    What is compiled under a cell's name first is the cell; later ones are parts, as read there."""
    name = str(args[1]) if event == "compile" else ""
    if name.startswith("<code block") and name not in linecache.cache:
        text = args[0].decode() if isinstance(args[0], bytes) else str(args[0])
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fences whose words are for the tests, as `python no-run`, in words that the site knows."""
    if page.file.src_uri in ("names.md", "ops.md"):  # the API's pages have the same names
        page.meta["search"] = {"exclude": True}
    markdown = re.sub(r"^```python [\w-]+$", "```python", markdown, flags=re.MULTILINE)
    return re.sub(r"^```python\n(?=>>>)", "```pycon\n", markdown, flags=re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> None:
    for name in ("iframe-worker.js", "site.css"):
        source = str(ROOT / "tools" / name)
        files.append(File.generated(config, f"assets/{name}", abs_src_path=source))
    LISTED.clear()
    for name in ROOT_PAGES:
        uri = {"README.md": "index.md", "LICENSE": "LICENSE.md"}.get(name, name)
        files.append(File.generated(config, uri, content=root_page(name)))
    for home in HOMES:
        name = ".".join(filter(None, ("weft", home)))
        files.append(File.generated(config, f"api/{name}.md", content=page(home)))
