# SPDX-License-Identifier: Apache-2.0
"""What of the things that searches once met may a new search miss? Bounds that hold without a number set by hand.

A thing met `hits` times in `of` cases has a rate that nobody knows. With every order of magnitude of it as likely as
the next (Jeffreys' rule for a scale; the rates that are measured lie so), `cases` more miss it with probability
(of / (of + cases)) ** hits. Things are judged in groups of about the same probability, since one name missed says
nothing and ten of a group do: of things that are independent, about Poisson's number is missed."""
import dataclasses
import math

DECADES = 6           # 1 to 10%, 0.1 to 1%, ...; the last one is open
ALARM = 1 / 500       # how often, at most, chance alone may call a group wrong
MISSED_OFTEN = 0.1    # what is missed this often is not judged


@dataclasses.dataclass
class Group:
    chance: float                   # its members are missed at most so often
    missed: list
    members: int = 0
    expected: float = 0.0           # how many of them chance misses

    def too_many(self):
        return bool(self.missed) and at_least(len(self.missed), self.expected) < ALARM


def missed_by_chance(hits, of, cases):
    return (of / (of + cases)) ** hits


def at_least(count, expected):
    """The probability that Poisson's number of this mean is so large; of small ones without cancellation."""
    term, total = math.exp(-expected), 0.0
    for k in range(1, count + 100 + int(10 * expected)):
        term *= expected / k
        total += term if k >= count else 0.0
    return 1.0 if count == 0 else total


def groups(known, of, met, cases):
    """`known`: name: hits, of `of` cases; `met`: the names that `cases` new ones met. What was never met is not in
    a group, nor what `cases` cases miss often."""
    found = [Group(10.0 ** -(decade + 1), []) for decade in range(DECADES)]
    for name, hits in known.items():
        chance = missed_by_chance(hits, of, cases)
        if hits == 0 or chance > MISSED_OFTEN:
            continue
        group = found[min(DECADES, math.floor(-math.log10(chance) + 1e-9)) - 1]
        group.members += 1
        group.expected += chance
        if name not in met:
            group.missed.append(name)
    return found
