"""Operators, displays, and what is moved: tuples, lists, dicts, functions that are made."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.closing import known
from weft.closing.close import captured_by
from weft.closing.errors import NotExportable
from weft.closing.frame import (
    UNKNOWN,
    Frame,
    as_number,
    holds_tensor,
    is_fresh,
    kind_of,
    plain,
    put,
    reads_of,
    with_reads,
)
from weft.closing.values import Abstract, Choice, Closure, Dynamic, Items, Lost, Pack, Static
from weft.frontend.ir import Instr, Kept

_LAZY = (zip, enumerate, iter)  # what programs have as iterators too


class Displays(Frame):
    """The part of `Walk` that makes values."""

    # ---- names

    def verb_move(self, instr: Instr) -> None:
        value = self.read(instr.operands[0])
        self.assign(instr.outs[0], value)

    verb_outer = verb_move

    def verb_delete(self, instr: Instr) -> None:
        if isinstance(self.env.get(instr.outs[0]), (Dynamic, type(None))):
            self.emit("delete", (self.home(instr.outs[0]),))
        self.env.pop(instr.outs[0], None)
        self.own.setdefault(instr.outs[0], self.home(instr.outs[0]))

    def verb_global(self, instr: Instr) -> None:
        builtins = self.target.module["__builtins__"]
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        for names in (self.target.module, builtins):
            if instr.attr in names:
                self.assign(instr.outs[0], Static(names[instr.attr]))
                return
        raise NotExportable(f"name {instr.attr!r} is not defined")

    def verb_cell(self, instr: Instr) -> None:
        value = self.variable(instr.attr)
        self.assign(instr.outs[0], value)

    def verb_free(self, instr: Instr) -> None:
        if instr.attr in self.lowered.cells:  # of a generator expression, which is no function here
            return self.verb_cell(instr)
        if instr.attr not in self.free:
            raise NotExportable(
                f"{instr.attr}, a variable of a function around this one, is not set yet"
            )
        self.assign(instr.outs[0], self.free[instr.attr])

    def verb_set_cell(self, instr: Instr) -> None:
        self.expect_not_read(instr.attr)
        self.assign(instr.attr, self.read(instr.operands[0]))

    def verb_new_cell(self, instr: Instr) -> None:
        for closure, shared in self.closures:
            if instr.attr in shared:  # they keep what the variable of before has
                value = self.env.get(instr.attr)
                known = isinstance(value, Static) and not value.fresh
                what = f"{instr.attr}, a variable of another turn that an inner function reads"
                closure.captured[instr.attr] = value if known else Lost(what)  # type: ignore[assignment]
                shared.discard(instr.attr)
        self.lazy.discard(instr.attr)
        self.env.pop(instr.attr, None)

    def expect_not_read(self, *names: str) -> None:
        """Raises for variables that iterators read which are gone through later: programs have
        what an iterator gives from where it is made."""
        if found := self.lazy.intersection(names):
            raise NotExportable(
                f"{min(found)}, which is set again while an iterator reads it",
                "make the iterator a list where it stands",
            )

    def refresh(self) -> None:
        """Has inner functions see what variables around them hold now, as at each of their calls;
        only this function sets these."""
        for closure, shared in self.closures:
            for name in shared:
                value = self.env.get(name)
                if value is None and name not in self.own:
                    value = Lost(f"{name}, a variable that an inner function reads, is not set yet")
                elif value is None:
                    value = Dynamic(self.home(name))
                elif value is not closure and reaches(value, closure):
                    value = Lost(f"{name}, inner functions that refer to each other")
                closure.captured[name] = value

    def reading(self, value: Abstract, callee: Abstract, args: list[Abstract]) -> Abstract:
        """An iterator that calls inner functions among the arguments, or goes through iterators
        that do, with the variables that they read."""
        if not is_fresh(value):
            if isinstance(callee, Static) and any(callee.value is f for f in _LAZY):
                self.lazy.update(*map(reads_of, args))
            return value
        reads = frozenset[str]().union(*map(reads_of, args), *map(variables_of, args))
        return with_reads(value, reads - self.free.keys())

    # ---- operators

    def verb_slice(self, instr: Instr) -> None:
        parts = [self.read(o) for o in instr.operands]
        if all(isinstance(p, Static) for p in parts):
            self.assign(instr.outs[0], Static(slice(*[p.value for p in parts])))  # type: ignore[union-attr]
            return
        self.give(instr, "slice", tuple(map(self.operand, parts)))

    def verb_binary(self, instr: Instr) -> None:
        parts = [self.unread(self.read(o)) for o in instr.operands]
        items = [p.items for p in parts if isinstance(p, Pack)]
        if instr.attr == "+" and len(items) == 2:
            self.assign(instr.outs[0], Pack((*items[0], *items[1])))
            return
        if self.worked_out(instr, parts, known.BINARY[instr.attr]):
            made = self.env[instr.outs[0]]
            if isinstance(made, Static):
                self.assign(instr.outs[0], self.another(made.value))
        else:
            # of `%` a text may be on the left
            one = parts[:1] if instr.attr == "%" else parts
            kind = "Tensor" if "Tensor" in map(kind_of, one) else ""
            self.operate(instr, parts, known.SPECIAL[instr.attr], kind)

    def verb_inplace(self, instr: Instr) -> None:
        parts = [self.read(o) for o in instr.operands]
        if isinstance(parts[0], Static) and isinstance(parts[0].value, (list, dict, set)):
            kind = type(parts[0].value).__name__
            what = f"a {kind} that is there before the program runs and is changed"
            raise NotExportable(what, "make a new one")
        if not self.worked_out(instr, parts, known.BINARY[instr.attr]):
            self.operate(instr, parts, known.SPECIAL[instr.attr], kind_of(parts[0]))

    def verb_unary(self, instr: Instr) -> None:
        part = self.unread(self.read(instr.operands[0]))
        if instr.attr == "not" and isinstance(part, Pack):
            self.assign(instr.outs[0], Static(not part.items))
        elif not self.worked_out(instr, [part], known.UNARY[instr.attr]):
            if instr.attr == "not":
                part = self.truth_of(part)
                return self.give(instr, "unary", (self.operand(part),), instr.attr)
            self.operate(instr, [part], known.SPECIAL_UNARY[instr.attr], kind_of(part))

    def verb_compare(self, instr: Instr) -> None:
        parts = [self.read(o) for o in instr.operands]
        if any(isinstance(p, Choice) for p in parts):
            return self.settle(instr, self.compared(instr.attr, parts[0], parts[1]))
        if instr.attr in ("is", "is not"):
            if all(isinstance(p, Static) for p in parts):
                found = known.COMPARE[instr.attr](*[p.value for p in parts])  # type: ignore[union-attr]
                self.assign(instr.outs[0], Static(found))
                return
            values = [p for p in parts if isinstance(p, Static)]
            others = [p for p in parts if not isinstance(p, Static)]
            if values and not isinstance(values[0].value, Tensor):
                (other,) = others
                if kind_of(other) == "Tensor" or not isinstance(other, Dynamic):
                    self.assign(instr.outs[0], Static(instr.attr == "is not"))
                    return
        if instr.attr in ("in", "not in") and isinstance(parts[1], Static):
            held = parts[1].value
            if isinstance(held, (dict, weft.nn.ModuleDict, weft.nn.ParameterDict)):
                parts[1] = Static(tuple(held.keys()))
            elif isinstance(held, collections.deque):
                parts[1] = Static(tuple(held))
        elif instr.attr in ("in", "not in") and isinstance(parts[1], Items):
            if parts[1].kind is dict and not self.can_hold(parts[1]):
                parts[1] = Static(tuple(parts[1].keys))
        if instr.attr not in ("in", "not in"):
            parts = list(map(self.unread, parts))
        elif any(self.special_methods(parts[1], name) for name in ("__contains__", "__iter__")):
            return self.contained(instr, parts)
        if not self.worked_out(instr, parts, known.COMPARE[instr.attr]):
            self.operate(instr, parts, known.SPECIAL_COMPARE.get(instr.attr, ""))

    def operate(self, instr: Instr, parts: list[Abstract], name: str, kind: str = "") -> None:
        """An operator, as classes of records say."""
        raise NotImplementedError

    def contained(self, instr: Instr, parts: list[Abstract]) -> None:
        """Whether a record says that it has a value, or goes through it."""
        one, holder = parts
        found = self.by_class(
            holder, "__contains__", [one], lambda: self.contained_plainly(one, holder)
        )
        self.settle(instr, self.negated(found, instr.attr == "not in"))

    def contained_plainly(self, one: Abstract, holder: Abstract) -> Abstract:
        """The same of what has no `__contains__` of the user's."""
        raise NotImplementedError

    def negated(self, value: Abstract, holds: bool) -> Abstract:
        """The opposite of a value, if that is asked for."""
        return Dynamic(self.made("unary", (self.operand(value),), "not")) if holds else value

    def found_in(self, parts: list[Abstract]) -> Abstract:
        """Whether a value of another kind has one."""
        raise NotImplementedError

    def compared(self, sign: str, one: Abstract, other: Abstract) -> Abstract:
        """What a comparison gives of which the run chooses an operand."""
        if isinstance(one, Choice) and one is not other:
            return self.choose(one, lambda option: self.compared(sign, option, other))
        if isinstance(other, Choice) and one is not other:
            return self.choose(other, lambda option: self.compared(sign, one, option))
        if sign in ("is", "is not", "==", "!=") and (
            one is other or isinstance(one, Closure) or isinstance(other, Closure)
        ):
            return Static((one is other) == (sign in ("is", "==")))
        values = plain(one), plain(other)
        if not any(v is UNKNOWN for v in values):
            return Static(known.COMPARE[sign](*values))
        name = known.SPECIAL_COMPARE.get(sign, "")
        asked = name and zip((one, other), known.methods_of(name))
        if sign in ("in", "not in") or asked and any(self.special_methods(*pair) for pair in asked):
            raise NotExportable(f"{sign} of one of several that a run chooses", "compare by `is`")
        parts = tuple(self.operand(as_number(part)) for part in (one, other))
        return Dynamic(self.made("compare", parts, sign))

    def choose(self, choice: Choice, work: Callable[[Abstract], Abstract]) -> Abstract:
        """Does it with the option that a key names."""
        raise NotImplementedError

    def truth(self, value: Abstract) -> bool | None:
        """Whether a value holds, if that is known."""
        if isinstance(value, (Pack, Items)):
            return bool(value.items)
        if isinstance(value, Static) and not isinstance(value.value, Tensor):
            return bool(value.value)
        return True if isinstance(value, Closure) else None

    def truth_of(self, value: Abstract) -> Abstract:
        """What says whether a value holds: a number or length of a record's own, else itself."""
        if isinstance(value, Choice):
            return self.choose(value, lambda option: Static(bool(self.truth(option))))
        return self.by_class(
            value, "__bool__", [], lambda: self.by_class(value, "__len__", [], lambda: value)
        )

    def verb_format(self, instr: Instr) -> None:
        parts = [self.read(o) for o in instr.operands]
        convert = known.CONVERT[instr.attr]
        if not self.worked_out(instr, parts, lambda v, spec: format(convert(v), spec)):
            self.give(instr, "format", tuple(map(self.operand, parts)), instr.attr)

    def verb_join(self, instr: Instr) -> None:
        parts = [self.read(o) for o in instr.operands]
        if not self.worked_out(instr, parts, lambda *texts: "".join(texts)):
            self.give(instr, "join", tuple(map(self.operand, parts)))

    # ---- displays

    def gone_through(self, value: Abstract) -> Abstract:
        """What gives the items of a value."""
        return self.by_class(value, "__iter__", [], lambda: value)

    def verb_tuple(self, instr: Instr) -> None:
        self.assign(instr.outs[0], self.packed([self.read(o) for o in instr.operands]))

    def verb_list(self, instr: Instr) -> None:
        parts = [self.copied(self.read(o)) for o in instr.operands]
        self.assign(instr.outs[0], Items(list, parts))

    def verb_set(self, instr: Instr) -> None:
        self.give(instr, "set", tuple(self.operand(self.read(o)) for o in instr.operands))

    def verb_dict(self, instr: Instr) -> None:
        keys = [self.read(o) for o in instr.operands[::2]]
        parts = [self.copied(self.read(o)) for o in instr.operands[1::2]]
        if all(isinstance(k, Static) and not holds_tensor(k.value) for k in keys):
            made: dict[Any, Abstract] = {k.value: p for k, p in zip(keys, parts)}  # type: ignore[union-attr]
            self.assign(instr.outs[0], Items(dict, list(made.values()), list(made)))
            return
        operands = [self.operand(one) for pair in zip(keys, parts) for one in pair]
        self.give(instr, "dict", tuple(operands))

    def filled(self, instr: Instr) -> Items | None:
        """The list or dict that a temporary alone refers to, if that is known."""
        value = self.env.get(instr.operands[0])
        return value if isinstance(value, Items) else None

    def fill(self, instr: Instr, *parts: Abstract) -> None:
        """Does it when the program runs."""
        self.materialise(instr.operands[0])
        target = self.operand(self.read(instr.operands[0]))
        self.emit(instr.verb, (), (target, *map(self.operand, parts)), instr.attr)

    def verb_append(self, instr: Instr) -> None:
        part = self.kept(self.read(instr.operands[1]))
        if items := self.filled(instr):
            items.items.append(part)
        else:
            self.fill(instr, part)

    def verb_extend(self, instr: Instr) -> None:
        part = self.gone_through(self.read(instr.operands[1]))
        parts = self.known_items(part)
        if (items := self.filled(instr)) and parts is not None:
            items.items += map(self.kept, parts)
        else:
            self.fill(instr, part)

    def verb_put(self, instr: Instr) -> None:
        key, part = self.read(instr.operands[1]), self.kept(self.read(instr.operands[2]))
        items = self.filled(instr)
        if items and isinstance(key, Static) and not holds_tensor(key.value):
            put(items, key.value, part)
        else:
            self.fill(instr, key, part)

    def verb_insert(self, instr: Instr) -> None:
        """Arguments by name behind `**`."""
        part = self.read(instr.operands[1])
        items = self.filled(instr)
        known_parts = self.known_words(part)
        if items is not None and known_parts is not None:
            for name, value in known_parts.items():
                if name in items.keys:
                    raise NotExportable(f"multiple values for keyword argument {name!r}")
                put(items, name, value)
            return
        callee = self.read(instr.operands[2])
        of = callee.value if isinstance(callee, Static) else callee
        name = getattr(of, "__qualname__", "function")
        self.fill(instr, part, Static(f"{name}()"))

    def verb_update(self, instr: Instr) -> None:
        self.fill(instr, self.gone_through(self.read(instr.operands[1])))

    def verb_merge(self, instr: Instr) -> None:
        part = self.read(instr.operands[1])
        words = self.known_words(part)
        if (items := self.filled(instr)) is not None and words is not None:
            for name, value in words.items():
                put(items, name, value)
            return
        self.fill(instr, part)

    def verb_add(self, instr: Instr) -> None:
        self.fill(instr, self.read(instr.operands[1]))

    def verb_to_tuple(self, instr: Instr) -> None:
        part = self.read(instr.operands[0])
        if isinstance(part, Items) and part.kind is list:
            self.assign(instr.outs[0], self.packed(part.items))
        elif isinstance(part, Pack):
            self.assign(instr.outs[0], part)
        elif not self.worked_out(instr, [part], tuple):
            self.give(instr, "to_tuple", (self.operand(part),))

    def verb_unpack(self, instr: Instr) -> None:
        value = self.read(instr.operands[0])
        parts = self.known_items(value)
        if parts is not None and instr.attr is not None:
            before, after = instr.attr
            middle = len(parts) - after
            if middle >= before:
                starred: Abstract = Items(list, parts[before:middle])
                parts = [*parts[:before], starred, *parts[middle:]]
        if parts is not None and len(parts) == len(instr.outs):
            parts = [self.copied(part) for part in parts]  # `a, b = b, a`
            for register, part in zip(instr.outs, parts):
                self.assign(register, part)
            return
        homes = tuple(map(self.home, instr.outs))
        self.emit("unpack", homes, (self.operand(value),), instr.attr)
        for register, home in zip(instr.outs, homes):
            self.env[register] = Dynamic(home)

    def verb_function(self, instr: Instr) -> None:
        made = self.lowered.inner[instr.attr]
        defaults, words = (self.read(o) for o in instr.operands)
        captured: dict[str, Abstract] = {}
        closure = Closure(
            made,
            captured,
            self.target.module,
            tuple(self.known_items(defaults) or ()),
            self.known_words(words) or {},
        )
        for name in made.free:
            captured[name] = self.free.get(name) or self.env.get(name) or closure
        if isinstance(made, Kept):
            raise NotExportable(f"{made.reason.reason}", made.reason.hint)
        self.closures.append((closure, {name for name in made.free if name not in self.free}))
        self.env[instr.outs[0]] = closure


def reaches(value: Abstract, closure: Closure) -> bool:
    """Whether a value is an inner function, or refers to it."""
    if value is closure:
        return True
    if isinstance(value, Closure):
        return any(reaches(part, closure) for _, part in captured_by(value))
    if isinstance(value, (Pack, Items)):
        return any(reaches(part, closure) for part in value.items)
    return isinstance(value, Choice) and any(reaches(part, closure) for _, part in value.options)


def variables_of(value: Abstract) -> set[str]:
    """The names of what an inner function refers to."""
    if not isinstance(value, Closure):
        return set()
    return {name for name in value.captured}.union(
        *(variables_of(part) for _, part in captured_by(value))
    )
