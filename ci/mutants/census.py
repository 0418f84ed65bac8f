# SPDX-License-Identifier: Apache-2.0
"""What the run without a mutant says: whose places it ran, in which cases, and what came of each case. A mutant is tried in cases
that run its place; one with which all come out as they did without it survives them."""
import collections, os, pathlib

MOST = 1 << 20  # cases of a plan
# Cases: what a process makes once and then keeps, like the table of rules, runs in as many as there are processes.
FEW = 8 + 2 * (os.cpu_count() or 1)


class Census:
    """@param folder where the run leaves its files: a byte for each number, lines of cases, the verdict of each case, from 1"""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.places, self.lines = self.folder / "places", self.folder / "places.cases"
        self.verdicts_file = self.folder / "verdicts"

    def begin(self, last):
        """@param last the highest number that is woven in"""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines.unlink(missing_ok=True)
        self.places.write_bytes(bytes(last + 1))
        self.verdicts_file.write_bytes(bytes(MOST))

    def there(self):
        return self.verdicts_file.exists()

    def read(self):
        run = self.places.read_bytes()
        self.run = {number for number, byte in enumerate(run) if byte}
        self.verdicts = self.verdicts_file.read_bytes()
        self.cases = len(self.verdicts.rstrip(b"\0"))
        self.cases_of = collections.defaultdict(set)
        for line in self.lines.read_text().splitlines() if self.lines.exists() else ():
            case, *numbers = map(int, line.split())
            for number in numbers:
                self.cases_of[number].add(case)

    def among(self, number, cases):
        """Those of the cases that run its place; all, where that is run outside of them too, or in so few that it may have made
        what others use."""
        of = self.cases_of.get(number, {-1})
        return cases if -1 in of or len(of) < FEW else cases & of

    def others(self, verdicts, cases=None):
        """The cases that came out otherwise than without a mutant. @param cases those that were run; None: all"""
        return {n for n in (range(self.cases) if cases is None else cases) if verdicts[n] != self.verdicts[n]}
