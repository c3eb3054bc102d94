"""Fuzzing of `weft.compile`: a compiled Module does, call for call, what it does uncompiled.

    python tests/compiler/fuzz_models.py --programs 1000 --seed 1

A random Module is called several times, with inputs of other shapes, layouts and dtypes, and with
changes between the calls: attributes, modes, weights, hooks, methods, globals, results written in
place. Compared are results (to the bit, with strides, versions, aliases of inputs and of each
other), gradients (to the bit, or as `Near` says), exceptions with their lines, the random
generator and the Module afterwards. The first mismatches are printed with minimal Modules.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import math
import random
import re
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import weft

HEADER = """import weft
import weft.nn.functional as F
from weft import nn

SCALE = 0.5


def walk(tree, layer):
    if isinstance(tree, tuple):
        return layer(walk(tree[0], layer) + walk(tree[1], layer)).tanh()
    return tree


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.drop = nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4, bias=False)])
        self.w = nn.Parameter(weft.randn(4, 4))
        self.register_buffer("seen", weft.zeros(4))
        self.k, self.flag, self.kept = 1, True, []

    def helper(self, x, n=2):
        if n <= 0 or x.sum() > 5:
            return x
        return self.helper(self.layers[n % 3](x) * SCALE, n - 1)

"""
TEMPLATES = {
    "t": (
        "(<t> + <t>)", "(<t> * <t>)", "(<t> - <t>)", "(<t> * <f>)", "<t>.tanh()", "<t>.relu()",
        "weft.sigmoid(<t>)", "<t>.exp().clamp(max=4.0)", "self.lin(<t>)", "self.norm(<t>)",
        "weft.softmax(<t>, dim=1)", "self.drop(<t>)", "<t>.flip(1)", "<t>.t().contiguous().t()",
        "weft.cat([<t>[:, :2], <t>[:, 2:]], 1)", "weft.cat(<t>.chunk(2, 1)[::-1], 1)",
        "weft.stack([<t>, <t>]).sum(0)", "weft.where(<t> > 0, <t>, <t>)", "(<t> @ self.w)",
        "F.linear(<t>, self.w)", "self.helper(<t>, <i>)", "<t>.detach()", "weft.rand_like(<t>)",
        "<t> * <t>.sum(1, keepdim=True)", "(<t> - <t>.mean(0))", "(<t> + self.seen)",
        "self.layers[<i> % 3](<t>)",
        "<t>.clone()", "<t>.view(-1, 4)", "(<t> if <c> else <t>)", "<t>.square()", "-<t>",
        "walk(((<t>, <t>), <t>), self.lin)", "sum([<t> for _ in range(<i> % 3)], <t>)", "<t>[:]",
        "(lambda v: v + <t>)(<t>)", "F.dropout(<t>, 0.3, self.training)", "<t>.unsqueeze(0)[0]",
        "(<t> / (<t>.abs() + 1))", "weft.zeros_like(<t>)", "F.gelu(<t>)",
        "(<t> + <t>[0])", "<t>[:<i> + 1]",
        "<t>.expand(2, -1, -1)[0]", "weft.randn(1, 4)", "max(<t>, <t>, key=key)",
    ),
    "c": (
        "<t>.sum() > 0", "<t>.mean() < <f>", "<i> > 1", "self.flag", "self.training", "not <c>",
        "bool((<t> > 0).all())", "<t>.shape[0] > 1", "(<c> and <c>)", "(<c> or <c>)",
        "<t>.requires_grad", "0 < <i> <= 2", "<t> is <t>", "len(out) > 1",
    ),
    "i": (
        "n", "self.k", "1", "2", "<t>.shape[0]", "len(out)", "int(<t>.sum()) % 3", "(<i> + <i>)",
        "len(self.kept)",
    ),
    "f": ("SCALE", "0.5", "float(<t>.sum())", "<t>.max().item()", "<i>"),
}  # fmt: skip
SIMPLE = (
    "<v> = <t>", "<v> = <t>", "<v> = <t>", "<v> = <t>", "h += <t>", "h *= <f>", "h[0] = <t>[0]",
    "h.add_(<t>)", "h[:, 1:].mul_(0.5)", "h[:, :1] = <f>", "self.seen.add_(1)", "<v> += <t>",
    "<v> = <v> * <f>", "h = h.clone()", "<v> = <t>.double()", "<v> = <t>[<i>]", "<v> = <t>.mean(0)",
    "h[0].mul_(<t>[0])", "<v> = <t>", "<v> = <t>", "self.seen.copy_(<t>[0])",
    "self.seen = <t>.detach().mean(0)", "self.k += 1", "self.k = <i> % 4", "out.append(<t>)",
    "<v>, <v> = <t>, <t>", "self.flag = <c>", "assert <c> or <c> or <c>", "n = <i>",
    "<v> = <t>.requires_grad_()",
    "self.kept.append(<i>)", "h.zero_()",
    "if <c> and <c>: raise ValueError(<f>)", "a, b = <t>.chunk(2, 1)\n# h = weft.cat([b, a], 1)",
)  # fmt: skip
RETURNS = ("<v>", "(<v>, <v>)", "[<v>, *out]", "{'a': <v>, 'b': (<t>, <i>)}", "<t>.sum()", "<t>")
CHANGES = (
    "m.k = {r}", "m.flag = not m.flag", "m.train()", "m.eval()", "m.lin.weight.data.mul_(0.9)",
    "m.w = nn.Parameter(m.w.detach() * 0.5)", "m.lin.requires_grad_({r} > 1)", "m.kept.append({r})",
    "m.seen.zero_()", "m.hook = m.norm.register_forward_hook(lambda m, a, out: out * 2)",
    "m.hook.remove()", "m.helper = types.MethodType(lambda self, x, n=2: x * n, m)",
    "del m.helper", "m.layers[1] = nn.ReLU()", "m.layers[0] = nn.Linear(4, 4)",
    "names['SCALE'] = {r} * 0.25", "m.drop.p = 0.1 * {r}", "last[0].detach().add_(1)",
    "m.lin.bias = None", "m.double()", "m.float()", "m.zero_grad()", "m.k = True", "m.k = 1.5",
)  # fmt: skip
CALLS = 7
KINDS = {"simple": 12, "if": 4, "for": 2, "while": 1, "try": 1, "no_grad": 1, "leave": 1}


class Step(NamedTuple):
    """What happens before a call, and its inputs."""

    change: str
    rows: int
    strided: bool
    grad: bool
    double: bool
    same: bool
    n: int


class Draw:
    """The text of a Module's `forward`, and its calls: the same for the same seed."""

    def __init__(self, seed: Any) -> None:
        self.random = random.Random(seed)
        self.lines = ["    def forward(self, x, y, n=1):"]
        self.put(2, self.one(("out, h = [], x", *["out, h = [], x * 1"] * 4)))
        self.loops = 0
        self.block(self.random.randint(2, 6), 2, 2)
        self.lines.append("        return " + self.fill(self.one(RETURNS), 2))
        self.text = "\n".join(self.lines) + "\n"
        self.steps = self.calls()

    def one(self, choices: Any) -> Any:
        return self.random.choice(choices)

    def calls(self) -> list[Step]:
        chance, found = self.random.random, []
        rows, grad = self.one((1, 2, 3)), chance() < 0.6
        for k in range(CALLS):
            change = self.one(CHANGES).format(r=self.one(range(4))) if k and chance() < 0.35 else ""
            given = self.one((1, 2, 3, 0)) if chance() < 0.2 else rows
            odd = [chance() < share for share in (0.15, 0.1, 0.03, 0.05)]
            n = 2 if k % 3 == 2 else 1
            found.append(Step(change, given, odd[0], grad != odd[1], odd[2], odd[3], n))
        return found

    def fill(self, template: str, depth: int) -> str:
        def one(match: re.Match[str]) -> str:
            kind = match.group(1)
            if kind == "v":
                return self.one("xyh")
            if depth <= 0 or self.random.random() < 0.3:
                leaves = {"t": "xyh", "c": ("self.flag", "x.sum() > 0"), "i": ("n", "1", "self.k")}
                return self.one(leaves.get(kind, ("SCALE", "0.5", "2")))
            return self.fill(self.one(TEMPLATES[kind]), depth - 1)

        return re.sub(r"<(\w)>", one, template)

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, count: int, depth: int, indent: int) -> None:
        for _ in range(count):
            kinds = KINDS if depth else {"simple": 9, "leave": 1}
            kind = self.random.choices(list(kinds), list(kinds.values()))[0]
            getattr(self, kind)(depth - 1, indent)

    def some(self) -> int:
        return self.one((1, 1, 2, 3))

    def simple(self, depth: int, indent: int) -> None:
        for line in self.fill(self.one(SIMPLE), 3).split("\n# "):
            self.put(indent, line)

    def leave(self, depth: int, indent: int) -> None:
        ways = [*(["break", "continue"] * 2 if self.loops else []), "return <v>"]
        self.put(indent, self.fill("if <c>:", 2))
        self.put(indent + 1, self.fill(self.one(ways), 2))

    def body(self, header: str, depth: int, indent: int) -> None:
        self.put(indent, header)
        self.block(self.some(), depth, indent + 1)

    def loop(self, header: str, depth: int, indent: int, first: str = "") -> None:
        self.put(indent, header)
        if first:
            self.put(indent + 1, first)
        self.loops += 1
        self.block(self.some(), depth, indent + 1)
        self.loops -= 1

    def _if(self, depth: int, indent: int) -> None:
        self.body(self.fill("if <c>:", 2), depth, indent)
        if self.random.random() < 0.5:
            self.body("else:", depth, indent)

    def _for(self, depth: int, indent: int) -> None:
        if self.random.random() < 0.3:
            self.loop("for layer in self.layers:", depth, indent, f"{self.one('xyh')} = layer(h)")
        else:
            self.loop(self.fill("for i in range(<i> % 4):", 1), depth, indent)

    def _while(self, depth: int, indent: int) -> None:
        name = f"count{indent}"
        self.put(indent, f"{name} = 0")
        self.loop(self.fill(f"while {name} < 3 and <c>:", 2), depth, indent, f"{name} += 1")

    def _try(self, depth: int, indent: int) -> None:
        self.body("try:", depth, indent)
        self.body("except (RuntimeError, IndexError, ValueError) as error:", depth, indent)
        self.put(indent + 1, "out.append(str(error))")

    def no_grad(self, depth: int, indent: int) -> None:
        scope = self.one(("no_grad()", "enable_grad()", "set_grad_enabled(<c>)", "no_grad()"))
        self.body(f"with weft.{self.fill(scope, 1)}:", depth, indent)


for _name in ("if", "for", "while", "try"):
    setattr(Draw, _name, getattr(Draw, "_" + _name))


# ---- what a call shows


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in flat(item)]
    if isinstance(value, dict):
        return [part for item in value.items() for part in flat(item)]
    return [value]


def bits(t: weft.Tensor) -> bytes:
    return bytes(t.detach().contiguous().view(-1).numpy().tobytes())


class Near:
    """A gradient, equal to one that is the same to the bit, or to 1e-6 of the norm.

    Sums over several uses may be made in another order, and their error is that of their terms.
    Where these cancel, their norms are not the sum's; nobody sees them, but what they are made of:
    other gradients of the pass, `others`. So it is the largest norm of all that counts, of finite
    elements; others are the same, and so is the version.
    """

    def __init__(self, t: weft.Tensor | None, others: list[Near]) -> None:
        self.value = None if t is None else t.detach().clone()
        self.version = None if t is None else t._version
        self.others = others
        others.append(self)

    def norm(self) -> float:
        if self.value is None:
            return 0.0
        value = self.value.double()
        return float(weft.where(value.isfinite(), value, 0.0).norm())

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Near)
        a, b = self.value, other.value
        if a is None or b is None:
            return a is b
        if a.shape != b.shape or a.dtype != b.dtype or self.version != other.version:
            return False
        if bits(a) == bits(b):
            return True
        a, b = a.double(), b.double()
        same = (a == b) | (a.isnan() & b.isnan())
        norms = [norm for o in other.others if math.isfinite(norm := o.norm())]
        apart = float(weft.where(same, 0.0, a - b).norm())
        return apart <= 1e-6 * max(norms, default=0.0)

    def __repr__(self) -> str:
        return f"{self.value} version {self.version}"


def described(t: Any, others: list[Any]) -> Any:
    """A result; `others`: the inputs, the buffer and the results before it."""
    if not isinstance(t, weft.Tensor):
        return type(t), re.sub(" at 0x[0-9a-f]+", "", repr(t))
    tensors = [o for o in others if isinstance(o, weft.Tensor)]
    aliased = [k for k, o in enumerate(tensors) if t.numel() and o.data_ptr() == t.data_ptr()]
    same = [k for k, o in enumerate(tensors) if o is t]
    try:
        about = tuple(t.shape), t.dtype, t.stride(), t.requires_grad, t._version, t.is_leaf
    except RuntimeError as error:  # of a view that was written where no graph was recorded
        return str(error)
    return repr(t.detach()), bits(t), about, aliased, same


def made(t: weft.Tensor) -> bool:
    """Whether backward may start at a result."""
    try:
        return t.grad_fn is not None
    except RuntimeError:
        return False


def lines(error: BaseException, file: str) -> list[Any]:
    found = traceback.extract_tb(error.__traceback__)
    return [(f.name, f.lineno) for f in found if f.filename == file]


def state(model: Any, gradients: list[Near]) -> dict[str, Any]:
    found: dict[str, Any] = {k: (v.dtype, bits(v)) for k, v in model.state_dict().items()}
    found |= {f"{n}.grad": Near(p.grad, gradients) for n, p in model.named_parameters()}
    return found | {name: repr(getattr(model, name)) for name in ("k", "flag", "kept")}


class Side:
    """A model, and what its calls left."""

    def __init__(self, model: Any, call: Callable[..., Any], names: dict[str, Any]) -> None:
        self.model, self.call, self.names = model, call, names
        self.last: list[Any] = []
        self.inputs: list[weft.Tensor] = []

    def change(self, text: str, seed: int) -> str:
        weft.manual_seed(seed)
        scope = {"m": self.model, "names": self.names, "last": self.last, "types": types}
        try:
            exec(text, {**scope, "nn": weft.nn})  # noqa: S102
        except Exception as error:
            return type(error).__name__
        return ""

    def step(self, step: Step, seed: int) -> dict[str, Any]:
        """What a change and a call after it show."""
        shown: dict[str, Any] = {"change": self.change(step.change, seed)}
        if not step.same or not self.inputs:
            self.inputs = self.given(step, seed)
        x, y = self.inputs
        near: list[Near] = []
        weft.manual_seed(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = self.call(x, y, step.n)
        except Exception as error:
            where = lines(error, self.names["__file__"])
            # views that plans make without grad are no views: docs/compile.md
            said = str(error).replace("a view of a leaf Variable", "a leaf Variable")
            return shown | {"error": (type(error), said, where), "state": state(self.model, near)}
        parts = flat(result)
        known = [x, y, self.model.seen, *self.last]
        shown["result"] = [described(t, known + parts[:k]) for k, t in enumerate(parts)]
        shown["random"] = weft.get_rng_state().tolist()
        self.last = [t for t in parts if isinstance(t, weft.Tensor)]
        tracked = [t for t in self.last if made(t)]
        if tracked:
            try:
                for t in tracked:
                    t.retain_grad()
                weft.autograd.backward([t.double().square().sum() for t in tracked])
            except RuntimeError as error:  # what was added up before is not compared
                shown["backward"] = re.split("[:(]", str(error))[0]
                self.model.zero_grad()
                return shown | {"state": state(self.model, near)}
            shown["gradients"] = [
                Near(t.grad, near) for t in (x, y, *tracked) if t.is_floating_point()
            ]
        return shown | {"state": state(self.model, near)}

    def given(self, step: Step, seed: int) -> list[weft.Tensor]:
        weft.manual_seed(seed + 1)
        made = []
        for _ in range(2):
            dtype = weft.float64 if step.double else weft.float32
            sizes = (4, step.rows) if step.strided else (step.rows, 4)
            t = weft.randn(*sizes, dtype=dtype).requires_grad_(step.grad)
            made.append(t.t() if step.strided else t)
        return made


class Mismatch(NamedTuple):
    text: str
    steps: list[Step]
    call: int
    expected: dict[str, Any]
    got: dict[str, Any]


class Fuzzer:
    """Draws and compares; modules are written to `folder`."""

    def __init__(
        self, folder: Path, way: Callable[[Any], Callable[..., Any]] = weft.compile
    ) -> None:
        self.folder, self.way, self.files, self.calls, self.errors = folder, way, 0, 0, 0

    def check(self, text: str, steps: list[Step]) -> Mismatch | None:
        """The first call that does not do what it does uncompiled."""
        self.files += 1
        file = self.folder / f"model_{self.files}.py"
        file.write_text(HEADER + text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        names = vars(module)
        names["key"] = lambda t: float(t.sum())
        sides = []
        for way in (lambda model: model, self.way):
            weft.manual_seed(0)
            model = names["Model"]()
            sides.append(Side(model, way(model), names))
        for k, step in enumerate(steps):
            scale = names["SCALE"]
            expected = sides[0].step(step, 10 * k)
            if "SCALE" in step.change:
                names["SCALE"] = scale
            got = sides[1].step(step, 10 * k)
            self.calls += 1
            self.errors += "error" in expected
            if expected != got:
                return Mismatch(text, steps[: k + 1], k, expected, got)
        return None

    def again(self, text: str, steps: list[Step]) -> Mismatch | None:
        try:
            return self.check(text, steps)
        except SyntaxError:
            return None

    def minimal(self, bad: Mismatch) -> Mismatch:
        """A mismatch from which no statement, change or call can be left out, or what is reached
        in half a minute."""
        start = time.time()
        while True:
            for text, steps in smaller(bad):
                if time.time() - start > 30:
                    return bad
                if (less := self.again(text, steps)) is not None:
                    bad = less
                    break
            else:
                return bad


def smaller(bad: Mismatch) -> Iterator[tuple[str, list[Step]]]:
    """A program with a call, a change, a statement or a part of an expression less."""
    for k in range(len(bad.steps)):
        yield bad.text, bad.steps[:k] + bad.steps[k + 1 :]
        plain = bad.steps[k]._replace(change="", strided=False, double=False, same=False, n=1)
        for name in plain._fields:
            less = bad.steps[k]._replace(**{name: getattr(plain, name)})
            if less != bad.steps[k]:
                yield bad.text, bad.steps[:k] + [less] + bad.steps[k + 1 :]
    whole = "class Model:\n" + bad.text
    count = len(list(ast.walk(ast.parse(whole))))
    parts: tuple[Any, ...] = ("", "body", "orelse", 0, 1, 2)
    for part, k in itertools.product(parts, range(2, count)):
        tree = ast.parse(whole)
        node = list(ast.walk(tree))[k]
        if "count" in ast.unparse(node) and not isinstance(node, ast.While):
            continue  # it ends a loop
        new: list[Any]
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.Return)):
            if isinstance(part, int):
                continue
            new = getattr(node, part, []) if part else []
            if part and not new:
                continue
        elif isinstance(node, ast.expr) and isinstance(part, int):
            new = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
            new = new[part : part + 1]
            if not new:
                continue
        else:
            continue
        if replaced(tree, node, new):
            text = ast.unparse(ast.fix_missing_locations(tree)).split("\n", 1)[1] + "\n"
            if len(text) < len(bad.text):
                yield text, bad.steps


def replaced(tree: ast.AST, node: ast.AST, new: list[Any]) -> bool:
    """Puts other nodes in the place of one."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, list) and node in value:
                at = value.index(node)
                value[at : at + 1] = new
                if not value and name == "body":
                    value.append(ast.Pass())
                return True
            if value is node and new:
                setattr(parent, name, new[0])
                return True
    return False


def fuzz(
    count: int,
    seed: int,
    enough: int = 1,
    way: Callable[[Any], Any] = weft.compile,
    tell: Callable[[Mismatch], object] = lambda bad: None,
) -> tuple[list[Mismatch], Fuzzer]:
    """The first mismatches among `count` programs, in minimal form."""
    with tempfile.TemporaryDirectory() as folder:
        fuzzer, found = Fuzzer(Path(folder), way), []
        for k in range(count):
            drawn = Draw(f"{seed} {k}")
            bad = fuzzer.again(drawn.text, drawn.steps)
            if bad is not None:
                found.append(fuzzer.minimal(bad))
                tell(found[-1])
                if len(found) == enough:
                    break
        return found, fuzzer


def shown(bad: Mismatch) -> str:
    parts = [bad.text, *(f"  {k}: {step}" for k, step in enumerate(bad.steps))]
    for key in bad.expected | bad.got:
        a, b = bad.expected.get(key), bad.got.get(key)
        if a != b and isinstance(a, dict) and isinstance(b, dict):
            other = [k for k in a.keys() | b.keys() if a.get(k) != b.get(k)]
            a, b = ({k: one.get(k) for k in other} for one in (a, b))
        if a != b:
            parts.append(f"{key}:\n  expected {str(a)[:600]}\n  got      {str(b)[:600]}")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=1, help="mismatches to look for")
    options = parser.parse_args()
    start = time.time()

    def tell(bad: Mismatch) -> None:
        print(shown(bad), 80 * "-", sep="\n", flush=True)

    found, fuzzer = fuzz(options.programs, options.seed, options.show, tell=tell)
    print(f"{fuzzer.calls} calls, {fuzzer.errors} raise, {time.time() - start:.0f} s")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
