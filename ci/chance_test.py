#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches may miss what chance explains and nothing else."""
import math, random, unittest
from chance import at_least, decades_of_chance, groups

OF, CASES = 600_000, 300_000
RATES = [10 ** (-6 + 3 * k / 6000) for k in range(6000)]  # as likely in each order of magnitude


def hits_of(rng, rate, cases):
    """Poisson's number, by the times between hits."""
    hits, at = 0, rng.expovariate(rate)
    while at < cases:
        hits, at = hits + 1, at + rng.expovariate(rate)
    return hits


def searches(seed):
    """Two: what the first one met, how often, and the names that the second one met."""
    rng = random.Random(seed)
    known = {k: hits_of(rng, rate, OF) for k, rate in enumerate(RATES)}
    return known, {k for k, rate in enumerate(RATES) if rng.expovariate(rate) < CASES}


class Chance(unittest.TestCase):
    # Catches: a chance that leaves out how little is known of a rate, or that grows with what was met.
    def test_is_that_of_a_rate_nobody_knows(self):
        self.assertAlmostEqual(10 ** -decades_of_chance(3, OF, CASES), (2 / 3) ** 3)
        self.assertEqual(decades_of_chance(0, OF, CASES), 0)
        self.assertGreater(decades_of_chance(40, OF, CASES), 6)
        self.assertEqual(sum(g.members for g in groups({"often": 10 ** 9}, OF, set(), CASES)), 1)

    # Catches: a tail that is lost in the rounding of 1 - sum, where the alarm stands.
    def test_at_least(self):
        self.assertEqual(at_least(0, 3.0), 1)
        self.assertAlmostEqual(at_least(1, 2.0), 1 - math.exp(-2))
        self.assertAlmostEqual(at_least(1, 1e-20) / 1e-20, 1)
        fewer = sum(math.exp(-44) * 44 ** k / math.factorial(k) for k in range(60))
        self.assertAlmostEqual(at_least(60, 44.0), 1 - fewer)
        self.assertAlmostEqual(at_least(800, 800.0), 0.5, delta=0.02)

    # Catches: bounds that searches of the same generators break.
    def test_searches_that_draw_alike_are_believed(self):
        wrong = 0
        for seed in range(10):
            known, met = searches(seed)
            found = groups(known, OF, met, CASES)
            self.assertGreater(sum(group.members for group in found), 2000)
            self.assertTrue(found[0].missed)
            wrong += sum(group.too_many() for group in found)
        self.assertLessEqual(wrong, 1)

    # Catches: bounds so wide that a lost generator stays within them.
    def test_what_is_lost_is_seen(self):
        known, met = searches(0)
        often = [name for name, hits in known.items() if hits >= 36]
        seldom = [name for name, hits in known.items() if 12 <= hits < 18 and name in met]
        for lost in (often[:1], seldom[:10]):
            found = groups(known, OF, met - set(lost), CASES)
            self.assertTrue(any(group.too_many() for group in found), lost)
            self.assertTrue(all(any(name in group.missed for group in found) for name in lost))

    # Catches: an alarm for what never was met, or what so few cases may well miss.
    def test_what_is_missed_often_is_not_judged(self):
        self.assertFalse(any(group.members for group in groups({"a": 0, "b": 5}, OF, set(), CASES)))
        self.assertFalse(any(group.members for group in groups({"a": 1000}, OF, set(), 600)))


if __name__ == "__main__":
    unittest.main()
