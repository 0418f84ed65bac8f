# SPDX-License-Identifier: Apache-2.0
"""Looks for each mutant's first finding with the woven program, and keeps what came of it. What is kept for this tree and plan is
not run again: a campaign that was cut goes on. A run without a mutant comes first, and says whose places each case runs, and what
came of it. Then each is tried by itself in the first cases of the plan and by the tests that look at it; those that are left are
tried all at once in the whole plan, and each of them by itself in the cases that came out otherwise, until none does: all that
are left survive the plan."""
import concurrent.futures, dataclasses, json, math, os, shutil, signal, sqlite3, subprocess, time

import classes
from census import MOST, Census

TABLE = """CREATE TABLE IF NOT EXISTS outcome (
  tree TEXT, plan TEXT, id TEXT, class TEXT, operator TEXT, file TEXT, line INTEGER, what TEXT,
  found INTEGER,      -- whether the run was red
  how TEXT,           -- verdict of the first finding, or what else made it red
  code INTEGER, cases INTEGER, seconds REAL, suite TEXT, op TEXT, bucket TEXT, token TEXT, shrunk_ops INTEGER,
  explanation TEXT,
  reached TEXT,       -- ops under which the mutant's place was run, space between; NULL: under none
  named INTEGER,      -- whether the finding names one of them; NULL: it names no op
  verdicts TEXT,      -- JSON: how many cases came out how
  PRIMARY KEY (tree, plan, id)) STRICT;
-- Who was not found by itself, in the first cases and by the tests.
CREATE TABLE IF NOT EXISTS begun (tree TEXT, plan TEXT, id TEXT, PRIMARY KEY (tree, plan, id)) STRICT"""
NOBODY = ""  # the id of the run without a mutant
FIRST = 1000  # cases of the plan that each is tried in by itself
HANG = 120    # seconds without a sign of life
HANG_OF_ALL = 20  # where many cases may hang
NOT_MEASURED = 5  # the exit code of a run that measured too little
# What verdicts were, to which `lockstep run` holds the default plan unless it is told not to.
BASELINE = classes.ROOT / "golden/baseline.db"


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
    store.executescript(TABLE)
    return store


def put(store, row):
    marks = ", ".join("?" * len(row))
    store.execute(f"INSERT OR REPLACE INTO outcome ({', '.join(row)}) VALUES ({marks})".replace("class,", '"class",'),
                  list(row.values()))
    store.commit()


def known(store, tree, plan, table="outcome"):
    return {row["id"] for row in store.execute(f"SELECT id FROM {table} WHERE tree = ? AND plan = ?", (tree, plan.name))}


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


def run_plan(build, numbers, plan, options, work, environment, cases=None):
    """@param cases None: all of the plan  @returns the exit code, how many cases the plan was then at, what came of each"""
    command = [build / "ci/program/lockstep", "run", "--no-corpus", "--db", "run.db", "--report", "", *plan.options, *options]
    fresh_folder(work)
    far, verdicts = work / "far", work / "verdicts"
    far.write_bytes(bytes(8))
    verdicts.write_bytes(bytes(MOST))
    environment = {**environment, "LOCKSTEP_MUTANT": ",".join(map(str, numbers)), "LOCKSTEP_MUTANT_FAR": str(far),
                   "LOCKSTEP_MUTANT_VERDICTS": str(verdicts)}
    if cases is not None:
        (work / "cases").write_bytes(bytes(n in cases for n in range(max(cases, default=0) + 1)).ljust(MOST, b"\0"))
        environment["LOCKSTEP_MUTANT_CASES"] = str(work / "cases")
    code = execute(command, environment, work, plan.patience)
    if code == 2 and not (work / "run.db").exists():
        raise SystemExit(f"mutate: {' '.join(map(str, command))} is not understood; see {work}/out.txt")
    return code, int.from_bytes(far.read_bytes(), "little"), verdicts.read_bytes()


def outcome(plan, code, red, work):
    """The columns that a run fills."""
    row = {"plan": plan.name, "id": NOBODY, "code": code, "found": int(bool(red)), "how": red or ""}
    row |= first_finding(work / "run.db")
    if (work / "ops.txt").exists():
        row["reached"] = " ".join(sorted(set((work / "ops.txt").read_text().split())))
    if row.get("op"):
        row["named"] = int(names_right(row["op"], (row.get("reached") or "").split()))
    return row


def try_one(build, point, number, plan, folder, tests=(), census=None, cases=None):
    """@param cases None: of the whole plan; else those of them that run its place, and if none of them comes out otherwise it may
    survive  @returns its row, without tree; None: nothing was found in these cases, or by these tests"""
    work, began = folder / f"run-{number}", time.monotonic()
    switch = {**os.environ, "LOCKSTEP_MUTANT_OPS": str(work / "ops.txt")}
    alone = ["--fail-fast", "--jobs", "1", "--hang", str(HANG)]
    own = classes.plan_of(point)
    among = None if cases is None or own else census.among(number, cases) if number in census.run else set()
    if among is not None and not among:
        code, far = 0, 0
        fresh_folder(work)
    else:
        whole = plan.whole if among is None and not own else []
        code, far, verdicts = run_plan(build, [number], plan, [*alone, *(own or plan.suites), *whole], work, switch, among)
        if among is not None and code in (0, NOT_MEASURED):  # which a part of a plan is
            if census.others(verdicts, among):
                return try_one(build, point, number, plan, folder, tests)
            code = 0
    red = noticed_by(build, tests, {**switch, "LOCKSTEP_MUTANT": str(number)}, work) if code == 0 else how_it_ended(code)
    row = outcome(plan, code, red, work) | who(point)
    if row["found"] and far:
        row["cases"] = far
    row["seconds"] = time.monotonic() - began
    if not row["found"] or row.get("suite"):
        shutil.rmtree(work)
    return row if row["found"] or among is None else None


def try_nobody(build, last, plan, folder, jobs, tests=()):
    """The run without a mutant. @param last the highest number woven in  @returns its row, without tree"""
    census, work, began = Census(folder), folder / "run-0", time.monotonic()
    census.begin(last)
    switch = {**os.environ, "LOCKSTEP_MUTANT_PLACES": str(census.places)}
    options = ["--fail-fast", "--jobs", str(jobs), "--hang", str(HANG), *plan.suites]
    code, _, verdicts = run_plan(build, [0], plan, options, work, switch)
    census.verdicts_file.write_bytes(verdicts)
    red = noticed_by(build, tests, {**os.environ, "LOCKSTEP_MUTANT": "0"}, work) if code == 0 else how_it_ended(code)
    return outcome(plan, code, red, work) | {"seconds": time.monotonic() - began}


def nobodys(store, tree, plan):
    return store.execute("SELECT * FROM outcome WHERE tree = ? AND plan = ? AND id = ?", (tree, plan.name, NOBODY)).fetchone()


def survivor(nobody, point, reached):
    """The row of a mutant that changed nothing: that of the run without one."""
    kept = {k: nobody[k] for k in ("plan", "code", "found", "how", "cases", "verdicts")}
    return kept | who(point) | {"seconds": 0.0, "reached": "" if reached else None}


def try_all(build, mutants, plan, folder, jobs, tests_of=lambda point: (), end=math.inf, census=None, cases=None):
    """Yields (number, row or None) as they come. @param mutants {number: Point}; none is begun after `end`, by the clock"""
    def in_time(number, point):
        if time.monotonic() < end:
            return number, try_one(build, point, number, plan, folder, tests_of(point), census, cases)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(in_time, number, point) for number, point in mutants.items()]
        try:
            for future in concurrent.futures.as_completed(waiting):
                if future.result() is not None:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def all_at_once(build, mutants, plan, folder, jobs, census):
    """The cases of the plan that come out otherwise with all of these than with none."""
    options = ["--jobs", str(jobs), "--hang", str(HANG_OF_ALL), *plan.suites]
    _, _, verdicts = run_plan(build, list(mutants), plan, options, folder / "run-all", os.environ)
    return census.others(verdicts)


def run(store, build, tree, last, mutants, plan, folder, jobs, say, tests=(), seconds=math.inf):
    """@param build the folder of the woven build  @param last the highest number woven in
    @param mutants {number: Point}; those that the store knows are left out"""
    of_plan, end = folder / plan.name.replace(", ", "-").replace(" ", "-"), time.monotonic() + seconds
    census, nobody = Census(of_plan), nobodys(store, tree, plan)
    if nobody is None or not census.there():
        asked = sorted({*tests, *(test for point in mutants.values() for test in classes.tests_of(point))})
        row = try_nobody(build, last, plan, of_plan, jobs, asked)
        if row["found"]:
            raise SystemExit(f"mutate: the woven program ends with {row['code']} ({row['how']}) without a mutant;"
                             f" see {of_plan}/run-0")
        put(store, {"tree": tree, **row})
        nobody = nobodys(store, tree, plan)
    census.read()
    left = {number: point for number, point in mutants.items() if point.id not in known(store, tree, plan)}
    say(f"{len(mutants) - len(left)} of {len(mutants)} mutants are done")

    def done(number, row):
        put(store, {"tree": tree, **row})
        del left[number]
        say(f"{len(left)} left; {row['how'] or 'SURVIVED'} after {row['cases']}: {row['id']}: {row['what']}")

    def begin():
        begun = known(store, tree, plan, "begun")
        some = {number: point for number, point in left.items() if point.id not in begun}
        for number, row in try_all(build, some, plan, of_plan, jobs, lambda point: [*tests, *classes.tests_of(point)], end,
                                   census, set(range(FIRST))):
            if row is not None:
                done(number, row)
            else:
                store.execute("INSERT INTO begun VALUES (?, ?, ?)", (tree, plan.name, some[number].id))
                store.commit()

    def try_each(group, cases):
        """@returns who of them is left"""
        for number, row in try_all(build, group, plan, of_plan, jobs, end=end, census=census, cases=cases):
            if row is not None:
                done(number, row)
        return {number: point for number, point in group.items() if number in left}

    def settle(group, tried=frozenset()):
        """@param tried cases in which each of them changes nothing by itself"""
        while group and time.monotonic() < end:
            cases = all_at_once(build, group, plan, of_plan, jobs, census)
            say(f"{len(group)} at once: {len(cases)} cases come out otherwise")
            if not cases:
                for number, point in group.items():
                    done(number, survivor(nobody, point, number in census.run))
                return
            rest = group if cases <= tried else try_each(group, cases)
            if len(rest) == len(group):  # it takes several of them
                if len(group) <= 2:
                    try_each(group, None)
                else:
                    numbers = list(group)
                    for half in (numbers[::2], numbers[1::2]):
                        settle({number: group[number] for number in half}, tried | cases)
                return
            group = rest

    begin()
    settle(dict(left))
