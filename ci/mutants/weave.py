# SPDX-License-Identifier: Apache-2.0
"""Weaves mutants into a source text: each stands beside what it replaces, behind a switch with its number. The text keeps
its lines, so that what a compiler says of a line is said of the same line of the source.

An Edit puts a text in the place of bytes start..end. In that text SWITCH is the mutant's switch, a bool, and ORIGINAL the
bytes that were there, themselves woven. An Edit without ORIGINAL changes the file for good; an empty range inserts."""
import dataclasses

SWITCH, ORIGINAL = "@switch@", "@original@"


@dataclasses.dataclass(frozen=True, order=True)
class Edit:
    start: int
    end: int
    text: str


class Overlap(Exception):
    """Two edits cross, or one lies in what another replaces without keeping it."""


def in_order(edits):
    """An edit before those that lie in it; what is inserted at a place before what starts there."""
    return sorted(edits, key=lambda e: (e[0].start, e[0].start != e[0].end, -e[0].end))


def tree_of(edits):
    """[(edit, number, [what lies in it])] of [(edit, number)]; equal ranges lie in each other."""
    roots, open_ = [], []
    for edit, number in in_order(edits):
        while open_ and (open_[-1][0].end <= edit.start or open_[-1][0].start == open_[-1][0].end):
            open_.pop()
        if open_:
            outer = open_[-1][0]
            if edit.end > outer.end or ORIGINAL not in outer.text:
                raise Overlap(f"{edit} and {outer}")
        node = (edit, number, [])
        (open_[-1][2] if open_ else roots).append(node)
        open_.append(node)
    return roots


def render(source, start, end, nodes, switch, at, spans):
    """Bytes start..end of the source, woven. `at`: where that begins in the woven text; spans: {number: [(from, to)]}."""
    out = bytearray()
    for edit, number, inner in nodes:
        out += source[start:edit.start]
        before, kept, after = edit.text.replace(SWITCH, switch(number)).encode().partition(ORIGINAL.encode())
        begin = at + len(out)
        out += before
        if kept:
            out += render(source, edit.start, edit.end, inner, switch, at + len(out), spans)
        out += after
        spans.setdefault(number, []).append((begin, at + len(out)))
        start = edit.end
    return bytes(out + source[start:end])


def weave(source, mutants, switch):
    """@param mutants {number: edits}  @param switch the text of a mutant's switch, of its number
    @returns the woven text, and for each number where its edits lie in it. Throws Overlap."""
    once = {}  # edits that change the file for good are shared
    edits = []
    for number, of_one in mutants.items():
        for edit in of_one:
            if SWITCH in edit.text:
                edits.append((edit, number))
            else:
                once.setdefault(edit, number)
    spans = {}
    return render(source, 0, len(source), tree_of(edits + list(once.items())), switch, 0, spans), spans


def fits(edits, others):
    """Whether these edits may stand beside the others."""
    try:
        tree_of([(e, 0) for e in set(edits) | set(others)])
        return True
    except Overlap:
        return False
