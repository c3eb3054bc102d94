"""From a place in the source to the bytecode instruction that does the same."""

from __future__ import annotations

import ast
import opcode
from types import CodeType

Place = tuple[int | None, int | None, int | None, int | None]

_CACHE = opcode.opmap.get("CACHE", 0)
_EXTENDED = opcode.opmap["EXTENDED_ARG"]

_CALLS = "CALL CALL_KW CALL_FUNCTION_EX CALL_INTRINSIC_1"
_JUMPS = " ".join(name for name in opcode.opmap if "JUMP" in name and "IF" in name)
# The opcodes of a verb, over the versions of CPython.
_OPCODES = {
    "global": "LOAD_GLOBAL LOAD_NAME",
    "outer": "LOAD_DEREF",
    "move": "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST",
    "delete": "DELETE_FAST",
    "cell": "LOAD_DEREF LOAD_CLOSURE",
    "free": "LOAD_DEREF LOAD_CLOSURE",
    "set_cell": "STORE_DEREF",
    "attr": "LOAD_ATTR LOAD_METHOD",
    "lookup": "LOAD_METHOD LOAD_ATTR",
    "set_attr": "STORE_ATTR",
    "del_attr": "DELETE_ATTR",
    "item": "BINARY_SUBSCR BINARY_SLICE BINARY_OP",
    "set_item": "STORE_SUBSCR STORE_SLICE",
    "del_item": "DELETE_SUBSCR",
    "slice": "BUILD_SLICE BINARY_SLICE STORE_SLICE",
    "binary": "BINARY_OP",
    "inplace": "BINARY_OP",
    "unary": "UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT UNARY_NOT CALL_INTRINSIC_1",
    "compare": "COMPARE_OP IS_OP CONTAINS_OP",
    "unpack": "UNPACK_SEQUENCE UNPACK_EX",
    "tuple": "BUILD_TUPLE",
    "list": "BUILD_LIST",
    "set": "BUILD_SET",
    "dict": "BUILD_MAP BUILD_CONST_KEY_MAP",
    "extend": "LIST_EXTEND",
    "update": "SET_UPDATE",
    "merge": "DICT_UPDATE",
    "insert": "DICT_MERGE",
    "append": "LIST_APPEND YIELD_VALUE",
    "add": "SET_ADD",
    "put": "MAP_ADD",
    "format": "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC",
    "join": "BUILD_STRING",
    "call": _CALLS,
    "call_ex": "CALL_FUNCTION_EX",
    "method": _CALLS,
    "super": _CALLS + " LOAD_SUPER_ATTR",
    "iter": "GET_ITER",
    "for": "GET_ITER FOR_ITER",
    "function": "MAKE_FUNCTION",
    "import": "IMPORT_NAME",
    "import_from": "IMPORT_FROM",
    "raise": "RAISE_VARARGS",
    "reraise": "RAISE_VARARGS",
    "assert": "RAISE_VARARGS",
    "if": _JUMPS,
    "while": _JUMPS,
    "with": "BEFORE_WITH LOAD_SPECIAL",
    "match": "CHECK_EXC_MATCH",
    "return": "RETURN_VALUE RETURN_CONST",
}
OPCODES = {
    verb: frozenset(opcode.opmap[name] for name in names.split() if name in opcode.opmap)
    for verb, names in _OPCODES.items()
}


def place(node: ast.expr | ast.stmt | ast.excepthandler) -> Place:
    """As `co_positions` gives it."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def attr_place(node: ast.Attribute, whole: ast.expr) -> Place:
    """Of `whole`, which reads or calls the attribute `node`: over several lines it starts with the
    attribute's name."""
    if node.lineno == node.end_lineno or node.end_col_offset is None:
        return place(whole)
    column = node.end_col_offset - len(node.attr)
    if column < 0:
        return node.end_lineno, whole.end_lineno, None, None
    return node.end_lineno, whole.end_lineno, column, whole.end_col_offset


class Offsets:
    """Offsets of the instructions of one code object, by place.

    Args:
        code: the code object; None, of a tree alone: then no offset is known.
    """

    def __init__(self, code: CodeType | None) -> None:
        self.raw = code.co_code if code else b""
        self.places: dict[Place, list[int]] = {}
        self.lines: dict[int | None, int] = {}
        positions = code.co_positions() if code else ()
        for offset, (op, where) in enumerate(zip(self.raw[::2], positions)):
            if op == _CACHE or op == _EXTENDED:
                continue
            if (found := self.places.get(where)) is not None:
                found.append(2 * offset)
            else:
                self.places[where] = [2 * offset]
                self.lines.setdefault(where[0], 2 * offset)

    def at(self, verb: str, *places: Place) -> int:
        """The first instruction at one of `places` that does what `verb` says; else one at the
        first place that has any, else one of the line; -1 if there is none.

        Dead code has none, nor has what the compiler computed itself. In CPython 3.11 that of an
        `assert`, or what adds to a set or dict, may have the place of a comparison before it.
        """
        codes = OPCODES.get(verb, frozenset())
        found = [at for where in places for at in self.places.get(where, ())]
        for at in found:
            if self.raw[at] in codes:
                return at
        if verb in ("assert", "add", "put") and (among := self.inside(places[0], codes)):
            return max(among)
        return found[0] if found else self.lines.get(places[0][0], -1)

    def inside(self, whole: Place, codes: frozenset[int]) -> list[int]:
        """Instructions of these opcodes at places in a statement."""
        line, last, column, final = whole
        assert None not in whole
        begin, end = (line, column), (last, final)
        return [
            at
            for where, found in self.places.items()
            if None not in where and begin <= (where[0], where[2]) and (where[1], where[3]) <= end
            for at in found
            if self.raw[at] in codes
        ]
