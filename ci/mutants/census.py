# SPDX-License-Identifier: Apache-2.0
"""What the run without a mutant says: whose places it ran, and in which cases. A mutant is then tried in those cases alone, and in
the first of the plan: one that survives them all, with the verdicts they had without it, survives the plan."""
import collections, os, pathlib, sqlite3

FIRST = 1000  # cases of the plan that every mutant meets: what a first case makes, and all others use, shows there
# Cases: what a process makes once and then keeps, like the table of rules, runs in as many as there are processes.
FEW = 8 + 2 * (os.cpu_count() or 1)


class Census:
    """@param folder where the run left its files: a byte for each number, lines of cases, its database"""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.places, self.database = self.folder / "places", self.folder / "plain.db"
        self.lines = self.folder / "places.cases"

    def begin(self, last):
        """@param last the highest number that is woven in"""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines.unlink(missing_ok=True)
        self.places.write_bytes(bytes(last + 1))

    def read(self):
        run = self.places.read_bytes()
        self.run = {number for number, byte in enumerate(run) if byte}
        self.cases_of, self.cases = collections.defaultdict(set), 0
        for line in self.lines.read_text().splitlines() if self.lines.exists() else ():
            case, *numbers = map(int, line.split())
            self.cases = max(self.cases, case + 1)
            for number in numbers:
                self.cases_of[number].add(case)

    def wanted(self, number):
        """A byte for each case, 1: the mutant is tried in it. None: in all, for it was run outside of them too, or in so few that
        it may have made what all others use."""
        of = self.cases_of.get(number, {-1})
        if -1 in of or len(of) < FEW:
            return None
        return bytes(case < FIRST or case in of for case in range(self.cases))

    def has_other_verdicts(self, database):
        """Whether a case of this run came out otherwise than without a mutant."""
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as store:
            store.execute("ATTACH ? AS plain", (f"file:{self.database}?mode=ro",))
            return store.execute("""SELECT EXISTS (SELECT 1 FROM cases JOIN plain.cases AS other USING (suite, number)
                                    WHERE cases.verdict <> other.verdict)""").fetchone()[0] == 1
