# SPDX-License-Identifier: Apache-2.0
"""Mutants written by hand, in hand/*.txt. Each is a text that stands in the tree exactly once, and what stands there instead;
the word MUTANT in it is the switch. A file holds mutants one after the other:

    == NAME of CLASS in FILE [constexpr]
    one line that says what the slip is
    ---
    the text as it is
    +++
    the text with MUTANT in it

`constexpr`: the place is in a constexpr function."""
import dataclasses, pathlib, re

from points import Point
from weave import ORIGINAL, SWITCH, Edit

HEAD = re.compile(r"^== (\S+) of (.+?) in (\S+)( constexpr)?\n(.*)\n---\n(.*?)\n?\+\+\+\n(.*?)\n?\Z", re.S)


class Misfit(Exception):
    """A mutant that the tree does not hold, or that is not written as it must be."""


@dataclasses.dataclass(frozen=True)
class Slip:
    name: str
    klass: str
    file: str
    constant: bool
    what: str
    before: str
    after: str


def parse(text, where):
    slips = []
    for part in re.split(r"(?m)^(?=== )", text)[1:]:
        part = re.sub(r"\n(#.*\n|\s*\n)*\Z", "\n", part)
        found = HEAD.match(part)
        if not found:
            raise Misfit(f"{where}: not written as ci/mutants/hand.py says:\n{part}")
        name, klass, file, constant, what, before, after = found.groups()
        slips.append(Slip(name, klass, file, bool(constant), what, before, after))
    return slips


def changed(before, after):
    """(start, end, text): what of `before` is other in `after`."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    gone, text = before[start:len(before) - end], after[start:len(after) - end]
    if gone and text.count(gone) == 1:  # kept, so that another mutant may stand in it
        text = text.replace(gone, ORIGINAL.encode())
    return start, len(before) - end, text


def point_of(slip, source):
    """@param source the file's bytes"""
    before, after = slip.before.encode(), slip.after.replace("MUTANT", SWITCH).encode()
    if source.count(before) != 1:
        raise Misfit(f"{slip.name}: {slip.file} holds its text {source.count(before)} times, not once")
    if SWITCH not in slip.after.replace("MUTANT", SWITCH):
        raise Misfit(f"{slip.name}: nothing in it is MUTANT")
    at = source.index(before)
    start, end, text = changed(before, after)
    line = source.count(b"\n", 0, at + start) + 1
    return Point(slip.file, line, slip.name, "hand", slip.what, (Edit(at + start, at + end, text.decode()),), "",
                 klass=slip.klass, constant=slip.constant)


def slips_of(folder):
    slips = [slip for file in sorted(pathlib.Path(folder).glob("*.txt")) for slip in parse(file.read_text(), file.name)]
    names = [slip.name for slip in slips]
    for name in names:
        if names.count(name) > 1:
            raise Misfit(f"{name}: two have this name")
    return slips


def points_of(root, folder):
    return [point_of(slip, pathlib.Path(root, slip.file).read_bytes()) for slip in slips_of(folder)]
