# SPDX-License-Identifier: Apache-2.0
"""The operators that make mutants: each looks at one place of the syntax tree and says which slips may happen there.

An operator takes a Site and yields (what a reader is told, edits). It need not know whether the result compiles: what does
not is taken out, and counted."""
import re

import syntax
from syntax import K, T, bare, children, operands, range_of, type_of
from weave import ORIGINAL, SWITCH, Edit


def instead(site, cursor, text, of=None):
    """The text in the place of the cursor, by a conditional expression."""
    start, end = of or range_of(cursor)
    return (Edit(start, end, f"({SWITCH} ? ({text}) : ({ORIGINAL}))"),)


def told(site, cursor, text):
    return f"{site.unit.line_text(cursor)} -> {text}"


# Conditions.

def is_condition(site):
    """An expression whose truth is asked for: of an if or a conditional expression, an operand of && or ||, a bool
    that is returned."""
    cursor, parent = site.cursor, site.parent
    if not cursor.kind.is_expression() or cursor.kind in syntax.WRAPPERS or parent is None:
        return False
    if parent.kind in (K.IF_STMT, K.CONDITIONAL_OPERATOR):
        return range_of(bare(children(parent)[0])) == range_of(cursor)
    if parent.kind == K.RETURN_STMT:
        return syntax.kind_of(cursor) == T.BOOL
    both = operands(site.unit, parent)
    return both is not None and both[1] in ("&&", "||")


def negated(site):
    """A condition asks the opposite."""
    if is_condition(site):
        start, end = range_of(site.cursor)
        yield told(site, site.cursor, "its opposite"), (Edit(start, end, f"({SWITCH} != bool({ORIGINAL}))"),)


def loosened(site):
    """An ingredient of a condition is forgotten."""
    both = operands(site.unit, site.cursor)
    if both is None or both[1] not in ("&&", "||"):
        return
    for side in (both[0], both[2]):
        start, end = range_of(side)
        form = f"({SWITCH} || bool({ORIGINAL}))" if both[1] == "&&" else f"(!{SWITCH} && bool({ORIGINAL}))"
        yield told(site, side, f"forgotten in {both[1]}"), (Edit(start, end, form),)


def unguarded(site):
    """What an if holds never happens."""
    cursor = site.cursor
    if cursor.kind != K.IF_STMT or len(parts := children(cursor)) != 2 or not parts[0].kind.is_expression():
        return
    start, end = range_of(parts[0])
    yield told(site, parts[0], "never"), (Edit(start, end, f"(!{SWITCH} && bool({ORIGINAL}))"),)


# Numbers.

BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def off_by_one(site):
    """A boundary falls on the other side."""
    both = operands(site.unit, site.cursor)
    if both is not None and both[1] in BOUNDS:
        left, op, right = both
        text = f"{site.unit.line_text(left)} {BOUNDS[op]} {site.unit.line_text(right)}"
        yield told(site, site.cursor, text), instead(site, site.cursor, text)


def other_constant(site):
    """A constant is another."""
    cursor = site.cursor
    text = site.unit.text(cursor)
    start, end = range_of(cursor)
    if cursor.kind == K.CXX_BOOL_LITERAL_EXPR:
        yield told(site, cursor, "its opposite"), (Edit(start, end, f"({SWITCH} != {ORIGINAL})"),)
    elif cursor.kind in (K.INTEGER_LITERAL, K.FLOATING_LITERAL):
        wanted = site.wrapped.type.get_canonical()
        moved = [f"{text} + 1"] if cursor.kind == K.INTEGER_LITERAL else [f"{text} * 1.0009765625"]
        if cursor.kind == K.INTEGER_LITERAL and text not in ("0", "1"):
            moved.append(f"{text} - 1")
        for other in moved:
            if wanted.kind in syntax.INTEGERS | syntax.FLOATS:
                other = f"static_cast<{wanted.spelling}>({other})"
            yield told(site, cursor, other), instead(site, cursor, other)


ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}


def other_arithmetic(site):
    """Another arithmetic operator."""
    both = operands(site.unit, site.cursor)
    if both is None or site.cursor.kind == K.CALL_EXPR or not syntax.is_arithmetic(site.cursor):
        return
    left, op, right = both
    if op in ARITHMETIC:
        text = f"({site.unit.line_text(left)}) {ARITHMETIC[op]} ({site.unit.line_text(right)})"
        yield told(site, site.cursor, text), instead(site, site.cursor, text)
    elif op.removesuffix("=") in ARITHMETIC and op not in ("==", "<=", ">=", "!="):
        text = f"{site.unit.line_text(left)} {ARITHMETIC[op[:-1]]}= {site.unit.line_text(right)}"
        yield told(site, site.cursor, text), instead(site, site.cursor, text)


# Names and places.

# Of these the first two may change places.
COMMUTE = re.compile(r"min|max|gcd|lcm(_up_to)?|fmaf?|minmax|make_pair|_mm\w*_(xor|and|or|add|mul\w*)_\w+|hash_combine")


def swapped(site):
    """Two arguments of one type have changed places."""
    cursor = site.cursor
    if cursor.kind == K.INIT_LIST_EXPR:  # not of lists in it, and of what is named
        parts = [p for p in children(cursor) if not site.unit.text(p).startswith(("{", "."))]
    elif cursor.kind == K.CALL_EXPR and not cursor.spelling.startswith("operator"):
        parts = list(cursor.get_arguments())[int(bool(COMMUTE.fullmatch(cursor.spelling))):]
    else:
        both = operands(site.unit, cursor)
        parts = [both[0], both[2]] if both and both[1] in ("-", "/", "%") else []
    start, end = range_of(cursor)
    parts = [p for p in parts if start <= range_of(p)[0] < range_of(p)[1] <= end]
    for first, second in zip(parts, parts[1:]):
        (a, b), (c, d) = range_of(first), range_of(second)
        one, two = site.unit.line_text(first), site.unit.line_text(second)
        kind = bare(first).type.get_canonical()
        if b > c or one == two or type_of(bare(first)) != type_of(bare(second)) or kind.kind == T.ENUM:
            continue
        if cursor.kind == K.INIT_LIST_EXPR:  # has no value of its own
            edits = (instead(site, first, two) + instead(site, second, one))
        else:
            between = site.unit.line_text(b, c)
            text = f"{site.unit.line_text(start, a)}{two}{between}{one}{site.unit.line_text(d, end)}"
            edits = instead(site, cursor, text)
        yield f"{one} and {two} have changed places in {site.unit.line_text(cursor)}", edits


def next_of(items, item):
    """The one after it, the first after the last; None: there is no other."""
    at = items.index(item) if item in items else -1
    other = items[(at + 1) % len(items)] if items else None
    return other if other != item else None


def other_field(site):
    """Another field of the same type."""
    cursor = site.cursor
    field = cursor.referenced
    if cursor.kind != K.MEMBER_REF_EXPR or field is None or field.kind != K.FIELD_DECL:
        return
    alike = [c.spelling for c in field.semantic_parent.get_children()
             if c.kind == K.FIELD_DECL and type_of(c) == type_of(field)]
    other = next_of(alike, field.spelling)
    text = site.unit.line_text(cursor)
    if other is not None and text.endswith(field.spelling):
        text = text[:len(text) - len(field.spelling)] + other
        yield told(site, cursor, text), instead(site, cursor, text)


def in_sight(site):
    """The parameters and variables that are declared before the site, in what it stands in."""
    before = range_of(site.cursor)[0]
    for scope in site.around.parents:
        for child in scope.get_children():
            declared = children(child) if child.kind == K.DECL_STMT else [child]
            for variable in declared:
                if variable.kind in (K.PARM_DECL, K.VAR_DECL) and range_of(variable)[1] <= before:
                    if scope.kind in syntax.FUNCTIONS | SCOPES and variable.spelling:
                        yield variable


SCOPES = {K.COMPOUND_STMT, K.LAMBDA_EXPR, K.FOR_STMT, K.CXX_FOR_RANGE_STMT}


def other_variable(site):
    """Another variable of the same type."""
    cursor = site.cursor
    variable = cursor.referenced
    if cursor.kind != K.DECL_REF_EXPR or variable is None or variable.kind not in (K.PARM_DECL, K.VAR_DECL):
        return
    alike = [v.spelling for v in in_sight(site) if type_of(v) == type_of(variable)]
    other = next_of(list(dict.fromkeys(alike)), variable.spelling)
    if other is not None and site.unit.text(cursor) == variable.spelling:
        yield told(site, cursor, other), instead(site, cursor, other)


def other_enumerator(site):
    """Another value of the same enumeration: the next kind of reduction, of op, of dtype."""
    cursor = site.cursor
    if cursor.kind != K.DECL_REF_EXPR or cursor.referenced is None:
        return
    value = cursor.referenced
    if value.kind != K.ENUM_CONSTANT_DECL:
        return
    all_ = [c.spelling for c in value.semantic_parent.get_children() if c.kind == K.ENUM_CONSTANT_DECL]
    text, other = site.unit.line_text(cursor), next_of(all_, value.spelling)
    if other is not None and text.endswith(value.spelling):
        text = text[:len(text) - len(value.spelling)] + other
        yield told(site, cursor, text), instead(site, cursor, text)


def other_function(site):
    """A table or an algorithm is given another function of the same type."""
    cursor = site.cursor
    function = cursor.referenced
    if cursor.kind != K.DECL_REF_EXPR or function is None or function.kind != K.FUNCTION_DECL:
        return
    parent = site.parent
    if parent is not None and parent.kind == K.CALL_EXPR and \
            range_of(parent)[0] == range_of(cursor)[0]:
        return
    alike = [c.spelling for c in function.semantic_parent.get_children()
             if c.kind == K.FUNCTION_DECL and c.type == function.type and site.unit.has(c)]
    other = next_of(list(dict.fromkeys(alike)), function.spelling)
    if other is not None:
        yield told(site, cursor, other), instead(site, cursor, f"&{other}")


# What is forgotten.

def forgotten_call(site):
    """A call that gives what its first argument, or its object, is of: a wrap, a bound, a copy. std::move is none: without
    it the value is the same."""
    cursor = site.cursor
    if cursor.kind == K.CALL_EXPR and cursor.spelling in ("move", "forward"):
        return
    both = operands(site.unit, cursor)
    if both is not None and both[1] == "%":
        text = site.unit.line_text(both[0])
        yield told(site, cursor, text), instead(site, cursor, text)
    if cursor.kind == K.UNARY_OPERATOR and site.unit.text(cursor).startswith(("-", "~")):
        text = site.unit.line_text(children(cursor)[0])
        yield told(site, cursor, text), instead(site, cursor, text)
    if cursor.kind != K.CALL_EXPR or cursor.spelling.startswith("operator"):
        return
    given = []
    inner = children(cursor)
    if inner and bare(inner[0]).kind == K.MEMBER_REF_EXPR:
        given = children(bare(inner[0]))[:1]
    given = given or list(cursor.get_arguments())[:1]
    start, end = range_of(cursor)
    for first in given:
        inside = start <= range_of(first)[0] < range_of(first)[1] <= end and range_of(first) != (start, end)
        if inside and type_of(bare(first)) == type_of(cursor):
            text = site.unit.line_text(first)
            yield told(site, cursor, text), instead(site, cursor, text)


def is_statement_of_its_own(site):
    parent = site.around.parents[-1]
    if parent.kind == K.COMPOUND_STMT:
        return True
    if parent.kind not in (K.IF_STMT, K.FOR_STMT, K.CXX_FOR_RANGE_STMT, K.WHILE_STMT):
        return False
    return range_of(children(parent)[-1]) == range_of(site.cursor) and len(children(parent)) > 1


HINTS = ("reserve", "shrink_to_fit", "pause")  # without effect on any result
STATEMENTS = {K.CALL_EXPR, K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR, K.UNARY_OPERATOR, K.UNEXPOSED_EXPR}


def forgotten_statement(site):
    """A statement is not there: an ingredient of a key, an update, a step."""
    if site.cursor.kind in STATEMENTS and is_statement_of_its_own(site) and site.cursor.spelling not in HINTS:
        start = range_of(site.cursor)[0]
        yield told(site, site.cursor, "nothing"), (Edit(start, start, f"if (!{SWITCH}) "),)


# Orders.

def adds_up(site, body):
    """Integers, or bits: in any order the same."""
    both = operands(site.unit, body) if body.kind == K.COMPOUND_ASSIGNMENT_OPERATOR else None
    return both is not None and syntax.kind_of(both[0]) in syntax.INTEGERS and both[1] in ("+=", "-=", "*=", "|=", "&=", "^=")


def reversed_range(site):
    """A loop over a range, which does more than add up, goes from its end."""
    cursor = site.cursor
    if cursor.kind != K.CXX_FOR_RANGE_STMT:
        return
    body = children(cursor)[-1]
    if adds_up(site, body):
        return
    tokens = site.unit.tokens(range_of(cursor)[0], range_of(body)[0])
    colon = next((t for t in tokens if t.spelling == ":"), None)
    closing = next((t for t in reversed(tokens) if t.spelling == ")"), None)
    if colon is None or closing is None:
        return
    start, end = colon.extent.end.offset, closing.extent.start.offset
    text = site.unit.text(start, end)
    start += len(text) - len(text.lstrip())
    yield f"backwards over {text.strip()}", (Edit(start, end, f"lockstep_in_order({SWITCH}, {ORIGINAL})"),)


def reversed_count(site):
    """A loop that counts up counts down."""
    cursor = site.cursor
    parts = children(cursor) if cursor.kind == K.FOR_STMT else []
    if len(parts) != 4 or parts[0].kind != K.DECL_STMT or parts[1].kind != K.BINARY_OPERATOR:
        return
    variables = children(parts[0])
    limit = operands(site.unit, parts[1])
    if len(variables) != 1 or limit is None or limit[1] != "<":
        return
    name = variables[0].spelling
    if site.unit.text(bare(limit[0])) != name or site.unit.text(parts[2]) not in (f"++{name}", f"{name}++"):
        return
    values = [c for c in children(variables[0]) if c.kind.is_expression()]
    if len(values) != 1:
        return
    first, last, type_ = site.unit.line_text(values[0]), site.unit.line_text(limit[2]), type_of(variables[0])
    yield f"{name} counts down from {last}", (
        Edit(*range_of(values[0]), f"{SWITCH} ? static_cast<{type_}>(({last}) - 1) : ({ORIGINAL})"),
        Edit(*range_of(parts[1]),
             f"({SWITCH} ? static_cast<{type_}>({name} + 1) > static_cast<{type_}>({first}) : ({ORIGINAL}))"),
        Edit(*range_of(parts[2]), f"({SWITCH} ? --{name} : {ORIGINAL})"))


# Rows of rules.

PLACEMENTS = {"lockstep::Shard": "lockstep::Replicate{}", "lockstep::Partial": "lockstep::Replicate{}",
              "lockstep::Replicate": "lockstep::Partial{lockstep::ReduceOp::kSum}"}


def other_placement(site):
    """A row of a rule has another placement."""
    cursor, text = site.cursor, site.unit.text(site.cursor)
    if "/engine/ops/" not in site.unit.path or text.startswith("{"):
        return
    if cursor.kind not in (K.CALL_EXPR, K.DECL_REF_EXPR, K.CXX_FUNCTIONAL_CAST_EXPR):
        return
    for whole in filter(None, (cursor, site.parent)):
        both = operands(site.unit, whole)
        if both and both[1] == "=" and range_of(both[0])[0] == range_of(cursor)[0]:
            return  # what is assigned to: a copy would take the value
    kind = type_of(cursor)
    if "(" in kind or kind not in PLACEMENTS and not kind.startswith("std::variant<lockstep::Replicate"):
        return
    other = next((PLACEMENTS[name] for name in PLACEMENTS if text.startswith(name[len("lockstep::"):])),
                 "lockstep::Replicate{}")
    start, end = range_of(cursor)
    form = f"({SWITCH} ? lockstep::Placement({other}) : lockstep::Placement({ORIGINAL}))"
    yield told(site, cursor, other), (Edit(start, end, form),)


OPERATORS = {f.__name__: f for f in (
    negated, loosened, unguarded, off_by_one, other_constant, other_arithmetic, swapped, other_field, other_variable,
    other_enumerator, other_function, forgotten_call, forgotten_statement, reversed_range, reversed_count,
    other_placement)}
