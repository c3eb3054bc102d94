"""Random dynamic programs of one example, as Python source.

A program is `def program(e, w, log)`: an example (unlike sizes), shared weights, a list to append
to. Its variables have symbolic shapes, in which "n" is the example's own length, so that nearly
every program is valid. Values stay moderate (each variable carries a bound), and nothing hangs on
equality of rounded numbers: thresholds are odd, and ties of orders are broken by a ramp.
"""

import random
from dataclasses import dataclass, field

from fuzz_tables import (
    BINARY,
    LATE_RAISES,
    LAYOUTS,
    LIMIT,
    MEMORY,
    RAISES,
    RANDOM,
    READS,
    REFUSED,
    SAVED,
    SAVES,
    SHAPED,
    SHAPES,
    SPOILS,
    UNARY,
    VIEW_WRITES,
    VIEWS,
    WRITES,
)


@dataclass(frozen=True)
class Options:
    """What programs may contain. `late` errors are found only when the values are known."""

    random: bool = True
    inplace: bool = True
    errors: bool = True
    late: bool = True
    planted: bool = True  # in some programs, values that are written after they were saved
    size: int = 12


@dataclass
class Block:
    """A line and the lines below it, or with no lines a plain line."""

    line: str
    body: list["Block"] = field(default_factory=list)


@dataclass(frozen=True)
class Var:
    name: str
    shape: tuple
    bound: float


def source(blocks, indent=0):
    """Python source of a list of blocks."""
    lines = []
    for block in blocks:
        lines.append("    " * indent + block.line)
        if block.line.endswith(":"):
            lines.append(source(block.body or [Block("pass")], indent + 1))
    return "\n".join(lines)


def broadcast(a, b):
    """The symbolic shape of a broadcast, or None."""
    short, long = sorted((a, b), key=len)
    return long if long[len(long) - len(short) :] == short else None


class Maker:
    """Draws one program."""

    def __init__(self, rng, options):
        self.rng, self.options = rng, options
        self.variables = [Var(text, shape, 3.0) for shape, text in SHAPES.items()]
        self.count, self.functions, self.quiet = 0, [], 0
        self.random = options.random and rng.random() < 0.3
        raising = rng.random()
        self.raises = RAISES if options.errors and raising < 0.12 else []
        self.spoils = options.planted and options.inplace and rng.random() < 0.1
        self.late = options.late and not self.random and raising > 0.97
        if self.late:
            self.raises = LATE_RAISES

    def name(self, letter="v"):
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, accepts=lambda shape: True):
        """A variable whose shape is accepted, recent ones more often."""
        found = [v for v in self.variables if accepts(v.shape)]
        return found[max(int(self.rng.random() * len(found)) for _ in range(3))]

    def use(self, var):
        """An expression for a variable, squashed if it may be large."""
        return (var.name, var.bound) if var.bound <= LIMIT else (f"{var.name}.tanh()", 1.0)

    def expression(self):
        """A new expression: text, shape, bound."""
        rng, kind = self.rng, self.rng.random()
        if self.random and kind > 0.92:
            return self.shaped(rng.choice(RANDOM))
        if kind < 0.2:
            text, bound = rng.choice(UNARY)
            var = self.pick()
            name, size = self.use(var)
            return text.format(name), var.shape, bound(size)
        if kind < 0.4:
            text, bound = rng.choice(BINARY)
            a = self.pick()
            b = self.pick(lambda s: broadcast(a.shape, s) is not None)
            (first, size_a), (second, size_b) = self.use(a), self.use(b)
            shape = broadcast(a.shape, b.shape)
            return text.format(first, second), shape, bound(max(size_a, 1), max(size_b, 1))
        if kind < 0.46 and self.functions:
            name, shape, result = rng.choice(self.functions)
            return f"{name}({self.use(self.pick(lambda s: s == shape))[0]})", result, LIMIT
        return self.shaped(rng.choice(SHAPED))

    def shaped(self, rule):
        text, wanted, result, factor = rule
        operands, rest, whole = [], None, None
        for want in wanted:
            if want == "any":
                var = self.pick(len)
                whole = var.shape
            elif want == "=0":
                var = self.pick(lambda s: s == operands[0].shape)
            elif isinstance(want, str):
                last = int(want[1])
                var = self.pick(lambda s: s and s[-1] == last and len(s) < 3)
                rest = var.shape[:-1]
            else:
                var = self.pick(lambda s: s == want)
            operands.append(var)
        if result == "=":
            result = whole
        elif isinstance(result, str):
            result = rest + tuple(int(d) for d in result[1:])
        uses = [self.use(var) for var in operands]
        bound = factor * max([size for _, size in uses], default=1.0)
        return text.format(*(name for name, _ in uses)), result, bound

    def assign(self):
        text, shape, bound = self.expression()
        if shape not in SHAPES:
            text, shape, bound = f"({text}).sum()", (), 9 * bound
        self.variables.append(Var(self.name(), shape, bound))
        return [Block(f"{self.variables[-1].name} = {text}")]

    def condition(self):
        rng, scalar = self.rng, self.use(self.pick())[0]
        at = round(rng.uniform(-0.5, 0.5), 3) or 0.1
        return rng.choice([
            f"{scalar}.sum() > {at}", f"{scalar}.mean().item() < {at}", f"e.k > {rng.randrange(4)}",
            f"bool(({scalar} > {at}).any())", f"float({scalar}.sum()) > {at}", "len(e.x) > 2",
            f"{scalar}.sum() > {at} and e.k < 3", f"({scalar}.abs().amax() + 0.01 > 1.01)",
            f"int(e.tags[0]) == {rng.randrange(4)}",
        ])  # fmt: skip

    def block(self, size, result=None, shape=None):
        """Statements in a scope of their own, the last one assigning to `result`."""
        known, functions = len(self.variables), len(self.functions)
        body = self.statements(size)
        bound = 0.0
        if result is not None:
            name, bound = self.use(self.pick(lambda s: s == shape))
            body.append(Block(f"{result} = {name} * 1.0"))
        del self.variables[known:], self.functions[functions:]
        return body, bound

    def statements(self, size):
        blocks = []
        while size > 0:
            kind = self.rng.random()
            if kind < 0.72 or size < 3:
                blocks += self.assign()
                size -= 1
            else:
                kinds = [self.branch, self.loop, self.rows, self.write, self.note, self.muted,
                         self.function, self.tree, self.caught, self.scope,
                         self.generator, self.finally_, self.grad, self.backward,
                         self.layout, self.spoil, self.views, self.refused]  # fmt: skip
                weights = [4, 2, 2, 3 * self.options.inplace, 2, 1, 1, 1, 1, 1, 1, not self.late]
                weights += [0.3 * (not self.quiet), 0.5 * (not self.quiet and not self.late)]
                weights += [1.5 * self.options.inplace, 2 * self.spoils]
                # An error found late is caught where a value is read, as the guide says.
                weights += [w * self.options.inplace * (not self.late) for w in (2, 1)]
                blocks += self.rng.choices(kinds, weights)[0](size // 2)
                size -= 3
        return blocks

    def branch(self, size):
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        condition = self.condition()
        (yes, a), (no, b) = (self.block(size // 2, result, shape) for _ in range(2))
        self.variables.append(Var(result, shape, max(a, b)))
        return [Block(f"if {condition}:", yes), Block("else:", no)]

    def loop(self, size):
        """A loop that changes a variable, as long as its value says or for a given count."""
        start = self.pick()
        name, count, turn = self.name(), self.name("k"), self.name("i")
        self.variables.append(Var(name, start.shape, 1.0))
        body, _ = self.block(size // 2, name, start.shape)
        body.append(Block(f"{name} = {name}.tanh() * 0.9"))
        first = [Block(f"{name} = {self.use(start)[0]}.tanh()")]
        if self.rng.random() < 0.5:
            times = self.rng.choice(["e.k", "int(e.tags[0])", "len(e.words)", "2"])
            return [*first, Block(f"for {turn} in range({times}):", body)]
        body.append(Block(f"{count} += 1"))
        at = round(self.rng.uniform(-0.3, 0.6), 3)
        header = f"while {name}.sum() > {at} and {count} < 4:"
        return [*first, Block(f"{count} = 0"), Block(header, body)]

    def rows(self, size):
        """A recurrence over rows, collected in a list."""
        rows, row, state = self.pick(lambda s: s == ("n", 4)), self.name("r"), self.name("h")
        found, new = self.name("l"), self.name()
        start = self.use(self.pick(lambda s: s == (4,)))[0]
        at = len(self.variables)
        self.variables += [Var(row, (4,), 3.0), Var(state, (4,), 1.0)]
        body, _ = self.block(size // 2, state, (4,))
        del self.variables[at:]
        cell = self.rng.choice([f"w.gru({row}, {state})", f"({state} @ w.a + {row}).tanh()",
                                f"{state}.tanh()"])  # fmt: skip
        body += [Block(f"{state} = {cell}"), Block(f"{found}.append({state})")]
        self.variables.append(Var(new, ("n", 4), 1.0))
        return [
            Block(f"{found}, {state} = [], {start}"),
            Block(f"for {row} in {self.use(rows)[0]}:", body),
            Block(f"{new} = weft.stack({found})"),
        ]

    def write(self, size):
        """A fresh tensor, read and written in turns, also through views."""
        rng = self.rng
        base = self.pick(lambda s: len(s) == 2)
        other = self.use(self.pick(lambda s: s == base.shape))[0]
        name, view = self.name(), self.name()
        blocks = [Block(f"{name} = {self.use(base)[0]}.clone()")]
        aliased = rng.random() < 0.4
        if aliased:
            blocks.append(Block(f"{view} = {name}[:2]"))
        read = []
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.5:
                read.append(self.name())
                target = view if aliased and rng.random() < 0.5 else name
                blocks.append(Block(f"{read[-1]} = {rng.choice(READS).format(target)}"))
            if aliased and rng.random() < 0.4:
                blocks.append(Block(f"{view}.mul_(0.5)"))
            else:
                write = Block(rng.choice(WRITES).format(name, other))
                quiet = rng.random() < 0.2
                blocks.append(Block("with weft.no_grad():", [write]) if quiet else write)
        if rng.random() < 0.3:
            blocks.append(Block(f"{name}.tanh_()"))
        result = self.name()
        parts = " + ".join([f"{name}.sum()", *(f"{r}.sum()" for r in read)])
        blocks.append(Block(f"{result} = ({parts}) * 0.1 + 0.37"))
        self.variables += [Var(name, base.shape, LIMIT + 1), Var(result, (), LIMIT + 1)]
        return blocks

    def attempt(self, line, otherwise=None):
        """A line that may be refused, as the log says."""
        body = [Block("log.append(type(error).__name__)")]
        body += [Block(otherwise)] if otherwise else []
        caught = "except (RuntimeError, IndexError) as error:"
        return [Block("try:", [Block(line)]), Block(caught, body)]

    def views(self, size):
        """Views of a value, and of views, read and written in turns with their bases."""
        rng = self.rng
        base = self.pick(lambda s: s in ((2, 4), (4, 4)))
        text = rng.choice(["{0} * w.y", "{0}.clone()", "{0} + 0.1", "({0} @ w.a).sin()"])
        found, read = [self.name()], []
        blocks = [Block(f"{found[0]} = {text.format(self.use(base)[0])}")]
        for _ in range(rng.randint(1, 3)):
            of = found[0] if rng.random() < 0.7 else f"{rng.choice(found)}.view(2, -1)"
            new = self.name()
            line = f"{new} = {rng.choice(VIEWS).format(of)}"
            blocks += self.attempt(line, f"{new} = e.z")
            found.append(new)
        for _ in range(rng.randint(2, 4)):
            name = rng.choice(found)
            if rng.random() < 0.5:
                read.append(self.name())
                text = rng.choice(
                    ["{0} + 1", "{0}.sin()", "{0}.sum() * 0.3", "weft.cat([{0}, {0}])"]
                )
                blocks += self.attempt(f"{read[-1]} = {text.format(name)}", f"{read[-1]} = e.s")
            else:
                blocks += self.attempt(rng.choice(VIEW_WRITES).format(name))
            if rng.random() < 0.15:
                blocks.append(Block(f"log.append({rng.choice(found)}.tolist())"))
        result = self.name()
        blocks.append(Block(f"{result} = {found[0]}.sum() * 0.1 + 0.37"))
        for name in [*found[1:], *read]:
            blocks += self.attempt(f"{result} = {result} + {name}.sum() * 0.1")
        self.variables.append(Var(result, (), LIMIT + 1))
        return blocks

    def refused(self, size):
        """A value that was saved, and a write to it that is refused: all stays as it was."""
        rng = self.rng
        base = self.pick(lambda s: s in ((2, 4), (4, 4)))
        name, saver, result = self.name(), self.name(), self.name()
        saved = rng.choice(["{0} * {0}", "{0}.tanh() * {0}", "{0} @ w.a"]).format(name)
        write = rng.choice(REFUSED).format(name)
        return [
            Block(f"{name} = {self.use(base)[0]} * w.y"),
            Block(f"{saver} = {saved}"),
            *([Block(f"log.append({name}.sum().item())")] if rng.random() < 0.3 else []),
            Block("try:", [Block(write)]),
            Block("except (RuntimeError, IndexError) as error:", [
                Block("log.append(type(error).__name__)")
            ]),
            Block(f"{result} = ({saver}.sum() + {name}.sum()) * 0.1"),
        ]  # fmt: skip

    def layout(self, size):
        """A fresh tensor that is read, gets another layout or memory, and is read again."""
        rng = self.rng
        base = self.pick(lambda s: len(s) == 2)
        other = self.use(self.pick(lambda s: s == base.shape))[0]
        name, view = self.name(), self.name()
        text = rng.choice(["{0}.clone()", "{0} * 0.9", "{0} + 0.1"]).format(self.use(base)[0])
        apart = rng.random() < 0.4
        blocks = [Block(f"{name} = ({text}).detach()" if apart else f"{name} = {text}")]
        read = []
        if rng.random() < 0.4:
            read.append(view)
            blocks.append(Block(f"{view} = {name}{rng.choice(['[:1]', '.t()', '[:, 1]', '[0]'])}"))
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.7:
                read.append(self.name())
                blocks.append(Block(f"{read[-1]} = {rng.choice(READS).format(name)}"))
            if rng.random() < 0.2:
                blocks.append(Block(f"log.append({name}.sum().item())"))
        change = rng.choice([*LAYOUTS, *MEMORY] if apart else LAYOUTS)
        blocks.append(Block(change.format(name, other)))
        result = self.name()
        parts = " + ".join([f"{name}.sum()", *(f"{r}.sum()" for r in read)])
        blocks.append(Block(f"{result} = ({parts}) * 0.1 + 0.37"))
        self.variables.append(Var(result, (), LIMIT + 1))
        return blocks

    def spoil(self, size):
        """A value that is written after it was saved: the loop raises in backward."""
        rng = self.rng
        base = self.pick(lambda s: len(s) == 2 and s[-1] == 4)
        other = self.use(self.pick(lambda s: s == base.shape))[0]
        name, saver, result = self.name(), self.name(), self.name()
        blocks = [
            Block(f"{name} = {rng.choice(SAVED).format(self.use(base)[0])}"),
            Block(f"{saver} = {rng.choice(SAVES).format(name)}"),
        ]
        if rng.random() < 0.3:
            blocks.append(Block(f"log.append({name}.sum().item())"))
        spoil = Block(rng.choice(SPOILS).format(name, other))
        blocks.append(Block("if e.k == 1:", [spoil]) if rng.random() < 0.5 else spoil)
        blocks.append(Block(f"{result} = ({saver}.sum() + {name}.sum()) * 0.1"))
        self.variables.append(Var(result, (), LIMIT + 1))
        return blocks

    def note(self, size):
        name = self.use(self.pick())[0]
        what = self.rng.choice([f"{name}.sum().item()", f"({name} > 0.27).sum().item()", "e.k",
                                f"{name}.detach()", f"tuple({name}.shape)", f"{name}.tolist()",
                                f"f'{{float({name}.sum()) > 0.1}}'"])  # fmt: skip
        return [Block(f"log.append({what})")]

    def muted(self, size):
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        self.quiet += 1
        body, bound = self.block(size // 2, result, shape)
        self.quiet -= 1
        self.variables.append(Var(result, shape, bound))
        return [Block("with weft.no_grad():", body)]

    def function(self, size):
        """A nested function, perhaps recursive on its value."""
        name, taken, value = self.name("f"), self.name("a"), self.name()
        shape, result = self.rng.choice(list(SHAPES)), self.rng.choice(list(SHAPES))
        at = len(self.variables)
        self.variables.append(Var(taken, shape, LIMIT))
        body, _ = self.block(size // 2 + 1, value, result)
        del self.variables[at:]
        head = f"def {name}({taken}):"
        if shape == result and self.rng.random() < 0.5:
            head = f"def {name}({taken}, depth=0):"
            body.append(Block(f"if depth < 2 and {value}.sum() > 0.13:", [
                Block(f"return {name}({value}.tanh(), depth + 1)")
            ]))  # fmt: skip
        body.append(Block(f"return {value}.tanh()"))
        self.functions.append((name, shape, result))
        return [Block(head, body)]

    def tree(self, size):
        """Recursion over the example's tree."""
        name, result = self.name("t"), self.name()
        merge = self.rng.choice([
            "w.linear(l + r).tanh()", "weft.cat([l, r])[2:6].tanh() @ w.a", "w.gru(l, r)",
            "(l if l.sum() > r.sum() + 0.01 else r) * 0.9", "weft.stack([l, r]).sum(0).tanh()",
        ])  # fmt: skip
        self.variables.append(Var(result, (4,), 9.0))
        body = [
            Block("if isinstance(node, int):", [Block("return w.embed(weft.tensor(node))")]),
            Block(f"l, r = {name}(node[0]), {name}(node[1])"),
            Block(f"return {merge}"),
        ]
        return [Block(f"def {name}(node):", body), Block(f"{result} = {name}(e.tree)")]

    def caught(self, size):
        """An error that the program itself catches."""
        result = self.name()
        var = self.pick()
        self.variables.append(Var(result, var.shape, var.bound))
        wrong = self.rng.choice(["e.x.view(7, 13)", "e.x[99]", "e.x @ w.b", "e.y.sum(5)"])
        return [
            Block("try:", [Block(f"{result} = {wrong} if e.k % 2 else {var.name} * 0.5")]),
            Block("except (RuntimeError, IndexError) as error:", [
                Block("log.append(type(error).__name__)"), Block(f"{result} = -{var.name}")
            ]),
        ]  # fmt: skip

    def scope(self, size):
        """Statements in a scope that ends before their values are used."""
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        body, bound = self.block(size // 2, result, shape)
        self.variables.append(Var(result, shape, bound))
        return [Block(f"with {self.rng.choice(['deferred()', 'weft.enable_grad()'])}:", body)]

    def generator(self, size):
        """Rows from a generator that reads values."""
        name, row, result = self.name("g"), self.name("r"), self.name()
        rows = self.use(self.pick(lambda s: s == ("n", 4)))[0]
        at, value = len(self.variables), self.name()
        self.variables.append(Var(row, (4,), 3.0))
        body, _ = self.block(size // 2, value, (4,))
        del self.variables[at:]
        body.append(Block(f"yield {value}.tanh() if {value}.sum() > 0.19 else {row}.tanh()"))
        self.variables.append(Var(result, ("n", 4), 1.0))
        return [
            Block(f"def {name}():", [Block(f"for {row} in {rows}:", body)]),
            Block(f"{result} = weft.stack(list({name}()))"),
        ]

    def finally_(self, size):
        """A read on the way out."""
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        read = f"log.append({self.use(self.pick())[0]}.sum().item())"
        body, bound = self.block(size // 2, result, shape)
        self.variables.append(Var(result, shape, bound))
        return [Block("try:", body), Block("finally:", [Block(read)])]

    def backward(self, size):
        """A pass of its own, which adds to the gradients of shared weights."""
        var, result, leaf = self.pick(lambda s: s and s[-1] == 4), self.name(), self.name()
        self.variables.append(Var(result, var.shape, LIMIT + 1))
        cell = self.rng.choice(["{0} @ w.a", "w.linear({0})", "{0} * w.y", "cube({0})"])
        return [
            Block(f"{leaf} = {self.use(var)[0]}.detach().clone().requires_grad_()"),
            Block(f"({cell.format(leaf)}).sin().sum().backward()"),
            Block(f"{result} = {leaf}.grad * 0.5"),
        ]

    def grad(self, size):
        """A gradient taken inside."""
        var, result, leaf = self.pick(), self.name(), self.name()
        self.variables.append(Var(result, var.shape, LIMIT + 1))
        return [
            Block(f"{leaf} = {self.use(var)[0]}.detach().requires_grad_()"),
            Block(f"{result} = weft.autograd.grad(({leaf}.sin() * {leaf}).sum(), {leaf})[0]"),
        ]

    def program(self):
        """The program's body."""
        body = self.statements(self.options.size)
        ends = [self.rng.choice(self.raises)] if self.raises else []
        ends += ["return e.x.sum() * e.y"] * (self.rng.random() < 0.1)
        for end in ends:
            at = self.rng.randrange(len(body) + 1)
            while at < len(body) and body[at].line.split()[0] in ("else:", "except", "finally:"):
                at += 1
            condition = self.rng.choice(["e.k == 1", "e.k > 1", "len(e.x) > 3", "e.s > 0.3"])
            body.insert(at, Block(f"if {condition}:", [Block(end)]))
        names = [self.pick().name for _ in range(self.rng.randint(2, 6))]
        first = f"({names[0]})"
        body.append(Block("return " + self.rng.choice([
            first, "{" + ", ".join(f"{n!r}: {n}" for n in names) + "}", f"({', '.join(names)},)",
            f"[{first}, {names[-1]}.sum().item()]", f"{first}.sum()",
            f"Pair({names[0]}, {names[-1]})",
            f"({first}, (e.k, [{names[-1]}]))",
        ])))  # fmt: skip
        return body


def draw(seed, options=Options()):  # noqa: B008
    """Blocks of the function `program(e, w, log)`."""
    maker = Maker(random.Random(seed), options)
    return [Block("def program(e, w, log):", maker.program())]


def draw_data(seed, empty=0.05):
    """Plain numbers of one to six examples of unlike size; a share of them is of size 0."""
    rng = random.Random(f"data {seed}")

    def numbers(*shape):
        if not shape:
            return round(rng.gauss(0, 1), 7)
        return [numbers(*shape[1:]) for _ in range(shape[0])]

    def tree(depth):
        if depth == 0 or rng.random() < 0.3:
            return rng.randrange(10)
        return tree(depth - 1), tree(depth - 1)

    found = []
    for _ in range(rng.randint(1, 6)):
        n = 0 if rng.random() < empty else rng.randint(1, 5)
        found.append({
            "x": numbers(n, 4), "y": numbers(4), "z": numbers(2, 4), "s": numbers(),
            "tags": [rng.randrange(4) for _ in range(n)], "i": rng.randrange(max(n, 1)),
            "pick": [rng.randrange(max(n, 1)), rng.randrange(max(n, 1))], "k": rng.randrange(4),
            "words": [rng.randrange(10) for _ in range(n or 1)], "tree": tree(3),
        })  # fmt: skip
    return found
