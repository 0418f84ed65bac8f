#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each test states which fault of a campaign of ci/mutate it would catch."""
import contextlib, io, json, os, pathlib, re, subprocess, sys, tempfile, unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import campaign, census, classes, points, report, tried  # noqa: E402
from weave import ORIGINAL, SWITCH, Edit  # noqa: E402


def point(file, operator, number, start=0):
    return points.Point(file, 1, "f", operator, "", (Edit(start, start + 1, f"{SWITCH}{ORIGINAL}"),), str(number))


class Censused(unittest.TestCase):
    def have(self, **constants):
        """Those of the census, until the test ends."""
        for name, value in constants.items():
            self.addCleanup(setattr, census, name, getattr(census, name))
            setattr(census, name, value)


class Switch(Censused):
    CODE = """// SPDX-License-Identifier: Apache-2.0
#include "ci/mutants/switch.h"
const bool before = lockstep_mutant(1);
void place(int number) { lockstep_mutant(number); }
int main() {
  for (long number = 0; number < 4; ++number) {
    if (!lockstep_case_begins(number)) continue;
    std::printf("%ld", number);
    place(2);
    if (number % 2 == 1) place(3);
  }
  lockstep_case_begins(-1);
  place(4);  // told by no line, as of a process that is no worker
}
"""

    def test_cases(self):
        # Catches: a place told under another case, or lost; a case that is left out and runs, or the reverse; a plan
        # that is said to be further than the last case that ran; what a process makes once, and all its cases use,
        # tried in one case alone.
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "it.cpp").write_text(self.CODE)
            subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}",
                            "-o", folder / "it", folder / "it.cpp"], check=True)

            def run(**variables):
                return subprocess.run([folder / "it"], env=variables, check=True, capture_output=True).stdout
            self.assertEqual(run(), b"0123")
            of = census.Census(folder)
            of.begin(4)
            self.assertEqual(run(LOCKSTEP_MUTANT_PLACES=str(of.places)), b"0123")
            of.read()
            self.assertEqual((of.run, of.cases), ({1, 2, 3, 4}, 4))
            self.assertEqual(dict(of.cases_of), {1: {-1}, 2: {0, 1, 2, 3}, 3: {1, 3}})
            self.have(FIRST=0, FEW=2)
            self.assertEqual([of.wanted(n) for n in (1, 2, 3, 4)], [None, b"\1\1\1\1", b"\0\1\0\1", None])
            census.FEW = 3
            self.assertEqual(of.wanted(3), None)
            (folder / "cases").write_bytes(b"\0\1\0\0")
            (folder / "far").write_bytes(bytes(8))
            only = {"LOCKSTEP_MUTANT_CASES": str(folder / "cases"), "LOCKSTEP_MUTANT_FAR": str(folder / "far")}
            self.assertEqual(run(**only), b"1")
            self.assertEqual(int.from_bytes((folder / "far").read_bytes(), "little"), 2)


class Campaign(Censused):
    PROGRAM = """#!/usr/bin/env python3
import os, signal, sqlite3, sys, time
mutant = int(os.environ["LOCKSTEP_MUTANT"])
wanted = os.environ.get("LOCKSTEP_MUTANT_CASES")
wanted = open(wanted, "rb").read() if wanted else bytes([1] * 6)
cases = [n for n, byte in enumerate(wanted) if byte]
open(os.environ["OUT"], "a").write(f"{mutant}:{''.join(map(str, cases))}\\n")
if mutant == 0:
    places = os.environ["LOCKSTEP_MUTANT_PLACES"]
    run, lines = os.environ.get("PLACES", "0 1 2 3 4 5/-1 1 2 3 4 5").split("/")
    run = bytes(int(str(n) in run.split()) for n in range(os.path.getsize(places)))
    open(places, "wb").write(run)
    open(places + ".cases", "w").write("0\\n5\\n" + lines.replace(",", "\\n") + "\\n")
store = sqlite3.connect("run.db")
store.executescript("CREATE TABLE verdict (name, failure); INSERT INTO verdict VALUES ('equal', 0), ('explained', 0);"
                    "CREATE TABLE cases (id, suite, number, op, bucket, token, verdict, self_check, explanation)")
other = {int(n) for n in os.environ.get("OTHER", "").split()}
for n in cases:
    store.execute("INSERT INTO cases VALUES (?, 's', ?, '', '', '', ?, 0, '')",
                  (n, n, "explained" if mutant == 1 and n in other else "equal"))
store.commit()
open(os.environ["LOCKSTEP_MUTANT_FAR"], "wb").write((cases[-1] + 1).to_bytes(8, "little"))
if mutant == 3: os.kill(os.getpid(), signal.SIGSEGV)
if mutant == 4: time.sleep(60)
sys.exit({2: 1, 5: 8}.get(mutant, 5 * (len(cases) < 6)))
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "build/ci/program/lockstep"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(self.PROGRAM)
        self.program.chmod(0o755)
        os.environ["OUT"] = str(self.folder / "out")
        self.mutants = {n: point("engine/ops/a.cpp", "x", n) for n in (1, 2, 3, 4, 5)}
        self.store = campaign.open_store(self.folder / "db")

    def run_all(self, tree_="t", mutants=None, tests=()):
        class Short(campaign.Plan):
            patience = 3
        campaign.run(self.store, self.folder / "build", tree_, 5, mutants or self.mutants, Short(),
                     self.folder / "runs", 2, lambda text: None, tests)
        out = self.folder / "out"
        self.ran = sorted(out.read_text().split()) if out.exists() else []
        out.unlink(missing_ok=True)
        return [int(line.split(":")[0]) for line in self.ran]

    def test_how(self):
        # Catches: a crash, a hang or a red without a finding that counts as survival, and the reverse.
        self.assertEqual(self.run_all(), [0, 1, 2, 3, 4, 5])
        rows = report.rows_of(self.store, "t")["default, seed 0"]
        self.assertEqual([(rows[p.id]["found"], rows[p.id]["how"]) for p in self.mutants.values()],
                         [(0, ""), (1, "worse verdicts"), (1, "signal 11"), (1, "does not end"), (1, "self-check")])

    def test_adversaries(self):
        # Catches: a survivor of the run that a test notices, and is still called one; a test that is not asked.
        test = self.folder / "build/x/blind_test"
        test.parent.mkdir()
        test.write_text("#!/bin/sh\n[ $LOCKSTEP_MUTANT != 1 ]\n")
        test.chmod(0o755)
        few = {n: self.mutants[n] for n in (1, 2)}
        self.run_all(mutants=few, tests=["x/blind_test"])
        rows = report.rows_of(self.store, "t")["default, seed 0"]
        self.assertEqual([(rows[p.id]["found"], rows[p.id]["how"]) for p in few.values()],
                         [(1, "test blind_test"), (1, "worse verdicts")])

    def test_tested(self):
        # Catches: what no plan runs and a test asks for, called a survivor unasked; a plan that is run for it in vain.
        self.places("1 3/-1 1 3")
        test = self.folder / "build/x/text_test"
        test.parent.mkdir()
        test.write_text("#!/bin/sh\n[ $LOCKSTEP_MUTANT = 0 ] || [ $LOCKSTEP_MUTANT = 2 ]\n")
        test.chmod(0o755)
        tested, campaign.classes.TESTED = campaign.classes.TESTED, {"engine/ops/": ["x/text_test"]}
        self.addCleanup(setattr, campaign.classes, "TESTED", tested)
        self.assertEqual(self.run_all(), [0, 1, 3])
        rows = report.rows_of(self.store, "t")["default, seed 0"]
        self.assertEqual([rows[p.id]["how"] for p in self.mutants.values()],
                         ["test text_test", "", "signal 11", "test text_test", "test text_test"])

    def test_resume(self):
        # Catches: a campaign that begins anew, or that takes another tree's results for this one's.
        few = {n: self.mutants[n] for n in (1, 2)}
        self.assertEqual(self.run_all(mutants=few), [0, 1, 2])
        self.assertEqual(self.run_all(), [3, 4, 5])
        self.assertEqual(self.run_all(), [])
        self.assertEqual(self.run_all("other", few), [0, 1, 2])

    def places(self, text, **more):
        """@param text numbers that are run / lines of cases, comma between"""
        for name, value in {"PLACES": text, **more}.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        self.have(FIRST=2, FEW=1)

    def test_places(self):
        # Catches: a mutant that is run where its place is not, that is not where it is, or that is found there.
        self.places("1 3 5/-1 1 3 5")
        self.assertEqual(self.run_all(), [0, 1, 3, 5])
        rows = report.rows_of(self.store, "t")["default, seed 0"]
        self.assertEqual([rows[p.id]["found"] for p in self.mutants.values()], [0, 0, 1, 0, 1])
        self.assertEqual(self.run_all(), [])
        tested = {n: self.mutants[n] for n in (1, 2)}
        self.assertEqual(self.run_all("other", tested, ["/bin/true"]), [0, 1])  # the second by the test alone

    def test_cases(self):
        # Catches: a case of a mutant that is left out; a part of the plan that counts as one that measured too little;
        # a place that was run outside of every case, or by who tells no case, tried in a part; cases miscounted.
        self.places("1 2 3 5/3 1 2,4 1 5,-1 5")
        few = {n: self.mutants[n] for n in (1, 2, 3, 5)}
        self.run_all(mutants=few)
        self.assertEqual(self.ran, ["0:012345", "1:0134", "2:013", "3:012345", "5:012345"])
        rows = report.rows_of(self.store, "t")["default, seed 0"]
        self.assertEqual([(rows[p.id]["found"], rows[p.id]["cases"]) for p in few.values()],
                         [(0, 6), (1, 4), (1, 6), (1, 6)])

    def test_other_verdicts(self):
        # Catches: a mutant whose cases come out otherwise, and whose survival is that of the run without it.
        self.places("1/3 1", OTHER="3")
        self.run_all(mutants={1: self.mutants[1]})
        self.assertEqual(self.ran, ["0:012345", "1:012345", "1:013"])
        row = report.rows_of(self.store, "t")["default, seed 0"][self.mutants[1].id]
        self.assertEqual((row["found"], json.loads(row["verdicts"])), (0, {"equal": 5, "explained": 1}))

    def test_usage(self):
        # Catches: a plan whose options the program does not know, as mutants found.
        self.run_all(mutants={1: self.mutants[1]})
        self.program.write_text("#!/bin/sh\nexit 2\n")
        with self.assertRaises(SystemExit):
            self.run_all()

    def test_time(self):
        # Catches: a campaign that goes on when its time is over, or that keeps what it did not try.
        campaign.run(self.store, self.folder / "build", "t", 5, self.mutants, campaign.Plan(), self.folder / "runs", 2,
                     lambda text: None, seconds=0)
        self.assertEqual(report.rows_of(self.store, "t"), {})

    def test_baseline(self):
        # Catches: mutants that are found because the woven program is broken without them.
        self.program.write_text("#!/bin/sh\nexit 1\n")
        with self.assertRaises(SystemExit):
            self.run_all()

    def tried(self, plans=("default, seed 0",)):
        """What the campaign kept, as tried.txt has it."""
        of = report.rows_of(self.store, "t")
        nobody = campaign.nobodys(self.store, "t", campaign.Plan())
        return {id_: tried.of_store(row, nobody, "abc", 0) for name in plans for id_, row in of[name].items()}

    def test_score(self):
        # Catches: a score of other mutants than those that count; a class below its least that is not red.
        self.run_all()
        rows = self.tried()
        one = self.mutants[1].id
        counts = lambda rows, same: [report.scores(rows.values(), same)[-1][key]
                                     for key in ("of", "mutants", "equivalent", "found", "later")]
        self.assertEqual(counts(rows, {}), ["all", 5, 0, 4, 0])
        longer = {one: {**rows[one], "how": "different", "plan": 300000}}
        self.assertEqual(counts(rows | longer, {}), ["all", 5, 0, 4, 1])
        self.assertEqual(counts(rows, {one: "why"}), ["all", 4, 1, 4, 0])
        listed = self.folder / "same.txt"
        for text in ("", f"# x\n{one}\twhy\n"):  # 4 of 5, or one of five equivalent: red, both
            listed.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                points = {p.id: p for p in self.mutants.values()}
                self.assertTrue(report.report(rows, points, 0, report.equivalents(listed))["red"])
            self.assertEqual("survived" in said.getvalue(), not text)

    def test_tried(self):
        # Catches: a column that is lost or moved on its way to the file and back; a survivor that comes back as found;
        # a survivor's other verdicts, of which one more explained would be a hole in the judge.
        self.places("1/3 1", OTHER="3")
        self.run_all(mutants={n: self.mutants[n] for n in (1, 2)})
        rows, file = self.tried(), self.folder / "tried.txt"
        tried.write(file, rows)
        self.assertEqual(tried.read(file), rows)
        self.assertEqual(tried.read(self.folder / "none.txt"), {})
        one, two = (rows[self.mutants[n].id] for n in (1, 2))
        self.assertEqual((one["how"], one["more"], one["reached"], one["operator"]), ("", "explained 1", 0, "x"))
        self.assertTrue(tried.survived(one) and tried.survived(two) and not tried.found_later(one))
        found = {**one, "how": "different", "plan": 0}
        self.assertTrue(tried.by_a_case(found) and not tried.by_a_case({**found, "how": "test a_test"}))
        self.assertFalse(tried.by_a_case({**found, "plan": 5}) or tried.by_a_case(one))

    def test_red(self):
        # Catches: a class that is red at its least, or green below it.
        line = {"mutants": 100, "equivalent": 0, "found": 85}
        self.assertFalse(report.is_red(line))
        self.assertTrue(report.is_red({**line, "found": 84}))
        self.assertFalse(report.is_red({**line, "mutants": 92, "equivalent": 8}))
        self.assertTrue(report.is_red({**line, "mutants": 91, "equivalent": 9}))

    def test_goals(self):
        # Catches: a goal that is met below what was promised, or missed at it.
        line = {"mutants": 100, "found": 97, "later": 2, "cases": 199}
        holds = lambda changed={}, explained=(): [met for _, met in report.goals(line | changed, explained)]
        self.assertEqual(holds(), [True] * 4)
        self.assertEqual(holds({"found": 96}, ["one"]), [False, False, True, False])
        self.assertEqual(holds({"later": 1, "cases": 200}), [True, False, False, True])

    def test_suites(self):
        # Catches: a suite of the table in which no mutant of the engine is tried.
        table = (ROOT / "suites/table.cpp").read_text()
        tried_in = classes.SUITES["engine"][1].split(",")
        self.assertEqual(sorted(re.findall(r'^      \{"(\w+)",', table, re.M)), sorted([*tried_in, "faults"]))

    def test_names(self):
        # Catches: an explanation of another op that counts as right, and an overload that counts as another op.
        self.assertTrue(campaign.names_right("aten::sum.dim_IntList", ["aten::mul", "aten::sum"]))
        self.assertTrue(campaign.names_right("lockstep::redistribute", ["aten::mul"]))
        self.assertFalse(campaign.names_right("aten::sum", ["aten::mul"]))
        self.assertFalse(campaign.names_right("lockstep::redistribute", []))


if __name__ == "__main__":
    unittest.main()
