# SPDX-License-Identifier: Apache-2.0
"""Runs the woven program once for each mutant, until its first finding, and keeps what came of it. What is kept for this tree
and plan is not run again: a campaign that was cut goes on. A run without a mutant comes first, and says whose places each case
runs: a mutant is tried in those cases, and survives without a run where there are none."""
import concurrent.futures, dataclasses, json, math, os, pathlib, shutil, signal, sqlite3, subprocess, time

import classes
from census import Census

TABLE = """CREATE TABLE IF NOT EXISTS outcome (
  tree TEXT, plan TEXT, id TEXT, class TEXT, operator TEXT, file TEXT, line INTEGER, what TEXT,
  found INTEGER,      -- whether the run was red
  how TEXT,           -- verdict of the first finding, or what else made it red
  code INTEGER, cases INTEGER, seconds REAL, suite TEXT, op TEXT, bucket TEXT, token TEXT, shrunk_ops INTEGER,
  explanation TEXT,
  reached TEXT,       -- ops under which the mutant's place was run, space between; NULL: under none
  named INTEGER,      -- whether the finding names one of them; NULL: it names no op
  verdicts TEXT,      -- JSON: how many cases came out how
  PRIMARY KEY (tree, plan, id)) STRICT"""
NOBODY = ""  # the id of the run without a mutant
HANG = 120   # seconds without a sign of life
NOT_MEASURED = 5  # the exit code of a run that measured too little
# What verdicts were, to which `lockstep run` holds the default plan unless it is told not to.
BASELINE = pathlib.Path(__file__).resolve().parent.parent.parent / "golden/baseline.db"


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long a mutant is looked for: the default plan, or so many cases. @param suites options that name them: () for all"""
    cases: int = 0
    seed: int = 0
    suites: tuple = ()

    @property
    def name(self):
        return f"{self.cases or 'default'}, seed {self.seed}"

    @property
    def options(self):
        return ["--seed", str(self.seed)] + (["--cases", str(self.cases)] if self.cases else [])

    @property
    def whole(self):
        """The options of a run of all its cases."""
        return ["--baseline", str(BASELINE)] if self.cases == 0 and self.seed == 0 else []

    @property
    def patience(self):
        """Seconds after which a run is taken for one that does not end."""
        return 1200 + self.cases / 20


def open_store(path):
    store = sqlite3.connect(path, timeout=60)
    store.row_factory = sqlite3.Row
    store.execute(TABLE)
    return store


def put(store, row):
    marks = ", ".join("?" * len(row))
    store.execute(f"INSERT OR REPLACE INTO outcome ({', '.join(row)}) VALUES ({marks})".replace("class,", '"class",'),
                  list(row.values()))
    store.commit()


def known(store, tree, plan):
    return {row["id"] for row in store.execute("SELECT id FROM outcome WHERE tree = ? AND plan = ?", (tree, plan.name))}


def first_finding(db):
    """What the run's own database says of the first case that failed, and of all cases."""
    found = {"cases": 0, "verdicts": "{}"}
    if not db.exists():
        return found
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as store:
        store.row_factory = sqlite3.Row
        verdicts = dict(store.execute("SELECT verdict, count(*) FROM cases GROUP BY verdict").fetchall())
        found |= {"cases": sum(verdicts.values()), "verdicts": json.dumps(verdicts)}
        case = store.execute("""SELECT suite, op, bucket, token, verdict, self_check, explanation FROM cases
                                JOIN verdict ON verdict.name = cases.verdict WHERE failure = 1
                                ORDER BY cases.id LIMIT 1""").fetchone()
        if case is None:
            return found
        small = store.execute("SELECT token, ops FROM failure WHERE bucket = ?", (case["bucket"],)).fetchone()
        found |= {k: case[k] for k in ("suite", "op", "bucket", "token", "explanation")}
        found["how"] = "self-check" if case["self_check"] else case["verdict"]
        if small is not None:
            found |= {"token": small["token"], "shrunk_ops": small["ops"]}
    return found


def how_it_ended(code):
    if code is None:
        return "does not end"
    names = {1: "worse verdicts", 3: "broken", 5: "not measured", 8: "self-check"}
    return f"signal {-code}" if code < 0 else names.get(code, f"exit {code}")


def execute(command, env, cwd, patience):
    """@returns the exit code; None: it was ended after so many seconds"""
    with open(cwd / "out.txt", "w") as out:
        process = subprocess.Popen(command, env=env, cwd=cwd, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def names_right(op, reached):
    """Whether an op is one under which the mutant was reached: an overload of it, or a move that one asked for."""
    return op == "lockstep::redistribute" and bool(reached) or op.partition(".")[0] in reached


def noticed_by(build, tests, env, work):
    """Which test of these is red, the first; None: none."""
    for test in tests:
        if execute([str(build / test)], env, work, 600) != 0:
            return f"test {test.rpartition('/')[2]}"
    return None


def who(point):
    return {"id": point.id, "class": classes.class_of(point), "operator": point.operator, "file": point.file,
            "line": point.line, "what": point.what}


def fresh_folder(work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def run_plan(build, number, plan, jobs, options, work, environment, wanted):
    """@param wanted None, or a byte for each case: 0 leaves it out  @returns (exit code, how many cases the plan was then at)"""
    command = [build / "ci/program/lockstep", "run", "--fail-fast", "--no-corpus", "--jobs", str(jobs), "--db", "run.db",
               "--report", "", "--hang", str(HANG), *plan.options, *options]
    fresh_folder(work)
    far = work / "far"
    far.write_bytes(bytes(8))
    environment["LOCKSTEP_MUTANT_FAR"] = str(far)
    if wanted is not None:
        (work / "cases").write_bytes(wanted)
        environment["LOCKSTEP_MUTANT_CASES"] = str(work / "cases")
    code = execute(command, environment, work, plan.patience)
    if code == 2 and not (work / "run.db").exists():
        raise SystemExit(f"mutate: {' '.join(map(str, command))} is not understood; see {work}/out.txt")
    return code, int.from_bytes(far.read_bytes(), "little")


def outcome(plan, code, red, work):
    """The columns that a run fills."""
    row = {"plan": plan.name, "id": NOBODY, "code": code, "found": int(bool(red)), "how": red or ""}
    row |= first_finding(work / "run.db")
    if (work / "ops.txt").exists():
        row["reached"] = " ".join(sorted(set((work / "ops.txt").read_text().split())))
    if row.get("op"):
        row["named"] = int(names_right(row["op"], (row.get("reached") or "").split()))
    return row


def try_one(build, point, number, plan, folder, tests=(), census=None):
    """@param census None: it is tried in all cases  @returns its row, without tree"""
    work, began = folder / f"run-{number}", time.monotonic()
    switch = {**os.environ, "LOCKSTEP_MUTANT": str(number), "LOCKSTEP_MUTANT_OPS": str(work / "ops.txt")}
    own, tests = classes.plan_of(point), [*tests, *classes.tests_of(point)]
    of_census = census is not None and not own
    wanted = census.wanted(number) if of_census else None
    if of_census and number not in census.run:  # the plan never goes there: the tests may
        code, far, work = 0, 0, fresh_folder(work)
    else:
        whole = plan.whole if wanted is None and not own else []
        code, far = run_plan(build, number, plan, 1, [*(own or plan.suites), *whole], work, dict(switch), wanted)
    if wanted is not None and code in (0, NOT_MEASURED):  # which a part of a plan is
        if census.has_other_verdicts(work / "run.db"):
            return try_one(build, point, number, plan, folder, tests)
        code = 0
    red = noticed_by(build, tests, switch, work) if code == 0 else how_it_ended(code)
    row = outcome(plan, code, red, work) | who(point)
    if row["found"] and far:
        row["cases"] = far
    if not row["found"] and of_census and (wanted is not None or number not in census.run):
        row["verdicts"] = None  # those of the run without it
    row["seconds"] = time.monotonic() - began
    if not row["found"] or row.get("suite"):
        shutil.rmtree(work)
    return row


def try_nobody(build, last, plan, folder, jobs, tests=()):
    """The run without a mutant. @param last the highest number woven in  @returns its row, without tree"""
    census, work, began = Census(folder), folder / "run-0", time.monotonic()
    census.begin(last)
    switch = {**os.environ, "LOCKSTEP_MUTANT": "0", "LOCKSTEP_MUTANT_PLACES": str(census.places)}
    code, _ = run_plan(build, 0, plan, jobs, plan.suites, work, switch, None)
    red = noticed_by(build, tests, {**os.environ, "LOCKSTEP_MUTANT": "0"}, work) if code == 0 else how_it_ended(code)
    row = outcome(plan, code, red, work) | {"seconds": time.monotonic() - began}
    if (work / "run.db").exists():
        shutil.move(work / "run.db", census.database)
    return row


def as_without(nobody, point):
    """The row of a mutant that changes nothing: that of the run without one."""
    kept = {k: nobody[k] for k in ("plan", "code", "found", "how", "cases", "verdicts")}
    return kept | who(point) | {"seconds": 0.0}


def try_all(build, mutants, plan, folder, jobs, tests=(), seconds=math.inf, census=None):
    """Yields the rows as they come. @param mutants {number: Point}; none is begun after so many seconds"""
    end = time.monotonic() + seconds

    def in_time(*job):
        return try_one(*job) if time.monotonic() < end else None
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(in_time, build, point, number, plan, folder, tests, census)
                   for number, point in mutants.items()]
        try:
            for future in concurrent.futures.as_completed(waiting):
                if (row := future.result()) is not None:
                    yield row
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def nobodys(store, tree, plan):
    return store.execute("SELECT * FROM outcome WHERE tree = ? AND plan = ? AND id = ?", (tree, plan.name, NOBODY)).fetchone()


def run(store, build, tree, last, mutants, plan, folder, jobs, say, tests=(), seconds=math.inf):
    """@param build the folder of the woven build  @param last the highest number woven in
    @param mutants {number: Point}; those that the store knows are left out"""
    of_plan = folder / plan.name.replace(", ", "-").replace(" ", "-")
    census, nobody = Census(of_plan), nobodys(store, tree, plan)
    if nobody is None or not census.database.exists():
        asked = sorted({*tests, *(test for point in mutants.values() for test in classes.tests_of(point))})
        row = try_nobody(build, last, plan, of_plan, jobs, asked)
        if row["found"]:
            raise SystemExit(f"mutate: the woven program ends with {row['code']} ({row['how']}) without a mutant;"
                             f" see {of_plan}/run-0")
        put(store, {"tree": tree, **row})
        nobody = nobodys(store, tree, plan)
    census.read()
    left = {number: point for number, point in mutants.items() if point.id not in known(store, tree, plan)}
    for number in [] if tests else [n for n, point in left.items() if n not in census.run
                                    and not classes.plan_of(point) and not classes.tests_of(point)]:
        put(store, {"tree": tree, **as_without(nobody, left.pop(number))})
    say(f"{len(mutants) - len(left)} of {len(mutants)} mutants are done, or are where the plan never goes")
    for at, row in enumerate(try_all(build, left, plan, of_plan, jobs, tests, seconds, census), 1):
        if row["verdicts"] is None:
            row |= {k: nobody[k] for k in ("cases", "verdicts")}
        put(store, {"tree": tree, **row})
        say(f"{at}/{len(left)} {row['how'] or 'SURVIVED'} after {row['cases']}: {row['id']}: {row['what']}")
