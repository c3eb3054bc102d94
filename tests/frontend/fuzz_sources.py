"""Random functions as text: what fuzz_frontend.py runs in two ways, and what these functions call.

An expression or a simple statement is a template in which `<int>` stands for a random expression of
that kind, `<set_int>` for a name that it assigns, `<old_int>` for one that is assigned. Kinds only
make errors rarer than they would be: few expressions are of another kind than they should be.
"""

import random
import re

NAMES = {
    "int": "ijk", "list": ["xs", "ys"], "str": "st", "loud": "uv", "any": "pqr", "dict": "d",
    "gone": "gh",
}  # fmt: skip
ERRORS = ("ValueError", "KeyError", "TypeError", "ZeroDivisionError", "IndexError")
ATOMS = {
    "int": ("0", "1", "2", "3", "-1", "True", "answer"),
    "list": ("[]", "[3, 1]", "[1, 2, 3]", "[0, 2]", "[1, 0, 1]", "(2, 0)", "range(3)"),
    "dict": ("{}", "{'a': 1}", "{'b': 2, 'c': 3}"),
    "str": ("'a'", "''", "'bc'"),
    "loud": ("Loud('n')", "Loud('no')", "Loud('quiet')"),
    "any": ("None", "1.5", "...", "b'x'", "(1, 'a')", "{'a': 1}", "{1, 2}"),
    "gone": ("None", "2"),
}
EXPRESSIONS = {
    "int": (
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>)", "(<int> // <int>)",
        "(<int> % <int>)", "(<int> & <int>)", "-<int>", "~<int>", "(\n<int>\n+ <int>\n)", "<test>",
        "len(<list>)", "<list>[<int>]", "(<list> or [1])[-1]", "max(\n<int>,\n<int>)", "say(<int>)",
        "sum(<list>)",
        "(<int> if <test> else <int>)", "(<int> and <int>)", "(<int> or <int>)",
        "(<set_int> := <int>)", "take(<int>, k=<int>)", "take(*<list>, <int>)[-1]", "<call>",
        "(<lambda>)(<int>)", "<loud>.value", "[<int>, <int>][<int> % 2]", "<dict>.get('a', <int>)",
        "sum(<generator>)", "len(<str>)", "(<test> and <int> or <int>)",
    ),
    "test": (
        "(<int> < <int>)", "(<int> <= <int> < <int>)", "(<int> == <int> != <int> > <int>)",
        "(<any> is None)", "(<any> is not <any>)", "(<int> in <list>)", "(<int> not in [1, 2])",
        "(<str> in {'a', 'bc'})", "not <any>", "(<test> and <test>)", "(<test> or <test>)",
        "(<loud> < <int> < <loud>)", "<loud>", "(<loud> and <loud> or <loud>)",
        "not (<loud> or <test>) and <test>", "(<any> == <any>)", "any(<generator>)", "say(<test>)",
    ),
    "list": (
        "[<int>, <int>]", "[<int>, *<list>, <int>]", "(<int>, *<list>)", "(<list> + <list>)",
        "<list>[<int>:<int>]", "<list>[::-1]", "<list>[\n<int>:]", "sorted(<list>)", "say(<list>)",
        "sorted(<list>, key=<lambda>)", "list(map(<lambda>, <list>))", "(<set_list> := <list>)",
        "(<list> if <test> else <list>)", "<listcomp>", "<listcomp>", "list(<generator>)",
        "list(<setcomp>)", "list(<dictcomp>)", "take(*<list>, *<list>, **<dict>)", "<closures>",
        "sorted({<int>, *<list>})", "[*<generator>, <int>]", "(<int>, *<generator>)",
        "take(*<generator>, k=<int>)",
    ),
    "dict": (
        "{'k': <any>}", "{'k': <int>, **<dict>, 'j': <int>}", "dict(z=<int>)", "{**<dict>}",
        "(<set_dict> := <dict>)", "<dictcomp>", "{}",
    ),
    "str": (
        "str(<any>)", "(<str> + <str>)", "f'{<old_any>}{<old_int>!r:>{<old_int>}}'",
        "f'{<old_int>}'", "f'{<old_list>!s}|{<old_loud>:spec}{<old_int>=}'", "<str>[<int>:]",
        "(<str> or <str>)", "say(<str>)", "'%s' % <int>", "f'''{\n<old_int> + <old_int>}'''",
    ),
    "loud": (
        "<loud>.get", "<loud>[<any>]", "<loud>(<int>, k=<any>)", "(<loud> + <any>)",
        "(<int> + <loud>)", "-<loud>", "<loud>.call(<any>, *<list>)", "(<loud> or <loud>)",
        "<loud>[<int>:, ...]", "<loud>.first\\\n.second(\n<int>)", "(<loud> if <test> else <loud>)",
        "<loud>.call(<any>, <any>)", "<loud>(**<dict>, **<dict>)",
        "<loud>(*<list>, k=1, **{'j': <any>})",
    ),
    "any": (
        "<int>", "<list>", "<str>", "<loud>", "<test>", "<dict>", "(<any>, <any>)", "say()",
        "<int>", "<list>", "<str>", "<loud>", "<test>", "<rare>",
    ),
    "rare": (
        "<loud>.no_such", "{1: <int>, 2: <int>}[<int>]", "int(<str> or <int>)", "<any>.missing",
        "<loud>(**<any>, k=<any>)", "take(*<any>)", "[*<any>]", "{**<any>}", "<any>[<any>]",
        "(<any> + <any>)", "missing", "{*<list>, <list>}", "<any>()", "(<any> < <any>)",
        "[x for x in <any>]", "f'{<old_any>:d}'", "<list>[<int>]", "<any>.missing(<int>)", "-<any>",
    ),
}  # fmt: skip
SIMPLE = (
    "<set_int> = <int>", "<set_int> = <int>", "<set_list> = <list>", "<set_str> = <str>",
    "<set_loud> = <loud>", "<set_any> = <any>", "<set_int> = <set_int> = <int>",
    "<set_int>, <set_int> = <int>, <int>", "<old_int>, <old_int> = <old_int>, <old_int>",
    "<set_int>, *<set_list> = <list>", "<set_int>, <set_int> = <generator>",
    "<set_any>, *<set_list> = <generator>", "[<set_any>, <loud>.item] = <generator>",
    "(<set_int>, <set_any>), <set_any> = <list>, <any>",
    "<set_int>, <set_int> = <list>", "<set_int>, <old_list>[:1] = <int>, <list>",
    "[<set_any>, <loud>.item, *<loud>.rest] = <list>", "*<set_any>, <loud>[<int>] = <list>",
    "<old_int> += <int>", "<old_int> -= <int>", "<old_list> += <list>", "<old_any> += <any>",
    "<old_loud> += <int>", "<loud>.item = <any>", "<loud>[<any>] = <any>", "<loud>.item += <int>",
    "<loud>[<any>] += <any>", "<old_list>[-1] += <int>", "<old_list>[<int>] = <any>",
    "<old_dict>[<int>] = <any>", "<old_list>[:2] = <list>", "<old_dict>['a'] = <int>",
    "<old_list>[<int>:<int>] = <list>", "<set_int>: int = <int>", "<loud>.item: missing = <int>",
    "<loud>.item[<int>]: missing", "say(<any>, <any>)", "say(<int>)", "say(<old_any>)",
    "say(<loud>.call(<int>, <str>, k=<int>))", "take(<int>, *<list>, k=<int>, **<dict>)",
    "assert <test>", "assert <test>, <str>", "assert (\n<test>)", "del <loud>.item, <loud>[<int>]",
    "del <old_list>[<int>]", "del <old_list>[<int>:], (<loud>.a)", "del <old_gone>", "pass",
    "<set_gone> = <any>", "say(<old_gone>, <any>)",
    "import math", "import os.path as <set_any>", "from math import floor as <set_any>",
    "from math import pi as <set_any>", "say(<rare>)", "<set_any> = <rare>", "<set_dict> = <dict>",
    "from math import pi as <set_any>, <set_int>", "<old_list>.append(<int>)", "'text'", "<call>",
    "<loud>\\\n.item[\n<int>] = <int>", "fail(<error>, <any>)",
)  # fmt: skip
RAISES = (
    "raise <error>", "raise <error>(<any>)", "raise <error>(<int>)",
    "raise <error>(<str>)", "raise <error>(<any>) from <error>(<any>)",
    "raise <error> from None", "raise", "raise <any>", "raise <error> from <any>", "raise <caught>",
)  # fmt: skip
MANAGERS = (
    "Loud('m')", "Loud('quiet')", "contextlib.suppress(<error>, <error>)", "<loud>",
    "contextlib.nullcontext(<any>)", "<any>",
)  # fmt: skip
PATTERNS = (
    "1", "-1 | 2", "'a' | 'bc'", "None", "True", "contextlib.suppress", "None | False | 3",
    "1 | answer.real",
)  # fmt: skip
TARGETS = (
    "<set_int>", "<set_int>", "<set_any>", "(<set_int>, <set_any>)", "<loud>.item",
    "<old_list>[<int>]", "<set_int>, *<set_list>",
)  # fmt: skip
PAIRS = ("enumerate(<list>)", "[(1, 2), (3, 4)]", "zip(<list>, <list>)", "{1: <int>}.items()")
STATEMENTS = {
    "simple": 14, "if": 4, "while": 2, "for": 3, "try": 5, "with": 2, "def": 2, "match": 1,
    "leave": 2,
}  # fmt: skip


class Draw:
    """One function, `text`, and what to call it with, `cases`: the same for the same seed.

    A class below it may have other tables, and another `params`, `begin`, `end` and `case`.
    """

    names, atoms, expressions, simple = NAMES, ATOMS, EXPRESSIONS, SIMPLE
    raises, managers, patterns, targets = RAISES, MANAGERS, PATTERNS, TARGETS
    pairs, statements, errors = PAIRS, STATEMENTS, ERRORS
    strays = "int", "list", "str", "loud", "any"  # seldom one of these in the place of another

    def __init__(self, seed, name="f"):
        self.random = random.Random(seed)
        self.lines, self.indent, self.loops, self.made = [], 0, 0, 0
        self.handlers = []
        self.known = {kind: [] for kind in self.names}
        self.functions = []
        self.soon = []
        self.level = 0
        self.put(f"def {name}({', '.join(self.params())}):")
        self.block(self.random.randint(3, 6), self.random.choice((1, 2, 2, 3)), self.begin)
        self.end()
        self.text = "\n".join(self.lines) + "\n"
        self.cases = [self.case() for _ in range(3)]

    def params(self):
        args, star = ["i", "xs", "u"], self.chance(0.2)
        for kind, arg in zip(("int", "list", "loud"), args):
            self.known[kind].append(arg)
        if self.chance(0.3):
            args += ["p=answer", *(["*ys"] if star else []), "s='a'", "**q"]
            self.known["str"].append("s")
            self.known["any"] += ["p", "q"]
            if star:
                self.known["list"].append("ys")
        return args

    def case(self):
        one = self.random.choice
        ints, lists = ("0", "1", "2", "3", "'a'"), ("[]", "[1]", "[1, 2]", "[3, 1, 2]", "(5, 'a')")
        louds = ("Loud('x')", "Loud('x')", "Loud('no')", "Loud('quiet')", "7")
        return ", ".join((one(ints), one(lists), one(louds)))

    # ---- choices

    def chance(self, share):
        return self.random.random() < share

    def put(self, text):
        self.lines.append("    " * self.indent + text)

    def fill(self, template, depth):
        """A template with its places filled."""

        def one(match):
            what = match.group(1)
            if (how := getattr(self, "draw_" + what, None)) is not None:
                return how(depth - 1)
            verb, _, kind = what.rpartition("_")
            if verb == "set":
                return self.new(kind)
            return self.old(kind) if verb == "old" else self.expr(kind, depth - 1)

        return re.sub(r"<(\w+)>", one, template)

    def new(self, kind):
        """A name that is assigned."""
        name = self.random.choice(self.names[kind])
        if self.level and not self.chance(0.1):
            name += str(self.level + 1)
        self.soon.append((kind, name))
        return name

    def old(self, kind):
        """A name that is assigned already; seldom one that may not be."""
        if kind == "gone" and self.level:  # what an inner function uses cannot be deleted
            return "gone"
        if self.chance(1 / 200) or not self.known[kind]:
            return self.random.choice(self.names[kind])
        return self.random.choice(self.known[kind])

    def settle(self):
        """The names that a statement has assigned are known from there on."""
        for kind, name in self.soon:
            if name not in self.known[kind]:
                self.known[kind].append(name)
        self.soon.clear()

    # ---- expressions

    def expr(self, kind, depth):
        if self.chance(0.005):
            kind = self.random.choice(self.strays)
        if depth <= 0 or self.chance(0.3):
            kind = {"test": "int", "rare": "any"}.get(kind, kind)
            atoms = self.atoms[kind]
            return self.old(kind) if self.chance(0.7) else self.random.choice(atoms)
        return self.fill(self.random.choice(self.expressions[kind]), depth)

    def draw_error(self, depth):
        return self.random.choice(self.errors)

    def draw_caught(self, depth):
        return self.handlers[-1] if self.handlers and self.handlers[-1] else "ValueError"

    def draw_call(self, depth):
        if not self.functions:
            return self.expr("int", depth)
        name, params = self.random.choice(self.functions)
        given = [self.expr("int", depth) for _ in range(params + self.chance(0.05))]
        return f"{name}({', '.join(given)})"

    def draw_lambda(self, depth):
        name = self.random.choice(("i", "x", "y"))
        default = f"={self.expr('int', depth)}" if self.chance(0.3) else ""
        body = self.inside([name], lambda: self.expr("int", depth))
        return f"lambda {name}{default}: {body}"

    def draw_closures(self, depth):
        body = self.inside(["x"], lambda: self.expr("int", depth))
        return f"[g() for g in [(lambda: {body}) for x in {self.expr('list', depth)}]]"

    def inside(self, names, step):
        """Draws something in which further ints have names."""
        before = list(self.known["int"])
        self.known["int"] += names
        try:
            return step()
        finally:
            self.known["int"] = before

    def comprehension(self, depth, element):
        """The text of a comprehension without its brackets."""
        names, loops = [], ""
        before = list(self.known["int"])
        for _ in range(1 + self.chance(0.25)):
            if self.chance(0.15):
                a, b = self.random.sample(("i", "x", "y", "z"), 2)
                pairs = self.fill(self.random.choice(self.pairs), depth)
                new, loop = [a, b], f" for {a}, {b} in {pairs}"
            else:
                new = [self.random.choice(("i", "x", "y", "z"))]
                loop = f" for {new[0]} in {self.expr('list', depth)}"
            self.known["int"] += new
            names += new
            loops += loop
            while self.chance(0.25):
                loops += f" if {self.expr('test', depth)}"
        self.known["int"] += names
        text = element() + loops
        self.known["int"] = before
        return text

    def draw_listcomp(self, depth):
        return f"[{self.comprehension(depth, lambda: self.expr('int', depth))}]"

    def draw_generator(self, depth):
        return f"({self.comprehension(depth, lambda: self.expr('int', depth))})"

    def draw_setcomp(self, depth):
        return f"{{{self.comprehension(depth, lambda: self.expr('int', depth))}}}"

    def draw_dictcomp(self, depth):
        def pair():
            return f"{self.expr('int', depth)}: {self.expr('any', depth)}"

        return f"{{{self.comprehension(depth, pair)}}}"

    # ---- statements

    def block(self, count, depth, first=None):
        self.indent += 1
        if first is not None:
            first()
        for _ in range(count):
            self.statement(depth)
        self.indent -= 1

    def begin(self):
        for kind, names in self.names.items():
            for name in names:
                if name not in self.known[kind] and self.chance(0.9):
                    self.put(f"{name} = {self.random.choice(self.atoms[kind])}")
                    self.known[kind].append(name)

    def end(self):
        """What comes behind the last statement."""

    def caught(self, name):
        """What a handler does with the exception first."""
        return f"say({name}, {name}.__context__)" if name else "say('caught')"

    def statement(self, depth):
        kinds = self.statements if depth > 0 else {"simple": 8, "leave": 1}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        safe = self.indent == 1 and self.chance(0.4)  # an error must not always be the end
        if safe:
            self.put("try:")
            self.indent += 1
        getattr(self, "stmt_" + kind)(depth - 1)
        self.settle()
        if safe:
            self.indent -= 1
            self.put(f"except Exception as e: {self.caught('e')}")

    def some(self):
        return self.random.choice((1, 1, 2, 3))

    def stmt_simple(self, depth):
        self.put(self.fill(self.random.choice(self.simple), 3))

    def stmt_leave(self, depth):
        ways = ["return <any>", self.random.choice(self.raises)]
        if self.loops:
            ways += ["break", "continue", "break", "continue"]
        way = self.fill(self.random.choice(ways), 2)
        if self.chance(0.7):
            self.put(f"if {self.expr('test', 2)}:")
            self.put(f"    {way}")
        else:
            self.put(way)

    def stmt_if(self, depth):
        self.put(f"if {self.expr('test', 3)}:")
        self.block(self.some(), depth)
        if self.chance(0.3):
            self.put(f"elif {self.expr('test', 2)}:")
            self.block(self.some(), depth)
        if self.chance(0.5):
            self.put("else:")
            self.block(self.some(), depth)

    def loop(self, header, depth):
        self.put(header)
        self.settle()
        self.loops += 1
        self.block(self.some(), depth, lambda: self.put("if spent(): break"))
        self.loops -= 1
        if self.chance(0.3):
            self.put("else:")
            self.block(self.some(), depth)

    def stmt_while(self, depth):
        self.loop(f"while {self.expr('test', 3)}:", depth)

    def stmt_for(self, depth):
        target = self.random.choice(self.targets)
        over = self.random.choice(self.pairs) if "," in target else "<list>"
        over = "<any>" if self.chance(0.05) else over
        iterable = self.fill(over, 2)
        self.loop(f"for {self.fill(target, 1)} in {iterable}:", depth)

    def stmt_try(self, depth):
        self.put("try:")
        self.block(self.some() + 1, depth)
        handlers = self.random.choice((0, 1, 1, 1, 2))
        for k in range(handlers):
            kind = self.fill(self.random.choice(("<error>", "(<error>, <error>)", "Exception")), 1)
            name = self.random.choice(("e", "e", "error", ""))
            kind = "<any>" if self.chance(0.03) else kind
            bare = k == handlers - 1 and self.chance(0.2)
            header = "" if bare else self.fill(f" {kind}", 2) + (f" as {name}" if name else "")
            self.put(f"except{header}:")
            self.handlers.append("" if bare else name)
            say = self.caught("" if bare else name)
            self.block(self.some(), depth, lambda say=say: self.put(say))
            self.handlers.pop()
        if handlers and self.chance(0.3):
            self.put("else:")
            self.block(self.some(), depth)
        if not handlers or self.chance(0.4):
            self.put("finally:")
            self.block(self.some(), depth)

    def stmt_with(self, depth):
        items = []
        for _ in range(1 + self.chance(0.2)):
            name = self.random.choice(("", " as <set_any>", " as <loud>.item", " as <set_any>"))
            items.append(
                self.fill(self.random.choice(self.managers[: 5 + self.chance(0.1)]) + name, 2)
            )
        self.put(f"with {', '.join(items)}:")
        self.settle()
        self.block(self.some() + 1, depth)

    def stmt_match(self, depth):
        self.put(f"match {self.expr('any', 2)}:")
        self.indent += 1
        for _ in range(self.some()):
            self.put(f"case {self.random.choice(self.patterns)}:")
            self.block(self.some(), depth)
        last = self.random.choice(("", "_", "<set_any>", "<set_any> if <test>", "3 if <test>"))
        if last:
            self.put(f"case {self.fill(last, 2)}:")
            self.settle()
            self.block(self.some(), depth)
        self.indent -= 1

    def stmt_def(self, depth):
        """An inner function; what it assigns has names of its own, mostly."""
        self.made += 1
        name, params = f"f{self.made}", self.random.randint(0, 2)
        names = [f"a{self.made}", f"b{self.made}"][:params]
        given = list(names)
        if self.chance(0.3):
            given.append(f"k{self.made}={self.expr('int', 2)}")
        if self.chance(0.3):
            given.append(f"*, w{self.made}: {self.expr('any', 1)} = {self.expr('any', 2)}")
        while self.chance(0.15):
            self.put(self.random.choice(("@keep", f"@note({self.expr('any', 1)})")))
        returns = f" -> {self.expr('any', 1)}" if self.chance(0.1) else ""
        self.put(f"def {name}({', '.join(given)}){returns}:")
        known = {kind: list(names) for kind, names in self.known.items()}
        loops, self.loops, handlers, self.handlers = self.loops, 0, self.handlers, []
        functions = list(self.functions)
        self.known["int"] += names * 2
        self.functions.append((name, params))
        self.level += 1

        def head():
            if self.chance(0.1):
                self.put(f"nonlocal {self.random.choice(known['int'])}")
            self.put("if spent(): return 0")

        self.block(self.some(), depth, head)
        self.indent += 1
        self.put(f"{'yield' if self.chance(0.05) else 'return'} {self.expr('int', 2)}")
        self.indent -= 1
        self.level -= 1
        self.known, self.loops, self.handlers = known, loops, handlers
        self.functions = [*functions, (name, params)]


# ---- what they call

_spent = 0


def rewind():
    """Before a run."""
    global _spent
    _spent = 0


def spent():
    """Whether a run has gone round loops and through inner functions often enough."""
    global _spent
    _spent += 1
    return _spent > 12


def take(*args, **kwargs):
    """Its arguments."""
    return [*args, *kwargs.values()]


def keep(function):
    return function


def note(value):
    return keep
