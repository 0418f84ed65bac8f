#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each test states which fault of a campaign of ci/mutate it would catch."""
import contextlib, io, json, os, pathlib, re, subprocess, sys, tempfile, unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))
import campaign, census, classes, points, record, report, tried  # noqa: E402
import testing_store  # noqa: E402
from weave import ORIGINAL, SWITCH, Edit  # noqa: E402


def point(file, operator, number, start=0):
    return points.Point(file, 1, "f", operator, "", (Edit(start, start + 1, f"{SWITCH}{ORIGINAL}"),), str(number))


class Switch(unittest.TestCase):
    CODE = """// SPDX-License-Identifier: Apache-2.0
#include "ci/mutants/switch.h"
const bool before = lockstep_mutant(1);
void place(int number) {
  if (lockstep_mutant(number)) std::printf("[%d]", number);
}
int main() {
  for (long number = 0; number < 4; ++number) {
    if (!lockstep_case_begins(number)) continue;
    std::printf("%ld", number);
    place(2);
    if (number % 2 == 1) place(3);
    lockstep_case_ended(number, 6, 8);
  }
  lockstep_case_begins(-1);
  place(4);  // told by no line, as of a process that is no worker
  if (lockstep_shrinks_nothing()) std::printf("!");
}
"""

    def test_cases(self):
        # Catches: a place told under another case, or lost; a case that is left out and runs, or the reverse; a plan
        # that is said to be further than the last case that ran; a verdict told of another case; one of several
        # numbers that is not on, or one that is and was not asked for.
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "it.cpp").write_text(self.CODE)
            subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}",
                            "-o", folder / "it", folder / "it.cpp"], check=True)

            def run(**variables):
                return subprocess.run([folder / "it"], env=variables, check=True, capture_output=True).stdout
            self.assertEqual(run(), b"0123")
            self.assertEqual(run(LOCKSTEP_MUTANT="0"), b"0123")
            self.assertEqual(run(LOCKSTEP_MUTANT="3"), b"01[3]23[3]")
            self.assertEqual(run(LOCKSTEP_MUTANT="4,3"), b"01[3]23[3][4]!")
            of = census.Census(folder)
            of.begin(4)
            self.assertEqual(run(LOCKSTEP_MUTANT_PLACES=str(of.places)), b"0123")
            of.read()
            self.assertEqual((of.run, dict(of.cases_of)), ({1, 2, 3, 4}, {1: {-1}, 2: {0, 1, 2, 3}, 3: {1, 3}}))
            (folder / "cases").write_bytes(b"\0\1\0\0")
            (folder / "far").write_bytes(bytes(8))
            (folder / "verdicts").write_bytes(bytes(4))
            only = {f"LOCKSTEP_MUTANT_{name}": str(folder / name.lower()) for name in ("CASES", "FAR", "VERDICTS")}
            self.assertEqual(run(**only), b"1")
            self.assertEqual(int.from_bytes((folder / "far").read_bytes(), "little"), 2)
            self.assertEqual((folder / "verdicts").read_bytes(), b"\0\xf7\0\0")


class Few(unittest.TestCase):
    def test_among(self):
        # Catches: what a process makes once, and all its cases use, tried in those alone that made it; a case tried
        # that does not run the place.
        self.addCleanup(setattr, census, "FEW", census.FEW)
        of = census.Census("nowhere")
        of.cases_of = {1: {-1}, 2: {0, 1, 2, 3}, 3: {1, 3}}
        census.FEW = 2
        self.assertEqual([of.among(n, {1, 2}) for n in (1, 2, 3, 4)], [{1, 2}, {1, 2}, {1}, {1, 2}])
        census.FEW = 3
        self.assertEqual(of.among(3, {1, 2}), {1, 2})


class Campaign(unittest.TestCase):
    # Mutants 2 to 5 fail wherever they run. LATE: in which case those that are on change the verdict, and to what.
    PROGRAM = """#!/usr/bin/env python3
import os, signal, sqlite3, sys, time
CASES = 6
on = {int(n) for n in os.environ["LOCKSTEP_MUTANT"].split(",")}
wanted = os.environ.get("LOCKSTEP_MUTANT_CASES")
wanted = open(wanted, "rb").read()[:CASES] if wanted else bytes([1] * CASES)
cases = [n for n, byte in enumerate(wanted) if byte]
open(os.environ["OUT"], "a").write(f"{'+'.join(map(str, sorted(on)))}:{''.join(map(str, cases))}\\n")
if on == {0}:
    places = os.environ["LOCKSTEP_MUTANT_PLACES"]
    run, lines = os.environ.get("PLACES", "0 1 2 3 4 5/-1 1 2 3 4 5").split("/")
    run = bytes(int(str(n) in run.split()) for n in range(os.path.getsize(places)))
    open(places, "wb").write(run)
    open(places + ".cases", "w").write("0\\n5\\n" + lines.replace(",", "\\n") + "\\n")
verdicts = {n: "equal" for n in cases}
for late in os.environ.get("LATE", "").split():
    who, case, verdict = late.split(":")
    if {int(n) for n in who.split("+")} <= on and int(case) in verdicts: verdicts[int(case)] = verdict
store = sqlite3.connect("run.db")
store.executescript("CREATE TABLE verdict (name, failure); INSERT INTO verdict VALUES ('equal', 0), ('explained', 0),"
                    "('different', 1); CREATE TABLE failure (bucket, token, ops);"
                    "CREATE TABLE cases (id, suite, op, bucket, token, verdict, self_check, explanation)")
bytes_ = bytearray(os.path.getsize(os.environ["LOCKSTEP_MUTANT_VERDICTS"]))
for n, verdict in verdicts.items():
    store.execute("INSERT INTO cases VALUES (?, 's', '', '', '', ?, 0, '')", (n, verdict))
    bytes_[n] = 1 + ["equal", "explained", "different"].index(verdict)
store.commit()
open(os.environ["LOCKSTEP_MUTANT_VERDICTS"], "wb").write(bytes_)
open(os.environ["LOCKSTEP_MUTANT_FAR"], "wb").write((cases[-1] + 1).to_bytes(8, "little"))
if on == {3}: os.kill(os.getpid(), signal.SIGSEGV)
if on == {4}: time.sleep(60)
ends = 1 if "different" in verdicts.values() else {2: 1, 5: 8}.get(max(on), 0)
sys.exit(ends or 5 * (len(cases) < CASES))
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
        self.have(FIRST=2)
        self.store = campaign.open_store(self.folder / "db")

    def run_all(self, tree_="t", mutants=None, tests=()):
        class Short(campaign.Plan):
            patience = 3
        campaign.run(self.store, self.folder / "build", tree_, 9, mutants or self.mutants, Short(),
                     self.folder / "runs", 2, lambda text: None, tests)
        out = self.folder / "out"
        self.ran = sorted(out.read_text().split()) if out.exists() else []
        out.unlink(missing_ok=True)
        return [line.split(":")[0] for line in self.ran]

    def have(self, **constants):
        """Those of the campaign, until the test ends."""
        for name, value in constants.items():
            self.addCleanup(setattr, campaign, name, getattr(campaign, name))
            setattr(campaign, name, value)

    def rows(self, tree_="t"):
        return report.rows_of(self.store, tree_)["default, seed 0"]

    def test_how(self):
        # Catches: a crash, a hang or a red without a finding that counts as survival, and the reverse.
        self.assertEqual(self.run_all(), ["0", "1", "1", "2", "3", "4", "5"])
        rows = self.rows()
        self.assertEqual([(rows[p.id]["found"], rows[p.id]["how"]) for p in self.mutants.values()],
                         [(0, ""), (1, "worse verdicts"), (1, "signal 11"), (1, "does not end"), (1, "self-check")])

    def blind(self, text):
        """@returns the name of a test that is this script"""
        test = self.folder / "build/x/blind_test"
        test.parent.mkdir()
        test.write_text(f"#!/bin/sh\n{text}\n")
        test.chmod(0o755)
        return "x/blind_test"

    def test_adversaries(self):
        # Catches: a survivor of the run that a test notices, and is still called one; a test that is not asked.
        few = {n: self.mutants[n] for n in (1, 2)}
        self.run_all(mutants=few, tests=[self.blind("[ $LOCKSTEP_MUTANT != 1 ]")])
        rows = self.rows()
        self.assertEqual([(rows[p.id]["found"], rows[p.id]["how"]) for p in few.values()],
                         [(1, "test blind_test"), (1, "worse verdicts")])

    def test_tested(self):
        # Catches: what no plan runs and a test asks for, called a survivor unasked; a plan that is run for it in vain;
        # a test of one function asked of another.
        self.places("1 3/-1 1 3")
        test = self.blind("[ $LOCKSTEP_MUTANT = 0 ] || [ $LOCKSTEP_MUTANT = 2 ]")
        self.addCleanup(setattr, campaign.classes, "TESTED", campaign.classes.TESTED)
        campaign.classes.TESTED = {"engine/ops/a.cpp:f": [test], "engine/ops/a.cpp:g": ["none"]}
        self.assertEqual(self.run_all(), ["0", "1", "2", "3"])
        rows = self.rows()
        self.assertEqual([rows[p.id]["how"] for p in self.mutants.values()],
                         ["test blind_test", "", "signal 11", "test blind_test", "test blind_test"])

    def test_resume(self):
        # Catches: a campaign that begins anew, or that takes another tree's results for this one's.
        few = {n: self.mutants[n] for n in (1, 2)}
        self.assertEqual(self.run_all(mutants=few), ["0", "1", "1", "2"])
        self.assertEqual(self.run_all(), ["3", "4", "5"])
        self.assertEqual(self.run_all(), [])
        self.assertEqual(self.run_all("other", few), ["0", "1", "1", "2"])

    def test_begun(self):
        # Catches: a campaign that was cut, and tries by itself who was tried so; one that takes them for tried out.
        one = {1: self.mutants[1]}
        self.run_all(mutants=one)
        self.store.execute("DELETE FROM outcome WHERE id <> ''")
        self.store.commit()
        self.assertEqual(self.run_all(mutants=one), ["1"])
        self.assertEqual(self.ran, ["1:012345"])

    def places(self, text, **more):
        """@param text numbers that are run / lines of cases, comma between"""
        for name, value in {"PLACES": text, **more}.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        self.addCleanup(setattr, census, "FEW", census.FEW)
        census.FEW = 1

    def test_places(self):
        # Catches: a mutant that is run where its place is not, that is not where it is, or that is found there.
        self.places("1 3 5/-1 1 3 5")
        self.assertEqual(self.run_all(), ["0", "1+2+4", "1", "3", "5"])
        rows = self.rows()
        self.assertEqual([rows[p.id]["found"] for p in self.mutants.values()], [0, 0, 1, 0, 1])
        self.assertEqual([rows[p.id]["reached"] for p in self.mutants.values()], ["", None, None, None, None])
        self.assertEqual(self.run_all(), [])

    def late(self, places, late, *numbers):
        """What is run of these mutants, and what came of each: (how, cases)."""
        self.places(places, LATE=late)
        mutants = {n: point("engine/ops/a.cpp", "x", n) for n in numbers}
        self.run_all(mutants=mutants)
        rows = self.rows()
        return self.ran, [(rows[p.id]["how"], rows[p.id]["cases"]) for p in mutants.values()]

    def test_all_at_once(self):
        # Catches: a mutant that is found late and survives, a survivor that is found with it; a case tried in vain,
        # or left out; cases miscounted; a part of the plan that counts as one that measured too little.
        ran, how = self.late("1 6 7/3 6,4 1 6 7", "6:4:different", 1, 6, 7)
        self.assertEqual(ran, ["0:012345", "1+6+7:012345", "1+7:012345", "1:4", "6:4", "7:4"])
        self.assertEqual(how, [("", 6), ("different", 5), ("", 6)])

    def test_hidden(self):
        # Catches: a mutant that another hides, which survives with it.
        ran, how = self.late("6 7/3 6,4 6 7", "7:4:different 6:4:equal 6:3:different", 6, 7)
        self.assertEqual(how, [("different", 4), ("different", 5)])

    def test_several(self):
        # Catches: a campaign that does not end where it takes two mutants to change a case.
        ran, how = self.late("6 7/4 6 7", "6+7:4:different", 6, 7)
        self.assertEqual(ran, ["0:012345", "6+7:012345", "6:012345", "6:4", "7:012345", "7:4"])
        self.assertEqual(how, [("", 6), ("", 6)])

    def test_halves(self):
        # Catches: a survivor that is tried in the whole plan though it has no part in what takes two others; a case in
        # which each of them was tried before, tried again.
        ran, how = self.late("1 6 7 8/4 1 6 7 8", "6+8:4:different", 1, 6, 7, 8)
        self.assertEqual(ran, ["0:012345", "1+6+7+8:012345", "1+7:012345", "1:4", "6+8:012345", "6:012345", "6:4",
                               "7:4", "8:012345", "8:4"])
        self.assertEqual(how, [("", 6)] * 4)

    def test_other_verdicts(self):
        # Catches: a mutant whose cases come out otherwise, and whose survival is that of the run without it.
        ran, how = self.late("1/3 1", "1:3:explained", 1)
        self.assertEqual((ran, how), (["0:012345", "1:012345", "1:012345", "1:3"], [("", 6)]))
        row = self.rows()[point("engine/ops/a.cpp", "x", 1).id]
        self.assertEqual((row["found"], json.loads(row["verdicts"])), (0, {"equal": 5, "explained": 1}))

    def test_usage(self):
        # Catches: a plan whose options the program does not know, as mutants found.
        self.run_all(mutants={1: self.mutants[1]})
        self.program.write_text("#!/bin/sh\nexit 2\n")
        with self.assertRaises(SystemExit):
            self.run_all()

    def test_time(self):
        # Catches: a campaign that goes on when its time is over, or that keeps what it did not try.
        campaign.run(self.store, self.folder / "build", "t", 9, self.mutants, campaign.Plan(), self.folder / "runs", 2,
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
                                     for key in ("of", "mutants", "equivalent", "found", "tests", "later")]
        self.assertEqual(counts(rows, {}), ["all", 5, 0, 4, 0, 0])
        longer = {one: {**rows[one], "how": "different", "plan": 300000}}
        self.assertEqual(counts(rows | longer, {}), ["all", 5, 0, 4, 0, 1])
        self.assertEqual(counts(rows, {one: "why"}), ["all", 4, 1, 4, 0, 0])
        tested = {one: {**rows[one], "how": "test folder/some_test"}}
        self.assertEqual(counts(rows | tested, {}), ["all", 5, 0, 5, 1, 0])
        listed = self.folder / "same.txt"
        for text in ("", f"# x\n{one}\twhy\n"):  # 4 of 5, or one of five equivalent: red, both
            listed.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                points = {p.id: p for p in self.mutants.values()}
                self.assertTrue(report.report("engine", rows, points, 0, report.equivalents(listed))["red"])
            self.assertEqual("survived" in said.getvalue(), not text)

    def test_tried(self):
        # Catches: a column that is lost or moved on its way to the file and back; a survivor that comes back as found;
        # a survivor's other verdicts, of which one more explained would be a hole in the judge.
        self.places("1/3 1", LATE="1:3:explained")
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

    def test_record(self):
        # Catches: a survivor that the report shows as found; a campaign that stands in a store twice, or in part.
        self.run_all()
        rows, file = list(self.tried().values()), self.folder / "run.db"
        with contextlib.closing(testing_store.new_store(file)) as db:
            self.assertTrue(record.record(file, "engine", "c0ffee", rows, red=True))
            self.assertFalse(record.record(file, "engine", "c0ffee", rows, red=True))
            self.assertEqual(db.execute("SELECT name, state, exit_code FROM run").fetchall(),
                             [("mutants of the engine", "finished", 1)])
            stored = {fault: found for fault, found in db.execute("SELECT fault, found FROM v_faults")}
            self.assertEqual(stored, {row["id"]: int(not tried.survived(row)) for row in rows})
            self.assertEqual(sorted(stored.values()), [0, 1, 1, 1, 1])
            with self.assertRaises(KeyError):
                record.record(file, "judge", "c0ffee", [rows[0], {"id": "half"}], red=False)
            self.assertEqual(db.execute("SELECT count(*) FROM run").fetchone(), (1,))

    def test_red(self):
        # Catches: a class that is red at its least, or green below it.
        line = {"mutants": 100, "equivalent": 0, "found": 85}
        self.assertFalse(report.is_red(line))
        self.assertTrue(report.is_red({**line, "found": 84}))
        self.assertFalse(report.is_red({**line, "mutants": 92, "equivalent": 8}))
        self.assertTrue(report.is_red({**line, "mutants": 91, "equivalent": 9}))

    def test_goals(self):
        # Catches: a goal that is met below what was promised, or missed at it.
        line = {"mutants": 100, "found": 97, "later": 2, "cases": 199, "equivalent": 0}

        def holds(changed={}, explained=(), of_class={}, scope="engine"):
            return [met for _, met in report.goals(scope, [line | of_class, line | changed], explained)]
        self.assertEqual(holds(), [True] * 5)
        self.assertEqual(holds({"found": 96}, ["one"]), [False, False, True, False, True])
        self.assertEqual(holds({"later": 1, "cases": 200}), [True, False, False, True, True])
        self.assertEqual(holds(of_class={"found": 84}), [True] * 4 + [False])
        self.assertEqual(holds({"found": 95}, scope="judge"), [True, True])
        self.assertEqual(holds({"found": 94}, of_class={"equivalent": 9}, scope="judge"), [False, False])

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
