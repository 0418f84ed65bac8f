# SPDX-License-Identifier: Apache-2.0
"""Which mutants are tried: those written by hand, and of the others a draw by a seed that leaves out no file and no operator."""
import hashlib

from weave import fits


def shuffled(names, seed):
    """By a hash of the name, so that a new one moves no other."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode()).digest())


def order(points, seed):
    by_name = {point.id: point for point in points}
    return [by_name[name] for name in shuffled(by_name, seed)]


class Chosen:
    """Points that may stand beside each other in one text."""

    def __init__(self):
        self.points, self.edits = [], {}

    def add(self, point):
        """Whether it could."""
        beside = self.edits.setdefault(point.file, [])
        if not fits(point.edits, beside):
            return False
        beside += point.edits
        self.points.append(point)
        return True


def draw(by_hand, points, seed, count):
    """@returns (chosen, those by hand that found no place). First one of each file, then one of each operator that these lack,
    then whoever comes, until there are `count` beside those by hand."""
    chosen = Chosen()
    crossing = [p for p in by_hand if not chosen.add(p)]
    left = order(points, seed)
    files, operators, rest = set(), set(), []
    drawn = 0
    for of, met in ((lambda p: p.file, files), (lambda p: p.operator, operators), (lambda p: p.id, set())):
        rest = []
        for point in left:
            if of(point) in met or (met not in (files, operators) and drawn >= count) or not chosen.add(point):
                rest.append(point)
                continue
            drawn += 1
            files.add(point.file)
            operators.add(point.operator)
            met.add(of(point))
        left = rest
    return chosen.points, crossing
