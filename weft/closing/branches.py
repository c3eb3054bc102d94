"""Branches, loops and what is tried: where ways part and meet again."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Set
from typing import Any

from weft.closing import known
from weft.closing.errors import NotExportable
from weft.closing.frame import MOST_ITEMS, Env, Loop, Register, same
from weft.closing.specials import Specials
from weft.closing.values import (
    Abstract,
    Choice,
    Closure,
    Dynamic,
    Items,
    Lost,
    Pack,
    Ref,
    Static,
    Turn,
    Turns,
)
from weft.frontend.ir import Body, Instr

_MOST_TURNS = MOST_ITEMS  # of a loop that is written out where it cannot be one
_FILLS = {"append", "extend", "add", "put", "insert", "update", "merge"}


class Branches(Specials):
    """The part of `Walk` that knows regions."""

    def verb_if(self, instr: Instr) -> bool | None:
        cond = self.unread(self.read(instr.operands[0]))
        truth = self.truth(cond)
        if truth is not None:
            return self.body(instr.regions[0 if truth else 1])
        operand = self.operand(self.truth_of(cond))
        self.settle_filled(instr.regions)
        env = dict(self.env)
        first, reached = self.region(instr.regions[0])
        first_env, self.env = self.env, env
        second, other_reached = self.region(instr.regions[1])
        if reached and other_reached:
            self.meet(first_env, first, second)
        elif reached:
            self.env = first_env
        self.emit("if", (), (operand,), None, (first, second))
        return reached or other_reached

    def meet(self, first_env: Env, first: Body, second: Body) -> None:
        """Two ways meet: what they know unlike of a register, it holds, if anything reads it."""
        assert self.at
        if not self.live:
            note_live(self.lowered.body, set(), self.live)
        read = self.live[id(self.at)]
        first_env, second_env = (
            {r: v for r, v in env.items() if not self.is_temporary(r) or r in read}
            for env in (first_env, self.env)
        )
        both = [r for r in {**first_env, **second_env} if r in first_env and r in second_env]
        unlike = [r for r in both if not same(first_env[r], second_env[r])]
        apart = [r for r in {**first_env, **second_env} if r not in both]
        unlike += [r for r in apart if not self.is_temporary(r)]
        taken = self.writer.register()
        found = {r: self.either(first_env, r, taken) for r in unlike}
        choices = {r: choice for r, choice in found.items() if choice is not None}
        for env, body, holds in ((first_env, first, True), (second_env, second, False)):
            self.env = env
            with self.writer.region(body):
                if choices:
                    self.emit("move", (taken,), (self.writer.constant(holds),))
                for register in unlike:
                    if register not in choices:
                        self.materialise(register)
        self.env = {}
        for register in {**first_env, **second_env}:
            one, other = first_env.get(register), second_env.get(register)
            if register in choices:
                self.env[register] = choices[register]
            elif isinstance(one, Lost):
                self.env[register] = one
            elif isinstance(other, Lost):
                self.env[register] = other
            elif one is None or other is None:
                continue  # perhaps unbound: looked at when it runs
            elif isinstance(one, Dynamic) and isinstance(other, Dynamic):
                kind = one.kind if one.kind == other.kind else ""
                self.env[register] = Dynamic(one.register, kind)
            else:
                self.env[register] = one

    def either(self, first_env: Env, register: Register, taken: int) -> Choice | None:
        """What a variable is that has an option (`is_option`) on each of two ways."""
        one, other = first_env.get(register), self.env.get(register)
        if one is None or other is None or self.is_temporary(register):
            return None
        if (
            not is_option(one)
            or not is_option(other)
            or self.can_hold(one)
            and self.can_hold(other)
        ):
            return None
        return Choice(taken, [((True,), one), ((False,), other)])

    def settle_filled(self, regions: Iterable[Body]) -> None:
        """Lists that a region adds to are made before it."""
        for register in filled_in(regions):
            if isinstance(self.env.get(register), Items):
                self.materialise(register)

    def enter_loop(self, instr: Instr) -> Loop:
        """What a turn assigns is known no more."""
        assigned = assigned_in(instr.regions) | set(instr.outs)
        self.settle_filled(instr.regions)
        for register in assigned:
            if self.is_temporary(register):
                self.env.pop(register, None)
            else:
                self.materialise(register)
                if isinstance(value := self.env.get(register), Dynamic):
                    self.env[register] = Dynamic(value.register)
        return Loop(assigned)

    def end_turn(self) -> None:
        """At the end of a turn, registers hold what the next one finds there."""
        for register in self.loops[-1].assigned:
            if not self.is_temporary(register):
                self.materialise(register)

    def verb_break(self, instr: Instr) -> bool:
        self.end_turn()
        self.loops[-1].breaks = True
        self.emit("break")
        return False

    def verb_continue(self, instr: Instr) -> bool:
        self.end_turn()
        self.emit("continue")
        return False

    def turn(self, loop: Loop, instructions: Body) -> Body:
        """The body of a loop."""
        self.loops.append(loop)
        before = self.lazy.copy()
        try:
            with self.writer.region() as made:
                if self.body(instructions):
                    self.end_turn()
        finally:
            self.loops.pop()
        self.expect_not_read(*(n for n in loop.assigned if isinstance(n, str) and n not in before))
        return made

    def forget(self, registers: set[Register]) -> None:
        """At the end of one of two ways: what it assigned, registers hold behind it, but for what
        none can hold, and for temporaries, which are its own."""
        for register in registers:
            if not self.is_temporary(register):
                self.materialise(register)
            if not isinstance(self.env.get(register), Lost):
                self.env.pop(register, None)

    def after_loop(self, env: Env, loop: Loop, other: Body) -> tuple[Body, bool]:
        """The `else` of a loop; what is known behind it."""
        for register in loop.assigned:
            if isinstance(lost := self.env.get(register), Lost):
                env[register] = lost
            elif not self.is_temporary(register):
                env.pop(register, None)
        self.env = dict(env)
        with self.writer.region() as made:
            reached = self.body(other)
            if reached and loop.breaks:
                self.forget(assigned_in([other]))
        if not reached:  # but by `break`, from where `env` holds
            self.env = env
        return made, reached or loop.breaks

    def verb_while(self, instr: Instr) -> bool | None:
        test, body, other = instr.regions
        loop = self.enter_loop(instr)
        env = dict(self.env)
        with self.writer.region() as first:
            self.body(test)
            cond = self.read(instr.outs[0])
            truth = self.truth(cond)
            home = self.home(instr.outs[0])
            if truth is None:
                cond = self.truth_of(cond)
            operand = self.writer.constant(truth) if truth is not None else self.operand(cond)
            if operand != home:
                self.emit("move", (home,), (operand,))
            for register in assigned_in([test]):  # the loop may end here
                if not self.is_temporary(register):
                    self.materialise(register)
        second = self.turn(loop, body)
        third, reached = self.after_loop(env, loop, other)
        self.emit("while", (home,), (), None, (first, second, third))
        return loop.breaks if truth is True else reached

    def verb_for(self, instr: Instr) -> bool | None:
        value = self.read(instr.operands[0])
        if self.may_ask(value):
            return self.asking(instr, self.iterator_of(value))
        value = self.gone_through(value)
        if isinstance(value, Turns):
            if instr.regions[1]:
                raise NotExportable("zip() of Modules and values in a loop with an else")
            return self.turns(instr, list(value.items), value.lengths)
        items = self.known_items(value)
        if items is not None and self.is_written_out(instr, value, items):
            return self.unrolled(instr, items)
        if items is None or len(items) > _MOST_TURNS:
            return self.looped(instr, value, may_unroll=False)
        with contextlib.suppress(NotExportable), self.undone():
            return self.looped(instr, value, may_unroll=True)
        return self.unrolled(instr, items)

    def is_written_out(self, instr: Instr, value: Abstract, items: list[Abstract]) -> bool:
        """Whether the turns of a loop are written out: where its values can be in no register, or
        are in several and it is short."""
        if not all(self.can_hold(item) for item in items):
            return True
        if isinstance(value, Static) and not isinstance(value.value, (tuple, list, dict)):
            return False
        return len(items) * size_of(instr.regions) <= _MOST_TURNS

    def looped(self, instr: Instr, value: Abstract, may_unroll: bool) -> bool:
        """A loop that is one when the program runs."""
        iterable = self.operand(value)
        loop = self.enter_loop(instr)
        loop.may_unroll = may_unroll
        env = dict(self.env)
        home = self.home(instr.outs[0])
        self.env[instr.outs[0]] = Dynamic(home)
        first = self.turn(loop, instr.regions[0])
        second, reached = self.after_loop(env, loop, instr.regions[1])
        self.emit("for", (home,), (iterable,), None, (first, second))
        return reached

    def asking(self, instr: Instr, iterator: Abstract) -> bool:
        """A loop that asks an iterator, which may be one of the user's, before each turn."""
        held = Dynamic(self.made("move", (self.operand(iterator),)))
        loop = self.enter_loop(instr)
        env = dict(self.env)
        goes, item, ended = (self.writer.register() for _ in range(3))
        with self.writer.region() as asked:
            found = self.by_class(held, "__next__", [], lambda: self.of_run("next", [held]))
            self.emit("move", (item,), (self.operand(found),))
            self.emit("move", (goes,), (self.writer.constant(True),))
        with self.writer.region() as test:
            self.emit("match", (ended,), (self.writer.constant(StopIteration),))
        with self.writer.region() as ends:
            self.emit("move", (item,), (self.writer.constant(None),))
            self.emit("move", (goes,), (self.writer.constant(False),))
        with self.writer.region() as first:
            self.emit("try", (ended,), (), [-1], (asked, [], [], test, ends))
        with self.writer.region() as start:
            self.assign(instr.outs[0], Dynamic(item))
        body = start + self.turn(loop, instr.regions[0])
        other, reached = self.after_loop(env, loop, instr.regions[1])
        self.emit("while", (goes,), (), None, (first, body, other))
        return reached

    def unrolled(self, instr: Instr, items: list[Abstract]) -> bool | None:
        """Each turn by itself; where it may be left early a loop of one, the next in its `else`."""
        body, other = instr.regions
        if not leaves_early(body):
            for item in items:
                self.assign(instr.outs[0], item)
                if not self.body(body):
                    return False
            return self.body(other)
        return self.turns(instr, items)

    def in_turn(self, item: Abstract) -> Abstract:
        """A value of a turn that is made."""
        if isinstance(item, Turn):
            operands = item.register, self.writer.constant(item.number)
            return Dynamic(self.made("item", operands))
        return Pack(tuple(map(self.in_turn, item.items))) if isinstance(item, Pack) else item

    def turns(
        self, instr: Instr, items: list[Abstract], lengths: tuple[int, ...] = (), number: int = 0
    ) -> bool:
        """The turns from number `number` on; none behind the least of `lengths`."""
        if number == len(items):
            return self.body(instr.regions[1])
        once = instr._replace(outs=(instr.outs[0],), operands=())
        loop = self.enter_loop(once)
        env = dict(self.env)
        with self.writer.region() as start:
            for length in lengths:
                there = self.made("compare", (length, self.writer.constant(number)), "<=")
                self.emit("if", (), (there,), None, ([Instr("break", (), (), None, (), -1)], []))
                loop.breaks = True
            self.assign(instr.outs[0], self.in_turn(items[number]))
        first = start + self.turn(loop, instr.regions[0])
        for register in loop.assigned:
            if isinstance(lost := self.env.get(register), Lost):
                env[register] = lost
            elif not self.is_temporary(register):
                env.pop(register, None)
        self.env = dict(env)
        with self.writer.region() as second:
            reached = self.turns(instr, items, lengths, number + 1)
            if reached:
                self.forget(loop.assigned | assigned_in([instr.regions[1]]))
        if not reached:
            self.env = env
        one = self.writer.constant((None,))
        self.emit("for", (self.writer.register(),), (one,), None, (first, second))
        return reached or loop.breaks

    def verb_with(self, instr: Instr) -> bool | None:
        manager = self.read(instr.operands[0])
        if not isinstance(manager, Static):
            raise NotExportable("a context manager that only a run knows")
        mode = self.mode_of(manager.value)
        if mode is None:
            self.assign(instr.outs[0], Static(None))
            return self.body(instr.regions[0])
        region, reached = self.region(instr.regions[0])
        home = self.home(instr.outs[0])
        self.emit("with", (home,), (self.writer.constant(mode),), None, (region,))
        return reached

    def mode_of(self, manager: Any) -> Ref | None:
        """The context manager as a program has it; None for one that does nothing."""
        if isinstance(manager, contextlib.nullcontext):
            return None
        if (mode := known.mode_of(manager)) is not None:
            return mode
        hint = "no_grad, enable_grad, set_grad_enabled, inference_mode and autocast are known"
        raise NotExportable(f"the context manager {type(manager).__name__}", hint)

    def verb_try(self, instr: Instr) -> bool | None:
        """What the regions assign is held by registers from the moment it is assigned."""
        assigned = assigned_in(instr.regions)
        self.settle_filled(instr.regions)
        for register in assigned:
            if not self.is_temporary(register):
                self.materialise(register)
        before, self.forced = (
            self.forced,
            self.forced | {r for r in assigned if not self.is_temporary(r)},
        )
        regions: list[Body] = []
        outs: list[int] = []
        reached = []
        lost: Env = {}
        env = dict(self.env)
        for k, instructions in enumerate(instr.regions):
            handler = k - 3
            self.env = dict(env) if k != 1 else self.env
            if handler >= 0 and handler % 2 == 0:
                with self.writer.region() as test:
                    self.body(instructions)
                    kind = self.operand(self.read(instr.outs[handler // 2]))
                    outs.append(self.writer.register())
                    self.emit("move", (outs[-1],), (kind,))
                regions.append(test)
                continue
            if handler >= 0 and (bound := instr.attr[handler // 2]) >= 0:
                self.env[bound] = Dynamic(self.home(bound))
            with self.writer.region() as made:
                reached.append(self.body(instructions))
                for register in assigned:
                    if not self.is_temporary(register):
                        if reached[-1] or isinstance(self.env.get(register), Closure):
                            self.materialise(register)
                        if isinstance(value := self.env.get(register), Lost):
                            lost[register] = env[register] = value
            regions.append(made)
        self.forced = before
        self.env = env
        for register in assigned:
            if not self.is_temporary(register):
                self.env.pop(register, None)
        self.env.update(lost)
        attr = [self.home(r) if r >= 0 else -1 for r in instr.attr]
        self.emit("try", tuple(outs), (), attr, tuple(regions))
        body, other, final, *handlers = reached
        return final and (body and other or any(handlers))

    def verb_raise(self, instr: Instr) -> bool:
        parts = [self.read(o) for o in instr.operands]
        self.emit("raise", (), tuple(map(self.operand, parts)))
        return False

    def verb_reraise(self, instr: Instr) -> bool:
        self.emit("reraise")
        return False

    def verb_match(self, instr: Instr) -> None:
        self.give(instr, "match", (self.operand(self.read(instr.operands[0])),))

    def verb_assert(self, instr: Instr) -> None:
        cond = self.read(instr.operands[0])
        truth = self.truth(cond)
        if truth is True:
            return
        operand = self.operand(self.truth_of(cond))
        if not instr.regions:
            self.emit("assert", (), (operand,))
            return
        env = dict(self.env)
        with self.writer.region() as region:
            self.body(instr.regions[0])
            message = self.operand(self.read(instr.outs[0]))
            home = self.writer.register()
            self.emit("move", (home,), (message,))
        self.env = env
        self.emit("assert", (home,), (operand,), None, (region,))


def is_option(value: Abstract) -> bool:
    """Whether a value is known to be one that can be called, None, or a member of an Enum: one of
    which a run may choose, and no register hold."""
    if isinstance(value, Static):
        return callable(value.value) or value.value is None or isinstance(value.value, enum.Enum)
    return isinstance(value, (Closure, Choice))


def assigned_in(regions: Iterable[Body]) -> set[Register]:
    """What instructions assign: registers, and cells by their names."""
    out: set[Register] = set()
    for body in regions:
        for instr in body:
            out.update(instr.outs)
            if instr.verb in ("set_cell", "new_cell"):
                out.add(instr.attr)
            if instr.verb == "try":
                out.update(r for r in instr.attr if r >= 0)
            out |= assigned_in(instr.regions)
    return out


def note_live(body: Body, after: Set[int], into: dict[int, Set[int]]) -> Set[int]:
    """Notes by `id` what may be read behind each instruction of a body and of its regions; gives
    what may be read from its beginning on."""
    live = after
    for instr in reversed(body):
        into[id(instr)] = live
        is_if = instr.verb == "if"
        inside: Set[int] = set() if is_if else live  # it may be passed
        for k, region in [*enumerate(instr.regions)] * (1 if is_if else 2):
            # a region may come behind any of the instruction's, as one turn behind another
            behind = live if is_if else inside | read_behind(instr, k)
            inside = inside | note_live(region, behind, into)
        live = (inside if instr.regions else live) - set(instr.outs)
        live = live | {r for r in instr.operands if r >= 0}
    return live


def read_behind(instr: Instr, region: int) -> Set[int]:
    """What an instruction itself reads behind one of its regions: a condition, or whether an
    exception matches."""
    if instr.verb in ("while", "assert"):
        return set(instr.outs) if not region else set()
    if instr.verb == "try" and region >= 3 and region % 2:
        return {instr.outs[(region - 3) // 2]}
    return set()


def filled_in(regions: Iterable[Body]) -> set[Register]:
    """The registers of lists and dicts that instructions add to."""
    out: set[Register] = set()
    for body in regions:
        for instr in body:
            if instr.verb in _FILLS or instr.verb == "method" and instr.attr[0] in known.CHANGES:
                out.add(instr.operands[0])
            out |= filled_in(instr.regions)
    return out


def size_of(regions: Iterable[Body]) -> int:
    """How many instructions there are."""
    return sum(1 + size_of(instr.regions) for body in regions for instr in body)


def leaves_early(body: Body) -> bool:
    """Whether a loop's body has a `break` or `continue` of its own."""
    for instr in body:
        if instr.verb in ("break", "continue"):
            return True
        regions = instr.regions
        if instr.verb in ("for", "while"):
            regions = regions[-1:]
        if any(map(leaves_early, regions)):
            return True
    return False
