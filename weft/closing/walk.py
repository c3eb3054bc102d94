"""One function on its way into a package, from its parameters to what it returns."""

from __future__ import annotations

import inspect
from typing import Any

from weft.closing.branches import Branches
from weft.closing.close import inside
from weft.closing.errors import NotExportable
from weft.closing.frame import kind_of, same
from weft.closing.package import Function, NotAValue
from weft.closing.values import Abstract, Dynamic, Items, Ref, Static
from weft.frontend.ir import Instr


class Walk(Branches):
    """Goes through a function once."""

    def run(self, arguments: list[Abstract]) -> Function:
        """For a call with these arguments, in the order of the parameters."""
        names: list[str] = []

        def fresh() -> int:
            names.append(f"{name}_{len(names)}" if name in names else name)
            return self.writer.param(names[-1])

        for register, value in enumerate(arguments):
            name = self.lowered.registers[register]
            value = inside(value, fresh)
            if isinstance(value, Items):
                self.given.append((value, list(value.keys), list(value.items)))
            if isinstance(value, Dynamic):
                self.own[register] = value.register
            self.env[register] = value
        for name, value in self.target.free.items():
            self.free[name] = inside(value, fresh)
        self.body(self.lowered.body)
        return self.writer.finish(names, {}, 0)

    def run_entry(self, fixed: list[Abstract], modes: list[Ref], by_name: bool = True) -> Function:
        """For calls from outside, in modes: parameters behind `fixed` are bound as Python's; where
        no argument comes by name, those that are given by name alone are what they are else."""
        self.is_entry = True
        code = self.target.code
        positional, words = code.co_argcount, code.co_kwonlyargcount
        marks = [""] * (positional + words)
        marks += ["*"] * bool(code.co_flags & inspect.CO_VARARGS)
        marks += ["**"] * bool(code.co_flags & inspect.CO_VARKEYWORDS)
        known = dict(enumerate(fixed))
        if not by_name:
            named = self.lowered.registers[positional : positional + words]
            defaults = self.target.defaults
            given = {k: defaults[n] for k, n in enumerate(named, positional) if n in defaults}
            known |= given
            words -= len(given)
            known |= {len(marks) - 1: Items(dict)} if marks[-1:] == ["**"] else {}
        params = []
        for register, mark in enumerate(marks):
            name = self.lowered.registers[register]
            if register in known:
                self.env[register] = known[register]
                continue
            self.own[register] = self.writer.param(name)
            self.env[register] = Dynamic(self.own[register])
            params.append(mark + name)
        self.free.update(self.target.free)
        defaults = {
            name: self.constant_of(value)
            for name, value in self.target.defaults.items()
            if name in params
        }
        self.body(self.lowered.body)
        for mode in reversed(modes):
            body, self.writer.out = self.writer.out, []
            manager = self.writer.constant(mode)
            self.emit("with", (self.writer.register(),), (manager,), None, (body,))
        return self.writer.finish(params, defaults, words)

    def constant_of(self, value: Abstract) -> Any:
        """A default value as a constant."""
        try:
            return self.closer.package.constant(value.value)  # type: ignore[union-attr]
        except NotAValue as error:
            raise NotExportable(f"{error} as a default value") from None

    def verb_return(self, instr: Instr) -> bool:
        lazy = self.lazy.copy()
        value = self.lasting(self.read(instr.operands[0]))
        self.returned_lazy |= self.lazy
        self.lazy = lazy  # nothing is set behind it
        self.returned.append(value)
        known = [v for v in self.returned if isinstance(v, Static) and not self.is_value(v)]
        if known and (self.is_entry or not all(same(known[0], v) for v in self.returned)):
            self.operand(known[0])  # which says what it is: a caller cannot know which it gets
        is_class = isinstance(value, Static) and isinstance(value.value, type)
        if self.is_entry and (is_class or kind_of(value) == "type"):
            raise NotExportable("a class as a result", "return its __name__")
        is_known = any(value is v for v in known)
        operand = self.writer.constant(None) if is_known else self.operand(value)
        self.emit("return", (), (operand,))
        return False

    def result(self) -> Abstract | None:
        """What the function surely gives, if that is known."""
        first = self.returned[0] if self.returned else Static(None)
        if isinstance(first, Static) and all(same(first, other) for other in self.returned):
            return first
        kinds = {v.kind if isinstance(v, Dynamic) else "" for v in self.returned}
        return Dynamic(-1, "Tensor") if kinds == {"Tensor"} else None

    def changes_arguments(self) -> bool:
        """Whether a dict that it was given is not what it was."""
        return any(
            held.keys != keys or held.items != items or held not in self.env.values()
            for held, keys, items in self.given
        )
