"""Which differences between weft and PyTorch stay, with the reason: autodiff_rules.py lists them.

`known` gives the reason of a difference, or None; `undrawn` is for calls that PyTorch itself
answers wrongly.
"""

import itertools
import math
import re

from autodiff_rules import ERRORS, ONE_NODE, RULES, SEVERAL, UNDRAWN, UNRECORDED


def lines(statements):
    return [line.strip() for text in statements for line in text.split("\n")]


def makers(name, statements):
    """The lines that assign to a variable."""
    return [
        line for line in lines(statements) if re.match(rf"([v\d, ]*\b)?{name}\b,?[v\d, ]* = ", line)
    ]


def named(text):
    """The variable that a difference is of."""
    found = re.match(r"[a-z_ ]+ of (v\d+):", text)
    return found[1] if found else ""


def made_of_gradients(name, statements, depth=4):
    """Whether a variable is a gradient, or made of one."""
    made = makers(name, statements)
    if any(".grad" in line or "t.func." in line for line in made):
        return True
    return depth > 0 and any(
        made_of_gradients(used, statements, depth - 1)
        for line in made
        for used in set(re.findall(r"\bv\d+\b", line.partition(" = ")[2])) - {name}
    )


def made_of_summed(name, statements, depth=4):
    """Whether a variable is a gradient of a sum, or made of one."""
    made = makers(name, statements)
    if any(re.search(r" = t\.autograd\.grad\(\[.*\.sum\(\)", line) for line in made):
        return True
    return depth > 0 and any(
        made_of_summed(used, statements, depth - 1)
        for line in made
        for used in set(re.findall(r"\bv\d+\b", line.partition(" = ")[2])) - {name}
    )


def target_of_failed(text, statements):
    """The variable that the statement wrote which an error is of."""
    at = re.match(r"error of statement (\d+):", text)
    line = statements[int(at[1])].split("\n")[-1] if at else ""
    found = re.search(r"\b(v\d+)\S*_\(|^\s*(v\d+)\[.*\] .?= |(?:relu|_)\((v\d+)", line)
    return next((name for name in found.groups() if name), "") if found else ""


def node_names(kind, text, statements):
    """The name of a node, and nothing else."""
    found = re.fullmatch(r"(grad )?grad_fn (\w+) (\w+)", kind)
    if not found or not all(
        re.search(r"Backward\w*$|CopySlices|NotImplemented|^Error$", name)
        for name in found.groups()[1:]
    ):
        return None
    of_gradient, first, _ = found.groups()
    call = ONE_NODE.get(first)
    if call and re.search(rf"\b({call})\(", "\n".join(statements)):
        return "the call is one op in PyTorch and several here"
    if first in (
        "AsStridedBackward0",
        "CloneBackward0",
        "TransposeBackward0",
    ) and re.search(r" @ |\bmatmul\(", "\n".join(statements)):
        return "the shapes that one product serves"
    second = "create_graph=True" in "\n".join(statements)
    if second and (of_gradient or made_of_gradients(named(text), statements)):
        return "a gradient's formula is one op here and several there"
    if found[2] == "Error" and found[3] == "_OnceBackward":
        return "the node of what must not be differentiated twice"
    if {found[2], found[3]} == {"AsStridedBackward0", "ViewAsRealBackward0"}:
        return "which view a view of real parts is made anew by"
    if first == "AsStridedBackward0" and re.search(
        r"detach_\(|requires_grad_\(", "\n".join(statements)
    ):
        return "PyTorch makes views anew of a base that is not in the graph any more"
    if re.match(r"(T|Transpose|Squeeze|Unsqueeze)Backward\d", found[3]) and re.search(
        UNRECORDED, "\n".join(statements)
    ):
        return "PyTorch: t_() under no_grad leaves the node of the former shape"
    if {found[2], found[3]} == {"UnsafeViewBackward0", "ViewBackward0"}:
        return "whether reshape copies depends on how a result lies in memory"
    if {found[2], found[3]} == {"AsStridedBackward0", "ViewAsComplexBackward0"}:
        return "which view a view of real parts is made anew by"
    if first == "AliasBackward0":
        return "a slice of everything is an alias in PyTorch"
    return None


def errors(kind, text):
    for kinds, theirs, ours, reason in ERRORS:
        if not re.fullmatch("error " + kinds, kind):
            continue
        _, first, second = (text.split("\n# ", 2) + ["", ""])[:3]
        if re.search(theirs, first) and re.search(ours, second):
            return reason
    return None


def on_several(text, statements):
    """Whether a hook that a difference is of is that of such a node."""
    name = re.search(r"log (h\d+)", text)
    if not name:
        return False
    hooked = re.search(rf"(v\d+)\.grad_fn\.\w+\(\w+\('{name[1]}'", "\n".join(statements))
    made = makers(hooked[1], statements) if hooked else []
    through = r" = (?:t\.broadcast_tensors\()?(v\d+)(\.\w+(\(\))?$|, )"
    same = [re.search(through, line) for line in made]
    made += [line for each in same if each for line in makers(each[1], statements)]
    return any(SEVERAL.search(line) for line in made) or bool(
        hooked and made_of_gradients(hooked[1], statements)
    )


def less(text):
    """Whether what a node's hook was given differs by gradients that are absent in one."""
    numbers = {"nan": math.nan, "inf": math.inf, "nanj": math.nan, "infj": math.inf}
    first, second = (
        eval(part, numbers) for part in re.search(r"expected (.*), got (.*)", text).groups()
    )
    if not all(isinstance(part, list) and len(part) in (1, 2) for part in (first, second)):
        return False
    if not all(isinstance(part, list) for part in (*first, *second)):
        return False
    pairs = [pair for parts in zip(first, second) for pair in itertools.zip_longest(*parts)]
    return len(first) == len(second) and all(a is None or b is None or near(a, b) for a, b in pairs)


def given_with_graph(text, statements):
    """Whether gradients differ by whether they require grad alone, and one was given that does:
    conj() is a view in PyTorch, and cumsum over one element hands its gradient on."""
    expected, got = re.search(r"expected (.*), got (.*)", text).groups()
    return (
        ".backward(" in "\n".join(statements)
        and re.search(r"\.(H|mH|conj\(\)|adjoint\(\)|cumsum)\b", "\n".join(statements))
        and expected.replace("True", "False") == got.replace("True", "False")
    )


def real_parts_alone(text, statements):
    """Whether gradients of complex numbers differ in their real parts alone, after two passes."""
    expected, got = re.search(r"expected (.*), got (.*)", text).groups()
    parts = [re.findall(r"[-+][\d.e-]+j", each) for each in (expected, got)]
    return (
        bool(parts[0])
        and parts[0] == parts[1]
        and "\n".join(statements).count(".backward(") > 1
        and "kind='complex" in "\n".join(statements)
    )


def shares_real_part(name, statements):
    """Whether a real leaf is added to what is complex: one gradient may be the other's part."""
    program = "\n".join(statements)
    return (
        program.count(".backward(") > 1
        and "kind='complex" in program
        and bool(re.search(rf"\b{name} [-+] v\d+|v\d+ [-+] {name}\b", program))
        and not any("complex" in line for line in makers(name, statements))
    )


def logarithm_of_integers(text, statements):
    """Whether gradients to an exponent are alike as far as float32 reaches."""
    if ".pow(" not in "\n".join(statements):
        return False
    numbers = {"nan": math.nan, "inf": math.inf, "nanj": math.nan, "infj": math.inf}
    parts = re.search(r"expected (.*), got (.*)", text).groups()
    return near(*(eval(part, numbers) for part in parts), 1e-6)


def near(a, b, limit=1e-9):
    """The same shapes and dtypes, and numbers but for the last bits."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(near(x, y, limit) for x, y in zip(a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return a == b or abs(a - b) <= limit * max(1, abs(a))
    return a == b


def known(difference, statements):
    """The reason of a listed difference (kind, text), or None."""
    kind, text = difference
    program = "\n".join(statements)
    for kinds, shown, does, reason in RULES:
        does = does.replace("{name}", named(text) or "none")
        does = does.replace("{target}", target_of_failed(text, statements) or "none")
        if re.fullmatch(kinds, kind) and re.search(shown, text) and re.search(does, program):
            return reason
    if kind.startswith("error"):
        return errors(kind, text)
    if kind in ("order", "log hook") and on_several(text, statements):
        return "what is one node here is several there, with other gradients between"
    if kind == "value" and made_of_summed(named(text), statements):
        return "PyTorch's gradient of a sum is one number in many places: a write to one is to all"
    if kind == "grad value" and shares_real_part(named(text), statements):
        return "PyTorch: one gradient's real part is another's memory, to which a pass adds"
    if kind == "grad value" and logarithm_of_integers(text, statements):
        return "PyTorch takes the logarithm of an integer in float32"
    if kind == "grad value" and real_parts_alone(text, statements):
        return "PyTorch: one gradient's real part is another's memory, to which a pass adds"
    if kind.startswith("log ") and given_with_graph(text, statements):
        return "what does nothing in PyTorch hands a gradient back as it was given"
    if kind == "log hook" and less(text):
        return "what goes to inputs that take no gradient: hooks of the node see more of it there"
    return node_names(kind, text, statements)


def undrawn(statement):
    """Why a statement is not part of programs, or None."""
    return next((why for pattern, why in UNDRAWN if re.search(pattern, statement)), None)
