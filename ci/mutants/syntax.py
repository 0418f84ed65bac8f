# SPDX-License-Identifier: Apache-2.0
"""A C++ file as its syntax tree, read by libclang: the places where a mutant may stand, and what operators ask of them."""
import dataclasses, functools, os, pathlib, re, subprocess, sys

# Where ci/setup --mutants keeps libclang's Python module.
LIBCLANG = os.environ.get("LOCKSTEP_LIBCLANG", "")
if LIBCLANG:
    sys.path.insert(0, LIBCLANG)
import clang.cindex as clang  # noqa: E402

K, T = clang.CursorKind, clang.TypeKind
INTEGERS = {T.CHAR_S, T.SCHAR, T.UCHAR, T.SHORT, T.USHORT, T.INT, T.UINT, T.LONG, T.ULONG, T.LONGLONG, T.ULONGLONG}
FLOATS = {T.FLOAT, T.DOUBLE}
FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.FUNCTION_TEMPLATE, K.CONVERSION_FUNCTION}
WRAPPERS = {K.UNEXPOSED_EXPR, K.PAREN_EXPR}
# What the compiler must know: nothing in it can wait for a switch. (if constexpr is told by its tokens.)
CONSTANT = {K.STATIC_ASSERT, K.ENUM_DECL, K.TYPE_ALIAS_DECL, K.TYPEDEF_DECL, K.TEMPLATE_TYPE_PARAMETER,
            K.TEMPLATE_NON_TYPE_PARAMETER, K.TEMPLATE_TEMPLATE_PARAMETER, K.TEMPLATE_REF, K.CXX_BASE_SPECIFIER,
            K.CONCEPT_DECL, K.TYPE_REF}


class Unit:
    """A parsed file."""

    def __init__(self, path, flags, header=""):
        self.path = path
        self.source = pathlib.Path(path).read_bytes()
        language = ["-xc++"] + (["-include-pch", header] if header else [])
        self.unit = clang.Index.create().parse(path, language + flags)
        fatal = [str(d) for d in self.unit.diagnostics if d.severity == clang.Diagnostic.Fatal]
        if fatal:
            raise RuntimeError(f"libclang cannot read {path}: {fatal[0]}")
        self.macros = list(self.macro_calls())

    def macro_calls(self):
        """Ranges of what is written as a macro with arguments: capitals before a parenthesis."""
        tokens = self.tokens(0, len(self.source))
        for at, (name, opening) in enumerate(zip(tokens, tokens[1:])):
            if not re.fullmatch("[A-Z][A-Z0-9_]{3,}", name.spelling) or opening.spelling != "(":
                continue
            depth = 0
            for token in tokens[at + 1:]:
                depth += (token.spelling == "(") - (token.spelling == ")")
                if depth == 0:
                    yield name.extent.start.offset, token.extent.end.offset
                    break

    def has(self, cursor):
        file = cursor.location.file
        return file is not None and file.name == self.path

    def in_macro(self, start, end):
        """Whether the range shares text with a macro that it does not hold as a part."""
        return any(a < end and start < b and not (start <= a and b <= end and (start, end) != (a, b))
                   for a, b in self.macros)

    def text(self, cursor_or_start, end=None):
        start = cursor_or_start
        if end is None:
            start, end = range_of(cursor_or_start)
        return self.source[start:end].decode(errors="replace")

    def line_text(self, cursor_or_start, end=None):
        """The text without comments, on one line."""
        text = self.text(cursor_or_start, end)
        if "\n" not in text and "//" not in text and "/*" not in text:
            return text
        start = range_of(cursor_or_start)[0] if end is None else cursor_or_start
        tokens = self.tokens(start, start + len(text.encode()))
        return " ".join(t.spelling for t in tokens if t.kind != clang.TokenKind.COMMENT)

    def tokens(self, start, end):
        at = functools.partial(clang.SourceLocation.from_offset, self.unit, self.unit.get_file(self.path))
        extent = clang.SourceRange.from_locations(at(start), at(end))
        return [t for t in self.unit.get_tokens(extent=extent) if start <= t.extent.start.offset < end]


@dataclasses.dataclass(frozen=True)
class Site:
    """A place in the tree: the cursor and what it stands in."""
    unit: Unit
    cursor: clang.Cursor
    around: "Around"

    @property
    def parent(self):
        """The nearest that is no mere wrapper."""
        return next((p for p in reversed(self.around.parents) if p.kind not in WRAPPERS), None)

    @property
    def wrapped(self):
        """The outermost implicit conversion of the same text, or the cursor itself: its type is what is asked for."""
        outer = self.cursor
        for parent in reversed(self.around.parents):
            if parent.kind != K.UNEXPOSED_EXPR or range_of(parent) != range_of(self.cursor):
                break
            outer = parent
        return outer


def range_of(cursor):
    start, end = cursor.extent.start.offset, cursor.extent.end.offset
    if cursor.kind == K.UNARY_OPERATOR:  # `a != b` by a's operator==: libclang lets it begin at the !=
        start = min([start] + [child.extent.start.offset for child in cursor.get_children()])
    return start, end


def children(cursor):
    return list(cursor.get_children())


def bare(cursor):
    """Without parentheses and implicit conversions."""
    while cursor.kind in WRAPPERS and len(inner := children(cursor)) == 1:
        cursor = inner[0]
    return cursor


def type_of(cursor):
    """Canonical, without references and const; as text."""
    kind = cursor.type.get_canonical()
    if kind.kind in (T.LVALUEREFERENCE, T.RVALUEREFERENCE):
        kind = kind.get_pointee()
    return kind.spelling.removeprefix("const ")


def kind_of(cursor):
    kind = cursor.type.get_canonical()
    return kind.get_pointee().kind if kind.kind in (T.LVALUEREFERENCE, T.RVALUEREFERENCE) else kind.kind


def is_arithmetic(cursor):
    return kind_of(cursor) in INTEGERS | FLOATS


def operator_of(unit, left, right):
    """The text between two operands."""
    return unit.line_text(range_of(left)[1], range_of(right)[0]).strip()


def operands(unit, cursor):
    """(left, operator, right) of a binary operation, built in or overloaded; None: it is none."""
    if cursor.kind in (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR):
        both = children(cursor)
    elif cursor.kind == K.CALL_EXPR and cursor.spelling.startswith("operator"):
        both = list(cursor.get_arguments())
    else:
        return None
    if len(both) != 2 or range_of(both[0])[1] > range_of(both[1])[0]:
        return None
    return both[0], operator_of(unit, *both), both[1]


def words_before_body(unit, cursor):
    body = next((c for c in cursor.get_children() if c.kind == K.COMPOUND_STMT), None)
    start, end = range_of(cursor)
    return [t for t in unit.tokens(start, range_of(body)[0] if body else end)]


def constant_words(unit, variable):
    """(start, end, what stands there instead) of `constexpr` in a variable's declaration, before its name."""
    start = range_of(variable)[0]
    member = variable.semantic_parent.kind in (K.CLASS_DECL, K.STRUCT_DECL, K.CLASS_TEMPLATE)
    return [(t.extent.start.offset, t.extent.end.offset, "inline const" if member else "const")
            for t in unit.tokens(start, variable.location.offset) if t.spelling == "constexpr"]


def name_of(cursor):
    parent = cursor.semantic_parent
    inside = parent is not None and parent.kind in (K.CLASS_DECL, K.STRUCT_DECL, K.CLASS_TEMPLATE)
    return f"{parent.spelling}::{cursor.spelling}" if inside and parent.spelling else cursor.spelling


def is_constant_if(unit, cursor, child):
    """The condition of `if constexpr`."""
    if cursor.kind != K.IF_STMT or range_of(child) != range_of(children(cursor)[0]):
        return False
    return any(t.spelling == "constexpr" for t in unit.tokens(range_of(cursor)[0], range_of(child)[0]))


@dataclasses.dataclass(frozen=True)
class Around:
    """What a cursor stands in."""
    parents: tuple = ()
    function: str = ""
    constant_function: bool = False
    constants: tuple = ()  # where `constexpr` must go for a switch to be read: constant_words()


def entered(unit, cursor, around):
    """What the children of the cursor stand in."""
    function, constant, constants = around.function, around.constant_function, around.constants
    if cursor.kind in FUNCTIONS:
        function, constants = name_of(cursor), ()
        constant = any(t.spelling in ("constexpr", "consteval") for t in words_before_body(unit, cursor))
    elif cursor.kind == K.VAR_DECL:
        constants = (*constants, *constant_words(unit, cursor))
        function = function or name_of(cursor)
    elif cursor.kind == K.FIELD_DECL:
        function = function or name_of(cursor)
    return Around((*around.parents, cursor), function, constant, constants)


def is_constant(unit, cursor, parent):
    """Whether the compiler must know it."""
    if cursor.kind in CONSTANT or cursor.kind.is_attribute():
        return True
    first = parent is not None and range_of(cursor) == range_of(next(parent.get_children()))
    return first and (parent.kind == K.CASE_STMT or is_constant_if(unit, parent, cursor))


def visit(unit, cursor, around):
    parent = around.parents[-1] if around.parents else None
    if is_constant(unit, cursor, parent):
        return
    start, end = range_of(cursor)
    is_code = cursor.kind.is_expression() or cursor.kind.is_statement()
    if around.function and is_code and start < end and not unit.in_macro(start, end):
        yield Site(unit, cursor, around)
    inner = entered(unit, cursor, around)
    for child in cursor.get_children():
        yield from visit(unit, child, inner)


def sites(unit):
    """Every expression and statement of the file's own functions and variables, outermost first."""
    for top in unit.unit.cursor.get_children():
        if unit.has(top) and top.kind.is_declaration():
            yield from visit(unit, top, Around())


def precompile(source, flags, header):
    new = f"{header}.{os.getpid()}"
    unit = clang.Index.create().parse(source, ["-xc++-header", *flags], options=clang.TranslationUnit.PARSE_INCOMPLETE)
    unit.save(new)
    os.rename(new, header)


def include_flags(command):
    """Of a compiler's command line, what says where headers are and what is defined."""
    kept, words = [], iter(command)
    for word in words:
        if word in ("-isystem", "-I", "-D"):
            kept += [word, next(words)]
        elif word.startswith(("-I", "-D", "-std=", "-isystem", "-f", "-O")) and "pch" not in word:
            kept.append(word)
    # The wheel has no headers of its own, and g++'s are full of functions that only g++ knows: never mind.
    own = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True)
    return kept + ["-isystem", own.stdout.strip(), "-Wno-everything", "-ferror-limit=0"]
