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


@dataclasses.dataclass
class Group:
    chance: float                   # its members are missed at most so often
    missed: list
    members: int = 0
    expected: float = 0.0           # how many of them chance misses

    def too_many(self):
        return bool(self.missed) and at_least(len(self.missed), self.expected) < ALARM


def decades_of_chance(hits, of, cases):
    """3: that it misses what it met so often has a probability of 1 in a thousand."""
    return hits * math.log10((of + cases) / of)


def at_least(count, expected):
    """The probability that Poisson's number of this mean is so large; of small ones without cancellation."""
    if expected == 0:
        return float(count == 0)
    many = range(count, count + 100 + int(10 * expected))
    return sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in many)


def groups(known, of, met, cases):
    """`known`: name: hits, of `of` cases; `met`: the names that `cases` new ones met. What was never met is not in
    a group, nor what `cases` cases miss more often than once in ten times."""
    found = [Group(10.0 ** -(decade + 1), []) for decade in range(DECADES)]
    for name, hits in known.items():
        decades = decades_of_chance(hits, of, cases)
        if decades < 1:
            continue
        group = found[min(DECADES, math.floor(decades)) - 1]
        group.members += 1
        group.expected += 10 ** -decades
        if name not in met:
            group.missed.append(name)
    return found
